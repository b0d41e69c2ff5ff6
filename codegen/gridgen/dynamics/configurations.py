"""Integration of and differences between configurations.

``integrate`` follows constant velocities for one unit of time (the exponential map of each joint);
``difference`` is its inverse. Conventions are Pinocchio's, except that a ``continuous`` joint has
one angle. Quaternions must have unit norm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from gridgen.dynamics.state import Numbers, State
from gridgen.model.tree import Body
from gridgen.symbolic.rotations import Rows
from gridgen.symbolic.scalars import Scalar


def integrate(state: State, v: Numbers) -> list[Scalar]:
    """Return the configuration reached from ``q`` with velocities ``v`` in unit time.

    Args:
        v: joint velocities times the time step, nv scalars [rad or m].

    Returns:
        nq scalars; a quaternion stays on the half of the sphere where it starts.
    """
    scalars, end = state.scalars, state.scalars.table("end", state.tree.nq)
    for body in own_joints(state):
        ends = _position(body, state.q), _rate(body, v)
        for k, entry in enumerate(body.joint_type.integrated(*ends, scalars)):
            end[body.q_index + k] = entry
    return end


def difference(state: State, q0: Numbers, q1: Numbers) -> list[Scalar]:
    """Return the velocities that lead from ``q0`` to ``q1`` in unit time.

    Args:
        q0: initial joint positions, nq scalars [rad or m].
        q1: final joint positions, nq scalars [rad or m].

    Returns:
        nv scalars; rotations of free joints by at most pi.
    """
    velocity: list[Scalar] = state.scalars.table("way", state.tree.nv)
    for body in own_joints(state):
        ends = _position(body, q0), _position(body, q1)
        for k, entry in enumerate(body.joint_type.difference(*ends, state.scalars)):
            velocity[body.v_index + k] = entry
    return velocity


def interpolate(state: State, q0: Numbers, q1: Numbers, u: Numbers) -> list[Scalar]:
    """Return the configuration at fraction ``u`` between ``q0`` (u = 0) and ``q1`` (u = 1).

    Arguments as in ``difference``, with ``u``, one scalar.
    """
    tree, scalars, velocity = state.tree, state.scalars, difference(state, q0, q1)
    part = scalars.table("part", tree.nv)
    scalars.begin("step", -1)
    for j in tree.velocities.outward():
        part[j] = u[0] * velocity[j]
    return integrate(state.at(q0, ()), part)


def distance(state: State, q0: Numbers, q1: Numbers) -> Scalar:
    """Return the norm of ``difference(q0, q1)``; radians and meters have equal weight."""
    scalars, velocity = state.scalars, difference(state, q0, q1)
    square = scalars.carry("square", scalars.constant(0.0))
    scalars.begin("step", -1)
    for j in state.tree.velocities.outward():
        square.value = square.value + velocity[j] * velocity[j]
    return scalars.sqrt(square.value)


def integrate_gradient(state: State, v: Numbers) -> tuple[Rows, Rows]:
    """Return the derivatives of ``integrate`` with respect to ``q`` and ``v``, nv x nv each.

    All derivatives are between tangent spaces: a small change x of ``q``, ``integrate(q, x)``,
    changes the result by the first matrix times x. They do not depend on ``q``.

    Args:
        v: joint velocities times the time step, nv scalars [rad or m].
    """

    def blocks(body: Body) -> tuple[Rows, Rows]:
        return body.joint_type.integrated_gradient(_rate(body, v), state.scalars)

    return _block_diagonal(state, ("dq1_dq", "dq1_dv"), blocks)


def difference_gradient(state: State, q0: Numbers, q1: Numbers) -> tuple[Rows, Rows]:
    """Return the derivatives of ``difference`` with respect to ``q0`` and ``q1``, nv x nv each.

    In tangent spaces, as ``integrate_gradient``; arguments as in ``difference``.
    """

    def blocks(body: Body) -> tuple[Rows, Rows]:
        ends = _position(body, q0), _position(body, q1)
        return body.joint_type.difference_gradient(*ends, state.scalars)

    return _block_diagonal(state, ("dv_dq0", "dv_dq1"), blocks)


def own_joints(state: State) -> Iterator[Body]:
    """Yield the bodies whose joints have positions of their own, in the coordinates of a state."""
    for index in state.tree.outward():
        body = state.tree.bodies[index]
        if not body.mimics:
            state.scalars.begin("step", index)
            joint = body.joint_type
            yield replace(body, joint_type=joint.in_mujoco) if state.world_axes else body


def _position(body: Body, q: Numbers) -> list[Scalar]:
    return [q[body.q_index + k] for k in range(body.joint_type.nq)]


def _rate(body: Body, v: Numbers) -> list[Scalar]:
    return [v[body.v_index + k] for k in range(body.joint_type.nv)]


def _block_diagonal(
    state: State, names: tuple[str, str], blocks: Callable[[Body], tuple[Rows, Rows]]
) -> tuple[Rows, Rows]:
    """Return two block-diagonal matrices from the blocks of the joints."""
    tree, scalars = state.tree, state.scalars
    for entry in (1.0, -1.0):  # created here, these constants belong to no single joint
        scalars.constant(entry)
    first, second = (scalars.matrix(name, tree.nv, tree.nv) for name in names)
    for body in own_joints(state):
        j = body.v_index
        for matrix, block in zip((first, second), blocks(body), strict=True):
            for r, row in enumerate(block):
                for c, entry in enumerate(row):
                    matrix[j + r][j + c] = entry
    return first, second
