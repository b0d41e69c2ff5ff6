"""First derivatives of inverse and forward dynamics."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from gridgen.dynamics.crba import forward_dynamics_crba
from gridgen.dynamics.derivatives import forward_dynamics_gradient, inverse_dynamics_gradient
from gridgen.dynamics.functions import refusal
from gridgen.dynamics.rnea import inverse_dynamics
from gridgen.dynamics.state import State
from gridgen.model.tree import KinematicTree
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
    robot_path,
    state_of,
    trace,
    velocity_steps,
)
from helpers.oracle import Oracle
from helpers.robots import ALL_CASES, joint_text, link_text, refused, robot_text

STATES = 20
AT_REST = {"gravity": GRAVITY}

TOLERANCE = 1e-12
"""A few hundred roundings of float64, relative to the largest entry."""

CONDITIONED = 1e-15
"""Per unit of the mass matrix's condition number, for what its inverse multiplies."""

CASES = [
    *ALL_CASES,
    pytest.param("double_pendulum_continuous", False, id="double_pendulum_continuous-fixed"),
    pytest.param("b1-z1", True, id="b1-z1-floating"),
]


def load(name: str, floating: bool) -> tuple[KinematicTree, Oracle]:
    tree = load_tree(name, floating)
    return tree, Oracle(tree, robot_path(name))


def gradients(tree: KinematicTree, q: Array, qd: Array, qdd: Array) -> list[Array]:
    result = inverse_dynamics_gradient(state_of(tree, q, qd, **AT_REST), columns(qdd))
    return [numbers(matrix, len(q)) for matrix in result]


@pytest.mark.parametrize(("name", "floating"), CASES)
def test_inverse_dynamics_gradient_is_pinocchios(name, floating):
    tree, oracle = load(name, floating)
    q, qd, qdd, _ = random_states(tree, STATES)
    dtau_dq, dtau_dqd = gradients(tree, q, qd, qdd)
    wanted = []
    for state in range(STATES):
        matrices = pinocchio.computeRNEADerivatives(
            oracle.model,
            oracle.data,
            oracle.position(q[state]),
            oracle.spread @ qd[state],
            oracle.spread @ qdd[state],
        )
        wanted.append([oracle.square(matrix) for matrix in matrices[:2]])
    by_q, by_qd = np.swapaxes(wanted, 0, 1)
    assert_close(dtau_dq, by_q, TOLERANCE, "dtau_dq")
    assert_close(dtau_dqd, by_qd, TOLERANCE, "dtau_dqd")


def why_not(name, floating):
    tree, _ = load(name, floating)
    if tree.has_mimic:
        return "Pinocchio's forward dynamics needs independent joints"
    return refusal(tree, "forward_dynamics_gradient")


@refused(why_not)
@pytest.mark.parametrize(("name", "floating"), CASES)
def test_forward_dynamics_gradient_is_pinocchios(name, floating):
    tree, oracle = load(name, floating)
    q, qd, _, tau = random_states(tree, STATES)
    result = forward_dynamics_gradient(state_of(tree, q, qd, **AT_REST), columns(tau))
    actual = [numbers(matrix, STATES) for matrix in result]
    for state in range(STATES):
        by_q, by_qd, upper = pinocchio.computeABADerivatives(
            oracle.model,
            oracle.data,
            oracle.position(q[state]),
            oracle.spread @ qd[state],
            oracle.spread @ tau[state],
        )
        inverse = oracle.square(np.triu(upper) + np.triu(upper, 1).T)
        tolerance = max(TOLERANCE, CONDITIONED * float(np.linalg.cond(inverse)))
        wanted = (oracle.square(by_q), oracle.square(by_qd), inverse)
        for name, mine, theirs in zip(("q", "qd", "tau"), actual, wanted, strict=True):
            assert_close(mine[state], theirs, tolerance, f"dqdd_d{name}, state {state}")


FREE_IN_THE_TREE = robot_text(
    link_text("base"),
    link_text("arm", com="0.1 0.2 0.3", rpy="0.1 0.2 0.3"),
    link_text("satellite", com="0.3 -0.1 0.2"),
    link_text("hand"),
    link_text("slider", com="0.2 0.1 0"),
    joint_text("shoulder", "base", "arm", rpy="0.3 -0.4 0.5", axis="1 2 3"),
    joint_text("free", "arm", "satellite", "floating", xyz="0.4 0.1 0.2", rpy="1 0.2 0.3"),
    joint_text("wrist", "satellite", "hand", axis="0 1 0", xyz="0.1 0.3 0"),
    joint_text("rail", "hand", "slider", "prismatic", axis="1 0 1", rpy="0 0.7 0.1"),
)


