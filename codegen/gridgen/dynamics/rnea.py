"""Inverse dynamics: recursive Newton-Euler (Yang, Wu, Pan (prefix sums) eq. 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gridgen.dynamics.kinematics import BaseMotion, BodyMotion, body_motions, joint_rate, placements
from gridgen.dynamics.mass import body_mass, body_moments
from gridgen.dynamics.parameters import (
    add_given_damping,
    armature,
    has_armature,
    own_damping,
)
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import Placement, Wrench, add, apply, constants, split, sub, transpose


def inverse_dynamics(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar] | None,
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None = None,
) -> list[Scalar]:
    """Return the joint efforts that produce ``qdd``.

    Args:
        qdd:     joint accelerations, nv scalars; ``None`` gives the bias forces.

    Returns:
        tau: joint efforts, nv scalars [N m or N].
    """
    return inverse_dynamics_at(tree, placements(tree, q, scalars), qd, qdd, base, scalars, f_ext)


def inverse_dynamics_at(
    tree: KinematicTree,
    placed: Sequence[Placement],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar] | None,
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None,
) -> list[Scalar]:
    """Return what ``inverse_dynamics`` does where the placements of the bodies are known."""
    motions = body_motions(tree, placed, qd, qdd, base, scalars)
    forces = body_forces(tree, motions, f_ext, scalars)
    return torques_of_forces(tree, placed, forces, qd, qdd, scalars)


def torques_of_forces(
    tree: KinematicTree,
    placed: Sequence[Placement],
    forces: list[Wrench],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar] | None,
    scalars: Scalars,
) -> list[Scalar]:
    """Return the joint efforts that wrenches on the bodies take, which are used up."""
    forces = transmitted_forces(tree, placed, forces, scalars)
    tau = joint_efforts(tree, forces, scalars)
    return add_joint_dynamics(tree, tau, qd, qdd, scalars)


def bias_forces(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None = None,
) -> list[Scalar]:
    """Return what Coriolis, centrifugal, gravity and external forces take (prefix sums eq. 5)."""
    return inverse_dynamics(tree, q, qd, None, base, scalars, f_ext)


def body_forces(
    tree: KinematicTree,
    motions: Iterable[tuple[int, BodyMotion]],
    f_ext: Sequence[Scalar] | None,
    scalars: Scalars,
) -> list[Wrench]:
    """Return the wrench that each body's motion needs, less the external one (Newton-Euler)."""
    forces = scalars.table("force", len(tree.bodies))
    for index, motion in motions:
        body = tree.bodies[index]
        mass, moments = body_mass(tree, index, scalars), body_moments(tree, index, 1.0, scalars)
        f, n = mass.field_wrench(motion.a, motion.field, moments)
        if f_ext is not None:
            force, moment = split(f_ext[6 * index : 6 * index + 6])
            to_body = transpose(
                tuple(constants(row, scalars) for row in body.link_rotation)  # type: ignore[arg-type]
            )
            f, n = sub(f, apply(to_body, force)), sub(n, apply(to_body, moment))
        forces[index] = (scalars.keep("f", index, f), scalars.keep("n", index, n))
    return forces


def transmitted_forces(
    tree: KinematicTree,
    placed: Sequence[Placement],
    total: list[Wrench],
    scalars: Scalars,
) -> list[Wrench]:
    """Accumulate the wrenches towards the root: those each joint transmits (prefix sums eq. 2).

    They take the place of what is given, the wrenches on the bodies.
    """
    for index in tree.inward():
        parent = tree.bodies[index].parent
        if parent < 0:
            continue
        scalars.begin("inward", index)
        f, n = placed[index].force_to_parent(*total[index])
        f, n = add(total[parent][0], f), add(total[parent][1], n)
        total[parent] = (scalars.keep("f", parent, f), scalars.keep("n", parent, n))
    return total


def joint_efforts(tree: KinematicTree, forces: Sequence[Wrench], scalars: Scalars) -> list[Scalar]:
    """Project each transmitted wrench on its joint (tau = S^T F); followers act on their leader."""
    tau = scalars.table("tau", tree.nv, scalars.constant(0.0))
    for index in tree.outward():
        body = tree.bodies[index]
        for k, effort in enumerate(body.joint_type.projected(forces[index])):
            if body.mimics:
                effort = scalars.constant(body.multiplier) * effort
            j = body.v_index + k
            # Only a joint of one velocity has followers, which add to it.
            tau[j] = tau[j] + effort if body.joint_type.nv == 1 else effort
    return tau


def add_joint_dynamics(
    tree: KinematicTree,
    total: list[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar] | None,
    scalars: Scalars,
) -> list[Scalar]:
    """Add viscous damping, Coulomb friction and the armatures' inertia to joint efforts."""
    for index in tree.outward():
        body = tree.bodies[index]
        damping = own_damping(tree, body)
        if damping or body.friction:
            (rate,) = joint_rate(body, qd, scalars)
            effort = scalars.constant(damping) * rate
            effort = effort + scalars.constant(body.friction) * scalars.sign(rate)
            if body.mimics:
                effort = scalars.constant(body.multiplier) * effort
            total[body.v_index] = total[body.v_index] + effort
    add_given_damping(tree, total, qd, scalars)
    if qdd is not None:
        for j in tree.velocities.outward():
            if has_armature(tree, j):
                total[j] = total[j] + armature(tree, j, scalars) * qdd[j]
    return total
