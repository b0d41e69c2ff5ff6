"""Momentum about the center of mass, in the axes of the fixed base."""

from __future__ import annotations

from gridgen.dynamics.crba import composite_masses
from gridgen.dynamics.energy import center_of_mass
from gridgen.dynamics.frames import Rows, add_column, body_poses, linear_velocities
from gridgen.dynamics.kinematics import all_motions
from gridgen.dynamics.mass import body_mass
from gridgen.dynamics.rnea import transmitted_forces
from gridgen.dynamics.state import State
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import ZERO, Wrench, add, apply, constants, cross, sub


def centroidal_momentum_matrix(state: State) -> Rows:
    """Return the centroidal momentum matrix, 6 x nv (Pinocchio's Ag).

    A column is the momentum of the joint's subtree for a unit velocity.

    Raises:
        ModelError: the robot has no mass.
    """
    tree, scalars = state.tree, state.scalars
    masses, poses, center = composite_masses(state), body_poses(state), center_of_mass(state)
    A = scalars.matrix("A", 6, tree.nv)
    for index in tree.outward():
        body, pose = tree.bodies[index], poses[index]
        arm = sub(pose.p, center)
        for k, axis in enumerate(body.joint_type.subspace(scalars)):
            scalars.begin("column", index)
            f, n = (apply(pose.R, part) for part in masses[index].wrench(*axis))
            n = add(n, cross(arm, f))
            add_column(state, body, k, (*f, *n), A)
    return A


def centroidal_momentum(state: State) -> list[Scalar]:
    """Return the centroidal momentum, linear part first (Pinocchio's hg).

    Arguments and errors as in ``centroidal_momentum_matrix``, with the joint velocities.
    """
    state = state.at_rest
    tree, scalars = state.tree, state.scalars
    motions = all_motions(state)
    velocities = linear_velocities(state, motions)
    own: list[Wrench] = scalars.table("momentum", len(tree.bodies))
    for index in tree.outward():
        scalars.begin("outward", index)
        mass = body_mass(state, index)
        f, n = mass.wrench(velocities[index], motions[index].w)
        own[index] = (scalars.keep("f", index, f), scalars.keep("n", index, n))
    carried = transmitted_forces(state, own)
    scalars.begin("inward", -1)
    nothing = constants(ZERO, scalars)
    total = scalars.carry("total", (nothing, nothing))
    for index in tree.outward():
        if tree.bodies[index].parent < 0:
            f, n = state.placed[index].force_to_parent(*carried[index])
            total.value = (add(total.value[0], f), add(total.value[1], n))
    linear, angular = total.value
    return [*linear, *sub(angular, cross(center_of_mass(state), linear))]
