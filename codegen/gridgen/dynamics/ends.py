"""The excess of a state over its bounds, by which the states of a rollout end."""

from __future__ import annotations

from dataclasses import replace

from gridgen.dynamics.collision import self_distance
from gridgen.dynamics.frames import body_poses
from gridgen.dynamics.state import Numbers, State
from gridgen.symbolic.scalars import Scalar


def excess(state: State, q_range: Numbers, base_range: Numbers) -> Scalar:
    """Return zero for a state within its bounds, otherwise a positive number or NaN.

    Args:
        q_range:    least and largest value of each position; those of quaternions are not read.
        base_range: of the floating base, least and largest z coordinate of the origin in the
                    world, and least cosine of the angle between its z axis and that of the world.
    """
    state = _natural(state)
    scalars, tree, q = state.scalars, state.tree, state.q
    scalars.begin("excess", -1)
    zero = scalars.constant(0.0)
    quaternions = {start + k for start in tree.quaternions for k in range(4)}
    below = [
        term
        for j in range(tree.nq)
        if j not in quaternions
        for term in (q[j] - q_range[2 * j], q_range[2 * j + 1] - q[j])
    ]
    if tree.base is not None:
        pose = body_poses(state)[tree.base]
        low, high, upright = base_range
        below += [pose.p[2] - low, high - pose.p[2], pose.R[2][2] - upright]
    total = zero
    for term in below:  # a NaN is not negative, and remains
        total = total + scalars.select(-term, zero, -term)
    return total


def excess_apart(state: State, q_range: Numbers, base_range: Numbers, margin: Numbers) -> Scalar:
    """Return the same where links must also be a margin [m] apart."""
    scalars = state.scalars
    more = margin[0] - self_distance(_natural(state))[0]
    more = scalars.select(more, scalars.constant(0.0), more)
    return excess(state, q_range, base_range) + more


def _natural(state: State) -> State:
    """Return the state with quaternions in the order x, y, z, w."""
    if not state.world_axes:
        return state
    q = [state.q[j] for j in range(state.tree.nq)]
    for start in state.tree.quaternions:
        q[start : start + 4] = [*q[start + 1 : start + 4], q[start]]
    return replace(state, q=q, world_axes=False)
