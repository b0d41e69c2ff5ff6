"""Generalized gravity against Pinocchio's, and against inverse dynamics at rest."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from gridgen.dynamics.reference import evaluate_reference
from helpers.dynamics import assert_close, load_tree, random_states, robot_path
from helpers.oracle import Oracle
from helpers.robots import ALL_CASES

STATES = 20

TOLERANCE = 1e-13
"""Products along a path of a dozen rotations, relative to the largest entry."""


@pytest.mark.parametrize(("name", "floating"), ALL_CASES)
def test_gravity_forces_are_those_of_pinocchio(name, floating):
    tree = load_tree(name, floating)
    oracle = Oracle(tree, robot_path(name))
    q, *_ = random_states(tree, STATES)
    gravity = np.random.default_rng(1).normal(size=3)
    inputs = {"q": q, "gravity": np.tile(gravity, (STATES, 1))}
    (found,) = evaluate_reference(tree, "gravity_forces", inputs)
    oracle.model.gravity.linear = gravity
    expected = [
        oracle.spread.T
        @ pinocchio.computeGeneralizedGravity(oracle.model, oracle.data, oracle.position(state))
        for state in q
    ]
    assert_close(found, np.array(expected), TOLERANCE, "gravity forces")


@pytest.mark.parametrize("name", ["gripper", "cart_pole"])
def test_they_are_the_bias_forces_at_rest(name):
    tree = load_tree(name, joint_dynamics=True, armature=0.1)
    q, *_ = random_states(tree, STATES)
    x = {"q": q, "qd": np.zeros((STATES, tree.nv)), "gravity": np.array([0.3, -9.0, 2.0])}
    (found,), (expected,) = (
        evaluate_reference(tree, f, x) for f in ("gravity_forces", "bias_forces")
    )
    assert_close(found, expected, TOLERANCE, "gravity forces")
