"""A long program cut into parts of bounded length, which hand values on through memory.

Compilers take a time that grows faster than the length of a function, and leave long ones
unoptimised. A part is a function of its own. It has the arrays of the program, and one more: values
of which a later part has need wait there, each in a slot that is free again once the last part that
needs it has read it. Inputs are read anew by every part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gridgen.symbolic.fills import with_fills
from gridgen.symbolic.program import Block, Fill, Keep, Load, Program, SineCosine, Statement, Store
from gridgen.symbolic.steps import Step, step_of

#: Instructions of the longest program that stays one function, and of any other's longest part.
#: The speed of a long program is the same for parts of 250 to 8000, within 5 %. GCC's time an
#: instruction is least from 600 to 1200, and with fewer and longer parts less goes through memory.
#: A program of 2000 to 3500 loses up to 7 % when cut; GCC takes three times as long for it whole.
LONGEST_WHOLE = 2500
LONGEST_PART = 1250


@dataclass(frozen=True)
class Part:
    """Consecutive statements of a program, with those that hand values on.

    Attributes:
        blocks: the statements.
        arrays: names of the inputs that it reads and of the outputs that it writes.
        keeps:  whether it takes values from earlier parts or leaves some to later ones.
    """

    blocks: tuple[Block, ...]
    arrays: frozenset[str]
    keeps: bool


@dataclass(frozen=True)
class SplitProgram:
    """A program as parts, in order.

    Attributes:
        parts: the parts.
        slots: the number of values that wait at once.
    """

    parts: tuple[Part, ...]
    slots: int


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
    inputs: dict[str, Step] = {}
    steps: list[Step] = []
    for block in program.blocks:
        for statement in with_fills(block).statements:
            assert isinstance(statement, (Statement, SineCosine, Store, Fill)), "it has been cut"
            step = step_of(statement, block, program.variables)
            if isinstance(statement, Statement) and statement.node.op == "input":
                inputs[statement.name] = step
            else:
                steps.append(step)
    return _hand_on(steps, inputs, _cuts(steps, inputs, longest_part))


def _cuts(steps: Sequence[Step], inputs: dict[str, Step], longest: int) -> list[int]:
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


def _waiting(steps: Sequence[Step], inputs: dict[str, Step]) -> list[int]:
    """Count the values defined before a step and read from it on, for each and for the end."""
    last = {name: index for index, step in enumerate(steps) for name in step.reads}
    counts, waiting = [0], 0
    for index, step in enumerate(steps):
        waiting += sum(name in last for name in step.defines)
        waiting -= sum(last[name] == index and name not in inputs for name in step.reads)
        counts.append(waiting)
    return counts


def _hand_on(steps: Sequence[Step], inputs: dict[str, Step], cuts: Sequence[int]) -> SplitProgram:
    """Put the statements into parts, and between them those that hand values on."""
    bounds = list(pairwise(cuts))
    last_part = {
        name: part
        for part, (begin, end) in enumerate(bounds)
        for step in steps[begin:end]
        for name in step.reads
    }
    slots: dict[str, int] = {}  # of the values that wait
    free: list[int] = []
    parts: list[Part] = []
    for part, (begin, end) in enumerate(bounds):
        known: set[str] = set()
        blocks: list[Block] = []
        arrays: set[str] = set()
        keeps = False
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
                keeps = True
                statements.append(Load(name, slots[name]))
                if last_part[name] == part:
                    free.append(slots.pop(name))
            statements.append(step.statement)
            arrays |= step.arrays
            known.update(step.defines)
            for name in step.defines:
                if last_part.get(name, part) > part:
                    keeps = True
                    slots[name] = free.pop() if free else len(slots)
                    statements.append(Keep(name, slots[name]))
        parts.append(Part(tuple(blocks), frozenset(arrays), keeps))
    assert not slots, "a value waits for a part that never comes"
    return SplitProgram(tuple(parts), len(free))
