"""Generalized gravity: the efforts that hold a robot still."""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.dynamics.energy import first_moments
from gridgen.dynamics.kinematics import placements
from gridgen.dynamics.rnea import joint_efforts
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import Vector, Wrench, cross, neg, scale


def gravity_forces(
    tree: KinematicTree, q: Sequence[Scalar], gravity: Vector, scalars: Scalars
) -> list[Scalar]:
    """Return the efforts that hold the robot still under gravity.

    Inverse dynamics at rest: every joint carries the weight of its subtree, which is known when the
    direction of gravity and the subtree's first moment are. No wrench travels to the root.

    Returns:
        tau: joint efforts, nv scalars [N m or N].
    """
    placed = placements(tree, q, scalars)
    masses, moments, _ = first_moments(tree, placed, 1.0, scalars)
    # The acceleration that stands in for gravity, in every body's frame.
    lifts: list[Vector] = scalars.table("lift", len(tree.bodies))
    forces: list[Wrench] = scalars.table("force", len(tree.bodies))
    for index in tree.outward():
        parent = tree.bodies[index].parent
        scalars.begin("outward", index)
        above = neg(gravity) if parent < 0 else lifts[parent]
        lifts[index] = lift = scalars.keep("a", index, placed[index].to_body(above))
        forces[index] = (scale(masses[index], lift), cross(moments[index], lift))
    return joint_efforts(tree, forces, scalars)
