"""The launches of a batch: one, or several in turn where a kernel takes scratch memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gridgen.backends.direct import as_arguments
from gridgen.backends.interface import Arguments
from gridgen.functions.types import Array
from gridgen.kernel import WARP, TeamLaunch
from gridgen.runtime.arrays import address
from gridgen.runtime.libraries import namespace

# States of one launch of a kernel that needs scratch memory for each.
_STATES_WITH_WORKSPACE = 1024
# Memory that a launch of a kernel with loops may take for what they keep, and the states that it
# has in any case: a warp of them.
_ROOM_BYTES = 1 << 30


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
    numbers = team.workspace_numbers
    if not numbers:
        return Scratch(max(batch, 1), (0, 0, 0), None)
    rows = -(-min(batch, _STATES_WITH_WORKSPACE) // team.states_per_block) * team.states_per_block
    array = namespace(q).empty((rows, numbers), dtype=q.dtype)
    return Scratch(_STATES_WITH_WORKSPACE, (address(array), numbers, 1), array)


def loop_room(numbers: int, batch: int, q: Array) -> Scratch:
    """Return scratch memory for a kernel whose loops keep numbers: neighbours side by side."""
    states = max(_ROOM_BYTES // (numbers * q.dtype.itemsize), WARP)
    states = max(min(batch, states), 1)
    array = namespace(q).empty((numbers, states), dtype=q.dtype)
    return Scratch(states, (address(array), 1, states), array)


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
