"""Rotations as unit quaternions, and the functions of a rotation vector that motions are made of.

A quaternion is (x, y, z, w). A rotation vector w turns by its length, the angle. With W = [w], and
the square of the angle s = w . w, every analytic function of W is I + f1(s) W + f2(s) W^2. What
appears as f1 and f2:

    a = sin(angle) / angle                           b = (1 - cos(angle)) / s
    c = (1 - a) / s                                  e = (1 - angle / 2 cot(angle / 2)) / s

Where the angle is small their closed forms divide nothing by nothing: series serve there. They are
functions of s, so that nothing has a kink at zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.dynamics.spatial import Vector, add, cross, dot, scale
from gridgen.symbolic.scalars import Scalar, Scalars

Quaternion = tuple[Scalar, Scalar, Scalar, Scalar]

#: Squared angle [rad^2] below which series are summed. Seven terms leave less than float64 rounds.
_SERIES_END = 0.25
_TERMS = 7
#: Squared lengths are taken to be no smaller: a number that is not zero in float32, and whose root
#: is too small to change a sum with 1.
_LEAST_SQUARE = 1e-30

#: Coefficients of c and e, the constant first.
_C_SERIES = tuple((-1) ** k / math.factorial(2 * k + 3) for k in range(_TERMS))
_E_SERIES = (
    1 / 12,
    1 / 720,
    1 / 30240,
    1 / 1209600,
    1 / 47900160,
    691 / 1307674368000,
    1 / 74724249600,
    3617 / 10670622842880000,
)


@dataclass(frozen=True)
class Turn:
    """The functions of a rotation vector that its exponential needs.

    Attributes:
        square: s.
        half:   sine of half the angle, by that half; and its cosine.
        b:      as above.
        c:      as above.
    """

    square: Scalar
    half: tuple[Scalar, Scalar]
    b: Scalar
    c: Scalar


def turn_of(w: Vector, scalars: Scalars) -> Turn:
    """Return the functions of a rotation vector."""
    square = dot(w, w)
    half = 0.5 * scalars.sqrt(at_least(square, _LEAST_SQUARE, scalars))
    sine, cosine = scalars.sincos(half)
    sinc = sine / half
    # The closed form loses digits, but W^2 is small where it loses many.
    c = near_zero(square, _C_SERIES, (1.0 - sinc * cosine), scalars)
    return Turn(square, (sinc, cosine), 0.5 * (sinc * sinc), c)


def near_zero(
    square: Scalar, series: Sequence[float], numerator: Scalar, scalars: Scalars
) -> Scalar:
    """Return ``numerator / square``, the sum of a series in ``square`` where that is small."""
    closed = numerator / at_least(square, _SERIES_END, scalars)
    return scalars.select(square - _SERIES_END, polynomial(square, series), closed)


def at_least(value: Scalar, least: float, scalars: Scalars) -> Scalar:
    """Return the larger of a scalar and a number; a NaN stays one."""
    return scalars.select(value - least, scalars.constant(least), value)


def polynomial(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """Return the sum of coefficients times powers of ``x``, the constant first."""
    *others, total = coefficients
    value: Scalar = total
    for coefficient in reversed(others):
        value = value * x + coefficient
    return value


def multiply(a: Quaternion, b: Quaternion) -> Quaternion:
    """Return the product of two quaternions."""
    u, s, v, t = a[:3], a[3], b[:3], b[3]
    x, y, z = add(add(scale(s, v), scale(t, u)), cross(u, v))
    return x, y, z, s * t - dot(u, v)


def conjugate(a: Quaternion) -> Quaternion:
    """Return the quaternion of the inverse rotation."""
    return -a[0], -a[1], -a[2], a[3]


def rotate(turn: Quaternion, a: Vector) -> Vector:
    """Return a vector turned by a unit quaternion."""
    u = turn[:3]
    across = scale(2.0, cross(u, a))
    return add(a, add(scale(turn[3], across), cross(u, across)))


def normalised(a: Quaternion, scalars: Scalars) -> Quaternion:
    """Return a quaternion divided by its norm."""
    factor = 1.0 / scalars.sqrt(dot(a, a))
    return factor * a[0], factor * a[1], factor * a[2], factor * a[3]


def turned(start: Quaternion, w: Vector, turn: Turn, scalars: Scalars) -> Quaternion:
    """Return a quaternion turned by a rotation vector of its own frame.

    Of the two quaternions of the result it is the one nearer to ``start``, which keeps
    trajectories continuous: the one whose product with ``start`` is positive, cos(angle / 2).
    """
    sinc, cosine = turn.half
    factor = 0.5 * scalars.select(cosine, -sinc, sinc)
    x, y, z = scale(factor, w)
    step = x, y, z, scalars.select(cosine, -cosine, cosine)
    return normalised(multiply(start, step), scalars)


def displacement(w: Vector, v: Vector, turn: Turn) -> Vector:
    """Return how far a body gets in unit time with the constant twist (v, w) of its own."""
    across = cross(w, v)
    return add(v, add(scale(turn.b, across), scale(turn.c, cross(w, across))))
