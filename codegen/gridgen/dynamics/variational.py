"""The variational midpoint method, a discrete Lagrangian mechanics of a time step.

The discrete Lagrangian of a step along the velocity v is dt L(q_m, v), with q_m in the middle. Its
derivatives by both ends are the momenta there (the discrete Legendre transforms). The method is
symplectic, and conserves momenta that belong to symmetries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gridgen.dynamics.actuators import actuated
from gridgen.dynamics.configurations import integrate, own_joints
from gridgen.dynamics.conventions import natural
from gridgen.dynamics.crba import factorized, mass_matrix
from gridgen.dynamics.frames import linear_velocities
from gridgen.dynamics.kinematics import all_motions, body_motions, joint_rate
from gridgen.dynamics.linear import ldlt_solve
from gridgen.dynamics.losses import add_loss_slopes
from gridgen.dynamics.mass import body_mass
from gridgen.dynamics.rnea import (
    add_joint_dynamics,
    body_forces,
    joint_efforts,
    transmitted_forces,
)
from gridgen.dynamics.state import Numbers, State
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import Wrench, add, cross, dot, sub

#: Iterations with the mass matrix and losses in place of the derivative: each multiplies the error
#: by about the rotation of the joints in half a step.
ITERATIONS = 7


def variational_step(state: State, tau: Numbers, dt: Numbers) -> tuple[list[Scalar], list[Scalar]]:
    """Return the state after a step; the torques and all loads act in the middle of it.

    Source: Marsden and West 2001; on Lie groups, Bou-Rabee and Marsden 2009.
    """
    if state.world_axes:
        conversion, own, tau = natural(state, tau)
        return conversion.state(*variational_step(own, tau, dt))
    step = dt[0]
    rate = solved_rate(state, tau, step)
    _, momenta = ends(state, rate, tau, step)
    end = integrate(state, [step * v for v in rate])
    return end, ldlt_solve(factorized(state.at(end, state.qd)), momenta)


def solved_rate(state: State, tau: Numbers, step: Scalar) -> list[Scalar]:
    """Return the velocity along which a step moves the configuration."""
    half, qd = 0.5 * step, state.qd
    start, _ = momenta_of(state)
    near = state.at(integrate(state, [half * v for v in qd]), qd)
    M = mass_matrix(near)
    add_loss_slopes(near, M, half)
    factors = factorized(near, M)
    rate, scalars = list(qd), state.scalars
    least: Scalar | None = None
    for _ in range(ITERATIONS):
        at_start, _ = ends(state, rate, tau, step)
        residual = [a - b for a, b in zip(at_start, start, strict=True)]
        change = ldlt_solve(factors, residual)
        size = dot(change, change)
        if least is not None:  # a change larger than the last one diverges: the rate stays
            shrinks = least - size
            share = scalars.select(shrinks, scalars.constant(0.0), scalars.constant(1.0))
            change = [share * x for x in change]
            size = scalars.select(shrinks, least, size)
        least = size
        rate = [v - x for v, x in zip(rate, change, strict=True)]
    return rate


def ends(
    state: State, rate: Numbers, tau: Numbers, step: Scalar
) -> tuple[list[Scalar], list[Scalar]]:
    """Return the momenta at both ends of a step with a velocity."""
    half = 0.5 * step
    middle = state.at(integrate(state, [half * v for v in rate]), rate)
    momenta, forces = momenta_of(middle)
    tau = actuated(middle, tau)
    loads = zip(forces, tau, _losses(middle), strict=True)
    impulses = [half * (force + effort - loss) for force, effort, loss in loads]
    start = [p - f for p, f in zip(momenta, impulses, strict=True)]
    end = [p + f for p, f in zip(momenta, impulses, strict=True)]
    for body in own_joints(state):
        joint, j = body.joint_type, body.v_index
        if joint.nv == 1:
            continue
        axes = range(joint.nv)
        speeds, place = [rate[j + k] for k in axes], state.q[body.q_index :][: joint.nq]
        carried, stretched = joint.integrated_gradient([half * v for v in speeds], state.scalars)
        there = joint.integrated(place, [step * v for v in speeds], state.scalars)
        by_start, by_end = joint.difference_gradient(place, there, state.scalars)
        impulse = [impulses[j + k] for k in axes]
        total = [momenta[j + k] + x for k, x in enumerate(_transposed(stretched, impulse))]
        lost = _transposed(carried, impulse)
        for k, (a, b) in enumerate(
            zip(_transposed(by_start, total), _transposed(by_end, total), strict=True)
        ):
            start[j + k], end[j + k] = -a - 2.0 * lost[k], b
    return start, end


def _transposed(rows: Sequence[Numbers], v: Numbers) -> list[Scalar]:
    """Return the transposed matrix times a vector."""
    return [dot(column, v) for column in zip(*rows, strict=True)]


def momenta_of(state: State) -> tuple[list[Scalar], list[Scalar]]:
    """Return M qd, and the derivatives of the kinetic energy by displacements of the joints.

    A displacement of a joint changes the velocity of its subtree by v x S.
    """
    tree, scalars, rest = state.tree, state.scalars, state.at_rest
    motions = all_motions(rest)
    velocities = linear_velocities(rest, motions)
    own: list[Wrench] = scalars.table("momentum", len(tree.bodies))
    for index in tree.outward():
        scalars.begin("outward", index)
        own[index] = body_mass(state, index).wrench(velocities[index], motions[index].w)
    carried = transmitted_forces(rest, own)
    bent: list[Wrench] = scalars.table("bent", len(tree.bodies))
    for index in tree.outward():
        scalars.begin("outward", index)
        body, v, w, (f, n) = tree.bodies[index], velocities[index], motions[index].w, carried[index]
        if body.nv > 1:  # the joint's own velocity crosses its axes
            slide, spin = body.joint_type.motion(joint_rate(body, state.qd, scalars), scalars)
            v, w = sub(v, slide), sub(w, spin)
        bent[index] = cross(f, w), add(cross(f, v), cross(n, w))
    momenta = joint_efforts(state, carried)
    for j in tree.velocities.outward():
        if state.has("armature", j):
            momenta[j] = momenta[j] + state.own("armature", j) * state.qd[j]
    return momenta, joint_efforts(state, bent)


def _losses(state: State) -> list[Scalar]:
    """Return the torques that balance gravity, wrenches, base motion, damping and friction."""

    def efforts(state: State) -> list[Scalar]:
        forces = body_forces(state, body_motions(state))
        return joint_efforts(state, transmitted_forces(state, forces))

    still = [state.scalars.constant(0.0)] * state.tree.nv
    if state.is_base_at_rest:
        return add_joint_dynamics(state, efforts(replace(state, qd=still)))
    inertial = efforts(state.at_rest.without("f_ext"))
    total = [a - b for a, b in zip(efforts(state), inertial, strict=True)]
    return add_joint_dynamics(state, total)
