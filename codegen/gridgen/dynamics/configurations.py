"""Steps between configurations.

A free joint's position is a point of SE(3), seven numbers x y z qx qy qz qw; its velocity is the
body's own twist, six numbers (v, w). ``integrate`` moves along a constant twist for one unit of
time (the exponential map). Conventions are Pinocchio's, but for a ``continuous`` joint, which is
one angle here. Quaternions are taken to be of unit norm.
"""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.dynamics.kinematics import split
from gridgen.dynamics.rotations import displacement, rotate, turn_of, turned
from gridgen.dynamics.spatial import Vector, add
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars


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
    for index in tree.outward():
        body = tree.bodies[index]
        if body.mimics:
            continue
        scalars.begin("step", index)
        if body.kind == "free":
            place, twist = body.q_index, body.v_index
            moved = _moved(q[place : place + 7], v[twist : twist + 6], scalars)
            for k, entry in enumerate(moved):
                end[place + k] = entry
        else:
            end[body.q_index] = q[body.q_index] + v[body.v_index]
    return end


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
