"""How a subtree answers a change of its carrier's motion: the calculus of the derivatives.

Whatever changes above a body reaches it as a change of its carrier's motion: at the point x the
acceleration changes by

    a + alpha x x + 2 w x xdot

with x and its velocity xdot taken from the carrier's origin, as the carrier sees them. In these
three vectors (``MotionChange``) all joints, and positions and velocities, are alike; no linear
velocity of a body is needed. A subtree answers through a few sums over its mass
(``MovingInertia``), a joint of it through a row of them (``EffortRow``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.dynamics.crba import RigidInertia
from gridgen.dynamics.kinematics import constants
from gridgen.dynamics.rnea import Wrench
from gridgen.dynamics.spatial import (
    Matrix,
    Placement,
    Vector,
    add,
    cross,
    dot,
    scale,
    symmetric,
    transpose,
)
from gridgen.model.tree import Body
from gridgen.symbolic.joints import joint_form
from gridgen.symbolic.scalars import Scalar, Scalars

#: A motion vector (v, w), for instance a column of a motion subspace.
Motion = tuple[Vector, Vector]


@dataclass(frozen=True)
class MotionChange:
    """Change of a carrier's acceleration field: a + alpha x x + 2 w x xdot at the point x."""

    a: Vector
    alpha: Vector
    w: Vector

    def to_body(self, placed: Placement, drift: Vector) -> MotionChange:
        """Return the same change about the origin of a child, in the child's axes.

        Args:
            placed: placement of the child.
            drift:  twice the velocity of its origin, seen by the carrier.
        """
        a = add(add(self.a, cross(self.alpha, placed.r)), cross(self.w, drift))
        return MotionChange(placed.to_body(a), placed.to_body(self.alpha), placed.to_body(self.w))


@dataclass(frozen=True)
class EffortRow:
    """How a joint's effort answers a change of motion: a . da + alpha . dalpha + w . dw.

    ``(a, alpha)`` is the wrench of the joint's unit acceleration, a column of the mass matrix.
    """

    a: Vector
    alpha: Vector
    w: Vector

    def answer(self, change: MotionChange) -> Scalar:
        """Return the change of the effort."""
        return dot(self.a, change.a) + dot(self.alpha, change.alpha) + dot(self.w, change.w)

    def to_parent(self, placed: Placement, drift: Vector) -> EffortRow:
        """Return the answer to changes of the parent's motion.

        Args:
            placed: placement of the body in its parent.
            drift:  twice the velocity of the body's origin, seen by its parent.
        """
        a = placed.to_parent(self.a)
        alpha = add(placed.to_parent(self.alpha), cross(placed.r, a))
        return EffortRow(a, alpha, add(placed.to_parent(self.w), cross(drift, a)))


@dataclass(frozen=True)
class MovingInertia:
    """A subtree's mass and momentum about a frame's origin, or a derivative of them.

    Attributes:
        rigid: mass, first moment and rotational inertia.
        p:     twice the integral of xdot dm [kg m/s].
        K:     twice the integral of xdot x^T dm [kg m^2/s].
    """

    rigid: RigidInertia
    p: Vector
    K: Matrix

    def __add__(self, other: MovingInertia) -> MovingInertia:
        """Return the sum of two subtrees."""
        K = tuple(map(add, self.K, other.K))
        return MovingInertia(self.rigid + other.rigid, add(self.p, other.p), K)  # type: ignore[arg-type]

    def keep(self, index: int, scalars: Scalars) -> MovingInertia:
        """Name the entries."""
        rigid = self.rigid
        h, inertia = scalars.keep("h", index, rigid.h), scalars.keep("I", index, rigid.I)
        p, K = scalars.keep("p", index, self.p), scalars.keep("K", index, self.K)
        return MovingInertia(RigidInertia(rigid.m, h, inertia), p, K)

    def wrench(self, change: MotionChange) -> Wrench:
        """Return the change of the wrench that moves the subtree."""
        f, n = self.rigid.wrench(change.a, change.alpha)
        return add(f, cross(change.w, self.p)), add(n, moment(self.K, change.w))

    def row(self, axis: Motion) -> EffortRow:
        """Return the answer of the effort along ``axis``."""
        slide, spin = axis
        f, n = self.rigid.wrench(slide, spin)
        return EffortRow(f, n, add(cross(self.p, slide), moment(transpose(self.K), spin)))

    def to_parent(self, placed: Placement, drift: Vector) -> MovingInertia:
        """Return the same about the parent's origin, as the parent sees it."""
        rigid = self.rigid.to_parent(placed)
        p, K = placed.to_parent(self.p), placed.matrix_to_parent(self.K)
        # x' = E x + r and xdot' = E xdot + drift / 2.
        shifted = add_outer(add_outer(K, p, placed.r), drift, rigid.h)
        return MovingInertia(rigid, add(p, scale(rigid.m, drift)), shifted)


