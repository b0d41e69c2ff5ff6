"""Centre of mass and energies. Everything is seen from the base, which does not move."""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.dynamics.changes import subspace
from gridgen.dynamics.frames import Rows, body_poses, linear_velocities
from gridgen.dynamics.kinematics import BaseMotion, body_motions, constants, placements
from gridgen.dynamics.spatial import ZERO, Placement, Vector, add, apply, cross, dot, scale
from gridgen.errors import ModelError
from gridgen.model.tree import KinematicTree
from gridgen.naming import show
from gridgen.symbolic.scalars import Scalar, Scalars


def centre_of_mass(tree: KinematicTree, q: Sequence[Scalar], scalars: Scalars) -> list[Scalar]:
    """Return the centre of mass of everything that moves, in the base [m].

    Args:
        tree:    the robot.
        q:       joint positions, nq scalars [rad or m].
        scalars: the kind of number.

    Raises:
        ModelError: if the robot has no mass.
    """
    whole = _first_moments(tree, placements(tree, q, scalars), _positive_mass(tree), scalars)[-1]
    return list(whole)


def centre_of_mass_jacobian(tree: KinematicTree, q: Sequence[Scalar], scalars: Scalars) -> Rows:
    """Return the Jacobian of the centre of mass in the base, 3 x nv.

    Arguments and errors as in ``centre_of_mass``.
    """
    placed = placements(tree, q, scalars)
    mass = _positive_mass(tree)
    moments = _first_moments(tree, placed, mass, scalars)
    poses = body_poses(tree, placed, range(len(tree.bodies)), scalars)
    columns = [[scalars.constant(0.0)] * 3 for _ in range(tree.nv)]
    for index, body in enumerate(tree.bodies):
        scalars.begin("axis", index)
        share = scalars.constant(sum(tree.bodies[i].mass for i in tree.subtree(index)) / mass)
        for k, (slide, spin) in enumerate(subspace(body, scalars)):
            v = apply(poses[index].R, add(scale(share, slide), cross(spin, moments[index])))
            if body.mimics:
                v = scale(scalars.constant(body.multiplier), v)
            column = columns[body.v_index + k]
            column[:] = [old + new for old, new in zip(column, v, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _positive_mass(tree: KinematicTree) -> float:
    if not tree.total_mass > 0.0:
        raise ModelError(
            f"{tree.source}: robot {show(tree.name)} has a mass of {tree.total_mass}, so no centre "
            "of mass: give its links <inertial> elements"
        )
    return tree.total_mass


def _first_moments(
    tree: KinematicTree, placed: Sequence[Placement], unit: float, scalars: Scalars
) -> list[Vector]:
    """Return the first moment of every subtree in its body's frame; last, of all in the base.

    Args:
        tree:    the robot.
        placed:  placements of its bodies.
        unit:    the mass that counts as one.
        scalars: the kind of number.
    """
    masses = [body.mass for body in tree.bodies]
    moments = [
        constants([entry / unit for entry in body.first_moment], scalars) for body in tree.bodies
    ]
    moments.append(constants(ZERO, scalars))  # index -1: the base
    for index in reversed(range(len(tree.bodies))):
        scalars.begin("composite", index)
        parent = tree.bodies[index].parent
        share = scalars.constant(masses[index] / unit)
        carried = add(placed[index].to_parent(moments[index]), scale(share, placed[index].r))
        moments[parent] = scalars.keep("h", parent, add(moments[parent], carried))
        if parent >= 0:
            masses[parent] += masses[index]
    return moments


def kinetic_energy(
    tree: KinematicTree, q: Sequence[Scalar], qd: Sequence[Scalar], scalars: Scalars
) -> Scalar:
    """Return the kinetic energy, qd^T M qd / 2, on a base at rest [J].

    Args:
        tree:    the robot.
        q:       joint positions, nq scalars [rad or m].
        qd:      joint velocities, nv scalars [rad/s or m/s].
        scalars: the kind of number.
    """
    placed = placements(tree, q, scalars)
    at_rest = BaseMotion(constants(ZERO, scalars))
    motions = list(body_motions(tree, placed, qd, None, at_rest, scalars))
    velocities = linear_velocities(tree, placed, motions, qd, scalars)
    twice = scalars.constant(0.0)
    for index, (body, motion, v) in enumerate(zip(tree.bodies, motions, velocities, strict=True)):
        scalars.begin("energy", index)
        h = constants([2.0 * entry for entry in body.first_moment], scalars)
        momentum = add(scale(scalars.constant(body.mass), v), cross(motion.w, h))
        xx, yy, zz = (scalars.constant(body.inertia[i][i]) for i in range(3))
        xy, xz, yz = (
            scalars.constant(2.0 * body.inertia[i][j]) for i, j in ((0, 1), (0, 2), (1, 2))
        )
        x, y, z = motion.w
        twice = twice + dot(v, momentum)
        twice = twice + (x * (xx * x + xy * y + xz * z) + y * (yy * y + yz * z) + zz * z * z)
    for rate, armature in zip(qd, tree.armature, strict=True):
        twice = twice + scalars.constant(armature) * rate * rate
    return scalars.constant(0.5) * twice


def potential_energy(
    tree: KinematicTree, q: Sequence[Scalar], gravity: Vector, scalars: Scalars
) -> Scalar:
    """Return the potential energy, zero where the centre of mass is at the base's origin [J].

    Args:
        tree:    the robot.
        q:       joint positions, nq scalars [rad or m].
        gravity: acceleration of free fall, in the base [m/s^2].
        scalars: the kind of number.
    """
    whole = _first_moments(tree, placements(tree, q, scalars), 1.0, scalars)[-1]
    return scalars.constant(0.0) - dot(gravity, whole)
