"""A forest, over which algorithms walk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class Branches:
    """A forest of which every item comes after its parent: bodies, velocities.

    Algorithms walk over it with the methods here, which in a program may become loops.
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
        """Walk over all items, parents first."""
        return iter(range(len(self.parents)))

    def inward(self) -> Iterator[int]:
        """Walk over all items, children first."""
        return iter(range(len(self.parents))[::-1])

    def until(self, index: int) -> Iterator[int]:
        """Walk over all items before one, and it."""
        return iter(range(index + 1))

    def several(self, count: int, end: int | None = None) -> Iterator[list[int]]:
        """Walk over all items, or those before one, up to ``count`` at a time."""
        last = len(self.parents) if end is None else end
        for index in range(0, last, count):
            yield list(range(index, min(index + count, last)))

    def climb(self, index: int) -> Iterator[int]:
        """Walk from an item towards its root, which is left out: over those that have a parent."""
        while self.parents[index] >= 0:
            yield index
            index = self.parents[index]
