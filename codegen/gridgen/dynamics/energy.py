"""Center of mass and energies, in the frame of the fixed base."""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.dynamics.frames import Rows, add_column, body_poses, linear_velocities
from gridgen.dynamics.kinematics import BaseMotion, all_motions, placements
from gridgen.dynamics.mass import body_mass
from gridgen.dynamics.parameters import armature, has_armature
from gridgen.dynamics.refusals import of_no_mass
from gridgen.errors import ModelError
from gridgen.model.tree import KinematicTree
from gridgen.naming import show
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    ZERO,
    Placement,
    Vector,
    add,
    apply,
    constants,
    cross,
    dot,
    scale,
)


def center_of_mass(tree: KinematicTree, q: Sequence[Scalar], scalars: Scalars) -> list[Scalar]:
    """Return the center of mass of the moving bodies, in the base frame [m].

    Raises:
        ModelError: the robot has no mass.
    """
    return list(center_of_all(tree, placements(tree, q, scalars), scalars))


def center_of_all(tree: KinematicTree, placed: Sequence[Placement], scalars: Scalars) -> Vector:
    """Return the center of mass in the base frame, for given placements."""
    unit, share = _units(tree, scalars)
    *_, center = first_moments(tree, placed, unit, scalars)
    return center if share is None else scale(share, center)


def center_of_mass_jacobian(tree: KinematicTree, q: Sequence[Scalar], scalars: Scalars) -> Rows:
    """Return the Jacobian of the center of mass in the base frame, 3 x nv.

    Arguments and errors as in ``center_of_mass``.
    """
    placed = placements(tree, q, scalars)
    unit, share = _units(tree, scalars)
    masses, moments, _ = first_moments(tree, placed, unit, scalars)
    poses = body_poses(tree, placed, scalars)
    J = scalars.matrix("J", 3, tree.nv)
    for index in tree.outward():
        body = tree.bodies[index]
        scalars.begin("axis", index)
        for k, (slide, spin) in enumerate(body.joint_type.subspace(scalars)):
            v = apply(poses[index].R, add(scale(masses[index], slide), cross(spin, moments[index])))
            v = v if share is None else scale(share, v)
            add_column(tree, body, k, v, J, scalars)
    return J


def _units(tree: KinematicTree, scalars: Scalars) -> tuple[float, Scalar | None]:
    """Return the unit of mass, and a factor for results where the total mass is an input.

    Constants absorb the division by a known mass.
    """
    if (reason := of_no_mass(tree)) is not None:
        raise ModelError(f"{tree.source}: robot {show(tree.name)}: {reason}")
    if "params" not in tree.given:
        return tree.total_mass, None
    total = scalars.carry("mass", scalars.constant(0.0))
    for index in tree.outward():
        total.value = total.value + body_mass(tree, index, scalars).m
    return 1.0, scalars.constant(1.0) / total.value


def first_moments(
    tree: KinematicTree, placed: Sequence[Placement], unit: float, scalars: Scalars
) -> tuple[list[Scalar], list[Vector], Vector]:
    """Return mass and first moment of every subtree in its body's frame, and the total moment.

    The total is in the base frame.

    Args:
        placed:  placements of the bodies.
        unit:    unit of mass.
    """
    masses = scalars.table("mass", len(tree.bodies))
    moments = scalars.table("moment", len(tree.bodies))
    for index in tree.outward():
        scalars.begin("composite", index)
        own = body_mass(tree, index, scalars, unit)
        masses[index], moments[index] = own.m, own.h
    total = scalars.carry("total", constants(ZERO, scalars))
    for index in tree.inward():
        scalars.begin("composite", index)
        parent = tree.bodies[index].parent
        arm = scale(masses[index], placed[index].r)
        carried = add(placed[index].to_parent(moments[index]), arm)
        if parent < 0:
            total.value = scalars.keep("h", -1, add(total.value, carried))
        else:
            moments[parent] = scalars.keep("h", parent, add(moments[parent], carried))
            masses[parent] = masses[parent] + masses[index]
    return masses, moments, total.value


def kinetic_energy(
    tree: KinematicTree, q: Sequence[Scalar], qd: Sequence[Scalar], scalars: Scalars
) -> Scalar:
    """Return the kinetic energy qd^T M qd / 2, for a base at rest [J]."""
    placed = placements(tree, q, scalars)
    at_rest = BaseMotion(constants(ZERO, scalars))
    motions = all_motions(tree, placed, qd, None, at_rest, scalars)
    velocities = linear_velocities(tree, placed, motions, qd, scalars)
    twice = scalars.carry("twice", scalars.constant(0.0))
    for index in tree.outward():
        scalars.begin("energy", index)
        mass, w, v = body_mass(tree, index, scalars), motions[index].w, velocities[index]
        x, y, z = w
        momentum = add(scale(mass.m, v), cross(w, scale(2.0, mass.h)))
        xx, xy, xz, yy, yz, zz = mass.I
        rows = (xx * x + 2.0 * xy * y + 2.0 * xz * z, yy * y + 2.0 * yz * z, zz * z)
        energy = twice.value + dot(v, momentum)
        twice.value = energy + (x * rows[0] + y * rows[1] + rows[2] * z)
    for j in tree.velocities.outward():
        if has_armature(tree, j):
            twice.value = twice.value + armature(tree, j, scalars) * qd[j] * qd[j]
    return scalars.constant(0.5) * twice.value


def potential_energy(
    tree: KinematicTree, q: Sequence[Scalar], gravity: Vector, scalars: Scalars
) -> Scalar:
    """Return the potential energy, zero for a center of mass at the origin of the base [J]."""
    *_, moment = first_moments(tree, placements(tree, q, scalars), 1.0, scalars)
    return scalars.constant(0.0) - dot(gravity, moment)
