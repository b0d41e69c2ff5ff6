"""What three joints of one path have in common: the calculus of the second derivatives.

``tip`` is the joint farthest from the base, ``root`` the nearest, ``middle`` lies between; two of
them, or all, may be the same. Everything meets in the frame of the middle one.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridgen.dynamics.mass import Mass, moment, second_moments
from gridgen.dynamics.motion_derivatives import (
    EffortRow,
    MotionChange,
    MovingMass,
    add_wrenches,
    rotated_wrench,
)
from gridgen.symbolic.scalars import Scalar
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
    full,
    neg,
    scale,
    skew_times,
    times_skew,
    transpose,
)


@dataclass(frozen=True)
class TurnedMass:
    """Derivative of a subtree's inertia by the position of the joint that carries it.

    Attributes:
        f: the integral of e dm, where the joint's unit velocity moves the point x with e(x).
        Q: twice the integral of e x^T dm.
        p: derivative of ``MovingMass.p``.
        K: derivative of ``MovingMass.K``.
    """

    f: Vector
    Q: Matrix
    p: Vector
    K: Matrix

    def to_parent(self, placed: Placement, drift: Vector) -> TurnedMass:
        """Return the same about the parent's origin, as the parent sees it."""
        f, p = placed.to_parent(self.f), placed.to_parent(self.p)
        Q = add_outer(placed.matrix_to_parent(self.Q), f, scale(2.0, placed.r))
        K = add_outer(placed.matrix_to_parent(self.K), p, placed.r)
        return TurnedMass(f, Q, p, add_outer(K, drift, f))

    def by_position(self, zero: Scalar) -> MovingMass:
        """Return the derivative as that of a subtree, whose mass does not change."""
        Q = self.Q
        inertia: Symmetric = (
            Q[1][1] + Q[2][2],
            -0.5 * (Q[0][1] + Q[1][0]),
            -0.5 * (Q[0][2] + Q[2][0]),
            Q[0][0] + Q[2][2],
            -0.5 * (Q[1][2] + Q[2][1]),
            Q[0][0] + Q[1][1],
        )
        return MovingMass(Mass(zero, self.f, inertia), self.p, self.K)

    def wrench_by_velocity(self, w: Vector) -> Wrench:
        """Return how the joint's velocity changes the answer to the change ``w`` of motion.

        The velocity moves the points, not the mass: of the inertia only p and K change, by 2 f and
        Q.
        """
        return cross(w, scale(2.0, self.f)), moment(self.Q, w)


def turned_mass(axis: Motion, mass: MovingMass, w: Vector) -> TurnedMass:
    """Return the derivative that a joint makes, as its carrier sees it, in the body's axes.

    Args:
        axis: the joint's.
        mass: of the subtree.
        w:    angular velocity of the body.
    """
    slide, spin = axis
    rest, p, K = mass.rest, mass.p, mass.K
    f = add(scale(rest.m, slide), cross(spin, rest.h))
    S = full(second_moments(rest.I, 2.0))
    Q = add_outer(skew_times(spin, S), scale(2.0, slide), rest.h)
    # The velocity of a point turns with it, but for the part that the carrier's turning makes.
    moved, turned = cross(w, slide), cross(w, spin)
    p_turned = add(cross(spin, p), cross(turned, scale(2.0, rest.h)))
    own, across, rows = skew_times(spin, K), skew_times(turned, S), times_skew(K, spin)
    K_turned = tuple(add(add(a, b), neg(c)) for a, b, c in zip(own, across, rows, strict=True))
    K_moved = add_outer(add_outer(K_turned, p, slide), scale(2.0, moved), rest.h)  # type: ignore[arg-type]
    return TurnedMass(f, Q, add(p_turned, scale(2.0 * rest.m, moved)), K_moved)


def turned_row(axis: Motion, w: Vector, row: EffortRow, mass: TurnedMass) -> EffortRow:
    """Return how the effort of the tip answers changes at the middle when that joint turns.

    Args:
        axis: the middle joint's.
        w:    angular velocity of its body.
        row:  how the tip's effort answers.
        mass: what the tip's position changes.
    """
    slide, spin = axis
    turned = moment(transpose(mass.Q), cross(w, spin))
    return EffortRow(
        cross(spin, row.a),
        add(cross(spin, row.alpha), cross(slide, row.a)),
        add(add(cross(spin, row.w), scale(2.0, cross(cross(w, slide), row.a))), neg(turned)),
    )


def quadratic_row(axis: Motion, row: EffortRow, mass: TurnedMass) -> Vector:
    """Return how the tip's effort by the middle's velocity answers a change of w.

    With the opposite sign it is the middle's effort by the tip's velocity.
    """
    slide, spin = axis
    return add(scale(2.0, cross(slide, row.a)), neg(moment(transpose(mass.Q), spin)))


def own_second_wrench(
    axis: Motion, change: MotionChange, mass: MovingMass, transmitted: Wrench
) -> Wrench:
    """Return the second derivative of a transmitted wrench by its own joint's position.

    Args:
        axis:        the joint's.
        change:      of the body's motion with the position.
        mass:        of the subtree.
        transmitted: the wrench.
    """
    slide, spin = axis
    c, rest = change.w, mass.rest
    second = MotionChange(
        add(cross(change.a, spin), cross(change.alpha, slide)),
        cross(change.alpha, spin),
        cross(c, spin),
    )
    f, n = mass.wrench(second)
    twice = scale(2.0, c)
    f = add(f, cross(twice, cross(c, rest.h)))
    n = add(n, cross(twice, apply(full(rest.I), c)))
    seen = rotated_wrench(axis, mass.wrench(change))
    turned = rotated_wrench(axis, rotated_wrench(axis, transmitted))
    return add_wrenches(add_wrenches((f, n), turned), add_wrenches(seen, seen))


@dataclass(frozen=True)
class FromAbove:
    """What a joint does to a body below it, in that body's frame.

    Attributes:
        axis:     unit velocity of the joint.
        position: change of motion with its position.
        velocity: change of motion with its velocity.
    """

    axis: Motion
    position: MotionChange
    velocity: MotionChange

    def to_body(self, placed: Placement, drift: Vector) -> FromAbove:
        """Return the same for a child of the body."""
        return FromAbove(
            placed.motion_to_body(*self.axis),
            self.position.to_body(placed, drift),
            self.velocity.to_body(placed, drift),
        )


@dataclass(frozen=True)
class FromBelow:
    """What a joint does to a body above it, in that body's frame.

    Attributes:
        row:      how its effort answers changes of motion.
        mass:     change of the inertia with its position.
        position: change of the transmitted wrench with its position.
        velocity: change of the transmitted wrench with its velocity.
    """

    row: EffortRow
    mass: TurnedMass
    position: Wrench
    velocity: Wrench

    def to_parent(self, row: EffortRow, placed: Placement, drift: Vector) -> FromBelow:
        """Return the same for the parent of the body, given the row there."""
        return FromBelow(
            row,
            self.mass.to_parent(placed, drift),
            placed.force_to_parent(*self.position),
            placed.force_to_parent(*self.velocity),
        )
