"""Orders the statements of a program to reduce register pressure.

An algorithm creates nodes phase by phase. In that order, a gradient has hundreds of live values,
most of them for a distant phase, and the compiler spills them to the stack. This pass reorders the
blocks of a program, and where it pays also the statements, to minimize live values. Stores follow
the computation of a result, and loads precede the first use of an input. Operations do not change,
so results are identical to the last bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain
from typing import NamedTuple

from gridgen.symbolic.program import (
    Block,
    Program,
    Queried,
    ScheduledStatement,
    SineCosine,
    Statement,
    Store,
)
from gridgen.symbolic.tiles import TILE

# Packs in the simulated registers: the 32 of AVX-512, less two for constants and moves.
_REGISTERS = 30
# Most blocks that are scheduled together for the last of them.
_MAX_BLOCKS = 4
# Number of candidate blocks at a time, the first of the remaining ones.
_WINDOW = 256
# Times, in units of an independent instruction; two begin in each cycle.
_LATENCY, _DIVISION, _SINE = 8, 40, 120  # until a result is known
_SINE_WORK = 30  # instructions of a sine and its cosine
_DIVISIONS = ("div", "sqrt", "exp", "log", "atan2")
# Maximum time that an instruction waits for operands while the processor executes later ones: 10 to
# 40 are equally good. Without a bound, inverse dynamics is 10 to 20 % slower than unordered.
_PATIENCE = 40.0
# Minimum part of a program's cost that an order of statements must save. Such orders hide latencies
# worse than orders of blocks: where they save less, programs slow down.
_MIN_GAIN = 0.04

# Instructions of the longest program to order, which takes 0.03 ms per instruction: a sixth of the
# time to compile it.
_MAX_ORDERED = 60_000


class _Task(NamedTuple):
    """A step to schedule."""

    step: ScheduledStatement  #: the step.
    block: Block  #: block of the step, where its operands are known.
    reads: tuple[str, ...]  #: names of its operands, without inputs.


def ordered(program: Program) -> Program:
    """Return a program with its statements in the order of least cost."""
    inputs: dict[str, ScheduledStatement] = {}
    constants: list[_Task] = []  # results that read inputs only
    steps: dict[int, ScheduledStatement] = {}
    groups: list[list[_Task]] = []
    place: dict[str, int] = {}  # of every variable, the group that defines it
    for number, block in enumerate(program.blocks):
        groups.append([])
        for statement in block.statements:
            assert isinstance(statement, (Statement, SineCosine, Queried, Store)), (
                "the program is split already"
            )
            step = steps[id(statement)] = ScheduledStatement.of(statement, block, program.variables)
            if isinstance(statement, Statement) and statement.node.op == "input":
                inputs[statement.name] = step
                continue
            reads = tuple(name for name in step.reads if name not in inputs)
            place.update(dict.fromkeys(step.defines, number))
            if not isinstance(statement, Store):
                groups[number].append(_Task(step, block, reads))
            elif reads:
                home = max(place[name] for name in reads)
                groups[home].append(_Task(step, program.blocks[home], reads))
            else:
                constants.append(_Task(step, block, reads))
    groups = [_store_at_once(group) for group in groups if group]
    is_long = program.instructions > _MAX_ORDERED
    tasks = _flat(groups) if is_long else _cheapest(groups, program.instructions)
    blocks = _in_blocks(_with_constants(constants, tasks), inputs)
    return replace(program, blocks=blocks, steps=steps)


def _store_at_once(group: list[_Task]) -> list[_Task]:
    """Move every store of a group to the definition of its operands."""
    defined = {name: index for index, task in enumerate(group) for name in task.step.defines}

    def known(index: int) -> int:
        task = group[index]
        is_store = isinstance(task.step.statement, Store)
        return max(defined.get(name, -1) for name in task.reads) if is_store else index

    return [group[index] for index in sorted(range(len(group)), key=known)]


def _with_constants(constants: Sequence[_Task], tasks: Sequence[_Task]) -> list[_Task]:
    """Insert constant results before the others of their tiles, which are then complete early.

    Tiles of constants come last: a program that computes more than another begins like it, so that
    their first parts are equal.
    """
    by_tile: dict[tuple[str, int], list[_Task]] = {}
    for task in constants:
        by_tile.setdefault(_tile(task), []).append(task)
    result: list[_Task] = []
    for task in tasks:
        if isinstance(task.step.statement, Store):
            result += (one._replace(block=task.block) for one in by_tile.pop(_tile(task), ()))
        result.append(task)
    return [*result, *_flat(by_tile.values())]


def _tile(store: _Task) -> tuple[str, int]:
    statement = store.step.statement
    assert isinstance(statement, Store)
    return statement.array, statement.index // TILE


def _cheapest(groups: Sequence[list[_Task]], instructions: int) -> list[_Task]:
    """Return the tasks in the cheapest of several orders."""
    by_blocks = [_flat(_by_blocks(groups, most)) for most in (1, _MAX_BLOCKS)]
    orders = [_flat(groups), *by_blocks]
    best, cost = _least(orders, math.inf)
    worth = (1 - _MIN_GAIN) * (instructions + cost) - instructions
    finer, _ = _least([_by_statements(order) for order in orders], worth)
    return finer or best


def _flat(groups: Iterable[list[_Task]]) -> list[_Task]:
    return list(chain.from_iterable(groups))


def _least(orders: Sequence[list[_Task]], limit: float) -> tuple[list[_Task], float]:
    """Return the first order of least cost, and its cost; empty if no cost is below a limit."""
    best: list[_Task] = []
    for order in orders:
        cost = _cost(order, limit)
        if cost < limit:
            best, limit = order, cost
    return best, limit


def _in_blocks(
    tasks: Sequence[_Task], inputs: Mapping[str, ScheduledStatement]
) -> tuple[Block, ...]:
    """Return blocks of tasks in the given order, with each input read before its first use."""
    blocks: list[Block] = []
    read: set[str] = set()
    for step, (phase, body) in ((task.step, (task.block.phase, task.block.body)) for task in tasks):
        if not blocks or (blocks[-1].phase, blocks[-1].body) != (phase, body):
            blocks.append(Block(phase, body))
        for name in step.reads:
            if name in inputs and name not in read:
                read.add(name)
                blocks[-1].statements.append(inputs[name].statement)
        blocks[-1].statements.append(step.statement)
    return tuple(blocks)


def _by_blocks(groups: Sequence[list[_Task]], most: int) -> list[list[_Task]]:
    """Return groups of tasks in an order with few live values.

    Each step schedules the group, with its dependencies, that leaves the fewest live values.
    """
    made = [{name for task in group for name in task.step.defines} for group in groups]
    taken = [{name for task in group for name in task.reads} for group in groups]
    taken = [names - own for names, own in zip(taken, made, strict=True)]
    left = Counter(chain.from_iterable(taken))  # number of unscheduled readers of a value
    handed = [[name for name in names if name in left] for names in made]
    place = {name: number for number, names in enumerate(handed) for name in names}
    readers = dict.fromkeys(place, 0)  # here and below, bit i of a set is group i
    needs: list[int] = []  # dependencies of each group
    for number, names in enumerate(taken):
        needs.append(1 << number)
        for name in names:
            needs[number] |= needs[place[name]]
            readers[name] |= 1 << number

    def change(chosen: int) -> int:
        """Return the change of the number of live values after some groups."""
        members = _members(chosen)
        reads = Counter(chain.from_iterable(taken[number] for number in members))
        begun = sum(left[name] > reads[name] for number in members for name in handed[number])
        ended = [name for name, times in reads.items() if left[name] == times]
        return begun - sum(not chosen >> place[name] & 1 for name in ended)

    waiting = list(range(len(groups)))
    undone = (1 << len(groups)) - 1
    changes: dict[int, int] = {}  # of sets of groups
    result: list[list[_Task]] = []
    while waiting:
        sets = ((number, needs[number] & undone) for number in waiting[:_WINDOW])
        candidates = [(number, chosen) for number, chosen in sets if chosen.bit_count() <= most]
        for _, chosen in candidates:
            if chosen not in changes:
                changes[chosen] = change(chosen)
        _, _, _, chosen = min((changes[c], c.bit_count(), number, c) for number, c in candidates)
        undone ^= chosen
        affected = chosen
        for number in _members(chosen):
            result.append(groups[number])
            waiting.remove(number)
            for name in taken[number]:
                left[name] -= 1
                affected |= readers[name]
        changes = {c: value for c, value in changes.items() if not c & affected}
    return result


def _members(numbers: int) -> list[int]:
    """Return the numbers of the bits that are set, ascending."""
    members = []
    while numbers:
        members.append((numbers & -numbers).bit_length() - 1)
        numbers &= numbers - 1
    return members


def _by_statements(tasks: Sequence[_Task]) -> list[_Task]:
    """Return tasks in an order with few live values and short waits for operands.

    Each step schedules, among the tasks with operands known in time, the one that leaves the fewest
    live values; among equals, the first.
    """
    readers: dict[str, list[int]] = {}
    for number, task in enumerate(tasks):
        for name in task.reads:
            readers.setdefault(name, []).append(number)
    left = {name: len(numbers) for name, numbers in readers.items()}
    unknown = [len(task.reads) for task in tasks]
    known_at = [0.0] * len(tasks)

    def candidate(number: int) -> tuple[int, int]:
        """Return the change of the number of live values after a task, and its number."""
        change = 0
        for name in tasks[number].step.defines:
            change += name in left
        for name in tasks[number].reads:
            change -= left[name] == 1
        return change, number

    future = [(0.0, number) for number in range(len(tasks)) if not unknown[number]]
    candidates: list[tuple[int, int]] = []
    done = [False] * len(tasks)
    result: list[_Task] = []
    now = 0.0
    while len(result) < len(tasks):
        while future and future[0][0] <= now + _PATIENCE:
            heappush(candidates, candidate(heappop(future)[1]))
        if not candidates:
            now = future[0][0] - _PATIENCE
            continue
        _, number = heappop(candidates)
        if done[number]:
            continue  # a duplicate: the task became a better candidate later
        done[number] = True
        task = tasks[number]
        result.append(task)
        work, latency = _times(task.step)
        known = max(now, known_at[number]) + latency
        now += work
        for name in task.reads:
            left[name] -= 1
            if left[name] == 1:
                last = next(reader for reader in readers[name] if not done[reader])
                if not unknown[last] and known_at[last] <= now + _PATIENCE:
                    heappush(candidates, candidate(last))
        for reader in chain.from_iterable(readers.get(name, ()) for name in task.step.defines):
            known_at[reader] = max(known_at[reader], known)
            unknown[reader] -= 1
            if not unknown[reader]:
                heappush(future, (known_at[reader], reader))
    return result


def _times(step: ScheduledStatement) -> tuple[int, int]:
    """Return the time that a step occupies a processor, and the latency of its result."""
    statement = step.statement
    if isinstance(statement, SineCosine):
        return _SINE_WORK, _SINE
    divides = isinstance(statement, Statement) and statement.node.op in _DIVISIONS
    return max(step.instructions, 1), _LATENCY * step.instructions + _DIVISION * divides


def _cost(tasks: Sequence[_Task], limit: float = math.inf) -> int:
    """Return the cost of an order in addition to its instructions, up to a limit.

    The cost, in instructions, has two terms. The first is the number of packs that are spilled to
    the stack or reloaded; the simulation spills the register with the farthest next use. The second
    is the largest number of live packs: they occupy cache lines that results and arguments need
    too.
    """
    uses: dict[str, list[int]] = {}
    for time in range(len(tasks) - 1, -1, -1):
        for name in tasks[time].reads:
            if name in uses:
                uses[name].append(time)  # the next use is the last entry
            else:
                uses[name] = [time]
    held: dict[str, int] = {}  # next use of the values in registers
    farthest: list[tuple[int, str]] = []
    stored: set[str] = set()
    transfers = waiting = most = 0
    for step, _, reads in tasks:  # loops, not sums: half of the time of a long program
        if transfers + most >= limit:
            break
        for name in reads:
            transfers += name not in held
            uses[name].pop()
            waiting -= not uses[name]
        for name in step.defines:
            waiting += name in uses
        if waiting > most:
            most = waiting
        for name in (*reads, *step.defines):
            if times := uses.get(name):
                held[name] = times[-1]
                heappush(farthest, (-times[-1], name))
            else:
                held.pop(name, None)
        while len(held) > _REGISTERS:
            time, name = heappop(farthest)
            if held.get(name) == -time:
                del held[name]
                if name not in stored:
                    transfers += 1
                    stored.add(name)
    return transfers + most
