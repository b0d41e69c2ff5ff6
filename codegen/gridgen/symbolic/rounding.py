"""Numbers with bounds of their accumulated rounding errors (running error analysis).

The bound of a result is the possible difference to another evaluation of the same terms. If the
terms of a sum cancel, the bound remains that of the terms.

Source: Higham 2002, section 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gridgen.symbolic.memory import Query
from gridgen.symbolic.scalars import FloatScalars, Scalar


class Rounded:
    """A number with an error bound, of one state or several.

    Attributes:
        value: the number.
        error: bound of its error, in units of rounding.
    """

    __array_ufunc__ = None  # NumPy numbers leave the operation to this class
    __slots__ = ("error", "value")

    def __init__(self, value: Any, error: Any = 0.0) -> None:
        self.value, self.error = value, error

    def __add__(self, other: Scalar) -> Rounded:
        other = rounded(other)
        return _new(self.value + other.value, self.error + other.error)

    def __sub__(self, other: Scalar) -> Rounded:
        other = rounded(other)
        return _new(self.value - other.value, self.error + other.error)

    def __rsub__(self, other: Scalar) -> Rounded:
        return rounded(other) - self

    def __mul__(self, other: Scalar) -> Rounded:
        other = rounded(other)
        error = abs(self.value) * other.error + abs(other.value) * self.error
        return _new(self.value * other.value, error)

    def __truediv__(self, other: Scalar) -> Rounded:
        other = rounded(other)
        value = self.value / other.value
        return _new(value, (self.error + abs(value) * other.error) / abs(other.value))

    def __rtruediv__(self, other: Scalar) -> Rounded:
        return rounded(other).__truediv__(self)

    def __neg__(self) -> Rounded:
        return Rounded(-self.value, self.error)

    __radd__ = __add__
    __rmul__ = __mul__


def _new(value: Any, error: Any) -> Rounded:
    """Return the result of an operation, including its own rounding."""
    return Rounded(value, error + abs(value))


def rounded(value: Scalar) -> Rounded:
    """Return a ``Rounded`` number; a constant has the rounding error of the scalar type."""
    return value if isinstance(value, Rounded) else Rounded(value, abs(value))


class RoundedScalars(FloatScalars):
    """Numbers with rounding error bounds as the scalars of an algorithm."""

    def sincos(self, angle: Scalar) -> tuple[Scalar, Scalar]:
        """Return sine and cosine."""
        angle = rounded(angle)
        s, c = np.sin(angle.value), np.cos(angle.value)
        return _new(s, abs(c) * angle.error), _new(c, abs(s) * angle.error)

    def sign(self, value: Scalar) -> Scalar:
        """Return the sign, which is exact."""
        return Rounded(np.sign(rounded(value).value))

    def sqrt(self, value: Scalar) -> Scalar:
        """Return the square root."""
        value = rounded(value)
        root = np.sqrt(value.value)
        # The derivative is infinite at zero: there the bound is the root of the square's bound.
        return _new(root, np.minimum(value.error / np.maximum(root, 1e-300), np.sqrt(value.error)))

    def exp(self, value: Scalar) -> Scalar:
        """Return the exponential."""
        value = rounded(value)
        result = np.exp(value.value)
        return _new(result, result * value.error)

    def log(self, value: Scalar) -> Scalar:
        """Return the natural logarithm."""
        value = rounded(value)
        return _new(np.log(value.value), value.error / np.maximum(value.value, 1e-300))

    def atan2(self, y: Scalar, x: Scalar) -> Scalar:
        """Return the angle."""
        y, x = rounded(y), rounded(x)
        square = np.maximum(x.value * x.value + y.value * y.value, 1e-300)
        error = (abs(x.value) * y.error + abs(y.value) * x.error) / square
        return _new(np.arctan2(y.value, x.value), error)

    def query(
        self, query: Query, operands: Sequence[Scalar], array: Sequence[Scalar]
    ) -> Sequence[Scalar]:
        """Return the results for the values; only those with a gradient have an error."""
        plain = [[rounded(x).value for x in numbers] for numbers in (operands, array)]
        found = super().query(query, *plain)
        if query.gradient is None:
            return [*map(Rounded, found)]
        slopes = query.gradient.reference(*plain)
        pairs = zip(slopes, operands, strict=False)
        return [_new(found[0], sum(abs(slope) * rounded(x).error for slope, x in pairs))]

    def select(self, test: Scalar, negative: Scalar, otherwise: Scalar) -> Scalar:
        """Select by state."""
        is_negative = rounded(test).value < 0.0
        one, other = rounded(negative), rounded(otherwise)
        value = np.where(is_negative, one.value, other.value)
        return Rounded(value, np.where(is_negative, one.error, other.error))
