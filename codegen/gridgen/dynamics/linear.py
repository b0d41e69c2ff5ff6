"""Symmetric linear systems: with the sparsity of a kinematic tree, and of dense blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gridgen.symbolic.branches import Branches
from gridgen.symbolic.scalars import ListScalars, Scalar, Scalars
from gridgen.symbolic.spatial import dot

Square = list[list[Scalar]]


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


class BranchSolver:
    """Solver for many right-hand sides with a factorized matrix of a tree.

    Row i of L x = y involves the ancestors of i only. If y is zero from i up to an ancestor m, then
    x_i depends on m and its ancestors alone. The solver eliminates the rows in between once for all
    such right-hand sides, among them those of other branches.

    Args:
        factors: M = L^T D L.
    """

    def __init__(self, factors: Factorization, scalars: Scalars) -> None:
        self._inverse, self._scalars = factors.inverse, scalars
        self._order = factors.branches.order
        self._lines: dict[int, tuple[int, ...]] = {}  # each row's ancestors from the root, itself
        # From the root: the parent's term of a sum is known last.
        self._lower: dict[int, dict[int, Scalar]] = {}
        parents = factors.branches.parents
        for i in self._order:
            above = () if parents[i] < 0 else self._lines[parents[i]]
            self._lines[i] = (*above, i)
            self._lower[i] = {j: factors.lower(i, j) for j in above}
        self._forks = frozenset(p for p in set(parents) if p >= 0 and parents.count(p) > 1)
        self._shortcuts: dict[tuple[int, int], dict[int, Scalar]] = {}

    def solve(self, right: Sequence[Scalar], column: int, sign: float = 1.0) -> list[Scalar]:
        """Return ``sign`` times the solution x of M x = right.

        Args:
            right:  right-hand side; zero in every row that is neither an ancestor nor a descendant
                    of ``column``.
            column: row of the matrix; the root of a single tree for a dense right-hand side.
            sign:   1 or -1.
        """
        scalars, lines = self._scalars, self._lines
        x = list(right)
        related = [i for i in self._order if column in lines[i] or i in lines[column]]
        for i in reversed(related):
            for j, factor in self._lower[i].items():
                x[j] = x[j] - factor * x[i]
        for i in related:
            x[i] = x[i] * (self._inverse[i] if sign > 0 else -self._inverse[i])
            for j, factor in self._lower[i].items():
                x[i] = x[i] - factor * x[j]
        others = set(self._order) - set(related)
        for i in (i for i in self._order if i in others):
            x[i] = self._follow(i, lines[column], x, scalars)
        return x

    def inverse(self) -> Square:
        """Return M^-1; entries (i, j) and (j, i) are one scalar.

        Column k of M^-1 solves L x = D^-1 L^-T e_k, whose right-hand side is zero below row k and
        1 / D in it; with the symmetry, L^-T is not needed.
        """
        n = len(self._lines)
        zero = self._scalars.constant(0.0)
        Z = [[zero] * n for _ in range(n)]
        for at, i in enumerate(self._order):
            self._scalars.begin("solve", -1)
            for k in self._order[:at]:
                Z[i][k] = Z[k][i] = self._follow(i, self._lines[k], Z[k], self._scalars)
            Z[i][i] = self._inverse[i]
            for a, factor in self._lower[i].items():
                Z[i][i] = Z[i][i] - factor * Z[a][i]
        return Z

    def _follow(self, i: int, line: Sequence[int], x: Sequence[Scalar], scalars: Scalars) -> Scalar:
        """Return x_i for a right-hand side that is zero from row i up to its last in ``line``."""
        own = self._lines[i]
        shared = sum(a in line for a in own)
        if not shared:
            return scalars.constant(0.0)
        # The shortcut may start further down; other rows share a shortcut from a fork.
        start = next((a for a in own[shared - 1 : -1] if a in self._forks), own[-2])
        total = scalars.constant(0.0)
        for a, factor in self._shortcut(i, start).items():
            total = total - factor * x[a]
        return total

    def _shortcut(self, i: int, start: int) -> dict[int, Scalar]:
        """Return the factors of ``start`` and its ancestors in row i after elimination."""
        if (i, start) not in self._shortcuts:
            own = self._lines[i]
            between = own[own.index(start) + 1 : -1]
            factors = {a: self._lower[i][a] for a in self._lines[start]}
            for b in between:
                for a, factor in self._shortcut(b, start).items():
                    factors[a] = factors[a] - self._lower[i][b] * factor
            self._shortcuts[i, start] = factors
        return self._shortcuts[i, start]


Block = list[list[Scalar]]


class BlockSystem:
    """A block-sparse symmetric positive definite matrix.

    Args:
        one: the scalar one.
    """

    def __init__(self, one: Scalar = 1.0) -> None:
        self._one = one
        self._blocks: dict[int, dict[int, Block]] = {}  # both halves
        self._eliminated: list[tuple[int, Factorization, dict[int, Block]]] = []

    def add(self, i: int, j: int, columns: Sequence[Sequence[Scalar]]) -> None:
        """Add entries to block (i, j), and their transpose to block (j, i).

        Args:
            i:       row index of the block.
            j:       column index of the block.
            columns: entries of the block, by columns.
        """
        block = [list(row) for row in zip(*columns, strict=True)]
        row = self._blocks.setdefault(i, {})
        if j in row:
            block = [
                [a + b for a, b in zip(old, new, strict=True)]
                for old, new in zip(row[j], block, strict=True)
            ]
        row[j] = block
        if i != j:
            self._blocks.setdefault(j, {})[i] = [
                list(column) for column in zip(*block, strict=True)
            ]

    def eliminate(self, order: Iterable[int]) -> None:
        """Eliminate the blocks: D_a -= E D_k E^T and U_ab -= E_a D_k E_b^T.

        Args:
            order: every block once; indices without a block are skipped.
        """
        for k in order:
            row = self._blocks.pop(k, None)
            if row is None:
                continue
            pivot = row.pop(k)
            factors = ldlt(pivot, one=self._one)
            gains: dict[int, Block] = {}  # E^T by columns: D_k^-1 A_ka
            for a, block in row.items():
                del self._blocks[a][k]
                gains[a] = [ldlt_solve(factors, column) for column in zip(*block, strict=True)]
            for a, gain in gains.items():
                for b in gains:
                    if a <= b:
                        columns = [
                            [-dot(entry, column) for entry in gain]
                            for column in zip(*row[b], strict=True)
                        ]
                        self.add(a, b, columns)
            self._eliminated.append((k, factors, gains))

    def solve(self, right: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
        """Return the solution for one right-hand side, by block, after ``eliminate``.

        Args:
            right: right-hand side by block; empty for indices without a block.
        """
        rest = [list(entries) for entries in right]
        for k, _, gains in self._eliminated:
            for a, gain in gains.items():
                rest[a] = [
                    entry - dot(line, rest[k]) for entry, line in zip(rest[a], gain, strict=True)
                ]
        solution: list[list[Scalar]] = [[] for _ in rest]
        for k, factors, gains in reversed(self._eliminated):
            x = ldlt_solve(factors, rest[k])
            for a, gain in gains.items():
                for line, value in zip(gain, solution[a], strict=True):
                    x = [entry - g * value for entry, g in zip(x, line, strict=True)]
            solution[k] = x
        return solution
