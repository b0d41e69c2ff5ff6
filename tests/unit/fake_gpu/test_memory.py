"""A device's memory is not the host's; pinned memory is both's, one after the other."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fake_gpu import functions
from fake_gpu.errors import MisuseError, OutOfMemoryError
from fake_gpu.functions import launch_host_function
from fake_gpu.machine import machine
from fake_gpu.transfers import empty_pinned
from gridgen.backends.cpu.compiler import host_compiler

TESTS = Path(__file__).parents[2]


@pytest.mark.parametrize("access", ["from_address(x.data.ptr).value", "from_address(x.data.ptr)"])
def test_the_host_cannot_read_or_write_it(access):
    """The second one reads nothing: a bare address does no harm."""
    script = f"""
import ctypes
from fake_gpu import machine, face
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
    with pytest.raises(MisuseError, match=r"copy of 40 bytes .* reads uninitialized memory"):
        cupy.asnumpy(x)


def test_a_device_has_only_so_much(begin):
    cupy = begin(memory=1 << 20)
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
    with pytest.raises(MisuseError, match="written to the target of the pending copy"):
        event.synchronize()


def test_nobody_changes_what_a_copy_reads(cupy):
    source, x = empty_pinned(4), cupy.zeros(4)
    source[:] = 1
    x.data.copy_from_host_async(source.ctypes.data, x.nbytes)
    event = cupy.cuda.get_current_stream().record()
    source[0] = 2
    with pytest.raises(MisuseError, match="changed the source of the pending copy"):
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
    cupy = begin(memory=1 << 20)
    x = cupy.ones(100_000)
    del x
    assert (cupy.ones(110_000) == 1).all()


# -- functions of the host, in a stream -----------------------------------------------------------


#: Writes 1 and 2 to an address.
WRITER = """
extern "C" void write(void* x) { static_cast<double*>(x)[0] = 1; static_cast<double*>(x)[1] = 2; }
"""


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """Return the address of a function that writes what pinned memory shall hold."""
    folder = tmp_path_factory.mktemp("writer")
    (folder / "writer.cpp").write_text(WRITER)
    command = (*host_compiler().command, "-shared", "-fPIC", "writer.cpp", "-o", "writer.so")
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.cast(ctypes.CDLL(str(folder / "writer.so")).write, ctypes.c_void_p).value


@pytest.fixture
def written(writer):
    """Return a function that lets the host write in one stream what another brings to the GPU."""

    def send(y, writing, sending):
        room = empty_pinned(y.shape, y.dtype)
        launch_host_function(writing.ptr, writer, room.ctypes.data)
        y.data.copy_from_host_async(room.ctypes.data, y.nbytes, sending)
        return room

    return send


def test_a_function_runs_in_its_turn(cupy, written):
    y, stream = cupy.zeros(2), cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.runtime.deviceSynchronize()
    room = written(y, stream, stream)
    assert np.isnan(room).all()
    stream.synchronize()
    assert np.array_equal(cupy.asnumpy(y), [1, 2])


def test_a_function_in_another_stream_is_in_nobodys_turn(cupy, written, misused):
    y, stream = cupy.zeros(2), cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.runtime.deviceSynchronize()
    room = written(y, cupy.cuda.Stream(non_blocking=True), stream)
    assert "copy of 16 bytes" in misused()
    assert room.shape == (2,)


def test_a_function_must_not_wait_for_the_interpreter(cupy, misused, monkeypatch):
    """Who waits for room in a full stream may hold its lock."""
    monkeypatch.setattr(functions, "PATIENCE", 0.1)
    called = []
    python = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(called.append)
    stream = cupy.cuda.Stream(non_blocking=True)
    launch_host_function(stream.ptr, ctypes.cast(python, ctypes.c_void_p).value, 1)
    assert "waits for the GIL" in misused()
    assert called == [1]


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
