"""Forward dynamics with soft constraints, and time steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from gridgen.dynamics.actuators import actuated
from gridgen.dynamics.configurations import integrate
from gridgen.dynamics.constraints import Rows
from gridgen.dynamics.contacts.softness import LEAST
from gridgen.dynamics.contacts.solver import Problem, total
from gridgen.dynamics.crba import add_damping, factorized, mass_matrix
from gridgen.dynamics.kinematics import all_motions, each
from gridgen.dynamics.linear import ldlt_solve
from gridgen.dynamics.rnea import body_forces, torques_of_forces
from gridgen.dynamics.state import Numbers, State
from gridgen.symbolic.rotations import conjugate, rotate
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import add


def without_friction(state: State) -> State:
    """Return a state of the robot without the dry friction of its joints."""
    bodies = tuple(replace(body, friction=0.0) for body in state.tree.bodies)
    return replace(state, tree=replace(state.tree, bodies=bodies))


@dataclass(frozen=True)
class Solution:
    """The accelerations of a robot with soft constraints.

    Attributes:
        problem: with the forces.
        M:       mass matrix.
        a:       accelerations; of free joints as of MuJoCo, in the axes of their bodies.
        Ma:      M a.
        b:       M a without constraints.
        shift:   ``a`` less the derivative of the joint velocities.
    """

    problem: Problem
    M: Rows
    a: list[Scalar]
    Ma: list[Scalar]
    b: list[Scalar]
    shift: list[Scalar]


def solution(state: State, tau: Numbers) -> Solution:
    """Return the accelerations with soft constraints; fused functions share them."""
    base = (state.gravity, state.base_velocity, state.base_acceleration, state.f_ext)
    names = sorted(state.given)
    operands = (state.q, state.qd, tau, *(values or () for values in base))
    given = chain(*operands, *(state.given[name] for name in names))
    return state.scalars.once(f"contacts {names}", given, partial(_solved, state, tau))


def _solved(state: State, tau: Numbers) -> Solution:
    robot, state = state.tree, without_friction(state)
    scalars = state.scalars
    motions = all_motions(state)
    bias = torques_of_forces(state, body_forces(state, each(robot, motions)))
    M = mass_matrix(state)
    problem = Problem(state, robot, motions)
    scalars.begin("solve", -1)
    shift = problem.shift
    moved = problem.times(M, shift)
    b = [t - h + m for t, h, m in zip(tau, bias, moved, strict=True)]
    a, Ma = problem.solve(M, b, shift)
    scalars.begin("forces", -1)
    return Solution(problem, M, a, Ma, b, shift)


def contact_forward_dynamics(state: State, tau: Numbers) -> tuple[list[Scalar], list[Scalar]]:
    """Return the joint accelerations, and the contact forces.

    Returns:
        qdd:    nv scalars [rad/s^2 or m/s^2].
        forces: on each point, three scalars in the axes of the base [N].
    """
    found = solution(*actuated(state, tau))
    qdd = [a - shift for a, shift in zip(found.a, found.shift, strict=True)]
    return qdd, found.problem.in_base(found.problem.forces)


def contact_residual(state: State, tau: Numbers) -> Scalar:
    """Return the error of the torques, relative to those without constraints."""
    found = solution(*actuated(state, tau))
    torques = found.problem.torques(found.problem.forces)
    errors = [x - y - t for x, y, t in zip(found.Ma, found.b, torques, strict=True)]
    squares = [
        total(x * x / found.M[j][j] for j, x in enumerate(each)) for each in (errors, found.b)
    ]
    return state.scalars.sqrt(squares[0] / (squares[1] + LEAST * LEAST))


def contact_step(
    state: State,
    tau: Numbers,
    dt: Scalar,
    share: float = 1.0,
    *,
    is_damping_implicit: bool = False,
) -> tuple[list[Scalar], list[Scalar]]:
    """Return the state after a step of MuJoCo's Euler method.

    The velocities after a ``share`` of the step move the configuration.
    The velocity of a free joint's origin changes in the world, where it also moves the origin.
    With implicit damping D, the accelerations are (M + dt D)^-1 M a, as of MuJoCo's ``eulerdamp``
    and ``implicitfast``.
    """
    scalars, q, qd = state.scalars, state.q, state.qd
    state, tau = actuated(state, tau, is_implicit=is_damping_implicit)
    free = [body for body in state.tree.bodies if body.joint_type.is_free]
    found = solution(state, tau)
    a = found.a
    if is_damping_implicit:
        scalars.begin("solve", -1)
        H = [list(row) for row in found.M]
        add_damping(state, H, dt)
        a = ldlt_solve(factorized(state, H), found.Ma)
    scalars.begin("step", -1)
    end = [v + dt * rate for v, rate in zip(qd, a, strict=True)]
    along = [dt * (v + share * dt * rate) for v, rate in zip(qd, a, strict=True)]
    slides = [tuple(along[body.v_index : body.v_index + 3]) for body in free]
    for body in free:
        along[body.v_index : body.v_index + 3] = [scalars.constant(0.0)] * 3
    q_next = integrate(state, along)
    for body, slide in zip(free, slides, strict=True):
        at, turn = body.v_index, body.q_index + 3
        before, after = tuple(q[turn : turn + 4]), tuple(q_next[turn : turn + 4])
        q_next[body.q_index : turn] = add(tuple(q[body.q_index : turn]), rotate(before, slide))
        end[at : at + 3] = rotate(conjugate(after), rotate(before, tuple(end[at : at + 3])))
    return q_next, end
