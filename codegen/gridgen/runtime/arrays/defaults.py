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
# Bound of the cache, for callers that pass a new number in every call.
_MOST_NUMBERS = 256
_NUMBERS: dict[tuple[Any, ...], Array] = {}


def default(
    name: str, shape: tuple[int, ...], q: Array, own: NDArray[np.float64] | None = None
) -> Array:
    """Return the default of an input: one state for the whole batch.

    Args:
        name:  name of the input: ``gravity``, ``offset``, or one whose default is zero.
        shape: shape for one state.
        q:     the adopted first argument, which determines type and device.
        own:   the robot's values, for inputs with a default per robot.

    Raises:
        DeviceError: the array is not yet on the GPU, and a stream is being captured.
    """
    numbers = b"" if own is None else own.tobytes()
    key = namespace(q), _place(q), q.dtype, name, shape, numbers
    made = _MADE.get(key)
    # If two threads create it at once, both return the same array.
    return _MADE.setdefault(key, _made(name, shape, q, own)) if made is None else made


def number(value: float, name: str, q: Array) -> Array:
    """Return a number for the whole batch, as an array without axes.

    Args:
        value: the number.
        name:  name of the input, for errors.
        q:     as in ``default``; on a GPU, the current one.

    Raises:
        DeviceError: as ``default``.
    """
    key = namespace(q), _place(q), q.dtype, value
    made = _NUMBERS.get(key)
    if made is not None:
        return made
    if len(_NUMBERS) < _MOST_NUMBERS:
        return _NUMBERS.setdefault(key, _placed(np.asarray(value), name, q))
    if not on_gpu(q):
        return np.asarray(value, q.dtype)
    # On the stream that reads it: other streams can reuse the memory only after that.
    _check_can_bring(name, q)
    return namespace(q).asarray(np.asarray(value, q.dtype))


def _place(q: Array) -> tuple[int, int] | None:
    """Return the GPU of an array with its number of failures; ``None`` for the host."""
    return (q.device.id, failures(q.device.id)) if on_gpu(q) else None


def _made(name: str, shape: tuple[int, ...], q: Array, own: NDArray[np.float64] | None) -> Array:
    known: dict[str, ArrayLike] = {"gravity": STANDARD_GRAVITY, "offset": np.eye(4)}
    if name in BY_PRECISION:
        own = np.full(shape, BY_PRECISION[name][q.dtype.name])
    return _placed(known.get(name, np.zeros(shape)) if own is None else own, name, q)


def _placed(numbers: Any, name: str, q: Array) -> Array:
    """Return numbers as an array on the device of ``q``."""
    if not on_gpu(q):
        return np.asarray(numbers, q.dtype)
    _check_can_bring(name, q)
    cupy = namespace(q)
    # On a separate stream, and synchronized: every stream can read it from now on, without waiting
    # for the caller's work.
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        array = cupy.asarray(np.asarray(numbers, q.dtype))
    stream.synchronize()
    return array


def _check_can_bring(name: str, q: Array) -> None:
    """Raise if the stream for the copy of an input is being captured."""
    check_no_capture(
        q,
        f"the numbers of {name} cannot be copied to the GPU; make the call once before the "
        f"capture, bind it, or give {name} as an array",
    )
