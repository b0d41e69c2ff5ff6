"""Loops: what an algorithm does to bodies of equal structure, traced once for all of them.

An algorithm walks over a tree with ``outward``, ``inward`` and ``climb``, and keeps what it knows of
every body in a table. Here both are symbols: a walk hands out one ``Index`` for many bodies, whose
numbers are read from constant arrays, and what the algorithm keeps lies in memory. A question about
structure (does the joint slide? has the body a parent?) must have one answer for all. Where it has
two the bodies are told apart, and the algorithm is traced once more, until nothing is left to tell
apart.

What is kept is found out in the same way. An entry that is a number of the robot whenever it is kept
is taken for known until something else is kept there; a known entry takes no memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from gridgen.errors import InternalError
from gridgen.model.kinematic_tree import Branches, KinematicTree
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.memory import Case, Constants, Entries, Input, Leave, Memory, Place, Walk
from gridgen.symbolic.scalars import Scalar, Value, entries
from gridgen.symbolic.program import Array
from gridgen.symbolic.trace import TraceScalars

Key = tuple[Any, ...]

#: Attempts after which what still changes is taken for unknown.
_PATIENCE = 12
#: Attempts after which it is given up: an algorithm asks a few dozen questions.
_MOST_ATTEMPTS = 200


# -- indices and numbers of many bodies -------------------------------------------------------


@dataclass
class Notes:
    """What the attempts to trace an algorithm have found.

    Attributes:
        splits:  for each loop, the answers that differ, by member.
        dense:   entries of tables, by table and number, that are not known.
        known:   the numbers of the others, by member, as the last attempt has found them.
        results: tables that are results, with the array's name.
        changed: whether an attempt has found something and must be made again.
        attempts: that were made.
    """

    splits: dict[Key, list[dict[int, Any]]] = field(default_factory=dict)
    dense: set[tuple[Key, int]] = field(default_factory=set)
    known: dict[tuple[Key, int], dict[int, float]] = field(default_factory=dict)
    results: dict[Key, str] = field(default_factory=dict)
    changed: bool = False
    attempts: int = 0


@dataclass(frozen=True, eq=False)
class Group:
    """Members of a loop that are traced as one.

    Attributes:
        loop:    key of the loop.
        text:    the loop's variable.
        members: what the variable stands for.
        domain:  how many values it may have.
        tracer:  whose loop it is.
    """

    loop: Key
    text: str
    members: tuple[int, ...]
    domain: int
    tracer: LoopScalars

    def answer(self, values: Sequence[Any]) -> Any:
        """Return what all members have in common; those that differ are told apart next time."""
        first = values[0]
        if any(value != first for value in values):
            split = dict(zip(self.members, values, strict=True))
            self.tracer.notes.splits.setdefault(self.loop, []).append(split)
            self.tracer.notes.changed = True
        return first

    @property
    def index(self) -> Index:
        """The variable."""
        return Index(self, self.text, self.members)

    def column(self, values: Sequence[Any], word: str) -> Constants:
        """Return an array with each member's value at its place."""
        entries = [type(values[0])()] * self.domain
        for member, value in zip(self.members, values, strict=True):
            entries[member] = value
        return self.tracer.constants(word, entries)


@dataclass(frozen=True, eq=False)
class Index:
    """An index that depends on the variable of a loop, as text of C++.

    Attributes:
        group:  whose variable it is.
        text:   the number.
        values: what it is for every member.
    """

    group: Group
    text: str
    values: tuple[int, ...]

    def __lt__(self, other: int) -> bool:
        return bool(self.group.answer([value < other for value in self.values]))

    def __ge__(self, other: int) -> bool:
        return not self < other

    def __add__(self, other: int) -> Index:
        values = tuple(value + other for value in self.values)
        return Index(self.group, f"{self.text} + {other}" if other else self.text, values)

    def __mul__(self, other: int) -> Index:
        text = f"({self.text})" if " " in self.text else self.text
        return Index(self.group, f"{other} * {text}", tuple(other * v for v in self.values))

    __radd__ = __add__
    __rmul__ = __mul__


