"""Symmetric linear systems with the sparsity of a kinematic tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.symbolic.branches import Branches
from gridgen.symbolic.scalars import ListScalars, Scalar, Scalars


@dataclass(frozen=True)
class Factorization:
    """M = L^T D L with L unit lower triangular, nonzero only between ancestors.

    Attributes:
        branches: the forest that determines the sparsity.
        entries:  n x n; entry (j, i) is L[i][j] for every ancestor j of i. The lower triangle is
                  overwritten.
        inverse:  1 / D.
        scalars:  allocator of the values that loops change.
    """

    branches: Branches
    entries: Sequence[Sequence[Scalar]]
    inverse: Sequence[Scalar]
    scalars: Scalars | ListScalars

    def lower(self, i: int, j: int) -> Scalar:
        """Return L[i][j] for an ancestor j of i."""
        return self.entries[j][i]


def ldlt(
    matrix: list[list[Scalar]],
    branches: Branches | None = None,
    one: Scalar = 1.0,
    scalars: Scalars | ListScalars | None = None,
) -> Factorization:
    """Factorize a symmetric positive definite matrix in place, from its last row upwards.

    Only the lower triangle is read. In this order, elimination creates no new nonzero outside
    pairs of ancestors (Featherstone 2005, branch-induced sparsity).

    Args:
        matrix:   n x n; overwritten.
        branches: the ancestors of every row; those of a dense matrix by default.
        one:      the scalar one.
        scalars:  allocator of the values that loops change; lists by default.
    """
    scalars = scalars or ListScalars()
    if branches is None:
        branches = Branches(range(-1, len(matrix) - 1))
    inverse = scalars.table("inverse", len(matrix))
    for k in branches.inward():
        inverse[k] = one / matrix[k][k]
        for below in branches.climb(k):
            i = branches.parent(below)
            own = matrix[k][i]
            factor = own * inverse[k]
            matrix[i][i] = matrix[i][i] - factor * own
            for under in branches.climb(i):
                j = branches.parent(under)
                matrix[i][j] = matrix[i][j] - factor * matrix[k][j]
            matrix[i][k] = factor
    return Factorization(branches, matrix, inverse, scalars)


def ldlt_solve(factors: Factorization, right: Sequence[Scalar]) -> list[Scalar]:
    """Return the solution x of (L^T D L) x = right."""
    return solve_in_place(factors, list(right))


def solve_in_place(factors: Factorization, x: list[Scalar]) -> list[Scalar]:
    """Solve (L^T D L) x = right in place; ``x`` contains the right-hand side on entry."""
    return finish_in_place(factors, begin_in_place(factors, x))


def begin_in_place(factors: Factorization, x: list[Scalar]) -> list[Scalar]:
    """Solve L^T x = right in place; ``x`` contains the right-hand side on entry."""
    branches = factors.branches
    for i in branches.inward():
        known = x[i]
        for below in branches.climb(i):
            j = branches.parent(below)
            x[j] = x[j] - factors.lower(i, j) * known
    return x


def finish_in_place(factors: Factorization, x: list[Scalar]) -> list[Scalar]:
    """Solve D L x = right, with the right side in ``x``, which becomes the solution."""
    branches = factors.branches
    for i in branches.outward():
        rest = factors.scalars.carry("x", x[i] * factors.inverse[i])
        for below in branches.climb(i):
            j = branches.parent(below)
            rest.value = rest.value - factors.lower(i, j) * x[j]
        x[i] = rest.value
    return x
