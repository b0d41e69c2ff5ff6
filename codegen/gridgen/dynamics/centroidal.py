"""Momentum about the center of mass, in the axes of the fixed base."""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.dynamics.crba import composite_masses
from gridgen.dynamics.energy import center_of_all
from gridgen.dynamics.frames import Rows, add_column, body_poses, linear_velocities
from gridgen.dynamics.kinematics import BaseMotion, all_motions, placements
from gridgen.dynamics.mass import body_mass
from gridgen.dynamics.rnea import transmitted_forces
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import ZERO, Wrench, add, apply, constants, cross, sub


def centroidal_momentum_matrix(tree: KinematicTree, q: Sequence[Scalar], scalars: Scalars) -> Rows:
    """Return the centroidal momentum matrix, 6 x nv (Pinocchio's Ag).

    A column is the momentum of the joint's subtree for a unit velocity.

    Raises:
        ModelError: the robot has no mass.
    """
    placed = placements(tree, q, scalars)
    masses = composite_masses(tree, placed, scalars)
    poses = body_poses(tree, placed, scalars)
    center = center_of_all(tree, placed, scalars)
    A = scalars.matrix("A", 6, tree.nv)
    for index in tree.outward():
        body, pose = tree.bodies[index], poses[index]
        arm = sub(pose.p, center)
        for k, axis in enumerate(body.joint_type.subspace(scalars)):
            scalars.begin("column", index)
            f, n = (apply(pose.R, part) for part in masses[index].wrench(*axis))
            n = add(n, cross(arm, f))
            add_column(tree, body, k, (*f, *n), A, scalars)
    return A


def centroidal_momentum(
    tree: KinematicTree, q: Sequence[Scalar], qd: Sequence[Scalar], scalars: Scalars
) -> list[Scalar]:
    """Return the centroidal momentum, linear part first (Pinocchio's hg).

    Arguments and errors as in ``centroidal_momentum_matrix``, with the joint velocities.
    """
    placed = placements(tree, q, scalars)
    at_rest = BaseMotion(constants(ZERO, scalars))
    motions = all_motions(tree, placed, qd, None, at_rest, scalars)
    velocities = linear_velocities(tree, placed, motions, qd, scalars)
    own: list[Wrench] = scalars.table("momentum", len(tree.bodies))
    for index in tree.outward():
        scalars.begin("outward", index)
        mass = body_mass(tree, index, scalars)
        f, n = mass.wrench(velocities[index], motions[index].w)
        own[index] = (scalars.keep("f", index, f), scalars.keep("n", index, n))
    carried = transmitted_forces(tree, placed, own, scalars)
    scalars.begin("inward", -1)
    nothing = constants(ZERO, scalars)
    total = scalars.carry("total", (nothing, nothing))
    for index in tree.outward():
        if tree.bodies[index].parent < 0:
            f, n = placed[index].force_to_parent(*carried[index])
            total.value = (add(total.value[0], f), add(total.value[1], n))
    linear, angular = total.value
    return [*linear, *sub(angular, cross(center_of_all(tree, placed, scalars), linear))]
