"""Splits a long program into functions of bounded length that pass values through memory.

Compile time grows faster than linearly with the length of a function, and compilers do not optimize
very long functions. Each part is a function. It has the arrays of the program and two more, which
store values for later parts. A slot is reused after the last part that reads its value. Each part
reads its inputs from memory again.

Where parts are inlined, as on a GPU unless there are many, the values stay in registers. Excess
values are parked: they are stored in a separate array, in different memory, as far as it is large
enough.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise

from gridgen.symbolic.printer import expression
from gridgen.symbolic.program import (
    PARKED,
    STORED,
    AnyStatement,
    Block,
    Fill,
    Keep,
    Load,
    Program,
    Queried,
    ScheduledStatement,
    SineCosine,
    Statement,
    Store,
)


def with_fills(block: Block) -> Block:
    """Return a block with one ``Fill`` for each run of equal constants."""
    statements: list[AnyStatement] = []
    for statement in block.statements:
        if not (isinstance(statement, Store) and statement.value.op == "const"):
            statements.append(statement)
            continue
        array, index, value = statement.array, statement.index, statement.value
        before = statements[-1] if statements else None
        if isinstance(before, Fill) and (before.array, before.end) == (array, index):
            if before.value is value:
                statements[-1] = Fill(array, before.begin, index + 1, value)
                continue
        statements.append(Fill(array, index, index + 1, value))
    return replace(
        block, statements=[_unless_short(s) if isinstance(s, Fill) else s for s in statements]
    )


def _unless_short(fill: Fill) -> Store | Fill:
    return fill if fill.end - fill.begin > 1 else Store(fill.array, fill.begin, fill.value)


#: Instructions of the longest program that remains one function, and of the longest part otherwise.
#: The speed of a long program is the same for parts of 250 to 8000, within 5 %. GCC's time per
#: instruction is least from 600 to 1200, and fewer, longer parts move less through memory. A
#: program of 2000 to 3500 loses up to 7 % when split, but GCC needs three times as long without.
MAX_WHOLE = 2500
MAX_PART = 1250
#: Instructions of the longest program whose parts a GPU joins, and of the longest in float64. NVRTC
#: takes 8 s for it, and 26 s for one of 17,600. In float64, it gives up on one of 8,900, which then
#: has 32 registers and 19 kB of stack.
MAX_JOINED, MAX_JOINED_DOUBLE = 12_000, 7_000
#: Most values that remain in registers of a GPU. A thread has 255; the compiler computes some of
#: the values again.
MAX_WAITING = 256
#: Values that are parked at once at most: 13 kB of a GPU's shared memory for a warp, in float32. A
#: multiprocessor then runs eight warps of arm7's gradient of forward dynamics, and seven of a
#: humanoid's forward dynamics.
MAX_PARKED = 101


@dataclass(frozen=True)
class ProgramPart:
    """Consecutive statements of a program, and the statements that pass values between parts."""

    blocks: tuple[Block, ...]  #: the statements.
    #: names of the inputs it reads, of the outputs it writes, and of the arrays that pass values
    #: between parts.
    arrays: frozenset[str]
    readers: Counter[str]  #: number of its statements that read a value, by name.

    def written(self, indices: Mapping[str, int]) -> tuple[list[Block], dict[int, str]]:
        """Return its statements in fewer and shorter lines, and the variables in them.

        An input or a value of an earlier part with one reader is read there, a value for later
        parts alone is stored at once, and temporaries are numbered anew.

        Args:
            indices: index of the node of every variable of the program.
        """
        texts: dict[str, str] = {}
        numbers = count()

        def own(name: str) -> str:
            if name not in texts:
                is_temporary = name[0] == "t" and name[1:].isdigit()
                texts[name] = f"t{next(numbers)}" if is_temporary else name
            return texts[name]

        blocks = []
        for block in self.blocks:
            lines: list[AnyStatement] = []
            for statement in block.statements:
                if isinstance(statement, (Statement, Load)) and (place := self._place(statement)):
                    texts[statement.name] = place
                elif isinstance(statement, Statement) and not self.readers[statement.name]:
                    lines.append(statement)  # the next statement stores its value
                elif (
                    isinstance(statement, Keep)
                    and not self.readers[statement.name]
                    and isinstance(before := lines[-1], Statement)
                ):
                    lines[-1] = replace(statement, name="", value=before.node)
                else:
                    lines.append(_renamed(statement, own))
            blocks.append(replace(block, statements=lines))
        return blocks, {indices[name]: text for name, text in texts.items() if name in indices}

    def _place(self, statement: Statement | Load) -> str:
        """Return the element that a statement reads for one other, or an empty text."""
        if self.readers[statement.name] != 1:
            return ""
        if isinstance(statement, Load):
            return f"{statement.array}[{statement.slot}]"
        return expression(statement.node, {}) if statement.node.op == "input" else ""


def _renamed(statement: AnyStatement, own: Callable[[str], str]) -> AnyStatement:
    """Return a statement with other names of the values that it defines or stores."""
    if isinstance(statement, (Statement, Load, Keep)):
        return replace(statement, name=own(statement.name))
    if isinstance(statement, SineCosine):
        return SineCosine(own(statement.sine), own(statement.cosine), statement.angle)
    if isinstance(statement, Queried):
        return replace(statement, names=tuple(map(own, statement.names)))
    return statement


@dataclass(frozen=True)
class SplitProgram:
    """A program split into parts, in order."""

    parts: tuple[ProgramPart, ...]  #: the parts.
    stored: int  #: most values stored at once.
    parked: int  #: most values parked at once.


def split_program(
    program: Program, longest_part: int = MAX_PART, longest_whole: int = MAX_WHOLE
) -> SplitProgram | None:
    """Split a program into parts; return ``None`` for a short one or one with loops.

    Args:
        program:       the program.
        longest_part:  most instructions of a part; a single statement may exceed it.
        longest_whole: most instructions of a program that is not split.
    """
    if program.instructions <= longest_whole or program.loops is not None:
        return None
    inputs: dict[str, ScheduledStatement] = {}
    steps: list[ScheduledStatement] = []
    for block in program.blocks:
        for statement in with_fills(block).statements:
            assert isinstance(statement, (Statement, SineCosine, Queried, Store, Fill)), (
                "the program is split already"
            )
            known = program.steps.get(id(statement))
            step = (
                known._replace(block=block)
                if known
                else ScheduledStatement.of(statement, block, program.variables)
            )
            if isinstance(statement, Statement) and statement.node.op == "input":
                inputs[statement.name] = step
            else:
                steps.append(step)
    cuts = _cuts(steps, inputs, longest_part)
    is_joined = program.instructions <= MAX_JOINED
    return _hand_on(steps, inputs, cuts, _parked(steps, inputs, cuts) if is_joined else set())


def _cuts(
    steps: Sequence[ScheduledStatement], inputs: dict[str, ScheduledStatement], longest: int
) -> list[int]:
    """Return the first step of each part, and the number of steps.

    A part has at least half of the maximum length, and ends at the fewest live values.
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
    """Count the live values before each step, and at the end."""
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
    """Choose the parked values: where too many are live, those with the farthest next use.

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
        if count <= MAX_WAITING:
            continue
        end = cuts[bisect_right(cuts, time)]
        waiting = [name for name in waiting if uses[name][-1] > time]
        next_use = {name: uses[name][bisect_right(uses[name], time)] for name in waiting}
        later = (name for name in waiting if next_use[name] >= end and name not in parked)
        for name in sorted(later, key=next_use.__getitem__)[MAX_WAITING - count :]:
            parked.add(name)
            for before, after in _gaps(uses[name], cuts):
                if before <= time < after:
                    count -= 1
                else:
                    changes[before] -= 1
                changes[after] += 1
    return parked


def _gaps(times: Sequence[int], cuts: Sequence[int]) -> list[tuple[int, int]]:
    """Return consecutive uses of a value in different parts."""
    of_part = [bisect_right(cuts, time) for time in times]
    return [(times[i], times[i + 1]) for i in range(len(times) - 1) if of_part[i] < of_part[i + 1]]


def _hand_on(
    steps: Sequence[ScheduledStatement],
    inputs: Mapping[str, ScheduledStatement],
    cuts: Sequence[int],
    parked: Container[str],
) -> SplitProgram:
    """Assign the statements to parts, and insert the statements that pass values."""
    bounds = list(pairwise(cuts))
    last_part = {
        name: part
        for part, (begin, end) in enumerate(bounds)
        for step in steps[begin:end]
        for name in step.reads
    }
    slots: dict[str, tuple[str, int]] = {}  # of live values: an array, an index in it
    free: dict[str, list[int]] = {STORED: [], PARKED: []}
    most = {STORED: 0, PARKED: 0}
    parts: list[ProgramPart] = []
    for part, (begin, end) in enumerate(bounds):
        known: set[str] = set()
        blocks: list[Block] = []
        arrays: set[str] = set()
        readers: Counter[str] = Counter()
        source = None
        for step in steps[begin:end]:
            if step.block is not source:
                source = step.block
                blocks.append(Block(source.phase, source.body))
            statements = blocks[-1].statements
            readers.update(step.reads)
            for name in step.reads:
                if name in known:
                    continue
                known.add(name)
                if name in inputs:
                    statements.append(inputs[name].statement)
                    arrays |= inputs[name].arrays
                    continue
                array, slot = slots[name]
                arrays.add(array)
                statements.append(Load(name, array, slot))
                if last_part[name] == part:
                    free[array].append(slot)
                    del slots[name]
            statements.append(step.statement)
            arrays |= step.arrays
            known.update(step.defines)
            for name in step.defines:
                if last_part.get(name, part) > part:
                    has_place = free[PARKED] or most[PARKED] < MAX_PARKED
                    array = PARKED if name in parked and has_place else STORED
                    arrays.add(array)
                    if not free[array]:
                        free[array].append(most[array])
                        most[array] += 1
                    slots[name] = array, (slot := free[array].pop())
                    statements.append(Keep(name, array, slot))
        parts.append(ProgramPart(tuple(blocks), frozenset(arrays), readers))
    assert not slots, "a stored value has no reader"
    return SplitProgram(tuple(parts), most[STORED], most[PARKED])
