"""Placements, velocities and accelerations of the bodies.

Accelerations are those of a point: the second derivative of the origin's position, in the body's
frame, less gravity. With them no algorithm needs the linear velocity of a body of a fixed-base
robot (Yang, Wu, Pan (prefix sums) eq. 1 carries it because its accelerations are derivatives of
twist coordinates; the two differ by w x v, added once at the base).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    ZERO,
    DenseRotation,
    Factor,
    Matrix,
    Motion,
    Placement,
    PlaneRotation,
    Vector,
    add,
    apply,
    constants,
    cross,
    fixed_rotation,
    matmul,
    split,
    sub,
)


@dataclass(frozen=True)
class BaseMotion:
    """Motion of the fixed base, in the base frame.

    Attributes:
        gravity:      acceleration of free fall [m/s^2].
        velocity:     V0 of prefix sums eq. 3, (v, w) [m/s, rad/s].
        acceleration: its derivative (prefix sums eq. 3), (a, wd) [m/s^2, rad/s^2].
    """

    gravity: Vector
    velocity: tuple[Scalar, ...] | None = None
    acceleration: tuple[Scalar, ...] | None = None


@dataclass(frozen=True)
class BodyMotion:
    """Angular velocity and the acceleration field of one body.

    Attributes:
        w:     angular velocity [rad/s].
        wd:    angular acceleration [rad/s^2].
        a:     acceleration of the origin less gravity [m/s^2].
        field: [wd] + [w]^2, so that the point x of the body accelerates with a + field x.
    """

    w: Vector
    wd: Vector
    a: Vector
    field: Matrix


# -- positions --------------------------------------------------------------------------------


def placements(tree: KinematicTree, q: Sequence[Scalar], scalars: Scalars) -> list[Placement]:
    """Return the placement of every body in its parent."""
    placed = scalars.table("placed", len(tree.bodies))
    for index in tree.outward():
        placed[index] = _placement(index, tree.bodies[index], q, scalars)
    return placed


def _placement(index: int, body: Body, q: Sequence[Scalar], scalars: Scalars) -> Placement:
    scalars.begin("placement", index)
    joint = body.joint_type
    position = q[body.q_index : body.q_index + joint.nq]
    if body.mimics:
        scaled = scalars.constant(body.multiplier) * position[0]
        position = [scaled + scalars.constant(body.offset)]
    turn, slide = joint.transform(index, position, scalars)
    origin = constants(body.translation, scalars)
    if not joint.slides:
        vectors, matrices = _revolute_factors(index, body, turn, scalars)
        return Placement(vectors, matrices, origin)
    factors = fixed_rotation(body.rotation, scalars)
    for factor in reversed(factors):
        slide = factor.turn(slide)
    if joint.turns:
        factors = (*factors, DenseRotation(scalars.keep("E", index, turn)))
    return Placement(factors, factors, scalars.keep("r", index, add(origin, slide)))


def _revolute_factors(
    index: int, body: Body, turn: Matrix, scalars: Scalars
) -> tuple[tuple[Factor, ...], tuple[Factor, ...]]:
    """Return the factors of (constant rotation)(rotation by the joint angle)."""
    plane = PlaneRotation(2, turn[1][0], turn[0][0])
    fixed = fixed_rotation(body.rotation, scalars)
    if scalars.specialize and body.is_axis_aligned:
        return (*fixed, plane), (*fixed, plane)

    rows = [constants(row, scalars) for row in body.rotation]
    dense = DenseRotation(scalars.keep("E", index, matmul((rows[0], rows[1], rows[2]), turn)))
    if not scalars.specialize:
        return (dense,), (dense,)
    # Two planar factors and an angle offset turn a matrix with half the products of a dense one.
    about_z, about_x, (sine, cosine) = (
        tuple(map(scalars.constant, angle)) for angle in body.euler_sin_cos
    )
    s, c = plane.sine, plane.cosine
    offset = PlaneRotation(2, s * cosine + c * sine, c * cosine - s * sine)
    return (dense,), (PlaneRotation(2, *about_z), PlaneRotation(0, *about_x), offset)


# -- velocities and accelerations -------------------------------------------------------------


def joint_rate(body: Body, rates: Sequence[Scalar], scalars: Scalars) -> tuple[Scalar, ...]:
    """Return the velocity (or acceleration) of one joint: 1 scalar, 6 for a free joint.

    Args:
        body:    the body that the joint moves.
        rates:   nv joint velocities or accelerations.
    """
    values = tuple(rates[body.v_index : body.v_index + body.joint_type.nv])
    return (scalars.constant(body.multiplier) * values[0],) if body.mimics else values


def body_motions(
    tree: KinematicTree,
    placed: Sequence[Placement],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar] | None,
    base: BaseMotion,
    scalars: Scalars,
    motions: list[BodyMotion] | None = None,
) -> Iterator[tuple[int, BodyMotion]]:
    """Propagate velocities and accelerations from the base outwards (prefix sums eq. 1).

    A generator, so that the caller can use up each motion before the next is formed: straight-line
    code then keeps few of them at a time.

    Args:
        placed:  ``placements(tree, q, scalars)``.
        qdd:     joint accelerations, nv scalars; ``None`` for zero, which costs less.
        motions: table to keep them in.

    Yields:
        the index of every body in turn, and its motion in its own frame.
    """
    root = base_motion(base, scalars)
    if motions is None:
        motions = scalars.table("motion", len(tree.bodies))
    for index in tree.outward():
        body = tree.bodies[index]
        parent = root if body.parent < 0 else motions[body.parent]
        scalars.begin("outward", index)
        X = placed[index]
        w, wd = X.to_body(parent.w), X.to_body(parent.wd)
        a = X.to_body(add(parent.a, apply(parent.field, X.r)))
        rate = joint_rate(body, qd, scalars)
        zero = (scalars.constant(0.0),) * len(rate)
        change = zero if qdd is None else joint_rate(body, qdd, scalars)
        w, wd, a = body.joint_type.propagated((w, wd, a), rate, change, scalars)
        motion = _motion(index, w, wd, a, scalars)
        motions[index] = motion
        yield index, motion


def all_motions(
    tree: KinematicTree,
    placed: Sequence[Placement],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar] | None,
    base: BaseMotion,
    scalars: Scalars,
) -> list[BodyMotion]:
    """Return the motions of all bodies; arguments as in ``body_motions``."""
    motions: list[BodyMotion] = scalars.table("motion", len(tree.bodies))
    for _ in body_motions(tree, placed, qd, qdd, base, scalars, motions):
        pass
    return motions


def each(tree: KinematicTree, table: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Return the index of every body with what a table has for it."""
    for index in tree.outward():
        yield index, table[index]


def base_motion(base: BaseMotion, scalars: Scalars) -> BodyMotion:
    """Return the motion of the base as that of a body."""
    scalars.begin("base", -1)
    nothing = constants(ZERO, scalars)
    v, w = (nothing, nothing) if base.velocity is None else split(base.velocity)
    a, wd = (nothing, nothing) if base.acceleration is None else split(base.acceleration)
    a = origin_acceleration((v, w), (a, wd))
    return _motion(-1, w, wd, sub(a, base.gravity), scalars)


def origin_acceleration(V: Motion, A: Motion) -> Vector:
    """Return the acceleration of a frame's origin, whose twist V has the derivative A."""
    return add(A[0], cross(V[1], V[0]))


def twist_motion(V: Motion, A: Motion) -> BodyMotion:
    """Return the motion of a body, whose twist V has the derivative A."""
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
