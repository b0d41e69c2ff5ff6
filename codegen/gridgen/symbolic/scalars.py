"""The scalar interface of the algorithms in ``gridgen.dynamics``, and its implementations.

An algorithm is written once. It runs on floats (the reference), on graph nodes (the trace) or on
counters (the operation count without specialization). ``Scalars`` contains all differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from gridgen.symbolic.memory import Query

Scalar = Any  # a float, a NumPy array with one entry per state, a graph node, a counter
Value = TypeVar("Value")
#: One iteration: the new values for the current ones, and a number that is negative while the
#: iterations must continue.
Iteration = Callable[[list[Any]], tuple[Sequence[Any], Any]]


class Carried:
    """A value that one iteration of a loop passes to the next."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Scalars(Protocol):
    """Operations beyond ``+ - * /``, and the bookkeeping of a trace."""

    #: False if zeros and ones must be treated like other numbers.
    specialize: bool
    #: Whether loops remain loops; common terms of iterations are then computed in each.
    has_loops: bool
    #: Whether ``each`` is a loop.
    has_rows: bool
    #: Whether results are differentiated; solutions of ``iterate`` then need a last step.
    differentiates: bool

    def constant(self, value: float) -> Scalar:
        """Return a constant of the robot as a scalar."""

    def sincos(self, angle: Scalar) -> tuple[Scalar, Scalar]:
        """Return the sine and the cosine of ``angle`` [rad]."""

    def sign(self, value: Scalar) -> Scalar:
        """Return -1, 0 or 1."""

    def sqrt(self, value: Scalar) -> Scalar:
        """Return the square root."""

    def exp(self, value: Scalar) -> Scalar:
        """Return e to the power of ``value``."""

    def log(self, value: Scalar) -> Scalar:
        """Return the natural logarithm."""

    def atan2(self, y: Scalar, x: Scalar) -> Scalar:
        """Return the angle [rad] of the vector (x, y), between -pi and pi."""

    def select(self, test: Scalar, negative: Scalar, otherwise: Scalar) -> Scalar:
        """Return one value where ``test`` is negative, another elsewhere; both are computed."""

    def query(
        self, query: Query, operands: Sequence[Scalar], array: Sequence[Scalar]
    ) -> Sequence[Scalar]:
        """Return the results of a query, which are constant where they have a derivative.

        Args:
            query:    the query.
            operands: its operands.
            array:    elements of the array that it reads; programs read it by its name.
        """

    def begin(self, phase: str, body: int) -> None:
        """Begin a part of the program: ``phase`` of the algorithm at ``body``."""

    def keep(self, symbol: str, body: int, value: Value) -> Value:
        """Name a scalar or a nested tuple of scalars after the textbook; return ``value``."""

    def table(self, symbol: str, count: int, fill: Any = None) -> list[Any]:
        """Return a list of ``count`` entries for bodies, frames or velocities.

        Algorithms store values that loops change in tables, matrices or ``carry``.
        """

    def pairs(self, symbol: str, count: int) -> list[Any]:
        """Return a table with an entry for each pair of ``count`` items."""

    def matrix(self, symbol: str, *shape: int, zeros: bool = True) -> list[Any]:
        """Return nested lists of zeros, or uninitialized ones."""

    def carry(self, symbol: str, value: Any) -> Carried:
        """Return an object whose ``value`` a loop may change."""

    def each(
        self,
        word: str,
        items: Sequence[Any],
        kind: Callable[[Any], Hashable] = lambda item: (),
        chosen: Any = None,
    ) -> Iterator[Any]:
        """Iterate over items; those of one kind may be one stand-in, in a loop of a program.

        Values that depend on an item are stored in ``records``. Items are records of numbers and
        indices; those of one kind have equal text. With a result of ``choose``, all are of one
        kind, and others than the chosen ones may be omitted.
        """

    def choose(self, symbol: str, tests: Sequence[Any]) -> Any:
        """Return the items with a test that is negative in some state, and maybe others."""

    def span(self, word: str, first: int, end: int) -> Iterator[Any]:
        """Iterate from an index to an end, in a loop over the items of ``each``."""

    def items(self, items: Sequence[Any]) -> Sequence[Any]:
        """Return a sequence that accepts the indices of ``each`` and ``span``."""

    def records(self, symbol: str, count: int, fill: Any = None) -> list[Any]:
        """Return a list of records that loops of ``each`` change, with a constant to begin with."""

    def grid(self, symbol: str, *shape: int) -> list[Any]:
        """Return nested lists of zeros that loops of ``each`` change."""

    def when(self, test: Scalar, change: Callable[[], None]) -> None:
        """Call a function that changes records, where a test is negative.

        Elsewhere, it must store what is there.
        """

    def iterate(
        self,
        symbol: str,
        most: int,
        start: Sequence[Scalar],
        step: Iteration,
        test: Scalar = -1.0,
        given: Sequence[Scalar] = (),
        reports: bool = False,
    ) -> list[Scalar]:
        """Return values after iterations of ``step``, which a program has once, in a loop.

        They have no derivatives; see ``hold``.

        The values of a state do not change after its test; others of a SIMD pack may continue.

        Args:
            symbol: name of the values.
            most:   most iterations.
            start:  the first values.
            step:   one iteration; see ``Iteration``.
            test:   negative where there is a first iteration.
            given:  all that iterations depend on, if a program has equal ones once.
            reports: whether compiled code reports that states have not converged after ``most``.
        """

    def hold(self, values: list[Value]) -> list[Value]:
        """Return values that derivatives do not pass, since their own have no effect."""

    def once(self, name: str, operands: Iterable[Scalar], compute: Callable[[], Value]) -> Value:
        """Return what a function computes, which a program has once for equal operands."""


