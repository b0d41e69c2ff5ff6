"""Hessians of weighted sums of torques, of accelerations and of the state after a time step.

The weights are a virtual twist of every body. For a sum over the torques, the sums over the tips
below a joint (``second_order``) are a row of the whole subtree, those over the joints above are the
virtual twist of the carrier. Pairs of axes on one path remain: the cost is that of a gradient.

A Hessian is in exponential coordinates: that of displacements along velocities in the tangent
space. It is the symmetric part of the derivative of a gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from gridgen.dynamics.configurations import own_joints
from gridgen.dynamics.derivatives import (
    Accelerations,
    accelerations_gradient,
    inverse_dynamics_gradient,
)
from gridgen.dynamics.friction import curvature
from gridgen.dynamics.integrators import scaled, velocities_after
from gridgen.dynamics.kinematics import joint_rate
from gridgen.dynamics.linearization import Changes
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
    rates = accelerations_gradient(state, tau)
    H = state.scalars.matrix("H", 3 * state.tree.nv, 3 * state.tree.nv)
    _add_accelerations(state, rates, multipliers, H)
    return H


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
    at_rest = replace(state.at_rest, qd=scalars.table("still", n, zero), f_ext=None)
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
    rates = accelerations_gradient(state, tau, step if is_damping_implicit else None)
    along = changes.after(share, step, changes.accelerations(rates))
    path = scaled(state, step, velocities_after(state, step, share, rates.qdd))
    H = state.scalars.matrix("H", 3 * n, 3 * n)
    slopes = _add_paths(changes, costate, path, changes.sum((step, along)), H)
    multipliers = state.scalars.table("multiplier", n)
    for i in state.tree.velocities.outward():
        slope = costate[i + n] + (share * step) * slopes[i] if share else costate[i + n]
        multipliers[i] = step * slope
    _add_accelerations(state, rates, multipliers, H)
    return H


semi_implicit = _step
euler = partial(_step, share=0.0)
constant_acceleration = partial(_step, share=0.5)
implicit = partial(_step, is_damping_implicit=True)


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
