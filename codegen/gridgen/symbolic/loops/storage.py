"""Memory of programs with loops, with indexed reads and writes."""

from __future__ import annotations

from typing import Any

from gridgen.naming import Names
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.loops.members import Index, Notes, Numbers, Pair, text_of
from gridgen.symbolic.memory import Constants, Entries, Input, Memory, MemoryEntry, Walk
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.trace import TraceScalars


class MemoryScalars(TraceScalars):
    """Graph nodes with reads and writes of memory.

    Attributes:
        notes: results of earlier attempts.
    """

    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self.notes = notes
        self._names = Names()
        self._walks: list[Walk] = []
        self._written: dict[tuple[Memory, int], list[int] | None] = {}

    def constant(self, value: Any) -> Scalar:
        """Return the node of a number, or of ``Numbers`` of a loop's members."""
        if not isinstance(value, Numbers):
            return self.graph.const(value)
        if all(entry == value.values[0] for entry in value.values):
            return self.graph.const(value.values[0])
        group = value.group
        return self.read(group.column(value.values, "numbers"), group.index, 0)

    def fresh(self, word: str) -> str:
        """Return a unique name for memory."""
        return self._names.fresh(word)

    def read(
        self, memory: Memory | Constants | Input, index: int | Index | Pair | str, leaf: int
    ) -> Expr:
        """Return the node of a number in memory."""
        text = text_of(index)
        if isinstance(memory, Memory):
            memory.slot(leaf)
        key = (memory.name, text, leaf, memory.version, self._epoch * isinstance(memory, Memory))
        return self.graph.act("read", (), MemoryEntry(memory, text, leaf), key)

    def declare(self, memory: Memory) -> None:
        """Declare variables that loops change."""
        self.loops.effects.append(self.graph.act("declare", (), memory))

    def write(self, memory: Memory, index: int | Index | Pair | str, leaf: int, node: Expr) -> None:
        """Write a number to memory."""
        memory.slot(leaf)
        memory.version += 1
        self._note_written(memory, index, leaf)
        place = MemoryEntry(memory, text_of(index), leaf)
        self.loops.effects.append(self.graph.act("write", (node,), place))

    def _note_written(self, memory: Memory, index: int | Index | Pair | str, leaf: int) -> None:
        places = self._written.setdefault((memory, leaf), [])
        if isinstance(index, int) and not self._walks:
            new = [index]
        elif isinstance(index, Index) and len(self._walks) == 1:
            new = [*index.values]
        else:
            new = []
        if places is not None:
            places += new
            if not new or len(set(places)) < len(places) or memory.is_local:
                self._written[memory, leaf] = None

    def is_written_once(self, memory: Memory, leaf: int) -> bool:
        """Return whether each location is written at most once, so that reads stay valid."""
        return self._written.get((memory, leaf)) is not None

    def fill(self, memory: Memory, leaf: int, node: Expr) -> None:
        """Write a constant to all records."""
        memory.slot(leaf)
        memory.version += 1
        self._written[memory, leaf] = None
        self.loops.effects.append(self.graph.act("fill", (node,), Entries(memory, leaf)))