class Numbers:
    """A number of the robot that differs from member to member."""

    __slots__ = ("group", "values")

    def __init__(self, group: Group, values: Sequence[float]) -> None:
        self.group, self.values = group, tuple(values)

    def __add__(self, other: float | Numbers) -> Numbers:
        return Numbers(self.group, [a + b for a, b in self._pairs(other)])

    def __sub__(self, other: float | Numbers) -> Numbers:
        return Numbers(self.group, [a - b for a, b in self._pairs(other)])

    def __mul__(self, other: float | Numbers) -> Numbers:
        return Numbers(self.group, [a * b for a, b in self._pairs(other)])

    def __truediv__(self, other: float | Numbers) -> Numbers:
        return Numbers(self.group, [a / b for a, b in self._pairs(other)])

    def __pow__(self, power: int) -> Numbers:
        return Numbers(self.group, [a**power for a in self.values])

    def __neg__(self) -> Numbers:
        return Numbers(self.group, [-a for a in self.values])

    def __abs__(self) -> Numbers:
        return Numbers(self.group, [abs(a) for a in self.values])

    __radd__ = __add__
    __rmul__ = __mul__

    def _pairs(self, other: float | Numbers) -> Iterator[tuple[float, float]]:
        others = other.values if isinstance(other, Numbers) else [other] * len(self.values)
        return zip(self.values, others, strict=True)

    def __bool__(self) -> bool:
        return bool(self.group.answer([a != 0.0 for a in self.values]))

    def __eq__(self, other: object) -> bool:
        return bool(self.group.answer([a == other for a in self.values]))

    def __gt__(self, other: float) -> bool:
        return bool(self.group.answer([a > other for a in self.values]))

    __hash__ = None  # type: ignore[assignment]


# -- the tree ---------------------------------------------------------------------------------


def common(values: Sequence[Any], index: Index) -> Any:
    """Return what the members of a loop have, as one.

    Numbers become ``Numbers`` where they differ, records ``Members``; of all else they must have
    the same.
    """
    first = values[0]
    if isinstance(first, float):
        same = all(value == first for value in values)
        return first if same else Numbers(index.group, values)
    if isinstance(first, (tuple, list)):
        index.group.answer([len(value) for value in values])
        return tuple(common(entries, index) for entries in zip(*values, strict=False))
    if is_dataclass(first):
        return Members(values, index)
    return index.group.answer(values)


def index_of(values: Sequence[int], group: Group, word: str) -> int | Index:
    """Return an index of which the value for every member of a loop is known."""
    if all(value == values[0] for value in values):
        return values[0]
    shift = values[0] - group.members[0]
    if all(value - member == shift for value, member in zip(values, group.members, strict=True)):
        text = f"{group.text} {'-' if shift < 0 else '+'} {abs(shift)}" if shift else group.text
        return Index(group, text, tuple(values))
    return Index(group, group.column(values, word).place(group.text, 0), tuple(values))


class Members:
    """The records that an index stands for, as one record."""

    #: Attributes that are indices, with what their arrays are called.
    _INDICES = {"parent": "parents", "q_index": "q_indices", "v_index": "v_indices", "body": "bodies"}

    def __init__(self, records: Sequence[Any], index: Index) -> None:
        self._records, self._index = records, index

    def __getattr__(self, name: str) -> Any:
        values = [getattr(record, name) for record in self._records]
        if name == "turns_about_an_axis":
            # Bodies are not told apart by how they lie, or a robot would have as many kinds of them
            # as bodies. What is special about one rotation pays where all have it.
            return values[0] and all(r.rotation == self._records[0].rotation for r in self._records)
        if name in self._INDICES:
            return index_of(values, self._index.group, self._INDICES[name])
        return common(values, self._index)


