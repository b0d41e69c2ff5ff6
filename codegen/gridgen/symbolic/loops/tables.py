"""Tables: values of an algorithm for every item, known, or stored in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from gridgen.errors import InternalError
from gridgen.naming import Names
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.loops.members import Index, Key, Notes, Numbers, Pair, UnsettledError, text_of
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


#: Completed attempts after which entries that still change count as unknown.
_PATIENCE = 12


class Table:
    """Records of scalars, one for each item: a list that accepts an ``Index``."""

    def __init__(
        self, tracer: MemoryScalars, key: Key, memory: Memory, *, is_dense: bool = False
    ) -> None:
        self._tracer, self.key, self.memory = tracer, key, memory
        self._all_dense = is_dense or memory.is_result
        self._forms: dict[int, Any] = {}
        self._known: dict[int, dict[int, float]] = {}
        self._used: dict[int, dict[int, float]] = {}

    def __len__(self) -> int:
        return self.memory.count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return neighbors(self, index)
        members = (index,) if isinstance(index, int) else index.values
        forms = [self._forms[member] for member in members if member in self._forms]
        if not forms:
            if self._tracer.notes.changed:
                raise UnsettledError  # its members were dropped
            raise InternalError(f"{self.memory.name} is read before it is written")
        form = forms[0]
        if isinstance(index, Index):
            form = index.group.answer([self._forms.get(member, form) for member in members])
        return _built(form, iter([self._read(index, leaf) for leaf in range(_count(form))]))

    def __setitem__(self, index: int | Index | Pair, record: Any) -> None:
        leaves: list[Expr] = []
        form = _form(record, leaves, self._tracer)
        for member in (index,) if isinstance(index, int) else index.values:
            self._forms[member] = form
        for leaf, node in enumerate(leaves):
            if not self._is_known(leaf, index, node):
                self._tracer.write(self.memory, index, leaf, node)

    def fill(self, record: Any) -> Table:
        """Store the same record of constants for all items."""
        leaves: list[Expr] = []
        members = range(self.memory.count)
        self._forms = dict.fromkeys(members, _form(record, leaves, self._tracer))
        for leaf, node in enumerate(leaves):
            assert isinstance(node.value, float)
            self._known[leaf] = dict.fromkeys(members, node.value)
            if self._is_dense(leaf):
                self._tracer.fill(self.memory, leaf, node)
        return self

    def finish(self) -> None:
        """Compare the entries that were used as known with the stored values."""
        notes = self._tracer.notes
        for leaf, used in self._used.items():
            known = self._known.get(leaf, {})
            if any(known.get(member) != value for member, value in used.items()):
                notes.changed = True
                if notes.ended > _PATIENCE:
                    notes.dense.add((self.key, leaf))
        for leaf, known in self._known.items():
            notes.known[self.key, leaf] = known

    def _is_dense(self, leaf: int) -> bool:
        return self._all_dense or (self.key, leaf) in self._tracer.notes.dense

    def _is_known(self, leaf: int, index: int | Index | Pair, node: Expr) -> bool:
        """Return whether an entry needs no memory, and record its value."""
        if self._is_dense(leaf):
            return False
        numbers = _numbers(node, index)
        known = self._known.setdefault(leaf, {})
        if all(known.setdefault(member, value) == value for member, value in numbers):
            if numbers:
                return True
        self._tracer.notes.dense.add((self.key, leaf))
        self._tracer.notes.changed = True
        return True

    def _read(self, index: int | Index | Pair, leaf: int) -> Expr:
        if self._is_dense(leaf):
            return self._tracer.read(self.memory, index, leaf)
        notes = self._tracer.notes
        now, before = self._known.get(leaf, {}), notes.known.get((self.key, leaf), {})
        used = self._used.setdefault(leaf, {})
        values = []
        for member in (index,) if isinstance(index, int) else index.values:
            values.append(now.get(member, before.get(member, 0.0)))
            used.setdefault(member, values[-1])  # what is read later may be newer
        if not isinstance(index, Index) or all(value == values[0] for value in values):
            return self._tracer.graph.const(values[0])
        number: Expr = self._tracer.constant(Numbers(index.group, values))
        return number


def _numbers(node: Expr, index: int | Index | Pair) -> list[tuple[int, float]]:
    """Return the numbers of a node by member, or an empty list for other nodes."""
    members = (index,) if isinstance(index, int) else index.values
    if node.op == "const":
        assert isinstance(node.value, float)
        return [(member, node.value) for member in members]
    if isinstance(index, Index) and node.op == "read":
        place = node.value
        assert isinstance(place, MemoryEntry)
        if isinstance(place.memory, Constants) and place.index == index.group.text:
            values = [float(place.memory.values[member]) for member in index.group.members]
            return list(zip(members, values, strict=True))
    return []


class Pairs:
    """A table with a record for each pair of items."""

    def __init__(self, table: Table, count: int) -> None:
        self._table, self._count = table, count

    def __getitem__(self, first: int | Index) -> PairRow:
        return PairRow(self._table, text_of(first * self._count))


class PairRow:
    """The records of one item with others."""

    def __init__(self, table: Table, start: str) -> None:
        self._table, self._start = table, start

    def __getitem__(self, second: int | Index) -> Any:
        return self._table[Pair(f"{self._start} + {text_of(second)}")]

    def __setitem__(self, second: int | Index, record: Any) -> None:
        self._table[Pair(f"{self._start} + {text_of(second)}")] = record


class Carried:
    """A record that one iteration of a loop passes to the next."""

    def __init__(self, table: Table) -> None:
        self._table = table

    @property
    def value(self) -> Any:
        """The current record."""
        return self._table[0]

    @value.setter
    def value(self, record: Any) -> None:
        self._table[0] = record


def _form(record: Any, leaves: list[Expr], tracer: MemoryScalars) -> Any:
    """Return the form of a record, and append its scalars to ``leaves``."""
    if isinstance(record, (Expr, float, Numbers)):
        leaves.append(record if isinstance(record, Expr) else tracer.constant(record))
        return None
    if isinstance(record, (tuple, list)):
        return type(record), tuple(_form(entry, leaves, tracer) for entry in record)
    if is_dataclass(record) and not isinstance(record, type):
        entries = (getattr(record, entry.name) for entry in fields(record))
        return type(record), tuple(_form(entry, leaves, tracer) for entry in entries)
    return "same", record


def _count(form: Any) -> int:
    """Return the number of scalars of a record."""
    if form is None:
        return 1
    return 0 if form[0] == "same" else sum(map(_count, form[1]))


def _built(form: Any, leaves: Iterator[Expr]) -> Any:
    """Return a record of the given form."""
    if form is None:
        return next(leaves)
    kind, entries = form
    if kind == "same":
        return entries
    built = [_built(entry, leaves) for entry in entries]
    return kind(built) if kind in (tuple, list) else kind(*built)


def neighbors(array: Any, part: slice) -> list[Any]:
    """Return consecutive entries; the first may have an ``Index``."""
    if isinstance(part.start, Index):
        count = part.stop.values[0] - part.start.values[0]
        return [array[part.start + k] for k in range(count)]
    return [array[k] for k in range(*part.indices(len(array)))]