def selected(
    scalars: Scalars, test: Scalar, negative: Sequence[Scalar], otherwise: Sequence[Scalar]
) -> list[Scalar]:
    """Return some values where the test is negative, others elsewhere."""
    return [scalars.select(test, a, b) for a, b in zip(negative, otherwise, strict=True)]


class ListScalars:
    """Tables as lists, for scalars whose loops are Python loops."""

    has_loops = False
    has_rows = False
    differentiates = False

    def each(
        self,
        word: str,
        items: Sequence[Any],
        kind: Callable[[Any], Hashable] = lambda item: (),
        chosen: Any = None,
    ) -> Iterator[Any]:
        """Iterate over all items; see ``Scalars``."""
        return iter(items)

    def choose(self, symbol: str, tests: Sequence[Any]) -> Any:
        """Return ``None``, for all; see ``Scalars``."""

    def span(self, word: str, first: int, end: int) -> Iterator[Any]:
        """Iterate over a range; see ``Scalars``."""
        return iter(range(first, end))

    def items(self, items: Sequence[Any]) -> Sequence[Any]:
        """Return the items; see ``Scalars``."""
        return items

    def records(self, symbol: str, count: int, fill: Any = None) -> list[Any]:
        """Return a list; see ``Scalars``."""
        return [fill] * count

    def grid(self: Scalars, symbol: str, *shape: int) -> list[Any]:
        """Return nested lists of zeros; see ``Scalars``."""
        return self.matrix(symbol, *shape)

    def when(self, test: Scalar, change: Callable[[], None]) -> None:
        """Call the function; see ``Scalars``."""
        change()

    def hold(self, values: list[Value]) -> list[Value]:
        """Return the values; see ``Scalars``."""
        return values

    def once(self, name: str, operands: Iterable[Scalar], compute: Callable[[], Value]) -> Value:
        """Compute; see ``Scalars``."""
        return compute()

    def table(self, symbol: str, count: int, fill: Any = None) -> list[Any]:
        """Return a list; see ``Scalars``."""
        return [fill] * count

    def pairs(self, symbol: str, count: int) -> list[Any]:
        """Return a list of dictionaries; see ``Scalars``."""
        return [{} for _ in range(count)]

    def matrix(self: Scalars, symbol: str, *shape: int, zeros: bool = True) -> list[Any]:
        """Return nested lists; see ``Scalars``."""
        count, *rest = shape
        if rest:
            return [self.matrix(symbol, *rest) for _ in range(count)]
        return [self.constant(0.0)] * count

    def carry(self, symbol: str, value: Any) -> Carried:
        """Return a ``Carried`` value; see ``Scalars``."""
        return Carried(value)

    def has_ended(self, test: Scalar) -> bool:
        """Return whether iterations end; never for scalars that cannot be compared."""
        return False

    def iterate(
        self: Any,
        symbol: str,
        most: int,
        start: Sequence[Scalar],
        step: Iteration,
        test: Scalar = -1.0,
        given: Sequence[Scalar] = (),
        reports: bool = False,
    ) -> list[Scalar]:
        """Iterate until all states have converged; see ``Scalars``."""
        values = list(start)
        for _ in range(most):
            if self.has_ended(test):
                break
            after, new_test = step(values)
            values = selected(self, test, after, values)
            test = self.select(test, new_test, test)
        return values


