"""Launches of a batch: one, or a sequence of chunks that share scratch memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gridgen.backends.cpu.direct import as_arguments
from gridgen.backends.interface import Arguments
from gridgen.functions.types import Array
from gridgen.kernel import WARP, Shape, TeamLaunch
from gridgen.runtime.arrays.layout import address
from gridgen.runtime.arrays.libraries import adopt, empty

# Most scratch memory of a launch, and the least states of teams, which may exceed it: smaller
# launches would leave a GPU idle.
_SCRATCH_BYTES = 1 << 30
_TEAMS = 1024


class Scratch(NamedTuple):
    """Scratch memory of a kernel; successive launches share it."""

    states: int  #: number of states of a launch.
    #: address, batch stride and component stride, as of any other array.
    numbers: tuple[int, int, int]
    array: Array | None  #: the memory, if any.


def workspace(team: TeamLaunch, batch: int, like: Any) -> Scratch:
    """Return scratch memory for a kernel of teams: a row for each state of a launch.

    ``like`` is an array of the caller's library on the device that computes, see ``empty``.
    """
    numbers, block = team.workspace_numbers, team.states_per_block
    if not numbers:
        return Scratch(max(batch, 1), (0, 0, 0), None)
    wanted = min(max(batch, 1), max(_SCRATCH_BYTES // (numbers * like.dtype.itemsize), _TEAMS))

    def rows(blocks: int) -> Array:
        return _made((blocks * block, numbers), like)

    array = _as_far_as_there_is_room(rows, -(-wanted // block), 1)
    return Scratch(len(array), (address(array), numbers, 1), array)


def loop_room(numbers: int, batch: int, like: Any) -> Scratch:
    """Return scratch memory for a kernel's loops: numbers of neighboring states are adjacent."""
    wanted = min(max(batch, 1), max(_SCRATCH_BYTES // (numbers * like.dtype.itemsize), WARP))

    def columns(states: int) -> Array:
        return _made((numbers, states), like)

    array = _as_far_as_there_is_room(columns, wanted, WARP)
    states = array.shape[1]
    return Scratch(states, (address(array), 1, states), array)


def _made(shape: Shape, like: Any) -> Array:
    return adopt(empty(shape, like), "scratch memory")


def _as_far_as_there_is_room(make: Callable[[int], Array], wanted: int, least: int) -> Array:
    """Allocate memory for a number of states or blocks, or fewer if memory is short.

    Raises:
        MemoryError: the minimum cannot be allocated.
    """
    while True:
        try:
            return make(wanted)
        except MemoryError:
            if wanted <= least:
                raise
            wanted = max(wanted // 2, least)


def chunks(
    numbers: Sequence[int], batch: int, itemsize: int, scratch: Scratch | None
) -> Iterator[tuple[Arguments, int]]:
    """Yield the arguments of a kernel, and the number of states, for each launch.

    Args:
        numbers:  address, batch stride and component stride of each array.
        batch:    number of states.
        itemsize: bytes of one array element.
        scratch:  scratch memory of the kernel, or ``None``.
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
    """Return the arguments of a kernel."""
    return as_arguments(array("q", numbers).tobytes())  # faster than a loop over the numbers
