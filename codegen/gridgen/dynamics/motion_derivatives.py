"""Calculus of first derivatives: the response of a subtree to a change of its carrier's motion.

A change of motion above a body reaches it through its carrier: at the point x the acceleration
changes by

    a + alpha x x + 2 w x xdot

with x and its velocity xdot relative to the carrier and its origin. These three vectors
(``MotionChange``) describe positions and velocities of all types of joints and need no linear
velocity of a body. A few integrals over its mass (``MovingMass``) determine the response of a
subtree, and a row of them (``EffortRow``) the response of one joint torque. Where all bodies have
one frame, fewer integrals do (``MassRates``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gridgen.dynamics.kinematics import BodyMotion
from gridgen.dynamics.mass import Mass, moment
from gridgen.dynamics.state import State
from gridgen.model.tree import Body
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    Matrix,
    Motion,
    Placement,
    Symmetric,
    Vector,
    Wrench,
    add,
    add_outer,
    apply,
    cross,
    dot,
    full,
    scale,
    skew_times,
    split,
    sub,
    symmetric,
    transpose,
)


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
            drift:  twice the velocity of the child's origin relative to the carrier.
        """
        a = add(add(self.a, cross(self.alpha, placed.r)), cross(self.w, drift))
        return MotionChange(placed.to_body(a), placed.to_body(self.alpha), placed.to_body(self.w))


@dataclass(frozen=True)
class EffortRow:
    """Response of a joint torque to a change of motion: a . da + alpha . dalpha + w . dw.

    ``(a, alpha)`` is the wrench of the joint's unit acceleration, a column of the mass matrix.
    """

    a: Vector
    alpha: Vector
    w: Vector

    def answer(self, change: MotionChange) -> Scalar:
        """Return the change of the joint torque."""
        return dot(self.a, change.a) + dot(self.alpha, change.alpha) + dot(self.w, change.w)

    def to_parent(self, placed: Placement, drift: Vector) -> EffortRow:
        """Return the response to changes of the parent's motion.

        Args:
            placed: placement of the body in its parent.
            drift:  twice the velocity of the body's origin relative to its parent.
        """
        a, alpha = placed.force_to_parent(self.a, self.alpha)
        return EffortRow(a, alpha, add(placed.to_parent(self.w), cross(drift, a)))


@dataclass(frozen=True)
class MovingMass:
    """A subtree's mass and momentum about a frame's origin, or a derivative of both.

    Attributes:
        rest: mass, first moment and rotational inertia.
        p:    twice the integral of xdot dm [kg m/s].
        K:    twice the integral of xdot x^T dm [kg m^2/s].
    """

    rest: Mass
    p: Vector
    K: Matrix

    def __add__(self, other: MovingMass) -> MovingMass:
        """Return the sum of two subtrees."""
        K = tuple(map(add, self.K, other.K))
        return MovingMass(self.rest + other.rest, add(self.p, other.p), K)  # type: ignore[arg-type]

    def keep(self, index: int, scalars: Scalars) -> MovingMass:
        """Name the entries."""
        p, K = scalars.keep("p", index, self.p), scalars.keep("K", index, self.K)
        return MovingMass(self.rest.keep(index, scalars), p, K)

    def wrench(self, change: MotionChange) -> Wrench:
        """Return the change of the wrench that moves the subtree."""
        f, n = self.rest.wrench(change.a, change.alpha)
        return add(f, cross(change.w, self.p)), add(n, moment(self.K, change.w))

    def row(self, axis: Motion) -> EffortRow:
        """Return the response of the joint torque along ``axis``."""
        slide, spin = axis
        f, n = self.rest.wrench(slide, spin)
        return EffortRow(f, n, add(cross(self.p, slide), moment(transpose(self.K), spin)))

    def to_parent(self, placed: Placement, drift: Vector) -> MovingMass:
        """Return the same about the parent's origin, relative to the parent."""
        rest = self.rest.to_parent(placed)
        p, K = placed.to_parent(self.p), placed.matrix_to_parent(self.K)
        # x' = E x + r and xdot' = E xdot + drift / 2.
        shifted = add_outer(add_outer(K, p, placed.r), drift, rest.h)
        return MovingMass(rest, add(p, scale(rest.m, drift)), shifted)


