"""Who has which part of a device's memory.

As CuPy's pool does, a block that is freed is handed out again at once, to the stream that had it:
what this stream does later comes after what it did before. What other streams still do with the
block, the pool does not know.
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

_MULTIPLE = 512  # of bytes, of every block
# Bytes between blocks, for whatever goes over the end of one.
_MARGIN = 512


@dataclass(eq=False)
class Block:
    """A part of the memory of a device.

    Attributes:
        address: of the first byte.
        size:    bytes.
        used:    bytes of these that have been asked for.
        stream:  pointer of the stream that gets it when it is free.
        history: who last touched it.
        owner:   what it is for, and where that was made; empty if it is free.
        times:   how often it has been handed out.
    """

    address: int
    size: int
    stream: int
    history: History = field(init=False)
    owner: str = ""
    times: int = 0
    used: int = 0

    def __post_init__(self) -> None:
        self.history = History(self.size // WORD)

    def __str__(self) -> str:
        return self.owner or f"free memory at {self.address:#x}"

    @property
    def lease(self) -> Lease:
        """The block as it is now."""
        return Lease(self, self.times, self.used)


class Lease(NamedTuple):
    """A block as it is when an operation is enqueued; when that runs, somebody else may have it.

    Attributes:
        block: the block.
        times: how often it has been handed out.
        used:  bytes of it that have been asked for.
    """

    block: Block
    times: int
    used: int


class Allocation:
    """What an array holds of a pool: a block, which is free when no array holds it any more."""

    def __init__(self, block: Block, release: Callable[[Block], None]) -> None:
        self.block = block
        self._release = release

    def __del__(self) -> None:
        self._release(self.block)


class Pool:
    """The memory of a device.

    Args:
        region: where it lies.
        room:   bytes that arrays may take.
    """

    def __init__(self, region: Region, room: int) -> None:
        self.region = region
        self.room = room
        self._blocks: list[Block] = []  # by address, which grows
        self._end = region.begin
        self._free: dict[tuple[int, int], list[Block]] = defaultdict(list)

    @property
    def used(self) -> int:
        """Bytes of the region that belong to a block."""
        return sum(block.size for block in self._blocks)

    @property
    def info(self) -> tuple[int, int]:
        """Bytes that are free, and all that there are."""
        return self.room - self.used, self.room

    def give_back(self) -> None:
        """Let the device have what nobody has any more."""
        self._blocks = [block for block in self._blocks if block.owner]
        self._free.clear()

    @property
    def largest_free(self) -> int:
        """Bytes of the largest block that was handed out before and is free."""
        return max((block.size for block in self._blocks if not block.owner), default=0)

    def allocate(self, size: int, stream: int, owner: str) -> Allocation:
        """Return memory for an array.

        Args:
            size:   bytes.
            stream: pointer of the stream whose work may use the memory at once.
            owner:  what it is for.

        Raises:
            OutOfMemoryError: there is not so much room.
        """
        whole = max(-(-size // _MULTIPLE), 1) * _MULTIPLE
        free = self._free[stream, whole]
        block = free.pop() if free else self._new(whole, stream)
        block.used = size
        block.owner = f"{owner}, made at {caller()}"
        block.times += 1
        return Allocation(block, self._take_back)

    def find(self, address: int) -> Block:
        """Return the block that an address lies in.

        Raises:
            MisuseError: there is none, or nobody has it any more.
        """
        i = bisect_right(self._blocks, address, key=lambda block: block.address) - 1
        if i >= 0 and address < self._blocks[i].address + self._blocks[i].size:
            block = self._blocks[i]
            if block.owner:
                return block
        raise MisuseError(f"address {address:#x} is in no array of the device")

    def watched(self) -> Watched:
        """Return what tells which words of all this memory are touched."""
        return Watched(self.region.begin, np.zeros(self.region.used // WORD, np.uint8))

    def touched(self, watched: Watched, lease: Lease) -> tuple[list[Place], list[Place]]:
        """Return what has been read and written of a block, and forget it."""
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
        if self.used + size > self.room:
            self.give_back()
        if self.used + size > self.room:
            raise OutOfMemoryError(
                f"Out of memory allocating {size:,} bytes (allocated so far: {self.used:,} bytes, "
                f"limit set to: {self.room:,} bytes)"
            )
        address = self._end + _MARGIN
        self._end = address + size
        self.region.use(self._end + _MARGIN - self.region.begin)
        self._blocks.append(Block(address, size, stream))
        return self._blocks[-1]

    def _take_back(self, block: Block) -> None:
        block.owner = ""
        self._free[block.stream, block.size].append(block)
