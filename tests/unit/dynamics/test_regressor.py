"""Regressors against Pinocchio's, and against what they are regressors of."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from gridgen.check import random_states
from gridgen.dynamics.reference import evaluate_reference
from helpers.dynamics import assert_close, load_tree, robot_path
from helpers.oracle import Oracle
from helpers.robots import ALL_CASES, LARGE_ROBOTS, OWN_ROBOTS

STATES = 4

TOLERANCE = 1e-12
"""Products along a path of a dozen rotations, relative to the largest entry."""


def parameters(oracle: Oracle) -> np.ndarray:
    """Return the inertial parameters of the bodies as Pinocchio has them."""
    bodies = [oracle.model.inertias[joint] for joint in oracle.joints]
    return np.concatenate([body.toDynamicParameters() for body in bodies])


def cases() -> list[object]:
    """Return the main robots, large ones of others only when asked for."""
    found = []
    for case in ALL_CASES:
        name, _ = case.values
        large = name in LARGE_ROBOTS and name not in OWN_ROBOTS
        marks = pytest.mark.exhaustive if large else ()
        found.append(pytest.param(*case.values, id=case.id, marks=marks))
    return found


@pytest.mark.parametrize(("name", "floating"), cases())
def test_regressors_are_those_of_pinocchio(name, floating):
    tree = load_tree(name, floating)
    oracle = Oracle(tree, robot_path(name))
    model, data, V = oracle.model, oracle.data, oracle.spread
    x = random_states(tree, STATES, np.random.default_rng(tree.nv))
    gravity = np.array([1.3, -4.0, 7.1])
    x["gravity"] = np.tile(gravity, (STATES, 1))
    model.gravity.linear = gravity
    expected = {"joint_torque": [], "kinetic_energy": [], "potential_energy": []}
    for q, qd, qdd in zip(map(oracle.position, x["q"]), x["qd"], x["qdd"], strict=True):
        v, a = V @ qd, V @ qdd
        Y = pinocchio.computeJointTorqueRegressor(model, data, q, v, a).copy()
        expected["joint_torque"].append(V.T @ Y.reshape(len(V), -1))  # a vector for one
        kinetic = pinocchio.computeKineticEnergyRegressor(model, data, q, v)
        expected["kinetic_energy"].append(kinetic.copy())
        potential = pinocchio.computePotentialEnergyRegressor(model, data, q)
        expected["potential_energy"].append(potential.copy())
    for function, theirs in expected.items():
        (ours,) = evaluate_reference(tree, f"{function}_regressor", x)
        assert_close(ours, np.array(theirs), TOLERANCE, function)


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
