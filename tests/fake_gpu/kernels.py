"""Modules of PTX text, their kernels and launches."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from fake_gpu.errors import CUDADriverError, CUDARuntimeError, MisuseError
from fake_gpu.machine import Device, Library, machine
from fake_gpu.order import WORD
from fake_gpu.pool import Block
from fake_gpu.streams import ExternalStream, Queue, Stream, current_queue
from fake_gpu.work import Operation

MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # number of the attribute in CUDA
_MAX_BLOCKS = 2**31 - 1
_MAX_THREADS = 1024
_FREELY_SHARED = 48 * 1024
# Range of parameters that are taken for addresses: larger than counts, smaller than most others.
_ADDRESSES = (1 << 32, 1 << 47)

# Tags of cuLaunchKernel: a buffer of parameters, its size, and the end.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0

_VERSION = re.compile(r"\.version (\d+)\.(\d+)")

_shared: dict[int, int] = {}
_functions: WeakValueDictionary[int, Function] = WeakValueDictionary()


class Module:
    """A loaded module: `cupy.cuda.function.Module`."""

    def __init__(self) -> None:
        self._device: Device | None = None
        self._library: Library | None = None

    def load(self, image: bytes) -> None:
        """Load PTX text onto the current device.

        Raises:
            CUDADriverError: the image is not PTX, or the driver is too old.
        """
        machine().device.check()
        for device in machine().devices:  # a capture prohibits loading, in all threads
            for queue in device.queues.values():
                if queue.capture:
                    queue.capture.invalidate()
                    raise CUDADriverError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")
        text = image.rstrip(b"\0").decode(errors="replace")
        if ".version" not in text or ".entry" not in text:
            raise CUDADriverError("CUDA_ERROR_INVALID_IMAGE", "only PTX can be executed here")
        version = tuple(map(int, _VERSION.search(text).groups()))  # type: ignore[union-attr]
        if version > machine().newest_ptx:
            raise CUDADriverError("CUDA_ERROR_UNSUPPORTED_PTX_VERSION")
        self._device = machine().device
        self._library = machine().settings.executable(text)

    def get_function(self, name: str) -> Function:
        """Return a kernel.

        Raises:
            CUDADriverError: there is none of that name.
        """
        if not (self._device and self._library and name in self._library.entries):
            raise CUDADriverError("CUDA_ERROR_NOT_FOUND", name)
        return Function(self._device, self._library, name)


class Function:
    """A kernel: `cupy.cuda.function.Function`.

    Args:
        device:  device of the module.
        library: library that runs it.
        name:    name in the module.
    """

    def __init__(self, device: Device, library: Library, name: str) -> None:
        self.ptr = machine().handle()
        self._device = device
        self._failures = device.failures
        self._library = library
        self._name = name
        _functions[self.ptr] = self

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        shared_mem: int = 0,
        stream: Stream | None = None,
    ) -> None:
        """Enqueue a grid of threads; see CuPy's.

        Raises:
            as ``enqueue``.
        """
        queue = stream.queue if stream else current_queue()
        parameters = [_bytes_of(value) for value in args]
        self.enqueue(_product(grid), _product(block), shared_mem, queue, parameters)

    def enqueue(
        self, blocks: int, threads: int, shared: int, queue: Queue, parameters: list[bytes]
    ) -> None:
        """Enqueue a grid of threads.

        Args:
            blocks:     number of blocks.
            threads:    threads per block.
            shared:     dynamic shared memory per block [bytes].
            queue:      the stream.
            parameters: bytes of each parameter.

        Raises:
            CUDADriverError:  the grid, the block or the shared memory exceeds a limit.
            CUDARuntimeError: the device cannot access an address.
            MisuseError:      an address is in no array.
        """
        queue.check()
        if self._failures != self._device.failures:
            raise CUDADriverError("CUDA_ERROR_INVALID_HANDLE")
        if not machine().device is self._device is queue.device:
            raise CUDADriverError("CUDA_ERROR_INVALID_VALUE", "loaded on another device")
        limit = _shared.get(self.ptr, _FREELY_SHARED)
        if not 0 < blocks <= _MAX_BLOCKS or not 0 < threads <= _MAX_THREADS:
            raise CUDADriverError("CUDA_ERROR_INVALID_VALUE", f"{blocks} blocks of {threads}")
        if shared > limit:
            raise CUDADriverError(
                "CUDA_ERROR_INVALID_VALUE", f"{shared} of {limit} bytes of shared memory"
            )
        given = list(dict.fromkeys(block.lease for block in self._blocks(parameters)))
        pool, name, library = self._device.pool, self._name, self._library

        def run(operation: Operation) -> None:
            watched = pool.watched()
            try:
                library.launch(name, blocks, threads, shared, parameters, watched)
            except ValueError as error:
                raise MisuseError(f"{operation}: {error}") from error
            for lease in given:
                reads, writes = pool.touched(watched, lease)
                operation.reads += reads
                operation.writes += writes
            if watched.marks.any():
                stray = int(watched.marks.argmax()) * WORD + watched.begin
                raise MisuseError(
                    f"{operation} goes beyond the arrays of its arguments, to {stray:#x}; they are "
                    + ", ".join(f"{block} at {block.address:#x}" for block, *_ in given)
                )

        queue.enqueue(f"kernel {name}", run, uses=[lease.block for lease in given])
        (queue.capture or queue).seconds += machine().duration(name, blocks, threads)

    def split(self, buffer: bytes) -> list[bytes]:
        """Split a buffer of all parameters.

        Raises:
            MisuseError: the buffer has another size.
        """
        parameters, end = [], 0
        for size, alignment in self._library.layout(self._name):
            begin = -(-end // alignment) * alignment
            end = begin + size
            parameters.append(buffer[begin:end])
        if end != len(buffer):
            raise MisuseError(f"{self._name} takes {end} bytes of parameters, not {len(buffer)}")
        return parameters

    def _blocks(self, parameters: Sequence[bytes]) -> list[Block]:
        """Return the blocks that the parameters of a launch point to.

        Raises:
            CUDARuntimeError: the device cannot access an address.
            MisuseError:      an address is in no array.
        """
        blocks = []
        for parameter in parameters:
            for address in np.frombuffer(parameter[: len(parameter) // 8 * 8], np.uint64).tolist():
                if _ADDRESSES[0] <= address < _ADDRESSES[1] and not machine().pinned.holds(address):
                    region = self._device.pool.region
                    if not region.begin <= address < region.end:
                        raise CUDARuntimeError(
                            "cudaErrorIllegalAddress",
                            f"{self._name} has argument {address:#x}, which is not on its device",
                        )
                    blocks.append(self._device.pool.find(address))
        return blocks


def launch(
    function: int,
    *extents: int,
) -> None:
    """Enqueue a kernel with parameters in one buffer: `cupy.cuda.driver.launchKernel`.

    Args:
        function: pointer of the kernel.
        extents:  three extents of the grid, three of a block, bytes of shared memory, pointer of
                  the stream, 0 (separate parameters are not supported), and the address of the
                  tags that describe the buffer.

    Raises:
        CUDADriverError: the tags do not describe a buffer.
        Also the errors of ``Function.enqueue``.
    """
    *sizes, shared, stream, one_by_one, words = extents
    pointer, buffer, size, count, end = (ctypes.c_uint64 * 5).from_address(words)
    if one_by_one or (pointer, size, end) != (_BUFFER_POINTER, _BUFFER_SIZE, _END):
        raise CUDADriverError("CUDA_ERROR_INVALID_VALUE", "no buffer of parameters")
    launched = _functions[function]
    bytes_of_all = ctypes.string_at(buffer, ctypes.c_uint64.from_address(count).value)
    queue = ExternalStream(stream).queue
    parameters = launched.split(bytes_of_all)
    launched.enqueue(_product(sizes[:3]), _product(sizes[3:]), shared, queue, parameters)


def set_attribute(function: int, attribute: int, value: int) -> None:
    """Set an attribute of a kernel: `cupy.cuda.driver.funcSetAttribute`.

    Raises:
        CUDADriverError: the value exceeds the limit of the device.
    """
    most = (227 if machine().settings.capability >= 90 else 64) * 1024  # of a block
    if attribute != MAX_DYNAMIC_SHARED_SIZE_BYTES or not 0 <= value <= most:
        raise CUDADriverError("CUDA_ERROR_INVALID_VALUE", f"attribute {attribute} of {value}")
    _shared[function] = value


def _product(extents: Sequence[int]) -> int:
    return int(np.prod([int(extent) for extent in extents], dtype=np.int64))


def _bytes_of(value: Any) -> bytes:
    """Return the bytes of a parameter as CuPy passes them.

    Raises:
        TypeError: CuPy does not support the type.
    """
    if isinstance(value, bool):
        return np.bool_(value).tobytes()
    if isinstance(value, int):
        return np.int64(value).tobytes()
    if isinstance(value, float):
        return np.float64(value).tobytes()
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.size == 1):
        return value.tobytes()
    raise TypeError(f"Unsupported type {type(value)}")
