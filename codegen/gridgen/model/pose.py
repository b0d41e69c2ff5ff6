"""Rotations and poses as tuples of Python floats.

Tuples are faster than NumPy for vectors of three, and their rounding is reproducible. All poses
satisfy ``x_outer = rotation @ x_inner + translation``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

Vector3 = tuple[float, float, float]
Matrix3 = tuple[Vector3, Vector3, Vector3]

ZERO: Vector3 = (0.0, 0.0, 0.0)
IDENTITY: Matrix3 = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
NO_INERTIA: Matrix3 = (ZERO, ZERO, ZERO)

SNAP = 1e-15
"""Tolerance for rounding an entry of a rotation to 0, 1 or -1.

cos(pi/2) in float64 is 6e-17; without rounding, it would add operations to every kernel.
"""


def snap(value: float) -> float:
    """Round ``value`` to 0, 1 or -1 if it is within ``SNAP``."""
    nearest = float(round(value)) if abs(value) < 2.0 else value
    return nearest + 0.0 if abs(value - nearest) <= SNAP else value  # + 0.0 turns -0.0 into 0.0


def snapped(matrix: Matrix3) -> Matrix3:
    """Return ``matrix`` with ``snap`` applied to each entry."""
    return matrix3(snap(value) for row in matrix for value in row)


def vector3(values: Iterable[float]) -> Vector3:
    """Return three numbers as a vector."""
    return cast(Vector3, tuple(values))


def matrix3(values: Iterable[float]) -> Matrix3:
    """Return nine numbers, row after row, as a matrix."""
    v = tuple(values)
    return ((v[0], v[1], v[2]), (v[3], v[4], v[5]), (v[6], v[7], v[8]))


def dot(a: Vector3, b: Vector3) -> float:
    """Return the scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + 0.0  # turns -0.0 into 0.0


def cross(a: Vector3, b: Vector3) -> Vector3:
    """Return the vector product."""
    return (
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )


