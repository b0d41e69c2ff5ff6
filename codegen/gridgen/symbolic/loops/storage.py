"""Memory of a program with loops, read and written at places that indices name."""

from __future__ import annotations

from typing import Any

from gridgen.naming import Names
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.loops.members import Index, Notes, Numbers, Pair, text_of
from gridgen.symbolic.memory import Constants, Entries, Input, Memory, MemoryEntry, Walk
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.trace import TraceScalars


class MemoryScalars(TraceScalars):
    """Graph nodes, those among them that read and write memory.

    Attributes:
        notes: what the attempts before have found.
    """

    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self.notes = notes
        self._epoch = 0
        self._names = Names()
        self._walks: list[Walk] = []
        self._written: dict[tuple[Memory, int], list[int] | None] = {}

    def constant(self, value: Any) -> Scalar:
        """Return the node of a number, or of the number that each member of a loop has."""
        if not isinstance(value, Numbers):
            return self.graph.const(value)
        if all(entry == value.values[0] for entry in value.values):
            return self.graph.const(value.values[0])
        group = value.group
        return self.read(group.column(value.values, "numbers"), group.index, 0)

    def fresh(self, word: str) -> str:
        """Return a name for memory that no other has."""
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
        """Have variables, which loops change."""
        self.loops.effects.append(self.graph.act("declare", (), memory))

    def write(self, memory: Memory, index: int | Index | Pair | str, leaf: int, node: Expr) -> None:
        """Keep a number."""
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
        """Tell whether each place is written once at most, so that what is read stays there."""
        return self._written.get((memory, leaf)) is not None

    def fill(self, memory: Memory, leaf: int, node: Expr) -> None:
        """Keep a constant in all places."""
        memory.slot(leaf)
        memory.version += 1
        self._written[memory, leaf] = None
        self.loops.effects.append(self.graph.act("fill", (node,), Entries(memory, leaf)))
