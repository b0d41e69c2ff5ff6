"""Steps along trajectories: arrays with an axis of time, all steps of which are one batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from gridgen.errors import ShapeError
from gridgen.frameworks import is_transformed, torch_calls
from gridgen.functions.arrays import ARRAYS, shape_of
from gridgen.functions.types import Array
from gridgen.runtime.arrays.arguments import fits
from gridgen.runtime.arrays.layout import on_device, result_arrays
from gridgen.runtime.arrays.libraries import (
    adopt,
    is_traced,
    namespace,
    restored,
)
from gridgen.runtime.arrays.streams import caller_streams
from gridgen.runtime.module.description import Description
from gridgen.runtime.rollouts.arguments import check_substeps


def linearized(
    robot: Description,
    step: Callable[..., tuple[Array, Array]],
    gradient: Callable[..., tuple[Array, Array]],
    arrays: Mapping[str, Any],
    substeps: int,
    out: Any,
) -> tuple[Array, Array]:
    """Return the derivatives of every step of trajectories by its state and its efforts.

    Args:
        robot:    the robot's description.
        step:     takes arrays by name, with any leading axes, one step on.
        gradient: returns the derivatives of that.
        arrays:   ``q`` and ``qd`` (B, T, n), or with the state after the last step (B, T + 1, n);
                  ``tau`` (B, T, nv); others (B, T, ...), (B, ...) or (...), if they are given.
                  What is given without B serves all trajectories.
        substeps: so many steps of dt / substeps make one, with the same efforts.
        out:      arrays for the results.

    Returns:
        A (B, T, 2 nv, 2 nv) and B (B, T, 2 nv, nv).

    Raises:
        OptionError: ``substeps`` is no count.
        ShapeError, DtypeError, DeviceError: an argument does not fit.
    """
    check_substeps(substeps)
    if any(map(is_traced, arrays.values())):
        jax = sys.modules["jax"].numpy
        given = {name: jax.asarray(value) for name, value in arrays.items()}
        return _as_operations(robot, step, gradient, given, substeps, out, jax)
    if is_transformed(arrays["q"], arrays.values()):
        given = torch_calls().tensors(arrays, arrays["q"])
        return _as_operations(robot, step, gradient, given, substeps, out, sys.modules["torch"])
    with caller_streams((*arrays.values(), *(out or ())))():
        q = adopt(arrays["q"], "q")
        with on_device(q):
            given = {name: adopt(value, name, q) for name, value in arrays.items()}
            now = _along(robot, given, namespace(q))
            if substeps == 1:
                found = gradient(**now, out=out)
            else:
                found = _chained(step, gradient, now, substeps, namespace(q))
                if out is not None:
                    shapes = {f"out[{i}]": array.shape for i, array in enumerate(found)}
                    for room, array in zip(result_arrays(out, shapes, q), found, strict=True):
                        room[...] = array
            if out is not None:
                return found if substeps == 1 else out
            by_state, by_efforts = (restored(array, arrays["q"]) for array in found)
            return by_state, by_efforts


def _as_operations(
    robot: Description,
    step: Callable[..., tuple[Array, Array]],
    gradient: Callable[..., tuple[Array, Array]],
    given: Mapping[str, Array],
    substeps: int,
    out: Any,
    xp: Any,
) -> tuple[Array, Array]:
    """Return the derivatives by operations of a framework, which transforms the call."""
    now = _along(robot, given, xp)
    is_one = substeps == 1 or out is not None  # which is refused
    return gradient(**now, out=out) if is_one else _chained(step, gradient, now, substeps, xp)


def _chained(
    step: Callable[..., tuple[Array, Array]],
    gradient: Callable[..., tuple[Array, Array]],
    now: dict[str, Array],
    substeps: int,
    xp: Any,
) -> tuple[Array, Array]:
    """Return the derivatives of steps that have several parts, by the chain rule."""
    now = {**now, "dt": now["dt"] / xp.full_like(now["dt"], substeps)}
    A, B = gradient(**now)
    for _ in range(substeps - 1):
        now["q"], now["qd"] = step(**now)
        by_state, by_efforts = gradient(**now)
        A, B = by_state @ A, by_state @ B + by_efforts
    return A, B


def _along(robot: Description, given: Mapping[str, Array], xp: Any) -> dict[str, Array]:
    """Return arrays of one library with axes for states and times."""
    paths = [given[name].shape for name in ("tau", "q", "qd")]
    if len(paths[0]) not in (2, 3):
        raise ShapeError(
            f"tau has shape {given['tau'].shape}; {robot.name} needs the efforts of every step, "
            f"(B, T, {robot.nv}) or (T, {robot.nv})"
        )
    states = [shape[0] for shape in paths if len(shape) > 2]
    batch = [next((extent for extent in states if extent != 1), 1)] if states else []
    lead = (*batch, paths[0][-2])
    extents = {"nq": robot.nq, "nv": robot.nv, "bodies": len(robot.body_names)}
    extents["rows"] = len(robot.parameters.names)
    extents["constraints"] = len(robot.parameters.own.get("active", ()))
    return {
        name: _over_time(name, array, lead, shape_of(name, extents), xp)
        for name, array in given.items()
    }


def _over_time(
    name: str, array: Array, lead: tuple[int, ...], shape: tuple[int, ...], xp: Any
) -> Array:
    """Return an array with axes for states and times; what all share as it is."""
    own, state = array.shape[: array.ndim - len(shape)], array.shape[array.ndim - len(shape) :]
    if ARRAYS[name].shared and array.shape == shape:
        return array
    (*states, steps), there = lead, array.shape
    is_path = name in ("q", "qd")
    if is_path and own[-1:] == (steps + 1,):
        array, own = array[..., :-1, :], (*own[:-1], steps)
    elif not is_path and own and name != "tau" and own == (*states,):
        array, own = array.reshape(*own, 1, *state), (*own, 1)
    if state != shape or not fits(own, lead) or (is_path and own[-1:] != (steps,)):
        wanted = ", ".join(map(str, (*lead, *shape)))
        raise ShapeError(f"{name} has shape {there}; with tau as given it needs ({wanted})")
    return xp.broadcast_to(array, (*lead, *shape))
