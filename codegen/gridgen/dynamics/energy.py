"""Centre of mass and energies. Everything is seen from the base, which does not move."""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.dynamics.changes import subspace
from gridgen.dynamics.frames import Rows, body_poses, linear_velocities
from gridgen.dynamics.kinematics import BaseMotion, body_motions, constants, placements
from gridgen.dynamics.mass import body_mass
from gridgen.dynamics.refusals import of_no_mass
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
    placed = placements(tree, q, scalars)
    _, moments = first_moments(tree, placed, _positive_mass(tree), scalars)
    return list(moments[-1])


def centre_of_mass_jacobian(tree: KinematicTree, q: Sequence[Scalar], scalars: Scalars) -> Rows:
    """Return the Jacobian of the centre of mass in the base, 3 x nv.

    Arguments and errors as in ``centre_of_mass``.
    """
    placed = placements(tree, q, scalars)
    masses, moments = first_moments(tree, placed, _positive_mass(tree), scalars)
    poses = body_poses(tree, placed, range(len(tree.bodies)), scalars)
    columns = [[scalars.constant(0.0)] * 3 for _ in range(tree.nv)]
    for index, body in enumerate(tree.bodies):
        scalars.begin("axis", index)
        for k, (slide, spin) in enumerate(subspace(body, scalars)):
            v = apply(poses[index].R, add(scale(masses[index], slide), cross(spin, moments[index])))
            if body.mimics:
                v = scale(scalars.constant(body.multiplier), v)
            column = columns[body.v_index + k]
            column[:] = [old + new for old, new in zip(column, v, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _positive_mass(tree: KinematicTree) -> float:
    if (reason := of_no_mass(tree)) is not None:
        raise ModelError(f"{tree.source}: robot {show(tree.name)}: {reason}")
    return tree.total_mass


def first_moments(
    tree: KinematicTree, placed: Sequence[Placement], unit: float, scalars: Scalars
) -> tuple[list[Scalar], list[Vector]]:
    """Return mass and first moment of every subtree, in its body's frame; last, of all in the base.

    Args:
        tree:    the robot.
        placed:  placements of its bodies.
        unit:    the mass that counts as one.
        scalars: the kind of number.
    """
    own = [body_mass(body, scalars, unit) for body in tree.bodies]
    masses, moments = [mass.m for mass in own], [mass.h for mass in own]
    masses.append(scalars.constant(0.0))  # index -1: the base
    moments.append(constants(ZERO, scalars))
    for index in reversed(range(len(tree.bodies))):
        scalars.begin("composite", index)
        parent = tree.bodies[index].parent
        arm = scale(masses[index], placed[index].r)
        carried = add(placed[index].to_parent(moments[index]), arm)
        moments[parent] = scalars.keep("h", parent, add(moments[parent], carried))
        masses[parent] = masses[parent] + masses[index]
    return masses, moments


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
        mass, (x, y, z) = body_mass(body, scalars), motion.w
        momentum = add(scale(mass.m, v), cross(motion.w, scale(2.0, mass.h)))
        xx, xy, xz, yy, yz, zz = mass.I
        rows = (xx * x + 2.0 * xy * y + 2.0 * xz * z, yy * y + 2.0 * yz * z, zz * z)
        twice = twice + dot(v, momentum)
        twice = twice + (x * rows[0] + y * rows[1] + rows[2] * z)
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
    _, moments = first_moments(tree, placements(tree, q, scalars), 1.0, scalars)
    return scalars.constant(0.0) - dot(gravity, moments[-1])
