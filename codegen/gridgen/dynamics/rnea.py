"""Inverse dynamics: recursive Newton-Euler (Yang, Wu, Pan (prefix sums) eq. 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gridgen.dynamics.kinematics import BodyMotion, body_motions
from gridgen.dynamics.losses import joint_loss
from gridgen.dynamics.mass import body_mass, body_moments
from gridgen.dynamics.state import Numbers, State
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import Wrench, add, apply, constants, split, sub, transpose


def inverse_dynamics(state: State, qdd: Numbers | None = None) -> list[Scalar]:
    """Return the joint torques that produce ``qdd``.

    Args:
        qdd: joint accelerations, nv scalars; ``None`` for the bias forces.

    Returns:
        tau: generalized forces, nv scalars [N m or N].
    """
    return torques_of_forces(state, body_forces(state, body_motions(state, qdd)), qdd)


def torques_of_forces(
    state: State, forces: list[Wrench], qdd: Numbers | None = None
) -> list[Scalar]:
    """Return the joint torques that balance wrenches on the bodies; overwrites ``forces``."""
    tau = joint_efforts(state, transmitted_forces(state, forces))
    return add_joint_dynamics(state, tau, qdd)


def bias_forces(state: State) -> list[Scalar]:
    """Return the Coriolis, centrifugal, gravity and external forces (prefix sums eq. 5)."""
    return inverse_dynamics(state)


def body_forces(state: State, motions: Iterable[tuple[int, BodyMotion]]) -> list[Wrench]:
    """Return each body's inertial wrench minus the external wrench (Newton-Euler)."""
    tree, scalars, f_ext = state.tree, state.scalars, state.f_ext
    forces = scalars.table("force", len(tree.bodies))
    for index, motion in motions:
        body = tree.bodies[index]
        mass, moments = body_mass(state, index), body_moments(state, index, 1.0)
        f, n = mass.field_wrench(motion.a, motion.field, moments)
        if f_ext is not None:
            force, moment = split(f_ext[6 * index : 6 * index + 6])
            to_body = transpose(
                tuple(constants(row, scalars) for row in body.link_rotation)  # type: ignore[arg-type]
            )
            f, n = sub(f, apply(to_body, force)), sub(n, apply(to_body, moment))
        forces[index] = (scalars.keep("f", index, f), scalars.keep("n", index, n))
    return forces


def transmitted_forces(state: State, total: list[Wrench]) -> list[Wrench]:
    """Accumulate the wrenches towards the root: those each joint transmits (prefix sums eq. 2).

    Overwrites ``total``, the wrenches on the bodies.
    """
    tree, placed, scalars = state.tree, state.placed, state.scalars
    for index in tree.inward():
        parent = tree.bodies[index].parent
        if parent < 0:
            continue
        scalars.begin("inward", index)
        f, n = placed[index].force_to_parent(*total[index])
        f, n = add(total[parent][0], f), add(total[parent][1], n)
        total[parent] = (scalars.keep("f", parent, f), scalars.keep("n", parent, n))
    return total


def joint_efforts(state: State, forces: Sequence[Wrench]) -> list[Scalar]:
    """Project transmitted wrenches on the joints, tau = S^T F; mimic joints add to their leader."""
    tree, scalars = state.tree, state.scalars
    tau = scalars.table("tau", tree.nv, scalars.constant(0.0))
    for index in tree.outward():
        body = tree.bodies[index]
        for k, effort in enumerate(body.joint_type.projected(forces[index])):
            if body.mimics:
                effort = scalars.constant(body.multiplier) * effort
            j = body.v_index + k
            # Only a joint of one velocity has mimic joints, which add to it.
            tau[j] = tau[j] + effort if body.joint_type.nv == 1 else effort
    return tau


def add_joint_dynamics(
    state: State, total: list[Scalar], qdd: Numbers | None = None
) -> list[Scalar]:
    """Add damping, friction and armature inertia to joint torques."""
    for j in state.tree.velocities.outward():
        if (loss := joint_loss(state, j)) is not None:
            total[j] = total[j] + loss
        if qdd is not None and state.has("armature", j):
            total[j] = total[j] + state.own("armature", j) * qdd[j]
    return total
