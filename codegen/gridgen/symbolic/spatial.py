"""Vectors, rotations and inertias of any scalar.

Symbols, as in Featherstone's *Rigid Body Dynamics Algorithms* and Yang, Wu, Pan (prefix
sums):

    E, r:     placement of a body in its parent: x_parent = E x_body + r
    v, w:     linear and angular velocity         (spatial vectors: linear part first)
    a, wd:    linear and angular acceleration
    f, n:     force and moment about the frame's origin
    m, h, I:  mass, first moment (mass times center of mass), rotational inertia about the origin

A vector is a tuple of three scalars, a matrix a tuple of three rows, a symmetric matrix the tuple
(xx, xy, xz, yy, yz, zz).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gridgen.symbolic.scalars import Scalar, Scalars

Vector = tuple[Scalar, Scalar, Scalar]
Matrix = tuple[Vector, Vector, Vector]
Symmetric = tuple[Scalar, Scalar, Scalar, Scalar, Scalar, Scalar]

Motion = tuple[Vector, Vector]
"""Linear and angular part of a velocity or an acceleration, for example a joint's axis."""

Wrench = tuple[Vector, Vector]
"""Force, and moment about the frame's origin."""

ZERO: Vector = (0.0, 0.0, 0.0)


def split(values: Sequence[Scalar]) -> tuple[Vector, Vector]:
    """Return the linear and the angular part of a spatial vector."""
    return (values[0], values[1], values[2]), (values[3], values[4], values[5])


def constants(values: Sequence[float], scalars: Scalars) -> Vector:
    """Return three numbers of the robot as scalars."""
    x, y, z = map(scalars.constant, values)
    return x, y, z


def add(a: Vector, b: Vector) -> Vector:
    """Return a + b."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def sub(a: Vector, b: Vector) -> Vector:
    """Return a - b."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def scale(s: Scalar, a: Vector) -> Vector:
    """Return s a."""
    return s * a[0], s * a[1], s * a[2]


def neg(a: Vector) -> Vector:
    """Return -a."""
    return -a[0], -a[1], -a[2]


def dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    """Return the sum of products of two vectors of any equal length."""
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total


def cross(a: Vector, b: Vector) -> Vector:
    """Return a x b."""
    return (
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )


def carried(a: Motion, b: Motion) -> Motion:
    """Return ad_a b: the rate of change of the motion b moving with the motion a."""
    (v, w), (slide, spin) = a, b
    return add(cross(w, slide), cross(v, spin)), cross(w, spin)


def transpose(a: Matrix) -> Matrix:
    """Return the transpose."""
    return tuple(zip(*a, strict=True))  # type: ignore[return-value]


def apply(a: Matrix, b: Vector) -> Vector:
    """Return the product of a matrix and a vector."""
    return dot(a[0], b), dot(a[1], b), dot(a[2], b)


def matmul(a: Matrix, b: Matrix) -> Matrix:
    """Return the product of two matrices."""
    columns = transpose(b)
    first, second, third = (
        (dot(row, columns[0]), dot(row, columns[1]), dot(row, columns[2])) for row in a
    )
    return first, second, third


def symmetric(a: Sequence[Sequence[Any]]) -> Symmetric:
    """Return the upper triangle of a symmetric matrix."""
    return a[0][0], a[0][1], a[0][2], a[1][1], a[1][2], a[2][2]


def full(a: Symmetric) -> Matrix:
    """Return a symmetric matrix in full."""
    xx, xy, xz, yy, yz, zz = a
    return (xx, xy, xz), (xy, yy, yz), (xz, yz, zz)


def skew_times(r: Vector, a: Matrix) -> Matrix:
    """Return [r] a: the cross product of r with every column."""
    x, y, z = transpose(a)
    return transpose((cross(r, x), cross(r, y), cross(r, z)))


def add_outer(a: Matrix, b: Vector, c: Vector) -> Matrix:
    """Return a + b c^T."""
    return tuple(  # type: ignore[return-value]
        tuple(entry + b[i] * c[j] for j, entry in enumerate(row)) for i, row in enumerate(a)
    )


def times_skew(a: Matrix, r: Vector) -> Matrix:
    """Return a [r]: each row crossed with r, since x^T [r] = (x x r)^T."""
    return cross(a[0], r), cross(a[1], r), cross(a[2], r)


