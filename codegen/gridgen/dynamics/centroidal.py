"""Momentum about the center of mass, in the axes of the fixed base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gridgen.dynamics.crba import composite_masses
from gridgen.dynamics.energy import center_of_all, center_of_mass_jacobian
from gridgen.dynamics.frames import Pose, Rows, add_column, body_poses, linear_velocities
from gridgen.dynamics.kinematics import BaseMotion, all_motions, placements
from gridgen.dynamics.mass import Mass, body_mass, moment
from gridgen.dynamics.rnea import transmitted_forces
from gridgen.dynamics.sweep import Sweep
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars
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


def centroidal_momentum_matrix_derivative(
    tree: KinematicTree, q: Sequence[Scalar], qd: Sequence[Scalar], scalars: Scalars
) -> Rows:
    """Return the time derivative of the centroidal momentum matrix (Pinocchio's dAg).

    Arguments and errors as in ``centroidal_momentum``. A column is the derivative of the integral
    of the velocity field of an axis over its subtree, whose points move.
    """
    sweep = Sweep(tree, q, qd, BaseMotion(constants(ZERO, scalars)), scalars)
    poses = body_poses(tree, sweep.placed, scalars)
    center = center_of_all(tree, sweep.placed, scalars)
    J = center_of_mass_jacobian(tree, q, scalars)
    drift = scalars.carry("drift", constants(ZERO, scalars))
    for j in tree.velocities.outward():
        drift.value = add(drift.value, scale(qd[j], (J[0][j], J[1][j], J[2][j])))
    moving = drift.value
    velocities = linear_velocities(tree, sweep.placed, sweep.motions, qd, scalars)
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
            add_column(tree, body, k, (*df, *dn), A, scalars)
    return A


def centroidal_inertia(tree: KinematicTree, q: Sequence[Scalar], scalars: Scalars) -> Matrix:
    """Return the rotational inertia about the center of mass (that of Pinocchio's Ig).

    Raises:
        ModelError: the robot has no mass.
    """
    placed = placements(tree, q, scalars)
    center = center_of_all(tree, placed, scalars)
    masses = composite_masses(tree, placed, scalars)
    zero = scalars.constant(0.0)
    total = scalars.carry("total", Mass(zero, (zero,) * 3, (zero,) * 6))
    for index in tree.outward():
        if tree.bodies[index].parent < 0:
            scalars.begin("composite", index)
            about = replace(placed[index], r=sub(placed[index].r, center))
            total.value = total.value + masses[index].to_parent(about)
    return full(total.value.I)


def centroidal_dynamics_gradient(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    scalars: Scalars,
) -> tuple[Rows, Rows, Rows]:
    """Return the derivatives of the centroidal momentum and of its rate hgdot.

    hgdot is the wrench that moves all bodies without gravity; the momentum is that of a robot at
    rest with accelerations qd. The derivative by the position or velocity of a joint is the change
    of the wrench that the joint transmits, and of the center of mass.

    Returns:
        dhg_dq, dhgdot_dq, dhgdot_dqd: 6 x nv each; hgdot by qdd is the matrix itself.
    """
    base, still = BaseMotion(constants(ZERO, scalars)), scalars.table("still", tree.nv)
    for j in tree.velocities.outward():
        still[j] = scalars.constant(0.0)
    at_rest, sweep = (Sweep(tree, q, rates, base, scalars) for rates in (still, qd))
    poses = body_poses(tree, sweep.placed, scalars)
    center = center_of_all(tree, sweep.placed, scalars)
    J = center_of_mass_jacobian(tree, q, scalars)
    resting, moving = at_rest.loaded(qd, None), sweep.loaded(qdd, None)
    found = (
        ("dhg_dq", at_rest.by_positions(*resting).felt, resting),
        ("dhgdot_dq", sweep.by_positions(*moving).felt, moving),
        ("dhgdot_dqd", sweep.by_velocities().own, None),
    )
    results = []
    for symbol, felt, loaded in found:
        A = scalars.matrix(symbol, 6, tree.nv)
        total = None if loaded is None else _total_force(tree, poses, loaded[1], scalars)
        for index in tree.outward():
            body, pose = tree.bodies[index], poses[index]
            arm = sub(pose.p, center)
            for k, wrench in enumerate(felt[index]):
                scalars.begin("column", index)
                f, n = (apply(pose.R, part) for part in wrench)
                add_column(tree, body, k, (*f, *add(n, cross(arm, f))), A, scalars)
        if total is not None:
            for j in tree.velocities.outward():
                x, y, z = cross(total, (J[0][j], J[1][j], J[2][j]))
                for row, entry in enumerate((x, y, z), start=3):
                    A[row][j] = A[row][j] + entry
        results.append(A)
    return results[0], results[1], results[2]


def _total_force(
    tree: KinematicTree, poses: Sequence[Pose], forces: Sequence[Wrench], scalars: Scalars
) -> Vector:
    """Return the sum of the forces that the base transmits, in its axes."""
    scalars.begin("inward", -1)
    total = scalars.carry("total", constants(ZERO, scalars))
    for index in tree.outward():
        if tree.bodies[index].parent < 0:
            total.value = add(total.value, apply(poses[index].R, forces[index][0]))
    found: Vector = total.value
    return found