def entries(result: Any) -> Iterator[Scalar]:
    """Yield the scalars of nested lists and tuples, row by row."""
    if not isinstance(result, (list, tuple)):
        yield result
        return
    for entry in result:
        yield from entries(entry)


class FloatScalars(ListScalars):
    """Floats, complex numbers, or NumPy arrays with one entry per state: the reference.

    Attributes:
        named: every named quantity by (symbol, body), for tests of intermediate results.
    """

    specialize = True

    def __init__(self) -> None:
        self.named: dict[tuple[str, int], Any] = {}

    def constant(self, value: float) -> Scalar:
        """Return ``value``."""
        return value

    def sincos(self, angle: Scalar) -> tuple[Scalar, Scalar]:
        """Return NumPy's sine and cosine."""
        return np.sin(angle), np.cos(angle)

    def sign(self, value: Scalar) -> Scalar:
        """Return the sign of the real part; complex steps are unaffected."""
        return np.sign(np.real(value))

    def sqrt(self, value: Scalar) -> Scalar:
        """Return NumPy's square root."""
        return np.sqrt(value)

    def exp(self, value: Scalar) -> Scalar:
        """Return NumPy's exponential."""
        return np.exp(value)

    def log(self, value: Scalar) -> Scalar:
        """Return NumPy's natural logarithm."""
        return np.log(value)

    def atan2(self, y: Scalar, x: Scalar) -> Scalar:
        """Return the angle; to the first order for complex steps, which NumPy does not support."""
        angle = np.arctan2(np.real(y), np.real(x))
        if not (np.iscomplexobj(y) or np.iscomplexobj(x)):
            return angle
        square = np.real(x) ** 2 + np.real(y) ** 2
        return angle + 1j * (np.real(x) * np.imag(y) - np.real(y) * np.imag(x)) / square

    def select(self, test: Scalar, negative: Scalar, otherwise: Scalar) -> Scalar:
        """Select by the real part; complex steps are unaffected."""
        return np.where(np.real(test) < 0.0, negative, otherwise)

    def has_ended(self, test: Scalar) -> bool:
        """Return whether no state continues; see ``ListScalars``."""
        return not np.any(np.real(test) < 0.0)

    def query(
        self, query: Query, operands: Sequence[Scalar], array: Sequence[Scalar]
    ) -> Sequence[Scalar]:
        """Return the results for real parts; complex steps pass those with a gradient."""
        real = [*map(np.real, operands)], [*map(np.real, array)]
        found = query.reference(*real)
        if query.gradient is None or not any(map(np.iscomplexobj, operands)):
            return found
        slopes = query.gradient.reference(*real)
        return [found[0] + 1j * sum(s * np.imag(x) for s, x in zip(slopes, operands, strict=False))]

    def begin(self, phase: str, body: int) -> None:
        """Do nothing: floats have no program."""

    def keep(self, symbol: str, body: int, value: Value) -> Value:
        """Record ``value``."""
        self.named[symbol, body] = value
        return value


class Counter:
    """A scalar without a value that counts operations."""

    __slots__ = ("counts",)

    def __init__(self, counts: list[int]) -> None:
        self.counts = counts

    def _count(self, other: object = None) -> Counter:
        self.counts[0] += 1
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _count
    __rtruediv__ = _count

    def __neg__(self) -> Counter:
        return self._count()


