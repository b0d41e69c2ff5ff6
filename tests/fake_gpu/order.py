"""What comes after what, and who last touched each word of memory.

A vector clock of an operation tells, for each lane (a stream, the work of one after the other), how
many of the lane's operations come before it. Two operations that touch the same word, one of them
to write, must be one before the other: nothing else keeps a GPU from running them the other way
round, however they happened to run here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fake_gpu.pool import Block
    from fake_gpu.work import Operation

#: Bytes of a word, the smallest amount of memory that is told apart.
WORD = 4

Clock = dict[int, int]


def joined(clocks: Iterable[Clock]) -> Clock:
    """Return the clock of what comes after all that have these clocks."""
    result: Clock = {}
    for clock in clocks:
        for lane, tick in clock.items():
            result[lane] = max(tick, result.get(lane, 0))
    return result


@dataclass(frozen=True)
class Place:
    """Words of a block that an operation reads or writes.

    Attributes:
        block: where they lie.
        words: which, an index of a table with an entry for each word of the block.
        times: how often the block had been handed out when the operation was enqueued.
    """

    block: Block
    words: slice | NDArray[np.int64]
    times: int

    @classmethod
    def of_words(cls, block: Block, times: int, words: NDArray[np.int64]) -> Place:
        """Return the place of words, by their indices, which ascend."""
        first, last = int(words[0]), int(words[-1])
        is_whole = last - first + 1 == words.size
        return cls(block, slice(first, last + 1) if is_whole else words, times)

    @classmethod
    def of_elements(
        cls,
        block: Block,
        begin: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        itemsize: int,
    ) -> Place:
        """Return the place of an array's elements, the first of them ``begin`` bytes into a block.

        Args:
            block:    where they lie.
            begin:    offset of the first element in bytes.
            shape:    extents of the array.
            strides:  bytes from an element to the next along each axis.
            itemsize: bytes of an element.
        """
        if 0 in shape:
            return cls(block, slice(0, 0), block.times)
        # Elements in the order of their addresses; axes without a stride go over the same ones.
        axes = list(zip(strides, shape, strict=True))
        first = begin + sum(min(step * (extent - 1), 0) for step, extent in axes)
        run, gaps = itemsize, []
        for step, extent in sorted((abs(step), extent) for step, extent in axes if step):
            if step <= run:
                run = max(run, step * (extent - 1) + run)
            else:
                gaps.append(np.arange(extent, dtype=np.int64) * step)
        if not gaps:
            return cls(block, slice(first // WORD, -(-(first + run) // WORD)), block.times)
        offsets = np.array([first], np.int64)
        for gap in gaps:
            offsets = (offsets[:, None] + gap).ravel()
        words = offsets[:, None] // WORD + np.arange(-(-run // WORD))
        return cls(block, words.ravel(), block.times)


@dataclass
class History:
    """The operations that last touched the words of a block, by their numbers; 0 is none.

    Attributes:
        size:    number of words.
        writers: who wrote each word last.
        readers: who read it last, in each lane.
        written: how often the block had been handed out when it was written last.
    """

    size: int
    writers: NDArray[np.int32] = field(init=False)
    readers: dict[int, NDArray[np.int32]] = field(init=False, default_factory=dict)
    written: NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        self.writers = np.zeros(self.size, np.int32)
        self.written = np.zeros(self.size, np.int32)

    def read(self, place: Place, number: int, lane: int) -> Iterator[int]:
        """Note that operation ``number`` reads words; yield those that must come before it."""
        yield from _numbers(self.writers[place.words])
        if lane not in self.readers:
            self.readers[lane] = np.zeros(self.size, np.int32)
        self.readers[lane][place.words] = number

    def write(self, place: Place, number: int) -> Iterator[int]:
        """Note that operation ``number`` writes words; yield those that must come before it."""
        for table in (self.writers, *self.readers.values()):
            yield from _numbers(table[place.words])
        self.writers[place.words] = number
        self.written[place.words] = place.times


def disorder(operation: Operation, known: list[Operation]) -> str | None:
    """Note what an operation has read and written; return what is wrong with it, if anything is.

    Args:
        operation: it has just been run.
        known:     all operations, that of number 1 first.
    """
    problems = []
    for place in operation.reads:
        for number in place.block.history.read(place, operation.number, operation.lane):
            if not operation.comes_after(known[number - 1]):
                problems.append(("reads", known[number - 1], "writes", place.block))
    for place in operation.writes:
        for number in place.block.history.write(place, operation.number):
            if number != operation.number and not operation.comes_after(known[number - 1]):
                problems.append(("writes", known[number - 1], "uses", place.block))
    for verb, other, otherwise, block in problems:
        return (
            f"nothing orders {operation} and {other}: the one {verb}, the other {otherwise} "
            f"{block}; let one's stream wait for an event of the other's"
        )
    for place in operation.reads:  # what it writes itself, it may read
        if (place.block.history.written[place.words] != place.times).any():
            return f"{operation} reads of {place.block} what nobody has written"
    return None


def _numbers(table: NDArray[np.int32]) -> list[int]:
    """Return the operations that a part of a table names."""
    if not table.size:
        return []
    least, most = int(table.min()), int(table.max())
    numbers = [least] if least == most else np.unique(table).tolist()
    return [number for number in numbers if number]
