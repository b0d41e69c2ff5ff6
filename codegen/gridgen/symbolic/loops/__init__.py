"""Loops: traces an algorithm once for all bodies of equal structure.

An algorithm iterates over a tree with ``outward``, ``inward`` and ``climb``, and stores its values
for every body in a table. Here both are symbolic: an iterator yields one ``Index`` for many bodies,
with numbers in constant arrays, and tables are in memory. A query about structure (does the joint
slide? has the body a parent?) must have one answer for all bodies. If it has two, the bodies are
separated and the algorithm is traced again, until all queries have one answer.

The same procedure determines which table entries need memory. An entry is known while all values
written to it are numbers of the robot. Known entries need no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gridgen.errors import InternalError
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.loops.members import Notes, UnsettledError
from gridgen.symbolic.loops.scalars import LoopScalars, LoopTree
from gridgen.symbolic.memory import Entries, Memory, MemoryEntry
from gridgen.symbolic.program import Array

#: Attempts before failure: an algorithm makes a few dozen queries.
_MAX_ATTEMPTS = 200


def trace_with_loops(
    tree: Any,
    algorithm: Callable[[LoopTree, dict[str, Any], LoopScalars], Sequence[Any]],
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> LoopScalars:
    """Trace an algorithm on a tree with loops until its attempts settle.

    Args:
        tree:      the robot.
        algorithm: function of a tree, input arrays by name, and scalars; returns all results.
        inputs:    the input arrays.
        outputs:   the output arrays.
    """
    notes = Notes()
    while notes.attempts < _MAX_ATTEMPTS:
        notes.changed = False
        notes.attempts += 1
        scalars = LoopScalars(notes)
        given = {array.name: scalars.inputs(array.name, array.size) for array in inputs}
        try:
            results = algorithm(LoopTree(tree, scalars), given, scalars)
            for array, result in zip(outputs, results, strict=True):
                scalars.deliver(array, result)
            notes.ended += 1
            for table in scalars.tables:
                table.finish()
        except UnsettledError:
            assert notes.changed
        if not notes.changed:
            scalars.loops.effects = _needed(scalars.loops.effects)
            return scalars
    raise InternalError(f"{tree.name}: an algorithm with loops does not settle")


def _needed(effects: Sequence[Expr]) -> list[Expr]:
    """Return the effects that results depend on, also through memory.

    Other entries get no memory.
    """
    writers: dict[tuple[Memory, int], list[Expr]] = {}
    pending: list[Expr] = []
    for effect in effects:
        target = effect.value
        if isinstance(target, (MemoryEntry, Entries)) and isinstance(target.memory, Memory):
            if target.memory.is_result:
                pending.append(effect)
            else:
                writers.setdefault((target.memory, target.leaf), []).append(effect)
    seen: set[int] = set()
    leaves: dict[Memory, set[int]] = {}
    while pending:
        node = pending.pop()
        if node.index in seen:
            continue
        seen.add(node.index)
        pending.extend(node.args)
        if node.op == "read":
            assert isinstance(node.value, MemoryEntry)
            if isinstance(node.value.memory, Memory) and not node.value.memory.is_result:
                leaves.setdefault(node.value.memory, set()).add(node.value.leaf)
                pending.extend(writers.get((node.value.memory, node.value.leaf), ()))
    for memory, _ in writers:
        memory.keep_only(leaves.get(memory, set()))
    retained = [effect for effect in effects if effect.index in seen]
    declared = [effect for effect in effects if effect.op == "declare" and effect.value in leaves]
    return sorted([*retained, *declared], key=lambda effect: effect.index)
