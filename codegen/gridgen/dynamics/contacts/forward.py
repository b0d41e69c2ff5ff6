"""Forward dynamics with soft constraints, and time steps."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain

from gridgen.dynamics.actuators import Moments, actuated, couplings, damped
from gridgen.dynamics.configurations import integrate
from gridgen.dynamics.constraints import Rows
from gridgen.dynamics.contacts.softness import MINVAL
from gridgen.dynamics.contacts.solver import Problem, total
from gridgen.dynamics.crba import factorized, mass_matrix
from gridgen.dynamics.derivatives import inverse_dynamics_gradient
from gridgen.dynamics.dual_states import tangent_of, undifferentiated
from gridgen.dynamics.kinematics import all_motions, each
from gridgen.dynamics.linear import Factorization, ldlt, ldlt_solve
from gridgen.dynamics.rnea import body_forces, torques_of_forces
from gridgen.dynamics.state import Numbers, State
from gridgen.model.tree import Body
from gridgen.symbolic.dual import ColumnScalars, Dual, Slopes, slopes_of, tangents_of, values_of
from gridgen.symbolic.rotations import conjugate, rotate
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import Vector, add, cross, dot, scale

#: Series of (1 - x/2 cot(x/2)) / x^2 by powers of x^2: a rotation vector's rate from the velocity.
_ROTATION = (1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000)


def without_friction(state: State) -> State:
    """Return a state of the robot without the dry friction of its joints.

    The rows of friction find its input under the name ``losses``.
    """
    bodies = tuple(replace(body, friction=0.0) for body in state.tree.bodies)
    given = {**state.given}
    if losses := given.pop("joint_friction", None):
        given["losses"] = losses
    return replace(state, tree=replace(state.tree, bodies=bodies), given=given)


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

    With the derivatives of columns, only ``a`` and ``shift`` have them.
    """

    problem: Problem
    M: Rows
    a: list[Scalar]
    Ma: list[Scalar]
    b: list[Scalar]
    shift: list[Scalar]


def solution(state: State, tau: Numbers, *, in_loops: bool = True) -> Solution:
    """Return the accelerations with soft constraints; fused functions share them.

    Args:
        state:    of the robot.
        tau:      joint torques.
        in_loops: whether a program may have loops over points.
    """
    if isinstance(state.scalars, ColumnScalars):
        return _differentiated(state, tau)
    base = (state.gravity, state.base_velocity, state.base_acceleration, state.f_ext)
    parameters = state.parameters
    names = sorted(parameters)
    operands = (state.q, state.qd, tau, *(values or () for values in base))
    given = [*chain(*operands, *(parameters[name] for name in names))]
    return state.scalars.once(
        f"contacts {names} {in_loops}",
        given,
        partial(_solved, state, tau, given, in_loops=in_loops),
    )


def solved_rows(state: State, tau: Numbers, chosen: Collection[int]) -> Problem:
    """Return the soft constraints with their forces.

    Args:
        state:  of the robot.
        tau:    joint torques.
        chosen: numbers of the contacts whose points have rows, at least.
    """
    found = solution(state, tau)
    if found.problem.sets is None:
        return found.problem
    free = without_friction(state)
    problem = Problem(free, state.tree, all_motions(free), in_loops=False, chosen=chosen)
    problem.forces, problem.stiffness = problem.responses(problem.residuals(found.a))
    return problem


def _solved(state: State, tau: Numbers, given: Sequence[Scalar], *, in_loops: bool) -> Solution:
    robot, state = state.tree, without_friction(state)
    scalars = state.scalars
    motions = all_motions(state)
    bias = torques_of_forces(state, body_forces(state, each(robot, motions)))
    M = mass_matrix(state)
    problem = Problem(state, robot, motions, in_loops=in_loops)
    scalars.begin("solve", -1)
    shift = problem.shift
    moved = problem.times(M, shift)
    b = [t - h + m for t, h, m in zip(tau, bias, moved, strict=True)]
    a, Ma = problem.solve(M, b, shift, given)
    scalars.begin("forces", -1)
    return Solution(problem, M, a, Ma, b, shift)


