"""Functions of states along trajectories: arrays with an axis of time, given as one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gridgen.errors import ShapeError
from gridgen.functions.arrays import ARRAYS, shape_of
from gridgen.functions.types import Array
from gridgen.runtime.arrays import on_device
from gridgen.runtime.description import Description
from gridgen.runtime.libraries import adopt, namespace, restored
from gridgen.runtime.streams import caller_streams


def along(
    robot: Description,
    compute: Callable[..., tuple[Array, ...]],
    arrays: Mapping[str, Any],
) -> tuple[Array, ...]:
    """Compute a function of states for every step of trajectories.

    Args:
        robot:   the robot's description.
        compute: takes arrays by name, (N, ...), or (...) for what all states share.
        arrays:  ``q`` and ``qd`` (B, T, n), or with the state after the last step (B, T + 1, n);
                 ``tau`` (B, T, nv); others (B, T, ...), (B, ...) or (...), if they are given. None
                 has B for one trajectory.

    Returns:
        the results, (B, T, ...).

    Raises:
        ShapeError, DtypeError, DeviceError: an argument does not fit.
    """
    with caller_streams(tuple(arrays.values()))():
        q = adopt(arrays["q"], "q")
        with on_device(q):
            given = {name: adopt(value, name, q) for name, value in arrays.items()}
            lead = given["tau"].shape[:-1]
            if len(lead) not in (1, 2):
                raise ShapeError(
                    f"tau has shape {given['tau'].shape}; {robot.name} needs the efforts of every "
                    f"step, (B, T, {robot.nv}) or (T, {robot.nv})"
                )
            extents = {"nq": robot.nq, "nv": robot.nv, "bodies": len(robot.body_names)}
            extents["rows"] = len(robot.parameters.names)
            flat = {
                name: _as_batch(name, array, lead, shape_of(name, extents))
                for name, array in given.items()
            }
            results = compute(**flat)
            return tuple(
                restored(result.reshape(*lead, *result.shape[1:]), arrays["q"])
                for result in results
            )


def _as_batch(name: str, array: Array, lead: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Return an array with one axis for states and times; what all share as it is."""
    own, state = array.shape[: array.ndim - len(shape)], array.shape[array.ndim - len(shape) :]
    if ARRAYS[name].shared and array.shape == shape:
        return array
    is_path = name in ("q", "qd")
    if is_path and own == (*lead[:-1], lead[-1] + 1):
        array, own = array[..., :-1, :], lead
    elif not is_path and own == lead[:-1]:
        array, own = array.reshape(*own, 1, *state), lead
    if own != lead or state != shape:
        wanted = ", ".join(map(str, (*lead, *shape)))
        raise ShapeError(f"{name} has shape {array.shape}; with tau as given it needs ({wanted})")
    return namespace(array).broadcast_to(array, (*lead, *shape)).reshape(-1, *shape)
