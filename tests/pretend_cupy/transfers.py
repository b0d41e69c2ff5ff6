"""Copies between host and device, and the pinned memory that they need to run beside other work.

A copy from or to pinned memory is done later. Until the host has waited for it, the host must not
write there, nor read what is being written. Its page tables cannot tell, so memory that is going to
be written holds NaNs at first, and what a copy finds is compared with what was there when it was
enqueued.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pretend_cupy.errors import MisuseError
from pretend_cupy.machine import Device, machine
from pretend_cupy.order import Place
from pretend_cupy.pool import Allocation
from pretend_cupy.streams import Stream, current_queue
from pretend_cupy.work import Operation

_UNKNOWN = 0xFF  # every byte of what nobody should read yet: NaNs, as numbers


@dataclass(frozen=True)
class _Copy:
    """A copy from or to pinned memory.

    Attributes:
        begin:     address of the first byte on the host.
        end:       address after the last one.
        operation: what does it.
    """

    begin: int
    end: int
    operation: Operation


class PinnedPool:
    """Memory of the host that devices reach, handed out again at once when it is freed."""

    def __init__(self) -> None:
        self._blocks: dict[int, NDArray[np.uint8]] = {}
        self._free: dict[int, list[int]] = defaultdict(list)
        self._copies: list[_Copy] = []

    def allocate(self, size: int) -> NDArray[np.uint8]:
        """Return so many bytes; they are free when no array views them any more."""
        if self._free[size]:
            address = self._free[size].pop()
        else:
            memory = np.empty(max(size, 1), np.uint8)
            address = int(memory.ctypes.data)
            self._blocks[address] = memory
        memory = np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)
        memory[...] = _UNKNOWN
        weakref.finalize(memory.base, self._take_back, address, size)
        return memory

    def holds(self, address: int) -> bool:
        """Tell whether an address is in pinned memory."""
        return any(begin <= address < begin + memory.size for begin, memory in self._blocks.items())

    def is_busy(self, begin: int, end: int) -> bool:
        """Tell whether copies from or to these addresses are under way."""
        self._copies = [copy for copy in self._copies if not copy.operation.done]
        return any(copy.begin < end and begin < copy.end for copy in self._copies)

    def note(self, begin: int, size: int, operation: Operation) -> None:
        """Note that a copy from or to an address is under way."""
        self._copies.append(_Copy(begin, begin + size, operation))

    def _take_back(self, address: int, size: int) -> None:
        if self.is_busy(address, address + size):
            machine().work.report(f"{size} bytes of pinned memory are freed while a copy uses them")
        self._free[size].append(address)


#: Pinned memory is the host's, whatever devices there are.
PINNED = PinnedPool()


def empty_pinned(shape: int | tuple[int, ...], dtype: DTypeLike = float) -> NDArray[Any]:
    """Return a new NumPy array in pinned memory: `cupyx.empty_pinned`."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    count = int(np.prod(shape, dtype=np.int64))
    kind = np.dtype(dtype)
    return PINNED.allocate(count * kind.itemsize).view(kind).reshape(shape)


class MemoryPointer:
    """An address in a device's memory, and what keeps that from being freed.

    Args:
        device:     whose memory it is.
        ptr:        the address.
        allocation: the memory that it lies in.
    """

    def __init__(self, device: Device, ptr: int, allocation: Allocation) -> None:
        self.device_id = device.number
        self.ptr = ptr
        self.mem = allocation

    def copy_to_host_async(self, address: Any, size: int, stream: Stream | None = None) -> None:
        """Copy bytes to the host; with pinned memory the call returns before that is done."""
        host, queue = _as_int(address), stream.queue if stream else current_queue()
        is_pinned, is_kept = PINNED.holds(host), queue.capture is not None
        is_marked = is_pinned and not is_kept and not PINNED.is_busy(host, host + size)
        target, ptr = _bytes_at(host, size), self.ptr
        if is_marked:
            target[...] = _UNKNOWN

        def run(operation: Operation) -> None:
            if is_marked and (target != _UNKNOWN).any():
                raise MisuseError(f"the host has written where {operation} was going to")
            ctypes.memmove(host, ptr, size)

        reads = [self._place(size)]
        operation = queue.enqueue(f"copy of {size} bytes to the host", run, reads)
        if is_pinned:
            PINNED.note(host, size, operation)
        else:
            queue.synchronize()

    def copy_from_host_async(self, address: Any, size: int, stream: Stream | None = None) -> None:
        """Copy bytes from the host; from pinned memory they are read later."""
        host, queue = _as_int(address), stream.queue if stream else current_queue()
        is_pinned, is_kept = PINNED.holds(host), queue.capture is not None
        if is_kept and not is_pinned:
            raise MisuseError(
                "memory that is not pinned is copied in a capture: the graph would read what is "
                "there when it is launched"
            )
        source = _bytes_at(host, size)
        is_final = not (is_kept or PINNED.is_busy(host, host + size))
        given, ptr = source.copy(), self.ptr

        def run(operation: Operation) -> None:
            if is_pinned and is_final and not np.array_equal(source, given):
                raise MisuseError(f"the host has changed what {operation} was going to read")
            ctypes.memmove(ptr, (source if is_pinned else given).ctypes.data, size)

        writes = [self._place(size)]
        operation = queue.enqueue(f"copy of {size} bytes from the host", run, (), writes)
        if is_pinned:
            PINNED.note(host, size, operation)

    def _place(self, size: int) -> Place:
        block = self.mem.block
        return Place.of_elements(block, self.ptr - block.address, (size,), (1,), 1)


def _bytes_at(address: int, size: int) -> NDArray[np.uint8]:
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)


def _as_int(address: Any) -> int:
    return int(address.value if isinstance(address, ctypes.c_void_p) else address)