def moving_inertia(body: Body, w: Vector, scalars: Scalars) -> MovingInertia:
    """Return mass and momentum of one body, whose points move with w x x."""
    twice = constants([2.0 * entry for entry in body.first_moment], scalars)
    K = transpose(tuple(cross(w, column) for column in second_moments(body.inertia, scalars)))  # type: ignore[arg-type]
    rigid = RigidInertia(
        scalars.constant(body.mass),
        constants(body.first_moment, scalars),
        tuple(map(scalars.constant, symmetric(body.inertia))),
    )
    return MovingInertia(rigid, cross(w, twice), K)


def second_moments(inertia: Sequence[Sequence[float]], scalars: Scalars) -> Matrix:
    """Return twice the integral of x x^T dm, trace(I) - 2 I, of a body."""
    (Ixx, Ixy, Ixz), (_, Iyy, Iyz), (_, _, Izz) = inertia
    xx, yy, zz = Iyy + Izz - Ixx, Ixx + Izz - Iyy, Ixx + Iyy - Izz
    xy, xz, yz = -2.0 * Ixy, -2.0 * Ixz, -2.0 * Iyz
    rows = ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))
    return tuple(constants(row, scalars) for row in rows)  # type: ignore[return-value]


def moment(K: Matrix, w: Vector) -> Vector:
    """Return trace(K) w - K w, the moment of the force field w x xdot."""
    x, y, z = w
    return (
        (K[1][1] + K[2][2]) * x - K[0][1] * y - K[0][2] * z,
        (K[0][0] + K[2][2]) * y - K[1][0] * x - K[1][2] * z,
        (K[0][0] + K[1][1]) * z - K[2][0] * x - K[2][1] * y,
    )


def add_outer(K: Matrix, a: Vector, b: Vector) -> Matrix:
    """Return K + a b^T."""
    return tuple(  # type: ignore[return-value]
        tuple(entry + a[i] * b[j] for j, entry in enumerate(row)) for i, row in enumerate(K)
    )


def turned_wrench(axis: Motion, wrench: Wrench) -> Wrench:
    """Return the change of a wrench that moves along with a joint, seen by the joint's carrier."""
    (slide, spin), (f, n) = axis, wrench
    return cross(spin, f), add(cross(spin, n), cross(slide, f))


def add_wrenches(a: Wrench, b: Wrench) -> Wrench:
    """Return the sum of two wrenches."""
    return add(a[0], b[0]), add(a[1], b[1])


def subspace(body: Body, scalars: Scalars) -> list[Motion]:
    """Return the columns of a joint's motion subspace."""
    return [
        (constants(column[:3], scalars), constants(column[3:], scalars))
        for column in joint_form(body.kind).subspace
    ]


def along(axis: Motion, wrench: Wrench) -> Scalar:
    """Return the effort of a wrench along an axis."""
    return dot(axis[0], wrench[0]) + dot(axis[1], wrench[1])