class Items:
    """What a robot has several of; may be asked for by an ``Index``."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int | Index) -> Any:
        if isinstance(index, int):
            return self._items[index]
        return common([self._items[value] for value in index.values], index)


class LoopBranches:
    """A forest as ``Branches`` are one, whose walks are loops."""

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
        """Walk over all items, parents first."""
        return self._tracer.walk(self._word, range(len(self._branches.parents)))

    def inward(self) -> Iterator[Any]:
        """Walk over all items, children first."""
        return self._tracer.walk(self._word, range(len(self._branches.parents))[::-1])

    def until(self, index: int | Index) -> Iterator[Any]:
        """Walk over all items before one, and it."""
        return self._tracer.between(self._word, 0, index + 1)

    def below(self, index: int | Index) -> Iterator[Any]:
        """Walk over the items of which one is an ancestor."""
        if isinstance(index, int):
            return self._tracer.walk(self._word, range(index + 1, self._branches.ends[index]))
        ends = [self._branches.ends[value] for value in index.values]
        end = index_of(ends, index.group, "ends")
        return self._tracer.between(self._word, index + 1, end)

    def several(self, count: int, end: int | Index | None = None) -> Iterator[list[Any]]:
        """Walk over all items, or those before one, up to ``count`` at a time."""
        last = len(self._branches.parents) if end is None else end
        return self._tracer.several(self._word, count, last)

    def climb(self, index: int | Index) -> Iterator[Any]:
        """Walk from an item to the last below its root."""
        return self._tracer.climb(self._word, self._branches, index)


class LoopTree(LoopBranches):
    """A robot as ``KinematicTree`` is one, whose walks are loops."""

    def __init__(self, tree: KinematicTree, tracer: LoopScalars) -> None:
        super().__init__(tree, "body", tracer)
        self._tree = tree
        self.bodies = Items(tree.bodies)
        self.frames = Items(tree.frames)
        self.armature = Items(tree.armature)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)

    @property
    def velocities(self) -> LoopBranches:
        """The velocities as a forest."""
        return LoopBranches(self._tree.velocities, "axis", self._tracer)

    def each_frame(self) -> Iterator[Any]:
        """Walk over the frames."""
        return self._tracer.walk("frame", range(len(self._tree.frames)))


# -- what is kept -----------------------------------------------------------------------------


class Table:
    """Records of scalars, one for each item: a list whose places an ``Index`` may name."""

    def __init__(self, tracer: LoopScalars, key: Key, memory: Memory) -> None:
        self._tracer, self._key, self.memory = tracer, key, memory
        self._forms: dict[int, Any] = {}
        self._known: dict[int, dict[int, float]] = {}
        self._used: dict[int, dict[int, float]] = {}

    def __len__(self) -> int:
        return self.memory.count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _slice(self, index)
        members = (index,) if isinstance(index, int) else index.values
        forms = [self._forms[member] for member in members if member in self._forms]
        if not forms:
            raise InternalError(f"{self.memory.name} is read before anything is kept in it")
        form = forms[0]
        if isinstance(index, Index):
            form = index.group.answer([self._forms.get(member, form) for member in members])
        return _built(form, iter([self._read(index, leaf) for leaf in range(_count(form))]))

    def __setitem__(self, index: int | Index, record: Any) -> None:
        leaves: list[Expr] = []
        form = _form(record, leaves, self._tracer)
        for member in (index,) if isinstance(index, int) else index.values:
            self._forms[member] = form
        for leaf, node in enumerate(leaves):
            if not self._is_known(leaf, index, node):
                self._tracer.write(self.memory, index, leaf, node)

    def fill(self, record: Any) -> Table:
        """Keep the same record of constants everywhere."""
        leaves: list[Expr] = []
        members = range(self.memory.count)
        self._forms = dict.fromkeys(members, _form(record, leaves, self._tracer))
        for leaf, node in enumerate(leaves):
            assert isinstance(node.value, float)
            self._known[leaf] = dict.fromkeys(members, node.value)
            if self._is_dense(leaf):
                self._tracer.fill(self.memory, leaf, node)
        return self

    def become(self, array: str) -> None:
        """Be the result of that name."""
        if self._key not in self._tracer.notes.results:
            self._tracer.notes.results[self._key] = array
            self._tracer.notes.changed = True

    def finish(self) -> None:
        """Compare what has been taken for known with what was kept."""
        notes = self._tracer.notes
        for leaf, used in self._used.items():
            known = self._known.get(leaf, {})
            if any(known.get(member) != value for member, value in used.items()):
                notes.changed = True
                if notes.attempts > _PATIENCE:
                    notes.dense.add((self._key, leaf))
        for leaf, known in self._known.items():
            notes.known[self._key, leaf] = known

    def _is_dense(self, leaf: int) -> bool:
        return self.memory.is_result or (self._key, leaf) in self._tracer.notes.dense

    def _is_known(self, leaf: int, index: int | Index, node: Expr) -> bool:
        """Tell whether an entry needs no memory, and remember what is kept in it."""
        if self._is_dense(leaf):
            return False
        numbers = _numbers(node, index)
        known = self._known.setdefault(leaf, {})
        if all(known.setdefault(member, value) == value for member, value in numbers):
            if numbers:
                return True
        self._tracer.notes.dense.add((self._key, leaf))
        self._tracer.notes.changed = True
        return True

    def _read(self, index: int | Index, leaf: int) -> Expr:
        if self._is_dense(leaf):
            return self._tracer.read(self.memory, index, leaf)
        notes = self._tracer.notes
        now, before = self._known.get(leaf, {}), notes.known.get((self._key, leaf), {})
        used = self._used.setdefault(leaf, {})
        values = []
        for member in (index,) if isinstance(index, int) else index.values:
            values.append(now.get(member, before.get(member, 0.0)))
            used[member] = values[-1]
        if isinstance(index, int) or all(value == values[0] for value in values):
            return self._tracer.constant(values[0])
        return self._tracer.constant(Numbers(index.group, values))


def _numbers(node: Expr, index: int | Index) -> list[tuple[int, float]]:
    """Return the number that a node is at every place that an index names, if it is one."""
    members = (index,) if isinstance(index, int) else index.values
    if node.op == "const":
        assert isinstance(node.value, float)
        return [(member, node.value) for member in members]
    if isinstance(index, Index) and node.op == "read":
        place = node.value
        assert isinstance(place, Place)
        if isinstance(place.memory, Constants) and place.index == index.group.text:
            values = [float(place.memory.values[member]) for member in index.group.members]
            return list(zip(members, values, strict=True))
    return []


class Matrix:
    """An array of scalars with several axes, whose places as many indices name."""

    def __init__(
        self, tracer: LoopScalars, key: Key, memory: Memory, shape: tuple[int, ...]
    ) -> None:
        self._tracer, self._key, self.memory, self.shape = tracer, key, memory, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int | Index) -> Row:
        return Row(self, self.shape[1:], _product(index, math.prod(self.shape[1:])))

    def become(self, array: str) -> None:
        """Be the result of that name."""
        if self._key not in self._tracer.notes.results:
            self._tracer.notes.results[self._key] = array
            self._tracer.notes.changed = True

    def finish(self) -> None:
        """Do nothing: no entry is taken for known."""


class Row:
    """What is left of such an array when its first indices are known."""

    def __init__(self, matrix: Matrix, shape: tuple[int, ...], start: str) -> None:
        self._matrix, self._shape, self._start = matrix, shape, start

    def __getitem__(self, index: int | Index) -> Any:
        place = self._place(index)
        if len(self._shape) > 1:
            return Row(self._matrix, self._shape[1:], place)
        return self._matrix._tracer.read(self._matrix.memory, place, 0)

    def __setitem__(self, index: int | Index, value: Scalar) -> None:
        tracer = self._matrix._tracer
        tracer.write(self._matrix.memory, self._place(index), 0, tracer.graph.lift(value))

    def _place(self, index: int | Index) -> str:
        return f"{self._start} + {_product(index, math.prod(self._shape[1:]))}"


def _product(index: int | Index, factor: int) -> str:
    return _text(index * factor) if factor > 1 else _text(index)


@dataclass(frozen=True)
class Pair:
    """The place of a pair in a table of pairs, which are all alike."""

    text: str
    values = (0,)


class Pairs:
    """A table with a record for each pair of items."""

    def __init__(self, table: Table, count: int) -> None:
        self._table, self._count = table, count

    def __getitem__(self, first: int | Index) -> PairRow:
        return PairRow(self._table, _text(first * self._count))


class PairRow:
    """The records of one item with others."""

    def __init__(self, table: Table, start: str) -> None:
        self._table, self._start = table, start

    def __getitem__(self, second: int | Index) -> Any:
        return self._table[Pair(f"{self._start} + {_text(second)}")]

    def __setitem__(self, second: int | Index, record: Any) -> None:
        self._table[Pair(f"{self._start} + {_text(second)}")] = record


class Vector:
    """An input array, whose places an index may name."""

    def __init__(self, tracer: LoopScalars, name: str, count: int) -> None:
        self._tracer, self._memory, self._count = tracer, Input(name), count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Expr]:
        return iter([self[k] for k in range(self._count)])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _slice(self, index)
        return self._tracer.read(self._memory, index, 0)


def _slice(array: Table | Vector, part: slice) -> list[Any]:
    """Return neighbours."""
    if isinstance(part.start, Index):
        count = part.stop.values[0] - part.start.values[0]
        return [array[part.start + k] for k in range(count)]
    return [array[k] for k in range(*part.indices(len(array)))]


class Carried:
    """A record that is carried from one turn of a loop to the next."""

    def __init__(self, table: Table) -> None:
        self._table = table

    @property
    def value(self) -> Any:
        """What it is now."""
        return self._table[0]

    @value.setter
    def value(self, record: Any) -> None:
        self._table[0] = record


# -- records as lists of scalars --------------------------------------------------------------


def _form(record: Any, leaves: list[Expr], tracer: LoopScalars) -> Any:
    """Return how a record is built, and append its scalars to ``leaves``."""
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
    """Return the record of a form."""
    if form is None:
        return next(leaves)
    kind, entries = form
    if kind == "same":
        return entries
    built = [_built(entry, leaves) for entry in entries]
    return kind(built) if kind in (tuple, list) else kind(*built)


def _text(index: int | Index | Pair | str) -> str:
    return index.text if isinstance(index, (Index, Pair)) else str(index)


# -- the scalars ------------------------------------------------------------------------------


class LoopScalars(TraceScalars):
    """Graph nodes as the scalars of an algorithm that runs on a ``LoopTree``.

    Attributes:
        notes:  what the attempts before have found.
        tables: all that is kept.
    """

    has_loops = True

    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self.notes = notes
        self.tables: list[Table | Matrix] = []
        self._depth = 0
        self._where: Key = ()
        self._ordinals: dict[Key, int] = {}
        self._reads: dict[Key, Expr] = {}
        self._epoch = 0
        self._names: dict[str, int] = {}
        self._walks: list[Walk] = []

    # -- the interface of scalars -------------------------------------------------------------

    def constant(self, value: Any) -> Scalar:
        """Return the node of a number, or of the number that each member of a loop has."""
        if not isinstance(value, Numbers):
            return self.graph.const(value)
        if all(entry == value.values[0] for entry in value.values):
            return self.graph.const(value.values[0])
        group = value.group
        return self.read(group.column(value.values, "numbers"), group.index, 0)

    def begin(self, phase: str, body: Any) -> None:
        """Open a part of the program."""
        super().begin(phase, -1 if isinstance(body, Index) else body)
        self.loops.depths[len(self.blocks) - 1] = self._depth

    def keep(self, symbol: str, body: Any, value: Value) -> Value:
        """Name the nodes of ``value``; bodies of a loop have one name."""
        return super().keep(symbol, None if isinstance(body, Index) else body, value)

    def inputs(self, array: str, count: int) -> Any:
        """Return an input array."""
        return Vector(self, array, count)

    def table(self, symbol: str, count: int, fill: Any = None) -> Any:
        """Return room for a record of each item."""
        key = self._key(symbol)
        memory = Memory(self._room_name(symbol, key), count, is_result=key in self.notes.results)
        table = Table(self, key, memory)
        self.tables.append(table)
        self.loops.room.append(memory)
        return table if fill is None else table.fill(fill)

    def pairs(self, symbol: str, count: int) -> Any:
        """Return room for a record of each pair of items."""
        key = self._key(symbol)
        table = Table(self, key, Memory(self._room_name(symbol, key), count * count))
        self.tables.append(table)
        self.loops.room.append(table.memory)
        return Pairs(table, count)

    def matrix(self, symbol: str, *shape: int) -> Any:
        """Return an array of zeros."""
        key = self._key(symbol)
        is_result = key in self.notes.results
        memory = Memory(self._room_name(symbol, key), math.prod(shape), is_result=is_result)
        matrix = Matrix(self, key, memory, shape)
        self.tables.append(matrix)
        self.loops.room.append(memory)
        self.fill(matrix.memory, 0, self.graph.zero)
        return matrix

    def carry(self, symbol: str, value: Any) -> Any:
        """Return a record that loops may change."""
        key = self._key(symbol)
        table = Table(self, key, Memory(self._room_name(symbol, ()), 1, is_local=True))
        self.tables.append(table)
        self.loops.effects.append(self.graph.act("declare", (), table.memory))
        table[0] = value
        return Carried(table)

    def _key(self, symbol: str) -> Key:
        return (*self._where, symbol, self._ordinal((*self._where, symbol)))

    def _room_name(self, symbol: str, key: Key) -> str:
        if key in self.notes.results:
            return self.notes.results[key]
        self._names[symbol] = self._names.get(symbol, 0) + 1
        number = self._names[symbol]
        return f"{symbol}_kept" if number == 1 else f"{symbol}_kept_{number}"

    def _ordinal(self, key: Key) -> int:
        self._ordinals[key] = self._ordinals.get(key, 0) + 1
        return self._ordinals[key]

    def constants(self, word: str, values: Sequence[float]) -> Constants:
        """Return a constant array."""
        table = Constants(word, tuple(values))
        return self.loops.tables.setdefault(table.name, table)

    # -- memory -------------------------------------------------------------------------------

    def read(self, memory: Memory | Constants | Input, index: int | Index | str, leaf: int) -> Expr:
        """Return the node of a number in memory."""
        text = _text(index)
        if isinstance(memory, Memory):
            memory.slot(leaf)
        key = (memory.name, text, leaf, memory.version, self._epoch * isinstance(memory, Memory))
        return self.graph.act("read", (), Place(memory, text, leaf), key)

    def write(self, memory: Memory, index: int | Index | str, leaf: int, node: Expr) -> None:
        """Keep a number."""
        memory.slot(leaf)
        memory.version += 1
        self.loops.effects.append(self.graph.act("write", (node,), Place(memory, _text(index), leaf)))

    def fill(self, memory: Memory, leaf: int, node: Expr) -> None:
        """Keep a constant in all places."""
        memory.slot(leaf)
        memory.version += 1
        self.loops.effects.append(self.graph.act("fill", (node,), Entries(memory, leaf)))

    def deliver(self, array: Array, result: Any) -> None:
        """Write a result: a table or a matrix becomes the array, scalars are written one by one."""
        if isinstance(result, (Table, Matrix)):
            result.become(array.name)
            return
        memory = Memory(array.name, array.size, is_result=True)
        for index, entry in enumerate(entries(result)):
            self.write(memory, index, 0, self.graph.lift(entry))

    # -- loops --------------------------------------------------------------------------------

    def walk(self, word: str, members: range) -> Iterator[Any]:
        """Hand out an index for each run of members of one kind, or in turn for each kind.

        Args:
            word:    what a member is called.
            members: the members, in order.
        """
        where = self._where
        loop = (*where, word, self._ordinal((*where, word)))
        kinds = self._kinds(loop, members)
        runs = _runs(members, kinds)
        for run in runs if len(runs) <= len(set(kinds.values())) + 2 else [members]:
            if len(run) == 1:
                self._where = (*loop, run[0])
                yield run[0]
                continue
            variable = self._variable(word)
            going, step = f"{variable} < {run[-1] + 1}", f"++{variable}"
            if run.step < 0:
                going, step = f"{variable} >= {run[-1]}", f"--{variable}"
            walk = Walk(variable, str(run[0]), going, step)
            yield from self._loop(loop, walk, run, kinds, 1 + max(run[0], run[-1]))
        self._where = where

    def between(
        self, word: str, first: int | Index, end: int | Index, step: int = 1
    ) -> Iterator[Any]:
        """Hand out an index from the first up to the end, as long as ``step`` of them are left."""
        where = self._where
        loop = (*where, word, self._ordinal((*where, word)))
        least = first if isinstance(first, int) else min(first.values)
        most = end if isinstance(end, int) else max(end.values)
        if members := range(least, most, step):
            variable = self._variable(word)
            ahead = f"{variable} + {step - 1}" if step > 1 else variable
            forward = f"{variable} += {step}" if step > 1 else f"++{variable}"
            walk = Walk(variable, _text(first), f"{ahead} < {_text(end)}", forward)
            yield from self._loop(loop, walk, members, self._kinds(loop, members), most)
        self._where = where

    def several(self, word: str, count: int, end: int | Index) -> Iterator[list[Any]]:
        """Hand out indices from 0 up to the end, ``count`` at a time, what is left one by one."""
        for index in self.between(word, 0, end, count):
            yield [index + k for k in range(count)]
        if isinstance(end, int):
            if rest := list(range(end - end % count, end)):
                yield rest
            return
        text = f"{_text(end)} / {count} * {count}"
        done = replace(end, text=text, values=(0,) * len(end.values))
        for index in self.between(word, done, end):
            yield [index]

    def climb(self, word: str, branches: Branches, index: int | Index) -> Iterator[Any]:
        """Hand out an index for the items from one to the last below its root."""
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
            parents = self.constants("parents", branches.parents)
            variable = self._variable("below")
            parent = f"{parents.name}[{variable}]"
            walk = Walk(variable, _text(index), f"{parent} >= 0", f"{variable} = {parent}")
            kinds = self._kinds(loop, ordered)
            yield from self._loop(loop, walk, ordered, kinds, len(parents.values))
        self._where = where

    def _loop(
        self, loop: Key, walk: Walk, members: Sequence[int], kinds: dict[int, Key], domain: int
    ) -> Iterator[Index]:
        """Open a loop, hand out an index for each kind of its members, close it."""
        groups: dict[Key, list[int]] = {}
        for member in members:
            groups.setdefault(kinds[member], []).append(member)
        self._walks.append(walk)
        self._mark(walk, +1)
        numbers = {kind: number for number, kind in enumerate(groups)}
        table = [0] * domain
        for member in members:
            table[member] = numbers[kinds[member]]
        which = self.constants("kinds", table) if len(groups) > 1 else None
        for kind, group in groups.items():
            self._where = (*loop, group[0], len(group))
            if which:
                self._mark(Case(which, walk.variable, numbers[kind], len(groups)), +1)
            yield Group(loop, walk.variable, tuple(group), domain, self).index
            if which:
                self._mark(Leave(), -1)
        self._mark(Leave(), -1)
        self._walks.pop()

    def _kinds(self, loop: Key, members: Sequence[int]) -> dict[int, Key]:
        """Return for each member what tells it apart."""
        splits = self.notes.splits.get(loop, [])
        return {member: tuple(split.get(member) for split in splits) for member in members}

    def _mark(self, mark: Walk | Case | Leave, deeper: int) -> None:
        """Begin or end a loop, or the part of one kind."""
        if deeper < 0:
            self._depth -= 1
            self.graph.close()
        phase, body = self.blocks[-1]
        self.begin(phase, body)
        self.loops.marks.setdefault(len(self.blocks) - 1, []).append(mark)
        if deeper > 0:
            self._depth += 1
            self.graph.open()
            self.begin(phase, body)
        self._epoch += 1

    def _variable(self, word: str) -> str:
        number = 1 + sum(walk.variable.startswith(word) for walk in self._walks)
        return word if number == 1 else f"{word}_{number}"


def _runs(members: range, kinds: dict[int, Key]) -> list[range]:
    """Return ranges of neighbours of one kind."""
    runs: list[range] = []
    begin = 0
    for end in range(1, len(members) + 1):
        if end == len(members) or kinds[members[end]] != kinds[members[begin]]:
            runs.append(members[begin:end])
            begin = end
    return runs


def trace_with_loops(
    tree: KinematicTree,
    algorithm: Callable[[LoopTree, dict[str, Any], LoopScalars], Sequence[Any]],
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> LoopScalars:
    """Run an algorithm on a tree whose walks are loops until it is known what can be one.

    Args:
        tree:      the robot.
        algorithm: takes a tree, input arrays by name, and scalars; returns a result for each output.
        inputs:    the input arrays.
        outputs:   the output arrays.
    """
    notes = Notes()
    while True:
        notes.changed = False
        notes.attempts += 1
        scalars = LoopScalars(notes)
        given = {array.name: scalars.inputs(array.name, array.size) for array in inputs}
        try:
            results = algorithm(LoopTree(tree, scalars), given, scalars)
        except (TypeError, ValueError, AttributeError, LookupError):
            # What an algorithm does to bodies that it has not yet been told apart may make no sense.
            if not notes.changed or notes.attempts > _MOST_ATTEMPTS:
                raise
            continue
        for array, result in zip(outputs, results, strict=True):
            scalars.deliver(array, result)
        for table in scalars.tables:
            table.finish()
        if not notes.changed:
            scalars.loops.effects = _needed(scalars.loops.effects)
            return scalars


def _needed(effects: Sequence[Expr]) -> list[Expr]:
    """Return what changes results, or memory that is read for something that does.

    Other entries get no room.
    """
    writers: dict[tuple[Memory, int], list[Expr]] = {}
    pending: list[Expr] = []
    for effect in effects:
        target = effect.value
        if isinstance(target, (Place, Entries)) and isinstance(target.memory, Memory):
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
            assert isinstance(node.value, Place)
            if isinstance(node.value.memory, Memory) and not node.value.memory.is_result:
                leaves.setdefault(node.value.memory, set()).add(node.value.leaf)
                pending.extend(writers.get((node.value.memory, node.value.leaf), ()))
    for memory, _ in writers:
        memory.keep_only(leaves.get(memory, set()))
    kept = [effect for effect in effects if effect.index in seen]
    declared = [effect for effect in effects if effect.op == "declare" and effect.value in leaves]
    return sorted([*kept, *declared], key=lambda effect: effect.index)
