"""The inverse of the mass matrix."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from gridgen.dynamics.crba import mass_matrix
from gridgen.dynamics.functions import refusal
from gridgen.dynamics.linear import BranchSolver, ldlt
from gridgen.dynamics.minverse import mass_matrix_inverse
from gridgen.symbolic.scalars import FloatScalars
from helpers.dynamics import (
    assert_close,
    columns,
    load_tree,
    numbers,
    operations,
    random_states,
    robot_path,
    state_of,
    trace,
)
from helpers.oracle import Oracle
from helpers.robots import ALL_CASES, refused

STATES = 20

CONDITIONED = 1e-15
"""Relative error per unit of the condition number; never less than a few hundred roundings."""


def why_not(name, floating):
    tree = load_tree(name, floating)
    if tree.has_mimic:
        return "Pinocchio inverts the mass matrix of independent joints only"
    return refusal(tree, "mass_matrix_inverse")


@refused(why_not)
@pytest.mark.parametrize(("name", "floating"), ALL_CASES)
def test_inverse_is_pinocchios(name, floating):
    tree = load_tree(name, floating)
    oracle = Oracle(tree, robot_path(name))
    q, *_ = random_states(tree, STATES)
    actual = numbers(mass_matrix_inverse(state_of(tree, q)), STATES)
    assert np.array_equal(actual, np.swapaxes(actual, 1, 2)), "symmetric to the last bit"
    for state in range(STATES):
        upper = pinocchio.computeMinverse(oracle.model, oracle.data, oracle.position(q[state]))
        wanted = np.triu(upper) + np.triu(upper, 1).T
        tolerance = max(1e-13, CONDITIONED * float(np.linalg.cond(wanted)))
        assert_close(actual[state], wanted, tolerance, f"state {state}")


@pytest.mark.parametrize("armature", [0.0, 0.3])
def test_inverse_of_coupled_joints(armature):
    tree = load_tree("gripper", armature=armature)
    q, *_ = random_states(tree, STATES)
    M = numbers(mass_matrix(state_of(tree, q)), STATES)
    inverse = numbers(mass_matrix_inverse(state_of(tree, q)), STATES)
    assert_close(inverse @ M, np.broadcast_to(np.eye(tree.nv), M.shape), 1e-10, "M^-1 M")


def test_armature_counts():
    tree = load_tree("quadruped", floating=True, armature=0.05)
    q, *_ = random_states(tree, 3)
    M = numbers(mass_matrix(state_of(tree, q)), 3)
    inverse = numbers(mass_matrix_inverse(state_of(tree, q)), 3)
    assert_close(inverse @ M, np.broadcast_to(np.eye(tree.nv), M.shape), 1e-10, "M^-1 M")


def test_mirrored_entries_are_one_node():
    tree = load_tree("quadruped", floating=True)
    inverse, scalars = trace(tree, mass_matrix_inverse, "q")
    for i in range(tree.nv):
        for j in range(i):
            assert scalars.graph.lift(inverse[i][j]) is scalars.graph.lift(inverse[j][i])


def test_branches_on_a_fixed_base_do_not_meet():
    tree = load_tree("quadruped")
    inverse, scalars = trace(tree, mass_matrix_inverse, "q")
    for i, body in enumerate(tree.bodies):
        for j in range(i):
            apart = j not in tree.ancestors(i)
            assert (inverse[body.v_index][tree.bodies[j].v_index] is scalars.graph.zero) == apart


def test_solutions_of_sparse_systems():
    """Every column of a tree's matrix has its zeros; the solver must not need more."""
    tree = load_tree("humanoid", floating=True)
    q, *_ = random_states(tree, 2)
    scalars = FloatScalars()
    M = mass_matrix(state_of(tree, q))
    solver = BranchSolver(ldlt([row[:] for row in M], tree.velocities), scalars)
    dense = numbers(M, 2)
    for j in range(tree.nv):
        right = np.where(dense[:, :, j] == 0.0, 0.0, 1.0 + np.arange(tree.nv))
        for sign in (1.0, -1.0):
            x = numbers(solver.solve(columns(right), j, sign), 2)
            wanted = sign * np.linalg.solve(dense, right[:, :, None])[:, :, 0]
            assert_close(x, wanted, 1e-9, f"column {j}")


def test_operations_of_a_seven_joint_arm():
    tree = load_tree("arm7")
    assert operations(*trace(tree, mass_matrix_inverse, "q")) <= 800
