"""Integration of and differences between configurations.

``integrate`` follows constant velocities for one unit of time (the exponential map of each joint);
``difference`` is its inverse. Conventions are Pinocchio's, except that a ``continuous`` joint has
one angle. Quaternions must have unit norm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gridgen.dynamics.state import Numbers, State
from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.rotations import Rows
from gridgen.symbolic.scalars import Scalar, Scalars


def integrate(state: State, v: Numbers) -> list[Scalar]:
    """Return the configuration reached from ``q`` with velocities ``v`` in unit time.

    Args:
        v: joint velocities times the time step, nv scalars [rad or m].

    Returns:
        nq scalars; a quaternion stays on the half of the sphere where it starts.
    """
    scalars, end = state.scalars, state.scalars.table("end", state.tree.nq)
    for body in own_joints(state.tree, scalars):
        ends = _position(body, state.q), _rate(body, v)
        for k, entry in enumerate(body.joint_type.integrated(*ends, scalars)):
            end[body.q_index + k] = entry
    return end


def difference(tree: KinematicTree, q0: Numbers, q1: Numbers, scalars: Scalars) -> list[Scalar]:
    """Return the velocities that lead from ``q0`` to ``q1`` in unit time.

    Args:
        q0:      initial joint positions, nq scalars [rad or m].
        q1:      final joint positions, nq scalars [rad or m].

    Returns:
        nv scalars; rotations of free joints by at most pi.
    """
    velocity: list[Scalar] = scalars.table("way", tree.nv)
    for body in own_joints(tree, scalars):
        ends = _position(body, q0), _position(body, q1)
        for k, entry in enumerate(body.joint_type.difference(*ends, scalars)):
            velocity[body.v_index + k] = entry
    return velocity


def interpolate(
    tree: KinematicTree,
    q0: Numbers,
    q1: Numbers,
    u: Numbers,
    scalars: Scalars,
) -> list[Scalar]:
    """Return the configuration at fraction ``u`` between ``q0`` (u = 0) and ``q1`` (u = 1).

    Arguments as in ``difference``, with ``u``, one scalar.
    """
    velocity = difference(tree, q0, q1, scalars)
    part = scalars.table("part", tree.nv)
    scalars.begin("step", -1)
    for j in tree.velocities.outward():
        part[j] = u[0] * velocity[j]
    return integrate(State(tree, scalars, q0), part)


def distance(tree: KinematicTree, q0: Numbers, q1: Numbers, scalars: Scalars) -> Scalar:
    """Return the norm of ``difference(q0, q1)``; radians and meters have equal weight."""
    velocity = difference(tree, q0, q1, scalars)
    square = scalars.carry("square", scalars.constant(0.0))
    scalars.begin("step", -1)
    for j in tree.velocities.outward():
        square.value = square.value + velocity[j] * velocity[j]
    return scalars.sqrt(square.value)


def integrate_gradient(
    tree: KinematicTree, q: Numbers, v: Numbers, scalars: Scalars
) -> tuple[Rows, Rows]:
    """Return the derivatives of ``integrate`` with respect to ``q`` and ``v``, nv x nv each.

    All derivatives are between tangent spaces: a small change x of ``q``, ``integrate(q, x)``,
    changes the result by the first matrix times x.

    Args:
        q:       joint positions; the derivatives do not depend on them.
        v:       joint velocities times the time step, nv scalars [rad or m].
    """

    def blocks(body: Body) -> tuple[Rows, Rows]:
        return body.joint_type.integrated_gradient(_rate(body, v), scalars)

    return _block_diagonal(tree, ("dq1_dq", "dq1_dv"), blocks, scalars)


def difference_gradient(
    tree: KinematicTree, q0: Numbers, q1: Numbers, scalars: Scalars
) -> tuple[Rows, Rows]:
    """Return the derivatives of ``difference`` with respect to ``q0`` and ``q1``, nv x nv each.

    In tangent spaces, as ``integrate_gradient``; arguments as in ``difference``.
    """

    def blocks(body: Body) -> tuple[Rows, Rows]:
        ends = _position(body, q0), _position(body, q1)
        return body.joint_type.difference_gradient(*ends, scalars)

    return _block_diagonal(tree, ("dv_dq0", "dv_dq1"), blocks, scalars)


def own_joints(tree: KinematicTree, scalars: Scalars) -> Iterator[Body]:
    """Yield the bodies whose joints have positions of their own."""
    for index in tree.outward():
        body = tree.bodies[index]
        if not body.mimics:
            scalars.begin("step", index)
            yield body


def _position(body: Body, q: Numbers) -> list[Scalar]:
    return [q[body.q_index + k] for k in range(body.joint_type.nq)]


def _rate(body: Body, v: Numbers) -> list[Scalar]:
    return [v[body.v_index + k] for k in range(body.joint_type.nv)]


def _block_diagonal(
    tree: KinematicTree,
    names: tuple[str, str],
    blocks: Callable[[Body], tuple[Rows, Rows]],
    scalars: Scalars,
) -> tuple[Rows, Rows]:
    """Return two block-diagonal matrices from the blocks of the joints."""
    for entry in (1.0, -1.0):  # created here, these constants belong to no single joint
        scalars.constant(entry)
    first, second = (scalars.matrix(name, tree.nv, tree.nv) for name in names)
    for body in own_joints(tree, scalars):
        j = body.v_index
        for matrix, block in zip((first, second), blocks(body), strict=True):
            for r, row in enumerate(block):
                for c, entry in enumerate(row):
                    matrix[j + r][j + c] = entry
    return first, second
