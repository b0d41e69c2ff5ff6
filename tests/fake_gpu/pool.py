"""Memory pool of a device.

As in CuPy, the pool reuses a freed block immediately, in the same stream: later work of the stream
is ordered after earlier work. The pool does not consider pending work of other streams.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fake_gpu.errors import MisuseError, OutOfMemoryError
from fake_gpu.order import WORD, History, Place
from fake_gpu.ptx.executable import READ, WRITTEN, Watched
from fake_gpu.region import Region
from fake_gpu.work import caller

_MULTIPLE = 512  # bytes; sizes of blocks are multiples
# Bytes between blocks, to detect accesses beyond the end.
_MARGIN = 512


@dataclass(eq=False)
class Block:
    """A part of the memory of a device.

    Attributes:
        address: address of the first byte.
        size:    size [bytes].
        used:    requested size [bytes].
        stream:  pointer of the stream that may reuse it.
        cache:   allocator that may reuse it: "" for CuPy's.
        history: last accesses.
        owner:   description of its array; empty if it is free.
        times:   number of allocations so far.
    """

    address: int
    size: int
    stream: int
    history: History = field(init=False)
    owner: str = ""
    times: int = 0
    used: int = 0
    cache: str = ""

    def __post_init__(self) -> None:
        self.history = History(self.size // WORD)

    def __str__(self) -> str:
        return self.owner or f"free memory at {self.address:#x}"

    @property
    def lease(self) -> Lease:
        """The current allocation of the block."""
        return Lease(self, self.times, self.used)


class Lease(NamedTuple):
    """One allocation of a block; when an operation runs, the block may have another.

    Attributes:
        block: the block.
        times: number of the allocation.
        used:  requested size [bytes].
    """

    block: Block
    times: int
    used: int


class Allocation:
    """Reference of arrays to a block; the block is free when no reference is left."""

    def __init__(self, block: Block, release: Callable[[Block], None]) -> None:
        self.block = block
        self._release = release

    def __del__(self) -> None:
        self._release(self.block)


class Pool:
    """The memory of a device.

    Args:
        region: address space.
        limit:  most bytes of all blocks.
    """

    def __init__(self, region: Region, limit: int) -> None:
        self.region = region
        self.limit = limit
        self._blocks: list[Block] = []  # in order of addresses
        self._end = region.begin
        self._free: dict[tuple[str, int, int], list[Block]] = defaultdict(list)

    @property
    def used(self) -> int:
        """Bytes of all blocks."""
        return sum(block.size for block in self._blocks)

    @property
    def info(self) -> tuple[int, int]:
        """Free and total bytes."""
        return self.limit - self.used, self.limit

    def give_back(self) -> None:
        """Release all free blocks."""
        self._blocks = [block for block in self._blocks if block.owner]
        self._free.clear()

    @property
    def largest_free(self) -> int:
        """Bytes of the largest free block."""
        return max((block.size for block in self._blocks if not block.owner), default=0)

    def allocate(
        self,
        size: int,
        stream: int,
        owner: str,
        cache: str = "",
        grow: Callable[[], None] = lambda: None,
    ) -> Allocation:
        """Return memory for an array.

        Args:
            size:   size [bytes].
            stream: pointer of the stream that may use the memory immediately.
            owner:  description of the array.
            cache:  allocator: "" for CuPy's, "torch", or a graph, which keeps its memory.
            grow:   called before the device allocates memory, to refuse that.

        Raises:
            OutOfMemoryError: the device has too little memory.
        """
        whole = max(-(-size // _MULTIPLE), 1) * _MULTIPLE
        free = self._free[cache, stream, whole]
        if not free:
            grow()
        block = free.pop() if free else self._new(whole, stream)
        block.cache = cache
        block.used = size
        block.owner = f"{owner}, made at {caller()}"
        block.times += 1
        return Allocation(block, self._take_back)

    def find(self, address: int) -> Block:
        """Return the block that contains an address.

        Raises:
            MisuseError: there is none, or it is free.
        """
        i = bisect_right(self._blocks, address, key=lambda block: block.address) - 1
        if i >= 0 and address < self._blocks[i].address + self._blocks[i].size:
            block = self._blocks[i]
            if block.owner:
                return block
        raise MisuseError(f"address {address:#x} is in no array of the device")

    def watched(self) -> Watched:
        """Return a record of accesses to all words of the memory."""
        return Watched(self.region.begin, np.zeros(self.region.used // WORD, np.uint8))

    def touched(self, watched: Watched, lease: Lease) -> tuple[list[Place], list[Place]]:
        """Return the words of a block that were read and written; clear the record."""
        begin = (lease.block.address - watched.begin) // WORD
        marks = watched.marks[begin : begin - (-lease.used // WORD)]
        places: tuple[list[Place], list[Place]] = ([], [])
        for mark, found in zip((READ, WRITTEN), places, strict=True):
            words = np.flatnonzero(marks & mark)
            if words.size:
                found.append(Place.of_words(lease.block, lease.times, words))
        marks[:] = 0
        return places

    def _new(self, size: int, stream: int) -> Block:
        if self.used + size > self.limit:
            self.give_back()
        if self.used + size > self.limit:
            raise OutOfMemoryError(
                f"Out of memory allocating {size:,} bytes (allocated so far: {self.used:,} bytes, "
                f"limit set to: {self.limit:,} bytes)"
            )
        address = self._end + _MARGIN
        self._end = address + size
        self.region.use(self._end + _MARGIN - self.region.begin)
        self._blocks.append(Block(address, size, stream))
        return self._blocks[-1]

    def _take_back(self, block: Block) -> None:
        is_kept = block.cache.startswith("graph")
        block.owner = f"memory of {block.cache}" if is_kept else ""
        self._free[block.cache, block.stream, block.size].append(block)
