"""Stand-ins for several bodies in a loop: indices, numbers, records, and their order in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any

from gridgen.symbolic.branches import Branches
from gridgen.symbolic.memory import Constants, Walk, When
from gridgen.symbolic.trace import Loops

Key = tuple[Any, ...]


@dataclass
class Notes:
    """Results of the attempts to trace an algorithm."""

    #: for each loop, answers that differ between members, by member.
    splits: dict[Key, list[dict[int, Any]]] = field(default_factory=dict)
    #: entries of tables, by table and number, that need memory.
    dense: set[tuple[Key, int]] = field(default_factory=set)
    #: numbers of the other entries, by member, in the last attempt.
    known: dict[tuple[Key, int], dict[int, float]] = field(default_factory=dict)
    #: tables that are results, with the name of their array.
    results: dict[Key, str] = field(default_factory=dict)
    changed: bool = False  #: whether an attempt has new results, so that another must follow.
    attempts: int = 0  #: number of attempts.
    ended: int = 0  #: number of attempts that ran to their end.


class UnsettledError(Exception):
    """A trace cannot continue before the next attempt separates its bodies."""


@dataclass(eq=False)
class Group:
    """Members of a loop that share one trace."""

    loop: Key  #: key of the loop.
    text: str  #: variable of the loop.
    members: tuple[int, ...]  #: values of the variable; fewer after an answer has separated some.
    domain: int  #: upper bound of the variable's values.
    notes: Notes  #: results of the attempts.
    loops: Loops  #: loops of the program, with its constant arrays.

    def answer(self, values: Sequence[Any]) -> Any:
        """Return the value that the members have in common, or the value of the first.

        The next attempt separates members with other values; this one drops them.
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
        """The index of the loop."""
        return Index(self, self.text, self.members)

    def column(self, values: Sequence[Any], word: str) -> Constants:
        """Return a constant array with each member's value at the member's index."""
        entries = [type(values[0])()] * self.domain
        for member, value in zip(self.members, values, strict=True):
            entries[member] = value
        return self.loops.constants(word, entries)


class PerMember:
    """A value that differs between members of a loop."""

    __slots__ = ("_by_member", "group")

    def __init__(self, group: Group, values: Sequence[Any]) -> None:
        self.group = group
        self._by_member = dict(zip(group.members, values, strict=True))

    @property
    def values(self) -> tuple[Any, ...]:
        """Values of the members that still share one trace."""
        return tuple(self._by_member[member] for member in self.group.members)


class Index(PerMember):
    """An index that depends on the variable of a loop.

    Args:
        group:  group of the variable.
        text:   the number, in C++.
        values: value for each member.
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


class Numbers(PerMember):
    """A number of the robot that differs between members."""

    __slots__ = ()

    def __add__(self, other: float | Numbers) -> Numbers:
        return Numbers(self.group, [a + b for a, b in self._pairs(other)])

    def __sub__(self, other: float | Numbers) -> Numbers:
        return Numbers(self.group, [a - b for a, b in self._pairs(other)])

    def __mul__(self, other: float | Numbers) -> Numbers:
        return Numbers(self.group, [a * b for a, b in self._pairs(other)])

    def __truediv__(self, other: float | Numbers) -> Numbers:
        return Numbers(self.group, [a / b for a, b in self._pairs(other)])

    def __rtruediv__(self, other: float) -> Numbers:
        return Numbers(self.group, [other / a for a in self.values])

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
    """Return one value for all members of a loop.

    Different numbers become ``Numbers``, records become ``Members``; other values must be equal.
    """
    first = values[0]
    if isinstance(first, float):
        same = all(value == first for value in values)
        return first if same else Numbers(group, values)
    if isinstance(first, (tuple, list)):
        each = PerMember(group, values)
        count = group.answer([len(value) for value in values])
        return tuple(common([entries[k] for entries in each.values], group) for k in range(count))
    if is_dataclass(first):
        return Members(group, values)
    return group.answer(values)


def index_of(values: Sequence[int], group: Group, word: str) -> int | Index:
    """Return an index with a known value for every member of a loop."""
    if all(value == values[0] for value in values):
        return values[0]
    shift = values[0] - group.members[0]
    if all(value - member == shift for value, member in zip(values, group.members, strict=True)):
        text = f"{group.text} {'-' if shift < 0 else '+'} {abs(shift)}" if shift else group.text
        return Index(group, text, tuple(values))
    return Index(group, group.column(values, word).place(group.text, 0), tuple(values))


#: Attributes of records that are indices, with the names of their arrays.
_INDICES = {
    "parent": "parents",
    "q_index": "q_indices",
    "v_index": "v_indices",
    "body": "bodies",
    "other_body": "bodies",
    "number": "numbers",
    "place": "places",
    "begin": "begins",
    "end": "ends",
}


class Members(PerMember):
    """The records of several members as one record."""

    def __getattr__(self, name: str) -> Any:
        records = self.values
        values = [getattr(record, name) for record in records]
        if name == "is_axis_aligned":
            # Orientation does not separate bodies, or every body would be of its own kind. A
            # special rotation pays only if all members have it.
            return values[0] and all(record.rotation == records[0].rotation for record in records)
        if name in _INDICES:
            return index_of(values, self.group, _INDICES[name])
        return common(values, self.group)


class Items:
    """A sequence of a robot's items that accepts an ``Index``."""

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
    """Index of a pair in a table of pairs; all pairs have the same form."""

    text: str
    values = (0,)