def _differentiated(state: State, tau: Numbers) -> Solution:
    """Return a solution with the derivatives of its columns, by the implicit function theorem.

    At the accelerations, the torques of inverse dynamics less those of the constraints do not
    change: H dqdd + d(ID(q, qd, qdd) - tau - J^T f) = 0, with qdd constant in the second term.
    """
    scalars, robot = state.scalars, state.tree
    assert isinstance(scalars, ColumnScalars)
    known = undifferentiated(state)
    found = solution(known, values_of([*tau]), in_loops=False)
    qdd = [a - shift for a, shift in zip(found.a, found.shift, strict=True)]
    by_q, by_qd = inverse_dynamics_gradient(without_friction(known), qdd)
    free = without_friction(state)
    motions = all_motions(free) if robot.constraints else ()
    problem = Problem(free, robot, motions, in_loops=False)
    a = [qdd + shift for qdd, shift in zip(map(Dual, qdd), problem.shift, strict=True)]
    torques = problem.torques(problem.responses(problem.residuals(a))[0])
    errors = [
        one + other + -(slopes_of(tangents_of(own)) + slopes_of(tangents_of(t)))
        for one, other, own, t in zip(
            _products(by_q, tangent_of(known, known.q, tangents_of([*state.q]))),
            _products(by_qd, tangents_of([*state.qd])),
            *(torques, tau),
            strict=True,
        )
    ]
    H = found.problem.hessian(found.M, found.problem.stiffness)
    changes = _solved_columns(
        ldlt(H, found.problem.branches, known.scalars.constant(1.0), known.scalars), errors
    )
    a = [x + Dual(0.0, -dx) for x, dx in zip(a, changes, strict=True)]
    return Solution(found.problem, found.M, a, found.Ma, found.b, problem.shift)


def _products(matrix: Rows, changes: Sequence[Scalar]) -> list[Slopes]:
    """Return the product of a matrix and a vector of tangents."""
    slopes = [*map(slopes_of, changes)]
    return [
        reduce(operator.add, (own * x for own, x in zip(slopes, row, strict=True)), Slopes())
        for row in matrix
    ]


def _solved_columns(factors: Factorization, right: Sequence[Slopes]) -> list[Slopes]:
    """Return the solution for each column of right sides."""
    found = [Slopes() for _ in right]
    for k in sorted({k for own in right for k in own}):
        column = ldlt_solve(factors, [own.get(k, 0.0) for own in right])
        for own, x in zip(found, column, strict=True):
            own[k] = x
    return found


def contact_forward_dynamics(state: State, tau: Numbers) -> tuple[list[Scalar], list[Scalar]]:
    """Return the joint accelerations, and the contact forces.

    Returns:
        qdd:    nv scalars [rad/s^2 or m/s^2].
        forces: on each point, three scalars in the axes of the base [N].
    """
    found = solution(state.on_fixed_base, actuated(state, tau))
    qdd = [a - shift for a, shift in zip(found.a, found.shift, strict=True)]
    return qdd, found.problem.in_base(found.problem.forces, found.a)


