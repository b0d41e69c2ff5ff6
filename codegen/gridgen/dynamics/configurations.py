"""Steps between configurations.

A free joint's position is a point of SE(3), seven numbers x y z qx qy qz qw; its velocity is the
body's own twist, six numbers (v, w). ``integrate`` moves along a constant twist for one unit of
time (the exponential map), ``difference`` is its inverse. Conventions are Pinocchio's, but for a
``continuous`` joint, which is one angle here. Quaternions are taken to be of unit norm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gridgen.dynamics.kinematics import split
from gridgen.dynamics.rotations import (
    Angle,
    Block,
    conjugate,
    displacement,
    full_block,
    inverse_of_step,
    logarithm_gradient,
    multiply,
    right_jacobian,
    rotate,
    rotation_vector,
    turn_of,
    turned,
    velocity,
)
from gridgen.dynamics.spatial import Motion, Vector, add, sub
from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars

Rows = list[list[Scalar]]


def integrate(
    tree: KinematicTree, q: Sequence[Scalar], v: Sequence[Scalar], scalars: Scalars
) -> list[Scalar]:
    """Return the configuration reached from ``q`` with ``v`` in unit time.

    Args:
        tree:    the robot.
        q:       joint positions, nq scalars [rad or m].
        v:       joint velocities times the time step, nv scalars [rad or m].
        scalars: the kind of number.

    Returns:
        nq scalars; a quaternion keeps to the half of the sphere that it starts in.
    """
    end: list[Scalar] = scalars.table("end", tree.nq)
    for body in own_joints(tree, scalars):
        if body.kind == "free":
            for k, entry in enumerate(_moved(_position(body, q), _twist(body, v), scalars)):
                end[body.q_index + k] = entry
        else:
            end[body.q_index] = q[body.q_index] + v[body.v_index]
    return end


def difference(
    tree: KinematicTree, q0: Sequence[Scalar], q1: Sequence[Scalar], scalars: Scalars
) -> list[Scalar]:
    """Return the velocities that lead from ``q0`` to ``q1`` in unit time.

    Args:
        tree:    the robot.
        q0:      joint positions at the beginning, nq scalars [rad or m].
        q1:      joint positions at the end, nq scalars [rad or m].
        scalars: the kind of number.

    Returns:
        nv scalars, with turns of free joints of at most pi.
    """
    way: list[Scalar] = scalars.table("way", tree.nv)
    for body in own_joints(tree, scalars):
        if body.kind == "free":
            (slide, spin), _ = _way(body, q0, q1, scalars)
            for k, entry in enumerate((*slide, *spin)):
                way[body.v_index + k] = entry
        else:
            way[body.v_index] = q1[body.q_index] - q0[body.q_index]
    return way


def interpolate(
    tree: KinematicTree,
    q0: Sequence[Scalar],
    q1: Sequence[Scalar],
    u: Sequence[Scalar],
    scalars: Scalars,
) -> list[Scalar]:
    """Return the configuration on the way from ``q0`` (u = 0) to ``q1`` (u = 1).

    Arguments as in ``difference``, with ``u``, one scalar.
    """
    way = difference(tree, q0, q1, scalars)
    part = scalars.table("part", tree.nv)
    scalars.begin("step", -1)
    for j in tree.velocities.outward():
        part[j] = u[0] * way[j]
    return integrate(tree, q0, part, scalars)


def distance(
    tree: KinematicTree, q0: Sequence[Scalar], q1: Sequence[Scalar], scalars: Scalars
) -> Scalar:
    """Return the length of ``difference(q0, q1)``; radians and metres count alike."""
    way = difference(tree, q0, q1, scalars)
    square = scalars.carry("square", scalars.constant(0.0))
    scalars.begin("step", -1)
    for j in tree.velocities.outward():
        square.value = square.value + way[j] * way[j]
    return scalars.sqrt(square.value)


def integrate_gradient(
    tree: KinematicTree, q: Sequence[Scalar], v: Sequence[Scalar], scalars: Scalars
) -> tuple[Rows, Rows]:
    """Return the derivatives of ``integrate`` by ``q`` and ``v``, nv x nv each.

    All in tangent spaces: a small change x of ``q``, ``integrate(q, x)``, changes the result by
    what the first matrix makes of x.

    Args:
        tree:    the robot.
        q:       joint positions, on which the derivatives do not depend.
        v:       joint velocities times the time step, nv scalars [rad or m].
        scalars: the kind of number.
    """

    def blocks(body: Body) -> tuple[Block, Block]:
        twist = split(_twist(body, v))
        return inverse_of_step(twist, scalars), right_jacobian(twist, scalars)

    one = scalars.constant(1.0)
    return _block_diagonal(tree, ("dq1_dq", "dq1_dv"), blocks, (one, one), scalars)


def difference_gradient(
    tree: KinematicTree, q0: Sequence[Scalar], q1: Sequence[Scalar], scalars: Scalars
) -> tuple[Rows, Rows]:
    """Return the derivatives of ``difference`` by ``q0`` and ``q1``, nv x nv each.

    In tangent spaces, as ``integrate_gradient``; arguments as in ``difference``.
    """

    def blocks(body: Body) -> tuple[Block, Block]:
        return logarithm_gradient(*_way(body, q0, q1, scalars))

    ones = scalars.constant(-1.0), scalars.constant(1.0)
    return _block_diagonal(tree, ("dv_dq0", "dv_dq1"), blocks, ones, scalars)


def own_joints(tree: KinematicTree, scalars: Scalars) -> Iterator[Body]:
    """Walk over the bodies whose joints have positions of their own."""
    for index in tree.outward():
        body = tree.bodies[index]
        if not body.mimics:
            scalars.begin("step", index)
            yield body


def _position(body: Body, q: Sequence[Scalar]) -> list[Scalar]:
    return [q[body.q_index + k] for k in range(7)]


def _twist(body: Body, v: Sequence[Scalar]) -> list[Scalar]:
    return [v[body.v_index + k] for k in range(6)]


def _moved(
    position: Sequence[Scalar], twist: Sequence[Scalar], scalars: Scalars
) -> tuple[Scalar, ...]:
    """Return the position of a free joint after unit time."""
    x, y, z, qx, qy, qz, qw = position
    slide, spin = split(twist)
    point: Vector = (x, y, z)
    start = qx, qy, qz, qw
    turn = turn_of(spin, scalars)
    end = turned(start, spin, turn, scalars)
    return *add(point, rotate(start, displacement(spin, slide, turn))), *end


def _way(
    body: Body, q0: Sequence[Scalar], q1: Sequence[Scalar], scalars: Scalars
) -> tuple[Motion, Angle]:
    """Return the twist that leads a free joint from one position to another in unit time."""
    x0, y0, z0, *start = _position(body, q0)
    x1, y1, z1, *end = _position(body, q1)
    back = conjugate((start[0], start[1], start[2], start[3]))
    spin, angle = rotation_vector(multiply(back, (end[0], end[1], end[2], end[3])), scalars)
    return (velocity(spin, rotate(back, sub((x1, y1, z1), (x0, y0, z0))), angle), spin), angle


def _block_diagonal(
    tree: KinematicTree,
    names: tuple[str, str],
    blocks: Callable[[Body], tuple[Block, Block]],
    entries: tuple[Scalar, Scalar],
    scalars: Scalars,
) -> tuple[Rows, Rows]:
    """Return two matrices from their blocks of free joints, and their entries of all others."""
    first, second = (scalars.matrix(name, tree.nv, tree.nv) for name in names)
    for body in own_joints(tree, scalars):
        j = body.v_index
        if body.kind == "free":
            for matrix, block in zip((first, second), blocks(body), strict=True):
                for r, row in enumerate(full_block(block, scalars)):
                    for c, entry in enumerate(row):
                        matrix[j + r][j + c] = entry
        else:
            first[j][j], second[j][j] = entries
    return first, second
