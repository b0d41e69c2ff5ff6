"""Copies between host and device; asynchronous for pinned memory."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fake_gpu.errors import MisuseError
from fake_gpu.machine import Device, machine
from fake_gpu.order import WORD, Place
from fake_gpu.pinned import UNKNOWN
from fake_gpu.pool import Allocation
from fake_gpu.streams import Stream, current_queue
from fake_gpu.work import Operation


def empty_pinned(shape: int | tuple[int, ...], dtype: DTypeLike = float) -> NDArray[Any]:
    """Return a new NumPy array in pinned memory: `cupyx.empty_pinned`."""
    return machine().pinned.empty(shape, dtype)


def attributes(address: int) -> SimpleNamespace:
    """Return the type of memory at an address: `cupy.cuda.runtime.pointerGetAttributes`."""
    return SimpleNamespace(type=int(machine().pinned.holds(address)))


class MemoryPointer:
    """An address in device memory, with a reference to its allocation.

    Args:
        device:     the device.
        ptr:        the address.
        allocation: allocation that contains the address.
    """

    def __init__(self, device: Device, ptr: int, allocation: Allocation) -> None:
        self.device_id = device.number
        self.ptr = ptr
        self.mem = allocation

    def copy_to_host_async(self, address: Any, size: int, stream: Stream | None = None) -> None:
        """Copy bytes to the host; asynchronous for pinned memory."""
        host, queue = _as_int(address), stream.queue if stream else current_queue()
        pinned = machine().pinned
        is_pinned, is_captured = pinned.holds(host), queue.capture is not None
        is_marked = is_pinned and not is_captured and not pinned.is_busy(host, size)
        target, ptr = _bytes_at(host, size), self.ptr
        if is_marked:
            target[...] = UNKNOWN

        def run(operation: Operation) -> None:
            if is_marked and (target != UNKNOWN).any():
                raise MisuseError(f"the host has written to the target of the pending {operation}")
            ctypes.memmove(host, ptr, size)

        writes = [pinned.place(host, size)] if is_pinned else []
        label = f"copy of {size} bytes to the host"
        operation = queue.enqueue(label, run, [self._place(size)], writes)
        if is_pinned:
            pinned.note_copy(host, size, operation)
        else:
            queue.synchronize()

    def copy_from_host_async(self, address: Any, size: int, stream: Stream | None = None) -> None:
        """Copy bytes from the host; asynchronous for pinned memory."""
        host, queue = _as_int(address), stream.queue if stream else current_queue()
        pinned = machine().pinned
        is_pinned, is_captured = pinned.holds(host), queue.capture is not None
        if is_captured and not is_pinned:
            raise MisuseError(
                "memory that is not pinned is copied in a capture: the graph would read its "
                "contents at launch"
            )
        source, ptr = _bytes_at(host, size), self.ptr
        given = source.copy()
        reads = [pinned.place(host, size)] if is_pinned else []
        is_final = not (is_captured or pinned.is_busy(host, size))
        writers = [place.block.history.writers[place.words].copy() for place in reads]

        def run(operation: Operation) -> None:
            if is_final and reads:
                _check_unchanged(operation, reads[0], writers[0], source, given)
            ctypes.memmove(ptr, (source if is_pinned else given).ctypes.data, size)

        label = f"copy of {size} bytes from the host"
        operation = queue.enqueue(label, run, reads, [self._place(size)])
        if is_pinned:
            pinned.note_copy(host, size, operation)

    def _place(self, size: int) -> Place:
        block = self.mem.block
        return Place.of_elements(block, self.ptr - block.address, (size,), (1,), 1)


def _check_unchanged(
    operation: Operation,
    place: Place,
    writers: NDArray[np.int32],
    source: NDArray[np.uint8],
    given: NDArray[np.uint8],
) -> None:
    """Raise if the host has changed the source of a copy; ignore writes of operations."""
    is_by_device = place.block.history.writers[place.words] != writers
    skipped = np.repeat(is_by_device, WORD)[int(source.ctypes.data) % WORD :][: source.size]
    if (source != given)[~skipped].any():
        raise MisuseError(f"the host has changed the source of the pending {operation}")


def _bytes_at(address: int, size: int) -> NDArray[np.uint8]:
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)


def _as_int(address: Any) -> int:
    return int(address.value if isinstance(address, ctypes.c_void_p) else address)
