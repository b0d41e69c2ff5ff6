"""Loops: what an algorithm does to bodies of equal structure, traced once for all of them.

An algorithm walks over a tree with ``outward``, ``inward`` and ``climb``, and keeps what it knows
of every body in a table. Here both are symbols: a walk hands out one ``Index`` for many bodies,
whose numbers are read from constant arrays, and what the algorithm keeps lies in memory. A question
about structure (does the joint slide? has the body a parent?) must have one answer for all. Where
it has two the bodies are told apart, and the algorithm is traced once more, until nothing is left
to tell apart.

What is kept is found out in the same way. An entry that is a number of the robot whenever it is
kept is taken for known until something else is kept there; a known entry takes no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gridgen.errors import InternalError
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.loops.members import Notes, UnsettledError
from gridgen.symbolic.loops.scalars import LoopScalars
from gridgen.symbolic.loops.tree import LoopTree
from gridgen.symbolic.memory import Entries, Memory, MemoryEntry
from gridgen.symbolic.program import Array

#: Attempts after which it is given up: an algorithm asks a few dozen questions.
_MOST_ATTEMPTS = 200


def trace_with_loops(
    tree: Any,
    algorithm: Callable[[LoopTree, dict[str, Any], LoopScalars], Sequence[Any]],
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> LoopScalars:
    """Run an algorithm on a tree whose walks are loops until it is known what can be one.

    Args:
        tree:      the robot.
        algorithm: takes a tree, input arrays by name, and scalars; returns all results.
        inputs:    the input arrays.
        outputs:   the output arrays.
    """
    notes = Notes()
    while notes.attempts < _MOST_ATTEMPTS:
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
    """Return what changes results, or memory that is read for something that does.

    Other entries get no room.
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
    kept = [effect for effect in effects if effect.index in seen]
    declared = [effect for effect in effects if effect.op == "declare" and effect.value in leaves]
    return sorted([*kept, *declared], key=lambda effect: effect.index)
