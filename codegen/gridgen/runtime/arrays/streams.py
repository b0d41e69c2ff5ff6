"""Whose turn it is on a GPU: a call works on the stream that its caller works on.

CuPy and PyTorch have a current stream each. Work goes to that of ``q``'s library; if another
argument or a result is of the other library, its stream is waited for, and waits. JAX has no
current stream: it orders its work with CuPy's whenever an array goes over.
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
    """Return what makes a context in which CuPy works on the caller's stream, in order with others.

    Streams are asked for when a context is entered: a caller may change them from call to call.

    Args:
        values: arguments and results as the caller gave them, ``q`` first.

    Raises:
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
    """Make a context for a call's arrays: the stream of its caller, the device of its first array.

    What a GPU's library raises in it is explained.

    Args:
        first:  the first argument as the caller gave it.
        name:   its name.
        others: the other arguments, and results.

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
    """Return the stream of all arrays of a call, a context on the current device alone."""
    is_current = sys.modules["cupy"].cuda.runtime.getDevice() == device
    context: AbstractContextManager[Any] = current_stream(tensor) if is_current else otherwise()
    return context


def captured(stream: Any, calls: Sequence[Callable[[], object]]) -> Any:
    """Return a CUDA graph of calls, one after the other, or ``None`` where a graph takes them not.

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

    What the libraries of the others have been told comes before, what they are told next after.
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
        finally:  # an interrupted call has enqueued work too
            for other in streams.values():
                other.wait_event(stream.record())
