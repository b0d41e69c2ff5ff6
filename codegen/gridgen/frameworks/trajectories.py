"""Steps along trajectories: arrays with a time axis, whose steps form one batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from gridgen.errors import ShapeError
from gridgen.frameworks import is_transformed, torch_calls
from gridgen.functions.arrays import ARRAYS, closed, extents_of, shape_of
from gridgen.functions.types import Array, Results
from gridgen.runtime.arrays.layout import result_arrays
from gridgen.runtime.arrays.libraries import (
    adopt,
    is_traced,
    namespace,
    restored,
)
from gridgen.runtime.arrays.streams import first_adopted
from gridgen.runtime.arrays.times import check_substeps
from gridgen.runtime.module.description import RobotRecord


def linearized(
    robot: RobotRecord,
    step: Callable[..., Results],
    gradient: Callable[..., Results],
    arrays: Mapping[str, Any],
    substeps: int,
    out: Any,
) -> Results:
    """Return the derivatives of every step of trajectories by its state and its joint torques.

    Args:
        robot:    the robot's description.
        step:     integrates arrays by name, with any leading axes, over one step.
        gradient: returns the derivatives of ``step``.
        arrays:   ``q`` and ``qd`` (B, T, n), or with the final state (B, T + 1, n); ``tau``
                  (B, T, nv); optional others (B, T, ...), (B, ...) or (...). Arrays without B serve
                  all trajectories.
        substeps: number of integration steps of dt / substeps per step; tau is constant over them.
        out:      arrays for the results.

    Returns:
        A (B, T, 2 nv, 2 nv) and B (B, T, 2 nv, nv).

    Raises:
        OptionError: ``substeps`` is not a count.
        ShapeError, DtypeError, DeviceError: an argument is not compatible.
    """
    check_substeps(substeps)
    xp: Any = None
    if any(map(is_traced, arrays.values())):
        xp = sys.modules["jax"].numpy
        given = {name: xp.asarray(value) for name, value in arrays.items()}
    elif is_transformed(arrays["q"], arrays.values()):
        xp, given = sys.modules["torch"], torch_calls().tensors(arrays, arrays["q"])
    if xp is not None:  # JAX has no ``out``: an error
        parts = substeps if out is None else 1
        return _chained(step, gradient, along(robot, given, xp), parts, out, xp)
    with first_adopted(arrays["q"], "q", (*arrays.values(), *(out or ()))) as q:
        given = {name: adopt(value, name, q) for name, value in arrays.items()}
        now = along(robot, given, namespace(q))
        found = _chained(step, gradient, now, substeps, out, namespace(q))
        if out is None:
            return type(found)(*(restored(array, arrays["q"]) for array in found))
        if substeps > 1:
            shapes = {f"out[{i}]": array.shape for i, array in enumerate(found)}
            for target, array in zip(result_arrays(out, shapes, q), found, strict=True):
                target[...] = array
        return out  # type: ignore[no-any-return]


def _chained(
    step: Callable[..., Results],
    gradient: Callable[..., Results],
    now: dict[str, Array],
    substeps: int,
    out: Any,
    xp: Any,
) -> Results:
    """Return the derivatives of steps, by the chain rule over substeps."""
    if substeps == 1:
        return gradient(**now, out=out)
    now = {**now, "dt": now["dt"] / xp.full_like(now["dt"], substeps)}
    A, B = found = gradient(**now)
    for _ in range(substeps - 1):
        now["q"], now["qd"] = step(**now)
        by_state, by_efforts = gradient(**now)
        A, B = by_state @ A, by_state @ B + by_efforts
    return type(found)(A, B)


def along(robot: RobotRecord, given: Mapping[str, Array], xp: Any) -> dict[str, Array]:
    """Return arrays of one library with axes for states and times."""
    paths = [given[name].shape for name in ("tau", "q", "qd")]
    if len(paths[0]) not in (2, 3):
        raise ShapeError(
            f"tau has shape {given['tau'].shape}; {robot.name} needs joint torques of every step, "
            f"(B, T, {robot.nv}) or (T, {robot.nv})"
        )
    states = [shape[0] for shape in paths if len(shape) > 2]
    batch = [next((extent for extent in states if extent != 1), 1)] if states else []
    lead = (*batch, paths[0][-2])
    extents = extents_of(robot)
    return {
        name: _over_time(name, array, lead, closed(shape_of(name, extents), array.shape), xp)
        for name, array in given.items()
    }


def _over_time(
    name: str, array: Array, lead: tuple[int, ...], shape: tuple[int, ...], xp: Any
) -> Array:
    """Return an array with axes for states and times; shared arrays without a change."""
    count, steps = array.ndim - len(shape), lead[-1]
    is_path, there = name in ("q", "qd"), array.shape
    if is_path and array.shape[:count][-1:] == (steps + 1,):
        array = array[..., :-1, :]
    if not is_path or array.shape[:count][-1:] == (steps,):
        own, state = array.shape[:count], array.shape[count:]
        if ARRAYS[name].shared and array.shape == shape:
            return array
        if not is_path and name != "tau" and own and own == lead[:-1]:
            array, own = array.reshape(*own, 1, *state), (*own, 1)
        pairs = zip(reversed(own), reversed(lead), strict=False)
        fits = len(own) <= len(lead) and all(extent in (1, most) for extent, most in pairs)
        if fits and state == shape:
            return xp.broadcast_to(array, (*lead, *shape))
    expected = ", ".join(map(str, (*lead, *shape)))
    raise ShapeError(f"{name} has shape {there}; with tau as given it needs ({expected})")
