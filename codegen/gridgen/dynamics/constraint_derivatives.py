"""Analytical derivatives of forward dynamics with constraints.

With the constraint function c = J qdd + g (see ``gridgen.dynamics.constraints``), accelerations and
forces solve

    ID(q, qd, qdd) - J^T f = tau        c(q, qd, qdd) + R f = 0

Their derivatives by any x solve the same system, with the same factors. Written out, with
S = (A + R)^-1, P = S J M^-1 and K = M^-1 - M^-1 J^T P,

    dqdd = K (dtau - dID) - P^T dc        df = -P (dtau - dID) - S dc

where dID and dc are the derivatives at constant accelerations and forces. dID is the gradient of
inverse dynamics, less that of J^T f.

Motion of ``link`` relative to ``to`` depends only on the joints between them: a chain that starts
at ``to``. It is the same for an observer who moves with ``to``, whose spatial motions are used here
at the point of ``link``. A joint with the axis S carries everything behind it: the motion V of
``link`` changes by S x (V - V'), where V' is that of the joint's parent.

Source: Carpentier and Mansard 2018; Carpentier, Budhiraja and Mansard 2021.
"""

from __future__ import annotations

from itertools import chain

from gridgen.dynamics.constraints import (
    ConstraintRows,
    Constraints,
    Forces,
    Rows,
    Turn,
    weighted_products,
)
from gridgen.dynamics.derivatives import Accelerations, begin_gradient
from gridgen.dynamics.linear import begin_in_place, finish_in_place
from gridgen.dynamics.minverse import inverse
from gridgen.dynamics.state import Numbers, State
from gridgen.dynamics.sweep import Square
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import (
    Motion,
    add,
    carried,
    cross,
    dot,
    sub,
)


def constrained_forward_dynamics_gradient(
    state: State, tau: Numbers
) -> tuple[Square, Square, Square, Rows, Rows, Rows]:
    """Return the derivatives of ``constrained_forward_dynamics``, which has the same arguments.

    Derivatives of forces are those of their components in the axes of ``to``.

    Returns:
        dqdd_dq, dqdd_dqd, dqdd_dtau:       nv x nv each, row i for acceleration i.
        dforces_dq, dforces_dqd, dforces_dtau: m x nv each, row i for force i.
    """
    found = _Gradient(state, tau)
    rates, forces = found.accelerations(), found.forces()
    return rates.by_q, rates.by_qd, rates.by_tau, *forces


def constrained_accelerations_gradient(
    state: State, tau: Numbers, damping_step: Scalar | None = None
) -> Accelerations:
    """Return accelerations and derivatives; see ``derivatives.accelerations_gradient``."""
    return _Gradient(state, tau, damping_step).accelerations()