def text_of(index: int | Index | Pair | str) -> str:
    """Return the C++ text of an index."""
    return index.text if isinstance(index, (Index, Pair)) else str(index)


def along(variable: str, run: range) -> Walk:
    """Return the loop over a range with step one, up or down."""
    heads = []
    for direction in (run, run[::-1]):
        going, step = f"{variable} < {direction[-1] + 1}", f"++{variable}"
        if direction.step < 0:
            going, step = f"{variable} >= {direction[-1]}", f"--{variable}"
        heads.append(Walk(variable, str(direction[0]), going, step, 1 + max(run[0], run[-1])))
    return _and_back(heads[0], heads[1])


def _and_back(walk: Walk, back: Walk) -> Walk:
    """Return a loop with its reverse."""
    return replace(walk, back=(replace(back, back=(walk,)),))


def between(variable: str, first: str, end: str, step: int, domain: int) -> Walk:
    """Return the loop from the first number to an end, while at least ``step`` remain."""
    last = f"({end}) - 1"
    ahead, forward, backward = variable, f"++{variable}", f"--{variable}"
    if step > 1:
        last = f"{first} + (({end}) - ({first})) / {step} * {step} - {step}"
        ahead = f"{variable} + {step - 1}"
        forward, backward = f"{variable} += {step}", f"{variable} -= {step}"
    back = Walk(variable, last, f"{variable} >= {first}", backward, domain)
    return _and_back(Walk(variable, first, f"{ahead} < {end}", forward, domain), back)


def upward(variable: str, start: str, parents: Constants, ends: Constants) -> Walk:
    """Return the loop from an item to the last below its root.

    The reverse tests all items up to the first: it visits those with the first in their subtree.
    """
    parent, domain = f"{parents.name}[{variable}]", len(parents.values)
    down = Walk(variable, "0", f"{variable} <= {start}", f"++{variable}", domain)
    again = Walk(variable, start, f"{variable} >= 0", f"--{variable}", domain)
    back = (_and_back(down, again), When(start, ends, variable))
    return Walk(variable, start, f"{parent} >= 0", f"{variable} = {parent}", domain, back)


def subtree_ends(branches: Branches) -> list[int]:
    """Return for each item the one after its last descendant; 0 for roots.

    Numbering is depth first: all items in between are descendants.
    """
    ends = [place + 1 for place in range(len(branches.parents))]
    for place, parent in reversed([*enumerate(branches.parents)]):
        if parent >= 0:
            ends[parent] = max(ends[parent], ends[place])
    return [end if parent >= 0 else 0 for end, parent in zip(ends, branches.parents, strict=True)]


def runs_of(members: range, kinds: dict[int, Key]) -> list[range]:
    """Return ranges of consecutive members of one kind."""
    runs: list[range] = []
    begin = 0
    for end in range(1, len(members) + 1):
        if end == len(members) or kinds[members[end]] != kinds[members[begin]]:
            runs.append(members[begin:end])
            begin = end
    return runs
