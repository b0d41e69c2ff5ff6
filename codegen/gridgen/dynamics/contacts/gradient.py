"""Linearization of steps with soft contacts, column by column on dual numbers.

The columns share the solution: its derivatives are those of one Newton step from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gridgen.dynamics.state import Numbers, State
from gridgen.symbolic.dual import Dual, DualScalars, tangents_of, values_of
from gridgen.symbolic.rotations import conjugate, rotate
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import Vector, add, cross, dot, scale, sub

Step = Callable[[State, Numbers, Numbers], tuple[Sequence[Any], Sequence[Any]]]
Matrix = list[list[Scalar]]


def contact_step_gradient(
    state: State, tau: Numbers, dt: Numbers, step: Step
) -> tuple[Matrix, Matrix]:
    """Return A and B of a step; see ``gridgen.dynamics.linearization``."""
    n, scalars = state.tree.nv, state.scalars
    zero, one = scalars.constant(0.0), scalars.constant(1.0)
    columns = []
    for k in range(3 * n):
        unit = [one if j == k else 0.0 for j in range(3 * n)]
        q = [*map(Dual, state.q, coordinates_change(state, unit[:n]))]
        moved = replace(constant_in(state), q=q, qd=[*map(Dual, state.qd, unit[n : 2 * n])])
        torques = [*map(Dual, tau, unit[2 * n :])]
        q_next, qd_next = step(moved, torques, [*map(Dual, dt)])
        turns = _tangent(state, values_of([*q_next]), tangents_of([*q_next]))
        column = [*turns, *tangents_of([*qd_next])]
        columns.append([zero if is_none(entry) else entry for entry in column])
    rows = [list(row) for row in zip(*columns, strict=True)]
    return [row[: 2 * n] for row in rows], [row[2 * n :] for row in rows]


def is_none(entry: Scalar) -> bool:
    """Return whether a derivative is zero in every state."""
    return type(entry) is float and entry == 0.0


def constant_in(state: State) -> State:
    """Return a state over dual numbers without derivatives."""
    names = ("gravity", "base_velocity", "base_acceleration", "f_ext")
    fields = {name: getattr(state, name) for name in names}
    known: Any = {name: None if v is None else tuple(map(Dual, v)) for name, v in fields.items()}
    given = {name: [*map(Dual, values)] for name, values in state.given.items()}
    return replace(state, scalars=DualScalars(state.scalars), given=given, **known)


def coordinates_change(state: State, change: Sequence[Scalar]) -> list[Scalar]:
    """Return the change of coordinates for a change of the configuration, a unit vector."""
    found: list[Scalar] = [0.0] * state.tree.nq
    half, zero = map(state.scalars.constant, (0.5, 0.0))
    for body in state.tree.bodies:
        at, own = body.q_index, change[body.v_index : body.v_index + body.nv]
        if body.mimics or all(map(is_none, own)):
            continue
        if not body.joint_type.is_free:
            found[at : at + body.nq] = own
            continue
        turn, w = tuple(state.q[at + 3 : at + 6]), state.q[at + 6]
        full = [zero if is_none(entry) else entry for entry in own]
        slide, spin = tuple(full[:3]), tuple(full[3:])
        found[at : at + 3] = rotate((*turn, w), slide)
        spin = scale(half, spin)
        found[at + 3 : at + 6] = add(scale(w, spin), cross(turn, spin))
        found[at + 6] = -dot(turn, spin)
    return found


def _tangent(state: State, q: Sequence[Scalar], change: Sequence[Scalar]) -> list[Scalar]:
    """Return the change of a configuration for a change of its coordinates."""
    found: list[Scalar] = [0.0] * state.tree.nv
    for body in state.tree.bodies:
        at, j = body.q_index, body.v_index
        if body.mimics:
            continue
        if not body.joint_type.is_free:
            found[j : j + body.nv] = change[at : at + body.nv]
            continue
        turn, w = tuple(q[at + 3 : at + 6]), q[at + 6]
        slide, spin, along = (
            tuple(change[at : at + 3]),
            tuple(change[at + 3 : at + 6]),
            change[at + 6],
        )
        found[j : j + 3] = rotate(conjugate((*turn, w)), slide)
        twice = state.scalars.constant(2.0)
        parts: Vector = sub(sub(scale(w, spin), scale(along, turn)), cross(turn, spin))
        found[j + 3 : j + 6] = scale(twice, parts)
    return found