def contact_residual(state: State, tau: Numbers) -> Scalar:
    """Return the error of the torques, relative to those without constraints and of these.

    1 or more if more than ``max_pairs`` of one kind touch.
    """
    found = solution(state.on_fixed_base, actuated(state, tau))
    torques = found.problem.torques(found.problem.forces, found.a)
    errors = [x - y - t for x, y, t in zip(found.Ma, found.b, torques, strict=True)]
    error, free, forced = (
        total(x * x / found.M[j][j] for j, x in enumerate(own))
        for own in (errors, found.b, torques)
    )
    error = state.scalars.sqrt(error / (free + forced + MINVAL * MINVAL))
    for distance in found.problem.beyond:
        one, zero = map(state.scalars.constant, (1.0, 0.0))
        error = error + state.scalars.select(distance, one, zero)
    return error


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
    scalars = state.scalars
    found = solution(state, actuated(state, tau))
    a = found.a
    if is_damping_implicit:
        a = _slowed(state, Damping(damped(state, tau)[0], couplings(state), dt), found)
    scalars.begin("step", -1)
    velocity, rate = in_world(state, state.qd), in_world(state, a)
    along = [dt * (v + share * dt * r) for v, r in zip(velocity, rate, strict=True)]
    q_next = moved_in_world(state, along)
    return q_next, in_bodies(state.at(q_next, state.qd), _ahead(velocity, dt, rate))


@dataclass(frozen=True)
class Damping:
    """The implicit damping dt D of a step.

    Attributes:
        state:   state of the robot, with the damping of each velocity.
        coupled: damping of several joints; see ``couplings``.
        dt:      length of the step.
    """

    state: State
    coupled: Sequence[tuple[Moments, Scalar]]
    dt: Scalar

    def times(self, x: Sequence[Scalar]) -> list[Scalar]:
        """Return dt D x."""
        total = [factor * one for factor, one in zip(self._diagonal, x, strict=True)]
        for moments, damping in self.coupled:
            for i, j in self._pairs(moments):
                total[i] = total[i] + self.dt * damping * moments[i] * moments[j] * x[j]
        return total

    def add_to(self, H: Rows, value: Callable[[Scalar], Scalar]) -> None:
        """Add the values of dt D to a symmetric matrix."""
        for j, d in enumerate(self._diagonal):
            H[j][j] = H[j][j] + value(d)
        for moments, damping in self.coupled:
            for i, j in self._pairs(moments):
                H[i][j] = H[i][j] + value(self.dt * damping * moments[i] * moments[j])

    def _pairs(self, moments: Moments) -> Iterator[tuple[int, int]]:
        """Yield the pairs of a joint and itself or an ancestor, in both orders."""
        branches = self.state.tree.velocities
        above = {j: {branches.parent(k) for k in branches.climb(j)} | {j} for j in moments}
        for i in moments:
            yield from ((i, j) for j in moments if j in above[i] or i in above[j])

    @property
    def _diagonal(self) -> list[Scalar]:
        own, zero = self.state, self.state.scalars.constant(0.0)
        return [
            self.dt * own.own("damping", j) if own.has("damping", j) else zero
            for j in range(own.tree.nv)
        ]


def _slowed(state: State, damping: Damping, found: Solution) -> list[Scalar]:
    """Return (M + dt D)^-1 M a = a - (M + dt D)^-1 dt D a."""
    scalars = state.scalars
    scalars.begin("solve", -1)
    H = [list(row) for row in found.M]
    pull = damping.times(found.a)
    if not isinstance(scalars, ColumnScalars):
        damping.add_to(H, lambda x: x)
        y = ldlt_solve(factorized(state, H), pull)
        return [x - slow for x, slow in zip(found.a, y, strict=True)]
    known = undifferentiated(state).at_rest.without("f_ext")
    damping.add_to(H, values_of)
    own = factorized(known, H)
    y = ldlt_solve(own, values_of(pull))
    rest = known.at(known.q, [known.scalars.constant(0.0)] * len(y))
    by_q, _ = inverse_dynamics_gradient(rest, y)  # M y
    moves = _products(by_q, tangent_of(known, known.q, tangents_of([*state.q])))
    slow = damping.times([*map(Dual, y)])
    errors = [
        slopes_of(tangents_of(t)) + -(slopes_of(tangents_of(s)) + move)
        for t, s, move in zip(pull, slow, moves, strict=True)
    ]
    changes = _solved_columns(own, errors)
    return [a - Dual(x, dx) for a, x, dx in zip(found.a, y, changes, strict=True)]


