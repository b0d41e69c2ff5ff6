"""Hessians of weighted sums of torques, of accelerations and of the state after a time step.

The weights are a virtual twist of every body. For a sum over the torques, the sums over the tips
below a joint (``second_order``) are a row of the whole subtree, those over the joints above are the
virtual twist of the carrier. Pairs of axes on one path remain: the cost is that of a gradient.

A Hessian is in exponential coordinates: that of displacements along velocities in the tangent
space. It is the symmetric part of the derivative of a gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from gridgen.dynamics.configurations import own_joints
from gridgen.dynamics.conventions import Conversion, natural
from gridgen.dynamics.derivatives import (
    Accelerations,
    accelerations_gradient,
    inverse_dynamics_gradient,
)
from gridgen.dynamics.integrators import scaled, velocities_after
from gridgen.dynamics.kinematics import joint_rate
from gridgen.dynamics.linearization import MOVES, Changes, converted, stages, terms
from gridgen.dynamics.losses import curvature
from gridgen.dynamics.mass import second_moments
from gridgen.dynamics.motion_derivatives import EffortRow, add_wrenches, along, followed
from gridgen.dynamics.second_derivatives import FromAbove, quadratic_row, turned_row
from gridgen.dynamics.second_order import from_below, own_changes
from gridgen.dynamics.state import Numbers, State
from gridgen.dynamics.sweep import Square, Sweep
from gridgen.symbolic.dual import Dual, DualScalars, tangents_of
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import (
    ZERO,
    Matrix,
    Motion,
    add,
    add_outer,
    carried,
    constants,
    dot,
    full,
    scale,
    skew_times,
    sub,
)


def forward_dynamics_hessian(state: State, tau: Numbers, multipliers: Numbers) -> Square:
    """Return the Hessian of multipliers . qdd in (q, qd, tau), 3 nv x 3 nv.

    The weights of inverse dynamics are -M^-1 times the multipliers; see
    ``second_order.forward_dynamics_second_order``.
    """
    H = state.scalars.matrix("H", 3 * state.tree.nv, 3 * state.tree.nv)
    _Accelerations(state, tau).add_hessian(multipliers, H)
    return H


class _Accelerations:
    """The accelerations of a step in one state.

    Attributes:
        rates: the accelerations and their derivatives, in the coordinates of the state.
    """

    def __init__(self, state: State, tau: Numbers, damping_step: Scalar | None = None) -> None:
        self._conversion: Conversion | None = None
        self._state = state
        if state.world_axes:
            self._conversion, self._state, tau = natural(state, tau, is_uniform=True)
        self._own = self.rates = accelerations_gradient(self._state, tau, damping_step)
        if self._conversion is not None:
            self.rates = converted(self._conversion, self._own)

    def add_hessian(self, multipliers: Numbers, H: Square) -> None:
        """Add the Hessian of multipliers . qdd in (q, qd, tau) to H."""
        state, own = self._state, self._own
        if self._conversion is None:
            _add_accelerations(state, own, multipliers, H)
            return
        n, weights = state.tree.nv, self._conversion.force(multipliers)
        natural_one = state.scalars.matrix("H", 3 * n, 3 * n)
        _add_accelerations(state, own, weights, natural_one)
        rates = own.by_q, own.by_qd, own.by_tau
        found = self._conversion.hessian(natural_one, own.qdd, rates, weights)
        for row, added in zip(H, found, strict=True):
            row[:] = [a + b for a, b in zip(row, added, strict=True)]


def _add_accelerations(state: State, rates: Accelerations, multipliers: Numbers, H: Square) -> None:
    """Add the Hessian of multipliers . qdd to H."""
    tree, scalars = state.tree, state.scalars
    n, axes, zero = tree.nv, tree.velocities, scalars.constant(0.0)
    scalars.begin("solve", -1)
    weights = scalars.table("weight", n)
    for i in axes.outward():
        total = scalars.carry("x", zero)
        for j in axes.outward():
            total.value = total.value - rates.by_tau[i][j] * multipliers[j]
        weights[i] = total.value
    _Weighted(state, rates.qdd, weights).add_to(H)
    at_rest = state.at_rest.without("f_ext").at(state.q, scalars.table("still", n, zero))
    # The derivative of M times the weights: no gravity, no velocities.
    N, _ = inverse_dynamics_gradient(at_rest, weights)
    scalars.begin("solve", -1)
    for j in axes.outward():
        for offset, right in ((0, rates.by_q), (n, rates.by_qd), (2 * n, rates.by_tau)):
            for k in axes.outward():
                total = scalars.carry("x", zero)
                for a in axes.outward():
                    total.value = total.value + N[a][j] * right[a][k]
                at = k + offset
                H[j][at] = H[j][at] + total.value
                H[at][j] = H[at][j] + total.value


#: Body and axis of a variable; 0 for a position, 1 for a velocity.
_Variable = tuple[tuple[int, int], int]


@dataclass(frozen=True)
class _Weights:
    """Rows of the torques below a joint, each times its weight.

    Attributes:
        row: sum of the rows.
        Q:   sum of ``TurnedMass.Q``.
    """

    row: EffortRow
    Q: Matrix

    def __add__(self, other: _Weights) -> _Weights:
        return _Weights(_sum(self.row, other.row), tuple(map(add, self.Q, other.Q)))  # type: ignore[arg-type]


def _sum(a: EffortRow, b: EffortRow) -> EffortRow:
    return EffortRow(add(a.a, b.a), add(a.alpha, b.alpha), add(a.w, b.w))


class _Weighted:
    """The Hessian of a weighted sum of the torques, for constant accelerations."""

    def __init__(self, state: State, qdd: Numbers, weights: Numbers) -> None:
        self._tree, self._scalars = tree, scalars = state.tree, state.scalars
        self._weights, self._sweep = weights, (sweep := Sweep(state))
        motions, self._forces = sweep.loaded(qdd)
        bodies = len(tree.bodies)
        self._positions, self._velocities = own_changes(sweep, motions)
        self._effects: list[list[FromAbove]] = scalars.table("effect", bodies)
        # The virtual twists of each body and of its carrier, in the body's frame.
        twists, self._carriers = scalars.table("twist", bodies), scalars.table("carrier", bodies)
        nothing = constants(ZERO, scalars)
        for index in tree.outward():
            body = tree.bodies[index]
            scalars.begin("outward", index)
            above = (nothing, nothing) if body.parent < 0 else twists[body.parent]
            carrier = sweep.placed[index].motion_to_body(*above)
            twists[index] = body.joint_type.added(carrier, joint_rate(body, weights, scalars))
            self._carriers[index] = carrier
            changes = zip(self._positions[index], self._velocities[index], strict=True)
            self._effects[index] = [
                FromAbove(carried(carrier, axis), *own)
                for axis, own in zip(sweep.axes(index), changes, strict=True)
            ]
        self._rows = self._summed_rows()

    def _summed_rows(self) -> list[_Weights]:
        tree, sweep, scalars = self._tree, self._sweep, self._scalars
        rows: list[_Weights] = scalars.table("weighted", len(tree.bodies))
        for index in tree.outward():
            scalars.begin("response", index)
            body, mass = tree.bodies[index], sweep.masses[index]
            rate = joint_rate(body, self._weights, scalars)
            slide, spin = axis = body.joint_type.motion(rate, scalars)
            S = full(second_moments(mass.rest.I, 2.0))
            Q = add_outer(skew_times(spin, S), scale(2.0, slide), mass.rest.h)
            rows[index] = _Weights(mass.row(axis), Q)
        for index in tree.inward():
            parent, placed = tree.bodies[index].parent, sweep.placed[index]
            if parent >= 0:
                scalars.begin("response", index)
                row = rows[index].row.to_parent(placed, sweep.drift[index])
                Q = placed.matrix_to_parent(rows[index].Q)
                rows[parent] = rows[parent] + _Weights(
                    row, add_outer(Q, row.a, scale(2.0, placed.r))
                )
        return rows

    def add_to(self, H: Square) -> None:
        """Add the Hessian in (q, qd) to a matrix."""
        tree, sweep, scalars = self._tree, self._sweep, self._scalars
        for j in tree.velocities.outward():
            if (bend := curvature(sweep.state, j)) is not None:
                at = j + tree.nv
                H[at][at] = H[at][at] + self._weights[j] * bend
        for index in tree.inward():
            row, Q = self._rows[index].row, self._rows[index].Q
            carrier, (w, slide_rate) = self._carriers[index], sweep.carried(index)
            bent = add_wrenches((row.a, row.alpha), sweep.masses[index].rest.wrench(*carrier))
            for j, axis in enumerate(sweep.axes(index)):
                scalars.begin("response", index)
                tip = index, j
                below = from_below(sweep, tip, self._forces, self._positions, self._velocities)
                mass = below.mass
                by_position = _sum(
                    turned_row(axis, w, row, Q, slide_rate),
                    mass.by_position(scalars.constant(0.0)).row(carrier),
                )
                by_velocity = sub(
                    quadratic_row(axis, row.a, Q), quadratic_row(carrier, below.row.a, mass.Q)
                )
                for k, seen in enumerate(self._effects[index]):
                    root = index, k
                    qq = by_position.answer(seen.position) + along(seen.axis, below.position)
                    vv = dot(by_velocity, seen.velocity.w)
                    if j != k:
                        vv = vv + along(carried(axis, sweep.axes(index)[k]), bent)
                    qv = dot(by_velocity, seen.position.w) + along(seen.axis, below.velocity)
                    self._both(H, (root, 0), (tip, 1), qv)
                    if j == k:
                        self._add(H, (tip, 0), (root, 0), qq)
                        self._add(H, (tip, 1), (root, 1), vv)
                    else:
                        self._both(H, (tip, 0), (root, 0), 0.5 * qq)
                    if k < j:
                        self._both(H, (tip, 1), (root, 1), vv)
                self._add_above(H, tip, by_position, by_velocity, below.position, below.velocity)

    def _add_above(
        self,
        H: Square,
        tip: tuple[int, int],
        by_position: EffortRow,
        by_velocity: Scalar,
        position: Motion,
        velocity: Motion,
    ) -> None:
        """Add the entries of an axis with those above its joint: rows climb to them."""
        tree, sweep, scalars = self._tree, self._sweep, self._scalars
        start = by_position, by_velocity, position, velocity
        climbing = scalars.carry("climbing", start)
        for at in tree.climb(tip[0]):
            scalars.begin("response", tip[0])
            placed, drift = sweep.placed[at], sweep.drift[at]
            row, turn, force, rate = climbing.value
            row, turn = row.to_parent(placed, drift), placed.to_parent(turn)
            force, rate = placed.force_to_parent(*force), placed.force_to_parent(*rate)
            climbing.value = row, turn, force, rate
            above = tree.bodies[at].parent
            for k, seen in enumerate(self._effects[above]):
                root = above, k
                qq = row.answer(seen.position) + along(seen.axis, force)
                qv = dot(turn, seen.position.w) + along(seen.axis, rate)
                self._both(H, (tip, 0), (root, 0), qq)
                self._both(H, (tip, 1), (root, 1), dot(turn, seen.velocity.w))
                self._both(H, (tip, 0), (root, 1), row.answer(seen.velocity))
                self._both(H, (root, 0), (tip, 1), qv)

    def _both(self, H: Square, j: _Variable, k: _Variable, entry: Scalar) -> None:
        self._add(H, j, k, entry)
        self._add(H, k, j, entry)

    def _add(self, H: Square, j: _Variable, k: _Variable, entry: Scalar) -> None:
        """Add an entry between axes, each with the order of its derivative in time."""
        ((a, axis), first), ((b, other), second) = j, k
        one, two = self._tree.bodies[a], self._tree.bodies[b]
        entry = followed(entry, (one, two), self._scalars)
        row = H[one.v_index + axis + first * self._tree.nv]
        at = two.v_index + other + second * self._tree.nv
        row[at] = row[at] + entry


def _step(
    state: State,
    tau: Numbers,
    dt: Numbers,
    costate: Numbers,
    *,
    share: float = 1.0,
    is_damping_implicit: bool = False,
) -> Square:
    """Return the Hessian of costate . state of a step of ``integrators``, 3 nv x 3 nv.

    It is the symmetric part of the derivative of costate [A B], with ``linearization``'s A and B.
    """
    step, n, changes = dt[0], state.tree.nv, Changes(state)
    there = _Accelerations(state, tau, step if is_damping_implicit else None)
    along = changes.after(share, step, changes.accelerations(there.rates))
    path = scaled(state, step, velocities_after(state, step, share, there.rates.qdd))
    H = state.scalars.matrix("H", 3 * n, 3 * n)
    slopes = _add_paths(changes, costate, path, changes.sum((step, along)), H)
    multipliers = state.scalars.table("multiplier", n)
    for i in state.tree.velocities.outward():
        slope = costate[i + n] + (share * step) * slopes[i] if share else costate[i + n]
        multipliers[i] = step * slope
    there.add_hessian(multipliers, H)
    return H


semi_implicit = _step
euler = partial(_step, share=0.0)
constant_acceleration = partial(_step, share=0.5)
implicit = partial(_step, is_damping_implicit=True)


def _stages(state: State, tau: Numbers, dt: Numbers, costate: Numbers, *, name: str) -> Square:
    """Return the Hessian of a step of several stages, as ``_step``, in reverse from its end."""
    step, n, changes, axes = dt[0], state.tree.nv, Changes(state), range(state.tree.nv)
    moves, zero = MOVES[name], state.scalars.constant(0.0)
    found: list[_Accelerations] = []

    def evaluate(there: State) -> Accelerations:
        found.append(_Accelerations(there, tau))
        return found[-1].rates

    states = stages(state, step, moves, evaluate)
    H: Square = state.scalars.matrix("H", 3 * n, 3 * n)
    # Derivatives of the costate's sum by the velocities and the accelerations of the stages.
    by_speed, by_gain = ([[zero] * n for _ in found] for _ in range(2))
    by_place, by_end = [costate[i] for i in axes], [costate[i + n] for i in axes]
    for k, move in reversed([*enumerate(moves)]):
        end, own, rates = states[k + 1], states[k], found[k].rates
        slopes: Numbers = _add_paths(changes, by_place, end.path, end.along, H)
        for factor, by in terms(step, move.along, by_speed):
            by[:] = [x + factor * y for x, y in zip(by, slopes, strict=True)]
        for factor, by in terms(step, move.faster, by_gain):
            by[:] = [x + factor * y for x, y in zip(by, by_end, strict=True)]
        if move.twist:
            factor, ends = step * step * move.twist[0], move.twist[1:]
            one, other = ((states[a].speed, states[a].rate, by_speed[a]) for a in ends)
            _add_commutators(changes, [factor * x for x in slopes], one, other, H)
        weights = by_gain[k]
        if k == 0:
            found[0].add_hessian(weights, H)
            break
        curved: Square = state.scalars.matrix("H", 3 * n, 3 * n)
        found[k].add_hessian(weights, curved)
        _add_congruent(changes, curved, (own.place, own.rate), H)
        by_place = [dot(weights, [row[j] for row in rates.by_q]) for j in axes]
        by_end = [by_speed[k][j] + dot(weights, [row[j] for row in rates.by_qd]) for j in axes]
    return H


def _add_congruent(changes: Changes, own: Square, change: tuple[Square, Square], H: Square) -> None:
    """Add Z^T own Z to H, where Z is the change of a stage's state and the torques."""
    n = changes.state.tree.nv
    Z, columns = [*change[0], *change[1]], range(3 * n)
    product = [
        [
            dot(own[i][: 2 * n], [row[j] for row in Z]) + (own[i][j] if j >= 2 * n else 0.0)
            for j in columns
        ]
        for i in columns
    ]
    for j, k in changes.pairs():
        entry = dot([row[j] for row in Z], [product[i][k] for i in range(2 * n)])
        if j >= 2 * n:
            entry = entry + product[j][k]
        H[j][k] = H[j][k] + entry
        if j != k:
            H[k][j] = H[k][j] + entry