class CountingScalars(ListScalars):
    """Counters: the operation count of an algorithm without specialization."""

    specialize = False

    def __init__(self) -> None:
        self.counts = [0]
        self._scalar: Scalar = Counter(self.counts)

    @property
    def operations(self) -> int:
        """Operations counted so far."""
        return self.counts[0]

    def constant(self, value: float) -> Scalar:
        """Return the counter for any value."""
        return self._scalar

    def sincos(self, angle: Scalar) -> tuple[Scalar, Scalar]:
        """Count a sine and a cosine."""
        self.counts[0] += 2
        return self._scalar, self._scalar

    def sign(self, value: Scalar) -> Scalar:
        """Count a function of one number."""
        return self._scalar._count()

    sqrt = exp = log = sign

    def atan2(self, y: Scalar, x: Scalar) -> Scalar:
        """Count an angle."""
        return self._scalar._count()

    def select(self, test: Scalar, negative: Scalar, otherwise: Scalar) -> Scalar:
        """Count a selection."""
        return self._scalar._count()

    def iterate(
        self,
        symbol: str,
        most: int,
        start: Sequence[Scalar],
        step: Iteration,
        test: Scalar = -1.0,
        given: Sequence[Scalar] = (),
        reports: bool = False,
    ) -> list[Scalar]:
        """Count one iteration, as of a program's loop."""
        after, _ = step([self._scalar] * len(start))
        return [self.select(self._scalar, new, new) for new in after]

    def query(
        self, query: Query, operands: Sequence[Scalar], array: Sequence[Scalar]
    ) -> Sequence[Scalar]:
        """Count the instructions of a query."""
        self.counts[0] += query.instructions
        return [self._scalar] * len(query.results)

    def begin(self, phase: str, body: int) -> None:
        """Do nothing: a count has no parts."""

    def keep(self, symbol: str, body: int, value: Value) -> Value:
        """Return ``value``."""
        return value

    def inputs(self, count: int) -> Sequence[Scalar]:
        """Return ``count`` inputs."""
        return [self._scalar] * count


class LongProgramError(Exception):
    """A count exceeds its limit."""


class FoldingCounter:
    """A counter that folds zeros and ones: operations that folding removes do not count.

    Signs are free, because a trace moves most of them into sums.
    """

    __array_ufunc__ = None  # NumPy numbers leave the operation to this class
    __slots__ = ("counts", "most")

    def __init__(self, counts: list[int], most: int) -> None:
        self.counts = counts
        self.most = most

    def _count(self, other: object = None) -> FoldingCounter:
        self.counts[0] += 1
        if self.counts[0] > self.most:
            raise LongProgramError
        return self

    def _sum(self, other: Scalar) -> FoldingCounter:
        return self._count() if other is self or other != 0.0 else self

    def _product(self, other: Scalar) -> Scalar:
        if other is self:
            return self._count()
        if other == 0.0:
            return 0.0
        return self if abs(other) == 1.0 else self._count()

    def __rtruediv__(self, other: float) -> Scalar:
        return self._count() if other != 0.0 else 0.0

    def __neg__(self) -> FoldingCounter:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = _sum
    __mul__ = __rmul__ = _product
    __truediv__ = _count


class _OneRecord:
    """The last of some records in place of all."""

    def __init__(self, record: Any) -> None:
        self._record = record

    def __getitem__(self, index: int) -> Any:
        return self._record

    def __setitem__(self, index: int, record: Any) -> None:
        self._record = record


class FoldingScalars(CountingScalars):
    """Upper estimate of a trace's operation count, in a twentieth of its time.

    Loops over items count once, as their text does. ``searches`` are the instructions of queries,
    whose text is the same for all robots.

    Repeated terms count each time, and so do terms that no result needs: 3 to 30 percent of a long
    program.

    Args:
        most: limit of the count; exceeding it raises ``LongProgramError``.
    """

    specialize = True
    has_rows = True

    def __init__(self, most: int) -> None:
        super().__init__()
        self._scalar = FoldingCounter(self.counts, most)
        self.searches = 0

    def query(
        self, query: Query, operands: Sequence[Scalar], array: Sequence[Scalar]
    ) -> Sequence[Scalar]:
        """Count the instructions of a query apart; see ``Scalars``."""
        self.searches += query.instructions
        return [self._scalar] * len(query.results)

    def each(
        self,
        word: str,
        items: Sequence[Any],
        kind: Callable[[Any], Hashable] = lambda item: (),
        chosen: Any = None,
    ) -> Iterator[Any]:
        """Iterate over the first item of each kind; see ``Scalars``."""
        firsts: dict[Hashable, Any] = {}
        for item in items:
            firsts.setdefault(kind(item), item)
        return iter(firsts.values())

    def records(self, symbol: str, count: int, fill: Any = None) -> Any:
        """Return one record in place of all; see ``Scalars``."""
        return _OneRecord(fill)

    def constant(self, value: float) -> Scalar:
        """Return ``value``."""
        return value

    def sincos(self, angle: Scalar) -> tuple[Scalar, Scalar]:
        """Count a sine and a cosine, unless the angle is known."""
        if isinstance(angle, FoldingCounter):
            return super().sincos(angle)
        return math.sin(angle), math.cos(angle)
