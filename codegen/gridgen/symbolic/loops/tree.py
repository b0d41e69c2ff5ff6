"""A robot's tree whose iterators are loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gridgen.symbolic.branches import Branches
from gridgen.symbolic.loops.members import Index, Items, index_of
from gridgen.symbolic.loops.scalars import LoopScalars


class LoopBranches:
    """Counterpart of ``Branches`` whose iterators are loops."""

    def __init__(self, branches: Branches, word: str, tracer: LoopScalars) -> None:
        self._branches, self._word, self._tracer = branches, word, tracer

    @property
    def parents(self) -> tuple[int, ...]:
        """Index of each item's parent; -1 for a root."""
        return self._branches.parents

    def parent(self, index: int | Index) -> int | Index:
        """Return the index of an item's parent; -1 for a root."""
        if isinstance(index, int):
            return self._branches.parent(index)
        parents = [self._branches.parent(value) for value in index.values]
        return index_of(parents, index.group, "parents")

    def outward(self) -> Iterator[Any]:
        """Iterate over all items, parents first."""
        return self._tracer.walk(self._word, range(len(self._branches.parents)))

    def inward(self) -> Iterator[Any]:
        """Iterate over all items, children first."""
        return self._tracer.walk(self._word, range(len(self._branches.parents))[::-1])

    def until(self, index: int | Index) -> Iterator[Any]:
        """Iterate over all items up to and including ``index``."""
        return self._tracer.between(self._word, 0, index + 1)

    def several(self, count: int, end: int | Index | None = None) -> Iterator[list[Any]]:
        """Iterate over all items, or those before ``end``, up to ``count`` at a time."""
        last = len(self._branches.parents) if end is None else end
        return self._tracer.several(self._word, count, last)

    def climb(self, index: int | Index) -> Iterator[Any]:
        """Iterate from an item to the last below its root."""
        return self._tracer.climb(self._word, self._branches, index)


class LoopTree(LoopBranches):
    """Counterpart of ``KinematicTree`` whose iterators are loops."""

    def __init__(self, tree: Any, tracer: LoopScalars) -> None:
        super().__init__(tree, "body", tracer)
        self._tree = tree
        self.bodies = Items(tree.bodies)
        self.frames = Items(tree.frames)
        self.armature, self.damping = Items(tree.armature), Items(tree.damping)
        self.joint_friction = Items(tree.joint_friction)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)

    @property
    def velocities(self) -> LoopBranches:
        """The velocities as a forest; as one chain unless a subtree is one range of numbers."""
        forest = self._tree.velocities
        if not self._tree.is_depth_first:
            forest = Branches(range(-1, self._tree.nv - 1))
        return LoopBranches(forest, "axis", self._tracer)

    def each_frame(self) -> Iterator[Any]:
        """Iterate over the frames."""
        return self._tracer.walk("frame", range(len(self._tree.frames)))
