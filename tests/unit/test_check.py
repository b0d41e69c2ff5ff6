"""What is allowed to rounding errors."""

from __future__ import annotations

import numpy as np
import pytest

from gridgen.check import compare_function, random_states
from gridgen.dynamics.reference import evaluate_reference
from scan_for_tests import tree_of


@pytest.mark.parametrize(("method", "passed"), [(None, False), ("cfa", True)])
def test_methods_are_held_to_the_equations_where_they_solve_them(method, passed):
    """An error that is far below what conditioning explains, but violates M qdd + h = tau."""
    tree = tree_of("arm7")
    x = random_states(tree, 16, np.random.default_rng(0))
    (qdd,) = evaluate_reference(tree, "forward_dynamics_aba", x)
    row = compare_function(tree, "forward_dynamics_aba", "float32", x, qdd, method)
    assert row.passed
    row = compare_function(tree, "forward_dynamics_aba", "float32", x, qdd * (1 + 1.5e-5), method)
    assert row.error < row.tolerance
    assert row.passed == passed


def test_a_number_of_each_state_is_compared_with_the_largest_of_the_batch():
    """An energy is zero where a convention has it: a state close by has as much rounding."""
    tree = tree_of("arm7")
    x = random_states(tree, 16, np.random.default_rng(0))
    (energy,) = evaluate_reference(tree, "potential_energy", x)
    scale = np.abs(energy).max()
    for error, passed in ((1e-5, True), (1e-4, False)):
        row = compare_function(tree, "potential_energy", "float32", x, energy + error * scale)
        assert row.error == pytest.approx(error)
        assert row.passed == passed
