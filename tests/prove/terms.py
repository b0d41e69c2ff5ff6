"""Integers of a kernel as polynomials over unknowns; facts about them for Z3.

Registers are exact modulo 2^width, so sums and products need no overflow check. A check is needed
where the width matters: a comparison, a conversion to a wider type, a division. There a polynomial
is taken as an integer only if bounds, or Z3, show that it does not wrap around; otherwise an
unknown takes its place.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import z3

_NUMBERS = itertools.count()
#: Steps of Z3 for one question, the same on every machine; no answer is no proof.
PATIENCE = 20_000_000
#: Most values of a factor that are distinguished in a product.
FEW = 32


@dataclass(eq=False)
class Unknown:
    """An integer that is not known.

    Attributes:
        name:  name in counterexamples.
        low:   its least value.
        high:  its greatest value.
        facts: return what else holds for it, when a question contains it.
        is_address: whether it is the address of an array.
        is_data: whether it comes from the numbers of an array.
        depth: the number of unknowns made before it.
        birth: the number of those in this pass over the kernel; 0 for those of the launch.
    """

    name: str
    low: int
    high: int
    facts: list[Callable[[], z3.BoolRef]] = field(default_factory=list)
    is_address: bool = False
    is_data: bool = False
    depth: int = field(default_factory=lambda: next(_NUMBERS))
    birth: int = 0

    @functools.cached_property
    def symbol(self) -> z3.ArithRef:
        return z3.Int(f"{self.name}#{self.depth}")

    def __repr__(self) -> str:
        return self.name


Monomial = tuple[Unknown, ...]


class Term:
    """A polynomial with integer coefficients."""

    __slots__ = ("_hash", "parts")

    def __init__(self, parts: Mapping[Monomial, int]) -> None:
        self.parts = {monomial: factor for monomial, factor in parts.items() if factor}
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and self.parts == other.parts

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.parts.items()))
        return self._hash

    def __repr__(self) -> str:
        parts = (
            " ".join((str(factor), *map(repr, monomial))) for monomial, factor in self.parts.items()
        )
        return " + ".join(parts) or "0"

    def __add__(self, other: Term) -> Term:
        parts = dict(self.parts)
        for monomial, factor in other.parts.items():
            parts[monomial] = parts.get(monomial, 0) + factor
        return Term(parts)

    def __sub__(self, other: Term) -> Term:
        return self + other.times(-1)

    def __mul__(self, other: Term) -> Term:
        parts: dict[Monomial, int] = {}
        for one, first in self.parts.items():
            for two, second in other.parts.items():
                monomial = tuple(sorted(one + two, key=lambda unknown: unknown.depth))
                parts[monomial] = parts.get(monomial, 0) + first * second
        return Term(parts)

    def times(self, factor: int) -> Term:
        return Term({monomial: factor * own for monomial, own in self.parts.items()})

    def wrapped(self, bits: int) -> Term:
        """Return the term with factors reduced modulo 2^bits, to the least absolute values."""
        half, whole = 1 << bits - 1, 1 << bits
        if all(-half <= factor < half for factor in self.parts.values()):
            return self
        return Term({m: (factor + half) % whole - half for m, factor in self.parts.items()})

    @property
    def constant(self) -> int | None:
        """The value of a term without unknowns."""
        return self.parts.get((), 0) if not self.parts.keys() - {()} else None

    @property
    def unknowns(self) -> set[Unknown]:
        return {unknown for monomial in self.parts for unknown in monomial}

    @property
    def range(self) -> tuple[int, int]:
        """Bounds of the value, from those of its unknowns."""
        low = high = 0
        for monomial, factor in self.parts.items():
            ends = (factor, factor)
            for unknown in monomial:
                corners = [a * b for a in ends for b in (unknown.low, unknown.high)]
                ends = min(corners), max(corners)
            low, high = low + min(ends), high + max(ends)
        return low, high

    def divided(self, divisor: int) -> tuple[Term, Term] | None:
        """Return quotient and remainder if they are polynomials: x = divisor q + r."""
        if divisor == 1:
            return self, NOTHING
        rest = {m: f for m, f in self.parts.items() if f % divisor}
        remainder = Term(rest | {(): rest.get((), 0) % divisor})
        low, high = remainder.range
        if low < 0 or high >= divisor:
            return None
        quotient = self - remainder
        return Term({m: f // divisor for m, f in quotient.parts.items()}), remainder

    def factor_of(self, unknown: Unknown) -> Term:
        """Return the polynomial by which an unknown is multiplied, which is linear in it."""
        found = {}
        for monomial, factor in self.parts.items():
            if unknown in monomial:
                rest = list(monomial)
                rest.remove(unknown)
                found[tuple(rest)] = factor
        return Term(found)

    def replaced(self, values: Mapping[Unknown, Term]) -> Term:
        """Return the term with other terms in place of unknowns."""
        if not self.unknowns & values.keys():
            return self
        total = NOTHING
        for monomial, factor in self.parts.items():
            product = number(factor)
            for unknown in monomial:
                product = product * (values[unknown] if unknown in values else of(unknown))
            total = total + product
        return total

    @property
    def z3(self) -> z3.ArithRef:
        """The term for Z3; products of unknowns are opaque, to keep questions linear."""
        parts = []
        for monomial, factor in self.parts.items():
            parts.append(factor * product_of(monomial) if monomial else z3.IntVal(factor))
        return z3.Sum(parts) if parts else z3.IntVal(0)


NOTHING = Term({})


def number(value: int) -> Term:
    return Term({(): value})


def of(unknown: Unknown) -> Term:
    return Term({(unknown,): 1})


@functools.cache
def _opaque(monomial: Monomial) -> z3.ArithRef:
    return z3.Int("*".join(f"{unknown.name}#{unknown.depth}" for unknown in monomial))


def product_of(monomial: Monomial) -> z3.ArithRef:
    return monomial[0].symbol if len(monomial) == 1 else _opaque(monomial)


class Facts:
    """What is known: about unknowns, and on the way to an instruction.

    Attributes:
        always:    hold for each launch.
    """

    def __init__(self) -> None:
        self.always: list[z3.BoolRef] = []
        self._products: dict[int, Monomial] = {}
        self._mentioned: dict[int, tuple[z3.ExprRef, frozenset[Monomial]]] = {}
        self._own: dict[Monomial, list[z3.BoolRef]] = {}
        self._answers: dict[object, bool] = {}

    def forget(self) -> None:
        """Forget answers: the facts about unknowns have changed."""
        self._own.clear()
        self._answers.clear()

    def known(self, term: Term) -> z3.ArithRef:
        """Return a term for Z3, with its unknowns entered."""
        for monomial in term.parts:
            if monomial:
                self._products[product_of(monomial).get_id()] = monomial
        return term.z3

    def about(self, expressions: Iterable[z3.ExprRef]) -> list[z3.BoolRef]:
        """Return what is known of all unknowns in expressions, and of those in these facts."""
        found: list[z3.BoolRef] = []
        seen: set[Monomial] = set()
        waiting = [m for expression in expressions for m in self.mentions(expression)]
        while waiting:
            monomial = waiting.pop()
            if monomial in seen:
                continue
            seen.add(monomial)
            if monomial not in self._own:
                symbol, (low, high) = product_of(monomial), Term({monomial: 1}).range
                if len(monomial) == 1:
                    facts = [fact() for fact in monomial[0].facts]
                else:
                    facts = self._of_product(monomial)
                self._own[monomial] = [symbol >= low, symbol <= high, *facts]
            found += self._own[monomial]
            for fact in self._own[monomial][2:]:
                waiting += self.mentions(fact)
        return found

    def _of_product(self, monomial: Monomial) -> list[z3.BoolRef]:
        """Return what a product is, if one factor has few values."""
        few = min(monomial, key=lambda unknown: unknown.high - unknown.low)
        if few.high - few.low > FEW:
            return []
        others = list(monomial)
        others.remove(few)
        rest, product = self.known(Term({tuple(others): 1})), product_of(monomial)
        values = range(few.low, few.high + 1)
        self.known(of(few))
        return [z3.Or(*(z3.And(few.symbol == v, product == v * rest) for v in values))]

    def mentions(self, expression: z3.ExprRef) -> frozenset[Monomial]:
        """Return the products of unknowns in an expression."""
        key = expression.get_id()
        if key not in self._mentioned:
            own = self._products.get(key)
            parts = (self.mentions(part) for part in expression.children())
            found = frozenset((own,)) if own else frozenset[Monomial]().union(*parts)
            self._mentioned[key] = expression, found  # it lives on, so its number stays its own
        return self._mentioned[key][1]

    def model(self, *claims: z3.BoolRef) -> z3.ModelRef | str | None:
        """Return values with which all claims hold, ``None`` if there are none, or a reason."""
        everything = [*claims, *self.always]
        return self.solve([*everything, *self.about(everything)])

    def solve(self, claims: Iterable[z3.BoolRef]) -> z3.ModelRef | str | None:
        """Return values for claims, with no facts but these; see ``model``."""
        solver = z3.SolverFor("QF_LIA")
        solver.set("rlimit", PATIENCE)
        solver.add(*claims)
        answer = solver.check()
        if answer == z3.unsat:
            return None
        return solver.model() if answer == z3.sat else f"Z3: {solver.reason_unknown()}"

    def holds(self, claim: z3.BoolRef, under: Iterable[z3.BoolRef] = ()) -> bool:
        under = tuple(under)
        for part in (claim, *under):
            self.mentions(part)
        key = (claim.get_id(), *(fact.get_id() for fact in under))
        if key not in self._answers:
            self._answers[key] = self.model(z3.Not(claim), *under) is None
        return self._answers[key]
