"""Analytical gradients of inverse and forward dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.dynamics.crba import add_damping
from gridgen.dynamics.kinematics import BaseMotion
from gridgen.dynamics.linear import Factorization, ldlt, ldlt_solve
from gridgen.dynamics.minverse import (
    inverse,
    inverse_by_responses,
    is_deep,
    minus_products,
    solve_columns,
)
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
    """Return the derivatives of the joint torques with respect to positions and velocities.

    Derivatives with respect to positions are along the joints' velocities. For a free joint this is
    Pinocchio's tangent space: a displacement in the body's own frame. External wrenches are
    constant in the frames of their links; Coulomb friction is constant.

    Returns:
        dtau_dq:  nv x nv, row i for torque i; zero between branches.
        dtau_dqd: nv x nv.
    """
    sweep = Sweep(tree, q, qd, base, scalars)
    loaded = sweep.loaded(qdd, f_ext)
    velocities, positions = sweep.by_velocities(), sweep.by_positions(*loaded)
    dtau_dqd, dtau_dq = sweep.gradients(velocities, positions)
    add_damping(tree, dtau_dqd, scalars.constant(1.0), scalars)
    return dtau_dq, dtau_dqd


def forward_dynamics_gradient(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None = None,
) -> tuple[Square, Square, Square]:
    """Return the derivatives of the joint accelerations with respect to ``q``, ``qd`` and ``tau``.

    They are -M^-1 times the derivatives of inverse dynamics at the accelerations for ``tau``, and
    M^-1 itself. Mimic joints are supported.

    Returns:
        dqdd_dq, dqdd_dqd, dqdd_dtau: nv x nv each, row i for acceleration i.
    """
    rates = accelerations_gradient(tree, q, qd, tau, base, scalars, f_ext)
    return rates.by_q, rates.by_qd, rates.by_tau


@dataclass(frozen=True)
class Accelerations:
    """Joint accelerations and their derivatives.

    Attributes:
        qdd:    accelerations, nv.
        by_q:   derivatives with respect to positions, nv x nv, row i for acceleration i.
        by_qd:  derivatives with respect to velocities.
        by_tau: derivatives with respect to generalized forces.
    """

    qdd: Sequence[Scalar]
    by_q: Square
    by_qd: Square
    by_tau: Square


def accelerations_gradient(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None = None,
    damping_step: Scalar | None = None,
) -> Accelerations:
    """Return the joint accelerations and the results of ``forward_dynamics_gradient``.

    ``damping_step`` is as in ``gridgen.dynamics.aba.accelerations_aba``.
    """
    if scalars.has_loops:
        return _gradient_in_loops(tree, q, qd, tau, base, scalars, f_ext, damping_step)
    start = begin_gradient(tree, q, qd, base, scalars, f_ext, damping_step)
    factors = start.factors
    right = [effort - loss for effort, loss in zip(tau, start.bias, strict=True)]
    qdd = ldlt_solve(factors, right)
    dtau_dq, dtau_dqd = start.gradients(tree, qdd, scalars)
    scalars.begin("solve", -1)
    dqdd_dq = solve_columns(tree, factors, dtau_dq, scalars)
    dqdd_dqd = solve_columns(tree, factors, dtau_dqd, scalars)
    return Accelerations(qdd, dqdd_dq, dqdd_dqd, inverse(tree, factors, scalars))


@dataclass(frozen=True)
class Start:
    """The quantities of a gradient of forward dynamics that precede the accelerations.

    Attributes:
        sweep:    of the state.
        bias:     bias forces, nv.
        dtau_dqd: gradient of inverse dynamics by the velocities, without damping.
        factors:  of the mass matrix.
        f_ext:    external wrenches.
    """

    sweep: Sweep
    bias: Sequence[Scalar]
    dtau_dqd: Square
    factors: Factorization
    f_ext: Sequence[Scalar] | None

    def gradients(
        self, tree: KinematicTree, qdd: Sequence[Scalar], scalars: Scalars
    ) -> tuple[Square, Square]:
        """Return the gradients of inverse dynamics at accelerations, by positions, velocities."""
        sweep = self.sweep
        (dtau_dq,) = sweep.gradients(sweep.by_positions(*sweep.loaded(qdd, self.f_ext)))
        add_damping(tree, self.dtau_dqd, scalars.constant(1.0), scalars)
        return dtau_dq, self.dtau_dqd


def begin_gradient(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None,
    damping_step: Scalar | None,
) -> Start:
    """Return the mass matrix's factors and the bias forces from the sweep of a gradient."""
    sweep = Sweep(tree, q, qd, base, scalars)
    M = scalars.matrix("M", tree.nv, tree.nv, zeros=not tree.couples_all)
    (dtau_dqd,) = sweep.gradients(sweep.by_velocities(), M=M)
    if f_ext is None and base.velocity is None and base.acceleration is None:
        bias = sweep.bias_at_rest(dtau_dqd)
    else:
        bias = sweep.bias_forces(f_ext)
    if damping_step is not None:
        add_damping(tree, M, damping_step, scalars)
    scalars.begin("solve", -1)
    factors = ldlt(M, tree.velocities, scalars.constant(1.0), scalars)
    return Start(sweep, bias, dtau_dqd, factors, f_ext)


def _gradient_in_loops(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None,
    damping_step: Scalar | None,
) -> Accelerations:
    """Compute ``accelerations_gradient`` in loops.

    Products with the inverse accumulate several rows and columns in registers. Column-wise
    solutions would read a factor from memory for every operation.
    """
    sweep = Sweep(tree, q, qd, base, scalars)
    bias = sweep.bias_forces(f_ext)
    if is_deep(tree) and damping_step is None:
        Minv = inverse_by_responses(tree, sweep.placed, scalars)
    else:
        M = scalars.matrix("M", tree.nv, tree.nv, zeros=not tree.couples_all)
        sweep.gradients(M=M)
        if damping_step is not None:
            add_damping(tree, M, damping_step, scalars)
        scalars.begin("solve", -1)
        factors = ldlt(M, tree.velocities, scalars.constant(1.0), scalars)
        Minv = inverse(tree, factors, scalars)
    scalars.begin("solve", -1)
    qdd = scalars.table("qdd", tree.nv)
    for i in tree.velocities.outward():
        total = scalars.carry("qdd", scalars.constant(0.0))
        for j in tree.velocities.outward():
            total.value = total.value + Minv[i][j] * (tau[j] - bias[j])
        qdd[i] = total.value
    loaded = sweep.loaded(qdd, f_ext)
    velocities, positions = sweep.by_velocities(), sweep.by_positions(*loaded)
    dtau_dqd, dtau_dq = sweep.gradients(velocities, positions)
    add_damping(tree, dtau_dqd, scalars.constant(1.0), scalars)
    scalars.begin("solve", -1)
    right, symbols = (dtau_dq, dtau_dqd), ("dqdd_dq", "dqdd_dqd")
    dqdd_dq, dqdd_dqd = minus_products(tree, Minv, right, symbols, scalars)
    return Accelerations(qdd, dqdd_dq, dqdd_dqd, Minv)