# -- rotations --------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlaneRotation:
    """A rotation about a coordinate axis, applied without products with zeros and ones.

    A vector costs 4 products, a 3x3 matrix 8 (16 and 54 for a general matrix), because the rotation
    preserves the antisymmetric part and the trace of the block in its plane.
    """

    axis: int
    sine: Scalar
    cosine: Scalar

    @property
    def _plane(self) -> tuple[int, int]:
        return (self.axis + 1) % 3, (self.axis + 2) % 3

    def turn(self, a: Vector) -> Vector:
        """Return E a."""
        i, j = self._plane
        result = list(a)
        result[i] = self.cosine * a[i] - self.sine * a[j]
        result[j] = self.sine * a[i] + self.cosine * a[j]
        return result[0], result[1], result[2]

    def turn_back(self, a: Vector) -> Vector:
        """Return E^T a."""
        i, j = self._plane
        result = list(a)
        result[i] = self.cosine * a[i] + self.sine * a[j]
        result[j] = self.cosine * a[j] - self.sine * a[i]
        return result[0], result[1], result[2]

    def turn_matrix(self, a: Matrix) -> Matrix:
        """Return E a E^T."""
        s, c, k, (i, j) = self.sine, self.cosine, self.axis, self._plane
        difference, total = a[i][i] - a[j][j], a[i][j] + a[j][i]
        shift = s * (s * difference + c * total)
        shear = s * (c * difference - s * total)
        out = [list(row) for row in a]
        out[i][i] = a[i][i] - shift
        out[j][j] = a[j][j] + shift
        out[i][j] = a[i][j] + shear
        out[j][i] = a[j][i] + shear
        out[i][k] = c * a[i][k] - s * a[j][k]
        out[j][k] = s * a[i][k] + c * a[j][k]
        out[k][i] = c * a[k][i] - s * a[k][j]
        out[k][j] = s * a[k][i] + c * a[k][j]
        first, second, third = ((row[0], row[1], row[2]) for row in out)
        return first, second, third


@dataclass(frozen=True)
class DenseRotation:
    """A rotation as a dense matrix E."""

    matrix: Matrix

    def turn(self, a: Vector) -> Vector:
        """Return E a."""
        return apply(self.matrix, a)

    def turn_back(self, a: Vector) -> Vector:
        """Return E^T a."""
        return apply(transpose(self.matrix), a)

    def turn_matrix(self, a: Matrix) -> Matrix:
        """Return E a E^T."""
        return matmul(matmul(self.matrix, a), transpose(self.matrix))


Factor = PlaneRotation | DenseRotation


@dataclass(frozen=True)
class Placement:
    """Placement of a body in its parent: x_parent = E x_body + r."""

    #: rotations with product E (leftmost first), cheapest for vectors.
    vector_factors: tuple[Factor, ...]
    matrix_factors: tuple[Factor, ...]  #: rotations with product E, cheapest for 3x3 matrices.
    r: Vector  #: origin of the body in the parent's frame [m].

    def to_parent(self, a: Vector) -> Vector:
        """Return E a."""
        for factor in reversed(self.vector_factors):
            a = factor.turn(a)
        return a

    def to_body(self, a: Vector) -> Vector:
        """Return E^T a."""
        for factor in self.vector_factors:
            a = factor.turn_back(a)
        return a

    def matrix_to_parent(self, a: Matrix) -> Matrix:
        """Return E a E^T."""
        for factor in reversed(self.matrix_factors):
            a = factor.turn_matrix(a)
        return a

    def symmetric_to_parent(self, a: Symmetric) -> Symmetric:
        """Return E a E^T of a symmetric matrix."""
        return symmetric(self.matrix_to_parent(full(a)))

    def force_to_parent(self, f: Vector, n: Vector) -> tuple[Vector, Vector]:
        """Transform a wrench on the body to the parent (transpose of Ad)."""
        force = self.to_parent(f)
        # The moment of the lever first: in this order of fused multiply-adds, kernels need fewer
        # registers.
        return force, add(cross(self.r, force), self.to_parent(n))

    def motion_to_body(self, v: Vector, w: Vector) -> tuple[Vector, Vector]:
        """Transform a twist of the parent to the body's frame (Ad of the inverse)."""
        return self.to_body(add(v, cross(w, self.r))), self.to_body(w)


def fixed_rotation(E: Sequence[Sequence[float]], scalars: Scalars) -> tuple[Factor, ...]:
    """Return a constant rotation in its cheapest form; empty for the identity."""
    if scalars.specialize and all(isinstance(entry, float) for row in E for entry in row):
        if all(E[i][j] == float(i == j) for i in range(3) for j in range(3)):
            return ()
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            # Not E[k][k] == 1: the cosine of a tilt of 1e-8 is 1 as well.
            if E[i][k] == E[j][k] == E[k][i] == E[k][j] == 0.0 and E[k][k] > 0.0:
                return (PlaneRotation(k, scalars.constant(E[j][i]), scalars.constant(E[i][i])),)
    rows = [tuple(scalars.constant(entry) for entry in row) for row in E]
    return (DenseRotation((rows[0], rows[1], rows[2])),)
