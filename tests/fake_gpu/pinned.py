"""Pinned memory of the host, for asynchronous copies.

Until the host waits for a copy, it must not write to its source or access its target. Page tables
cannot detect this. Hence the target of a pending copy contains NaNs, and a copy compares its source
with the values when it was enqueued. Accesses of copies and host functions are recorded by word, as
in device memory.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fake_gpu.order import WORD, Place
from fake_gpu.pool import Block
from fake_gpu.work import Operation, caller

UNKNOWN = 0xFF  # every byte of memory that must not be read yet: NaNs


class PinnedPool:
    """Pool of pinned memory; reuses freed memory immediately.

    Args:
        report: reports a misuse at the next synchronization.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._blocks: dict[int, tuple[Block, NDArray[np.uint8]]] = {}
        self._free: dict[int, list[int]] = defaultdict(list)
        self._copies: list[tuple[int, int, Operation]] = []
        self._functions: list[Operation] = []

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = float) -> NDArray[Any]:
        """Return a new NumPy array: `cupyx.empty_pinned`."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        return self._allocate(size).view(kind).reshape(shape)

    def holds(self, address: int) -> bool:
        """Return whether an address is in pinned memory."""
        return self._find(address) is not None

    def place(self, address: int, size: int) -> Place:
        """Return the place of bytes; mark them as written by the host."""
        block = self._find(address)
        assert block is not None
        place = Place.of_elements(block, address - block.address, (size,), (1,), 1)
        block.history.written[place.words] = block.times
        return place

    def is_busy(self, address: int, size: int) -> bool:
        """Return whether copies of these bytes or host functions are pending."""
        self._copies = [copy for copy in self._copies if not copy[2].done]
        self._functions = [operation for operation in self._functions if not operation.done]
        return bool(self._functions) or self._is_copied(address, size)

    def note_copy(self, address: int, size: int, operation: Operation) -> None:
        """Record a pending copy from or to an address."""
        self._copies.append((address, address + size, operation))

    def note_function(self, operation: Operation) -> None:
        """Record a pending host function."""
        self._functions.append(operation)

    @contextmanager
    def written_by(self, operation: Operation) -> Iterator[None]:
        """Add the memory that changes in this context to the writes of an operation."""
        blocks = [(block, memory) for block, memory in self._blocks.values() if block.owner]
        before = [memory.copy() for _, memory in blocks]
        try:
            yield
        finally:
            for (block, memory), old in zip(blocks, before, strict=True):
                words = np.flatnonzero((memory != old).reshape(-1, WORD).any(axis=1))
                if words.size:
                    operation.writes.append(Place.of_words(block, block.times, words))

    def _find(self, address: int) -> Block | None:
        for block, _ in self._blocks.values():
            if block.address <= address < block.address + block.size:
                return block
        return None

    def _is_copied(self, address: int, size: int) -> bool:
        return any(
            begin < address + size and address < end and not operation.done
            for begin, end, operation in self._copies
        )

    def _allocate(self, size: int) -> NDArray[np.uint8]:
        """Allocate bytes; they are free when no array views them."""
        if self._free[size]:
            block, _ = self._blocks[self._free[size].pop()]
        else:
            memory = np.empty(max(-(-size // WORD), 1) * WORD, np.uint8)
            block = Block(int(memory.ctypes.data), memory.size, 0)
            self._blocks[block.address] = block, memory
        block.owner = f"{size} bytes of pinned memory, made at {caller()}"
        block.times += 1
        view = np.frombuffer((ctypes.c_uint8 * size).from_address(block.address), np.uint8)
        view[...] = UNKNOWN
        weakref.finalize(view.base, self._take_back, block, size)
        return view

    def _take_back(self, block: Block, size: int) -> None:
        if self._is_copied(block.address, block.size):
            self._report(f"{size} bytes of pinned memory are freed while a copy uses them")
        block.owner = ""
        self._free[size].append(block.address)
