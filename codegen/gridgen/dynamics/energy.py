"""Center of mass, energies and gravity forces, in the frame of the fixed base."""

from __future__ import annotations

from gridgen.dynamics.frames import Rows, add_column, body_poses, linear_velocities
from gridgen.dynamics.kinematics import all_motions
from gridgen.dynamics.mass import body_mass
from gridgen.dynamics.refusals import of_no_mass
from gridgen.dynamics.rnea import joint_efforts
from gridgen.dynamics.state import State
from gridgen.errors import ModelError
from gridgen.naming import show
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import (
    ZERO,
    Vector,
    Wrench,
    add,
    apply,
    constants,
    cross,
    dot,
    neg,
    scale,
)


def center_of_mass(state: State) -> Vector:
    """Return the center of mass of the moving bodies, in the world [m].

    Raises:
        ModelError: the robot has no mass.
    """
    unit, share = _units(state)
    *_, center = first_moments(state, unit)
    return center if share is None else scale(share, center)


def center_of_mass_jacobian(state: State) -> Rows:
    """Return the Jacobian of the center of mass in the world, 3 x nv.

    Arguments and errors as in ``center_of_mass``.
    """
    tree, scalars = state.tree, state.scalars
    unit, share = _units(state)
    masses, moments, _ = first_moments(state, unit)
    poses = body_poses(state)
    J = scalars.matrix("J", 3, tree.nv)
    for index in tree.outward():
        body = tree.bodies[index]
        scalars.begin("axis", index)
        for k, (slide, spin) in enumerate(body.joint_type.subspace(scalars)):
            v = apply(poses[index].R, add(scale(masses[index], slide), cross(spin, moments[index])))
            v = v if share is None else scale(share, v)
            add_column(state, body, k, v, J)
    return J


def _units(state: State) -> tuple[float, Scalar | None]:
    """Return the unit of mass, and a factor for results where the total mass is an input.

    Constants absorb the division by a known mass.
    """
    tree, scalars = state.tree, state.scalars
    if (reason := of_no_mass(tree)) is not None:
        raise ModelError(f"{tree.source}: robot {show(tree.name)}: {reason}")
    if "params" not in state.given:
        return tree.total_mass, None
    total = scalars.carry("mass", scalars.constant(0.0))
    for index in tree.outward():
        total.value = total.value + body_mass(state, index).m
    return 1.0, scalars.constant(1.0) / total.value


def first_moments(state: State, unit: float) -> tuple[list[Scalar], list[Vector], Vector]:
    """Return mass and first moment of every subtree in its body's frame, and the total moment.

    The total is in the world.

    Args:
        unit: unit of mass.
    """
    tree, placed, scalars = state.tree, state.placed, state.scalars
    masses = scalars.table("mass", len(tree.bodies))
    moments = scalars.table("moment", len(tree.bodies))
    for index in tree.outward():
        scalars.begin("composite", index)
        own = body_mass(state, index, unit)
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


def kinetic_energy(state: State) -> Scalar:
    """Return the kinetic energy qd^T M qd / 2, for a base at rest [J]."""
    state = state.at_rest
    tree, qd, scalars = state.tree, state.qd, state.scalars
    motions = all_motions(state)
    velocities = linear_velocities(state, motions)
    twice = scalars.carry("twice", scalars.constant(0.0))
    for index in tree.outward():
        scalars.begin("energy", index)
        mass, w, v = body_mass(state, index), motions[index].w, velocities[index]
        x, y, z = w
        momentum = add(scale(mass.m, v), cross(w, scale(2.0, mass.h)))
        xx, xy, xz, yy, yz, zz = mass.I
        rows = (xx * x + 2.0 * xy * y + 2.0 * xz * z, yy * y + 2.0 * yz * z, zz * z)
        energy = twice.value + dot(v, momentum)
        twice.value = energy + (x * rows[0] + y * rows[1] + rows[2] * z)
    for j in tree.velocities.outward():
        if state.has("armature", j):
            twice.value = twice.value + state.own("armature", j) * qd[j] * qd[j]
    return scalars.constant(0.5) * twice.value


def potential_energy(state: State) -> Scalar:
    """Return the potential energy, zero for a center of mass at the origin of the base [J]."""
    *_, moment = first_moments(state, 1.0)
    return state.scalars.constant(0.0) - dot(state.g, moment)


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
