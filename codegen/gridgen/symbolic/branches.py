"""Forests, with the iterators of algorithms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class Branches:
    """A forest of bodies or velocities, sorted parents first.

    Algorithms iterate with the methods of this class, which may become loops in a program.
    """

    def __init__(self, parents: Sequence[int]) -> None:
        self._parents = tuple(parents)

    @property
    def parents(self) -> tuple[int, ...]:
        """Index of each item's parent; -1 for a root."""
        return self._parents

    def parent(self, index: int) -> int:
        """Return the index of an item's parent; -1 for a root."""
        return self.parents[index]

    def outward(self) -> Iterator[int]:
        """Iterate over all items, parents first."""
        return iter(range(len(self.parents)))

    def inward(self) -> Iterator[int]:
        """Iterate over all items, children first."""
        return iter(range(len(self.parents))[::-1])

    def until(self, index: int) -> Iterator[int]:
        """Iterate over all items up to and including ``index``."""
        return iter(range(index + 1))

    def several(self, count: int, end: int | None = None) -> Iterator[list[int]]:
        """Iterate over all items, or those before ``end``, up to ``count`` at a time."""
        last = len(self.parents) if end is None else end
        for index in range(0, last, count):
            yield list(range(index, min(index + count, last)))

    def climb(self, index: int) -> Iterator[int]:
        """Iterate from an item towards its root, excluding the root."""
        while self.parents[index] >= 0:
            yield index
            index = self.parents[index]
