"""Forests, with the iterators of algorithms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property


class Branches:
    """A forest of bodies or velocities; items may have any numbers.

    Algorithms iterate with the methods of this class, which may become loops in a program.
    """

    def __init__(self, parents: Sequence[int]) -> None:
        self._parents = tuple(parents)

    @property
    def parents(self) -> tuple[int, ...]:
        """Index of each item's parent; -1 for a root."""
        return self._parents

    @cached_property
    def order(self) -> Sequence[int]:
        """All items, parents first: by number, if every parent has a lower one."""
        parents = self.parents
        if all(parent < index for index, parent in enumerate(parents)):
            return range(len(parents))
        return sorted(range(len(parents)), key=lambda index: sum(1 for _ in self.climb(index)))

    def parent(self, index: int) -> int:
        """Return the index of an item's parent; -1 for a root."""
        return self.parents[index]

    def outward(self) -> Iterator[int]:
        """Iterate over all items, parents first."""
        return iter(self.order)

    def inward(self) -> Iterator[int]:
        """Iterate over all items, children first."""
        return iter(self.order[::-1])

    def until(self, index: int) -> Iterator[int]:
        """Iterate over all items up to and including ``index``."""
        return iter(self.order[: self.order.index(index) + 1])

    def several(self, count: int, end: int | None = None) -> Iterator[list[int]]:
        """Iterate over all items, or those before ``end``, up to ``count`` at a time."""
        whole = end is None or end == len(self.parents)
        items = self.order if whole else self.order[: self.order.index(end)]
        for start in range(0, len(items), count):
            yield list(items[start : start + count])

    def climb(self, index: int) -> Iterator[int]:
        """Iterate from an item towards its root, excluding the root."""
        while self.parents[index] >= 0:
            yield index
            index = self.parents[index]
