"""What nothing orders is reported, under whatever schedule it runs."""

from __future__ import annotations

import numpy as np
import pytest

from fake_gpu.schedules import early, late, schedule, shuffled

SCHEDULES = {"late": late, "early": early, "1": shuffled(1), "2": shuffled(2)}


@pytest.fixture(params=SCHEDULES)
def cupy(request, begin):
    return begin(schedule=SCHEDULES[request.param])


def numbers(cupy):
    """Return an array of ones that all streams may read."""
    x = cupy.ones(8, cupy.float32)
    cupy.cuda.runtime.deviceSynchronize()
    return x


def test_streams_without_an_event_are_not_ordered(cupy, misused):
    x = numbers(cupy)
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    with first:
        x.fill(2)
    with second:
        x + 1
    reason = misused()
    assert "float32 array (8,), made at test_order.py:" in reason
    assert "assignment (test_order.py:" in reason
    assert "add (test_order.py:" in reason


def test_an_event_orders_streams(cupy):
    x = numbers(cupy)
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    with first:
        x.fill(2)
        event = first.record()
        x.fill(3)  # which the other one does not wait for
        done = first.record()
    with second:
        second.wait_event(event)
        y = cupy.ones(8)
        second.wait_event(done)
        z = x + y
    second.synchronize()
    with second:
        assert (z == 4).all()


def test_an_event_is_of_what_was_enqueued_before_it(cupy, misused):
    x = numbers(cupy)
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    event = first.record()
    with first:
        x.fill(2)
    second.wait_event(event)
    with second:
        x.fill(3)
    assert "nothing orders assignment" in misused()


def test_what_the_host_has_waited_for_comes_before_all_that_follows(cupy):
    x = numbers(cupy)
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    with first:
        x.fill(2)
    first.synchronize()
    with second:
        assert (x == 2).all()


def test_streams_may_read_the_same_and_write_apart(cupy):
    x = numbers(cupy)
    for i, stream in enumerate(cupy.cuda.Stream(non_blocking=True) for _ in range(2)):
        with stream:
            x[i::2] = i
            assert float(x[i::2].sum()) == 4 * i


def test_the_default_stream_waits_for_others_but_those_that_do_not_block(cupy, misused):
    x = numbers(cupy)
    blocking = cupy.cuda.Stream()
    with blocking:
        x.fill(2)
    y = x + 1
    with blocking:
        x.fill(3)
    assert (y == 3).all()
    with cupy.cuda.Stream(non_blocking=True):
        x.fill(4)
    x + 1
    assert "nothing orders" in misused()


def test_memory_is_used_again_by_the_stream_that_had_it(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for i in range(3):
            x = cupy.full(100, i)
            y = x + 1
            address = x.data.ptr
            del x
            assert cupy.empty(100).data.ptr == address
            assert (y == i + 1).all()


def test_memory_that_another_stream_still_reads_is_not_free(cupy, misused):
    """As in CuPy: the pool does not know what other streams do."""
    x = numbers(cupy)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        y = x + 1
    del x
    x = cupy.zeros(8, cupy.float32)
    assert "nothing orders" in misused()
    assert y.size == x.size


def test_a_schedule_has_a_name():
    assert (schedule("late"), schedule("early")) == (late, early)
    with pytest.raises(ValueError, match="choose late, early or a number"):
        schedule("soon")


def test_late_work_gives_what_careless_callers_do_not_expect(begin, misused):
    cupy = begin(schedule=late)
    x = numbers(cupy)
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    with first:
        x.fill(2)
    with second:
        assert np.array_equal(cupy.asnumpy(x), np.ones(8))
    assert "nothing orders" in misused()
