"""Layout of shared memory for the rows of a warp: arguments, and results before they are written.

A row of a result is split into tiles. A tile occupies memory from its first store to its last, and
is written when it is complete; another tile then reuses the memory. A matrix thus needs less memory
than its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gridgen.kernel import MAX_STAGED
from gridgen.symbolic.program import Program, Store

#: Elements of a tile of a split row: a memory line in float32.
TILE = 32
#: Position of a tile without memory: its elements are written one by one.
NOWHERE = -1


@dataclass(frozen=True)
class Tile:
    """A part of a row."""

    begin: int  #: offset in the memory of a state, or ``NOWHERE``.
    last: int  #: element that is stored last.


@dataclass(frozen=True)
class Tiles:
    """A row of a result, split into tiles."""

    length: int  #: elements of the row.
    width: int  #: elements of a tile; the last one may have fewer.
    tiles: tuple[Tile, ...]  #: the tiles, in order.


@dataclass(frozen=True)
class Staging:
    """Layout of a kernel's shared memory."""

    inputs: Mapping[str, int]  #: offsets of the rows of arguments in the memory of a state.
    results: Mapping[str, Tiles]  #: rows of results, by name.
    numbers: int  #: numbers of shared memory per state.


def pitch(length: int) -> int:
    """Return the stride between rows in shared memory.

    With an odd stride, the threads of a warp access the same element of their rows in different
    banks. Rows of 2, 6, 10, ... elements stay contiguous as in the array: a two-way bank conflict
    costs less than the padding.
    """
    return length + 1 if length % 4 == 0 else length


def plan_staging(program: Program, inputs: Iterable[str]) -> Staging | None:
    """Plan the shared memory of a program; return ``None`` for a program with loops."""
    if program.loops is not None:
        return None
    begins: dict[str, int] = {}
    end = 0
    lengths = {array.name: array.size for array in program.inputs}
    for name in inputs:
        if end + pitch(lengths[name]) <= MAX_STAGED:
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
    """Return the maximum width of tiles; padded rows are always split."""
    return length if pitch(length) == length else min(length, TILE)


def _placed(
    stores: Sequence[tuple[str, int]],
    lengths: Mapping[str, int],
    widths: Mapping[str, int],
    begin: int,
) -> dict[str, Tiles]:
    """Assign memory to tiles, those with the shortest lifetime first.

    Returns:
        rows by name.
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
        if place + size <= MAX_STAGED:
            placed.append((first, last, place, place + size - 1))
        places[tile] = place if place + size <= MAX_STAGED else NOWHERE
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
