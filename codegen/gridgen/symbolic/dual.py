"""Dual numbers: scalars of an algorithm with their derivatives in one direction.

An algorithm on dual numbers computes its results and their directional derivatives (forward-mode
differentiation). The components are other scalars. Graph nodes give a program with both, loop
scalars a program with loops, and complex numbers a function that can be differentiated once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from gridgen.symbolic.memory import Query
from gridgen.symbolic.scalars import Iteration, ListScalars, Scalar, Scalars, Value


class Dual:
    """A scalar and its derivative; 0.0 for constants."""

    __array_ufunc__ = None  # NumPy numbers leave the operation to this class
    __slots__ = ("tangent", "value")

    def __init__(self, value: Scalar, tangent: Scalar = 0.0) -> None:
        self.value, self.tangent = value, tangent

    def __add__(self, other: Scalar) -> Dual:
        value, tangent = _both(other)
        return Dual(self.value + value, _sum(self.tangent, tangent))

    def __sub__(self, other: Scalar) -> Dual:
        value, tangent = _both(other)
        return Dual(self.value - value, _sum(self.tangent, _negative(tangent)))

    def __rsub__(self, other: Scalar) -> Dual:
        return Dual(other - self.value, _negative(self.tangent))

    def __mul__(self, other: Scalar) -> Dual:
        value, tangent = _both(other)
        change = _sum(_product(value, self.tangent), _product(self.value, tangent))
        return Dual(self.value * value, change)

    def __truediv__(self, other: Scalar) -> Dual:
        value, tangent = _both(other)
        quotient = self.value / value
        change = _sum(self.tangent, _negative(_product(quotient, tangent)))
        return Dual(quotient, change if _is_none(change) else change / value)

    def __rtruediv__(self, other: Scalar) -> Dual:
        return Dual(other) / self

    def __neg__(self) -> Dual:
        return Dual(-self.value, _negative(self.tangent))

    __radd__ = __add__
    __rmul__ = __mul__


def _both(scalar: Scalar) -> tuple[Scalar, Scalar]:
    return (scalar.value, scalar.tangent) if isinstance(scalar, Dual) else (scalar, 0.0)


def _is_none(tangent: Scalar) -> bool:
    """Return whether there is no derivative, so that no operation is recorded or counted."""
    return type(tangent) is float and tangent == 0.0


def _sum(a: Scalar, b: Scalar) -> Scalar:
    if _is_none(a):
        return b
    return a if _is_none(b) else a + b


def _product(a: Scalar, tangent: Scalar) -> Scalar:
    if _is_none(tangent):
        return 0.0
    return tangent * a if isinstance(tangent, Slopes) else a * tangent


def _negative(tangent: Scalar) -> Scalar:
    return 0.0 if _is_none(tangent) else -tangent


class Slopes(dict[int, Scalar]):
    """The tangent of a dual number in several directions, by direction, without zeros."""

    __array_ufunc__ = None  # NumPy numbers leave the operation to this class

    def __add__(self, other: Slopes) -> Slopes:
        return Slopes(self | {k: self[k] + x if k in self else x for k, x in other.items()})

    def __neg__(self) -> Slopes:
        return Slopes((k, -x) for k, x in self.items())

    def __mul__(self, factor: Scalar) -> Slopes:
        products = ((k, factor * x) for k, x in self.items())
        return Slopes((k, x) for k, x in products if not _is_none(x))

    def __truediv__(self, divisor: Scalar) -> Slopes:
        return Slopes((k, x / divisor) for k, x in self.items())

    __rmul__ = __mul__


def slopes_of(tangent: Scalar) -> Slopes:
    """Return the tangent of a number of ``ColumnScalars``."""
    return tangent if isinstance(tangent, Slopes) else Slopes()


class DualScalars(ListScalars):
    """Dual numbers as the scalars of an algorithm."""

    differentiates = True

    def __init__(self, inner: Scalars) -> None:
        self.inner = inner
        self.specialize, self.has_loops = inner.specialize, inner.has_loops

    def constant(self, value: float) -> Dual:
        """Return a constant."""
        return Dual(self.inner.constant(value))

    def sincos(self, angle: Scalar) -> tuple[Dual, Dual]:
        """Return the sine and the cosine."""
        value, tangent = _both(angle)
        s, c = self.inner.sincos(value)
        return Dual(s, _product(c, tangent)), Dual(c, _negative(_product(s, tangent)))

    def sign(self, value: Scalar) -> Dual:
        """Return the sign, which is constant where it has a derivative."""
        return Dual(self.inner.sign(_both(value)[0]))

    def sqrt(self, value: Scalar) -> Dual:
        """Return the square root."""
        square, tangent = _both(value)
        root = self.inner.sqrt(square)
        return Dual(root, 0.0 if _is_none(tangent) else 0.5 * tangent / root)

    def exp(self, value: Scalar) -> Dual:
        """Return the exponential."""
        power, tangent = _both(value)
        result = self.inner.exp(power)
        return Dual(result, _product(result, tangent))

    def log(self, value: Scalar) -> Dual:
        """Return the natural logarithm."""
        number, tangent = _both(value)
        return Dual(self.inner.log(number), 0.0 if _is_none(tangent) else tangent / number)

    def atan2(self, y: Scalar, x: Scalar) -> Dual:
        """Return the angle."""
        (b, b_tangent), (a, a_tangent) = _both(y), _both(x)
        change = _sum(_product(a, b_tangent), _negative(_product(b, a_tangent)))
        angle = self.inner.atan2(b, a)
        return Dual(angle, change if _is_none(change) else change / (a * a + b * b))

    def select(self, test: Scalar, negative: Scalar, otherwise: Scalar) -> Dual:
        """Return one of two values, with its derivative."""
        pairs = zip(_both(negative), _both(otherwise), strict=True)
        value, tangent = (
            self.inner.select(_both(test)[0], self._scalar(a), self._scalar(b)) for a, b in pairs
        )
        return Dual(value, tangent)

    def query(
        self, query: Query, operands: Sequence[Scalar], array: Sequence[Scalar]
    ) -> list[Dual]:
        """Return the results of a query, which are constants unless it has a gradient."""
        numbers, elements = ([_both(x)[0] for x in some] for some in (operands, array))
        found = self.inner.query(query, numbers, elements)
        if query.gradient is None:
            return [*map(Dual, found)]
        tangent: Scalar = 0.0
        slopes = self.inner.query(query.gradient, numbers, elements)
        for slope, operand in zip(slopes, operands, strict=False):
            tangent = _sum(tangent, _product(slope, _both(operand)[1]))
        return [Dual(found[0], tangent)]

    def _scalar(self, value: Scalar) -> Scalar:
        return self.inner.constant(value) if type(value) is float else value

    def begin(self, phase: str, body: int) -> None:
        """Begin a part of the program; see ``Scalars``."""
        self.inner.begin(phase, body)

    def keep(self, symbol: str, body: int, value: Value) -> Value:
        """Name both components after the textbook; see ``Scalars``."""
        self.inner.keep(symbol, body, values_of(value))
        self.inner.keep(f"d{symbol}", body, tangents_of(value))
        return value

    def table(self, symbol: str, count: int, fill: Any = None) -> Any:
        """Return a table; see ``Scalars``."""
        if not self.has_loops:
            return super().table(symbol, count, fill)
        fills = (None, None) if fill is None else (values_of(fill), tangents_of(fill))
        return DualArray(
            self.inner.table(symbol, count, fills[0]),
            self.inner.table(f"{symbol}_tangent", count, fills[1]),
        )

    def pairs(self, symbol: str, count: int) -> Any:
        """Return a table of pairs; see ``Scalars``."""
        if not self.has_loops:
            return super().pairs(symbol, count)
        return DualArray(
            self.inner.pairs(symbol, count), self.inner.pairs(f"{symbol}_tangent", count), axes=2
        )

    def matrix(self, symbol: str, *shape: int, zeros: bool = True) -> Any:
        """Return an array; see ``Scalars``."""
        if not self.has_loops:
            return super().matrix(symbol, *shape, zeros=zeros)
        return DualArray(
            self.inner.matrix(symbol, *shape, zeros=zeros),
            self.inner.matrix(f"{symbol}_tangent", *shape, zeros=zeros),
            axes=len(shape),
        )

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
        """Iterate on values; the results have no derivatives. See ``Scalars``."""

        def inner(numbers: list[Scalar]) -> tuple[list[Scalar], Scalar]:
            after, test = step([*map(Dual, numbers)])
            return [self._scalar(value) for value in values_of([*after])], _both(test)[0]

        values = [self._scalar(value) for value in values_of([*start])]
        known = [self._scalar(value) for value in values_of([*given])]
        found = self.inner.iterate(symbol, most, values, inner, _both(test)[0], known, reports)
        return [*map(Dual, found)]

    def hold(self, values: list[Value]) -> list[Any]:
        """Return the values without derivatives; see ``Scalars``."""
        return [*map(Dual, values_of(values))]

    def carry(self, symbol: str, value: Any) -> Any:
        """Return a value that loops may change; see ``Scalars``."""
        if not self.has_loops:
            return super().carry(symbol, value)
        return DualCarried(
            self.inner.carry(symbol, values_of(value)),
            self.inner.carry(f"{symbol}_tangent", tangents_of(value)),
        )


class ColumnScalars(DualScalars):
    """Dual numbers with derivatives in several directions at once: the columns of a Jacobian."""

    def select(self, test: Scalar, negative: Scalar, otherwise: Scalar) -> Dual:
        """Return one of two values, with its derivatives."""
        (a, a_slopes), (b, b_slopes) = _both(negative), _both(otherwise)
        test = _both(test)[0]
        either = slopes_of(a_slopes), slopes_of(b_slopes)
        slopes = Slopes(
            (k, self.inner.select(test, *(self._scalar(own.get(k, 0.0)) for own in either)))
            for k in either[0] | either[1]
        )
        value = self.inner.select(test, self._scalar(a), self._scalar(b))
        return Dual(value, slopes or 0.0)

    def keep(self, symbol: str, body: int, value: Value) -> Value:
        """Return ``value``."""
        return value


class DualArray:
    """Two arrays of records as one: values and derivatives.

    Args:
        values:   array of values.
        tangents: array of derivatives; ``None`` if all are zero.
        axes:     number of indices of a record.
    """

    def __init__(self, values: Any, tangents: Any, axes: int = 1) -> None:
        self.values, self.tangents, self._axes = values, tangents, axes

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter([self[k] for k in range(len(self))])

    def __getitem__(self, index: Any) -> Any:
        value = self.values[index]
        tangent = None if self.tangents is None else self.tangents[index]
        if self._axes > 1:
            return DualArray(value, tangent, self._axes - 1)
        return joined(value, tangent)

    def __setitem__(self, index: Any, record: Any) -> None:
        self.values[index] = values_of(record)
        self.tangents[index] = tangents_of(record)


class DualCarried:
    """A record of dual numbers that loops may change."""

    def __init__(self, values: Any, tangents: Any) -> None:
        self._values, self._tangents = values, tangents

    @property
    def value(self) -> Any:
        """The current record."""
        return joined(self._values.value, self._tangents.value)

    @value.setter
    def value(self, record: Any) -> None:
        self._values.value, self._tangents.value = values_of(record), tangents_of(record)


def values_of(record: Any) -> Any:
    """Return the values of a record of dual numbers, or of an algorithm's result."""
    if isinstance(record, DualArray):
        return record.values
    return _mapped(record, 0)


def tangents_of(record: Any) -> Any:
    """Return the derivatives of a record; entries that are not numbers are unchanged."""
    if isinstance(record, DualArray):
        return record.tangents
    return _mapped(record, 1)


def joined(value: Any, tangent: Any = None) -> Any:
    """Return the record of dual numbers with the given values and derivatives."""
    if isinstance(value, (tuple, list)):
        changes = [None] * len(value) if tangent is None else tangent
        return type(value)(map(joined, value, changes))
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(*map(joined, _entries(value), _entries(tangent)))
    return value if _is_no_scalar(value) else Dual(value, 0.0 if tangent is None else tangent)


def _mapped(record: Any, side: int) -> Any:
    if isinstance(record, Dual):
        return _both(record)[side]
    if isinstance(record, (tuple, list)):
        return type(record)(_mapped(entry, side) for entry in record)
    if is_dataclass(record) and not isinstance(record, type):
        return type(record)(*(_mapped(entry, side) for entry in _entries(record)))
    return 0.0 if side and not _is_no_scalar(record) else record


def _entries(record: Any) -> list[Any]:
    return [getattr(record, field.name) for field in fields(record)]


def _is_no_scalar(entry: Any) -> bool:
    return entry is None or isinstance(entry, (int, str))
