"""Whose turn it is on a GPU: a call works on the stream that its caller works on.

CuPy and PyTorch have a current stream each. Work goes to that of ``q``'s library; if another
argument or a result is of the other library, its stream is waited for, and waits. JAX has no
current stream: it orders its work with CuPy's whenever an array goes over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from gridgen.runtime.libraries import current_stream, has_own_stream


def caller_streams(values: Sequence[Any]) -> Callable[[], AbstractContextManager[Any]]:
    """Return what makes a context in which CuPy works on the caller's stream, in order with others.

    Streams are asked for when a context is entered: a caller may change them from call to call.

    Args:
        values: arguments and results as the caller gave them, ``q`` first.
    """
    if any(map(has_own_stream, values)):
        return partial(_in_order, values)
    return nullcontext


@contextmanager
def _in_order(values: Sequence[Any]) -> Iterator[None]:
    """Make the stream of the first array's library CuPy's current one.

    What the libraries of the others have been told comes before, what they are told next after.
    """
    import cupy

    tensor = next(filter(has_own_stream, values))
    with cupy.cuda.Device(tensor.device.index):
        stream = current_stream(values[0]) or cupy.cuda.get_current_stream()
        streams = {other.ptr: other for other in map(current_stream, values) if other is not None}
        streams.pop(stream.ptr, None)
        for other in streams.values():
            stream.wait_event(other.record())
        with stream:
            yield
        for other in streams.values():
            other.wait_event(stream.record())
