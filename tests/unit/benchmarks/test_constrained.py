"""The algorithms that are counted compute the same as the one that is generated."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from constrained import METHODS, computed, operations, robots, states_of

TREES = dict(robots())
#: proxPV's stiffness is 1e8 times the inertia of a body.
TOLERANCES = {"PV-OSIMr": 1e-11, "proxPV": 1e-6}


@pytest.mark.parametrize("method", TOLERANCES)
@pytest.mark.parametrize("name", TREES)
def test_all_algorithms_compute_the_same(name: str, method: str) -> None:
    tree = TREES[name]
    x = states_of(tree, 3)
    expected = computed(tree, x, "factors of M", np.float64)
    for found, own in zip(computed(tree, x, method, np.float64), expected, strict=True):
        assert_allclose(found, own, rtol=0.0, atol=TOLERANCES[method] * np.abs(own).max())


def test_the_counts_are_those_of_the_table() -> None:
    """Of the arm: the others take seconds."""
    name, tree = next(iter(TREES.items()))
    path = Path(__file__).parents[3] / "benchmarks/results/tables/constrained_operations.csv"
    (row,) = (line for line in path.read_text().splitlines() if name in line)
    assert [f"{operations(tree, method):,}" for method in METHODS] == [
        cell.strip('"') for cell in row.split('"')[3:8:2]
    ]
