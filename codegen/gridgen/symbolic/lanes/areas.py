"""Arrays in the shared memory of a team."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Numbers of the widest memory access.
WIDE = 4


def stride_of(count: int) -> int:
    """Return numbers from one record to the next: aligned, and neighbors use other banks."""
    stride = -(-count // WIDE) * WIDE
    return stride + WIDE * (stride % (2 * WIDE) == 0)


@dataclass
class Area:
    """An array in a team's shared memory.

    Attributes:
        stem:   what it contains, in its name.
        size:   its numbers.
        stride: numbers from one record to the next.
        first:  the phase that writes it first.
        last:   the last phase that uses it.
        start:  its offset.
    """

    stem: str
    size: int
    stride: int
    first: int
    last: int
    start: int = 0

    @property
    def name(self) -> str:
        """Its name in the program."""
        return f"{self.stem}_shared"

    def at(self, index: str, offset: str = "") -> str:
        """Return a pointer to a record, or to a number in it."""
        place = f"{self.name} + {self.stride} * {index}" if index != "0" else self.name
        return f"{place} + {offset}" if offset else place


@dataclass(frozen=True)
class Tile:
    """A square matrix in shared memory, or in an output array if it does not fit there."""

    area: Area | None
    name: str
    rows: int
    pitch: int
    first: int = 0  #: the first of its columns in the memory.

    def beginning(self, column: int) -> Tile:
        """Return the part from a column."""
        return replace(self, first=self.first + column)

    def place(self, row: str, column: str) -> str:
        """Return the text of an entry."""
        shift = f" + {self.first}" if self.first else ""
        return f"{self.name}[{self.pitch} * {row} + {column}{shift}]"