def add(a: Vector3, b: Vector3) -> Vector3:
    """Return the sum of two vectors."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def scale(factor: float, a: Vector3) -> Vector3:
    """Return a multiple of a vector."""
    return (factor * a[0], factor * a[1], factor * a[2])


def unit(a: Vector3) -> Vector3:
    """Return the unit vector along a nonzero vector."""
    # Divide by the largest entry first to avoid overflow and underflow.
    largest = max(abs(value) for value in a)
    a = vector3(value / largest for value in a)
    length = math.sqrt(dot(a, a))
    return vector3(value / length + 0.0 for value in a)


def transpose(a: Matrix3) -> Matrix3:
    """Return the transpose: the inverse of a rotation."""
    return cast(Matrix3, tuple(zip(*a, strict=True)))


def apply(a: Matrix3, b: Vector3) -> Vector3:
    """Return the product of a matrix and a vector."""
    return (dot(a[0], b), dot(a[1], b), dot(a[2], b))


def multiply(a: Matrix3, b: Matrix3) -> Matrix3:
    """Return the product of two matrices."""
    columns = transpose(b)
    return matrix3(dot(row, column) for row in a for column in columns)


def rotate_inertia(rotation: Matrix3, inertia: Matrix3) -> Matrix3:
    """Return R I R^T, exactly symmetric."""
    if rotation == IDENTITY:
        return inertia
    full = multiply(multiply(rotation, inertia), transpose(rotation))
    return symmetric(full[0][0], full[1][0], full[2][0], full[1][1], full[2][1], full[2][2])


def symmetric(xx: float, xy: float, xz: float, yy: float, yz: float, zz: float) -> Matrix3:
    """Return the symmetric matrix with these entries."""
    return ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))


def point_inertia(mass: float, at: Vector3) -> Matrix3:
    """Return the inertia of a point mass about the origin: m (c.c 1 - c c^T)."""
    x, y, z = at
    return symmetric(
        mass * (y * y + z * z),
        -mass * x * y,
        -mass * x * z,
        mass * (x * x + z * z),
        -mass * y * z,
        mass * (x * x + y * y),
    )


def add_matrices(a: Matrix3, b: Matrix3) -> Matrix3:
    """Return the sum of two matrices."""
    return (add(a[0], b[0]), add(a[1], b[1]), add(a[2], b[2]))


def from_rpy(roll: float, pitch: float, yaw: float) -> Matrix3:
    """Return URDF's rotation: about the fixed x, then the fixed y, then the fixed z axis."""
    cr, sr = snap(math.cos(roll)), snap(math.sin(roll))
    cp, sp = snap(math.cos(pitch)), snap(math.sin(pitch))
    cy, sy = snap(math.cos(yaw)), snap(math.sin(yaw))
    return snapped(
        (
            (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
            (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
            (-sp, cp * sr, cp * cr),
        )
    )


def to_rpy(rotation: Matrix3) -> Vector3:
    """Return roll, pitch and yaw, the inverse of ``from_rpy``."""
    (a, b, _), (d, e, _), (g, h, i) = rotation
    if math.hypot(a, d) < 1e-9:  # pitch of 90 degrees: roll and yaw are about one axis
        return math.atan2(-g * b, e), math.atan2(-g, 0.0), 0.0
    return math.atan2(h, i), math.atan2(-g, math.hypot(a, d)), math.atan2(d, a)


def from_quaternion(x: float, y: float, z: float, w: float) -> Matrix3:
    """Return the rotation of a nonzero quaternion of any norm."""
    largest = max(abs(x), abs(y), abs(z), abs(w))
    x, y, z, w = x / largest, y / largest, z / largest, w / largest
    s = 2.0 / (x * x + y * y + z * z + w * w)
    return snapped(
        (
            (1.0 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)),
            (s * (x * y + w * z), 1.0 - s * (x * x + z * z), s * (y * z - w * x)),
            (s * (x * z - w * y), s * (y * z + w * x), 1.0 - s * (x * x + y * y)),
        )
    )


def to_quaternion(rotation: Matrix3) -> tuple[float, float, float, float]:
    """Return (x, y, z, w) of a rotation, whose largest entry is positive; w if several are."""
    (a, b, c), (d, e, f), (g, h, i) = rotation
    # Four times the square of each entry, and the entry's row of products.
    choices = (
        (1.0 + a + e + i, (h - f, c - g, d - b, 0.0), 3),
        (1.0 + a - e - i, (0.0, b + d, c + g, h - f), 0),
        (1.0 - a + e - i, (b + d, 0.0, f + h, c - g), 1),
        (1.0 - a - e + i, (c + g, f + h, 0.0, d - b), 2),
    )
    square, products, own = max(choices, key=lambda choice: choice[0])
    root = math.sqrt(square)
    entries = [product / (2.0 * root) for product in products]
    entries[own] = 0.5 * root
    x, y, z, w = entries
    return x, y, z, w


def about_axis(axis: Vector3, angle: float) -> Matrix3:
    """Return the rotation about a unit vector (Rodrigues' formula)."""
    c, s = snap(math.cos(angle)), snap(math.sin(angle))
    x, y, z = axis
    d = 1.0 - c
    return snapped(
        (
            (d * x * x + c, d * x * y - s * z, d * x * z + s * y),
            (d * x * y + s * z, d * y * y + c, d * y * z - s * x),
            (d * x * z - s * y, d * y * z + s * x, d * z * z + c),
        )
    )


def frame_along(axis: Vector3) -> Matrix3:
    """Return a rotation whose third column is the unit vector ``axis``.

    The result is the identity for +z, a signed permutation for the other coordinate directions,
    and otherwise a rotation with a zero entry, which saves operations.
    """
    smallest = min(range(3), key=lambda k: abs(axis[k]))
    y_axis = unit(cross(axis, IDENTITY[smallest]))
    x_axis = cross(y_axis, axis)
    return snapped(transpose((x_axis, y_axis, axis)))


@dataclass(frozen=True)
class Pose:
    """Pose of a frame in another: ``x_outer = rotation @ x_inner + translation``."""

    rotation: Matrix3 = IDENTITY
    translation: Vector3 = ZERO

    def __matmul__(self, inner: Pose) -> Pose:
        """Return the composition of two poses."""
        return Pose(
            snapped(multiply(self.rotation, inner.rotation)),
            add(apply(self.rotation, inner.translation), self.translation),
        )

    @property
    def homogeneous(self) -> tuple[tuple[float, ...], ...]:
        """The homogeneous transform."""
        rows = zip(self.rotation, self.translation, strict=True)
        return (*((*row, place) for row, place in rows), (0.0, 0.0, 0.0, 1.0))


NO_DISPLACEMENT = Pose()


def is_sparse(E: Matrix3) -> bool:
    """Return whether a rotation is about a coordinate axis, up to a permutation."""
    return sum(entry != 0.0 for row in E for entry in row) <= 5


def euler_zxz(
    E: Matrix3,
) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
    """Return (sine, cosine) of three angles with E = Rz(alpha) Rx(beta) Rz(gamma).

    Sines and cosines, not angles: exact zeros remain exact.
    """
    tilt = math.hypot(E[0][2], E[1][2])
    if tilt == 0.0:
        return (E[1][0], E[0][0]), (0.0, E[2][2]), (0.0, 1.0)
    sine, cosine = E[0][2] / tilt, -E[1][2] / tilt
    # Rz(alpha)^T E, not quotients of the last row: for a small tilt, alpha and gamma are
    # ill-conditioned, and only the same alpha gives an accurate sum.
    gamma = (-cosine * E[0][1] - sine * E[1][1], cosine * E[0][0] + sine * E[1][0])
    if min(map(abs, gamma)) <= SNAP:
        gamma = (float(round(gamma[0])), float(round(gamma[1])))
    return (sine, cosine), (tilt, E[2][2]), gamma
