"""Cached arrays of values that all states of a call share.

Defaults of inputs, and scalars such as time steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridgen.backends.cuda.failures import failures
from gridgen.functions.arrays import BY_PRECISION, STANDARD_GRAVITY
from gridgen.functions.types import Array
from gridgen.runtime.arrays.libraries import check_no_capture, namespace, on_gpu

# By library, device, type, name, shape and, for robot parameters, the values. The arrays outlive
# all robots: pending work on any stream may read them after the last robot is deleted.
_MADE: dict[tuple[Any, ...], Array] = {}
# Numbers of callers, by library, device, type, shape and value.
_NUMBERS: dict[tuple[Any, ...], Array] = {}
# Bounds of both, for processes that load many robots, and callers that pass new numbers in every
# call.
_MAX_MADE, _MAX_NUMBERS = 4096, 256


def default(
    name: str, shape: tuple[int, ...], q: Array, own: NDArray[np.float64] | None = None
) -> Array:
    """Return the default of an input: one state for the whole batch.

    Args:
        name:  name of the input: ``gravity``, ``offset``, or one whose default is zero.
        shape: shape for one state.
        q:     the adopted first argument, which determines type and device; on a GPU, the current
               one.
        own:   the robot's values, for inputs with a default per robot.

    Raises:
        DeviceError: the array is not yet on the GPU, and a stream is being captured.
    """
    numbers = b"" if own is None else own.tobytes()
    key = _place(q), q.dtype, name, shape, numbers
    made = _MADE.get(key)
    if made is None:
        made = _cached(_MADE, _MAX_MADE, key, _numbers_of(name, shape, q, own), name, q)
    return made


def number(
    value: float | tuple[float, ...], name: str, q: Array, shape: tuple[int, ...] = ()
) -> Array:
    """Return numbers for the whole batch as an array.

    Args:
        value: the number, or several.
        name:  name of the input, for errors.
        q:     as in ``default``.
        shape: shape of the array.

    Raises:
        DeviceError: as ``default``.
    """
    key = _place(q), q.dtype, shape, value
    made = _NUMBERS.get(key)
    if made is None:
        numbers = np.asarray(value, np.float64).reshape(shape)
        made = _cached(_NUMBERS, _MAX_NUMBERS, key, numbers, name, q)
    return made


def _cached(
    cache: dict[tuple[Any, ...], Array],
    most: int,
    key: tuple[Any, ...],
    numbers: ArrayLike,
    name: str,
    q: Array,
) -> Array:
    """Return numbers as an array on the device of ``q``, and cache it below the bound."""
    array = np.asarray(numbers, q.dtype)
    is_cached = len(cache) < most
    if on_gpu(q):
        check_no_capture(
            q,
            f"the numbers of {name} cannot be copied to the GPU; make the call once before the "
            f"capture, bind it, or give {name} as an array",
        )
        array = _readable_everywhere(array, q) if is_cached else namespace(q).asarray(array)
    # If two threads create it at once, both return the same array.
    return cache.setdefault(key, array) if is_cached else array


def _readable_everywhere(array: NDArray[Any], q: Array) -> Array:
    """Return a copy on a GPU that every stream can read without waiting for the caller's work.

    An array that is not cached is copied in the caller's stream instead: its memory can be reused
    by other streams only after work of that stream.
    """
    cupy = namespace(q)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        copy: Array = cupy.asarray(array)
    stream.synchronize()
    return copy


def _numbers_of(
    name: str, shape: tuple[int, ...], q: Array, own: NDArray[np.float64] | None
) -> ArrayLike:
    """Return the numbers of a default."""
    if name in BY_PRECISION:
        return np.full(shape, BY_PRECISION[name][q.dtype.name])
    known: dict[str, ArrayLike] = {"gravity": STANDARD_GRAVITY, "offset": np.eye(4)}
    return known.get(name, np.zeros(shape)) if own is None else own


def _place(q: Array) -> tuple[Any, ...] | None:
    """Return the library and GPU of an array, with its failures; ``None`` for the host."""
    return (namespace(q), q.device.id, failures(q.device.id)) if on_gpu(q) else None
