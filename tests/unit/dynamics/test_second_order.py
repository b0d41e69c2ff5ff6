"""Second derivatives of inverse dynamics.

Pinocchio's are not part of its Python interface, so the oracle is the complex step of first
derivatives, which are compared with Pinocchio's elsewhere.
"""

from __future__ import annotations

import numpy as np
import pytest

from gridgen.dynamics.crba import mass_matrix
from gridgen.dynamics.derivatives import inverse_dynamics_gradient
from gridgen.dynamics.second_order import inverse_dynamics_second_order
from gridgen.dynamics.state import State
from gridgen.errors import ModelError
from gridgen.symbolic.scalars import CountingScalars
from helpers.dynamics import (
    GRAVITY,
    Array,
    assert_close,
    columns,
    complex_step,
    load_tree,
    numbers,
    operations,
    position_steps,
    random_loads,
    random_states,
    state_of,
    trace,
    velocity_steps,
)

STATES = 3

TOLERANCE = 1e-12
"""A few hundred roundings of float64, relative to the largest entry."""

NAMES = ("d2tau_dqdq", "d2tau_dqddqd", "d2tau_dqdqd", "dM_dq")


@pytest.mark.parametrize("loaded", [False, True], ids=["at rest", "loaded"])
@pytest.mark.parametrize(
    "name",
    ["cart_pole", "gripper", "screws", "arm7", "quadruped", "humanoid", "panda", "ur10_robot"],
)
def test_second_derivatives_are_the_complex_steps_of_the_first(name, loaded):
    tree = load_tree(name)
    q, qd, qdd, _ = random_states(tree, STATES)
    loads = random_loads(tree) if loaded else {"gravity": GRAVITY}

    def gradient(q: Array, qd: Array, qdd: Array) -> tuple[list[list[Array]], ...]:
        return inverse_dynamics_gradient(state_of(tree, q, qd, **loads), columns(qdd))

    by_q, by_qd = position_steps(tree, q), velocity_steps(qd)
    wanted = (
        complex_step(lambda q, qd, qdd: gradient(q, qd, qdd)[0], by_q, qd, qdd),
        complex_step(lambda qd, q, qdd: gradient(q, qd, qdd)[1], by_qd, q, qdd),
        complex_step(lambda qd, q, qdd: gradient(q, qd, qdd)[0], by_qd, q, qdd),
        complex_step(lambda q: mass_matrix(state_of(tree, q)), by_q),
    )
    result = inverse_dynamics_second_order(state_of(tree, q, qd, **loads), columns(qdd))
    for what, mine, theirs in zip(NAMES, result, wanted, strict=True):
        assert_close(numbers(mine, STATES), theirs, TOLERANCE, what)


def test_structure():
    """Zero between branches; symmetric where derivatives commute, to the last bit."""
    tree = load_tree("quadruped")
    cubes, scalars = trace(tree, inverse_dynamics_second_order, "q", "qd", "qdd")
    order = {body.v_index: index for index, body in enumerate(tree.bodies)}
    on_a_path = np.array(
        [
            [i == j or i in tree.ancestors(j) or j in tree.ancestors(i) for j in order.values()]
            for i in order.values()
        ]
    )
    for i, j, k in np.ndindex(tree.nv, tree.nv, tree.nv):
        if not (on_a_path[i, j] and on_a_path[j, k] and on_a_path[i, k]):
            assert all(cube[i][j][k] is scalars.graph.zero for cube in cubes)
        by_positions, by_velocities, _, inertia = cubes
        assert by_positions[i][j][k] is by_positions[i][k][j]
        assert by_velocities[i][j][k] is by_velocities[i][k][j]
        assert inertia[i][j][k] is inertia[j][i][k]


def test_operations_of_a_seven_joint_arm():
    assert (
        operations(*trace(load_tree("arm7"), inverse_dynamics_second_order, "q", "qd", "qdd"))
        <= 11000
    )


def test_counters_pass_through():
    tree, scalars = load_tree("arm7"), CountingScalars()
    q = scalars.inputs(tree.nq)
    inverse_dynamics_second_order(State(tree, scalars, q, q, tuple(q[:3])), q)
    assert scalars.operations > 11000


def test_free_joints_are_refused():
    tree = load_tree("quadruped", floating=True)
    with pytest.raises(ModelError, match='joint "root_joint" is free'):
        trace(tree, inverse_dynamics_second_order, "q", "qd", "qdd")
