from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from functools import partial
from types import SimpleNamespace

import pytest

from gridgen.backends.cuda import backend as cuda
from gridgen.backends.cuda.backend import (
    CudaBackend,
    CudaKernel,
    LaunchParameters,
    architecture,
    launches,
)
from gridgen.backends.cuda.compiler import CompiledKernel
from gridgen.backends.interface import Launch
from gridgen.errors import CompileError, DeviceError

ARRAYS = (0x7F00_0000_1000, 2, 1, 0xFFFF_0000_0000_2000 - 2**64, 1, 1000)


def arguments():
    return (ctypes.c_int64 * len(ARRAYS))(*ARRAYS)


def parameters_at(words: int) -> list[int]:
    """Return the parameters of a launch, found as cuLaunchKernel finds them."""
    given = (ctypes.c_uint64 * 5).from_address(words)
    assert (given[0], given[2], given[4]) == (1, 2, 0)
    size = ctypes.c_size_t.from_address(given[3]).value
    return list((ctypes.c_int64 * (size // 8)).from_address(given[1]))


def numbers_of(parameters: LaunchParameters) -> list[int]:
    return parameters_at(parameters.words)


def test_parameters_are_the_bytes_of_the_structs_of_the_kernel():
    ((grid, parameters),) = launches(arguments(), 1000, itemsize=4, states_per_block=128)
    assert grid == 8
    assert numbers_of(parameters) == [*arguments(), 1000]


@pytest.mark.parametrize(("batch", "grid"), [(1, 1), (127, 1), (128, 1), (129, 2), (1 << 20, 8192)])
def test_the_grid_covers_the_batch(batch, grid):
    assert [grid for grid, _ in launches(arguments(), batch, itemsize=4, states_per_block=128)] == [
        grid
    ]


def test_an_empty_batch_takes_no_launch():
    assert launches(arguments(), 0, itemsize=4, states_per_block=128) == []


def test_a_batch_larger_than_a_grid_is_launched_in_parts():
    parts = launches(arguments(), 600, itemsize=8, states_per_block=128, most_blocks=2)
    assert [grid for grid, _ in parts] == [2, 2, 1]
    numbers = [numbers_of(parameters) for _, parameters in parts]
    assert [row[-1] for row in numbers] == [256, 256, 88]
    x, y = ARRAYS[0], ARRAYS[3]
    assert [row[:-1:3] for row in numbers] == [
        [x + 256 * i * 2 * 8, y + 256 * i * 8] for i in range(3)
    ]
    assert {(*row[1:3], *row[4:6]) for row in numbers} == {(2, 1, 1, 1000)}


@pytest.mark.parametrize("states_per_block", [1, 32, 128, 256])
def test_kernels_number_the_warps_of_a_launch_with_32_bits(states_per_block):
    batch = 1 << 39
    parts = launches(arguments(), batch, itemsize=4, states_per_block=states_per_block)
    assert sum(grid for grid, _ in parts) * states_per_block == batch
    assert all(grid * states_per_block <= 32 << 32 for grid, _ in parts)


@pytest.mark.parametrize(
    ("capability", "arch"), [(90, "sm_90"), (75, "sm_75"), (88, "compute_80"), (130, "compute_120")]
)
def test_the_architecture_for_a_device(capability, arch):
    assert architecture(capability, (75, 80, 90, 120)) == arch


def test_a_device_too_old_is_refused():
    with pytest.raises(DeviceError, match=r"capability is 6\.1; .* 7\.5 and newer"):
        architecture(61, (75, 80))


class Function:
    """A kernel that has been loaded."""

    def __init__(self, handle: int) -> None:
        self.ptr = handle


class Devices:
    """Stands in for CuPy: devices of capability 9.0, a driver that records launches."""

    def __init__(self) -> None:
        self.current = 0
        self.stream = 5
        self.loaded: list[tuple[int, bytes]] = []
        self.launched: list[tuple[int, ...]] = []
        self.parameters: list[list[int]] = []
        self.attributes: list[tuple[int, int, int]] = []
        self.used: list[int] = []
        self.functions: list[weakref.ref[Function]] = []
        self.cuda = SimpleNamespace(
            runtime=SimpleNamespace(getDevice=lambda: self.current, setDevice=self.set_device),
            Device=lambda number: SimpleNamespace(compute_capability="90"),
            function=SimpleNamespace(Module=self.module),
            get_current_stream=lambda: SimpleNamespace(ptr=self.stream + self.current),
            driver=SimpleNamespace(
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
                funcSetAttribute=lambda *values: self.attributes.append(values),
                launchKernel=self.launch,
            ),
        )

    def set_device(self, device):
        self.current = device
        self.used.append(device)

    def module(self):
        device = self.current

        def get_function(name):
            function = Function(1000 + device)
            self.functions.append(weakref.ref(function))
            return function

        return SimpleNamespace(
            load=lambda image: self.loaded.append((device, image)), get_function=get_function
        )

    def launch(self, function, *rest):
        *shape, stream, pointers, words = rest
        assert pointers == 0
        self.launched.append((self.current, function, *shape, stream))
        self.parameters.append(parameters_at(words))


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
    assert devices.launched == [
        (device, 1000 + device, 10, 1, 1, 32, 1, 1, 0, 5 + device) for device in (0, 1, 0, 1)
    ]
    assert devices.parameters == [[*arguments(), 300]] * 4


def prepared(devices, batch=300):
    compiled = CompiledKernel(b"image", "name", None)
    return CudaKernel(devices, lambda arch: compiled, itemsize=4).prepare(arguments(), batch)


def test_what_was_prepared_goes_to_the_stream_that_is_current_when_it_is_called(monkeypatch):
    monkeypatch.setattr(cuda, "supported_capabilities", lambda: (80, 90))
    devices = Devices()
    launch = prepared(devices)
    assert devices.launched == []
    for stream in (5, 77):
        devices.stream = stream
        launch()
    assert [row[-1] for row in devices.launched] == [5, 77]
    assert devices.parameters == [[*arguments(), 300]] * 2


def test_what_was_prepared_goes_to_its_device_and_leaves_the_current_one(monkeypatch):
    """A thread that has not used the device yet gets its context, by the device being set."""
    monkeypatch.setattr(cuda, "supported_capabilities", lambda: (80, 90))
    devices = Devices()
    devices.current = 1
    launch = prepared(devices)
    for current, used in ((1, [1]), (0, [1, 0])):
        devices.current = current
        devices.used.clear()
        launch()
        assert devices.launched.pop()[:2] == (1, 1001)
        assert (devices.current, devices.used) == (current, used)


@pytest.mark.usefixtures("few_objects")
def test_what_was_prepared_keeps_what_was_loaded(monkeypatch):
    """Without its module a kernel is unloaded, whoever holds its handle."""
    monkeypatch.setattr(cuda, "supported_capabilities", lambda: (80, 90))
    devices = Devices()
    launch = prepared(devices)
    gc.collect()
    assert [function() is None for function in devices.functions] == [False]
    del launch
    gc.collect()
    assert [function() is None for function in devices.functions] == [True]


def test_the_current_device_is_left_also_if_a_launch_fails(monkeypatch):
    monkeypatch.setattr(cuda, "supported_capabilities", lambda: (80, 90))
    devices = Devices()
    devices.cuda.driver.launchKernel = lambda *_: 1 / 0
    launch = prepared(devices)
    devices.current = 1
    with pytest.raises(ZeroDivisionError):
        launch()
    assert devices.current == 1


@pytest.mark.parametrize("most", [320, 128])
def test_what_was_prepared_for_arrays_anywhere_is_told_where_they_lie(monkeypatch, most):
    """By threads at once too: another one comes in while a launch goes on."""
    monkeypatch.setattr(cuda, "supported_capabilities", lambda: (80, 90))
    monkeypatch.setattr(cuda, "launches", partial(launches, most_blocks=most // 32))
    devices = Devices()
    places = [(4096, 8192), (1 << 40, 16)]
    waiting = [lambda: enqueue(places[1], 78)]
    launch = devices.launch

    def interrupted(*words):
        if waiting:
            waiting.pop()()
        launch(*words)

    devices.cuda.driver.launchKernel = interrupted
    compiled = CompiledKernel(b"image", "name", None)
    kernel = CudaKernel(devices, lambda arch: compiled, itemsize=4)
    enqueue = kernel.prepare_anywhere(arguments(), 300)
    enqueue(places[0], 77)
    begins = range(0, 300, most)
    expected = {stream: [] for stream in (78, 77)}
    for stream, (x, y) in zip(expected, places[::-1], strict=True):
        for begin in begins:
            at = x + begin * 2 * 4, 2, 1, y + begin * 4, 1, 1000
            expected[stream].append([*at, min(300 - begin, most)])
    assert [row[-1] for row in devices.launched] == [78] * len(begins) + [77] * len(begins)
    assert devices.parameters == [*expected[78], *expected[77]]


@pytest.mark.parametrize("cached", ["sm_90", "compute_50", None])
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
    CudaKernel(devices, lambda arch: compiled, 4, lambda arch: launch)(arguments(), 5)
    assert devices.launched == [(0, 1000, 3, 1, 1, 64, 1, 1, 50_000, 5)]
    assert devices.attributes == [(1000, 8, 50_000)]


def test_without_cupy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match=r"needs CuPy .*pip install 'cupy-cuda12x>=14' "):
        CudaBackend()


def test_an_old_cupy_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(__version__="13.6.0"))
    with pytest.raises(DeviceError, match=r"CuPy is 13\.6\.0; 14 or newer .*pip install"):
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


def test_a_machine_without_a_gpu_is_refused(monkeypatch):
    runtime = SimpleNamespace(getDeviceCount=lambda: 0)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(cuda, "import_cupy", lambda: cupy)
    with pytest.raises(DeviceError, match="finds no GPU"):
        cuda.require_device()
