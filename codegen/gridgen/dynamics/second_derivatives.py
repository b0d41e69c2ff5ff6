"""Calculus of second derivatives: the interaction of three joints on one path.

``tip`` is the joint farthest from the base, ``root`` the nearest, ``middle`` lies between; two or
all of them may be the same joint. All quantities are expressed in the frame of the middle one.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridgen.dynamics.mass import Mass, moment, second_moments
from gridgen.dynamics.motion_derivatives import (
    EffortRow,
    MotionChange,
    MovingMass,
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
    """Derivative of a subtree's inertia with respect to the position of its joint.

    Attributes:
        f: integral of e dm, where e(x) is the velocity of the point x for unit joint velocity.
        Q: twice the integral of e x^T dm.
        p: derivative of ``MovingMass.p``.
        K: derivative of ``MovingMass.K``.
    """

    f: Vector
    Q: Matrix
    p: Vector
    K: Matrix

    def to_parent(self, placed: Placement, drift: Vector) -> TurnedMass:
        """Return the same about the parent's origin, relative to the parent."""
        f, p = placed.to_parent(self.f), placed.to_parent(self.p)
        Q = add_outer(placed.matrix_to_parent(self.Q), f, scale(2.0, placed.r))
        K = add_outer(placed.matrix_to_parent(self.K), p, placed.r)
        return TurnedMass(f, Q, p, add_outer(K, drift, f))

    def by_position(self, zero: Scalar) -> MovingMass:
        """Return the derivative as a ``MovingMass``; the mass itself is constant."""
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
        """Return the derivative of the wrench for the motion change ``w``, by the joint velocity.

        The velocity moves the points, not the mass: of the inertia only p and K change, by 2 f and
        Q.
        """
        return cross(w, scale(2.0, self.f)), moment(self.Q, w)


def turned_mass(
    axis: Motion, mass: MovingMass, w: Vector, slide_rate: Vector | None = None
) -> TurnedMass:
    """Return the derivative of a subtree's inertia with respect to a joint's position.

    The result is relative to the joint's parent, in the body's axes.

    Args:
        axis:       axis of the joint.
        mass:       mass of the subtree.
        w:          angular velocity of the carrier, in the body's axes. For a joint of one axis,
                    that of the body may replace it.
        slide_rate: linear velocity of a free joint, in the body's axes.
    """
    slide, spin = axis
    rest, p, K = mass.rest, mass.p, mass.K
    f = add(scale(rest.m, slide), cross(spin, rest.h))
    S = full(second_moments(rest.I, 2.0))
    Q = add_outer(skew_times(spin, S), scale(2.0, slide), rest.h)
    # The velocity of a point rotates with it, except for the contribution of the parent's rotation.
    moved, turned = _origin_change(axis, w, slide_rate), cross(w, spin)
    p_turned = add(cross(spin, p), cross(turned, scale(2.0, rest.h)))
    own, across, rows = skew_times(spin, K), skew_times(turned, S), times_skew(K, spin)
    K_turned = tuple(add(add(a, b), neg(c)) for a, b, c in zip(own, across, rows, strict=True))
    K_moved = add_outer(add_outer(K_turned, p, slide), scale(2.0, moved), rest.h)  # type: ignore[arg-type]
    return TurnedMass(f, Q, add(p_turned, scale(2.0 * rest.m, moved)), K_moved)


def _origin_change(axis: Motion, w: Vector, slide_rate: Vector | None) -> Vector:
    """Return the derivative of the velocity of a body's origin in its joint's position."""
    slide, spin = axis
    moved = cross(w, slide)
    return moved if slide_rate is None else add(moved, cross(spin, slide_rate))


def turned_row(
    axis: Motion, w: Vector, row: EffortRow, Q: Matrix, slide_rate: Vector | None = None
) -> EffortRow:
    """Return the derivative of the tip's torque row with respect to the middle joint's position.

    Args:
        axis:       axis of the middle joint.
        w:          as in ``turned_mass``, of the middle joint; also ``slide_rate``.
        row:        torque row of the tip.
        Q:          ``TurnedMass.Q`` of the tip.
        slide_rate: see ``w``.
    """
    slide, spin = axis
    turned = moment(transpose(Q), cross(w, spin))
    moved = scale(2.0, _origin_change(axis, w, slide_rate))
    return EffortRow(
        cross(spin, row.a),
        add(cross(spin, row.alpha), cross(slide, row.a)),
        add(add(cross(spin, row.w), cross(moved, row.a)), neg(turned)),
    )


def quadratic_row(axis: Motion, a: Vector, Q: Matrix) -> Vector:
    """Return the response to w of d(tip's torque) / d(middle joint's velocity).

    The negative is that of d(middle joint's torque) / d(tip's velocity).

    Args:
        axis: axis of the middle joint.
        a:    ``EffortRow.a`` of the tip.
        Q:    ``TurnedMass.Q`` of the tip.
    """
    slide, spin = axis
    return add(scale(2.0, cross(slide, a)), neg(moment(transpose(Q), spin)))


@dataclass(frozen=True)
class FromAbove:
    """Effect of a joint on a body below it, in that body's frame.

    Attributes:
        axis:     unit velocity of the joint.
        position: derivative of motion with respect to the joint's position.
        velocity: derivative of motion with respect to the joint's velocity.
    """

    axis: Motion
    position: MotionChange
    velocity: MotionChange

    def to_body(self, placed: Placement, drift: Vector) -> FromAbove:
        """Return the same effect for a child of the body."""
        return FromAbove(
            placed.motion_to_body(*self.axis),
            self.position.to_body(placed, drift),
            self.velocity.to_body(placed, drift),
        )


@dataclass(frozen=True)
class FromBelow:
    """Effect of a joint on a body above it, in that body's frame.

    Attributes:
        row:      torque row of the joint.
        mass:     derivative of the inertia with respect to the joint's position.
        position: derivative of the transmitted wrench with respect to the position.
        velocity: derivative of the transmitted wrench with respect to the velocity.
    """

    row: EffortRow
    mass: TurnedMass
    position: Wrench
    velocity: Wrench

    def to_parent(self, row: EffortRow, placed: Placement, drift: Vector) -> FromBelow:
        """Return the same effect for the parent of the body, with the row there."""
        return FromBelow(
            row,
            self.mass.to_parent(placed, drift),
            placed.force_to_parent(*self.position),
            placed.force_to_parent(*self.velocity),
        )
