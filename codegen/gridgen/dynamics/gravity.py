"""Generalized gravity: the joint torques that hold a robot at rest."""

from __future__ import annotations

from gridgen.dynamics.energy import first_moments
from gridgen.dynamics.rnea import joint_efforts
from gridgen.dynamics.state import State
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import Vector, Wrench, cross, neg, scale


def gravity_forces(state: State) -> list[Scalar]:
    """Return the joint torques that hold the robot at rest under gravity.

    This is inverse dynamics at rest. Every joint carries the weight of its subtree, which depends
    on the direction of gravity and the first moment of the subtree only. No wrench propagates to
    the root.

    Returns:
        tau: generalized forces, nv scalars [N m or N].
    """
    tree, scalars, placed = state.tree, state.scalars, state.placed
    masses, moments, _ = first_moments(state, 1.0)
    # The acceleration that represents gravity, in every body's frame.
    lifts: list[Vector] = scalars.table("lift", len(tree.bodies))
    forces: list[Wrench] = scalars.table("force", len(tree.bodies))
    for index in tree.outward():
        parent = tree.bodies[index].parent
        scalars.begin("outward", index)
        above = neg(state.g) if parent < 0 else lifts[parent]
        lifts[index] = lift = scalars.keep("a", index, placed[index].to_body(above))
        forces[index] = (scale(masses[index], lift), cross(moments[index], lift))
    return joint_efforts(state, forces)
