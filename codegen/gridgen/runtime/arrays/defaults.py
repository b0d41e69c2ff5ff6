"""Numbers that all states of a call share, made once and kept where they are read.

Those of inputs that a call does not give, and single ones: lengths of time steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridgen.backends.cuda.failures import failures
from gridgen.functions.arrays import PROXIMAL, STANDARD_GRAVITY
from gridgen.functions.types import Array
from gridgen.runtime.arrays.libraries import check_no_capture, namespace, on_gpu

# By library, device, type, name, shape and, where they are a robot's own, the numbers. They outlive
# all robots: work that reads one may be under way on any stream when the last robot is gone.
_MADE: dict[tuple[Any, ...], Array] = {}
# Whoever adapts a number in every call shall not fill the memory: so many are kept.
_MOST_NUMBERS = 256
_NUMBERS: dict[tuple[Any, ...], Array] = {}


def default(
    name: str, shape: tuple[int, ...], q: Array, own: NDArray[np.float64] | None = None
) -> Array:
    """Return the default of an input: one state, read by the whole batch.

    Args:
        name:  of the input: ``gravity``, or one that is zero.
        shape: of one state.
        q:     the adopted first argument, whose type and device it has.
        own:   the robot's numbers, of an input that has its own for each robot.

    Raises:
        DeviceError: it has yet to be brought to the GPU, and a stream is being captured.
    """
    numbers = b"" if own is None else own.tobytes()
    key = namespace(q), _place(q), q.dtype, name, shape, numbers
    made = _MADE.get(key)
    # Of two threads that come first at a time, both get the array of one.
    return _MADE.setdefault(key, _made(name, shape, q, own)) if made is None else made


def number(value: float, name: str, q: Array) -> Array:
    """Return a number that the whole batch reads, as an array without axes.

    Args:
        value: the number.
        name:  of the input, for an error.
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
    # On the stream that reads it: others get its memory only after that.
    _check_can_bring(name, q)
    return namespace(q).asarray(np.asarray(value, q.dtype))


def _place(q: Array) -> tuple[int, int] | None:
    """Return the GPU where an array lies, and how often it has failed; ``None`` for the host."""
    return (q.device.id, failures(q.device.id)) if on_gpu(q) else None


def _made(name: str, shape: tuple[int, ...], q: Array, own: NDArray[np.float64] | None) -> Array:
    numbers: ArrayLike = STANDARD_GRAVITY if name == "gravity" else np.zeros(shape)
    if name == "proximal":
        numbers = np.full(shape, PROXIMAL[q.dtype.name])
        own = None
    return _placed(numbers if own is None else own, name, q)


def _placed(numbers: Any, name: str, q: Array) -> Array:
    """Return numbers as an array that lies where ``q`` does."""
    if not on_gpu(q):
        return np.asarray(numbers, q.dtype)
    _check_can_bring(name, q)
    cupy = namespace(q)
    # On a stream of its own, and awaited: whatever stream reads it next finds it there, and the
    # caller's work is not waited for.
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        array = cupy.asarray(np.asarray(numbers, q.dtype))
    stream.synchronize()
    return array


def _check_can_bring(name: str, q: Array) -> None:
    """Raise if the stream that the numbers of an input would be brought on is being captured."""
    check_no_capture(
        q,
        f"the numbers of {name} cannot be brought to the GPU; make the call once before the "
        f"capture, bind it, or give {name} as an array",
    )
