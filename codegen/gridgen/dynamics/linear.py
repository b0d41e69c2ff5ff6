"""Symmetric linear systems with the sparsity of a kinematic tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.symbolic.scalars import Scalar


@dataclass(frozen=True)
class Factorisation:
    """M = L^T D L with L unit lower triangular, non-zero only between ancestors.

    Attributes:
        lower:    row i holds L[i][j] for every ancestor j of i, by column.
        inverse:  1 / D.
    """

    lower: tuple[dict[int, Scalar], ...]
    inverse: tuple[Scalar, ...]


def ldlt(
    matrix: Sequence[Sequence[Scalar]], parents: Sequence[int | None], one: Scalar = 1.0
) -> Factorisation:
    """Factorise a symmetric positive definite matrix from its last row upwards.

    Only the lower triangle is read. Taken in this order, elimination creates no new non-zero
    outside pairs of ancestors (Featherstone 2005, branch-induced sparsity).

    Args:
        matrix:  n x n.
        parents: for every row, the row of its nearest ancestor, or ``None``.
        one:     the number one of the scalars.
    """
    n = len(matrix)
    work = [{j: matrix[i][j] for j in (i, *_ancestors(i, parents))} for i in range(n)]
    lower: list[dict[int, Scalar]] = [{} for _ in range(n)]
    inverse: list[Scalar] = [one] * n
    for k in reversed(range(n)):
        inverse[k] = one / work[k][k]
        line = _ancestors(k, parents)
        for position, i in enumerate(line):
            factor = work[k][i] * inverse[k]
            for j in line[position:]:
                work[i][j] = work[i][j] - factor * work[k][j]
            lower[k][i] = factor
    return Factorisation(tuple(lower), tuple(inverse))


def ldlt_solve(factors: Factorisation, right: Sequence[Scalar]) -> list[Scalar]:
    """Return the solution x of (L^T D L) x = right."""
    x = list(right)
    n = len(x)
    for i in reversed(range(n)):
        for j, factor in factors.lower[i].items():
            x[j] = x[j] - factor * x[i]
    for i in range(n):
        x[i] = x[i] * factors.inverse[i]
        for j, factor in factors.lower[i].items():
            x[i] = x[i] - factor * x[j]
    return x


def _ancestors(index: int, parents: Sequence[int | None]) -> list[int]:
    line: list[int] = []
    parent = parents[index]
    while parent is not None:
        line.append(parent)
        parent = parents[parent]
    return line
