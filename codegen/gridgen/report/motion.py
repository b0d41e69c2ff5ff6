"""Paths of robots as the data of an animation, for ``templates/report/animation.js``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gridgen.errors import DtypeError, OptionError, ShapeError
from gridgen.model.kinematic_tree import KinematicTree
from gridgen.naming import show_value
from gridgen.runtime.arrays.libraries import adopt, on_gpu
from gridgen.runtime.configurations import needs_normalizing, normalize
from gridgen.runtime.module.description import RobotRecord

#: Most states of a second, and most numbers of a page.
_PER_SECOND, _NUMBERS = 60, 5_000_000


def motion_of(
    tree: KinematicTree, robot: RobotRecord, paths: Any, dt: Any, spacing: Any
) -> dict[str, Any]:
    """Return the times of states, the paths in natural coordinates, and the robots' places.

    Raises:
        the errors of ``Robot.animate``.
    """
    step, apart = _number("dt", dt), _number("spacing", spacing)
    if step == 0.0:
        raise OptionError("dt is 0; give the time from one state to the next [s], positive")
    q = _configurations(tree, robot, paths)
    states = q.shape[1]
    every = max(1, math.floor(1.0 / (_PER_SECOND * step)))
    selected = [*range(0, states - 1, every), states - 1]
    q = q[:, selected]
    if q.size > _NUMBERS:
        raise OptionError(
            f"paths has {q.size:,} numbers for an animation, at most {_NUMBERS:,}: give fewer "
            "robots or states, for example paths[:8]"
        )
    side = math.ceil(math.sqrt(len(q)))
    places = [
        [apart * (k % side - (side - 1) / 2), apart * (k // side - (side - 1) / 2), 0.0]
        for k in range(len(q))
    ]
    return {
        "times": [round(step * k, 6) for k in selected],
        "paths": q.round(5).tolist(),
        "places": places,
    }


def _configurations(tree: KinematicTree, robot: RobotRecord, paths: Any) -> Any:
    """Return configurations (B, T, nq) with unit quaternions x y z w."""
    q: Any = adopt(paths.detach() if hasattr(paths, "detach") else paths, "paths")
    if q.dtype.kind not in "fiu":
        raise DtypeError(f"paths is of type {q.dtype}; give real numbers")
    q = np.array(q.get() if on_gpu(q) else q, float)
    if q.ndim not in (2, 3) or q.shape[-1] != tree.nq or not q.size:
        raise ShapeError(
            f"paths has shape {q.shape}; give joint positions of {tree.name}, (T, {tree.nq}) or "
            f"(B, T, {tree.nq})"
        )
    q = q if q.ndim == 3 else q[None]
    if not np.isfinite(q).all():
        one, state, _ = np.argwhere(~np.isfinite(q))[0]
        raise OptionError(
            f"paths of robot {one} is not finite at state {state}; give the states before it"
        )
    if needs_normalizing(robot.space, q, "paths"):
        q = np.ascontiguousarray(q)
        normalize(robot.space, q)
    if tree.has_mujoco_quaternions:
        for start in tree.quaternions:
            q[..., start : start + 4] = np.roll(q[..., start : start + 4], -1, axis=-1)
    return q


def _number(name: str, value: Any) -> float:
    """Return a number that is not negative.

    Raises:
        OptionError: it is none.
    """
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if isinstance(value, (bool, str)) or not 0.0 <= number < math.inf:
        what = "time from one state to the next [s]" if name == "dt" else "distance [m]"
        raise OptionError(f"{name} is {show_value(value)}; give a {what}, a positive number")
    return number
