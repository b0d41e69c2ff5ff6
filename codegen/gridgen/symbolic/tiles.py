"""Where a warp keeps rows in shared memory: arguments, and results until they are written.

A row of a result is cut into tiles. A tile has a place from the first of its elements that is
stored to the last, and is written as soon as it is complete; another one takes the place then. So a
matrix goes through less memory than it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gridgen.kernel import MOST_STAGED
from gridgen.symbolic.program import Program, Store

#: Elements of a tile, where a row does not stay whole: a line of memory in float32.
TILE = 32
#: The place of a tile for which there is none: its elements are written one by one.
NOWHERE = -1


@dataclass(frozen=True)
class Tile:
    """A part of a row.

    Attributes:
        begin: the first of its numbers among those of a state, or ``NOWHERE``.
        last:  the element that is stored last.
    """

    begin: int
    last: int


@dataclass(frozen=True)
class Tiles:
    """A row of a result, cut.

    Attributes:
        length: elements of the row.
        width:  elements of a tile; the last one may have fewer.
        tiles:  from the first to the last.
    """

    length: int
    width: int
    tiles: tuple[Tile, ...]


@dataclass(frozen=True)
class Staging:
    """How a kernel uses shared memory.

    Attributes:
        inputs:  where the rows of arguments begin among the numbers of a state.
        results: the rows of results, by name.
        numbers: of shared memory for a state.
    """

    inputs: Mapping[str, int]
    results: Mapping[str, Tiles]
    numbers: int


def pitch(length: int) -> int:
    """Return the numbers from one row in shared memory to the next.

    Where it is odd, the threads of a warp find the same element of their rows in different banks.
    Rows of 2, 6, 10, ... elements stay as dense as they are in the array: two threads at a bank
    cost less than taking the rows apart.
    """
    return length + 1 if length % 4 == 0 else length


def plan_staging(program: Program, inputs: Iterable[str]) -> Staging | None:
    """Lay out the shared memory of a program without loops; return ``None`` for one that has some.

    Args:
        program: the program, its statements in their final order.
        inputs:  the arguments of which rows are brought in.
    """
    if program.loops is not None:
        return None
    begins: dict[str, int] = {}
    end = 0
    lengths = {array.name: array.size for array in program.inputs}
    for name in inputs:
        if end + pitch(lengths[name]) <= MOST_STAGED:
            begins[name] = end
            end += pitch(lengths[name])
    stores = [
        (statement.array, statement.index)
        for block in program.blocks
        for statement in block.statements
        if isinstance(statement, Store)
    ]
    rows = {array.name: array.size for array in program.outputs}
    widths = {name: _whole_width(length) for name, length in rows.items()}
    results = _placed(stores, rows, widths, end)
    if any(tile.begin == NOWHERE for row in results.values() for tile in row.tiles):
        widths = {name: min(width, TILE) for name, width in widths.items()}
        results = _placed(stores, rows, widths, end)
    ends = (
        tile.begin + pitch(row.width)
        for row in results.values()
        for tile in row.tiles
        if tile.begin != NOWHERE
    )
    return Staging(begins, results, max((end, *ends)))


def _whole_width(length: int) -> int:
    """Return the width of tiles in the widest cut: rows that are not dense are cut in any case."""
    return length if pitch(length) == length else min(length, TILE)


def _placed(
    stores: Sequence[tuple[str, int]],
    lengths: Mapping[str, int],
    widths: Mapping[str, int],
    begin: int,
) -> dict[str, Tiles]:
    """Give tiles their places: the shorter a tile needs one, the sooner it gets it.

    Args:
        stores:  array and element of every store, in order.
        lengths: of the rows of each array.
        widths:  of their tiles.
        begin:   the first number that is free.

    Returns:
        the rows by name.
    """
    times: dict[tuple[str, int], list[int]] = {}
    for time, (array, index) in enumerate(stores):
        times.setdefault((array, index // widths[array]), []).append(time)
    placed: list[tuple[int, int, int, int]] = []  # times, then numbers, from first to last
    places: dict[tuple[str, int], int] = {}
    for tile in sorted(times, key=lambda tile: (times[tile][-1] - times[tile][0], times[tile][0])):
        first, last, size = times[tile][0], times[tile][-1], pitch(widths[tile[0]])
        there = sorted((low, high) for a, b, low, high in placed if a <= last and first <= b)
        place = begin
        for low, high in there:
            if low < place + size and place <= high:
                place = high + 1
        if place + size <= MOST_STAGED:
            placed.append((first, last, place, place + size - 1))
        places[tile] = place if place + size <= MOST_STAGED else NOWHERE
    return {
        name: Tiles(
            length,
            widths[name],
            tuple(
                Tile(places[name, number], stores[times[name, number][-1]][1])
                for number in range(-(-length // widths[name]))
            ),
        )
        for name, length in lengths.items()
    }
