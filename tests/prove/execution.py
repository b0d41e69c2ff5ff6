"""A kernel run on terms: all threads, blocks, batches and paths at once.

A value where paths meet is an unknown that has the value of one of them, under its condition. A
value that a loop changes by the same amount in each iteration is affine in the number of
iterations: a first pass suggests that, the next one proves it by induction. All others are unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import z3

from fake_gpu.ptx.operands import _number, initial_bytes
from fake_gpu.ptx.parser import SIZES, Function, Instruction, Module, PtxError, Registers, Variable
from prove.graph import Block, blocks_of, dominates
from prove.terms import NOTHING, Facts, Term, Unknown, number, of

Value: TypeAlias = Term | z3.BoolRef
Path: TypeAlias = tuple[int, ...]
#: Barriers that may have been the last one, each with the loops whose next iteration began since.
Phase: TypeAlias = frozenset[tuple[object, frozenset[object]]]

_ADDRESS = re.compile(r"\[\s*(?P<base>[\w$%]+)\s*(\+\s*(?P<offset>-?\w+))?\s*\]")
_PASSES = 20
_FOREVER = 1 << 62
_LARGE = 1 << 16
# Most values of a table that are distinguished.
_LISTED = 600
_FLIPPED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_RELATIONS: dict[str, Callable[[z3.ArithRef, z3.ArithRef], z3.BoolRef]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


@dataclass(frozen=True)
class Access:
    """A load or a store.

    Attributes:
        line:       line in the PTX.
        opcode:     the instruction.
        space:      state space of the instruction; empty for a generic address.
        writes:     whether it stores.
        address:    the address.
        bytes:      size.
        conditions: what holds when it runs.
        phases:     of the barriers of a block, and those of a warp too.
        path:       lines of the calls that lead to it.
    """

    line: int
    opcode: str
    space: str
    writes: bool
    address: Term
    bytes: int
    conditions: tuple[z3.BoolRef, ...]
    phases: tuple[Phase, Phase]
    path: Path


@dataclass
class Comparison:
    """How a loop decides to go on: a relation of two terms."""

    relation: str
    left: Term
    right: Term
    signed: bool
    bits: int
    is_part: bool = False  #: whether the loop goes on only if other conditions hold too.


@dataclass
class Known:
    """What earlier passes have found out about loops.

    Attributes:
        steps: the change of a register in each iteration of a loop.
        ranges: bounds of a register in a loop, if its steps differ.
        turns: the greatest number of completed iterations of a loop.
        phases: the phases that come around a loop.
        wrong: guesses that turned out to be wrong.
    """

    steps: dict[object, Term] = field(default_factory=dict)
    ranges: dict[object, tuple[int, int]] = field(default_factory=dict)
    turns: dict[object, int] = field(default_factory=dict)
    phases: dict[object, tuple[Phase, Phase]] = field(default_factory=dict)
    wrong: set[object] = field(default_factory=set)


@dataclass
class Launched:
    """A launch of a kernel: values of special registers and parameters.

    Attributes:
        special:    terms of ``%tid.x`` and others.
        parameters: a term for each eight bytes of a parameter: (index, offset).
    """

    special: dict[str, Term]
    parameters: dict[tuple[int, int], Term]
    block: int = 1024


class Execution:
    """Runs a kernel of a module on terms.

    Attributes:
        accesses: all loads and stores of memory that outlives a call, after ``run``.
        sizes:    bytes behind the addresses that are unknowns: tables, stacks, shared variables.
        turns:    the number of completed iterations of loops, by loop, with whether a barrier of a
                  block, or one of a warp, is in it.
    """

    def __init__(self, module: Module, launched: Launched, facts: Facts) -> None:
        self.module = module
        self.facts = facts
        self.launched = launched
        self._functions = {function.name: function for function in module.functions}
        self._known = Known()
        self._graphs: dict[str, list[Block]] = {}
        self.bases: dict[str, Unknown] = {}
        self.sizes: dict[Unknown, int] = {}
        self.variables: dict[Unknown, Variable] = {}
        self.barriers: dict[object, tuple[object, ...]] = {}
        self.turns: dict[object, Unknown] = {}
        self.rests: dict[Unknown, Term] = {}
        self.wrapped: set[Unknown] = set()
        self.choices: dict[Unknown, Sequence[tuple[tuple[z3.BoolRef, ...], Term]]] = {}
        self._tables: dict[object, Term] = {}
        self._unknowns: dict[object, Unknown] = {}
        for variable in module.variables:
            self.base(variable)

    def base(self, variable: Variable, frame: object = None) -> Unknown:
        """Return the address of a variable; one of a function's stack has a frame."""
        key = f"{variable.name}@{frame}" if frame else variable.name
        if key not in self.bases:
            base = Unknown(variable.name, 0, (1 << 17) - 1, is_address=True)
            self.bases[key] = base
            self.sizes[base] = variable.bytes
            self.variables[base] = variable
        return self.bases[key]

    def graph(self, function: Function) -> list[Block]:
        if function.name not in self._graphs:
            self._graphs[function.name] = blocks_of(function)
        return self._graphs[function.name]

    def run(self, entry: str) -> list[Access]:
        """Return the accesses of a kernel.

        Raises:
            PtxError: the kernel has what cannot be represented.
        """
        kernel = self._functions[entry]
        for _ in range(_PASSES):
            self.facts.forget()
            self._tables.clear()
            self._fresh: set[object] = set()
            self.accesses: list[Access] = []
            self.turns.clear()
            self.changed = False
            parameters = {
                (kernel.parameters[i].name, offset): term
                for (i, offset), term in self.launched.parameters.items()
            }
            nothing: Phase = frozenset({("start", frozenset[object]())})
            frame = _Frame(self, kernel, (), (), parameters, (nothing, nothing), ())
            frame.run()
            if not self.changed:
                return self.accesses
        raise PtxError(kernel.line, f"{entry}: no proof of its loops in {_PASSES} passes")

    # ---- what passes find out about loops ----

    def step(self, key: object) -> Term | None:
        return None if key in self._known.wrong else self._known.steps.get(key)

    def suggest(self, key: object, step: Term | None) -> None:
        """Compare the step of a value with the guess, and adopt it for the next pass."""
        if key in self._known.wrong:
            return
        guess = self._known.steps.get(key)
        if guess == step:
            return
        if guess is not None:
            self._known.wrong.add(key)
        elif step is not None:
            self._known.steps[key] = step
        self.changed = True

    def range(self, key: object) -> tuple[int, int] | None:
        return self._known.ranges.get(key)

    def suggest_range(self, key: object, found: tuple[int, int], full: tuple[int, int]) -> None:
        """Compare the range of a value with the guess, and adopt a smaller one."""
        name = ("range", key)
        guess = self._known.ranges.get(key)
        if name in self._known.wrong:
            return
        if guess is None and full[0] <= found[0] and found[1] <= full[1] and found != full:
            self._known.ranges[key] = found
            self.changed = True
        elif guess is not None and (found[0] < guess[0] or found[1] > guess[1]):
            self._known.wrong.add(name)
            del self._known.ranges[key]
            self.changed = True

    def bound(self, key: object) -> int | None:
        return self._known.turns.get(("turns", key))

    def suggest_bound(self, key: object, turns: int | None, is_exact: bool) -> None:
        name = ("turns", key)
        if name in self._known.wrong:
            return
        guess = self._known.turns.get(name)
        if guess is None:
            if turns is not None:
                self._known.turns[name] = turns
                self.changed = True
        elif not is_exact or turns is None or turns > guess:
            self._known.wrong.add(name)
            del self._known.turns[name]
            self.changed = True

    def come_around(self, key: object) -> tuple[Phase, Phase]:
        return self._known.phases.get(key, (frozenset(), frozenset()))

    def suggest_phases(self, key: object, phases: tuple[Phase, Phase]) -> None:
        if self.come_around(key) != phases:
            self._known.phases[key] = phases
            self.changed = True

    # ---- values ----

    def unknown(
        self, key: object, name: str, low: int, high: int, is_data: bool = False
    ) -> Unknown:
        """Return an unknown, the same in each pass, without the facts of earlier passes."""
        if key not in self._unknowns:
            self._unknowns[key] = Unknown(name, low, high, is_data=is_data)
        found = self._unknowns[key]
        if key not in self._fresh:
            self._fresh.add(key)
            found.low, found.high, found.is_data = low, high, is_data
            found.birth = len(self._fresh)
            found.facts.clear()
        return found

    def integer(self, term: Term, bits: int, signed: bool, under: Sequence[z3.BoolRef]) -> Term:
        """Return the integer that a term modulo 2^bits means, as a term."""
        least = -(1 << bits - 1) if signed else 0
        most = (1 << bits - 1 if signed else 1 << bits) - 1
        low, high = term.range
        if least <= low and high <= most:
            return term
        if signed is False and -(1 << bits) <= low and high < 0:
            return term + number(1 << bits)
        is_data = any(unknown.is_data for unknown in term.unknowns)
        if not is_data and self.is_in(term, least, most, under):
            return term
        return self._made((term, bits, signed, "integer"), self._wrapped, term, bits, least, most)

    def is_in(self, term: Term, low: int, high: int, under: Sequence[z3.BoolRef]) -> bool:
        x = self.facts.known(term)
        return self.facts.holds(z3.And(x >= low, x <= high), under)

    def _wrapped(self, key: object, term: Term, bits: int, least: int, most: int) -> Term:
        is_data = any(unknown.is_data for unknown in term.unknowns)
        found = self.unknown(key, "wrapped", least, most, is_data)
        self.wrapped.add(found)
        turns = self.unknown((key, "turns"), "turns", -(1 << 70), 1 << 70, is_data)
        difference = term - of(found) - of(turns).times(1 << bits)
        found.facts.append(lambda: self.facts.known(difference) == 0)
        return of(found)

    def _made(self, key: object, make: Callable[..., Term], *arguments: Any) -> Term:
        if key not in self._tables:
            self._tables[key] = make(key, *arguments)
        return self._tables[key]

    def split(self, term: Term, divisor: int) -> tuple[Term, Term]:
        """Return quotient and remainder of an integer: x = divisor q + r, 0 <= r < divisor."""
        if found := term.divided(divisor):
            return found
        quotient = self._made((term, divisor, "quotient"), self._quotient, term, divisor)
        rest = term - quotient.times(divisor)
        return quotient, self._made((term, divisor, "rest"), self._rest, rest, divisor)

    def _quotient(self, key: object, term: Term, divisor: int) -> Term:
        low, high = term.range
        is_data = any(unknown.is_data for unknown in term.unknowns)
        found = self.unknown(key, "q", low // divisor, high // divisor, is_data)
        rest = term - of(found).times(divisor)

        def fact() -> z3.BoolRef:
            left = self.facts.known(rest)
            return z3.And(left >= 0, left < divisor)

        found.facts.append(fact)
        return of(found)

    def _rest(self, key: object, term: Term, divisor: int) -> Term:
        is_data = any(unknown.is_data for unknown in term.unknowns)
        found = self.unknown(key, "r", 0, divisor - 1, is_data)
        found.facts.append(lambda: self.facts.known(term) == found.symbol)
        self.rests[found] = term
        return of(found)

    def one_of(self, key: object, choices: Sequence[tuple[tuple[z3.BoolRef, ...], Term]]) -> Term:
        """Return the value whose conditions hold."""
        first = choices[0][1]
        if all(term == first for _, term in choices):
            return first
        ranges = [term.range for _, term in choices]
        is_data = any(u.is_data for _, term in choices for u in term.unknowns)
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        found = self.unknown(key, "one", low, high, is_data)
        self.choices[found] = choices
        found.facts.append(
            lambda: z3.Or(
                *(
                    z3.And(*conditions, found.symbol == self.facts.known(term))
                    for conditions, term in choices
                )
            )
        )
        return of(found)

    def alternatives(
        self, address: Term, conditions: tuple[z3.BoolRef, ...]
    ) -> Iterator[tuple[tuple[z3.BoolRef, ...], Term]]:
        """Yield an address, or those of several arrays between which it chooses."""
        for unknown in address.unknowns:
            choices = self.choices.get(unknown, ())
            if not any(
                u.is_address or u in self.choices for _, term in choices for u in term.unknowns
            ):
                continue
            ways = [way for way, _ in choices]
            together = [
                u for u in address.unknowns if [way for way, _ in self.choices.get(u, ())] == ways
            ]
            for i, way in enumerate(ways):
                chosen = address.replaced({u: self.choices[u][i][1] for u in together})
                yield from self.alternatives(chosen, conditions + way)
            return
        yield conditions, address

    def table(self, variable: Variable, base: Unknown, offset: Term, type_: str) -> Term | None:
        """Return what a table contains at an offset."""
        size = SIZES[type_]
        data = initial_bytes(variable.values, variable.type, variable.line)
        data = data.ljust(variable.bytes, b"\0")
        values = [
            int.from_bytes(data[i : i + size], "little") for i in range(0, len(data) - size + 1, 1)
        ]
        half = 1 << 8 * size - 1
        if (place := offset.constant) is not None and 0 <= place < len(values):
            return number((values[place] + half) % (2 * half) - half)
        stride = math.gcd(*(factor for monomial, factor in offset.parts.items() if monomial))
        places = range(offset.parts.get((), 0) % stride, len(values), stride)
        if not places:
            return None

        def make(key: object) -> Term:
            signed = {i: (values[i] + half) % (2 * half) - half for i in places}
            entry = self.unknown(key, "entry", min(signed.values()), max(signed.values()))
            if len(places) <= _LISTED:

                def fact() -> z3.BoolRef:
                    at = self.facts.known(offset)
                    by_value: dict[int, list[int]] = {}
                    for i, value in signed.items():
                        by_value.setdefault(value, []).append(i)
                    return z3.Or(
                        *(
                            z3.And(entry.symbol == value, z3.Or(*(at == i for i in where)))
                            for value, where in by_value.items()
                        )
                    )

                entry.facts.append(fact)
            return of(entry)

        return self._made((base, offset, type_, "table"), make)


@dataclass(frozen=True)
class _Use:
    """An arithmetic instruction with its operands."""

    frame: _Frame
    operands: list[str]
    modifiers: list[str]
    line: int

    @property
    def bits(self) -> int:
        type_ = self.modifiers[-1]
        return int(type_[1:]) if re.fullmatch(r"[busf]\d+", type_) else 64

    def term(self, i: int, bits: int = 0) -> Term:
        """Return an operand modulo 2^bits."""
        return self.frame._term(self.operands[i], bits or self.bits, self.line)

    def integer(self, i: int, *, signed: bool | None = None) -> Term:
        """Return the integer that an operand means, by default in the type of the instruction."""
        is_signed = self.modifiers[-1][0] == "s" if signed is None else signed
        return self.frame._integer(self.operands[i], self.bits, is_signed, self.line)


class _Frame:
    """One call of a function."""

    def __init__(
        self,
        execution: Execution,
        function: Function,
        path: Path,
        conditions: tuple[z3.BoolRef, ...],
        parameters: dict[tuple[str, int], Value],
        phases: tuple[Phase, Phase],
        loops: tuple[object, ...],
    ) -> None:
        self._loops = loops
        self._x = execution
        self._function = function
        self._path = path
        self._blocks = execution.graph(function)
        self._memory = parameters
        self._entry_phases = phases
        self._conditions: list[tuple[z3.BoolRef, ...]] = []
        self._entry_conditions = conditions
        self._values: list[dict[str, Value]] = []
        self._phases: list[tuple[Phase, Phase]] = []
        self._edges: dict[tuple[int, int], tuple[z3.BoolRef, ...]] = {}
        self._compared: dict[int, Comparison] = {}  # how blocks end
        self._headers: dict[int, dict[str, tuple[Unknown, Term]]] = {}
        self._turns: dict[int, Unknown] = {}
        self._assigned: dict[int, set[str]] = {}
        self._types: dict[str, str] = {}
        self._locals: dict[str, Unknown] = {}
        self.results: dict[tuple[str, int], Value] = {}
        self.end_phases: tuple[Phase, Phase] = (frozenset(), frozenset())
        for statement in function.body:
            if isinstance(statement, Registers):
                self._types |= dict.fromkeys(statement.names, statement.type)
            elif isinstance(statement, Variable) and statement.space != "param":
                place = None if statement.space == "shared" else (path or "kernel")
                self._locals[statement.name] = execution.base(statement, place)
        for block in self._blocks:
            for instruction in block.code:
                for name in _written(instruction):
                    for header in block.loops:
                        self._assigned.setdefault(header, set()).add(name)

    # ---- control flow ----

    def run(self) -> None:
        for block in self._blocks:
            self._now = block.number
            self._values.append({})
            self._conditions.append(self._conditions_of(block))
            self._phases.append(self._phases_of(block))
            if block.number in block.loops:
                self._turns_of(block.number)  # before all values of the loop
            for instruction in block.code:
                self._instruction(instruction)
            for target, guard in block.after:
                self._edges[block.number, target] = self._guarded(guard)
        for header in sorted({h for block in self._blocks for h in block.loops}):
            self._close(header)

    def _guarded(self, guard: str) -> tuple[z3.BoolRef, ...]:
        if not guard:
            return ()
        value = self._predicate(guard)
        return () if z3.is_true(value) else (value,)

    def _conditions_of(self, block: Block) -> tuple[z3.BoolRef, ...]:
        if block.number == 0:
            return self._entry_conditions
        start = self._conditions[block.dominator]
        forward = [b for b in block.before if b < block.number]
        if len(block.before) == 1:
            (only,) = block.before
            return self._conditions[only] + self._edges[only, block.number]
        ways = [
            (*self._conditions[b][len(start) :], *self._edges[b, block.number]) for b in forward
        ]
        if any(not way for way in ways):
            return start
        if len(ways) == 2 and all(len(way) == 1 for way in ways):
            if z3.simplify(z3.Not(ways[0][0])).eq(z3.simplify(ways[1][0])):
                return start
        return (*start, z3.Or(*(z3.And(*way) for way in ways)))

    def _phases_of(self, block: Block) -> tuple[Phase, Phase]:
        if block.number == 0 and not block.before:
            return self._entry_phases
        found = [self._phases[b] for b in block.before if b < block.number]
        if block.number == 0:
            found.append(self._entry_phases)
        found.append(self._x.come_around((self._path, block.number)))
        return tuple(frozenset().union(*(phases[i] for phases in found)) for i in (0, 1))  # type: ignore[return-value]

    def _turns_of(self, header: int) -> Unknown:
        if header not in self._turns:
            key = (self._path, header)
            bound = self._x.bound(key)
            name = (
                f"turn{self._blocks[header].code[0].line}" if self._blocks[header].code else "turn"
            )
            found = self._x.unknown(key, name, 0, _FOREVER if bound is None else bound)
            found.facts.append(lambda: self._goes_on(header, found))
            self._turns[header] = self._x.turns[key] = found
        return self._turns[header]

    def _loops_here(self) -> tuple[object, ...]:
        own = self._blocks[self._now].loops
        return (*self._loops, *((self._path, header) for header in own))

    def _latches(self, header: int) -> list[int]:
        return [b for b in self._blocks[header].before if b >= header]

    def _tests(self, header: int) -> Iterator[Comparison]:
        """Yield what holds whenever the loop goes on: of branches that each iteration takes."""
        latches = self._latches(header)
        for at, found in self._compared.items():
            block = self._blocks[at]
            if header not in block.loops or not all(
                dominates(self._blocks, at, latch) for latch in latches
            ):
                continue
            stays = [
                guard
                for target, guard in block.after
                if header in self._blocks[target].loops and (target > at or target == header)
            ]
            if len(stays) == 1 and not (found.is_part and stays[0].startswith("!")):
                is_turned = stays[0].startswith("!")
                yield replace(found, relation=_FLIPPED[found.relation]) if is_turned else found

    def _goes_on(self, header: int, turns: Unknown) -> z3.BoolRef:
        """Return that the loop went on after each completed iteration."""
        if self._x.bound((self._path, header)) is None:
            return z3.BoolVal(True)
        return z3.And(*(self._went_on(test, turns) for test in self._tests(header)))

    def _went_on(self, test: Comparison, turns: Unknown) -> z3.BoolRef:
        difference = test.left - test.right
        step = difference.factor_of(turns).constant
        is_later = any(unknown.birth > turns.birth for unknown in difference.unknowns)
        if is_later or not step or self._most(test, turns, ()) is None:
            return z3.BoolVal(True)
        known = self._x.facts.known
        if test.relation == "ne":
            return known(difference) <= 0 if step > 0 else known(difference) >= 0
        before = difference.replaced({turns: of(turns) - number(1)})
        went_on = _RELATIONS[test.relation](known(before), z3.IntVal(0))
        return z3.Or(turns.symbol == 0, went_on)

    def _most(self, test: Comparison, turns: Unknown, under: tuple[z3.BoolRef, ...]) -> int | None:
        """Return the most iterations after which a test lets the loop go on."""
        difference = test.left - test.right
        step = difference.factor_of(turns).constant
        rest = difference.replaced({turns: NOTHING}).replaced(self._x.rests)
        if not step or turns in rest.unknowns:
            return None
        relation = test.relation
        if step < 0:
            rest, relation = rest.times(-1), {"gt": "lt", "ge": "le", "ne": "ne"}.get(relation, "")
        # x = rest + |step| k: goes on while x < 0, x <= 0, or x != 0 from below.
        size = abs(step)
        low, high = rest.range
        if under:
            low = max(low, self._least_value(rest, under))
        if relation == "lt":
            return max(0, (-1 - low) // size + 1)
        if relation == "le":
            return max(0, -low // size + 1)
        if relation == "ne" and high <= 0 and all(f % size == 0 for f in rest.parts.values()):
            return -low // size
        return None

    def _close(self, header: int) -> None:
        """Compare what comes around a loop with the guesses of this pass."""
        latches = self._latches(header)
        for name, (unknown, start) in self._headers.get(header, {}).items():
            key = (self._path, header, name)
            step = self._x.step(key)
            bits = self._bits(name)
            turns = self._turns_of(header)
            own = of(unknown) if step is None else start + of(turns) * step
            found = {self._read_from(name, latch) for latch in latches}
            difference: Term | None = None
            if len(found) == 1 and isinstance(value := next(iter(found)), Term):
                difference = (value - own).wrapped(bits)
                limit = turns.birth
                if any(u.birth > limit for u in difference.unknowns):
                    difference = None
                elif turns in difference.unknowns:
                    difference = None
            self._x.suggest(key, difference)
            if step is None and not unknown.is_data:
                ends = [term.range for term in (start, *found) if isinstance(term, Term)]
                low, high = min(low for low, _ in ends), max(high for _, high in ends)
                full = -(1 << bits - 1), (1 << bits - 1) - 1
                if low < 0 <= high and high < _LARGE and self._enters_above(name, header):
                    low = 0
                self._x.suggest_range(key, (low, high), full)
        self._close_turns(header)
        crossed: list[Phase] = []
        for kind in (0, 1):
            around = set[tuple[object, frozenset[object]]]()
            for latch in latches:
                for barrier, loops in self._phases[latch][kind]:
                    if (self._path, header) in self._x.barriers.get(barrier, ()):
                        once, more = (self._path, header, 1), (self._path, header, 2)
                        again = once in loops or more in loops
                        loops = loops - {once} | {more if again else once}
                    around.add((barrier, loops))
            crossed.append(frozenset(around))
        self._x.suggest_phases((self._path, header), (crossed[0], crossed[1]))

    def _enters_above(self, name: str, header: int) -> bool:
        """Return whether a value is not negative on each edge into a loop."""
        for before in self._blocks[header].before:
            value = self._read_from(name, before)
            under = self._conditions[before] + self._edges[before, header]
            assert isinstance(value, Term)
            if not self._x.is_in(value, 0, _LARGE, under):
                return False
        return True

    def _close_turns(self, header: int) -> None:
        turns, key = self._turns[header], (self._path, header)
        found = [
            (most, test)
            for test in self._tests(header)
            if (most := self._most(test, turns, self._conditions[header])) is not None
        ]
        if not found:
            self._x.suggest_bound(key, None, True)
            return
        most, test = min(found, key=lambda pair: pair[0])
        is_exact = True
        if self._x.bound(key) is not None:
            least = -(1 << test.bits - 1) if test.signed else 0
            top = (1 << test.bits - 1 if test.signed else 1 << test.bits) - 1
            is_exact = all(
                (least <= term.range[0] and term.range[1] <= top)
                or self._x.is_in(term, least, top, self._conditions[header])
                for term in (test.left, test.right)
            )
        self._x.suggest_bound(key, most, is_exact)

    def _least_value(self, term: Term, under: tuple[z3.BoolRef, ...]) -> int:
        """Return a bound of a term from below, a power of two, if Z3 knows one."""
        if term.range[0] < -_LARGE:
            for power in (8, 12, 16, 24, 31):
                if self._x.is_in(term, -(1 << power), _FOREVER, under):
                    return -(1 << power)
        return term.range[0]

    # ---- registers ----

    def _bits(self, name: str) -> int:
        return 8 * SIZES[self._types[name]]

    def _read_from(self, name: str, number_: int) -> Value:
        """Return the value of a register at the end of a block."""
        chain = []
        while name not in self._values[number_]:
            block = self._blocks[number_]
            chain.append(number_)
            if len(block.before) == 1 and block.before[0] < number_:
                number_ = block.before[0]
                continue
            value = self._merged(name, block)
            break
        else:
            value = self._values[number_][name]
        for at in chain:
            self._values[at][name] = value
        return value

    def _merged(self, name: str, block: Block) -> Value:
        forward = [b for b in block.before if b < block.number]
        if not block.before:
            return self._undefined(name)
        is_header = block.number in block.loops
        if is_header and name in self._assigned.get(block.number, ()):
            return self._around(name, block, forward)
        return self._met(name, block, forward)

    def _met(self, name: str, block: Block, before: list[int]) -> Value:
        if not before:
            return self._undefined(name)
        values = [self._read_from(name, b) for b in before]
        if all(_same(value, values[0]) for value in values):
            return values[0]
        start = len(self._conditions[block.dominator])
        ways = [(*self._conditions[b][start:], *self._edges[b, block.number]) for b in before]
        if self._types[name] == "pred":
            return z3.Or(*(z3.And(*way, v) for way, v in zip(ways, values, strict=True)))  # type: ignore[arg-type]
        key = (self._path, block.number, name, "met")
        if self._types[name].startswith("f"):
            return self._unknown(name, key)
        return self._x.one_of(key, list(zip(ways, values, strict=True)))  # type: ignore[arg-type]

    def _around(self, name: str, block: Block, before: list[int]) -> Value:
        if self._types[name] == "pred":
            return z3.FreshBool("loop")
        start = self._met(name, block, before)
        assert isinstance(start, Term)
        turns = self._turns_of(block.number)
        key = (self._path, block.number, name)
        step = self._x.step(key)
        half = 1 << self._bits(name) - 1
        low, high = self._x.range(key) or (-half, half - 1)
        unknown = self._x.unknown((key, "loop"), name, low, high)
        self._headers.setdefault(block.number, {})[name] = unknown, start
        return of(unknown) if step is None else start + of(turns) * step

    def _unknown(self, name: str, key: object = None, type_: str = "") -> Term:
        """Return data in a register, of a type that may be smaller."""
        bits = 8 * SIZES[type_] if type_ else self._bits(name)
        low = -(1 << bits - 1) if type_.startswith("s") else 0
        key = key or (self._path, self._now, name, type_, "data")
        return of(self._x.unknown(key, name, low, low + (1 << bits) - 1, is_data=True))

    def _undefined(self, name: str) -> Value:
        return z3.FreshBool("undefined") if self._types[name] == "pred" else self._unknown(name)

    def _predicate(self, operand: str) -> z3.BoolRef:
        if operand.startswith("!"):
            return z3.Not(self._predicate(operand[1:]))
        if operand in ("0", "1", "-1"):
            return z3.BoolVal(operand != "0")
        value = self._read_from(operand, self._now)
        assert isinstance(value, z3.BoolRef)
        return value

    def _term(self, operand: str, bits: int, line: int) -> Term:
        """Return an operand modulo 2^bits."""
        if operand in self._types:
            value = self._read_from(operand, self._now)
            assert isinstance(value, Term), (operand, line)
            return value.wrapped(bits)
        if operand in self._x.launched.special:
            return self._x.launched.special[operand]
        if operand[0] in "-0123456789":
            value = _number(operand, line)
            if bits == 32 and operand[:2] in ("0d", "0D"):
                raise PtxError(line, f"{operand} in 32 bits")
            return number(value).wrapped(bits)
        name, _, offset = operand.partition("+")
        name = name.removeprefix("generic(").rstrip(")")
        base = self._locals.get(name) or self._x.bases.get(name)
        if base is None:
            raise PtxError(line, f"{operand} is not known")
        return of(base) + number(int(offset or "0", 0))

    def _integer(self, operand: str, bits: int, signed: bool, line: int) -> Term:
        under = self._conditions[self._now]
        return self._x.integer(self._term(operand, bits, line), bits, signed, under)

    def _put(self, register: str, value: Value) -> None:
        if register == "_":
            return
        if isinstance(value, Term):
            value = value.wrapped(self._bits(register))
        self._values[self._now][register] = value

    # ---- instructions ----

    def _instruction(self, instruction: Instruction) -> None:
        kind, *modifiers = instruction.opcode.split(".")
        if instruction.guard and kind not in ("bra",):
            raise PtxError(instruction.line, f"{instruction.opcode} with a guard")
        run = getattr(self, f"_{kind}", None)
        if run is not None:
            run(instruction, modifiers)
        else:
            self._arithmetic(instruction, kind, modifiers)

    def _bra(self, instruction: Instruction, modifiers: list[str]) -> None:
        if instruction.guard:
            name = instruction.guard.lstrip("!")
            if found := self._comparisons().get(name):
                self._compared[self._now] = found
            return

    def _comparisons(self) -> dict[str, Comparison]:
        if not hasattr(self, "_made"):
            self._made: dict[str, Comparison] = {}
        return self._made

    def _ret(self, instruction: Instruction, modifiers: list[str]) -> None:
        for variable in self._function.results:
            for (name, offset), value in self._memory.items():
                if name == variable.name:
                    key = (variable.name, offset)
                    if key in self.results and not _same(self.results[key], value):
                        unknown = (self._path, key, "result")
                        value = of(self._x.unknown(unknown, "result", -(1 << 63), 1 << 64, True))
                    self.results[key] = value
        pairs = zip(self.end_phases, self._phases[self._now], strict=True)
        self.end_phases = tuple(a | b for a, b in pairs)  # type: ignore[assignment]

    def _trap(self, instruction: Instruction, modifiers: list[str]) -> None:
        pass

    def _call(self, instruction: Instruction, modifiers: list[str]) -> None:
        operands = list(instruction.operands)
        results = operands.pop(0) if operands[0].startswith("(") else ""
        name, *taken = operands
        function = self._x._functions[name]
        given = re.findall(r"[\w$%]+", results), re.findall(r"[\w$%]+", "".join(taken))
        parameters = {
            (inner.name, offset): value
            for outer, inner in zip(given[1], function.parameters, strict=True)
            for (own, offset), value in self._memory.items()
            if own == outer
        }
        frame = _Frame(
            self._x,
            function,
            (*self._path, instruction.line),
            self._conditions[self._now],
            parameters,
            self._phases[self._now],
            self._loops_here(),
        )
        frame.run()
        self._phases[self._now] = frame.end_phases
        for outer, inner in zip(given[0], function.results, strict=True):
            for (own, offset), value in frame.results.items():
                if own == inner.name:
                    self._memory[outer, offset] = value

    def _bar(self, instruction: Instruction, modifiers: list[str]) -> None:
        barrier = (self._path, instruction.line)
        self._x.barriers[barrier] = self._loops_here()
        fresh: Phase = frozenset({(barrier, frozenset[object]())})
        of_block = self._phases[self._now][0]
        if modifiers[0] == "warp":
            self._phases[self._now] = of_block, fresh
        elif instruction.operands[:1] == ("0",):
            self._phases[self._now] = fresh, fresh
            if modifiers[0] == "red":
                self._forget(instruction.operands[0])
        else:
            raise PtxError(instruction.line, f"{instruction.opcode}: barriers with a number")

    _barrier = _bar

    def _membar(self, instruction: Instruction, modifiers: list[str]) -> None:
        pass

    _fence = _membar

    def _forget(self, register: str) -> None:
        for name in _registers(register):
            if name != "_":
                self._put(name, self._undefined(name))

    def _shfl(self, instruction: Instruction, modifiers: list[str]) -> None:
        for name in instruction.operands[0].split("|"):
            self._forget(name)

    def _vote(self, instruction: Instruction, modifiers: list[str]) -> None:
        self._forget(instruction.operands[0])

    _activemask = _vote

    def _setp(self, instruction: Instruction, modifiers: list[str]) -> None:
        relation, type_ = modifiers[0], modifiers[-1]
        target, left, right, *more = instruction.operands
        bits, line = int(type_[1:]), instruction.line
        value: z3.BoolRef
        if type_[0] == "f":
            value = self._compared_floats(relation, left, right, bits, line)
        else:
            relation = _UNSIGNED.get(relation, relation)
            signed = type_[0] == "s"
            terms = self._term(left, bits, line), self._term(right, bits, line)
            self._comparisons()[target] = Comparison(relation, *terms, signed, bits)
            if relation in ("eq", "ne") and not signed:
                signed = all(
                    term.range[0] >= -(1 << bits - 1) and term.range[1] < 1 << bits - 1
                    for term in terms
                )
            a, b = (self._integer(operand, bits, signed, line) for operand in (left, right))
            difference = a - b
            if (known := difference.constant) is not None:
                value = z3.BoolVal(
                    bool(z3.simplify(_RELATIONS[relation](z3.IntVal(known), z3.IntVal(0))))
                )
            else:
                value = _RELATIONS[relation](self._x.facts.known(difference), z3.IntVal(0))
        if len(modifiers) > 2:
            combine = {"and": z3.And, "or": z3.Or, "xor": z3.Xor}[modifiers[1]]
            value = combine(value, self._predicate(more[0]))
        self._put(target, value)

    def _compared_floats(
        self, relation: str, left: str, right: str, bits: int, line: int
    ) -> z3.BoolRef:
        """Return a comparison; nonnegative numbers have the order of their bits."""
        a, b = (self._term(operand, bits, line) for operand in (left, right))
        half = 1 << bits - 1
        are_positive = all(term.range[0] >= 0 and term.range[1] < half for term in (a, b))
        if are_positive and relation in ("lt", "le", "gt", "ge") and b.constant is not None:
            x, y = (self._x.facts.known(term) for term in (a, b))
            least_nan = (0x7F800001, 0x7FF0000000000001)[bits == 64]
            return z3.And(_RELATIONS[relation](x, y), x < least_nan)
        return z3.FreshBool("compared")

    def _mov(self, instruction: Instruction, modifiers: list[str]) -> None:
        target, source = instruction.operands
        if modifiers[-1] == "pred":
            self._put(target, self._predicate(source))
            return
        bits, line = int(modifiers[-1][1:]), instruction.line
        if target.startswith("{"):
            names = _registers(target)
            whole = self._integer(source, bits, False, line)
            size = bits // len(names)
            for name in names:
                whole, part = self._x.split(whole, 1 << size)
                self._put(name, part) if name != "_" else None
        elif source.startswith("{"):
            names = _registers(source)
            size, total = bits // len(names), NOTHING
            for i, name in enumerate(names):
                total = total + self._integer(name, size, False, line).times(1 << i * size)
            self._put(target, total)
        else:
            self._put(target, self._term(source, bits, line))

    def _cvta(self, instruction: Instruction, modifiers: list[str]) -> None:
        target, source = instruction.operands
        self._put(target, self._term(source, 64, instruction.line))

    def _selp(self, instruction: Instruction, modifiers: list[str]) -> None:
        target, one, other, chooser = instruction.operands
        bits = int(modifiers[-1][1:])
        a, b = (self._term(operand, bits, instruction.line) for operand in (one, other))
        condition = self._predicate(chooser)
        choices = [((condition,), a), ((z3.Not(condition),), b)]
        self._put(target, self._x.one_of((self._path, self._now, target, "one"), choices))

    def _arithmetic(self, instruction: Instruction, kind: str, modifiers: list[str]) -> None:
        target, *operands = instruction.operands
        type_ = modifiers[-1]
        if type_ == "pred":
            values = [self._predicate(operand) for operand in operands]
            combine = {"and": z3.And, "or": z3.Or, "xor": z3.Xor, "not": z3.Not}[kind]
            parts = (self._comparisons().get(operand) for operand in operands)
            if kind == "and" and (part := next(filter(None, parts), None)):
                self._comparisons()[target] = replace(part, is_part=True)
            self._put(target, combine(*values))
            return
        value: Term | None = None
        if type_[0] != "f" or kind == "abs":
            if method := getattr(self, f"_of_{kind}", None):
                value = method(_Use(self, operands, modifiers, instruction.line))
        self._put(target, self._unknown(target) if value is None else value)

    def _of_add(self, use: _Use) -> Term:
        return use.term(0) + use.term(1)

    def _of_sub(self, use: _Use) -> Term:
        return use.term(0) - use.term(1)

    def _of_neg(self, use: _Use) -> Term:
        return use.term(0).times(-1)

    def _of_not(self, use: _Use) -> Term:
        return number(-1) - use.term(0)

    def _of_mul(self, use: _Use) -> Term | None:
        if use.modifiers[0] == "lo":
            return use.term(0) * use.term(1)
        a, b = use.integer(0), use.integer(1)
        if use.modifiers[0] == "wide":
            return a * b
        if a.constant is None and b.constant is None:
            return None
        return self._x.split(a * b, 1 << use.bits)[0]

    def _of_mad(self, use: _Use) -> Term | None:
        product = self._of_mul(use)
        wide = 2 * use.bits if use.modifiers[0] == "wide" else use.bits
        return None if product is None else product + use.term(2, wide)

    def _of_shl(self, use: _Use) -> Term | None:
        by = use.term(1, 32).constant
        if by is None:
            return None
        return use.term(0).times(1 << by) if by < use.bits else NOTHING

    def _of_shr(self, use: _Use) -> Term | None:
        by = use.term(1, 32).constant
        return None if by is None else self._x.split(use.integer(0), 1 << by)[0]

    def _of_and(self, use: _Use) -> Term | None:
        i = 0 if use.term(1).constant is not None else 1
        mask = use.term(1 - i).constant
        if mask is None:
            return None
        whole = use.integer(i, signed=False)
        mask %= 1 << use.bits
        if mask & mask + 1 == 0:  # low bits
            return self._x.split(whole, mask + 1)[1]
        lowest = mask & -mask
        upper = mask // lowest
        if upper & upper + 1 == 0:  # bits in a row
            quotient = self._x.split(whole, lowest)[0]
            return self._x.split(quotient, upper + 1)[1].times(lowest)
        return of(self._x.unknown((whole, mask, "and"), "and", 0, mask, is_data=True))

    def _of_or(self, use: _Use) -> Term | None:
        a, b = use.term(0), use.term(1)
        for one, other in ((a, b), (b, a)):
            low, high = other.range
            size = 1 << high.bit_length()
            if low >= 0 and all(factor % size == 0 for factor in one.parts.values()):
                return one + other
        return None

    def _of_xor(self, use: _Use) -> Term | None:
        constant = use.term(1).constant
        if constant is None or abs(constant) & abs(constant) - 1:
            return None
        whole = use.integer(0, signed=False)
        if constant < 0:  # all bits from one on
            quotient, rest = self._x.split(whole, -constant)
            return rest + (quotient + number(1)).times(constant)
        bit = self._x.split(self._x.split(whole, constant or 1)[0], 2)[1]
        return whole + number(constant) - bit.times(2 * constant)

    def _of_cvt(self, use: _Use) -> Term | None:
        kinds = [m for m in use.modifiers if re.fullmatch(r"[busf]\d+", m)]
        if any(kind[0] == "f" for kind in kinds):
            return None
        to, given = (int(kind[1:]) for kind in kinds)
        return use.term(0, given).wrapped(to) if to <= given else use.integer(0)

    def _of_div(self, use: _Use) -> Term | None:
        found = self._divided(use)
        return found and found[0]

    def _of_rem(self, use: _Use) -> Term | None:
        found = self._divided(use)
        return found and found[1]

    def _divided(self, use: _Use) -> tuple[Term, Term] | None:
        a, divisor = use.integer(0), use.integer(1).constant
        if divisor is None or divisor <= 0 or a.range[0] < 0:
            return None
        return self._x.split(a, divisor)

    def _of_min(self, use: _Use) -> Term:
        return self._extreme(use, use.integer(1) - use.integer(0))

    def _of_max(self, use: _Use) -> Term:
        return self._extreme(use, use.integer(0) - use.integer(1))

    def _extreme(self, use: _Use, advantage: Term) -> Term:
        """Return the first operand if it has an advantage, else the second one."""
        a, b = use.integer(0), use.integer(1)
        first = self._x.facts.known(advantage) >= 0
        return self._x.one_of((a, b, advantage), [((first,), a), ((z3.Not(first),), b)])

    def _of_abs(self, use: _Use) -> Term | None:
        if use.modifiers[-1][0] != "f":
            return None
        return self._x.split(use.integer(0, signed=False), 1 << use.bits - 1)[1]

    def _of_popc(self, use: _Use) -> Term:
        key = (self._path, use.line, "count")
        return of(self._x.unknown(key, "count", 0, use.bits, is_data=True))

    _of_clz = _of_popc

    def _of_bfe(self, use: _Use) -> Term | None:
        start, size = use.term(1, 32).constant, use.term(2, 32).constant
        if start is None or size is None or use.modifiers[-1][0] == "s":
            return None
        shifted = self._x.split(use.integer(0), 1 << start)[0]
        return self._x.split(shifted, 1 << size)[1]

    # ---- memory ----

    def _ld(self, instruction: Instruction, modifiers: list[str]) -> None:
        target, source = instruction.operands
        type_ = modifiers[-1]
        registers = _registers(target)
        space = _space(modifiers)
        if space == "param" or self._is_parameter(source):
            for i, name in enumerate(registers):
                self._put(name, self._parameter(source, i * SIZES[type_], name, instruction.line))
            return
        address = self._address(source, instruction.line)
        self._accessed(instruction, space, False, address, len(registers) * SIZES[type_])
        for i, name in enumerate(registers):
            if name == "_":
                continue
            at = address + number(i * SIZES[type_])
            value = self._loaded(at, type_)
            if value is None:
                value = self._unknown(name, type_=type_)
            self._put(name, value)

    _ldu = _ld

    def _loaded(self, address: Term, type_: str) -> Term | None:
        base = base_of(address)
        variable = self._x.variables.get(base) if base else None
        if base is None or variable is None or variable.space not in ("global", "const"):
            return None
        return self._x.table(variable, base, address - of(base), type_)

    def _st(self, instruction: Instruction, modifiers: list[str]) -> None:
        target, source = instruction.operands
        type_, space = modifiers[-1], _space(modifiers)
        registers = _registers(source)
        size = SIZES[type_]
        if space == "param":
            found = _ADDRESS.fullmatch(target)
            assert found is not None
            offset = int(found["offset"] or "0", 0)
            for i, name in enumerate(registers):
                self._memory[found["base"], offset + i * size] = self._term(
                    name, 8 * size, instruction.line
                )
            return
        address = self._address(target, instruction.line)
        self._accessed(instruction, space, True, address, len(registers) * size)

    def _atom(self, instruction: Instruction, modifiers: list[str]) -> None:
        *target, place = instruction.operands[: 1 if instruction.opcode.startswith("red") else 2]
        address = self._address(place, instruction.line)
        self._accessed(instruction, _space(modifiers), True, address, SIZES[modifiers[-1]])
        for name in target:
            self._forget(name)

    _red = _atom

    def _accessed(
        self, instruction: Instruction, space: str, writes: bool, address: Term, bytes_: int
    ) -> None:
        for conditions, at in self._x.alternatives(address, self._conditions[self._now]):
            self._x.accesses.append(
                Access(
                    instruction.line,
                    instruction.opcode,
                    space,
                    writes,
                    at.wrapped(64),
                    bytes_,
                    conditions,
                    self._phases[self._now],
                    self._path,
                )
            )

    def _is_parameter(self, operand: str) -> bool:
        found = _ADDRESS.fullmatch(operand)
        return bool(found) and any(found["base"] == name for name, _ in self._memory)

    def _parameter(self, operand: str, more: int, register: str, line: int) -> Value:
        found = _ADDRESS.fullmatch(operand)
        if found is None:
            raise PtxError(line, f"{operand} is not an address")
        key = found["base"], int(found["offset"] or "0", 0) + more
        value = self._memory.get(key)
        return self._unknown(register) if value is None else value

    def _address(self, operand: str, line: int) -> Term:
        found = _ADDRESS.fullmatch(operand)
        if found is None:
            raise PtxError(line, f"{operand} is not an address")
        base = found["base"]
        bits = self._bits(base) if base in self._types else 64
        term = self._term(base, bits, line)
        if bits == 32:
            term = self._x.integer(term, 32, False, self._conditions[self._now])
        return term + number(int(found["offset"] or "0", 0))


def base_of(address: Term) -> Unknown | None:
    """Return the array of an address: the only one, counted once."""
    found = [m for m in address.parts if any(unknown.is_address for unknown in m)]
    if len(found) != 1 or len(found[0]) != 1 or address.parts[found[0]] != 1:
        return None
    return found[0][0]


def _space(modifiers: list[str]) -> str:
    spaces = ("global", "const", "shared", "local", "param")
    return next((m.split("::")[0] for m in modifiers if m.split("::")[0] in spaces), "")


def _registers(operand: str) -> list[str]:
    return [part.strip() for part in operand.strip("{}").split(",")]


def _written(instruction: Instruction) -> Iterator[str]:
    kind = instruction.opcode.partition(".")[0]
    if kind in ("st", "bra", "ret", "call", "bar", "red", "membar", "fence", "trap"):
        if not instruction.opcode.startswith(("bar.red", "barrier.red")):
            return
    if instruction.operands:
        yield from re.findall(r"[\w$%]+", instruction.operands[0])


def _same(one: Value, other: Value) -> bool:
    if isinstance(one, Term) or isinstance(other, Term):
        return isinstance(one, Term) and isinstance(other, Term) and one == other
    return bool(one.eq(other))
