"""The Coriolis matrix against Pinocchio's, and by what it is defined by."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from gridgen.dynamics.reference import evaluate_reference
from helpers.dynamics import (
    COMPLEX_STEP,
    assert_close,
    load_tree,
    random_states,
    robot_path,
    tangent_steps,
)
from helpers.oracle import Oracle
from helpers.robots import ALL_CASES

STATES = 20

TOLERANCE = 1e-12
"""Products along a path of a dozen rotations, relative to the largest entry."""


@pytest.mark.parametrize(("name", "floating"), ALL_CASES)
def test_it_is_that_of_pinocchio(name, floating):
    tree = load_tree(name, floating)
    oracle = Oracle(tree, robot_path(name))
    q, qd, *_ = random_states(tree, STATES)
    (found,) = evaluate_reference(tree, "coriolis_matrix", {"q": q, "qd": qd})
    expected = []
    for position, velocity in zip(q, qd, strict=True):
        C = pinocchio.computeCoriolisMatrix(
            oracle.model, oracle.data, oracle.position(position), oracle.spread @ velocity
        )
        expected.append(oracle.square(C))
    assert_close(found, np.array(expected), TOLERANCE, "C")


@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("name", ["arm6", "gripper", "cart_pole", "quadruped"])
def test_it_gives_the_efforts_and_makes_the_rate_of_m_skew(name, floating):
    tree = load_tree(name, floating, armature=0.1)
    q, qd, *_ = random_states(tree, STATES)
    x = {"q": q, "qd": qd, "gravity": np.zeros(3)}
    (C,), (h,) = (evaluate_reference(tree, f, x) for f in ("coriolis_matrix", "bias_forces"))
    assert_close(np.einsum("bij,bj->bi", C, qd), h, TOLERANCE, "C qd")
    rate = np.zeros_like(C)
    for velocity in range(tree.nv):
        (moved,) = evaluate_reference(tree, "mass_matrix", {"q": tangent_steps(tree, q, velocity)})
        rate += np.imag(moved) / COMPLEX_STEP * qd[:, velocity, None, None]
    assert_close(C + C.transpose(0, 2, 1), rate, TOLERANCE, "dM/dt - 2 C")
