"""How a subtree answers a change of its carrier's motion: the calculus of the derivatives.

Whatever changes above a body reaches it as a change of its carrier's motion: at the point x the
acceleration changes by

    a + alpha x x + 2 w x xdot

with x and its velocity xdot taken from the carrier's origin, as the carrier sees them. In these
three vectors (``MotionChange``) all joints, and positions and velocities, are alike; no linear
velocity of a body is needed. A subtree answers through a few sums over its mass
(``MovingMass``), a joint of it through a row of them (``EffortRow``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.dynamics.kinematics import BodyMotion
from gridgen.dynamics.mass import Mass, moment
from gridgen.model.tree import Body, KinematicTree
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
        a, alpha = placed.force_to_parent(self.a, self.alpha)
        return EffortRow(a, alpha, add(placed.to_parent(self.w), cross(drift, a)))


@dataclass(frozen=True)
class MovingMass:
    """A subtree's mass and momentum about a frame's origin, or a derivative of them.

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
        """Return the answer of the effort along ``axis``."""
        slide, spin = axis
        f, n = self.rest.wrench(slide, spin)
        return EffortRow(f, n, add(cross(self.p, slide), moment(transpose(self.K), spin)))

    def to_parent(self, placed: Placement, drift: Vector) -> MovingMass:
        """Return the same about the parent's origin, as the parent sees it."""
        rest = self.rest.to_parent(placed)
        p, K = placed.to_parent(self.p), placed.matrix_to_parent(self.K)
        # x' = E x + r and xdot' = E xdot + drift / 2.
        shifted = add_outer(add_outer(K, p, placed.r), drift, rest.h)
        return MovingMass(rest, add(p, scale(rest.m, drift)), shifted)


def moving_mass(mass: Mass, w: Vector, moments: Symmetric) -> MovingMass:
    """Return mass and momentum of one body.

    Args:
        mass:    of the body.
        w:       its angular velocity: its points move with w x x.
        moments: twice the integral of x x^T dm.
    """
    return MovingMass(mass, cross(w, scale(2.0, mass.h)), skew_times(w, full(moments)))


def origin_drift(placed: Placement, w: Vector, slide_rate: Vector | None = None) -> Vector:
    """Return twice the velocity of a body's origin, as what carries it sees it.

    Args:
        placed:     placement of the body in its carrier.
        w:          angular velocity of the carrier.
        slide_rate: the velocity that the joint gives the origin, in the body's axes.
    """
    drift = cross(w, scale(2.0, placed.r))
    return drift if slide_rate is None else add(drift, placed.to_parent(scale(2.0, slide_rate)))


def change_by_velocity(
    axis: Motion, total: Vector, slide_rate: Vector | None = None
) -> MotionChange:
    """Return the change of a body's motion with a velocity of its joint.

    Args:
        axis:       of the velocity.
        total:      angular velocity of the body before and after the joint, added up. The two
                    differ along the axis only if the joint has no other.
        slide_rate: the velocity that a free joint gives the body's origin, in the body's axes.
    """
    slide, spin = axis
    a = cross(total, slide)
    if slide_rate is not None:
        a = add(a, cross(spin, slide_rate))
    return MotionChange(a, cross(total, spin), spin)


def change_by_position(
    axis: Motion, seen: BodyMotion, slide_rate: Vector | None = None
) -> MotionChange:
    """Return the change of a body's motion, as it sees it, with a position of its joint.

    The motion relative to the carrier stays; that of the carrier is seen turned, and at another
    point.

    Args:
        axis:       of the position.
        seen:       motion of the carrier at the body's origin, in the body's axes. Of its
                    acceleration field only what acts along the axis counts, and there the body's
                    own is the same if the joint has no other axis.
        slide_rate: the velocity that a free joint gives the body's origin, in the body's axes.
    """
    slide, spin = axis
    turned = cross(seen.w, spin)
    a = add(apply(seen.field, slide), cross(seen.a, spin))
    if slide_rate is not None:
        a = add(a, cross(turned, scale(2.0, slide_rate)))
    return MotionChange(a, apply(seen.field, spin), turned)


def rotated_wrench(axis: Motion, wrench: Wrench) -> Wrench:
    """Return the change of a wrench that moves along with a joint, seen by the joint's carrier."""
    (slide, spin), (f, n) = axis, wrench
    return cross(spin, f), add(cross(spin, n), cross(slide, f))


def add_wrenches(a: Wrench, b: Wrench) -> Wrench:
    """Return the sum of two wrenches."""
    return add(a[0], b[0]), add(a[1], b[1])


def along(axis: Motion, wrench: Wrench) -> Scalar:
    """Return the effort of a wrench along an axis."""
    # The moment first: fused in this order, kernels need fewer registers.
    return dot(axis[1], wrench[1]) + dot(axis[0], wrench[0])


class Source:
    """What every joint does to its own body, by axis, and what comes of it.

    Attributes:
        changes:  of the body's motion.
        own:      of the wrench on its subtree, as the body sees it.
        felt:     the same as its parent sees it, still in the body's axes.
        gradient: of the efforts, nv x nv.
    """

    def __init__(
        self, tree: KinematicTree, symbol: str, scalars: Scalars, *, is_turned: bool = False
    ) -> None:
        bodies = len(tree.bodies)
        self.changes: list[list[MotionChange]] = scalars.table("changes", bodies)
        self.own: list[list[Wrench]] = scalars.table("own", bodies)
        self.felt: list[list[Wrench]] = scalars.table("felt", bodies) if is_turned else self.own
        self.gradient: list[list[Scalar]] = scalars.matrix(
            symbol, tree.nv, tree.nv, zeros=not tree.couples_all
        )


def followed(entry: Scalar, bodies: Sequence[Body], scalars: Scalars) -> Scalar:
    """Return an entry between joints, times the multipliers of those that follow others."""
    for body in bodies:
        if body.mimics:
            entry = scalars.constant(body.multiplier) * entry
    return entry