def moving_mass(mass: Mass, w: Vector, moments: Symmetric) -> MovingMass:
    """Return mass and momentum of one body.

    Args:
        mass:    mass of the body.
        w:       angular velocity of the body; its points move with w x x.
        moments: twice the integral of x x^T dm.
    """
    return MovingMass(mass, cross(w, scale(2.0, mass.h)), skew_times(w, full(moments)))


def origin_drift(placed: Placement, w: Vector, slide_rate: Vector | None = None) -> Vector:
    """Return twice the velocity of a body's origin relative to its carrier.

    Args:
        placed:     placement of the body in its carrier.
        w:          angular velocity of the carrier.
        slide_rate: linear velocity of the joint, in the body's axes.
    """
    drift = cross(w, scale(2.0, placed.r))
    return drift if slide_rate is None else add(drift, placed.to_parent(scale(2.0, slide_rate)))


def change_by_velocity(
    axis: Motion, total: Vector, slide_rate: Vector | None = None
) -> MotionChange:
    """Return the derivative of a body's motion with respect to a velocity of its joint.

    Args:
        axis:       axis of the velocity.
        total:      sum of the angular velocities of the carrier and of the body. For a joint of one
                    axis, twice either may replace it.
        slide_rate: linear velocity of a free joint, in the body's axes.
    """
    slide, spin = axis
    a = cross(total, slide)
    if slide_rate is not None:
        a = add(a, cross(spin, slide_rate))
    return MotionChange(a, cross(total, spin), spin)


def change_by_position(
    axis: Motion, seen: BodyMotion, slide_rate: Vector | None = None
) -> MotionChange:
    """Return the derivative of a body's motion with respect to a position of its joint.

    The result is in the body's frame. The motion relative to the carrier is constant; that of the
    carrier changes in direction and reference point.

    Args:
        axis:       axis of the position.
        seen:       motion of the carrier at the body's origin, in the body's axes. For a joint of
                    one axis, the motion of the body itself may replace it: only components of the
                    acceleration field along the axis have an effect.
        slide_rate: linear velocity of a free joint, in the body's axes.
    """
    slide, spin = axis
    turned = cross(seen.w, spin)
    a = add(apply(seen.field, slide), cross(seen.a, spin))
    if slide_rate is not None:
        a = add(a, cross(turned, scale(2.0, slide_rate)))
    return MotionChange(a, apply(seen.field, spin), turned)


def rotated_wrench(axis: Motion, wrench: Wrench) -> Wrench:
    """Return the change of a wrench that moves with a joint, relative to the joint's carrier."""
    (slide, spin), (f, n) = axis, wrench
    return cross(spin, f), add(cross(spin, n), cross(slide, f))


def add_wrenches(a: Wrench, b: Wrench) -> Wrench:
    """Return the sum of two wrenches."""
    return add(a[0], b[0]), add(a[1], b[1])


def along(axis: Motion, wrench: Wrench) -> Scalar:
    """Project a wrench on an axis: the joint torque."""
    # The moment first: in this order of fused multiply-adds, kernels need fewer registers.
    return dot(axis[1], wrench[1]) + dot(axis[0], wrench[0])


class Source:
    """Derivatives of a body's motion by its own joint, by axis, and their results.

    Attributes:
        changes:  changes of the body's motion.
        own:      changes of the wrench on its subtree, in the body's frame.
        felt:     changes of that wrench relative to the parent, in the body's axes.
        gradient: gradient of the joint torques, nv x nv.
    """

    def __init__(self, state: State, symbol: str, *, is_turned: bool = False) -> None:
        bodies, scalars = len(state.tree.bodies), state.scalars
        self.changes: list[list[MotionChange]] = scalars.table("changes", bodies)
        self.own: list[list[Wrench]] = scalars.table("own", bodies)
        self.felt: list[list[Wrench]] = scalars.table("felt", bodies) if is_turned else self.own
        self.gradient = state.matrix(symbol)


