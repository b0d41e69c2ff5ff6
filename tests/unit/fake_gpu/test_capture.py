"""Graphs, and what cannot be captured."""

from __future__ import annotations

import numpy as np
import pytest

from fake_gpu.errors import CUDARuntimeError, MisuseError
from fake_gpu.machine import machine


@pytest.fixture
def x(cupy):
    x = cupy.ones(4)
    cupy.cuda.runtime.deviceSynchronize()
    return x


@pytest.fixture
def stream(cupy):
    return cupy.cuda.Stream(non_blocking=True)


def test_what_is_captured_is_done_at_each_launch(cupy, x, stream):
    with stream:
        stream.begin_capture()
        assert stream.is_capturing()
        x[...] = x + x
        stream.end_capture()
    assert not stream.is_capturing()
    assert (x == 1).all()


def test_a_graph_is_done_in_the_order_of_its_stream(cupy, x, twice, stream):
    y = cupy.zeros(4, cupy.float32)
    z = cupy.ones(4, cupy.float32)
    cupy.cuda.runtime.deviceSynchronize()
    with stream:
        stream.begin_capture()
        twice(z, y)
        z[...] = y
        graph = stream.end_capture()
    for _ in range(3):
        graph.launch(stream)
    stream.synchronize()
    assert (z == 8).all()


def test_what_other_streams_do_in_between_comes_back(cupy, x, stream):
    other = cupy.cuda.Stream(non_blocking=True)
    y = cupy.zeros_like(x)
    cupy.cuda.runtime.deviceSynchronize()
    for returns in (True, False):
        stream.begin_capture()
        with stream:
            x.fill(5)
        other.wait_event(stream.record())
        with other:
            y[...] = x
        if returns:
            stream.wait_event(other.record())
            graph = stream.end_capture()
            graph.launch(stream)
            stream.synchronize()
            assert (y == 5).all()
        else:
            with pytest.raises(CUDARuntimeError, match="cudaErrorStreamCaptureUnjoined"):
                stream.end_capture()
        assert not other.is_capturing()


def test_parts_of_a_graph_that_nothing_orders_are_reported(cupy, x, stream, misused):
    other = cupy.cuda.Stream(non_blocking=True)
    stream.begin_capture()
    other.wait_event(stream.record())
    for branch in (stream, other):
        with branch:
            x.fill(5)
    stream.wait_event(other.record())
    stream.end_capture().launch(stream)
    assert "nothing orders" in misused()


@pytest.mark.parametrize(
    ("what", "error"),
    [
        (lambda cupy, x, stream: stream.synchronize(), "Unsupported"),
        (lambda cupy, x, stream: cupy.asnumpy(x), "Unsupported"),
        (lambda cupy, x, stream: cupy.cuda.runtime.deviceSynchronize(), "Unsupported"),
        (lambda cupy, x, stream: stream.record().synchronize(), "CapturedEvent"),
        (lambda cupy, x, stream: stream.wait_event(recorded(cupy, x)), "Isolation"),
    ],
    ids=["stream", "get", "device", "event", "other work"],
)
def test_the_host_cannot_wait_in_a_capture(cupy, x, stream, what, error):
    stream.begin_capture()
    with stream, pytest.raises(CUDARuntimeError, match=error):
        what(cupy, x, stream)
    with pytest.raises(CUDARuntimeError, match="cudaErrorStreamCaptureInvalidated"):
        stream.end_capture()
    stream.synchronize()


def recorded(cupy, x):
    """Return an event that has nothing to do with a capture."""
    other = cupy.cuda.Stream(non_blocking=True)
    with other:
        x.fill(2)
    return other.record()


def test_the_default_stream_is_not_used_while_a_blocking_one_is_captured(cupy, x):
    stream = cupy.cuda.Stream()
    stream.begin_capture()
    with pytest.raises(CUDARuntimeError, match="cudaErrorStreamCaptureImplicit"):
        x.fill(3)
    with pytest.raises(CUDARuntimeError, match="Invalidated"):
        stream.end_capture()
    with pytest.raises(RuntimeError, match="cannot capture on the default"):
        cupy.cuda.Stream.null.begin_capture()


def test_memory_of_the_host_is_not_uploaded_by_a_graph(cupy, stream):
    stream.begin_capture()
    with stream, pytest.raises(MisuseError, match="not pinned is copied in a capture"):
        cupy.asarray(np.ones(3))
    stream.end_capture()


def test_a_graph_does_not_keep_its_memory(cupy, x, stream):
    with stream:
        stream.begin_capture()
        y = x + 1
        x[...] = y
        graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
    assert (x == 2).all()
    del y
    with pytest.raises(MisuseError, match="a graph uses free memory"):
        graph.launch(stream)


def test_a_capture_that_is_left_open_can_be_abandoned(x, stream):
    with stream:
        stream.begin_capture()
        x[...] = x + x
        machine().end_captures()
        assert not stream.is_capturing()
        x[...] = x + 2
    stream.synchronize()
    assert (x == 3).all()
