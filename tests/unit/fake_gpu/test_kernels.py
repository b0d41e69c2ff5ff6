"""Launches: what a kernel gets, and what no device would take."""

from __future__ import annotations

import numpy as np
import pytest

from fake_gpu.errors import CUDADriverError, CUDARuntimeError, MisuseError


def test_a_kernel_reads_and_writes_memory_of_the_device(cupy, twice):
    x, y = cupy.arange(4, dtype=cupy.float32), cupy.empty(4, cupy.float32)
    twice(x, y)
    assert np.array_equal(cupy.asnumpy(y), [0, 2, 4, 6])


def test_a_launch_is_ordered_as_other_work_is(cupy, twice, misused):
    x, y = cupy.ones(4, cupy.float32), cupy.empty(4, cupy.float32)
    twice(x, y, cupy.cuda.Stream(non_blocking=True))  # which does not wait for the ones
    assert "kernel twice (" in misused()


def test_a_result_is_read_by_whoever_comes_after_it(cupy, twice, misused):
    x, y = cupy.ones(4, cupy.float32), cupy.empty(4, cupy.float32)
    cupy.cuda.runtime.deviceSynchronize()
    with cupy.cuda.Stream(non_blocking=True):
        twice(x, y)
    with pytest.raises(MisuseError, match="reads uninitialized memory"):
        cupy.asnumpy(y)
    assert "kernel twice (" in misused()


def test_addresses_that_are_not_the_devices_are_refused(cupy, twice):
    x, y = cupy.ones(4, cupy.float32), np.zeros(4, np.float32)
    with cupy.cuda.Device(1):
        z = cupy.ones(4, cupy.float32)
    freed = cupy.ones(4, cupy.float32).data.ptr
    for address, error, reason in (
        (y.ctypes.data, CUDARuntimeError, "illegal memory access"),
        (z.data.ptr, CUDARuntimeError, "not on its device"),
        (freed, MisuseError, "in no array"),
    ):
        with pytest.raises(error, match=reason):
            twice(x, Bare(address))


class Bare:
    """An array of which only the address is known."""

    def __init__(self, address: int) -> None:
        self.data = self
        self.ptr = address


def test_what_goes_beyond_an_array_is_found(cupy, module, misused):
    x = cupy.ones(100, cupy.float32)
    record = np.array([(x.data.ptr, 1, 1)], "u8,i8,i8")
    module.get_function("beyond")((1,), (128,), (record, np.int64(100)))
    assert (x == 1).all()
    module.get_function("beyond")((1,), (128,), (record, np.int64(101)))
    reason = misused()
    assert f"beyond the arrays of its arguments, to {x.data.ptr + 400:#x}" in reason
    assert "float32 array (100,), made at test_kernels.py:" in reason


def test_what_nobody_has_written_is_not_read(cupy, twice, misused):
    x, y = cupy.empty(4, cupy.float32), cupy.empty(4, cupy.float32)
    x[1:] = 1
    twice(x, y)
    assert "reads uninitialized memory of float32 array (4,), made at test_kernels.py:" in misused()


def test_kernels_may_write_parts_of_an_array_at_once(cupy, twice):
    x, y = cupy.ones(8, cupy.float32), cupy.empty(8, cupy.float32)
    cupy.cuda.runtime.deviceSynchronize()
    for half in (slice(4), slice(4, 8)):
        twice(x[half], y[half], cupy.cuda.Stream(non_blocking=True))
    cupy.cuda.runtime.deviceSynchronize()
    assert (y == 2).all()


def test_parameters_are_those_of_the_kernel(cupy, module, misused):
    x = cupy.ones(4, cupy.float32)
    module.get_function("twice")((1,), (4,), (x.data.ptr, np.int32(0), 4))
    assert "parameters of [8, 4, 8] bytes" in misused()
    with pytest.raises(TypeError, match="Unsupported type"):
        module.get_function("twice")((1,), (4,), (x.data.ptr, "y", 4))


def test_parameters_may_lie_in_one_buffer(cupy, module):
    x, y = cupy.arange(4, dtype=cupy.float32), cupy.empty(4, cupy.float32)
    function, launch = module.get_function("twice"), cupy.cuda.driver.launchKernel
    buffer = np.array([x.data.ptr, y.data.ptr, 4], np.uint64)
    size = np.array([buffer.nbytes])
    words = np.array([1, buffer.ctypes.data, 2, size.ctypes.data, 0])
    launch(function.ptr, 1, 1, 1, 4, 1, 1, 0, 0, 0, words.ctypes.data)
    buffer[:] = 0  # the driver has read it
    assert np.array_equal(cupy.asnumpy(y), [0, 2, 4, 6])
    size[:] = 16
    with pytest.raises(MisuseError, match="takes 24 bytes of parameters, not 16"):
        launch(function.ptr, 1, 1, 1, 4, 1, 1, 0, 0, 0, words.ctypes.data)
    words[0] = 7
    with pytest.raises(CUDADriverError, match="no buffer of parameters"):
        launch(function.ptr, 1, 1, 1, 4, 1, 1, 0, 0, 0, words.ctypes.data)


@pytest.mark.parametrize("launch", [((0,), (4,), 0), ((1,), (1025,), 0), ((1,), (4,), 49153)])
def test_a_launch_that_no_device_takes_is_refused(cupy, module, launch):
    x = cupy.ones(4, cupy.float32)
    grid, block, shared = launch
    with pytest.raises(CUDADriverError, match="CUDA_ERROR_INVALID_VALUE"):
        module.get_function("twice")(grid, block, (x.data.ptr, x.data.ptr, 4), shared)


def test_more_shared_memory_is_asked_for(cupy, module):
    x, function = cupy.ones(4, cupy.float32), module.get_function("twice")
    driver = cupy.cuda.driver
    attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.funcSetAttribute(function.ptr, attribute, 50_000)
    function((1,), (4,), (x.data.ptr, x.data.ptr, 4), 50_000)
    assert (x == 2).all()
    with pytest.raises(CUDADriverError, match="CUDA_ERROR_INVALID_VALUE"):
        driver.funcSetAttribute(function.ptr, attribute, 1 << 20)


def test_machine_code_and_unknown_kernels_are_refused(cupy, module):
    with pytest.raises(CUDADriverError, match="only PTX can be executed"):
        cupy.cuda.function.Module().load(b"\x7fELF")
    with pytest.raises(CUDADriverError, match=r"CUDA_ERROR_NOT_FOUND.*thrice"):
        module.get_function("thrice")


def test_a_kernel_is_launched_where_it_was_loaded(cupy, module):
    with cupy.cuda.Device(1):
        x = cupy.ones(4, cupy.float32)
        with pytest.raises(CUDADriverError, match="loaded on another device"):
            module.get_function("twice")((1,), (4,), (x.data.ptr, x.data.ptr, 4))
