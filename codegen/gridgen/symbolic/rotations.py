"""Rotations as unit quaternions, and the functions of rotation vectors in exponential maps.

A quaternion is (x, y, z, w). The length of a rotation vector w is its angle. With W = [w] and the
squared angle s = w . w, every analytic function of W is f0 I + f1(s) W + f2(s) W^2. The functions
f1 and f2 are among

    a = sin(angle) / angle                           b = (1 - cos(angle)) / s
    c = (1 - a) / s                                  e = (1 - angle / 2 cot(angle / 2)) / s

Their closed forms are 0 / 0 at zero; series replace them for small angles. As functions of s, they
are smooth at zero.

The same functions of a twist are 6 x 6. Its adjoint is [[W, V], [0, W]] with V = [v], so that a
function of it has f(W) twice on its diagonal, and the derivative of f(W) along V off the diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import Matrix, Motion, Vector, add, cross, dot, scale

Quaternion = tuple[Scalar, Scalar, Scalar, Scalar]

Rows = list[list[Scalar]]

#: Squared angle [rad^2] below which series are used. Seven terms are exact to float64 rounding.
_SERIES_END = 0.25
_TERMS = 7
#: Lower bound of squared lengths: nonzero in float32, with a root too small to change a sum with 1.
_MIN_SQUARE = 1e-30

#: Coefficients of b, c and e, the constant first.
_B_SERIES = tuple((-1) ** k / math.factorial(2 * k + 2) for k in range(_TERMS + 1))
_C_SERIES = tuple((-1) ** k / math.factorial(2 * k + 3) for k in range(_TERMS + 1))
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
    """Functions of a rotation vector for its exponential."""

    square: Scalar  #: s.
    half: tuple[Scalar, Scalar]  #: sine of half the angle, divided by that half; and its cosine.
    b: Scalar  #: b of the module's formulas.
    c: Scalar  #: c of the module's formulas.


def _slope(series: Sequence[float]) -> tuple[float, ...]:
    """Return the series of the derivative."""
    return tuple(k * coefficient for k, coefficient in enumerate(series))[1:]


def turn_of(w: Vector, scalars: Scalars) -> Turn:
    """Return the functions of a rotation vector."""
    square = dot(w, w)
    half = 0.5 * scalars.sqrt(at_least(square, _MIN_SQUARE, scalars))
    sine, cosine = scalars.sincos(half)
    sinc = sine / half
    # The closed form loses digits, but W^2 is small where it loses many.
    c = near_zero(square, _C_SERIES[:_TERMS], 1.0 - sinc * cosine, scalars)
    return Turn(square, (sinc, cosine), 0.5 * (sinc * sinc), c)


def near_zero(
    square: Scalar, series: Sequence[float], numerator: Scalar, scalars: Scalars
) -> Scalar:
    """Return ``numerator / square``, or the sum of a series where ``square`` is small."""
    closed = numerator / at_least(square, _SERIES_END, scalars)
    return scalars.select(square - _SERIES_END, polynomial(square, series), closed)


def at_least(value: Scalar, least: float, scalars: Scalars) -> Scalar:
    """Return the maximum of a scalar and a number; NaN remains NaN."""
    return scalars.select(value - least, scalars.constant(least), value)


def rotation_error(R: Matrix, scalars: Scalars) -> tuple[Vector, Scalar]:
    """Return a rotation as a vector along its axis of length 2 sin(angle / 2), and its square.

    The vector vanishes at an angle of pi, where the axis is not unique. The square does not.
    """
    one = scalars.constant(1.0)
    axis = (R[2][1] - R[1][2], R[0][2] - R[2][0], R[1][0] - R[0][1])
    trace = R[0][0] + R[1][1] + R[2][2]
    # |axis| is 2 sin(angle), and the trace 1 + 2 cos(angle).
    vector = scale(scalars.sqrt(one / at_least(trace + one, 1e-6, scalars)), axis)
    beyond = scalars.constant(3.0) - trace
    return vector, scalars.select(trace - one, beyond, dot(vector, vector))


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
    """Rotate a vector by a unit quaternion."""
    u = turn[:3]
    across = scale(2.0, cross(u, a))
    return add(a, add(scale(turn[3], across), cross(u, across)))


def normalized(a: Quaternion, scalars: Scalars) -> Quaternion:
    """Return a quaternion divided by its norm."""
    factor = 1.0 / scalars.sqrt(dot(a, a))
    return factor * a[0], factor * a[1], factor * a[2], factor * a[3]


def turned(start: Quaternion, w: Vector, turn: Turn, scalars: Scalars) -> Quaternion:
    """Return a quaternion rotated by a rotation vector in its own frame.

    Of the two quaternions of the result, the function returns the one nearer to ``start``, so that
    trajectories are continuous: its product with ``start``, cos(angle / 2), is positive.
    """
    sinc, cosine = turn.half
    factor = 0.5 * scalars.select(cosine, -sinc, sinc)
    x, y, z = scale(factor, w)
    step = x, y, z, scalars.select(cosine, -cosine, cosine)
    return normalized(multiply(start, step), scalars)


def displacement(w: Vector, v: Vector, turn: Turn) -> Vector:
    """Return the translation of a body in unit time with the constant twist (v, w) in its frame."""
    across = cross(w, v)
    return add(v, add(scale(turn.b, across), scale(turn.c, cross(w, across))))


# -- logarithm --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Angle:
    """Functions of a rotation vector for its logarithm."""

    square: Scalar  #: s.
    e: Scalar  #: e of the module's formulas.
    e1: Scalar  #: derivative of e with respect to s.


def rotation_vector(turn: Quaternion, scalars: Scalars) -> tuple[Vector, Angle]:
    """Return the rotation vector of a unit quaternion, at most pi long, and its functions."""
    x, y, z, w = turn
    sine = scalars.sqrt(at_least(dot(turn[:3], turn[:3]), _MIN_SQUARE, scalars))
    cosine = scalars.select(w, -w, w)
    half = scalars.atan2(sine, cosine)
    ratio = 2.0 * half / sine
    factor = scalars.select(w, -ratio, ratio)
    square = 4.0 * half * half
    cotangent = half * cosine / sine
    e = near_zero(square, _E_SERIES, 1.0 - cotangent, scalars)
    sinc = sine / half
    slope = (0.5 * (cotangent + 1.0 / (sinc * sinc)) - 1.0) / at_least(square, _SERIES_END, scalars)
    e1 = near_zero(square, _slope(_E_SERIES), slope, scalars)
    return (factor * x, factor * y, factor * z), Angle(square, e, e1)


def velocity(w: Vector, p: Vector, angle: Angle) -> Vector:
    """Return the linear velocity whose ``displacement`` with the angular velocity ``w`` is p."""
    across = cross(w, p)
    return add(p, add(scale(-0.5, across), scale(angle.e, cross(w, across))))


# -- derivatives ------------------------------------------------------------------------------


def inverse_of_step(twist: Motion, scalars: Scalars) -> Rows:
    """Return exp(-ad): the effect of a change of the start after unit time with a twist."""
    turn = turn_of(twist[1], scalars)
    a = 1.0 - turn.c * turn.square
    slopes = 0.5 * (turn.b - turn.c), _slopes(turn, scalars)[0]
    return _adjoint_function(twist, (1.0, -a, turn.b), slopes, scalars)


def right_jacobian(twist: Motion, scalars: Scalars) -> Rows:
    """Return (1 - exp(-ad)) / ad: the effect of a change of a twist after unit time."""
    turn = turn_of(twist[1], scalars)
    b1, c1 = _slopes(turn, scalars)
    return _adjoint_function(twist, (1.0, -turn.b, turn.c), (-b1, c1), scalars)


def logarithm_gradient(twist: Motion, angle: Angle, scalars: Scalars) -> tuple[Rows, Rows]:
    """Return the derivatives of a twist with respect to its initial and final pose.

    Those are -ad / (exp(ad) - 1) and ad / (1 - exp(-ad)), the inverse of ``right_jacobian``.
    """
    return (
        _adjoint_function(twist, (-1.0, 0.5, -angle.e), (0.0, -angle.e1), scalars),
        _adjoint_function(twist, (1.0, 0.5, angle.e), (0.0, angle.e1), scalars),
    )


def _slopes(turn: Turn, scalars: Scalars) -> tuple[Scalar, Scalar]:
    """Return the derivatives of b and c with respect to s."""
    square, b, c = turn.square, turn.b, turn.c
    b1 = near_zero(square, _slope(_B_SERIES), 0.5 - 0.5 * c * square - b, scalars)
    return b1, near_zero(square, _slope(_C_SERIES), 0.5 * b - 1.5 * c, scalars)


def _adjoint_function(
    twist: Motion, factors: tuple[Scalar, ...], slopes: tuple[Scalar, Scalar], scalars: Scalars
) -> Rows:
    """Return the function of a twist's adjoint that is f0 + f1 W + f2 W^2 for rotations.

    Args:
        twist:   (v, w).
        factors: f0, f1, f2.
        slopes:  derivatives of f1 and f2 with respect to s.
        scalars: the type of number.
    """
    v, w = twist
    f0, f1, f2 = factors
    along = 2.0 * dot(v, w)  # derivative of s along V
    x, y, z = (
        add(row, add(scale(f2 * w[i], v), scale(f2 * v[i], w)))
        for i, row in enumerate(_combined(-f2 * along, f1, 0.0, v))
    )
    change = _combined(0.0, along * slopes[0], along * slopes[1], w)
    turning = _combined(f0, f1, f2, w)
    mixing = add(x, change[0]), add(y, change[1]), add(z, change[2])
    nothing = [scalars.constant(0.0)] * 3
    upper = [[*turn, *mix] for turn, mix in zip(turning, mixing, strict=True)]
    return upper + [[*nothing, *turn] for turn in turning]


def _combined(f0: Scalar, f1: Scalar, f2: Scalar, w: Vector) -> Matrix:
    """Return f0 + f1 W + f2 W^2."""
    x, y, z = w
    xy, xz, yz = f2 * (x * y), f2 * (x * z), f2 * (y * z)
    xx, yy, zz = x * x, y * y, z * z
    return (
        (f0 - f2 * (yy + zz), xy - f1 * z, xz + f1 * y),
        (xy + f1 * z, f0 - f2 * (xx + zz), yz - f1 * x),
        (xz - f1 * y, yz + f1 * x, f0 - f2 * (xx + yy)),
    )
