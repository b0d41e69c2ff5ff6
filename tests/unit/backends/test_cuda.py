from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from gridgen.backends import cuda
from gridgen.backends.cuda import STRIDED, CudaBackend, CudaKernel, architecture, launches
from gridgen.backends.interface import Launch
from gridgen.backends.nvrtc import CompiledKernel
from gridgen.errors import CompileError, DeviceError

ARRAYS = (0x7F00_0000_1000, 2, 1, 0xFFFF_0000_0000_2000 - 2**64, 1, 1000)


def arguments():
    return (ctypes.c_int64 * len(ARRAYS))(*ARRAYS)


def test_an_array_is_passed_as_the_struct_of_the_kernel():
    assert STRIDED.itemsize == 24
    assert [STRIDED.fields[name][1] for name in STRIDED.names] == [0, 8, 16]
    ((grid, values),) = launches(arguments(), 1000, itemsize=4, states_per_block=128)
    assert grid == 8
    x, y, n = values
    assert x.tobytes() + y.tobytes() == bytes(arguments())
    assert x.size == y.size == 1
    assert (n, n.dtype) == (1000, np.int64)


@pytest.mark.parametrize(("batch", "grid"), [(1, 1), (127, 1), (128, 1), (129, 2), (1 << 20, 8192)])
def test_the_grid_covers_the_batch(batch, grid):
    assert [grid for grid, _ in launches(arguments(), batch, itemsize=4, states_per_block=128)] == [
        grid
    ]


def test_an_empty_batch_takes_no_launch():
    assert list(launches(arguments(), 0, itemsize=4, states_per_block=128)) == []


def test_a_batch_larger_than_a_grid_is_launched_in_parts():
    parts = list(launches(arguments(), 600, itemsize=8, states_per_block=128, most_blocks=2))
    assert [(grid, int(values[-1])) for grid, values in parts] == [(2, 256), (2, 256), (1, 88)]
    moved = [[int(array["data"][0]) for array in values[:-1]] for _, values in parts]
    x, y = ARRAYS[0], ARRAYS[3] + 2**64
    assert moved == [[x + 256 * i * 2 * 8, y + 256 * i * 8] for i in range(3)]


@pytest.mark.parametrize(
    ("capability", "arch"), [(90, "sm_90"), (75, "sm_75"), (88, "compute_80"), (130, "compute_120")]
)
def test_the_architecture_for_a_device(capability, arch):
    assert architecture(capability, (75, 80, 90, 120)) == arch


def test_a_device_too_old_is_refused():
    with pytest.raises(DeviceError, match=r"capability is 6\.1; .* 7\.5 and newer"):
        architecture(61, (75, 80))


class Devices:
    """Stands in for CuPy: devices of capability 9.0, functions that record their launches."""

    def __init__(self) -> None:
        self.current = 0
        self.loaded: list[tuple[int, bytes]] = []
        self.launched: list[tuple[int, object, object, int]] = []
        self.attributes: list[tuple[int, int, int]] = []
        self.cuda = SimpleNamespace(
            runtime=SimpleNamespace(getDevice=lambda: self.current),
            Device=lambda number: SimpleNamespace(compute_capability="90"),
            function=SimpleNamespace(Module=self.module),
            driver=SimpleNamespace(
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
                funcSetAttribute=lambda *values: self.attributes.append(values),
            ),
        )

    def module(self):
        device = self.current

        def launch(grid, block, values, shared):
            self.launched.append((device, grid, block, shared))

        launch.ptr = 1234
        return SimpleNamespace(
            load=lambda image: self.loaded.append((device, image)), get_function=lambda name: launch
        )


def test_a_kernel_is_loaded_once_on_each_device(monkeypatch):
    monkeypatch.setattr(cuda, "supported_capabilities", lambda: (80, 90))
    devices, asked = Devices(), []

    def compiled(arch):
        asked.append(arch)
        return CompiledKernel(b"image", "name", None)

    kernel = CudaKernel(devices, compiled, itemsize=4)
    for device in (0, 1, 0, 1):
        devices.current = device
        kernel(arguments(), 300)
    assert asked == ["sm_90", "sm_90"]
    assert devices.loaded == [(0, b"image"), (1, b"image")]
    assert devices.launched == [(device, (3,), (128,), 0) for device in (0, 1, 0, 1)]


@pytest.mark.parametrize("cached", ["sm_90", "compute_80", None])
def test_without_a_compiler_what_is_cached_for_the_device_is_loaded(monkeypatch, cached):
    def missing():
        raise CompileError("NVRTC is not usable")

    def compiled(arch):
        return CompiledKernel(b"image", "name", None) if arch == cached else missing()

    monkeypatch.setattr(cuda, "supported_capabilities", missing)
    devices = Devices()
    if cached is None:
        with pytest.raises(CompileError, match="not usable"):
            CudaKernel(devices, compiled, itemsize=4).load()
    else:
        CudaKernel(devices, compiled, itemsize=4).load()
        assert devices.loaded == [(0, b"image")]


def test_a_kernel_of_blocks_asks_for_its_shared_memory(monkeypatch):
    monkeypatch.setattr(cuda, "supported_capabilities", lambda: (80, 90))
    devices = Devices()
    launch = Launch(threads_per_block=64, states_per_block=2, shared_bytes=50_000)
    compiled = CompiledKernel(b"image", "name", None)
    CudaKernel(devices, lambda arch: compiled, 4, launch)(arguments(), 5)
    assert devices.launched == [(0, (3,), (64,), 50_000)]
    assert devices.attributes == [(1234, 8, 50_000)]


def test_without_cupy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match=r"needs CuPy .*pip install cupy-cuda12x "):
        CudaBackend()


def has_gpu() -> bool:
    try:
        cuda.require_device()
    except DeviceError:
        return False
    return True


@pytest.mark.skipif(not has_gpu(), reason="no GPU")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_kernel_computes_every_state(toy, dtype):
    cupy = cuda.require_device()
    x = cupy.arange(2000, dtype=dtype).reshape(1000, 2) % 17
    y = cupy.full((1000, 1), cupy.nan, dtype)
    numbers = [
        number
        for array in (x, y)
        for number in (array.data.ptr, *(s // array.itemsize for s in array.strides))
    ]
    kernel = CudaBackend().kernel(toy, "evaluate", dtype)
    kernel((ctypes.c_int64 * 6)(*numbers), 1000)
    cupy.testing.assert_array_equal(y, x[:, :1] * x[:, :1] + 3 * x[:, 1:])
