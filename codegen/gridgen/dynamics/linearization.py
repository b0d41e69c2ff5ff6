"""Linearization of time steps with respect to the initial state and the joint torques.

Perturbations of a state are x = (change of q in the tangent space, change of qd); at the end of a
step, the perturbation is A x + B (change of tau). Every intermediate quantity (configuration,
velocity, acceleration) has a *change*: nv rows with 3 nv columns, its derivatives with respect to
q, qd and tau. The code differentiates the steps of ``gridgen.dynamics.integrators`` line by line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gridgen.dynamics import integrators
from gridgen.dynamics.actuators import actuated, damped
from gridgen.dynamics.configurations import integrate, own_joints
from gridgen.dynamics.constraint_derivatives import constrained_accelerations_gradient
from gridgen.dynamics.conventions import Conversion, natural
from gridgen.dynamics.crba import factorized
from gridgen.dynamics.derivatives import (
    Accelerations,
    accelerations_gradient,
    inverse_dynamics_gradient,
)
from gridgen.dynamics.dual_states import (
    along,
    contact_step_gradient,
    moving,
    undifferentiated,
)
from gridgen.dynamics.integrators import (
    Commutators,
    moved,
    scaled,
    velocities_after,
)
from gridgen.dynamics.linear import ldlt_solve
from gridgen.dynamics.state import Numbers, State
from gridgen.dynamics.sweep import Square
from gridgen.dynamics.variational import ends, momenta_of, solved_rate
from gridgen.symbolic.dual import Dual, Slopes, slopes_of, tangents_of, values_of
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import dot

Gradient = tuple[Square, Square]


def _step(
    state: State,
    tau: Numbers,
    dt: Numbers,
    *,
    share: float = 1.0,
    is_damping_implicit: bool = False,
) -> Gradient:
    """Return the linearization of a step of ``gridgen.dynamics.integrators``.

    Returns:
        A: 2 nv x 2 nv, with respect to the state.
        B: 2 nv x nv, with respect to the generalized forces.
    """
    if state.tree.contact_model.acts:
        return contact_step_gradient(
            state,
            tau,
            dt,
            partial(
                integrators.semi_implicit, share=share, is_damping_implicit=is_damping_implicit
            ),
        )
    step, changes = dt[0], Changes(state)
    rates = _accelerations(state, tau, step if is_damping_implicit else None)
    change = changes.accelerations(rates)
    faster, along = (changes.velocities((step, change)), changes.after(share, step, change))
    path = scaled(state, step, velocities_after(state, step, share, rates.qdd))
    return changes.result(changes.positions(path, changes.sum((step, along))), faster)


semi_implicit = _step
euler = partial(_step, share=0.0)
constant_acceleration = partial(_step, share=0.5)
implicit = partial(_step, is_damping_implicit=True)


@dataclass(frozen=True)
class Move:
    """A state of an explicit method after the initial one; factors are in units of the step.

    Attributes:
        along:  factors of the velocities whose sum is the path from the initial configuration.
        faster: factors of the accelerations whose sum is the change of the velocity.
        twist:  factor of the commutator of two velocities in the path, and their numbers.
    """

    along: tuple[float, ...]
    faster: tuple[float, ...]
    twist: tuple[float, int, int] | None = None


_WEIGHTS = (1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0)
#: The methods of ``integrators`` with several stages; the last state is that at the end.
MOVES = {
    "midpoint": (Move((0.5,), (0.5,)), Move((0.0, 1.0), (0.0, 1.0))),
    "trapezoidal": (Move((1.0,), (1.0,)), Move((0.5, 0.5), (0.5, 0.5))),
    "rk4": (
        Move((0.5,), (0.5,)),
        Move((0.0, 0.5), (0.0, 0.5), (0.125, 0, 1)),
        Move((0.0, 0.0, 1.0), (0.0, 0.0, 1.0)),
        Move(_WEIGHTS, _WEIGHTS, (1.0 / 12.0, 0, 3)),
    ),
}


@dataclass(frozen=True)
class Stage:
    """A state of a step of several stages.

    Attributes:
        path, along: path from the initial configuration, and its change.
        place:       change of the configuration.
        speed, rate: velocities, and their change.
        qdd, gain:   accelerations, and their change; empty at the end.
    """

    path: Numbers
    along: Square
    place: Square
    speed: Numbers
    rate: Square
    qdd: Numbers
    gain: Square


def stages(
    state: State, step: Scalar, moves: Sequence[Move], evaluate: Callable[[State], Accelerations]
) -> list[Stage]:
    """Return the states of a step; ``evaluate`` returns accelerations and their derivatives."""
    changes, rates = Changes(state), evaluate(state)
    gain = changes.accelerations(rates)
    found = [Stage((), [], [], state.qd, changes.velocities(), rates.qdd, gain)]
    for move in moves:
        (factor, first), *others = summed = terms(step, move.along, found)
        path = scaled(state, factor, first.speed)
        if others:
            path = moved(state, path, *((f, one.speed) for f, one in others))
        along = changes.sum(*((f, one.rate) for f, one in summed))
        if move.twist:
            factor, a, b = step * step * move.twist[0], *(found[k] for k in move.twist[1:])
            Commutators(state).add(path, factor, a.speed, b.speed)
            changes.commutated(along, factor, (a.speed, a.rate), (b.speed, b.rate))
        gained = terms(step, move.faster, found)
        speed = moved(state, state.qd, *((f, one.qdd) for f, one in gained))
        rate = changes.velocities(*((f, one.gain) for f, one in gained))
        place = changes.positions(path, along)
        if move is moves[-1]:
            return [*found, Stage(path, along, place, speed, rate, (), [])]
        rates = evaluate(state.at(integrate(state, path), speed))
        gain = changes.accelerations(rates, (place, rate))
        found.append(Stage(path, along, place, speed, rate, rates.qdd, gain))
    return found


def terms(step: Scalar, factors: Sequence[float], found: Sequence[Any]) -> list[tuple[Scalar, Any]]:
    """Return the terms of a sum over states, without those that are zero."""
    return [(step * f, one) for f, one in zip(factors, found, strict=False) if f]


def _stages(state: State, tau: Numbers, dt: Numbers, *, name: str) -> Gradient:
    """Return the linearization of a step of several stages of ``integrators``."""
    if state.tree.contact_model.acts:
        return contact_step_gradient(state, tau, dt, getattr(integrators, name))
    end = stages(state, dt[0], MOVES[name], lambda there: _accelerations(there, tau))[-1]
    return Changes(state).result(end.place, end.rate)


midpoint, trapezoidal, rk4 = (partial(_stages, name=name) for name in MOVES)


def variational(state: State, tau: Numbers, dt: Numbers) -> Gradient:
    """Return the linearization of ``variational.variational_step``.

    The momenta at both ends are differentiated on dual numbers, at the velocity that solves the
    step's equations.
    """
    if state.world_axes:
        conversion, own, tau = natural(state, tau)
        end = integrators.variational(own, tau, dt)
        return conversion.linearized(variational(own, tau, dt), end)
    step, n, changes, scalars = dt[0], state.tree.nv, Changes(state), state.scalars
    axes, columns, zero = range(n), range(3 * n), scalars.constant(0.0)
    rate = solved_rate(state, tau, step)
    # Directions of positions, velocities, torques, and of the rate.
    begin, units = moving(state, 4 * n)
    along, torques = [*map(Dual, rate, units[3 * n :])], [*map(Dual, tau, units[2 * n : 3 * n])]
    at_start, at_end = ends(begin, along, torques, Dual(step))
    residual = [a - b for a, b in zip(at_start, momenta_of(begin)[0], strict=True)]
    equations, momenta = (  # rows: a residual or a momentum
        [[own.get(k, zero) for k in range(4 * n)] for own in map(slopes_of, tangents_of(found))]
        for found in (residual, at_end)
    )
    rates: Square = [[zero - row[k] for k in columns] for row in equations]
    _solve_dense([row[3 * n :] for row in equations], rates)
    path = [step * v for v in rate]
    dq = changes.positions(path, changes.sum((step, rates)))
    q_next, qd_next = integrators.variational(state, tau, dt)
    there = state.at_rest.without("f_ext").at(q_next, [zero] * n)
    N, _ = inverse_dynamics_gradient(there, qd_next)
    factors, faster = factorized(there), []
    for k in columns:
        moved_by, turned = [row[k] for row in rates], [row[k] for row in dq]
        right = [
            momenta[i][k] + dot(momenta[i][3 * n :], moved_by) - dot(N[i], turned) for i in axes
        ]
        faster.append(ldlt_solve(factors, right))
    return changes.result(dq, [list(row) for row in zip(*faster, strict=True)])


def _solve_dense(J: Square, right: Square) -> None:
    """Replace columns by their solutions with J, from the last row upwards: no new nonzeros."""
    n = len(J)
    for k in reversed(range(n)):
        inverse = 1.0 / J[k][k]
        for i in range(k):
            factor = J[i][k] * inverse
            for j in range(k):
                J[i][j] = J[i][j] - factor * J[k][j]
            right[i] = [x - factor * y for x, y in zip(right[i], right[k], strict=True)]
    for k in range(n):
        inverse = 1.0 / J[k][k]
        for i in range(k):
            right[k] = [x - J[k][i] * y for x, y in zip(right[k], right[i], strict=True)]
        right[k] = [x * inverse for x in right[k]]


def _accelerations(state: State, tau: Numbers, damping_step: Scalar | None = None) -> Accelerations:
    """Return the accelerations of ``integrators`` and their derivatives."""
    if state.world_axes:
        conversion, own, tau = natural(state, tau)
        rates = _accelerations(own, tau, damping_step)
        return converted(conversion, rates)
    actuated_state, tau, slopes = _actuated(state, tau, is_implicit=damping_step is not None)
    solve = constrained_accelerations_gradient if state.tree.constraints else accelerations_gradient
    rates = solve(actuated_state, tau, damping_step)
    for by_state, by in zip((rates.by_q, rates.by_qd), slopes, strict=False):
        for (j, k), slope in by.items():
            for i in range(state.tree.nv):
                by_state[i][k] = by_state[i][k] + rates.by_tau[i][j] * slope
    return rates


def _actuated(
    state: State, tau: Numbers, *, is_implicit: bool
) -> tuple[State, Numbers, Sequence[dict[tuple[int, int], Scalar]]]:
    """Return the state and the torques with actuators, and the slopes of these by q and by qd."""
    if not state.tree.has_forces:
        return state, tau, ()
    nv, one = state.tree.nv, state.scalars.constant(1.0)
    speeds = [Dual(x, Slopes({nv + j: one})) for j, x in enumerate(state.qd)]
    there = along(state, [Slopes({j: one}) for j in range(nv)])
    there = there.at(there.q, speeds)
    total = actuated(there, [*map(Dual, tau)])
    if is_implicit:
        there, total = damped(there, total)
    found = [slopes_of(tangents_of(t)) for t in total]
    slopes: list[dict[tuple[int, int], Scalar]] = [{}, {}]
    for j, by in enumerate(found):
        for k, slope in by.items():
            slopes[k // nv][j, k % nv] = slope
    return replace(undifferentiated(there), q=state.q, qd=state.qd), values_of([*total]), slopes


def converted(conversion: Conversion, rates: Accelerations) -> Accelerations:
    """Return accelerations and their derivatives in MuJoCo's coordinates."""
    found = conversion.gradients(rates.qdd, (rates.by_q, rates.by_qd, rates.by_tau))
    return Accelerations(conversion.acceleration(rates.qdd), *found)


