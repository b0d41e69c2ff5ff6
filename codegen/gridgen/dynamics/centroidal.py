"""Momentum about the center of mass, in the axes of the fixed base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gridgen.dynamics.crba import composite_masses
from gridgen.dynamics.energy import center_of_mass, center_of_mass_jacobian
from gridgen.dynamics.frames import Pose, Rows, add_column, body_poses, linear_velocities
from gridgen.dynamics.kinematics import all_motions
from gridgen.dynamics.mass import Mass, body_mass, moment
from gridgen.dynamics.rnea import transmitted_forces
from gridgen.dynamics.state import Numbers, State
from gridgen.dynamics.sweep import Sweep
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import (
    ZERO,
    Matrix,
    Vector,
    Wrench,
    add,
    apply,
    constants,
    cross,
    full,
    scale,
    sub,
    transpose,
)


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


def centroidal_momentum_matrix_derivative(state: State) -> Rows:
    """Return the time derivative of the centroidal momentum matrix (Pinocchio's dAg).

    Arguments and errors as in ``centroidal_momentum``. A column is the derivative of the integral
    of the velocity field of an axis over its subtree, whose points move.
    """
    tree, scalars, qd = state.tree, state.scalars, state.qd
    sweep = Sweep(state.at_rest)
    poses, center, J = body_poses(state), center_of_mass(state), center_of_mass_jacobian(state)
    drift = scalars.carry("drift", constants(ZERO, scalars))
    for j in tree.velocities.outward():
        drift.value = add(drift.value, scale(qd[j], (J[0][j], J[1][j], J[2][j])))
    moving = drift.value
    velocities = linear_velocities(state, sweep.motions)
    A = scalars.matrix("A", 6, tree.nv)
    for index in tree.outward():
        body, pose, mass = tree.bodies[index], poses[index], sweep.masses[index]
        arm, w = sub(pose.p, center), sweep.motions[index].w
        arm_rate = sub(apply(pose.R, velocities[index]), moving)
        p, K = scale(0.5, mass.p), tuple(map(add, mass.K, transpose(mass.K)))
        for k, (slide, spin) in enumerate(sweep.axes(index)):
            scalars.begin("column", index)
            f, _ = mass.rest.wrench(slide, spin)
            df, dn = mass.rest.wrench(cross(w, slide), cross(w, spin))
            df = add(df, cross(spin, p))
            turned = scale(0.5, moment(K, spin))  # type: ignore[arg-type]
            dn = add(add(dn, cross(p, slide)), turned)
            f, df, dn = (apply(pose.R, part) for part in (f, df, dn))
            dn = add(dn, add(cross(arm_rate, f), cross(arm, df)))
            add_column(state, body, k, (*df, *dn), A)
    return A


def centroidal_inertia(state: State) -> Matrix:
    """Return the rotational inertia about the center of mass (that of Pinocchio's Ig).

    Raises:
        ModelError: the robot has no mass.
    """
    tree, scalars, placed = state.tree, state.scalars, state.placed
    center, masses = center_of_mass(state), composite_masses(state)
    zero = scalars.constant(0.0)
    total = scalars.carry("total", Mass(zero, (zero,) * 3, (zero,) * 6))
    for index in tree.outward():
        if tree.bodies[index].parent < 0:
            scalars.begin("composite", index)
            about = replace(placed[index], r=sub(placed[index].r, center))
            total.value = total.value + masses[index].to_parent(about)
    return full(total.value.I)


def centroidal_dynamics_gradient(state: State, qdd: Numbers) -> tuple[Rows, Rows, Rows]:
    """Return the derivatives of the centroidal momentum and of its rate hgdot.

    hgdot is the wrench that moves all bodies without gravity; the momentum is that of a robot at
    rest with accelerations qd. The derivative by the position or velocity of a joint is the change
    of the wrench that the joint transmits, and of the center of mass.

    Returns:
        dhg_dq, dhgdot_dq, dhgdot_dqd: 6 x nv each; hgdot by qdd is the matrix itself.
    """
    state = state.at_rest.without("f_ext")
    tree, scalars, qd = state.tree, state.scalars, state.qd
    still = scalars.table("still", tree.nv, scalars.constant(0.0))
    at_rest, sweep = (Sweep(state.at(state.q, rates)) for rates in (still, qd))
    poses, center, J = body_poses(state), center_of_mass(state), center_of_mass_jacobian(state)
    resting, moving = at_rest.loaded(qd), sweep.loaded(qdd)
    found = (
        ("dhg_dq", at_rest.by_positions(*resting).felt, resting),
        ("dhgdot_dq", sweep.by_positions(*moving).felt, moving),
        ("dhgdot_dqd", sweep.by_velocities().own, None),
    )
    results = []
    for symbol, felt, loaded in found:
        A = scalars.matrix(symbol, 6, tree.nv)
        total = None if loaded is None else _total_force(state, poses, loaded[1])
        for index in tree.outward():
            body, pose = tree.bodies[index], poses[index]
            arm = sub(pose.p, center)
            for k, wrench in enumerate(felt[index]):
                scalars.begin("column", index)
                f, n = (apply(pose.R, part) for part in wrench)
                add_column(state, body, k, (*f, *add(n, cross(arm, f))), A)
        if total is not None:
            for j in tree.velocities.outward():
                x, y, z = cross(total, (J[0][j], J[1][j], J[2][j]))
                for row, entry in enumerate((x, y, z), start=3):
                    A[row][j] = A[row][j] + entry
        results.append(A)
    return results[0], results[1], results[2]


def _total_force(state: State, poses: Sequence[Pose], forces: Sequence[Wrench]) -> Vector:
    """Return the sum of the forces that the base transmits, in its axes."""
    tree, scalars = state.tree, state.scalars
    scalars.begin("inward", -1)
    total = scalars.carry("total", constants(ZERO, scalars))
    for index in tree.outward():
        if tree.bodies[index].parent < 0:
            total.value = add(total.value, apply(poses[index].R, forces[index][0]))
    found: Vector = total.value
    return found