_Speed = tuple[Numbers, Square, list[Scalar]]  # velocities, their changes, derivatives by them


def _add_commutators(
    changes: Changes, weights: Numbers, one: _Speed, other: _Speed, H: Square
) -> None:
    """Add the first and second derivatives of weighted commutators of free joints' velocities."""
    scalars = changes.state.scalars
    for body in own_joints(changes.state):
        joint, at, axes = body.joint_type, body.v_index, range(body.joint_type.nv)
        if joint.nv == 1:
            continue
        own = weights[at : at + joint.nv]
        units = [[scalars.constant(float(r == c)) for c in axes] for r in axes]
        K = [[dot(own, joint.commutator(a, b)) for b in units] for a in units]
        starts, ends = ([array[0][at + r] for r in axes] for array in (one, other))
        first, second = ([array[1][at + r] for r in axes] for array in (one, other))
        for r in axes:
            one[2][at + r] = one[2][at + r] + dot(K[r], ends)
            other[2][at + r] = other[2][at + r] + dot([row[r] for row in K], starts)
        columns = [*changes.columns()]
        bent = [[dot(row, [x[j] for x in second]) for j in columns] for row in K]
        for j in columns:
            for k in columns:
                entry = dot([x[j] for x in first], [row[k] for row in bent])
                H[j][k] = H[j][k] + entry
                H[k][j] = H[k][j] + entry


