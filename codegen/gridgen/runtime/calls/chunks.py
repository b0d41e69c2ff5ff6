"""The launches of a batch: one, or several in turn where a kernel takes scratch memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gridgen.backends.cpu.direct import as_arguments
from gridgen.backends.interface import Arguments
from gridgen.functions.types import Array
from gridgen.kernel import WARP, TeamLaunch
from gridgen.runtime.arrays.layout import address
from gridgen.runtime.arrays.libraries import namespace

# Memory that a launch may take beside its arrays, and the states of teams for which it takes more:
# a launch of fewer would leave a GPU idle.
_ROOM_BYTES = 1 << 30
_TEAMS = 1024


class Scratch(NamedTuple):
    """Memory that a kernel takes beside its arrays; launches use it in turn.

    Attributes:
        states:  the states of a launch.
        numbers: address, batch stride and component stride, as of any other array.
        array:   the memory, if there is any.
    """

    states: int
    numbers: tuple[int, int, int]
    array: Array | None


def workspace(team: TeamLaunch, batch: int, q: Array) -> Scratch:
    """Return scratch memory for a kernel of teams: a row for each state of a launch."""
    numbers, block = team.workspace_numbers, team.states_per_block
    if not numbers:
        return Scratch(max(batch, 1), (0, 0, 0), None)
    wanted = min(max(batch, 1), max(_ROOM_BYTES // (numbers * q.dtype.itemsize), _TEAMS))

    def rows(blocks: int) -> Array:
        return namespace(q).empty((blocks * block, numbers), dtype=q.dtype)

    array = _as_far_as_there_is_room(rows, -(-wanted // block), 1)
    return Scratch(len(array), (address(array), numbers, 1), array)


def loop_room(numbers: int, batch: int, q: Array) -> Scratch:
    """Return scratch memory for a kernel whose loops keep numbers: neighbors side by side."""
    wanted = min(max(batch, 1), max(_ROOM_BYTES // (numbers * q.dtype.itemsize), WARP))

    def columns(states: int) -> Array:
        return namespace(q).empty((numbers, states), dtype=q.dtype)

    array = _as_far_as_there_is_room(columns, wanted, WARP)
    states = array.shape[1]
    return Scratch(states, (address(array), 1, states), array)


def _as_far_as_there_is_room(make: Callable[[int], Array], wanted: int, least: int) -> Array:
    """Return memory for so many states or blocks, for fewer where there is too little.

    Args:
        make:   makes it for a number of them.
        wanted: how many there should be.
        least:  how many there must be.

    Raises:
        MemoryError: there is no room for the least.
    """
    while True:
        try:
            return make(wanted)
        except MemoryError:
            if wanted <= least:
                raise
            wanted = max(wanted // 2, least)


def turns(
    numbers: Sequence[int], batch: int, itemsize: int, scratch: Scratch | None
) -> Iterator[tuple[Arguments, int]]:
    """Yield the arguments of a kernel, and the number of states, for each launch.

    Args:
        numbers:  address, batch stride and component stride of each array.
        batch:    number of states.
        itemsize: bytes of one array element.
        scratch:  what the kernel takes beside; ``None`` if it takes none.
    """
    if scratch is None:
        yield arguments_of(numbers), batch
        return
    for begin in range(0, batch, scratch.states):
        part = [*numbers, *scratch.numbers]
        for i in range(0, len(numbers), 3):
            part[i] += begin * part[i + 1] * itemsize
        yield arguments_of(part), min(batch - begin, scratch.states)


def arguments_of(numbers: Sequence[int]) -> Arguments:
    """Return the arguments of a kernel.

    Args:
        numbers: address, batch stride and component stride of each array.
    """
    return as_arguments(array("q", numbers).tobytes())  # faster than from one number to the next
