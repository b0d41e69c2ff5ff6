"""Velocities and accelerations of the bodies.

Accelerations are those of a point: the second derivative of the origin's position minus gravity, in
the body's frame. For robots on a fixed base, no algorithm then needs the linear velocity of a body.
In Yang, Wu, Pan (prefix sums) eq. 1, accelerations are derivatives of twist coordinates and need
it. The two differ by w x v, added once at the base.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gridgen.dynamics.state import Numbers, State
from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    ZERO,
    Matrix,
    Motion,
    Placement,
    Vector,
    add,
    apply,
    constants,
    cross,
    split,
    sub,
)


@dataclass(frozen=True)
class BodyMotion:
    """Angular velocity and acceleration field of one body.

    Attributes:
        w:     angular velocity [rad/s].
        wd:    angular acceleration [rad/s^2].
        a:     acceleration of the origin minus gravity [m/s^2].
        field: [wd] + [w]^2; the point x of the body accelerates with a + field x.
    """

    w: Vector
    wd: Vector
    a: Vector
    field: Matrix


def joint_rate(body: Body, rates: Numbers, scalars: Scalars) -> tuple[Scalar, ...]:
    """Return the velocity (or acceleration) of one joint: 1 scalar, 6 for a free joint.

    Args:
        body:  the body that the joint moves.
        rates: joint velocities or accelerations, nv scalars.
    """
    values = tuple(rates[body.v_index : body.v_index + body.joint_type.nv])
    return (scalars.constant(body.multiplier) * values[0],) if body.mimics else values


def body_motions(
    state: State, qdd: Numbers | None = None, motions: list[BodyMotion] | None = None
) -> Iterator[tuple[int, BodyMotion]]:
    """Propagate velocities and accelerations from the base outwards (prefix sums eq. 1).

    An iterator: the caller can consume each motion before the next is computed, which shortens the
    lifetimes of values in straight-line code.

    Args:
        qdd:     joint accelerations, nv scalars; ``None`` for zero, which costs less.
        motions: table that receives the motions.

    Yields:
        index of a body, and its motion in its own frame.
    """
    return _outward(state, state.placed, qdd, motions)


def _outward(
    state: State,
    placed: Sequence[Placement],
    qdd: Numbers | None,
    motions: list[BodyMotion] | None,
) -> Iterator[tuple[int, BodyMotion]]:
    tree, scalars = state.tree, state.scalars
    root = base_motion(state)
    if motions is None:
        motions = scalars.table("motion", len(tree.bodies))
    for index in tree.outward():
        body = tree.bodies[index]
        parent = root if body.parent < 0 else motions[body.parent]
        scalars.begin("outward", index)
        X = placed[index]
        w, wd = X.to_body(parent.w), X.to_body(parent.wd)
        a = X.to_body(add(parent.a, apply(parent.field, X.r)))
        rate = joint_rate(body, state.qd, scalars)
        zero = (scalars.constant(0.0),) * len(rate)
        change = zero if qdd is None else joint_rate(body, qdd, scalars)
        w, wd, a = body.joint_type.propagated((w, wd, a), rate, change, scalars)
        motion = _motion(index, w, wd, a, scalars)
        motions[index] = motion
        yield index, motion


def all_motions(state: State, qdd: Numbers | None = None) -> list[BodyMotion]:
    """Return the motions of all bodies; arguments as in ``body_motions``."""
    placed = state.placed
    motions: list[BodyMotion] = state.scalars.table("motion", len(state.tree.bodies))
    for _ in _outward(state, placed, qdd, motions):
        pass
    return motions


def each(tree: KinematicTree, table: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the index of every body with its entry in a table."""
    for index in tree.outward():
        yield index, table[index]


def base_motion(state: State) -> BodyMotion:
    """Return the motion of the base as that of a body."""
    scalars = state.scalars
    scalars.begin("base", -1)
    nothing = constants(ZERO, scalars)
    v, w = split(state.base_velocity or (*nothing, *nothing))
    a, wd = split(state.base_acceleration or (*nothing, *nothing))
    a = origin_acceleration((v, w), (a, wd))
    return _motion(-1, w, wd, sub(a, state.g), scalars)


def origin_acceleration(V: Motion, A: Motion) -> Vector:
    """Return the acceleration of a frame's origin, for twist V with derivative A."""
    return add(A[0], cross(V[1], V[0]))


def twist_motion(V: Motion, A: Motion) -> BodyMotion:
    """Return the motion of a body, for twist V with derivative A."""
    w, wd = V[1], A[1]
    return BodyMotion(w, wd, origin_acceleration(V, A), acceleration_field(w, wd))


def _motion(index: int, w: Vector, wd: Vector, a: Vector, scalars: Scalars) -> BodyMotion:
    """Name a body's motion and form its acceleration field."""
    w, wd, a = (
        scalars.keep("w", index, w),
        scalars.keep("wd", index, wd),
        scalars.keep("a", index, a),
    )
    return BodyMotion(w, wd, a, scalars.keep("W", index, acceleration_field(w, wd)))


def acceleration_field(w: Vector, wd: Vector) -> Matrix:
    """Return [wd] + [w]^2."""
    x, y, z = w
    xx, yy, zz = x * x, y * y, z * z
    xy, xz, yz = x * y, x * z, y * z
    return (
        (-(yy + zz), xy - wd[2], xz + wd[1]),
        (xy + wd[2], -(xx + zz), yz - wd[0]),
        (xz - wd[1], yz + wd[0], -(xx + yy)),
    )