def followed(entry: Scalar, bodies: Sequence[Body], scalars: Scalars) -> Scalar:
    """Multiply an entry between joints by the multipliers of the mimic joints among them."""
    for body in bodies:
        if body.mimics:
            entry = scalars.constant(body.multiplier) * entry
    return entry


def flat(*vectors: Sequence[Scalar]) -> list[Scalar]:
    """Return the entries of several vectors."""
    return [entry for vector in vectors for entry in vector]


def wrench_at(shift: Vector, wrench: Wrench) -> Wrench:
    """Return a wrench at another origin, from which the present one is ``shift`` away."""
    return wrench[0], add(wrench[1], cross(shift, wrench[0]))


@dataclass(frozen=True)
class MassRates:
    """A (composite) moving body: its mass properties and the response to changes of velocity.

    All sums over bodies.

    Attributes:
        mass:     mass properties.
        turning:  symmetric part of the moment's response to a change of angular velocity.
        momentum: linear and angular momentum.
        wrench:   wrench on the body.
    """

    mass: Mass
    turning: Symmetric
    momentum: Wrench
    wrench: Wrench

    @classmethod
    def of(cls, mass: Mass, v: Motion, wrench: Wrench) -> MassRates:
        """Return those of a body with a velocity and a wrench."""
        (slide, spin), h = v, mass.h
        columns = [cross(spin, column) for column in full(mass.I)]  # of [w] I
        twice = dot(slide, h) + dot(slide, h)

        def entry(i: int, j: int) -> Scalar:
            across = columns[j][i] + columns[i][j] - h[i] * slide[j] - slide[i] * h[j]
            return across + twice if i == j else across

        turning = symmetric([[entry(i, j) for j in range(3)] for i in range(3)])
        return cls(mass, turning, mass.wrench(*v), wrench)

    def to_parent(self, shift: Vector) -> MassRates:
        """Return the record at another origin, from which the present one is ``shift`` away."""
        linear, _ = self.momentum
        twice = dot(shift, linear) + dot(shift, linear)

        def entry(i: int, j: int) -> Scalar:
            across = linear[i] * shift[j] + shift[i] * linear[j]
            return twice - across if i == j else -across

        moved = symmetric([[entry(i, j) for j in range(3)] for i in range(3)])
        turning = tuple(a + b for a, b in zip(self.turning, moved, strict=True))
        mass = self.mass.to_parent(Placement((), (), shift))
        return MassRates(
            mass, turning, wrench_at(shift, self.momentum), wrench_at(shift, self.wrench)
        )

    def flat(self) -> list[Scalar]:
        """Return the numbers in order."""
        mass = self.mass
        return flat((mass.m,), mass.h, mass.I, self.turning, *self.momentum, *self.wrench)

    @classmethod
    def read(cls, values: Sequence[Scalar]) -> MassRates:
        """Return the record of ``flat`` numbers."""
        mass, turning = read_mass(values[:10]), tuple(values[10:16])
        return cls(mass, turning, split(values[16:22]), split(values[22:28]))

    def wrench_of_change(self, first: Motion, second: Motion, times: float = 1.0) -> Wrench:
        """Return 2 B first + times I second: the response to a change of the motion."""
        (linear, angular), (_, spin) = self.momentum, first
        moment = sub(apply(full(self.turning), spin), cross(angular, spin))
        f, n = self.mass.wrench(*second)
        return sub(scale(times, f), scale(2.0, cross(linear, spin))), add(moment, scale(times, n))

    def with_wrench(self, more: Wrench) -> MassRates:
        """Return the same with a wrench added."""
        return replace(self, wrench=add_wrenches(self.wrench, more))

    def row(self, axis: Motion) -> Vector:
        """Return S^T 2 B, by the angular velocity: the response of a joint torque."""
        (slide, spin), (linear, angular) = axis, self.momentum
        turned = add(apply(full(self.turning), spin), cross(angular, spin))
        return add(turned, scale(2.0, cross(linear, slide)))


def read_mass(values: Sequence[Scalar]) -> Mass:
    """Return mass, first moment and inertia of a list that begins with them."""
    return Mass(values[0], (values[1], values[2], values[3]), tuple(values[4:10]))