@dataclass(frozen=True)
class Changes:
    """Computes the changes of the quantities of a step.

    Attributes:
        state: the robot's state at the beginning.
    """

    state: State

    def sum(self, *terms: tuple[Scalar, Square]) -> Square:
        """Return the sum of factors times changes."""
        total = self._zero_change("sum")
        for i in self.state.tree.velocities.outward():
            for k in self.columns():
                entry = terms[0][0] * terms[0][1][i][k]
                for factor, change in terms[1:]:
                    entry = entry + factor * change[i][k]
                total[i][k] = entry
        return total

    def velocities(self, *terms: tuple[Scalar, Square]) -> Square:
        """Return the change of qd plus factors times vectors that have the given changes."""
        total = self.sum(*terms) if terms else self._zero_change("faster")
        for j in self.state.tree.velocities.outward():
            at = j + self.state.tree.nv
            total[j][at] = total[j][at] + 1.0
        return total

    def after(self, share: float, step: Scalar, change: Square) -> Square:
        """Return the change of ``velocities_after``, for one of the accelerations."""
        return self.velocities((share * step, change)) if share else self.velocities()

    def accelerations(
        self, rates: Accelerations, state: tuple[Square, Square] | None = None
    ) -> Square:
        """Return the change of accelerations for a change of the state; the identity by default."""
        total, n = self._zero_change("rate"), self.state.tree.nv
        velocities = self.state.tree.velocities
        for i in velocities.outward():
            for j in velocities.outward():
                total[i][j + 2 * n] = rates.by_tau[i][j]
                if state is None:
                    total[i][j] = rates.by_q[i][j]
                    total[i][j + n] = rates.by_qd[i][j]
        if state is None:
            return total
        for offset in (0, n, 2 * n):
            for columns in velocities.several(4):
                for rows in velocities.several(2):
                    self._add_product(total, rates, state, rows, [k + offset for k in columns])
        return total

    def _add_product(
        self,
        total: Square,
        rates: Accelerations,
        state: tuple[Square, Square],
        rows: Sequence[int],
        columns: Sequence[int],
    ) -> None:
        """Add the terms of positions and velocities to some entries."""
        dq, dv = state
        places = [(i, k) for i in rows for k in columns]
        sums = [self.state.scalars.carry("rate", total[i][k]) for i, k in places]
        for j in self.state.tree.velocities.outward():
            for (i, k), entry in zip(places, sums, strict=True):
                entry.value = entry.value + rates.by_q[i][j] * dq[j][k]
                entry.value = entry.value + rates.by_qd[i][j] * dv[j][k]
        for (i, k), entry in zip(places, sums, strict=True):
            total[i][k] = entry.value

    def positions(self, path: Numbers, change: Square) -> Square:
        """Return the change of the configuration at the end of a path with the given change."""
        total = self._zero_change("place")
        for body in own_joints(self.state):
            j = body.v_index
            nv = body.joint_type.nv
            if nv == 1:  # both derivatives are 1
                for k in self.columns():
                    total[j][k] = change[j][k]
                total[j][j] = total[j][j] + 1.0
                continue
            rate = [path[j + r] for r in range(nv)]
            start, onward = body.joint_type.integrated_gradient(rate, self.state.scalars)
            for k in self.columns():
                column = [change[j + r][k] for r in range(nv)]
                for r, row in enumerate(onward):
                    total[j + r][k] = dot(row, column)
            for r, row in enumerate(start):
                for c, entry in enumerate(row):
                    total[j + r][j + c] = total[j + r][j + c] + entry
        return total

    def commutated(
        self, change: Square, factor: Scalar, a: tuple[Numbers, Square], b: tuple[Numbers, Square]
    ) -> Square:
        """Add ``factor`` times the change of [a, b] to a change, in place."""
        (one, d_one), (other, d_other) = a, b
        for body in own_joints(self.state):
            joint = body.joint_type
            if joint.nv == 1:
                continue
            places = [body.v_index + r for r in range(joint.nv)]
            start, end = [one[j] for j in places], [other[j] for j in places]
            for k in self.columns():
                first = joint.commutator([d_one[j][k] for j in places], end)
                second = joint.commutator(start, [d_other[j][k] for j in places])
                for j, x, y in zip(places, first, second, strict=True):
                    change[j][k] = change[j][k] + factor * (x + y)
        return change

    def result(self, position: Square, velocity: Square) -> Gradient:
        """Return A and B from the changes of the state at the end."""
        n = self.state.tree.nv
        A = self.state.scalars.matrix("A", 2 * n, 2 * n, zeros=False)
        B = self.state.scalars.matrix("B", 2 * n, n, zeros=False)
        for i in self.state.tree.velocities.outward():
            for j in self.state.tree.velocities.outward():
                A[i][j], A[i][j + n] = position[i][j], position[i][j + n]
                A[i + n][j], A[i + n][j + n] = velocity[i][j], velocity[i][j + n]
                B[i][j], B[i + n][j] = position[i][j + 2 * n], velocity[i][j + 2 * n]
        return A, B

    def _zero_change(self, symbol: str) -> Square:
        """Return a zero change."""
        self.state.scalars.begin("step", -1)
        return self.state.scalars.matrix(symbol, self.state.tree.nv, 3 * self.state.tree.nv)

    def columns(self) -> Iterator[int]:
        """Iterate over the columns of a change."""
        for offset in (0, self.state.tree.nv, 2 * self.state.tree.nv):
            for j in self.state.tree.velocities.outward():
                yield j + offset

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Iterate over the pairs of columns, the larger first."""
        axes, n = self.state.tree.velocities, self.state.tree.nv
        for offset in (0, n, 2 * n):
            for i in axes.outward():
                for before in range(0, offset, n):
                    for j in axes.outward():
                        yield i + offset, j + before
                for j in axes.until(i):
                    yield i + offset, j + offset
