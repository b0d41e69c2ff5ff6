"""Factorization and solution with the sparsity of a tree."""

from __future__ import annotations

import numpy as np
import pytest

from gridgen.dynamics.linear import ldlt, ldlt_solve
from gridgen.symbolic.branches import Branches

TREES = {
    "one": [-1],
    "chain": [-1, 0, 1, 2, 3, 4],
    "branches": [-1, 0, 1, 0, 3, 3, 5],
    "two roots": [-1, 0, -1, 2, 2],
    "a star": [-1, 0, 0, 0, 0],
}


def ancestors(index: int, parents: list[int]) -> list[int]:
    line = []
    while (index := parents[index]) >= 0:
        line.append(index)
    return line


def matrix(parents: list[int]) -> np.ndarray:
    """Return a positive definite matrix with entries between ancestors only."""
    n = len(parents)
    rng = np.random.default_rng(n)
    L = np.diag(rng.uniform(0.5, 2.0, n))
    for i in range(n):
        L[i, ancestors(i, parents)] = rng.normal(size=len(ancestors(i, parents)))
    return L.T @ L


@pytest.mark.parametrize("name", TREES)
def test_factors_multiply_to_the_matrix(name: str) -> None:
    parents = TREES[name]
    M = matrix(parents)
    factors = ldlt(M.tolist(), Branches(parents))
    L = np.eye(len(M))
    for i in range(len(M)):
        for j in ancestors(i, parents):
            L[i, j] = factors.lower(i, j)
    np.testing.assert_allclose(L.T @ np.diag(1 / np.array(factors.inverse)) @ L, M, rtol=1e-12)


@pytest.mark.parametrize("name", TREES)
def test_solutions_solve(name: str) -> None:
    parents = TREES[name]
    M = matrix(parents)
    right = np.random.default_rng(1).normal(size=len(M))
    x = ldlt_solve(ldlt(M.tolist(), Branches(parents)), right.tolist())
    np.testing.assert_allclose(M @ x, right, atol=1e-11)


def test_only_the_lower_triangle_is_read() -> None:
    M, chain = matrix(TREES["chain"]), Branches(TREES["chain"])
    right = [1.0] * len(M)
    lower = np.tril(M) + np.triu(np.full_like(M, np.nan), 1)
    with_nan = ldlt_solve(ldlt(lower.tolist(), chain), right)
    np.testing.assert_array_equal(with_nan, ldlt_solve(ldlt(M.tolist(), chain), right))


def test_the_right_side_stays_as_it_is() -> None:
    right = [1.0, 2.0]
    ldlt_solve(ldlt([[2.0, 0.0], [1.0, 3.0]], Branches([-1, 0])), right)
    assert right == [1.0, 2.0]