@pytest.mark.parametrize(
    "source",
    [FREE_IN_THE_TREE, "gripper", "arm7", "cart_pole"],
    ids=["free joint below a hinge", "gripper", "arm7", "cart_pole"],
)
def test_gradient_is_the_complex_step_of_inverse_dynamics(source):
    tree = load_tree(source, joint_dynamics=True, armature=0.1, friction_width=0.3)
    q, qd, qdd, _ = random_states(tree, 4)
    loads = random_loads(tree)

    def effort(q: Array, qd: Array, qdd: Array) -> list[Array]:
        return inverse_dynamics(state_of(tree, q, qd, **loads), columns(qdd))

    result = inverse_dynamics_gradient(state_of(tree, q, qd, **loads), columns(qdd))
    dtau_dq, dtau_dqd = (numbers(matrix, len(q)) for matrix in result)
    by_q = complex_step(effort, position_steps(tree, q), qd, qdd)
    by_qd = complex_step(lambda qd, q, qdd: effort(q, qd, qdd), velocity_steps(qd), q, qdd)
    assert_close(dtau_dq, by_q, TOLERANCE, "dtau_dq")
    assert_close(dtau_dqd, by_qd, TOLERANCE, "dtau_dqd")


@pytest.mark.parametrize("loaded", [False, True], ids=["at rest", "loaded"])
@pytest.mark.parametrize(
    "source",
    [FREE_IN_THE_TREE, "gripper", "arm7", "cart_pole"],
    ids=["free joint below a hinge", "gripper", "arm7", "cart_pole"],
)
def test_gradient_is_the_complex_step_of_forward_dynamics(source, loaded):
    tree = load_tree(source, joint_dynamics=True, armature=0.1, friction_width=0.3 * loaded)
    q, qd, _, tau = random_states(tree, 4)
    loads = random_loads(tree) if loaded else AT_REST

    def acceleration(q: Array, qd: Array, tau: Array) -> list[Array]:
        return forward_dynamics_crba(state_of(tree, q, qd, **loads), columns(tau))

    result = forward_dynamics_gradient(state_of(tree, q, qd, **loads), columns(tau))
    dqdd_dq, dqdd_dqd, dqdd_dtau = (numbers(matrix, len(q)) for matrix in result)
    by_q = complex_step(acceleration, position_steps(tree, q), qd, tau)
    by_qd = complex_step(lambda qd, q, tau: acceleration(q, qd, tau), velocity_steps(qd), q, tau)
    by_tau = complex_step(lambda tau, q, qd: acceleration(q, qd, tau), velocity_steps(tau), q, qd)
    assert_close(dqdd_dq, by_q, 1e-11, "dqdd_dq")
    assert_close(dqdd_dqd, by_qd, 1e-11, "dqdd_dqd")
    assert_close(dqdd_dtau, by_tau, 1e-11, "dqdd_dtau")


def related(tree: KinematicTree) -> np.ndarray:
    """Return whether two velocities are on one path to the base."""
    bodies = np.full(tree.nv, -1)
    for index, body in enumerate(tree.bodies):
        bodies[body.v_index : body.v_index + body.nv] = index
    return np.array(
        [
            [i == j or i in tree.ancestors(j) or j in tree.ancestors(i) for j in bodies]
            for i in bodies
        ]
    )


@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
def test_branches_do_not_meet(floating):
    tree = load_tree("quadruped", floating)
    q, qd, qdd, _ = random_states(tree, 3)
    apart = ~related(tree)
    assert apart.any()
    for matrix in gradients(tree, q, qd, qdd):
        assert np.all(matrix[:, apart] == 0.0)
    result, scalars = trace(tree, inverse_dynamics_gradient, "q", "qd", "qdd")
    for matrix in result:
        for i, j in np.argwhere(apart):
            assert matrix[i][j] is scalars.graph.zero


def test_inverse_is_symmetric_to_the_last_bit():
    tree = load_tree("humanoid", floating=True)
    q, qd, _, tau = random_states(tree, 3)
    result = forward_dynamics_gradient(state_of(tree, q, qd, **AT_REST), columns(tau))
    inverse = numbers(result[2], 3)
    assert np.array_equal(inverse, np.swapaxes(inverse, 1, 2))


def test_operations_of_a_seven_joint_arm():
    tree = load_tree("arm7")
    # Ceilings a little over what the formulation takes: a change that costs more shows here.
    assert operations(*trace(tree, inverse_dynamics_gradient, "q", "qd", "qdd")) <= 3100
    assert operations(*trace(tree, forward_dynamics_gradient, "q", "qd", "tau")) <= 5050


def test_counters_pass_through():
    tree = load_tree("arm7")
    scalars = CountingScalars()
    q = scalars.inputs(tree.nq)
    inverse_dynamics_gradient(State(tree, scalars, q, q, tuple(q[:3])), q)
    before = scalars.operations
    forward_dynamics_gradient(State(tree, scalars, q, q, tuple(q[:3])), q)
    assert 3100 < before < scalars.operations
