"""Analytical gradients of inverse and forward dynamics."""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.dynamics.crba import velocity_parents
from gridgen.dynamics.kinematics import BaseMotion, body_motions
from gridgen.dynamics.linear import ldlt, ldlt_solve
from gridgen.dynamics.minverse import BranchSolver
from gridgen.dynamics.rnea import bias_forces, body_forces, transmitted_forces
from gridgen.dynamics.sweep import Square, Sweep
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars


def inverse_dynamics_gradient(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None = None,
) -> tuple[Square, Square]:
    """Return the derivatives of the joint efforts by joint positions and velocities.

    Positions change along the joints' velocities (for a free joint: by a displacement in the body's
    own frame, Pinocchio's tangent space). External wrenches stay what they are in the frames of
    their links; Coulomb friction counts as constant.

    Args:
        tree:    the robot.
        q:       joint positions, nq scalars [rad or m].
        qd:      joint velocities, nv scalars [rad/s or m/s].
        qdd:     joint accelerations, nv scalars [rad/s^2 or m/s^2].
        base:    motion of the base and gravity.
        scalars: the kind of number.
        f_ext:   wrench on every body in its link's frame, 6 scalars each, (f, n) [N, N m].

    Returns:
        dtau_dq:  nv x nv, row i the effort i; zero between branches.
        dtau_dqd: nv x nv.
    """
    sweep = Sweep(tree, q, qd, base, scalars)
    motions = list(body_motions(tree, sweep.placed, qd, qdd, base, scalars))
    forces = body_forces(tree, motions, f_ext, scalars)
    forces = transmitted_forces(tree, sweep.placed, forces, scalars)
    dtau_dqd = _damped(tree, sweep.by_velocities(), scalars)
    return sweep.by_positions(motions, forces), dtau_dqd


def forward_dynamics_gradient(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None = None,
) -> tuple[Square, Square, Square]:
    """Return the derivatives of the joint accelerations by positions, velocities and efforts.

    They are -M^-1 times those of inverse dynamics at the accelerations that ``tau`` produces, and
    M^-1 itself.

    Arguments as in ``gridgen.dynamics.aba.forward_dynamics_aba``; mimic joints are allowed.

    Returns:
        dqdd_dq, dqdd_dqd, dqdd_dtau: nv x nv each, row i the acceleration i.
    """
    sweep = Sweep(tree, q, qd, base, scalars)
    M, dtau_dqd = sweep.mass_matrix(), sweep.by_velocities()
    if f_ext is None and base.velocity is None and base.acceleration is None:
        bias = sweep.bias_at_rest(dtau_dqd)
    else:
        bias = bias_forces(tree, q, qd, base, scalars, f_ext)
    scalars.begin("solve", -1)
    parents = velocity_parents(tree)
    factors = ldlt(M, parents, scalars.constant(1.0))
    qdd = ldlt_solve(factors, [effort - loss for effort, loss in zip(tau, bias, strict=True)])

    motions = list(body_motions(tree, sweep.placed, qd, qdd, base, scalars))
    forces = body_forces(tree, motions, f_ext, scalars)
    forces = transmitted_forces(tree, sweep.placed, forces, scalars)
    dtau_dq = sweep.by_positions(motions, forces)
    scalars.begin("solve", -1)
    solver = BranchSolver(factors, parents, scalars)
    dqdd_dq, dqdd_dqd = (
        _transposed(
            [solver.solve(column, j, sign=-1.0) for j, column in enumerate(_transposed(gradient))]
        )
        for gradient in (dtau_dq, _damped(tree, dtau_dqd, scalars))
    )
    return dqdd_dq, dqdd_dqd, solver.inverse()


def _damped(tree: KinematicTree, dtau_dqd: Square, scalars: Scalars) -> Square:
    """Add the joints' viscous damping to the diagonal."""
    damped = [row[:] for row in dtau_dqd]
    for body in tree.bodies:
        if body.damping:
            damping = scalars.constant(body.damping * body.multiplier**2)
            damped[body.v_index][body.v_index] = damped[body.v_index][body.v_index] + damping
    return damped


def _transposed(matrix: Square) -> Square:
    return [list(column) for column in zip(*matrix, strict=True)]
