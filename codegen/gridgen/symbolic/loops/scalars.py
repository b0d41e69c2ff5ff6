"""Scalars of an algorithm that runs in loops: nodes, memory and the loops themselves."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gridgen.symbolic.branches import Branches
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.loops.arrays import Matrix, Vector
from gridgen.symbolic.loops.members import (
    Group,
    Index,
    Items,
    Key,
    Notes,
    along,
    between,
    index_of,
    runs_of,
    subtree_ends,
    text_of,
    upward,
)
from gridgen.symbolic.loops.tables import Carried, MemoryScalars, Pairs, Table
from gridgen.symbolic.memory import Case, Leave, Memory, Walk, When
from gridgen.symbolic.program import Array
from gridgen.symbolic.scalars import Value, entries


class LoopScalars(MemoryScalars):
    """Graph nodes as the scalars of an algorithm on a ``LoopTree``.

    Attributes:
        tables: all tables and matrices.
    """

    has_loops = True

    def __init__(self, notes: Notes) -> None:
        super().__init__(notes)
        self.tables: list[Table | Matrix] = []
        self._where: Key = ()
        self._ordinals: dict[Key, int] = {}

    # -- the interface of scalars -------------------------------------------------------------

    def begin(self, phase: str, body: Any) -> None:
        """Begin a block of the program."""
        super().begin(phase, -1 if isinstance(body, Index) else body)

    def keep(self, symbol: str, body: Any, value: Value) -> Value:
        """Name the nodes of ``value``; all bodies of a loop share one name."""
        return super().keep(symbol, None if isinstance(body, Index) else body, value)

    def inputs(self, array: str, count: int) -> Any:
        """Return an input array."""
        return Vector(self, array, count)

    def table(self, symbol: str, count: int, fill: Any = None) -> Any:
        """Return a table with a record for each item."""
        key = self._key(symbol)
        memory = Memory(self._memory_name(symbol, key), count, is_result=key in self.notes.results)
        table = Table(self, key, memory)
        self.tables.append(table)
        self.loops.scratch.append(memory)
        return table if fill is None else table.fill(fill)

    def pairs(self, symbol: str, count: int) -> Any:
        """Return a table with a record for each pair of items."""
        key = self._key(symbol)
        table = Table(self, key, Memory(self._memory_name(symbol, key), count * count))
        self.tables.append(table)
        self.loops.scratch.append(table.memory)
        return Pairs(table, count)

    def matrix(self, symbol: str, *shape: int, zeros: bool = True) -> Any:
        """Return an array of zeros, or an uninitialized one."""
        key = self._key(symbol)
        is_result = key in self.notes.results
        memory = Memory(self._memory_name(symbol, key), math.prod(shape), is_result=is_result)
        matrix = Matrix(self, key, memory, shape)
        self.tables.append(matrix)
        self.loops.scratch.append(memory)
        if zeros:
            self.fill(matrix.memory, 0, self.graph.zero)
        else:
            matrix.memory.slot(0)
        return matrix

    def carry(self, symbol: str, value: Any) -> Any:
        """Return a record that loops may change."""
        key = self._key(symbol)
        table = Table(self, key, Memory(self._memory_name(symbol, ()), 1, is_local=True))
        self.tables.append(table)
        self.declare(table.memory)
        table[0] = value
        return Carried(table)

    def _key(self, symbol: str) -> Key:
        return (*self._where, symbol, self._ordinal((*self._where, symbol)))

    def _memory_name(self, symbol: str, key: Key) -> str:
        if key in self.notes.results:
            return self.notes.results[key]
        return self.fresh(f"{symbol}_stored")

    def _ordinal(self, key: Key) -> int:
        self._ordinals[key] = self._ordinals.get(key, 0) + 1
        return self._ordinals[key]

    def deliver(self, array: Array, result: Any) -> None:
        """Write a result: tables and matrices become the array, scalars are stored one by one."""
        if isinstance(result, (Table, Matrix)):
            if result.key not in self.notes.results:
                self.notes.results[result.key] = array.name
                self.notes.changed = True
            return
        memory = Memory(array.name, array.size, is_result=True)
        for index, entry in enumerate(entries(result)):
            self.write(memory, index, 0, self.graph.lift(entry))

    # -- loops --------------------------------------------------------------------------------

    def walk(self, word: str, members: range) -> Iterator[Any]:
        """Yield an index for each run of members of one kind, or one for each kind in a loop."""
        where = self._where
        loop = (*where, word, self._ordinal((*where, word)))
        pending = set(members)
        while pending:
            kinds = self._kinds(loop, members)
            runs = runs_of(members, kinds)
            for run in runs if len(runs) <= len(set(kinds.values())) + 2 else [members]:
                here = [member for member in run if member in pending]
                pending.difference_update(here)
                if len(run) == len(here) == 1:
                    self._where = (*loop, run[0])
                    yield run[0]
                elif here:
                    variable = self._variable(word)
                    walk = along(variable, run)
                    pending |= yield from self._loop(loop, walk, here, kinds, walk.domain)
        self._where = where

    def between(
        self, word: str, first: int | Index, end: int | Index, step: int = 1
    ) -> Iterator[Any]:
        """Yield an index from ``first`` to ``end``, while at least ``step`` remain."""
        where = self._where
        loop = (*where, word, self._ordinal((*where, word)))
        least = first if isinstance(first, int) else min(first.values)
        most = end if isinstance(end, int) else max(end.values)
        if members := range(least, most - step + 1, step):
            variable = self._variable(word)
            walk = between(variable, text_of(first), text_of(end), step, most)
            yield from self._loops(loop, walk, members, most)
        self._where = where

    def several(self, word: str, count: int, end: int | Index) -> Iterator[list[Any]]:
        """Yield indices from 0 to ``end``, ``count`` at a time, and the remaining ones singly."""
        for index in self.between(word, 0, end, count):
            yield [index + k for k in range(count)]
        if isinstance(end, int):
            if rest := list(range(end - end % count, end)):
                yield rest
            return
        text = f"({end.text})" if " " in end.text else end.text
        done = Index(end.group, f"{text} / {count} * {count}", (0,) * len(end.values))
        for index in self.between(word, done, end):
            yield [index]

    def climb(self, word: str, branches: Branches, index: int | Index) -> Iterator[Any]:
        """Yield an index for the items from one to the last below its root."""
        where = self._where
        loop = (*where, "climb", self._ordinal((*where, "climb")))
        starts = (index,) if isinstance(index, int) else index.values
        members: set[int] = set()
        for item in starts:
            while item not in members and branches.parent(item) >= 0:
                members.add(item)
                item = branches.parent(item)
        if len(members) == 1 and isinstance(index, int):
            self._where = (*loop, index)
            yield index
        elif members:
            ordered = sorted(members, reverse=True)
            parents = self.loops.constants("parents", branches.parents)
            variable = self._variable("below")
            ends = self.loops.constants("ends", subtree_ends(branches))
            walk = upward(variable, text_of(index), parents, ends)
            yield from self._loops(loop, walk, ordered, walk.domain)
        self._where = where

    def _loops(self, loop: Key, walk: Walk, members: Sequence[int], domain: int) -> Iterator[Index]:
        """Yield the indices of a loop, then those of members that its groups have dropped."""
        pending = set(members)
        while pending:
            here = [member for member in members if member in pending]
            kinds = self._kinds(loop, members)
            pending = yield from self._loop(loop, walk, here, kinds, domain)

    def _loop(
        self, loop: Key, walk: Walk, members: Sequence[int], kinds: dict[int, Key], domain: int
    ) -> Generator[Index, None, set[int]]:
        """Open a loop, yield an index for each kind of its members, and close it.

        Returns the members that its groups have dropped. The attempt that traces them too finds the
        answers of all members, although it must be repeated.
        """
        groups: dict[Key, list[int]] = {}
        for member in members:
            groups.setdefault(kinds[member], []).append(member)
        self._walks.append(walk)
        self._mark(walk, +1)
        numbers = {kind: number for number, kind in enumerate(groups)}
        table = [0] * domain
        for member in members:
            table[member] = numbers[kinds[member]]
        which = self.loops.constants("kinds", table) if len(groups) > 1 else None
        left: set[int] = set()
        for kind, group in groups.items():
            self._where = (*loop, group[0], len(group))
            if which:
                self._mark(Case(which, walk.variable, numbers[kind], len(groups)), +1)
            traced = Group(loop, walk.variable, tuple(group), domain, self.notes, self.loops)
            yield traced.index
            left.update(traced.members)
            if which:
                self._mark(Leave(), -1)
        self._mark(Leave(), -1)
        self._walks.pop()
        return set(members) - left

    def _kinds(self, loop: Key, members: Sequence[int]) -> dict[int, Key]:
        """Return the kind of each member: its answers to the queries."""
        splits = self.notes.splits.get(loop, [])
        return {member: tuple(split.get(member) for split in splits) for member in members}

    @contextmanager
    def inside(self, *marks: Walk | When | Case) -> Iterator[None]:
        """Enter loops or branches with the given headers."""
        for mark in marks:
            if isinstance(mark, Walk):
                self._walks.append(mark)
            self._mark(mark, +1)
        yield
        for mark in reversed(marks):
            self._mark(Leave(), -1)
            if isinstance(mark, Walk):
                self._walks.pop()

    @contextmanager
    def next_to(self, node: Expr) -> Iterator[None]:
        """Insert new nodes into the block and scope of a node."""
        graph = self.graph
        place = graph.block, graph.scope
        graph.block, graph.scope = node.block, node.scope
        yield
        graph.block, graph.scope = place

    def _variable(self, word: str) -> str:
        return f"{word}_{len(self._walks) + 1}" if self._walks else word


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
