"""Two threads of a block never use one word of shared memory unordered, if one of them writes it.

Two symbolic threads run the same kernel. Their accesses are unordered if one barrier can be the
last that both have passed: a barrier of the block for threads of two warps, also one of the warp
for two lanes. Values that the launch does not fix are those of each thread. It is assumed that
threads meet at barriers, which emulation checks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import z3

from gridgen.kernel import WARP
from prove.execution import Access, Phase, base_of
from prove.kernels import Kernel
from prove.terms import Term, Unknown, number, of, product_of


@dataclass
class Group:
    """Accesses whose addresses differ by a constant, under the same conditions.

    Attributes:
        term:    the address without constant.
        example: one of them.
        places:  constant, bytes and whether it writes; the line of each.
    """

    term: Term
    example: Access
    places: dict[tuple[int, int, bool], int] = field(default_factory=dict)


@dataclass
class Report:
    """Pairs of groups that were compared, and the collisions."""

    pairs: int = 0
    races: list[str] = field(default_factory=list)


def prove_no_races(kernel: Kernel) -> Report:
    """Compare all accesses of shared memory, in pairs of groups."""
    report = Report()
    for is_warp in (False, True):
        if kernel.threads.constant is not None and not is_warp:
            if kernel.threads.constant <= WARP:
                continue
        groups = list(_groups(kernel, is_warp))
        for i, one in enumerate(groups):
            for other in groups[i:]:
                report.pairs += 1
                if race := _race(kernel, one, other, is_warp):
                    report.races.append(race)
    return report


def _groups(kernel: Kernel, is_warp: bool) -> Iterator[Group]:
    found: dict[object, Group] = {}
    for access in kernel.accesses:
        base = base_of(access.address)
        variable = kernel.execution.variables.get(base) if base else None
        if variable is None or variable.space != "shared" or base is None:
            continue
        offset = access.address - of(base)
        constant = offset.parts.get((), 0)
        conditions = tuple(condition.get_id() for condition in access.conditions)
        term = offset - number(constant)
        key = base, term, conditions, access.phases[is_warp]
        group = found.setdefault(key, Group(term, access))
        group.places[constant, access.bytes, access.writes] = access.line
    yield from found.values()


def _race(kernel: Kernel, one: Group, other: Group, is_warp: bool) -> str | None:
    """Return a collision of two threads, or ``None`` if there is none."""
    phases = one.example.phases[is_warp], other.example.phases[is_warp]
    common = {barrier for barrier, _ in phases[0]} & {barrier for barrier, _ in phases[1]}
    if base_of(one.example.address) is not base_of(other.example.address) or not common:
        return None
    distances: dict[tuple[int, int], tuple[int, int]] = {}
    for (a, size_a, writes_a), line_a in one.places.items():
        for (b, size_b, writes_b), line_b in other.places.items():
            if writes_a or writes_b:
                # They overlap if -size_a < first - second < size_b.
                distances[b - a - size_a, b - a + size_b] = line_a, line_b
    low, high = one.term.range
    least, most = other.term.range
    distances = {d: at for d, at in distances.items() if d[0] < high - least and d[1] > low - most}
    if not distances:
        return None
    second = _Second(kernel)
    difference = kernel.facts.known(one.term) - second.of(kernel.facts.known(other.term))
    meets = z3.Or(*(z3.And(difference > d[0], difference < d[1]) for d in distances))
    claims = [meets, *one.example.conditions, *map(second.of, other.example.conditions)]
    claims += _are_two(kernel, second, is_warp)
    claims.append(_same_phase(kernel, second, phases, common))
    first = [meets, *one.example.conditions, *kernel.facts.always]
    mine = kernel.facts.about([*first, kernel.facts.known(one.term)])
    theirs = [kernel.facts.known(other.term), *other.example.conditions, *kernel.facts.always]
    facts = [*mine, *map(second.of, (*kernel.facts.about(theirs), *kernel.facts.always))]
    turns = [kernel.facts.known(of(turn)) for turn in kernel.execution.turns.values()]
    facts += kernel.facts.about(turns)
    facts += map(second.of, kernel.facts.about(turns))
    found = kernel.facts.solve([*claims, *kernel.facts.always, *facts])
    if found is None:
        return None
    lines = next(iter(distances.values()))
    where = "one warp" if is_warp else "two warps"
    text = found if isinstance(found, str) else _threads(kernel, second, found)
    return f"lines {lines[0]} and {lines[1]}, {where}: {text}"


class _Second:
    """Expressions of the second thread: its own values in place of those that differ."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._names: dict[int, tuple[z3.ArithRef, z3.ArithRef]] = {}

    def of(self, expression: z3.ExprRef) -> z3.ExprRef:
        for monomial in self._kernel.facts.mentions(expression):
            if not all(self._kernel.is_uniform(unknown) for unknown in monomial):
                symbol = product_of(monomial)
                self._names[symbol.get_id()] = symbol, z3.Int(f"{symbol}'")
        return z3.substitute(expression, *self._names.values())


def _are_two(kernel: Kernel, second: _Second, is_warp: bool) -> list[z3.BoolRef]:
    known = kernel.facts.known
    lanes, warps = kernel.bits[:5], kernel.bits[5:]

    def differ(bits: list[Unknown]) -> z3.BoolRef:
        return z3.Or(*(known(of(bit)) != second.of(known(of(bit))) for bit in bits))

    return [differ(lanes), z3.Not(differ(warps))] if is_warp else [differ(warps)]


def _same_phase(
    kernel: Kernel, second: _Second, phases: tuple[Phase, Phase], common: set[object]
) -> z3.BoolRef:
    """Return that the last barrier was the same, in the same iteration of its loops."""
    ways: list[z3.BoolRef] = []
    crossed: dict[object, list[list[frozenset[object]]]] = defaultdict(lambda: [[], []])
    for side, phase in enumerate(phases):
        for barrier, loops in phase:
            crossed[barrier][side].append(loops)
    for barrier in common:
        around = kernel.execution.barriers.get(barrier, ())
        for mine in crossed[barrier][0]:
            for theirs in crossed[barrier][1]:
                relations: list[z3.BoolRef] = []
                for loop in around:
                    turn = kernel.facts.known(of(kernel.execution.turns[loop]))
                    shifts = [_shift(loop, loops) for loops in (mine, theirs)]
                    if None not in shifts:
                        relations.append(turn - shifts[0] == second.of(turn) - shifts[1])
                ways.append(z3.And(*relations))
    return z3.Or(*ways)


def _shift(loop: object, crossed: frozenset[object]) -> int | None:
    """Return the iterations of a loop that began after the barrier; ``None`` for several."""
    assert isinstance(loop, tuple)
    if (*loop, 2) in crossed:
        return None
    return int((*loop, 1) in crossed)


def _threads(kernel: Kernel, second: _Second, model: z3.ModelRef) -> str:
    def number_of(bits: list[z3.ExprRef]) -> int:
        return sum(
            model.eval(bit, model_completion=True).as_long() << i for i, bit in enumerate(bits)
        )

    bits = [kernel.facts.known(of(bit)) for bit in kernel.bits]
    return f"threads {number_of(bits)} and {number_of([second.of(bit) for bit in bits])}"
