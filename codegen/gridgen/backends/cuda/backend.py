"""The ``cuda`` backend: load and launch kernels with CuPy, on the caller's current stream."""

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

# Blocks of a launch: kernels number the warps of its states, up to eight of a block, with 32 bits.
MAX_BLOCKS = 2**29
# No NVRTC release that CuPy supports compiles for older devices.
_MIN_CAPABILITY = 50

# CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE and _END of cuLaunchKernel.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0


class CudaBackend(Backend):
    """Backend that compiles with NVRTC and runs on the current CUDA device.

    Args:
        cache: cache of compiled kernels; by default in the user's cache folder.

    Raises:
        DeviceError: CuPy is not installed, or no GPU is available.
    """

    def __init__(self, *, cache: BuildCache | None = None) -> None:
        self._cupy = require_device()
        self._cache = cache

    @staticmethod
    def require() -> None:
        """Raise ``DeviceError`` unless CuPy and a GPU are available."""
        require_device()

    def kernel(
        self,
        sources: Sources,
        function: str,
        dtype: Dtype,
        launch: AnyLaunch = THREAD_SCHEDULE,
        batch: int = 0,
    ) -> RunnableKernel:
        """Return ``function`` of the module, compiled for ``dtype``.

        A function with a row form is compiled on its first call.
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
    """A kernel, loaded on each device on its first call, and again after a device failure."""

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

        The arrays must be on the current device. The call is asynchronous.
        """
        self.prepare(arguments, batch)()

    def prepare(self, arguments: Arguments, batch: int) -> Callable[[], None]:
        """Return a function that enqueues the same states; see ``RunnableKernel``.

        The arrays must be on the current device. Each call uses the device's current stream.
        """
        function, launch = self.load(batch)
        prepared = launches(arguments, batch, self._itemsize, launch.states_per_block)
        threads, shared = launch.threads_per_block, launch.shared_bytes
        runtime, current = self._runtime, self._cupy.cuda.get_current_stream
        enqueue = self._cupy.cuda.driver.launchKernel
        device = runtime.getDevice()

        def run() -> None:
            before = runtime.getDevice()
            # Even if the device is current: a new thread may have no context.
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
        """Return a function that enqueues a batch at any addresses; see ``StreamKernel``."""
        function, launch = self.load(batch)
        threads, shared = launch.threads_per_block, launch.shared_bytes
        enqueue, use_device = self._cupy.cuda.driver.launchKernel, self._runtime.setDevice
        device = self._runtime.getDevice()
        idle: list[list[tuple[int, LaunchParameters]]] = []  # not in use by a thread

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
        """Return the kernel on the current device and its launch configuration for a batch.

        Compile and load the kernel if necessary.
        """
        device = self._runtime.getDevice()
        loaded_on = device, failures(device)
        if loaded_on not in self._loaded:
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
            self._loaded[loaded_on] = function, launch
        function, launch = self._loaded[loaded_on]
        return function, launch.of(batch)

    def _compiled_for(self, capability: int) -> tuple[str, CompiledKernel]:
        """Return the architecture and the compiled kernel for a GPU."""
        try:
            supported = supported_capabilities()
        except CompileError as error:  # the kernel may be in the cache
            refusal = error
        else:
            arch = architecture(capability, supported)
            return arch, self._compiled(arch)
        # Machine code runs on later devices of the same generation; the driver assembles PTX.
        same = (f"sm_{number}" for number in range(capability, capability // 10 * 10 - 1, -1))
        older = (f"compute_{number}" for number in range(capability, _MIN_CAPABILITY - 1, -1))
        for arch in (*same, *older):
            with contextlib.suppress(CompileError):
                return arch, self._compiled(arch)
        raise refusal


class LaunchParameters:
    """Parameters of a kernel in one buffer, for the ``extra`` argument of cuLaunchKernel.

    Args:
        memory:  address, batch stride and component stride of each array, the bytes of
                 ``gridgen::Strided<T>``; then the number of states; then space for ``extra``.
        skipped: offset of the batch in each array [bytes].

    Attributes:
        words: address of ``extra``.
    """

    def __init__(self, memory: array[int], skipped: Sequence[int]) -> None:
        # array.array is faster to create than a ctypes array.
        self._memory, self._skipped = memory, skipped
        begin, size = memory.buffer_info()
        memory[-5], memory[-3] = begin, begin + 8 * (size - 1)
        self.words = begin + 8 * (size - 6)

    def put(self, addresses: Sequence[int]) -> None:
        """Set the addresses of the arrays."""
        memory, i = self._memory, 0
        for address, skipped in zip(addresses, self._skipped, strict=True):
            memory[i] = address + skipped
            i += 3


def launches(
    arguments: Arguments,
    batch: int,
    itemsize: int,
    states_per_block: int,
    most_blocks: int = MAX_BLOCKS,
) -> list[tuple[int, LaunchParameters]]:
    """Return grid size and parameters of each launch of a batch.

    Args:
        arguments:        address, batch stride and component stride of each array.
        batch:            number of states; zero states need no launch.
        itemsize:         bytes per array element.
        states_per_block: states per block.
        most_blocks:      maximum grid size.
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
    """Return the target architecture: machine code, or PTX if NVRTC does not support the device.

    The driver assembles PTX for newer devices.

    Args:
        capability: compute capability of the device, such as 90.
        supported:  compute capabilities that NVRTC supports.
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
    """Import CuPy and check for a GPU.

    Raises:
        DeviceError: CuPy is not installed, or no GPU is available.
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
