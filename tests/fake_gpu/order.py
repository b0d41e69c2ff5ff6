"""Order of operations, and the last accesses to each word of memory.

A vector clock of an operation counts, for each lane (a stream), how many operations of the lane are
ordered before it. Two accesses to the same word, one of them a write, must be ordered: otherwise a
GPU may run them in either order.
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

#: Bytes of a word, the granularity of recorded accesses.
WORD = 4

Clock = dict[int, int]


def joined(clocks: Iterable[Clock]) -> Clock:
    """Return the clock of an operation after all operations with these clocks."""
    result: Clock = {}
    for clock in clocks:
        for lane, tick in clock.items():
            result[lane] = max(tick, result.get(lane, 0))
    return result


@dataclass(frozen=True)
class Place:
    """Words of a block that an operation reads or writes.

    Attributes:
        block: the block.
        words: indices of the words in the block.
        times: number of the block's allocation when the operation was enqueued.
    """

    block: Block
    words: slice | NDArray[np.int64]
    times: int

    @classmethod
    def of_words(cls, block: Block, times: int, words: NDArray[np.int64]) -> Place:
        """Return the place of words by ascending indices."""
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
        """Return the place of the elements of an array.

        Args:
            block:    block of the array.
            begin:    offset of the first element [bytes].
            shape:    extents of the array.
            strides:  strides of the axes [bytes].
            itemsize: size of an element [bytes].
        """
        if 0 in shape:
            return cls(block, slice(0, 0), block.times)
        # Elements in order of addresses; axes with stride 0 repeat elements.
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
    """Last accesses to the words of a block, as numbers of operations; 0 is none.

    Attributes:
        size:    number of words.
        writers: last writer of each word.
        readers: last reader of each word in each lane.
        written: number of the block's allocation at the last write.
    """

    size: int
    writers: NDArray[np.int32] = field(init=False)
    readers: dict[int, NDArray[np.int32]] = field(init=False, default_factory=dict)
    written: NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        self.writers = np.zeros(self.size, np.int32)
        self.written = np.zeros(self.size, np.int32)

    def read(self, place: Place, number: int, lane: int) -> Iterator[int]:
        """Record reads of operation ``number``; yield operations that must come before it."""
        yield from _numbers(self.writers[place.words])
        if lane not in self.readers:
            self.readers[lane] = np.zeros(self.size, np.int32)
        self.readers[lane][place.words] = number

    def write(self, place: Place, number: int) -> Iterator[int]:
        """Record writes of operation ``number``; yield operations that must come before it."""
        for table in (self.writers, *self.readers.values()):
            yield from _numbers(table[place.words])
        self.writers[place.words] = number
        self.written[place.words] = place.times


def disorder(operation: Operation, known: list[Operation]) -> str | None:
    """Record the accesses of an operation; return a description of its misuse, if any.

    Args:
        operation: operation that has just run.
        known:     all operations in order of their numbers.
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
            f"nothing orders {operation} and {other}: the first {verb}, the second {otherwise} "
            f"{block}; let the stream of one wait for an event of the other"
        )
    for place in operation.reads:  # an operation may read its own writes
        if (place.block.history.written[place.words] != place.times).any():
            return f"{operation} reads uninitialized memory of {place.block}"
    return None


def _numbers(table: NDArray[np.int32]) -> list[int]:
    """Return the distinct operations in a part of a table."""
    if not table.size:
        return []
    least, most = int(table.min()), int(table.max())
    numbers = [least] if least == most else np.unique(table).tolist()
    return [number for number in numbers if number]
