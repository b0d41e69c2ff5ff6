"""A device's memory is not the host's; pinned memory is both's, one after the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pretend_cupy.errors import MisuseError, OutOfMemoryError
from pretend_cupy.machine import machine
from pretend_cupy.transfers import empty_pinned

TESTS = Path(__file__).parents[2]


@pytest.mark.parametrize("access", ["from_address(x.data.ptr).value", "from_address(x.data.ptr)"])
def test_the_host_cannot_read_or_write_it(access):
    """The second one reads nothing: a bare address does no harm."""
    script = f"""
import ctypes
from pretend_cupy import machine, face
machine.start(machine.Machine(machine.Settings(executable=None)))
cupy = face.modules()["cupy"]
x = cupy.ones(8)
cupy.asnumpy(x)
ctypes.c_double.{access}
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    result = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True)
    expected = -signal.SIGSEGV if access.endswith("value") else 0
    assert result.returncode == expected, result.stderr.decode()


def test_an_array_does_not_become_a_numpy_array_by_itself(cupy):
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(cupy.ones(3))


def test_memory_that_nobody_has_written_is_not_read(cupy):
    x = cupy.empty(5)
    x[:4] = 1
    assert (x[:4] == 1).all()
    with pytest.raises(MisuseError, match=r"copy of 40 bytes .* what nobody has written"):
        cupy.asnumpy(x)


def test_a_device_has_only_so_much(begin):
    cupy = begin(room=1 << 20)
    x = cupy.ones(1 << 16)
    with pytest.raises(OutOfMemoryError, match="Out of memory allocating 1,048,576 bytes"):
        cupy.ones(1 << 17)
    assert (x == 1).all()


def test_each_device_has_its_own(cupy):
    with cupy.cuda.Device(1) as device:
        x = cupy.ones(3)
        assert x.device == device
    with pytest.raises(ValueError, match="array device = 1 while current = 0"):
        x + 1
    assert np.array_equal(cupy.asnumpy(x), np.ones(3))
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        cupy.cuda.Device(2)


def fetched(cupy, x):
    """Return pinned memory, and the event of a copy of ``x`` to it."""
    target, stream = empty_pinned(x.shape, x.dtype), cupy.cuda.Stream(non_blocking=True)
    stream.wait_event(cupy.cuda.get_current_stream().record())
    x.data.copy_to_host_async(target.ctypes.data, x.nbytes, stream)
    return target, stream.record()


def test_a_copy_to_pinned_memory_is_there_when_it_has_been_waited_for(cupy):
    x = cupy.arange(4.0)
    target, event = fetched(cupy, x)
    assert np.isnan(target).all()
    event.synchronize()
    assert np.array_equal(target, np.arange(4.0))


def test_nobody_writes_where_a_copy_goes(cupy):
    target, event = fetched(cupy, cupy.arange(4.0))
    target[2] = 7
    with pytest.raises(MisuseError, match="the host has written where copy of 32 bytes"):
        event.synchronize()


def test_nobody_changes_what_a_copy_reads(cupy):
    source, x = empty_pinned(4), cupy.zeros(4)
    source[:] = 1
    x.data.copy_from_host_async(source.ctypes.data, x.nbytes)
    event = cupy.cuda.get_current_stream().record()
    source[0] = 2
    with pytest.raises(MisuseError, match="the host has changed what copy of 32 bytes"):
        event.synchronize()


def test_nobody_frees_what_a_copy_uses(cupy, misused):
    target, event = fetched(cupy, cupy.arange(4.0))
    del target
    assert "32 bytes of pinned memory are freed while a copy uses them" in misused()
    event.synchronize()


def test_memory_that_is_not_pinned_is_copied_before_the_call_returns(cupy):
    x, source, target = cupy.zeros(4), np.ones(4), np.empty(4)
    x.data.copy_from_host_async(source.ctypes.data, x.nbytes)
    source[:] = 2
    x.data.copy_to_host_async(target.ctypes.data, x.nbytes)
    assert np.array_equal(target, np.ones(4))


def test_a_device_gets_back_what_nobody_has(begin):
    """An array of another size takes the memory of one that is gone."""
    cupy = begin(room=1 << 20)
    x = cupy.ones(100_000)
    del x
    assert (cupy.ones(110_000) == 1).all()


# -- functions of the host, in a stream -----------------------------------------------------------


@pytest.fixture
def pinned(cupy):
    """Return a function that fetches an array in a stream, doubles it on the host, and sends it."""

    def doubled(x, y, stream, doubling):
        room = empty_pinned(x.shape, x.dtype)

        def double(factor):
            room[...] = factor * np.nan_to_num(room)

        x.data.copy_to_host_async(room.ctypes.data, x.nbytes, stream)
        doubling.launch_host_func(double, 2)
        y.data.copy_from_host_async(room.ctypes.data, x.nbytes, stream)
        return room

    return doubled


def test_a_function_runs_in_its_turn(cupy, pinned):
    x, y, stream = cupy.arange(4.0), cupy.zeros(4), cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.runtime.deviceSynchronize()
    room = pinned(x, y, stream, stream)
    assert np.isnan(room).all()
    stream.synchronize()
    assert np.array_equal(cupy.asnumpy(y), 2 * np.arange(4.0))


def test_a_function_in_another_stream_is_in_nobodys_turn(cupy, pinned, misused):
    x, y, stream = cupy.arange(4.0), cupy.zeros(4), cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.runtime.deviceSynchronize()
    room = pinned(x, y, stream, cupy.cuda.Stream(non_blocking=True))
    assert "the host has written where copy of 32 bytes to the host" in misused()
    assert room.shape == (4,)


def test_a_function_must_not_ask_for_the_device(cupy, monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda given: told.append(str(given.exc_value)))
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.launch_host_func(lambda _: cupy.zeros(3), None)
    stream.synchronize()
    assert "operation not permitted" in told[0]


# -- failures -------------------------------------------------------------------------------------


def test_of_a_device_that_failed_nothing_is_left(cupy, module):
    function = module.get_function("twice")
    x, stream = cupy.ones(4, cupy.float32), cupy.cuda.Stream(non_blocking=True)
    with cupy.cuda.Device(1):
        other = cupy.ones(3)
    device = machine().devices[0]
    device.fail("cudaErrorECCUncorrectable")
    for ask in (lambda: cupy.zeros(3), stream.synchronize, lambda: x + 1):
        with pytest.raises(RuntimeError, match="uncorrectable ECC error"):
            ask()
    with cupy.cuda.Device(1):
        assert (other == 1).all()
    device.recover()
    assert (cupy.ones(3) == 1).all()
    with pytest.raises(RuntimeError, match="context is destroyed"):
        stream.synchronize()
    y = cupy.ones(4, cupy.float32)
    with pytest.raises(RuntimeError, match="invalid resource handle"):
        function((1,), (4,), (y.data.ptr, y.data.ptr, np.int64(4)))
