"""States over dual numbers with all columns at once, and steps linearized on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gridgen.dynamics.state import Numbers, State, Undeclared
from gridgen.symbolic.dual import (
    ColumnScalars,
    Dual,
    DualScalars,
    Slopes,
    slopes_of,
    tangents_of,
    values_of,
)
from gridgen.symbolic.scalars import Scalar

Step = Callable[[State, Numbers, Numbers], tuple[Sequence[Any], Sequence[Any]]]
Matrix = list[list[Scalar]]


def contact_step_gradient(
    state: State, tau: Numbers, dt: Numbers, step: Step
) -> tuple[Matrix, Matrix]:
    """Return A and B of a step; see ``gridgen.dynamics.linearization``."""
    n = state.tree.nv
    begin, units = moving(state, 3 * n)
    q_next, qd_next = step(begin, [*map(Dual, tau, units[2 * n :])], [*map(Dual, dt)])
    turns = tangent_of(state, values_of([*q_next]), tangents_of([*q_next]))
    rows = rows_of(state, (*turns, *tangents_of([*qd_next])), 3 * n)
    return [row[: 2 * n] for row in rows], [row[2 * n :] for row in rows]


def rows_of(state: State, tangents: Sequence[Scalar], count: int) -> Matrix:
    """Return the derivatives of several numbers by all columns."""
    zero = state.scalars.constant(0.0)
    return [[own.get(k, zero) for k in range(count)] for own in map(slopes_of, tangents)]


def moving(state: State, count: int) -> tuple[State, list[Slopes]]:
    """Return a state that moves by columns for dq and then, if there are more, qd; and these."""
    n, one = state.tree.nv, state.scalars.constant(1.0)
    units = [Slopes({k: one}) for k in range(count)]
    moved = along(state, units[:n])
    if count > n:
        moved = replace(moved, qd=[*map(Dual, state.qd, units[n : 2 * n])])
    return moved, units


def along(state: State, change: Sequence[Slopes]) -> State:
    """Return a state that moves by a change of its configuration."""
    q = [*map(Dual, state.q, _coordinates_of(state, change))]
    return replace(constant(state), q=q)


def constant(state: State) -> State:
    """Return a state over dual numbers without derivatives."""
    made = _mapped(state, lambda values: [*map(Dual, values)])
    return replace(made, scalars=ColumnScalars(state.scalars))


def undifferentiated(state: State) -> State:
    """Return a state over dual numbers without its derivatives."""
    assert isinstance(state.scalars, DualScalars)
    return replace(_mapped(state, values_of), scalars=state.scalars.inner)


def _mapped(state: State, change: Callable[[Sequence[Any]], Sequence[Any]]) -> State:
    names = ("q", "qd", "gravity", "base_velocity", "base_acceleration", "f_ext", "offset")
    fields = {name: getattr(state, name) for name in names}
    known: Any = {
        name: v if v is None or isinstance(v, Undeclared) else tuple(change([*v]))
        for name, v in fields.items()
    }
    given = {name: change([*values]) for name, values in state.parameters.items()}
    return replace(state, given={**state.given, **given}, **known)


def _coordinates_of(state: State, change: Sequence[Slopes]) -> list[Scalar]:
    """Return the change of coordinates for a change of the configuration."""
    found: list[Scalar] = [0.0] * state.tree.nq
    for body in state.tree.bodies:
        if not body.mimics:
            at, own = body.q_index, change[body.v_index : body.v_index + body.nv]
            q, moves = _dual(state, state.q[at : at + body.nq], own)
            found[at : at + body.nq] = tangents_of(body.joint_type.rates(q, moves))
    return found


def tangent_of(state: State, q: Sequence[Scalar], change: Sequence[Scalar]) -> list[Scalar]:
    """Return the change of a configuration for a change of its coordinates."""
    found: list[Scalar] = [0.0] * state.tree.nv
    for body in state.tree.bodies:
        if not body.mimics:
            own = slice(body.q_index, body.q_index + body.nq)
            place, moves = _dual(state, q[own], change[own])
            turned = body.joint_type.velocity(place, moves)
            found[body.v_index : body.v_index + body.nv] = tangents_of(turned)
    return found


def _dual(
    state: State, known: Sequence[Scalar], changes: Sequence[Scalar]
) -> tuple[list[Any], list[Any]]:
    """Return constants, and zeros with derivatives."""
    zero = state.scalars.constant(0.0)
    return [*map(Dual, known)], [Dual(zero, change) for change in changes]
