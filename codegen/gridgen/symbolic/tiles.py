"""Where a warp keeps rows in shared memory: arguments, and results until they are written.

A row of a result is cut into tiles. A tile has a place from the first of its elements that is stored
to the last, and is written as soon as it is complete; another one takes the place then. So a matrix
goes through less memory than it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gridgen.symbolic.program import Program, Store

#: Numbers of a state that may lie in shared memory at once. Blocks of one warp with doubles then
#: take less than the 48 kB that every device grants, and a device with 228 kB holds ten with floats.
MOST_NUMBERS = 176
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
    Rows of 2, 6, 10, ... elements stay as dense as they are in the array: two threads at a bank cost
    less than taking the rows apart.
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
        if end + pitch(lengths[name]) <= MOST_NUMBERS:
            begins[name] = end
            end += pitch(lengths[name])
    stores = [
        (statement.array, statement.index)
        for block in program.blocks
        for statement in block.statements
        if isinstance(statement, Store)
    ]
    whole = {array.name: _whole_width(array.size) for array in program.outputs}
    results, numbers = _placed(stores, whole, lengths_of(program), end)
    if any(tile.begin == NOWHERE for row in results.values() for tile in row.tiles):
        cut = {name: min(width, TILE) for name, width in whole.items()}
        results, numbers = _placed(stores, cut, lengths_of(program), end)
    return Staging(begins, results, numbers)


def lengths_of(program: Program) -> dict[str, int]:
    """Return the elements of each result, by name."""
    return {array.name: array.size for array in program.outputs}


def _whole_width(length: int) -> int:
    """Return the width of tiles in the widest cut: rows that are not dense are cut in any case."""
    return length if pitch(length) == length else min(length, TILE)


def _placed(
    stores: Sequence[tuple[str, int]],
    widths: Mapping[str, int],
    lengths: Mapping[str, int],
    begin: int,
) -> tuple[dict[str, Tiles], int]:
    """Give tiles their places, one after the other as they are begun.

    Args:
        stores:  array and element of every store, in order.
        widths:  of the tiles of each array.
        lengths: of their rows.
        begin:   the first number that is free.

    Returns:
        the rows by name, and the end of the numbers that were used.
    """
    of_store = [(array, index // widths[array]) for array, index in stores]
    last = {tile: time for time, tile in enumerate(of_store)}
    free = [(begin, MOST_NUMBERS)]
    places: dict[tuple[str, int], int] = {}
    end = begin
    for time, tile in enumerate(of_store):
        size = pitch(widths[tile[0]])
        if tile not in places:
            places[tile] = _taken(free, size)
            end = max(end, places[tile] + size)
        if last[tile] == time and places[tile] != NOWHERE:
            free = _joined([*free, (places[tile], places[tile] + size)])
    return {
        name: Tiles(
            length,
            widths[name],
            tuple(
                Tile(places[name, number], stores[last[name, number]][1])
                for number in range(-(-length // widths[name]))
            ),
        )
        for name, length in lengths.items()
    }, end


def _taken(free: list[tuple[int, int]], size: int) -> int:
    """Take the first numbers that are free, so many in a row; return where, or ``NOWHERE``."""
    for index, (begin, end) in enumerate(free):
        if end - begin >= size:
            free[index] = (begin + size, end)
            return begin
    return NOWHERE


def _joined(free: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in order, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(free):
        if joined and joined[-1][1] == begin:
            begin = joined.pop()[0]
        joined.append((begin, end))
    return joined
