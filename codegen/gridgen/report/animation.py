"""Robots that move on a page: along paths, or by their step in WebAssembly, held by springs."""

from __future__ import annotations

import base64
import math
import sys
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.compiler import webassembly
from gridgen.backends.cpu.units import FLAGS, plain_unit
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import DtypeError, ModelError, OptionError, ShapeError
from gridgen.kernel import Kernel, KernelKey
from gridgen.model.kinematic_tree import KinematicTree
from gridgen.naming import show_value
from gridgen.report import pictures
from gridgen.report.page import render_html, script_data
from gridgen.runtime.arrays.defaults import default
from gridgen.runtime.arrays.libraries import adopt, on_gpu
from gridgen.runtime.configurations import needs_normalizing, normalize
from gridgen.runtime.module.description import Module, RobotRecord
from gridgen.schedules.search.view import neutral_within_limits
from gridgen.version import __version__

#: Step of time [s].
_DT = 2e-3
#: Integrators, the more stable first.
_METHODS = ("implicit", "semi_implicit")
#: Force of a push across the canvas, in weights of the robot.
_PUSH = 4.0


def simulation(tree: KinematicTree, module: Module) -> tuple[str, bytes]:
    """Return the page, and the WebAssembly in it.

    Args:
        tree:   the robot.
        module: its module, which can have every kernel.

    Raises:
        ModelError:   the robot has no step, or other coordinates than Pinocchio's.
        CompileError: there is no Zig.
    """
    if tree.options.convention != "pinocchio":
        raise ModelError(f"{tree.source}: --wasm needs the default --convention")
    kernel = _step(module)
    unit = plain_unit(module.description.ident, kernel.name, "float64")
    code = webassembly(module.sources(kernel), kernel.name, unit, FLAGS, BuildCache()).read_bytes()
    q, is_posed = _start(tree)
    own = {"q": q, "dt": np.array(_DT)}
    numbers = module.description.parameters.own
    given = {
        name: own[name] if name in own else default(name, shape, q, numbers.get(name))
        for name, shape in (*kernel.inputs.items(), *kernel.outputs.items())
    }
    has_floor = bool(tree.contact_model.contacts)
    is_free = any(body.joint_type.quaternion == 3 for body in tree.bodies)
    data = {
        "arrays": [{"name": name, "values": x.ravel().tolist()} for name, x in given.items()],
        "dt": _DT,
        "springs": _springs(tree, q),
        "push": _PUSH * 9.81 * tree.total_mass,
        "floor": 0.0 if has_floor else None,
        "falls": has_floor and is_free and not is_posed,
        "code": base64.b64encode(code).decode(),
    }
    view = {
        "title": tree.name,
        "subtitle": f"{PurePath(tree.source).name} - grid-gen {__version__}",
        "scene": script_data(pictures.scene(tree) | {"start": q.tolist()}),
        "data": script_data(data),
    }
    return render_html("simulation.html.jinja", view), code


def _step(module: Module) -> Kernel:
    """Return a step that reads external wrenches."""
    implicit, other = (KernelKey("step", method=name, inputs=("f_ext",)) for name in _METHODS)
    try:
        return module.kernels.find(implicit)
    except ModelError:
        return module.kernels.find(other)


def _start(tree: KinematicTree) -> tuple[NDArray[np.float64], bool]:
    """Return the positions of the keyframe ``home`` or the first one, and whether there is one."""
    if tree.keyframes:
        keyframe = tree.keyframes.get("home", next(iter(tree.keyframes.values())))
        return np.array(keyframe["q"]), True
    return neutral_within_limits(tree), False


def _springs(tree: KinematicTree, q: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return the joints that the page holds, with the inertia that each moves."""
    (inertias,) = evaluate_reference(tree, "mass_matrix", {"q": q[None]})
    return [
        {
            "q": body.q_index,
            "v": body.v_index,
            "inertia": float(inertias[0, body.v_index, body.v_index]),
            "effort": min(tree.effort_limits[body.v_index], sys.float_info.max),
        }
        for body in tree.bodies
        if body.joint_type.quaternion is None and not body.mimics
    ]


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
