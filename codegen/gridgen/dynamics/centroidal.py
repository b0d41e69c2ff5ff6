"""Momentum about the centre of mass, in the axes of the base, which does not move."""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.dynamics.changes import subspace
from gridgen.dynamics.crba import composite_masses
from gridgen.dynamics.energy import first_moments
from gridgen.dynamics.frames import Rows, body_poses, linear_velocities
from gridgen.dynamics.kinematics import BaseMotion, body_motions, constants, placements
from gridgen.dynamics.mass import body_mass
from gridgen.dynamics.refusals import of_no_mass
from gridgen.dynamics.rnea import transmitted_forces
from gridgen.dynamics.spatial import ZERO, Placement, Vector, Wrench, add, apply, cross, scale, sub
from gridgen.errors import ModelError
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars


def centroidal_momentum_matrix(tree: KinematicTree, q: Sequence[Scalar], scalars: Scalars) -> Rows:
    """Return the matrix that takes joint velocities to the momentum, 6 x nv (Pinocchio's Ag).

    A column is the momentum of the joint's subtree for a unit velocity.

    Args:
        tree:    the robot.
        q:       joint positions, nq scalars [rad or m].
        scalars: the kind of number.

    Raises:
        ModelError: the robot has no mass.
    """
    placed = placements(tree, q, scalars)
    masses = composite_masses(tree, placed, scalars)
    poses = body_poses(tree, placed, range(len(tree.bodies)), scalars)
    centre = _centre(tree, placed, scalars)
    columns = [[scalars.constant(0.0)] * 6 for _ in range(tree.nv)]
    for index, body in enumerate(tree.bodies):
        pose = poses[index]
        arm = sub(pose.p, centre)
        for k, axis in enumerate(subspace(body, scalars)):
            scalars.begin("column", index)
            f, n = (apply(pose.R, part) for part in masses[index].wrench(*axis))
            n = add(n, cross(arm, f))
            if body.mimics:
                f, n = (scale(scalars.constant(body.multiplier), part) for part in (f, n))
            column = columns[body.v_index + k]
            column[:] = [old + new for old, new in zip(column, (*f, *n), strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def centroidal_momentum(
    tree: KinematicTree, q: Sequence[Scalar], qd: Sequence[Scalar], scalars: Scalars
) -> list[Scalar]:
    """Return the momentum of the whole robot, linear and angular (Pinocchio's hg).

    Arguments and errors as in ``centroidal_momentum_matrix``, with the joint velocities.
    """
    placed = placements(tree, q, scalars)
    at_rest = BaseMotion(constants(ZERO, scalars))
    motions = list(body_motions(tree, placed, qd, None, at_rest, scalars))
    velocities = linear_velocities(tree, placed, motions, qd, scalars)
    own: list[Wrench] = []
    for index, body in enumerate(tree.bodies):
        scalars.begin("outward", index)
        f, n = body_mass(body, scalars).wrench(velocities[index], motions[index].w)
        own.append((scalars.keep("f", index, f), scalars.keep("n", index, n)))
    carried = transmitted_forces(tree, placed, own, scalars)
    scalars.begin("inward", -1)
    linear, angular = constants(ZERO, scalars), constants(ZERO, scalars)
    for index, body in enumerate(tree.bodies):
        if body.parent < 0:
            f, n = placed[index].force_to_parent(*carried[index])
            linear, angular = add(linear, f), add(angular, n)
    return [*linear, *sub(angular, cross(_centre(tree, placed, scalars), linear))]


def _centre(tree: KinematicTree, placed: Sequence[Placement], scalars: Scalars) -> Vector:
    """Return the centre of mass in the base."""
    if (reason := of_no_mass(tree)) is not None:
        raise ModelError(f"{tree.source}: {reason}")
    _, moments = first_moments(tree, placed, tree.total_mass, scalars)
    return moments[-1]
