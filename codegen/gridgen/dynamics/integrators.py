"""Time steps: the final state of a step with constant joint torques.

A step moves the configuration along a velocity in the tangent space, with ``integrate``, which
preserves the norm of quaternions. Velocities follow from the accelerations of forward dynamics, by
articulated bodies, or by the factorized mass matrix for robots with mimic joints; for robots with
constraints, from those of forward dynamics with constraints.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gridgen.dynamics.aba import forward_dynamics_aba
from gridgen.dynamics.actuators import actuated, damped
from gridgen.dynamics.configurations import integrate, own_joints
from gridgen.dynamics.constraints import constrained_forward_dynamics
from gridgen.dynamics.contacts.forward import (
    contact_forward_dynamics,
    contact_rk4,
    contact_step,
)
from gridgen.dynamics.conventions import natural
from gridgen.dynamics.crba import forward_dynamics_crba
from gridgen.dynamics.state import Numbers, State
from gridgen.dynamics.variational import variational_step
from gridgen.symbolic.scalars import Scalar

Next = tuple[list[Scalar], list[Scalar]]


def _step(
    state: State,
    tau: Numbers,
    dt: Numbers,
    *,
    share: float = 1.0,
    is_damping_implicit: bool = False,
) -> Next:
    """Return the state (q, qd) after one step with the initial accelerations.

    The velocities after a ``share`` of the step move the configuration.
    """
    if state.tree.contact_model.acts:
        if state.world_axes:
            conversion, own, tau = natural(state, tau)
            q, qd = contact_step(own, tau, dt[0], share, is_damping_implicit=is_damping_implicit)
            return conversion.state(q, qd)
        return contact_step(state, tau, dt[0], share, is_damping_implicit=is_damping_implicit)
    qdd = accelerations(state, tau, dt[0] if is_damping_implicit else None)
    end = moved(state, state.qd, (dt[0], qdd))
    return integrate(state, scaled(state, dt[0], velocities_after(state, dt[0], share, qdd))), end


def velocities_after(state: State, step: Scalar, share: float, qdd: Numbers) -> Numbers:
    """Return the velocities after a share of a step with constant accelerations."""
    return moved(state, state.qd, (share * step, qdd)) if share else state.qd


#: The semi-implicit (symplectic) Euler method.
semi_implicit = _step
#: The explicit Euler method.
euler = partial(_step, share=0.0)
#: The configuration follows the constant accelerations: q + dt qd + dt^2 qdd / 2.
constant_acceleration = partial(_step, share=0.5)
#: The semi-implicit method with implicit viscous damping D, which is stable for any damping and
#: step length: (M + dt D) (qd' - qd) = dt (tau - h - D qd).
implicit = partial(_step, is_damping_implicit=True)


def midpoint(state: State, tau: Numbers, dt: Numbers) -> Next:
    """Return the state after a step with the rates at the middle of an Euler step, order two."""
    qd, step, half = state.qd, dt[0], 0.5 * dt[0]
    middle = moved(state, qd, (half, accelerations(state, tau)))
    there = state.at(integrate(state, scaled(state, half, qd)), middle)
    end = moved(state, qd, (step, accelerations(there, tau)))
    return integrate(state, scaled(state, step, middle)), end


def trapezoidal(state: State, tau: Numbers, dt: Numbers) -> Next:
    """Return the state after a step with the mean of the rates at both ends of an Euler step.

    Source: Heun's method, of order two.
    """
    qd, step, half = state.qd, dt[0], 0.5 * dt[0]
    first = accelerations(state, tau)
    ahead = moved(state, qd, (step, first))
    there = state.at(integrate(state, scaled(state, step, qd)), ahead)
    middle = moved(state, qd, (half, first))  # the mean of both velocities
    end = moved(state, middle, (half, accelerations(there, tau)))
    return integrate(state, scaled(state, step, middle)), end


def rk4(state: State, tau: Numbers, dt: Numbers) -> Next:
    """Return the state after a step of the classical Runge-Kutta method.

    For free joints, whose directions do not commute, two commutators preserve the fourth order
    (the method's form for Lie groups). Other joints follow the textbook method.

    Source: Munthe-Kaas 1999.
    """
    if state.tree.contact_model.acts:
        if state.world_axes:
            conversion, own, _ = natural(state, tau)
            return conversion.state(*contact_rk4(own, tau, dt[0], is_world=True))
        return contact_rk4(state, tau, dt[0])
    qd, step, half, commutators = state.qd, dt[0], 0.5 * dt[0], Commutators(state)

    def rates(path: Numbers, qd: Numbers) -> list[Scalar]:
        return accelerations(state.at(integrate(state, path), qd), tau)

    v1, a1 = qd, accelerations(state, tau)
    v2 = moved(state, qd, (half, a1))
    a2 = rates(scaled(state, half, v1), v2)
    v3 = moved(state, qd, (half, a2))
    path = commutators.add(scaled(state, half, v2), 0.5 * half * half, v1, v2)
    a3 = rates(path, v3)
    v4 = moved(state, qd, (step, a3))
    a4 = rates(scaled(state, step, v3), v4)
    sixth = step * (1.0 / 6.0)
    path = scaled(state, sixth, weighted(state, v1, v2, v3, v4))
    path = commutators.add(path, 0.5 * step * sixth, v1, v4)
    end = moved(state, qd, (sixth, weighted(state, a1, a2, a3, a4)))
    return integrate(state, path), end


#: The variational midpoint method.
variational = variational_step


def accelerations(state: State, tau: Numbers, damping_step: Scalar | None = None) -> list[Scalar]:
    """Return the accelerations with constraints, otherwise by the method ``auto`` selects."""
    if state.world_axes:
        conversion, own, tau = natural(state, tau)
        return list(conversion.acceleration(accelerations(own, tau, damping_step)))
    if state.tree.contact_model.acts:
        return contact_forward_dynamics(state, tau)[0]
    tau = actuated(state, tau)
    if damping_step is not None:
        state, tau = damped(state, tau)
    if state.tree.constraints:
        return constrained_forward_dynamics(state, tau, damping_step)[0]
    solve = forward_dynamics_crba if state.tree.has_mimic else forward_dynamics_aba
    return solve(state, tau, damping_step)


def _each(state: State, entry: Callable[[int], Scalar]) -> list[Scalar]:
    """Return a table with one number per velocity."""
    tree, scalars = state.tree, state.scalars
    scalars.begin("step", -1)
    result = scalars.table("step", tree.nv)
    for j in tree.velocities.outward():
        result[j] = entry(j)
    return result


def scaled(state: State, factor: Scalar, v: Numbers) -> list[Scalar]:
    """Return factor v."""
    return _each(state, lambda j: factor * v[j])


def moved(state: State, v: Numbers, *changes: tuple[Scalar, Numbers]) -> list[Scalar]:
    """Return v and the sum of factor rate, for ``changes`` = (factor, rate)."""

    def entry(j: int) -> Scalar:
        total = v[j]
        for factor, rate in changes:
            total = total + factor * rate[j]
        return total

    return _each(state, entry)


def weighted(state: State, a: Numbers, b: Numbers, c: Numbers, d: Numbers) -> list[Scalar]:
    """Return a + 2 b + 2 c + d."""
    return _each(state, lambda j: (a[j] + d[j]) + 2.0 * (b[j] + c[j]))


class Commutators:
    """Commutators of twists, nonzero for free joints only."""

    def __init__(self, state: State) -> None:
        self._state = state

    def add(self, path: list[Scalar], factor: Scalar, a: Numbers, b: Numbers) -> list[Scalar]:
        """Return path + factor [a, b]; overwrites ``path``."""
        for body in own_joints(self._state):
            joint = body.joint_type
            if joint.nv > 1:
                start = body.v_index
                one, other = ([v[start + k] for k in range(joint.nv)] for v in (a, b))
                for k, entry in enumerate(joint.commutator(one, other)):
                    path[start + k] = path[start + k] + factor * entry
        return path