midpoint, trapezoidal, rk4 = (partial(_stages, name=name) for name in MOVES)


def _add_paths(
    changes: Changes, costate: Numbers, path: Numbers, moves: Square, H: Square
) -> list[Scalar]:
    """Add the second derivatives of ``integrate`` for a path with the given change.

    Returns:
        the derivatives of the costate's positions by the path.
    """
    scalars = changes.state.scalars
    slopes: list[Scalar] = scalars.table("slope", changes.state.tree.nv)
    for body in own_joints(changes.state):
        first, joint = body.v_index, body.joint_type
        if joint.nv == 1:
            slopes[first] = costate[first]
            continue
        axes = range(joint.nv)
        rate, weights = ([array[first + r] for r in axes] for array in (path, costate))
        _, onward = joint.integrated_gradient(rate, scalars)
        for r, column in enumerate(zip(*onward, strict=True)):
            slopes[first + r] = dot(weights, column)
        one, zero = scalars.constant(1.0), scalars.constant(0.0)
        by_start: list[list[Scalar]] = []
        by_path: list[list[Scalar]] = []
        for c in axes:
            turning = [Dual(entry, one if r == c else zero) for r, entry in enumerate(rate)]
            changed = tangents_of(joint.integrated_gradient(turning, DualScalars(scalars)))
            for found, rows in zip((by_start, by_path), changed, strict=True):
                found.append([dot(weights, column) for column in zip(*rows, strict=True)])
        starts = [[0.5 * entry for entry in row] for row in zip(*by_start, strict=True)]
        curved = [[0.5 * (by_path[c][d] + by_path[d][c]) for d in axes] for c in axes]
        for j in changes.columns():
            own = [moves[first + c][j] for c in axes]
            for r, line in enumerate(starts):
                entry = dot(line, own)
                H[first + r][j] = H[first + r][j] + entry
                H[j][first + r] = H[j][first + r] + entry
        for j, k in changes.pairs():
            one, other = ([moves[first + c][at] for c in axes] for at in (j, k))
            entry = dot(one, [dot(row, other) for row in curved])
            H[j][k] = H[k][j] = H[j][k] + entry
    return slopes
