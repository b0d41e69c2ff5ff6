"""Reverse-mode differentiation of a program with loops; the result is a program with loops.

The reverse pass runs loops, and the statements of an iteration, backwards. Memory has an adjoint of
the same shape. The reverse pass recomputes the numbers of an iteration from memory. The forward
pass saves numbers that it overwrites later, one for each iteration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gridgen.symbolic.adjoint import parts_of
from gridgen.symbolic.expr import Expr, Scope
from gridgen.symbolic.loops.arrays import Matrix
from gridgen.symbolic.loops.dependence import (
    LoopScope,
    active_nodes,
    first_writes,
    needed_nodes,
    read_parts,
)
from gridgen.symbolic.loops.scalars import LoopScalars
from gridgen.symbolic.loops.tables import Table
from gridgen.symbolic.memory import Case, Entries, Input, Memory, MemoryEntry, Walk
from gridgen.symbolic.scalars import entries


def adjoints_with_loops(
    tracer: LoopScalars,
    results: Sequence[Any],
    weights: Sequence[Any],
    inputs: Mapping[str, int],
) -> dict[str, Any]:
    """Return the gradients of the weighted sum of results with respect to inputs.

    Args:
        tracer:  scalars of the trace of the results; the function adds nodes.
        results: tables, matrices, or nested sequences of nodes.
        weights: arrays of nodes, one for each element of a result.
        inputs:  sizes of the input arrays of the differentiation, by name.

    Returns:
        a table for each of ``inputs``.
    """
    ends = {name: _zeros(tracer, f"{name}_bar", size) for name, size in inputs.items()}
    reversal = _Reversal(tracer, results, ends)
    for result, weight in zip(results, weights, strict=True):
        reversal.seed(result, weight)
    reversal.run()
    return ends


def _zeros(tracer: LoopScalars, symbol: str, count: int) -> Table:
    """Return a table of zeros in memory."""
    table: Table = tracer.table(symbol, count)
    tracer.notes.dense.add((table.key, 0))
    return table.fill(0.0)


class _Reversal:
    """Reverse pass of a trace."""

    def __init__(
        self, tracer: LoopScalars, results: Sequence[Any], ends: Mapping[str, Table]
    ) -> None:
        self._tracer, self._ends = tracer, ends
        self._graph = tracer.graph
        nodes = needed_nodes(tracer, results)
        self._active, self._entries = active_nodes(nodes, ends)
        self._firsts = first_writes(nodes)
        self._root, self._homes = read_parts(tracer, nodes, self._active)
        self._bars: dict[Memory, Memory] = {}
        self._tapes: dict[tuple[Walk, ...], Memory] = {}
        self._tape_leaves: dict[int, int] = {}
        self._totals: dict[int, Memory] = {}
        self._at = self._root
        tracer.begin("adjoint", -1)

    # -- adjoints of memory -------------------------------------------------------------------

    def seed(self, result: Any, weight: Any) -> None:
        """Initialize adjoints with the weights of a result."""
        tracer = self._tracer
        if isinstance(result, (Table, Matrix)):
            memory = result.memory
            width = len(weight) // memory.count
            bar = self._bar(memory)
            for leaf in range(width):
                if (memory, leaf) in self._entries:
                    for row in tracer.between("row", 0, memory.count):
                        tracer.write(bar, row, leaf, weight[row * width + leaf])
            return
        for place, entry in enumerate(entries(result)):
            self._add(tracer.graph.lift(entry), weight[place])

    def _bar(self, memory: Memory) -> Memory:
        """Return the adjoint of memory, initially zero."""
        if memory not in self._bars:
            bar = Memory(
                self._tracer.fresh(f"{memory.name}_bar"), memory.count, is_local=memory.is_local
            )
            self._bars[memory] = bar
            if not memory.is_local:
                self._tracer.loops.scratch.append(bar)
                for leaf in self._leaves(memory):
                    self._tracer.fill(bar, leaf, self._graph.zero)
        return self._bars[memory]

    def _leaves(self, memory: Memory) -> list[int]:
        return sorted(leaf for other, leaf in self._entries if other is memory)

    def _declare(self, memory: Memory) -> None:
        """Declare the adjoint of variables that a loop changes."""
        bar = self._bar(memory)
        self._tracer.declare(bar)
        for leaf in self._leaves(memory):
            self._tracer.write(bar, 0, leaf, self._graph.zero)

    # -- reverse pass -------------------------------------------------------------------------

    def run(self) -> None:
        """Run the reverse pass from the end to the beginning."""
        for memory, _ in sorted(self._entries, key=lambda entry: entry[0].name):
            if not memory.is_local:
                self._bar(memory)
        self._go_back(self._root)

    def _go_back(self, part: LoopScope) -> None:
        for item in part.items:
            if isinstance(item, Expr) and item.op == "declare":
                if isinstance(item.value, Memory) and self._leaves(item.value):
                    self._declare(item.value)
        cases: list[LoopScope] = []
        for item in reversed(part.items):
            if isinstance(item, LoopScope) and isinstance(item.mark, Case):
                cases.insert(0, item)
                if item.mark.number == 0:  # branches of one loop stay consecutive
                    self._enter(cases)
                    cases = []
            elif isinstance(item, LoopScope):
                self._enter([item])
            elif item.index in self._active:
                self._node(item)
            elif item.op in ("fill", "write"):
                self._clear(item)

    def _clear(self, node: Expr) -> None:
        """Clear the adjoints of entries that constants overwrite."""
        tracer, target, zero = self._tracer, node.value, self._graph.zero
        assert isinstance(target, (MemoryEntry, Entries))
        assert isinstance(target.memory, Memory)
        entry = target.memory, target.leaf
        if isinstance(target, MemoryEntry):
            if entry in self._entries and not tracer.is_written_once(*entry):
                tracer.write(self._bar(target.memory), target.index, target.leaf, zero)
        elif self._firsts.get(entry, node.index) < node.index:
            tracer.fill(self._bar(target.memory), target.leaf, zero)

    def _enter(self, parts: Sequence[LoopScope]) -> None:
        """Run the reverse pass of a loop, or of its branches for members by kind."""
        tracer, around = self._tracer, self._at
        free = {index: node for part in parts for index, node in part.free.items()}
        new = {n: self._variable() for n in free if n not in self._totals}
        self._totals |= new
        for part in parts:
            assert part.mark is not None
            marks = part.mark.back if isinstance(part.mark, Walk) else (part.mark,)
            with tracer.inside(*marks):
                self._at = part
                self._go_back(part)
                for index in part.free:
                    if index in part.sums:
                        _, change = part.sums.pop(index)
                        known = tracer.read(self._totals[index], 0, 0)
                        total = self._graph.add(known, change)
                        tracer.write(self._totals[index], 0, 0, total)
            self._at = around
        for index, variable in new.items():
            del self._totals[index]
            self._add(free[index], tracer.read(variable, 0, 0))

    def _variable(self) -> Memory:
        """Return a variable for contributions of loops to the adjoint of an outer node."""
        memory = Memory(self._tracer.fresh("total"), 1, is_local=True)
        self._tracer.declare(memory)
        self._tracer.write(memory, 0, 0, self._graph.zero)
        return memory

    def _add(self, operand: Expr, change: Expr) -> None:
        """Add to the adjoint of a node."""
        while operand.op == "neg":
            operand, change = operand.args[0], self._graph.neg(change)
        if operand.index in self._active:
            known = self._at.sums.get(operand.index)
            total = change if known is None else self._graph.add(known[1], change)
            self._at.sums[operand.index] = operand, total

    def _node(self, node: Expr) -> None:
        """Propagate the adjoint of a node to its operands."""
        tracer, place = self._tracer, node.value
        if node.op == "write":
            assert isinstance(place, MemoryEntry)
            assert isinstance(place.memory, Memory)
            bar = self._bar(place.memory)
            change = tracer.read(bar, place.index, place.leaf)
            if not tracer.is_written_once(place.memory, place.leaf):
                tracer.write(bar, place.index, place.leaf, self._graph.zero)
            self._add(node.args[0], change)
            return
        _, total = self._at.sums.pop(node.index, (node, self._graph.zero))
        if total is self._graph.zero:
            return
        if node.op == "read":
            assert isinstance(place, MemoryEntry)
            if isinstance(place.memory, Input):
                bar, leaf = self._ends[place.memory.name].memory, 0
            else:
                assert isinstance(place.memory, Memory)
                bar, leaf = self._bar(place.memory), place.leaf
            known = tracer.read(bar, place.index, leaf)
            tracer.write(bar, place.index, leaf, self._graph.add(known, total))
            return
        for operand, part in parts_of(node, total, self._value):
            self._add(operand, part)

    # -- numbers of the forward pass ----------------------------------------------------------

    def _value(self, node: Expr) -> Expr:
        """Return a number of the forward pass for use in the reverse pass."""
        if node.op == "neg":
            return self._graph.neg(self._value(node.args[0]))
        if _is_seen(node.scope, self._graph.scope):
            return node
        at: LoopScope | None = self._at
        while at is not None:
            if node.index in at.values:
                return at.values[node.index]
            at = at.outer
        found = self._at.values[node.index] = self._computed(node)
        return found

    def _computed(self, node: Expr) -> Expr:
        if node.op == "const":
            assert isinstance(node.value, float)
            return self._graph.const(node.value)
        if node.op != "read":
            value: Expr = getattr(self._graph, node.op)(*map(self._value, node.args))
            return value
        place, tracer = node.value, self._tracer
        assert isinstance(place, MemoryEntry)
        memory = place.memory
        if isinstance(memory, Memory) and not tracer.is_written_once(memory, place.leaf):
            return self._saved(node)
        return tracer.read(memory, place.index, place.leaf)

    def _saved(self, node: Expr) -> Expr:
        """Return a number that the forward pass saves in each iteration."""
        walks = self._homes[node.index].walks
        index = ""
        for walk in walks:
            index = f"{walk.domain} * ({index}) + {walk.variable}" if index else walk.variable
        tape = self._tapes.get(tuple(walks))
        if tape is None:
            count = math.prod(walk.domain for walk in walks)
            tape = Memory(self._tracer.fresh("turns_stored"), count)
            self._tapes[tuple(walks)] = tape
            self._tracer.loops.scratch.append(tape)
        if node.index not in self._tape_leaves:
            leaf = self._tape_leaves[node.index] = tape.width
            with self._tracer.next_to(node):
                self._tracer.write(tape, index, leaf, node)
        return self._tracer.read(tape, index, self._tape_leaves[node.index])


def _is_seen(scope: Scope, place: Scope | None) -> bool:
    """Return whether nodes of a scope are visible in another."""
    while place is not None:
        if place is scope:
            return True
        place = place.outer
    return False