def contact_rk4(
    state: State, tau: Numbers, dt: Scalar, *, is_world: bool = False
) -> tuple[list[Scalar], list[Scalar]]:
    """Return the state after a step of MuJoCo's Runge-Kutta method of order four.

    Free joints move along paths in the world; they and ball joints along rotation vectors in the
    body's axes. ``is_world``: whether the forces on free joints are constant in the world.
    """

    def rates_of(state: State) -> list[Scalar]:
        own = in_bodies(state, tau) if is_world else tau
        return in_world(state, solution(state, actuated(state, own)).a)

    first, half = in_world(state, state.qd), 0.5 * dt
    velocity, velocities, rates = first, [first], [rates_of(state)]
    for length in (half, half, dt):
        state.scalars.begin("step", -1)
        along = [length * v for v in velocities[-1]]
        there = state.at(moved_in_world(state, along), ())
        velocity = _ahead(first, length, rates[-1])
        velocities.append(_rates_of_paths(state, along, velocity))
        rates.append(rates_of(state.at(there.q, in_bodies(there, velocity))))
    state.scalars.begin("step", -1)
    sixth = dt * (1.0 / 6.0)
    path, rate = (
        [sixth * (a + d + 2.0 * (b + c)) for a, b, c, d in zip(*four, strict=True)]
        for four in (velocities, rates)
    )
    there = state.at(moved_in_world(state, path), ())
    return [*there.q], in_bodies(there, [v + r for v, r in zip(first, rate, strict=True)])


def _rates_of_paths(state: State, along: Numbers, velocity: Numbers) -> list[Scalar]:
    """Return velocities with the rates of the joints' rotation vectors after a path."""
    rates = [*velocity]
    for body in state.tree.bodies:
        if body.joint_type.quaternion is None:
            continue
        at = body.v_index + body.nv - 3
        u, w = tuple(along[at : at + 3]), tuple(velocity[at : at + 3])
        once, square, factor = cross(u, w), dot(u, u), state.scalars.constant(_ROTATION[-1])
        for coefficient in _ROTATION[-2::-1]:
            factor = coefficient + square * factor
        turned = add(scale(state.scalars.constant(0.5), once), scale(factor, cross(u, once)))
        rates[at : at + 3] = add(w, turned)
    return rates


def _ahead(velocity: Numbers, dt: Scalar, rate: Numbers) -> list[Scalar]:
    return [v + dt * r for v, r in zip(velocity, rate, strict=True)]


def in_world(state: State, v: Numbers) -> list[Scalar]:
    """Return velocities with the linear part of free joints in the axes of the world."""
    return _turned(state, v, rotate)


def in_bodies(state: State, v: Numbers) -> list[Scalar]:
    """Return the inverse of ``in_world``."""
    return _turned(state, v, lambda quaternion, part: rotate(conjugate(quaternion), part))


def _turned(state: State, v: Numbers, turn: Callable[..., Vector]) -> list[Scalar]:
    turned = [*v]
    for body in _free(state):
        at, k = body.v_index, body.q_index + 3
        turned[at : at + 3] = turn(tuple(state.q[k : k + 4]), tuple(v[at : at + 3]))
    return turned


def _free(state: State) -> list[Body]:
    return [body for body in state.tree.bodies if body.joint_type.is_free]


def moved_in_world(state: State, along: Numbers) -> list[Scalar]:
    """Return the positions after a path whose linear part of free joints is in the world."""
    turns = [*along]
    for body in _free(state):
        turns[body.v_index : body.v_index + 3] = [state.scalars.constant(0.0)] * 3
    q_next = integrate(state, turns)
    for body in _free(state):
        k, at = body.q_index, body.v_index
        q_next[k : k + 3] = add(tuple(state.q[k : k + 3]), tuple(along[at : at + 3]))
    return q_next
