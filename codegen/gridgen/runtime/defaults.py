"""The numbers of inputs that a call does not give: made once, and kept where they are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridgen.functions.types import Array
from gridgen.runtime.libraries import check_no_capture, namespace, on_gpu

STANDARD_GRAVITY = (0.0, 0.0, -9.81)

# By library, device, type, name and shape. They outlive all robots: work that reads one may be
# under way on any stream when the last robot is gone.
_MADE: dict[tuple[Any, ...], Array] = {}


def default(name: str, shape: tuple[int, ...], q: Array) -> Array:
    """Return the default of an input: one state, read by the whole batch.

    Args:
        name:  of the input: ``gravity``, or one that is zero.
        shape: of one state.
        q:     the adopted first argument, whose type and device it has.

    Raises:
        DeviceError: it has yet to be brought to the GPU, and a stream is being captured.
    """
    key = namespace(q), q.device.id if on_gpu(q) else None, q.dtype, name, shape
    made = _MADE.get(key)
    # Of two threads that come first at a time, both get the array of one.
    return _MADE.setdefault(key, _made(name, shape, q)) if made is None else made


def _made(name: str, shape: tuple[int, ...], q: Array) -> Array:
    numbers = STANDARD_GRAVITY if name == "gravity" else np.zeros(shape)
    if not on_gpu(q):
        return np.asarray(numbers, q.dtype)
    check_no_capture(
        q,
        f"the default of {name} cannot be brought to the GPU; make the call once before the "
        f"capture, bind it, or give {name}",
    )
    cupy = namespace(q)
    # On a stream of its own, and awaited: whatever stream reads it next finds it there, and the
    # caller's work is not waited for.
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        array = cupy.asarray(np.asarray(numbers, q.dtype))
    stream.synchronize()
    return array
