"""Stream ordering on a GPU: a call uses its caller's current stream.

CuPy and PyTorch have a current stream each. A call uses that of the library of ``q``; if another
argument or a result belongs to the other library, events order both streams. JAX has no current
stream: it orders its work with CuPy's when an array is exchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

from gridgen.backends.cuda.failures import ERRORS, raise_device_error
from gridgen.errors import GridGenError
from gridgen.functions.types import Array
from gridgen.runtime.arrays.layout import on_device
from gridgen.runtime.arrays.libraries import (
    adopt,
    current_stream,
    gpu_of,
    has_own_stream,
    is_on_stream,
    require_cupy,
)


def caller_streams(values: Sequence[Any]) -> Callable[[], AbstractContextManager[Any]]:
    """Return a context factory: CuPy uses the caller's stream, ordered with other streams.

    Each context reads the current streams, which a caller may change from call to call.

    Args:
        values: the caller's arguments and results, ``q`` first.

    Raises:
        DeviceError: an array is on a GPU, and CuPy is not available.
        DeviceError: an array is on a GPU, and CuPy is not there to work with it.
    """
    theirs = [value for value in values if has_own_stream(value)]
    if not theirs:
        return nullcontext
    require_cupy()
    device = theirs[0].device.index
    ordered = partial(_in_order, values, device)
    if len(theirs) == sum(is_on_stream(value) for value in values):
        return partial(_on_their_stream, theirs[0], device, ordered)
    return ordered


@contextmanager
def first_adopted(first: Any, name: str, others: Sequence[Any] = ()) -> Iterator[Array]:
    """Make a context for a call's arrays: the caller's stream, the device of the first array.

    Errors of a GPU library in the context are explained.

    Yields:
        the first argument, adopted.
    """
    try:
        with caller_streams((first, *others))():
            q = adopt(first, name)
            with on_device(q):
                yield q
    except ERRORS as error:
        raise_device_error(error, gpu_of(first))
        raise


def _on_their_stream(
    tensor: Any, device: int, otherwise: Callable[[], AbstractContextManager[Any]]
) -> AbstractContextManager[Any]:
    """Return a context with the common stream of a call's arrays, on the current device."""
    is_current = sys.modules["cupy"].cuda.runtime.getDevice() == device
    context: AbstractContextManager[Any] = current_stream(tensor) if is_current else otherwise()
    return context


def captured(stream: Any, calls: Sequence[Callable[[], object]]) -> Any:
    """Return a CUDA graph of calls in sequence, or ``None`` if a graph does not support them.

    Args:
        stream: the current stream, not the default one.
        calls:  enqueue work, and have done so before.
    """
    try:
        stream.begin_capture()
        for call in calls:
            call()
        return stream.end_capture()
    except (GridGenError, RuntimeError, ValueError):
        if stream.is_capturing():
            with suppress(RuntimeError):
                stream.end_capture()
        return None


@contextmanager
def _in_order(values: Sequence[Any], device: int) -> Iterator[None]:
    """Make the stream of the first array's library CuPy's current one.

    Pending work of the other libraries comes before the call, their later work after it.
    """
    cuda = sys.modules["cupy"].cuda
    with cuda.Device(device):
        stream = current_stream(values[0]) or cuda.get_current_stream()
        streams = {other.ptr: other for other in map(current_stream, values) if other is not None}
        streams.pop(stream.ptr, None)
        for other in streams.values():
            stream.wait_event(other.record())
        try:
            with stream:
                yield
        finally:  # an interrupted call may have enqueued work too
            for other in streams.values():
                other.wait_event(stream.record())
