"""Dependence analysis of programs with loops: the nodes of results, and their loops."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridgen.symbolic.expr import Expr
from gridgen.symbolic.loops.arrays import Matrix
from gridgen.symbolic.loops.scalars import LoopScalars
from gridgen.symbolic.loops.tables import Table
from gridgen.symbolic.memory import (
    Case,
    Choose,
    Entries,
    Header,
    Input,
    Leave,
    Line,
    Memory,
    MemoryEntry,
    Repeat,
    Walk,
    When,
)
from gridgen.symbolic.scalars import entries

Entry = tuple[Memory, int]


@dataclass(eq=False)
class LoopScope:
    """A loop, a branch for members of one kind, or a whole program."""

    #: header of the loop or branch; ``None`` for the program.
    mark: Walk | Repeat | When | Case | Choose | None = None
    outer: LoopScope | None = None  #: the enclosing scope.
    #: nodes and inner scopes, in order.
    items: list[Expr | LoopScope] = field(default_factory=list)
    #: nodes of enclosing scopes that have adjoints in this one.
    free: dict[int, Expr] = field(default_factory=dict)
    #: adjoints of nodes, by index, in the reverse pass.
    sums: dict[int, tuple[Expr, Expr]] = field(default_factory=dict)
    #: recomputed numbers, by the node's index.
    values: dict[int, Expr] = field(default_factory=dict)

    @property
    def walks(self) -> list[Walk]:
        """The enclosing loops, the outermost first."""
        around = self.outer.walks if self.outer else []
        return [*around, self.mark] if isinstance(self.mark, Walk) else around


def needed_nodes(tracer: LoopScalars, results: Sequence[Any]) -> list[Expr]:
    """Return the nodes that results depend on, also through memory, in order."""
    writers: dict[Memory, list[Expr]] = {}
    declared = {}
    for effect in tracer.loops.effects:
        if isinstance(effect.value, (MemoryEntry, Entries)) and isinstance(
            effect.value.memory, Memory
        ):
            writers.setdefault(effect.value.memory, []).append(effect)
        elif isinstance(effect.value, Memory):
            declared[effect.value] = effect
    pending: list[Expr] = []
    for result in results:
        if isinstance(result, (Table, Matrix)):
            pending += writers.get(result.memory, ())
        else:
            pending += map(tracer.graph.lift, entries(result))
    seen: dict[int, Expr] = {}
    while pending:
        node = pending.pop()
        if node.index in seen:
            continue
        seen[node.index] = node
        pending += node.args
        if node.op == "read" and isinstance(node.value, MemoryEntry):
            memory = node.value.memory
            if isinstance(memory, Memory):
                leaf = node.value.leaf
                pending += (
                    effect
                    for effect in writers.get(memory, ())
                    if isinstance(effect.value, (MemoryEntry, Entries))
                    and effect.value.leaf == leaf
                )
                pending += [declared[memory]] if memory in declared else []
    return [seen[index] for index in sorted(seen)]


def active_nodes(nodes: Sequence[Expr], inputs: Collection[str]) -> tuple[set[int], set[Entry]]:
    """Return the nodes, by index, and the entries of memory that depend on some inputs."""
    active: set[int] = set()
    changed: set[Entry] = set()
    while True:
        before = len(active) + len(changed)
        for node in nodes:
            place = node.value
            if node.op == "read":
                assert isinstance(place, MemoryEntry)
                is_given = isinstance(place.memory, Input) and place.memory.name in inputs
                is_active = is_given or (place.memory, place.leaf) in changed
            else:
                is_active = any(operand.index in active for operand in node.args)
            if is_active:
                active.add(node.index)
                if node.op == "write":
                    assert isinstance(place, MemoryEntry)
                    assert isinstance(place.memory, Memory)
                    changed.add((place.memory, place.leaf))
        if len(active) + len(changed) == before:
            return active, changed


def first_writes(nodes: Sequence[Expr]) -> dict[Entry, int]:
    """Return the index of the first node that writes each entry of memory."""
    firsts: dict[Entry, int] = {}
    for node in nodes:
        if node.op == "write":
            assert isinstance(node.value, MemoryEntry)
            assert isinstance(node.value.memory, Memory)
            firsts.setdefault((node.value.memory, node.value.leaf), node.index)
    return firsts


def read_parts(
    tracer: LoopScalars, nodes: Sequence[Expr], active: Collection[int]
) -> tuple[LoopScope, dict[int, LoopScope]]:
    """Return the tree of a program's scopes, and the scope of each node, by index."""
    by_block: dict[int, list[Expr]] = {}
    for node in nodes:
        by_block.setdefault(node.block, []).append(node)
    homes: dict[int, LoopScope] = {}
    at = root = LoopScope()
    for block in range(len(tracer.blocks)):
        for mark in tracer.loops.marks.get(block, ()):
            if isinstance(mark, Leave):
                assert at.outer is not None
                at = at.outer
            else:
                assert not isinstance(mark, (Header, Line))  # of teams
                inner = LoopScope(mark, at)
                at.items.append(inner)
                at = inner
        at.items += by_block.get(block, ())
        homes |= dict.fromkeys([node.index for node in by_block.get(block, ())], at)
    for node in nodes:
        for operand in node.args if node.index in active else ():
            read = operand.args[0] if operand.op == "neg" else operand
            around: LoopScope | None = homes[node.index]
            while read.index in active and around is not homes[read.index]:
                assert around is not None
                around.free[read.index] = read
                around = around.outer
    return root, homes
