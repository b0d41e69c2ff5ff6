"""The ``cuda`` backend: kernels loaded and launched by CuPy, on the caller's current stream."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from gridgen.backends.cache import BuildCache
from gridgen.backends.cuda.compiler import (
    INSTALL,
    CompiledKernel,
    compile_kernel,
    import_cupy,
    supported_capabilities,
)
from gridgen.backends.cuda.failures import INSTALL_DRIVER, failures
from gridgen.backends.interface import (
    ITEM_BYTES,
    THREAD_SCHEDULE,
    AnyLaunch,
    Arguments,
    Backend,
    Enqueue,
    Launch,
    RunnableKernel,
    Sources,
    launch_of,
    optin_shared_bytes,
)
from gridgen.backends.layouts import in_any_layout
from gridgen.errors import CompileError, DeviceError
from gridgen.functions.types import Dtype
from gridgen.naming import one_line

_MOST_BLOCKS = 2**31 - 1  # CUDA's limit of the grid's first dimension
# No NVRTC that CuPy takes compiles for older devices.
_LEAST_CAPABILITY = 50

# What cuLaunchKernel calls them: the words that come before a buffer with the bytes of all of a
# kernel's parameters, before its size, and after both.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0


class CudaBackend(Backend):
    """Compiles with NVRTC and runs on the current CUDA device.

    Args:
        cache: where kernels are kept; by default the user's cache folder.

    Raises:
        DeviceError: CuPy is not installed, or there is no GPU.
    """

    def __init__(self, *, cache: BuildCache | None = None) -> None:
        self._cupy = require_device()
        self._cache = cache or BuildCache()

    @staticmethod
    def require() -> None:
        """Raise ``DeviceError`` unless there is CuPy, and a GPU."""
        require_device()

    def kernel(
        self,
        sources: Sources,
        function: str,
        dtype: Dtype,
        launch: AnyLaunch = THREAD_SCHEDULE,
    ) -> RunnableKernel:
        """Return ``function`` of the module, compiled for ``dtype``, to be launched as told.

        One that has a form for arrays in rows is compiled when it is called.
        """

        def made(are_rows: bool) -> CudaKernel:
            def compiled(arch: str) -> CompiledKernel:
                return compile_kernel(sources, function, dtype, arch, self._cache, rows=are_rows)

            def launched(arch: str) -> AnyLaunch:
                return launch_of(sources, function, dtype, launch, rows=are_rows, arch=arch)

            kernel = CudaKernel(self._cupy, compiled, ITEM_BYTES[dtype], launched)
            kernel.load()
            return kernel

        return in_any_layout(sources, function, made)


class CudaKernel:
    """A kernel, loaded on each device when first called there, anew when that has failed.

    Args:
        cupy:     the module that drives the devices.
        compiled: compiles the kernel for an architecture.
        itemsize: bytes of one array element.
        launch:   returns how a kernel that is compiled for an architecture is launched.
    """

    def __init__(
        self,
        cupy: Any,
        compiled: Callable[[str], CompiledKernel],
        itemsize: int,
        launch: Callable[[str], AnyLaunch] = lambda arch: THREAD_SCHEDULE,
    ) -> None:
        self._cupy = cupy
        self._compiled = compiled
        self._itemsize = itemsize
        self._launch = launch
        self._runtime = cupy.cuda.runtime
        self._loaded: dict[tuple[int, int], tuple[Any, AnyLaunch]] = {}

    def __call__(self, arguments: Arguments, batch: int) -> None:
        """Enqueue ``batch`` states; see :class:`gridgen.backends.interface.RunnableKernel`.

        The arrays lie on the current device; the call returns before they are computed.
        """
        self.prepare(arguments, batch)()

    def prepare(self, arguments: Arguments, batch: int) -> Callable[[], None]:
        """Return what enqueues the same states whenever it is called; see ``RunnableKernel``.

        The arrays lie on the device that is current now; work goes to the stream that is current
        there in each call.
        """
        function, launch = self.load(batch)
        prepared = launches(arguments, batch, self._itemsize, launch.states_per_block)
        threads, shared = launch.threads_per_block, launch.shared_bytes
        runtime, current = self._runtime, self._cupy.cuda.get_current_stream
        enqueue = self._cupy.cuda.driver.launchKernel
        device = runtime.getDevice()

        def run() -> None:
            before = runtime.getDevice()
            # Even if it is the current device: a thread that has not used it yet has no context.
            runtime.setDevice(device)
            try:
                handle, stream = function.ptr, current().ptr
                for grid, parameters in prepared:
                    words = parameters.words
                    enqueue(handle, grid, 1, 1, threads, 1, 1, shared, stream, 0, words)
            finally:
                if before != device:
                    runtime.setDevice(before)

        return run

    def prepare_anywhere(self, arguments: Arguments, batch: int) -> Enqueue:
        """Return what enqueues as many states wherever they lie; see ``StreamKernel``."""
        function, launch = self.load(batch)
        threads, shared = launch.threads_per_block, launch.shared_bytes
        enqueue, use_device = self._cupy.cuda.driver.launchKernel, self._runtime.setDevice
        device = self._runtime.getDevice()
        idle: list[
            list[tuple[int, LaunchParameters]]
        ] = []  # those that no thread is launching with

        def run(addresses: Sequence[int], stream: int) -> None:
            use_device(device)  # as in ``prepare``
            try:
                prepared = idle.pop()
            except IndexError:
                prepared = launches(arguments, batch, self._itemsize, launch.states_per_block)
            handle = function.ptr
            for grid, parameters in prepared:
                parameters.put(addresses)
                enqueue(handle, grid, 1, 1, threads, 1, 1, shared, stream, 0, parameters.words)
            idle.append(prepared)

        return run

    def load(self, batch: int = 1) -> tuple[Any, Launch]:
        """Return the kernel on the current device, and how so many states are launched there.

        It is compiled and loaded if it is not yet there.
        """
        device = self._runtime.getDevice()
        place = device, failures(device)
        if place not in self._loaded:
            capability = int(self._cupy.cuda.Device(device).compute_capability)
            arch, compiled = self._compiled_for(capability)
            launch = self._launch(arch)
            module = self._cupy.cuda.function.Module()
            module.load(compiled.image)
            function = module.get_function(compiled.entry)
            if shared_bytes := optin_shared_bytes(launch):
                driver = self._cupy.cuda.driver
                limit = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                driver.funcSetAttribute(function.ptr, limit, shared_bytes)
            self._loaded[place] = function, launch
        function, launch = self._loaded[place]
        return function, launch.of(batch)

    def _compiled_for(self, capability: int) -> tuple[str, CompiledKernel]:
        """Return the kernel for a GPU, and what it has been compiled for."""
        try:
            supported = supported_capabilities()
        except CompileError as error:  # what has been compiled before is in the cache
            refusal = error
        else:
            arch = architecture(capability, supported)
            return arch, self._compiled(arch)
        # Machine code runs on later devices of the same generation; the driver assembles PTX.
        same = (f"sm_{number}" for number in range(capability, capability // 10 * 10 - 1, -1))
        older = (f"compute_{number}" for number in range(capability, _LEAST_CAPABILITY - 1, -1))
        for arch in (*same, *older):
            with contextlib.suppress(CompileError):
                return arch, self._compiled(arch)
        raise refusal


class LaunchParameters:
    """The parameters of a kernel, as cuLaunchKernel takes them in one buffer.

    Args:
        memory:  address, batch stride and component stride of each array, which are the bytes of
                 ``gridgen::Strided<T>``; then the states; then room for the words.
        skipped: bytes of each array that come before.

    Attributes:
        words: address of the words that tell the driver where they are.
    """

    def __init__(self, memory: array[int], skipped: Sequence[int]) -> None:
        # An array of the standard library is made in a fraction of the time that ctypes takes.
        self._memory, self._skipped = memory, skipped
        begin, size = memory.buffer_info()
        memory[-5], memory[-3] = begin, begin + 8 * (size - 1)
        self.words = begin + 8 * (size - 6)

    def put(self, addresses: Sequence[int]) -> None:
        """Let the arrays lie at these addresses."""
        memory, i = self._memory, 0
        for address, skipped in zip(addresses, self._skipped, strict=True):
            memory[i] = address + skipped
            i += 3


def launches(
    arguments: Arguments,
    batch: int,
    itemsize: int,
    states_per_block: int,
    most_blocks: int = _MOST_BLOCKS,
) -> list[tuple[int, LaunchParameters]]:
    """Return grid size and parameters of each launch that a batch takes.

    Args:
        arguments:        address, batch stride and component stride of each array.
        batch:            number of states; none take no launch.
        itemsize:         bytes of one array element.
        states_per_block: states that a block computes.
        most_blocks:      the largest grid.
    """
    found = []
    most = most_blocks * states_per_block
    for begin in range(0, batch, most):
        states = min(batch - begin, most)
        memory = array("q", bytes(arguments))
        size = 8 * (len(memory) + 1)
        memory.extend((states, _BUFFER_POINTER, 0, _BUFFER_SIZE, 0, _END, size))
        parameters = LaunchParameters(memory, [begin * itemsize * step for step in arguments[1::3]])
        parameters.put(arguments[::3])
        found.append((-(-states // states_per_block), parameters))
    return found


def architecture(capability: int, supported: Sequence[int]) -> str:
    """Return what to compile for: machine code, or PTX if NVRTC does not know the device.

    The driver assembles PTX for any device newer than the one it was made for.

    Args:
        capability: compute capability of the device: 90.
        supported:  those NVRTC can compile for.
    """
    if capability in supported:
        return f"sm_{capability}"
    older = [known for known in supported if known < capability]
    if not older:
        raise DeviceError(
            f"the GPU's compute capability is {capability / 10:.1f}; the installed NVRTC compiles "
            f'for {min(supported) / 10:.1f} and newer. Use backend="cpu", or an older CUDA toolkit'
        )
    return f"compute_{max(older)}"


def require_device() -> Any:
    """Return CuPy, where it can be used.

    Raises:
        DeviceError: CuPy is not installed, or there is no GPU.
    """
    try:
        cupy = import_cupy()
        devices = cupy.cuda.runtime.getDeviceCount()
    except ImportError as error:
        raise DeviceError(f'backend "cuda" needs CuPy ({one_line(error)}); {INSTALL}') from error
    except RuntimeError as error:
        raise DeviceError(
            f'backend "cuda" finds no usable GPU: {one_line(error)}; {INSTALL_DRIVER}'
        ) from error
    if devices == 0:
        raise DeviceError('backend "cuda" finds no GPU; use backend="cpu"')
    return cupy
