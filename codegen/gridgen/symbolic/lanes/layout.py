"""Counts of teams' programs, which are not traced."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gridgen.symbolic.lanes.areas import WIDE
from gridgen.symbolic.lanes.operations import LaneOperations
from gridgen.symbolic.scalars import FoldingScalars, Scalar

# Fraction of the counted operations that remains: most products are fused with sums.
_LEFT = 0.5


class LaneLayout(LaneOperations, FoldingScalars):
    """Counters as the scalars of a team's program: its shared memory and operations, not traced."""

    def __init__(self, parents: Sequence[int], width: int) -> None:
        FoldingScalars.__init__(self, sys.maxsize)
        LaneOperations.__init__(self, parents, width)

    @property
    def work(self) -> int:
        """Operations of a lane."""
        return round(_LEFT * self.operations) + self._extra

    @property
    def meets(self) -> int:
        """Synchronizations."""
        return self._phase + self._fences

    def begin(self, phase: str, body: int) -> None:
        """Do nothing: a count has no parts."""

    def constant(self, value: float) -> Scalar:
        """Return ``value``."""
        return value

    def line(self, text: str) -> None:
        """Do nothing: a count has no statements."""

    @contextmanager
    def where(self, header: str, times: int = 1) -> Iterator[None]:
        """Count the operations of all rounds."""
        before = self.counts[0]
        yield
        self.counts[0] += (times - 1) * (self.counts[0] - before)

    def value(self, text: str) -> Scalar:
        """Return a counter."""
        return self._scalar

    def _first_leaf(self, text: str) -> Scalar:
        return self._scalar

    def _constant_leaf(self, text: str, row: Sequence[float]) -> Scalar:
        return self._scalar

    def _constants(self, value: Scalar) -> Sequence[float]:
        return [1.0] * self.count

    def _write(self, text: str, value: Scalar) -> None:
        self.counts[0] += 1

    def _store(self, address: str, values: Sequence[Scalar]) -> None:
        self.counts[0] += -(-len(values) // WIDE)

    def _loaded(self, stem: str, address: str, count: int) -> list[Scalar]:
        self.counts[0] += -(-count // WIDE)
        return [self._scalar] * count