class _Gradient:
    """The derivatives of the equations, and their solution."""

    def __init__(self, state: State, tau: Numbers, damping_step: Scalar | None = None) -> None:
        self._state, self._scalars = state, state.scalars
        start = begin_gradient(state, damping_step)
        self._constraints = constraints = Constraints(state)
        rest = constraints.rest(start.sweep.motions)
        z = begin_in_place(start.factors, [a - b for a, b in zip(tau, start.bias, strict=True)])
        rows = [list(row) for row in constraints.rows]
        Y, scaled, A = weighted_products(rows, start.factors, self._scalars)
        held = Forces(constraints, A)
        f = held.solve([-(g + dot(y, z)) for g, y in zip(rest, scaled, strict=True)])
        for y, force in zip(Y, f, strict=True):
            z = [a + force * entry for a, entry in zip(z, y, strict=True)]
        self._scalars.begin("solve", -1)
        self.qdd = finish_in_place(start.factors, z)
        self.dID_dq, self.dID_dqd = start.gradients(self.qdd)
        self.dc_dq, self.dc_dqd = self._changes(f)
        self._scalars.begin("solve", -1)
        W = [finish_in_place(start.factors, y) for y in Y]  # the rows of J M^-1
        self.S = held.inverse()
        self.P = [[dot(row, column) for column in zip(*W, strict=True)] for row in self.S]
        self.K = K = [list(row) for row in inverse(state, start.factors)]
        for i in range(len(K)):
            for j in range(i + 1):
                shared = dot([row[i] for row in W], [row[j] for row in self.P])
                K[i][j] = K[j][i] = K[i][j] - shared

    def accelerations(self) -> Accelerations:
        """Return the accelerations and their derivatives."""
        by_state = self._by_state(self.K, _transposed(self.P))
        return Accelerations(self.qdd, *by_state, self.K)

    def forces(self) -> tuple[Rows, Rows, Rows]:
        """Return the derivatives of the forces by positions, velocities and torques."""
        S, P = (
            _transposed([self._constraints.turned(column) for column in zip(*rows, strict=True)])
            for rows in (self.S, self.P)
        )
        minus_P = [[-entry for entry in row] for row in P]
        return *self._by_state(minus_P, S), minus_P

    def _by_state(self, of_ID: Rows, of_c: Rows) -> tuple[Rows, Rows]:
        """Return minus the responses to dID and dc by q, and by qd."""
        by_q = _minus_products((of_ID, self.dID_dq), (of_c, self.dc_dq))
        return by_q, _minus_products((of_ID, self.dID_dqd), (of_c, self.dc_dqd))

    def _changes(self, f: Numbers) -> tuple[Rows, Rows]:
        """Return the derivatives of c by q and qd; subtract that of J^T f from ``dID_dq``."""
        by_q: Rows = []
        by_qd: Rows = []
        for number, held in enumerate(self._constraints.held):
            self._scalars.begin("constraint", -1)
            gains = self._state.given["stabilization"][2 * number : 2 * number + 2]
            start = len(by_q)
            if held.link is None:
                for rows, gain in zip((by_q, by_qd), gains, strict=True):
                    rows += [[gain * entry for entry in row] for row in held.rows]
                continue
            for rows in (by_q, by_qd):
                rows += [[self._scalars.constant(0.0)] * self._state.tree.nv for _ in held.rows]
            self._add_motion(held, gains, (by_q[start:], by_qd[start:]))
            self._subtract_forces(held, f[start : len(by_q)])
        return by_q, by_qd

    def _add_motion(self, held: ConstraintRows, gains: Numbers, changes: tuple[Rows, Rows]) -> None:
        """Add the derivatives of c to rows of zeros."""
        zero = (self._scalars.constant(0.0),) * 3
        V, A = (zero, zero), (zero, zero)
        seen: list[tuple[Turn, Motion, Motion, Motion]] = []
        for turn in held.turns:
            before = V, A
            own, rate = (turn.combined(numbers) for numbers in (self._state.qd, self.qdd))
            V, A = _sum(V, own), _sum(A, _sum(rate, carried(V, own)))
            parent = before if turn.is_forward else (V, A)
            seen.append((turn, *parent, V if turn.is_forward else before[0]))
        (v, w), (_, wd), (kp, kd) = V, A, gains
        for turn, V_parent, A_parent, V_body in seen:
            behind = _less(V, V_parent), _less(A, A_parent)
            for j, S in zip(turn.columns, turn.screws, strict=True):
                dV = carried(S, behind[0])
                dA = _sum(carried(S, behind[1]), carried(carried(V_parent, S), behind[0]))
                dv = add(dV[0], cross(w, S[0]))  # at the point of ``link``, which moves too
                da = add(add(dA[0], cross(wd, S[0])), add(cross(dV[1], v), cross(w, dv)))
                by_q = _stacked((da, dA[1]), kd, (dv, dV[1]))
                if held.constraint.has_target:
                    by_q = [a + kp * e for a, e in zip(by_q, chain(*held.error(S)), strict=True)]
                dA = _sum(dV, carried(V_body, S))
                da = add(dA[0], add(cross(S[1], v), cross(w, S[0])))
                by_qd = _stacked((da, dA[1]), kd, S)
                for rows, column in zip(changes, (by_q, by_qd), strict=True):
                    for row, entry in zip(rows, column, strict=False):
                        row[j] = row[j] + entry

    def _subtract_forces(self, held: ConstraintRows, f: Numbers) -> None:
        """Subtract the derivatives of J^T f by q, with f constant in the axes of ``to``."""
        force, moment = (f[0], f[1], f[2]), f[3:6]
        every = [
            (place, turn, j, S)
            for place, turn in enumerate(held.turns)
            for j, S in zip(turn.columns, turn.screws, strict=True)
        ]
        for place, turn, i, S in every:
            turned = cross(S[0], force)
            if moment:
                turned = add(turned, cross(S[1], (moment[0], moment[1], moment[2])))
            for other, _, j, by in every:
                if other < place or (other == place and turn.is_forward):
                    change = dot(by[1], turned)  # carried by the other joint
                else:
                    change = dot(S[1], cross(by[0], force))  # only the point of ``link`` moves
                self.dID_dq[i][j] = self.dID_dq[i][j] - change


def _sum(a: Motion, b: Motion) -> Motion:
    return add(a[0], b[0]), add(a[1], b[1])


def _less(a: Motion, b: Motion) -> Motion:
    return sub(a[0], b[0]), sub(a[1], b[1])


def _stacked(a: Motion, factor: Scalar, b: Motion) -> list[Scalar]:
    """Return the six numbers of a + factor b."""
    return [x + factor * y for x, y in zip(chain(*a), chain(*b), strict=True)]


def _minus_products(*pairs: tuple[Rows, Rows]) -> Rows:
    """Return minus the sum of the products of pairs of matrices."""
    left = [
        [-entry for row in rows for entry in row]
        for rows in zip(*(first for first, _ in pairs), strict=True)
    ]
    columns = list(zip(*(row for _, second in pairs for row in second), strict=True))
    return [[dot(row, column) for column in columns] for row in left]


def _transposed(rows: Rows) -> Rows:
    return [list(column) for column in zip(*rows, strict=True)]
