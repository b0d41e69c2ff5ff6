"""Symmetric systems of small blocks, eliminated in any order: Yang, Wu, Pan (GPU scheme) eq. 19."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gridgen.dynamics.linear import Factorization, ldlt, ldlt_solve
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import dot

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
