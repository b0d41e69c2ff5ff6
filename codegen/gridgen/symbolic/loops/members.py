"""What stands for many bodies in a loop: an index, numbers, records; what tells them apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any

from gridgen.symbolic.memory import Constants
from gridgen.symbolic.trace import Loops

Key = tuple[Any, ...]


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
        ended:   those among them that came to their end.
    """

    splits: dict[Key, list[dict[int, Any]]] = field(default_factory=dict)
    dense: set[tuple[Key, int]] = field(default_factory=set)
    known: dict[tuple[Key, int], dict[int, float]] = field(default_factory=dict)
    results: dict[Key, str] = field(default_factory=dict)
    changed: bool = False
    attempts: int = 0
    ended: int = 0


class UnsettledError(Exception):
    """A trace cannot go on until the bodies that it tells apart are apart: it is made again."""


@dataclass(eq=False)
class Group:
    """Members of a loop that are traced as one.

    Attributes:
        loop:    key of the loop.
        text:    the loop's variable.
        members: what the variable stands for; fewer once an answer has told some apart.
        domain:  how many values it may have.
        notes:   what the attempts have found.
        loops:   those of the program, with its constant arrays.
    """

    loop: Key
    text: str
    members: tuple[int, ...]
    domain: int
    notes: Notes
    loops: Loops

    def answer(self, values: Sequence[Any]) -> Any:
        """Return what the members have in common, or what the first has.

        Those that differ from it are told apart next time, and left out for the rest of this one.
        """
        first = values[0]
        if any(value != first for value in values):
            split = dict(zip(self.members, values, strict=True))
            self.notes.splits.setdefault(self.loop, []).append(split)
            self.notes.changed = True
            self.members = tuple(member for member, value in split.items() if value == first)
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
        return self.loops.constants(word, entries)


class OfMembers:
    """Something that differs from member to member of a loop.

    Args:
        group:  the members.
        values: what each has.
    """

    __slots__ = ("_by_member", "group")

    def __init__(self, group: Group, values: Sequence[Any]) -> None:
        self.group = group
        self._by_member = dict(zip(group.members, values, strict=True))

    @property
    def values(self) -> tuple[Any, ...]:
        """What the members have that are still traced as one."""
        return tuple(self._by_member[member] for member in self.group.members)


class Index(OfMembers):
    """An index that depends on the variable of a loop.

    Args:
        group:  whose variable it is.
        text:   the number, in C++.
        values: what it is for every member.
    """

    __slots__ = ("text",)

    def __init__(self, group: Group, text: str, values: Sequence[int]) -> None:
        super().__init__(group, values)
        self.text = text

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


class Numbers(OfMembers):
    """A number of the robot that differs from member to member."""

    __slots__ = ()

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


def common(values: Sequence[Any], group: Group) -> Any:
    """Return what the members of a loop have, as one.

    Numbers become ``Numbers`` where they differ, records ``Members``; of all else they must have
    the same.
    """
    first = values[0]
    if isinstance(first, float):
        same = all(value == first for value in values)
        return first if same else Numbers(group, values)
    if isinstance(first, (tuple, list)):
        each = OfMembers(group, values)
        count = group.answer([len(value) for value in values])
        return tuple(common([entries[k] for entries in each.values], group) for k in range(count))
    if is_dataclass(first):
        return Members(group, values)
    return group.answer(values)


def index_of(values: Sequence[int], group: Group, word: str) -> int | Index:
    """Return an index of which the value for every member of a loop is known."""
    if all(value == values[0] for value in values):
        return values[0]
    shift = values[0] - group.members[0]
    if all(value - member == shift for value, member in zip(values, group.members, strict=True)):
        text = f"{group.text} {'-' if shift < 0 else '+'} {abs(shift)}" if shift else group.text
        return Index(group, text, tuple(values))
    return Index(group, group.column(values, word).place(group.text, 0), tuple(values))


#: Attributes of records that are indices, with what their arrays are called.
_INDICES = {
    "parent": "parents",
    "q_index": "q_indices",
    "v_index": "v_indices",
    "body": "bodies",
}


class Members(OfMembers):
    """The records that an index stands for, as one record."""

    def __getattr__(self, name: str) -> Any:
        records = self.values
        values = [getattr(record, name) for record in records]
        if name == "is_axis_aligned":
            # Bodies are not told apart by how they lie, or a robot would have as many kinds of them
            # as bodies. What is special about one rotation pays where all have it.
            return values[0] and all(record.rotation == records[0].rotation for record in records)
        if name in _INDICES:
            return index_of(values, self.group, _INDICES[name])
        return common(values, self.group)


class Items:
    """What a robot has several of; may be asked for by an ``Index``."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int | Index) -> Any:
        if isinstance(index, int):
            return self._items[index]
        return common([self._items[value] for value in index.values], index.group)


@dataclass(frozen=True)
class Pair:
    """The place of a pair in a table of pairs, which are all alike."""

    text: str
    values = (0,)


def text_of(index: int | Index | Pair | str) -> str:
    """Return an index as text."""
    return index.text if isinstance(index, (Index, Pair)) else str(index)
