"""A long program cut into parts of bounded length, which hand values on through memory.

Compilers take a time that grows faster than the length of a function, and leave long ones
unoptimized. A part is a function of its own. It has the arrays of the program, and two more: values
of which a later part has need wait there, each in a slot that is free again once the last part that
needs it has read it. Inputs are read anew by every part.

Where parts are joined, as on a GPU, values wait in registers. Those that would be too many are
parked: they wait in an array of their own, for which there is other memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gridgen.symbolic.fills import with_fills
from gridgen.symbolic.program import (
    KEPT,
    PARKED,
    Block,
    Fill,
    Keep,
    Load,
    Program,
    SineCosine,
    Statement,
    Store,
)
from gridgen.symbolic.steps import ScheduledStatement, step_of

#: Instructions of the longest program that stays one function, and of any other's longest part.
#: The speed of a long program is the same for parts of 250 to 8000, within 5 %. GCC's time an
#: instruction is least from 600 to 1200, and with fewer and longer parts less goes through memory.
#: A program of 2000 to 3500 loses up to 7 % when cut; GCC takes three times as long for it whole.
LONGEST_WHOLE = 2500
LONGEST_PART = 1250
#: Values that may wait in registers of a GPU. It has 255 for a thread, of which addresses, and what
#: is being computed, take the rest.
MOST_WAITING = 250


@dataclass(frozen=True)
class ProgramPart:
    """Consecutive statements of a program, with those that hand values on.

    Attributes:
        blocks: the statements.
        arrays: names of the inputs that it reads, of the outputs that it writes, and of the arrays
                in which it finds values of earlier parts or leaves some to later ones.
    """

    blocks: tuple[Block, ...]
    arrays: frozenset[str]


@dataclass(frozen=True)
class SplitProgram:
    """A program as parts, in order.

    Attributes:
        parts: the parts.
        kept:  the number of values that wait at once.
        parked: the number of those that are parked at once.
    """

    parts: tuple[ProgramPart, ...]
    kept: int
    parked: int


def split_program(
    program: Program, longest_part: int = LONGEST_PART, longest_whole: int = LONGEST_WHOLE
) -> SplitProgram | None:
    """Cut a program into parts; return ``None`` for one that had better stay whole.

    Args:
        program:       the program.
        longest_part:  instructions of a part; only a single statement may have more.
        longest_whole: instructions of a program that stays whole.
    """
    if program.instructions <= longest_whole or program.loops is not None:
        return None
    inputs: dict[str, ScheduledStatement] = {}
    steps: list[ScheduledStatement] = []
    for block in program.blocks:
        for statement in with_fills(block).statements:
            assert isinstance(statement, (Statement, SineCosine, Store, Fill)), "it has been cut"
            step = step_of(statement, block, program.variables)
            if isinstance(statement, Statement) and statement.node.op == "input":
                inputs[statement.name] = step
            else:
                steps.append(step)
    cuts = _cuts(steps, inputs, longest_part)
    return _hand_on(steps, inputs, cuts, _parked(steps, inputs, cuts))


def _cuts(
    steps: Sequence[ScheduledStatement], inputs: dict[str, ScheduledStatement], longest: int
) -> list[int]:
    """Return the steps with which parts begin, and the number of steps.

    A part is at least half as long as it may be, and ends where the fewest values wait.
    """
    waiting = _waiting(steps, inputs)
    cuts = [0]
    while cuts[-1] < len(steps):
        begin = end = cuts[-1]
        instructions, ends = 0, []
        while end < len(steps):
            instructions += steps[end].instructions
            if end > begin and instructions > longest:
                break
            end += 1
            if 2 * instructions > longest:
                ends.append(end)
        at_once = end == len(steps) or not ends
        cuts.append(end if at_once else min(reversed(ends), key=waiting.__getitem__))
    return cuts


def _waiting(
    steps: Sequence[ScheduledStatement], inputs: dict[str, ScheduledStatement]
) -> list[int]:
    """Count the values defined before a step and read from it on, for each and for the end."""
    last = {name: index for index, step in enumerate(steps) for name in step.reads}
    counts, waiting = [0], 0
    for index, step in enumerate(steps):
        waiting += sum(name in last for name in step.defines)
        waiting -= sum(last[name] == index and name not in inputs for name in step.reads)
        counts.append(waiting)
    return counts


def _parked(
    steps: Sequence[ScheduledStatement], inputs: Container[str], cuts: Sequence[int]
) -> set[str]:
    """Choose the values that are parked: where too many wait, those that do for longest.

    A parked value is in no register from its last use in one part to its first in a later one.
    """
    uses: dict[str, list[int]] = {}
    for time, step in enumerate(steps):
        for name in step.defines:
            uses[name] = [time]
        for name in step.reads:
            if name not in inputs:
                uses[name].append(time)
    changes = [0] * (len(steps) + 1)
    for times in uses.values():
        changes[times[0]] += 1
        changes[times[-1]] -= 1
    parked: set[str] = set()
    waiting: list[str] = []
    count = 0
    for time, step in enumerate(steps):
        count += changes[time]
        waiting += step.defines
        if count <= MOST_WAITING:
            continue
        end = cuts[bisect_right(cuts, time)]
        waiting = [name for name in waiting if uses[name][-1] > time]
        next_use = {name: uses[name][bisect_right(uses[name], time)] for name in waiting}
        later = (name for name in waiting if next_use[name] >= end and name not in parked)
        for name in sorted(later, key=next_use.__getitem__)[MOST_WAITING - count :]:
            parked.add(name)
            for before, after in _gaps(uses[name], cuts):
                if before <= time < after:
                    count -= 1
                else:
                    changes[before] -= 1
                changes[after] += 1
    return parked


def _gaps(times: Sequence[int], cuts: Sequence[int]) -> list[tuple[int, int]]:
    """Return the uses of a value between which a part ends."""
    of_part = [bisect_right(cuts, time) for time in times]
    return [(times[i], times[i + 1]) for i in range(len(times) - 1) if of_part[i] < of_part[i + 1]]


def _hand_on(
    steps: Sequence[ScheduledStatement],
    inputs: Mapping[str, ScheduledStatement],
    cuts: Sequence[int],
    parked: Container[str],
) -> SplitProgram:
    """Put the statements into parts, and between them those that hand values on.

    Args:
        steps:  the statements.
        inputs: those that read arguments, by the names that they define.
        cuts:   the steps with which parts begin, and their number.
        parked: names of values that are parked.
    """
    bounds = list(pairwise(cuts))
    last_part = {
        name: part
        for part, (begin, end) in enumerate(bounds)
        for step in steps[begin:end]
        for name in step.reads
    }
    slots: dict[str, int] = {}  # of the values that wait
    free: dict[str, list[int]] = {KEPT: [], PARKED: []}
    most = {KEPT: 0, PARKED: 0}
    parts: list[ProgramPart] = []
    for part, (begin, end) in enumerate(bounds):
        known: set[str] = set()
        blocks: list[Block] = []
        arrays: set[str] = set()
        source = None
        for step in steps[begin:end]:
            if step.block is not source:
                source = step.block
                blocks.append(Block(source.phase, source.body))
            statements = blocks[-1].statements
            for name in step.reads:
                if name in known:
                    continue
                known.add(name)
                if name in inputs:
                    statements.append(inputs[name].statement)
                    arrays |= inputs[name].arrays
                    continue
                array = PARKED if name in parked else KEPT
                arrays.add(array)
                statements.append(Load(name, array, slots[name]))
                if last_part[name] == part:
                    free[array].append(slots.pop(name))
            statements.append(step.statement)
            arrays |= step.arrays
            known.update(step.defines)
            for name in step.defines:
                if last_part.get(name, part) > part:
                    array = PARKED if name in parked else KEPT
                    arrays.add(array)
                    if not free[array]:
                        free[array].append(most[array])
                        most[array] += 1
                    slots[name] = free[array].pop()
                    statements.append(Keep(name, array, slots[name]))
        parts.append(ProgramPart(tuple(blocks), frozenset(arrays)))
    assert not slots, "a value waits for a part that never comes"
    return SplitProgram(tuple(parts), most[KEPT], most[PARKED])
