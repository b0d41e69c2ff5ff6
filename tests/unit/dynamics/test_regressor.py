"""Regressors against what they are regressors of."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from gridgen.check import random_states
from gridgen.dynamics.reference import evaluate_reference
from gridgen.dynamics.regressor import (
    joint_torque_regressor,
    joint_torque_regressor_gradient,
    momentum_regressor,
)
from helpers.dynamics import (
    GRAVITY,
    assert_close,
    columns,
    complex_step,
    load_tree,
    numbers,
    position_steps,
    random_loads,
    robot_path,
    state_of,
    velocity_steps,
)
from helpers.dynamics import random_states as robot_states
from helpers.oracle import Oracle
from helpers.robots import exhaustive_cases

STATES = 4

TOLERANCE = 1e-12
"""Products along a path of a dozen rotations, relative to the largest entry."""


def parameters(oracle: Oracle) -> np.ndarray:
    """Return the inertial parameters of the bodies as Pinocchio has them."""
    bodies = [oracle.model.inertias[joint] for joint in oracle.joints]
    return np.concatenate([body.toDynamicParameters() for body in bodies])


@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("name", ["arm6", "gripper", "quadruped", "humanoid"])
def test_times_the_parameters_they_give_efforts_and_energies(name, floating):
    tree = load_tree(name, floating)
    params = parameters(Oracle(tree, robot_path(name)))
    x = random_states(tree, STATES, np.random.default_rng(tree.nv))
    for regressor, function in {
        "joint_torque_regressor": "inverse_dynamics",
        "joint_torque_regressor_base_motion": "inverse_dynamics_base_motion",
        "kinetic_energy_regressor": "kinetic_energy",
        "potential_energy_regressor": "potential_energy",
    }.items():
        (Y,) = evaluate_reference(tree, regressor, x)
        (result,) = evaluate_reference(tree, function, x)
        assert_close(Y @ params, result, TOLERANCE, function)


MOVING = [
    *((name, False) for name in ("gripper", "screws")),
    ("cart_pole", True),
    *exhaustive_cases(("arm7", False), *((n, True) for n in ("gripper", "screws", "quadruped"))),
]


@pytest.mark.parametrize("loaded", [False, True], ids=["at rest", "loaded"])
@pytest.mark.parametrize(("name", "floating"), MOVING)
def test_the_gradient_is_the_complex_step_of_the_regressor(name, floating, loaded):
    tree = load_tree(name, floating)
    q, qd, qdd, _ = robot_states(tree, STATES)
    loads = random_loads(tree) if loaded else {"gravity": GRAVITY}

    def evaluate(algorithm, q, qd, qdd):
        return algorithm(state_of(tree, q, qd, **loads), columns(qdd))

    regressor = partial(evaluate, joint_torque_regressor)
    expected = (
        complex_step(regressor, position_steps(tree, q), qd, qdd),
        complex_step(lambda qd: regressor(*tiled(q, qd), qd, *tiled(qdd, qd)), velocity_steps(qd)),
        complex_step(lambda a: regressor(*tiled(q, a), *tiled(qd, a), a), velocity_steps(qdd)),
    )
    found = evaluate(joint_torque_regressor_gradient, q, qd, qdd)
    for mine, theirs in zip(found, expected, strict=True):
        assert_close(numbers(mine, STATES), theirs, TOLERANCE, "gradient")


def tiled(array, like):
    """Return an array once for each complex step of another, as a list of one."""
    return [np.tile(array, (len(like) // len(array), 1))]


@pytest.mark.parametrize(("name", "floating"), MOVING)
def test_momentum_is_that_of_the_mass_matrix_and_its_rate_that_of_the_efforts(name, floating):
    tree = load_tree(name, floating)
    q, qd, qdd, _ = robot_states(tree, STATES)

    def momentum(q, qd):
        return momentum_regressor(state_of(tree, q, qd, gravity=GRAVITY))

    Yp, Yr = (numbers(found, STATES) for found in momentum(q, qd))
    params = parameters(Oracle(tree, robot_path(name)))
    x = {"q": q, "qd": qd, "qdd": qdd, "gravity": np.tile(GRAVITY, (STATES, 1))}
    (M,) = evaluate_reference(tree, "mass_matrix", x)
    assert_close(Yp @ params, np.einsum("bij,bj->bi", M, qd), TOLERANCE, "momentum")
    (C,), (g,) = (evaluate_reference(tree, f, x) for f in ("coriolis_matrix", "gravity_forces"))
    assert_close(Yr @ params, np.einsum("bji,bj->bi", C, qd) - g, TOLERANCE, "C^T qd - g")
    (Y,) = evaluate_reference(tree, "joint_torque_regressor", x)
    by_q = complex_step(lambda q, qd: momentum(q, qd)[0], position_steps(tree, q), qd)
    by_qd = complex_step(lambda qd: momentum(*tiled(q, qd), qd)[0], velocity_steps(qd))
    rate = np.einsum("bipk,bk->bip", by_q, qd) + np.einsum("bipk,bk->bip", by_qd, qdd)
    assert_close(Y + Yr, rate, 1e-11, "rate")  # of numbers that mostly cancel


def test_damping_friction_and_armature_come_on_top():
    tree = load_tree("arm7", joint_dynamics=True, armature=0.3)
    plain = load_tree("arm7")
    x = random_states(tree, STATES, np.random.default_rng(0))
    (Y,) = evaluate_reference(tree, "joint_torque_regressor", x)
    (tau,) = evaluate_reference(tree, "inverse_dynamics", x)
    damping, friction = (
        np.array([getattr(body, word) for body in tree.bodies]) for word in ("damping", "friction")
    )
    known = damping * x["qd"] + friction * np.sign(x["qd"]) + 0.3 * x["qdd"]
    assert_close(Y @ parameters(Oracle(plain, robot_path("arm7"))) + known, tau, TOLERANCE, "tau")


def test_a_joint_feels_nothing_of_bodies_that_it_does_not_carry():
    tree = load_tree("quadruped", True)
    x = random_states(tree, STATES, np.random.default_rng(0))
    (Y,) = evaluate_reference(tree, "joint_torque_regressor", x)
    for joint, mover in enumerate(tree.bodies):
        rows = slice(mover.v_index, mover.v_index + mover.nv)
        for body in range(len(tree.bodies)):
            entries = Y[:, rows, 10 * body : 10 * body + 10]
            assert (body in tree.subtree(joint)) == bool(np.any(entries))
