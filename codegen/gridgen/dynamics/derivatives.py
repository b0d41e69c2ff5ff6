"""The Coriolis matrix, and analytical gradients of inverse and forward dynamics."""

from __future__ import annotations

from dataclasses import dataclass

from gridgen.dynamics.crba import add_damping, factorized
from gridgen.dynamics.linear import Factorization, ldlt_solve
from gridgen.dynamics.losses import add_loss_slopes
from gridgen.dynamics.minverse import (
    inverse,
    inverse_by_responses,
    is_deep,
    minus_products,
    solve_columns,
)
from gridgen.dynamics.motion_derivatives import MotionChange, Source
from gridgen.dynamics.state import Numbers, State
from gridgen.dynamics.sweep import Square, Sweep
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import cross, scale


def inverse_dynamics_gradient(state: State, qdd: Numbers) -> tuple[Square, Square]:
    """Return the derivatives of the joint torques with respect to positions and velocities.

    Derivatives with respect to positions are along the joints' velocities. For a free joint this is
    Pinocchio's tangent space: a displacement in the body's own frame. External wrenches are
    constant in the frames of their links; Coulomb friction without a width is constant.

    Returns:
        dtau_dq:  nv x nv, row i for torque i; zero between branches.
        dtau_dqd: nv x nv.
    """
    return _torques_gradient(Sweep(state), qdd)


def _torques_gradient(sweep: Sweep, qdd: Numbers) -> tuple[Square, Square]:
    loaded = sweep.loaded(qdd)
    velocities, positions = sweep.by_velocities(), sweep.by_positions(*loaded)
    dtau_dqd, dtau_dq = sweep.gradients(velocities, positions)
    add_loss_slopes(sweep.state, dtau_dqd)
    return dtau_dq, dtau_dqd


def forward_dynamics_gradient(state: State, tau: Numbers) -> tuple[Square, Square, Square]:
    """Return the derivatives of the joint accelerations with respect to ``q``, ``qd`` and ``tau``.

    They are -M^-1 times the derivatives of inverse dynamics at the accelerations for ``tau``, and
    M^-1 itself. Mimic joints are supported.

    Returns:
        dqdd_dq, dqdd_dqd, dqdd_dtau: nv x nv each, row i for acceleration i.
    """
    rates = accelerations_gradient(state, tau)
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

    qdd: Numbers
    by_q: Square
    by_qd: Square
    by_tau: Square


def accelerations_gradient(
    state: State, tau: Numbers, damping_step: Scalar | None = None
) -> Accelerations:
    """Return the joint accelerations and the results of ``forward_dynamics_gradient``.

    ``damping_step`` is as in ``gridgen.dynamics.aba.forward_dynamics_aba``.
    """
    scalars = state.scalars
    if scalars.has_loops:
        return _gradient_in_loops(state, tau, damping_step)
    start = begin_gradient(state, damping_step)
    right = [effort - loss for effort, loss in zip(tau, start.bias, strict=True)]
    qdd = ldlt_solve(start.factors, right)
    dtau_dq, dtau_dqd = start.gradients(qdd)
    scalars.begin("solve", -1)
    dqdd_dq = solve_columns(state, start.factors, dtau_dq)
    dqdd_dqd = solve_columns(state, start.factors, dtau_dqd)
    return Accelerations(qdd, dqdd_dq, dqdd_dqd, inverse(state, start.factors))


@dataclass(frozen=True)
class Start:
    """The quantities of a gradient of forward dynamics that precede the accelerations.

    Attributes:
        sweep:    of the state.
        bias:     bias forces, nv.
        dtau_dqd: gradient of inverse dynamics by the velocities, without damping.
        factors:  of the mass matrix.
    """

    sweep: Sweep
    bias: Numbers
    dtau_dqd: Square
    factors: Factorization

    def gradients(self, qdd: Numbers) -> tuple[Square, Square]:
        """Return the gradients of inverse dynamics at accelerations, by positions, velocities."""
        sweep = self.sweep
        (dtau_dq,) = sweep.gradients(sweep.by_positions(*sweep.loaded(qdd)))
        add_loss_slopes(sweep.state, self.dtau_dqd)
        return dtau_dq, self.dtau_dqd


def begin_gradient(state: State, damping_step: Scalar | None) -> Start:
    """Return the mass matrix's factors and the bias forces from the sweep of a gradient."""
    sweep, M = Sweep(state), state.matrix("M")
    (dtau_dqd,) = sweep.gradients(sweep.by_velocities(), M=M)
    is_plain = state.f_ext is None and state.is_base_at_rest
    bias = sweep.bias_at_rest(dtau_dqd) if is_plain else sweep.bias_forces()
    add_damping(state, M, damping_step)
    return Start(sweep, bias, dtau_dqd, factorized(state, M))


def _gradient_in_loops(state: State, tau: Numbers, damping_step: Scalar | None) -> Accelerations:
    """Compute ``accelerations_gradient`` in loops.

    Products with the inverse accumulate several rows and columns in registers. Column-wise
    solutions would read a factor from memory for every operation.
    """
    tree, scalars = state.tree, state.scalars
    sweep = Sweep(state)
    bias = sweep.bias_forces()
    if is_deep(tree) and damping_step is None:
        Minv = inverse_by_responses(state)
    else:
        M = state.matrix("M")
        sweep.gradients(M=M)
        add_damping(state, M, damping_step)
        Minv = inverse(state, factorized(state, M))
    scalars.begin("solve", -1)
    qdd = scalars.table("qdd", tree.nv)
    for i in tree.velocities.outward():
        total = scalars.carry("qdd", scalars.constant(0.0))
        for j in tree.velocities.outward():
            total.value = total.value + Minv[i][j] * (tau[j] - bias[j])
        qdd[i] = total.value
    right = _torques_gradient(sweep, qdd)
    scalars.begin("solve", -1)
    dqdd_dq, dqdd_dqd = minus_products(state, Minv, right, ("dqdd_dq", "dqdd_dqd"))
    return Accelerations(qdd, dqdd_dq, dqdd_dqd, Minv)


def coriolis_matrix(state: State) -> Square:
    """Return the Coriolis matrix C: C qd are the Coriolis and centrifugal forces.

    Among these matrices, it is the one for which dM/dt - 2 C is skew-symmetric, as in Pinocchio.
    With S an axis and v the velocity of its body, its column is the response to the acceleration
    v x S and to half the change of velocity along S (Echeandia and Wensing 2021). If every joint
    has one velocity, C is half the velocity gradient of the joint torques.

    Returns:
        nv x nv; zero between branches.
    """
    tree, scalars = state.tree, state.scalars
    sweep, source, half = Sweep(state.at_rest), Source(state, "C"), scalars.constant(0.5)
    for index in tree.outward():
        w = sweep.motions[index].w
        scalars.begin("outward", index)
        changes = [
            MotionChange(cross(w, slide), cross(w, spin), scale(half, spin))
            for slide, spin in sweep.axes(index)
        ]
        sweep.enter(source, index, changes)
    (C,) = sweep.gradients(source)
    return C
