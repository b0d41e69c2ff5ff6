"""What a program with loops reads and writes by computed places, and its loops."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


class Memory:
    """Records of numbers.

    Attributes:
        name:      its name.
        count:     number of records.
        is_local:  whether it is one record, in variables.
        is_result: whether it is an output array.
        version:   grows with everything that is kept.
    """

    def __init__(
        self, name: str, count: int, *, is_local: bool = False, is_result: bool = False
    ) -> None:
        self.name, self.count = name, count
        self.is_local, self.is_result = is_local, is_result
        self.version = 0
        self._slots: dict[int, int] = {}

    def slot(self, leaf: int) -> int:
        """Return the place of an entry in a record."""
        return self._slots.setdefault(leaf, len(self._slots))

    def keep_only(self, leaves: set[int]) -> None:
        """Take the room of all other entries away."""
        kept = [leaf for leaf in self._slots if leaf in leaves]
        self._slots = {leaf: slot for slot, leaf in enumerate(kept)}

    @property
    def width(self) -> int:
        """Numbers of a record."""
        return len(self._slots)

    @property
    def size(self) -> int:
        """Numbers of all."""
        return self.count * self.width

    @property
    def endings(self) -> list[str]:
        """What follows the name: of variables, their numbers; of an array, nothing."""
        return [f"_{slot}" for slot in range(self.width)] if self.is_local else [""]

    @property
    def names(self) -> list[str]:
        """The variables of one that is local."""
        return [self.name + ending for ending in self.endings]

    def place(self, index: str, leaf: int) -> str:
        """Return the text of one of its numbers."""
        slot = self._slots[leaf]
        if self.is_local:
            return f"{self.name}_{slot}"
        if index.isdigit():
            return f"{self.name}[{self.width * int(index) + slot}]"
        if self.width > 1:
            index = f"{self.width} * " + (f"({index})" if " " in index else index)
        return f"{self.name}[{index} + {slot}]" if slot else f"{self.name}[{index}]"


class Constants:
    """A constant array.

    Attributes:
        name:   its name, made from its content.
        values: all that is in it.
    """

    version = 0

    def __init__(self, word: str, values: tuple[float, ...] | tuple[int, ...]) -> None:
        digest = hashlib.sha256(repr(values).encode()).hexdigest()[:12]
        self.name, self.values = f"{word}_{digest}", values

    @property
    def has_reals(self) -> bool:
        """Whether it holds numbers of the type R; else it holds indices."""
        return isinstance(self.values[0], float)

    def place(self, index: str, leaf: int) -> str:
        """Return the text of one of its numbers."""
        return f"{self.name}<R>[{index}]" if self.has_reals else f"{self.name}[{index}]"


class Input:
    """An input array."""

    version = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def place(self, index: str, leaf: int) -> str:
        """Return the text of one of its numbers."""
        return f"{self.name}[{index}]"


@dataclass(frozen=True)
class MemoryEntry:
    """A number in memory: the entry ``leaf`` of the record ``index``."""

    memory: Memory | Constants | Input
    index: str
    leaf: int

    @property
    def text(self) -> str:
        """What it is called."""
        return self.memory.place(self.index, self.leaf)


@dataclass(frozen=True)
class Entries:
    """An entry of all records."""

    memory: Memory
    leaf: int


@dataclass(frozen=True)
class Walk:
    """The beginning of a loop.

    Attributes:
        variable: its variable.
        first:    the variable's first value.
        going:    the condition under which the loop goes on.
        step:     how the variable changes.
        domain:   its values are less.
        back:     the same from end to beginning.
    """

    variable: str
    first: str
    going: str
    step: str
    domain: int = 0
    back: tuple[Walk | When, ...] = ()

    @property
    def text(self) -> str:
        """The head of the loop."""
        head = f"int {self.variable} = {self.first}; {self.going}; {self.step}"
        return f"GRIDGEN_ROLLED for ({head}) {{"


@dataclass(frozen=True)
class When:
    """The beginning of what is done if an index is less than an entry of a constant array.

    Attributes:
        index: the one.
        ends:  the array.
        place: of the entry.
    """

    index: str
    ends: Constants
    place: str

    @property
    def text(self) -> str:
        """The condition."""
        return f"if ({self.index} < {self.ends.name}[{self.place}]) {{"


@dataclass(frozen=True)
class Case:
    """The beginning of what is done to items of one kind.

    Attributes:
        kinds:    of all items.
        variable: of the loop.
        number:   of the kind.
        count:    of the kinds.
    """

    kinds: Constants
    variable: str
    number: int
    count: int

    @property
    def text(self) -> str:
        """The condition."""
        if self.number == self.count - 1:
            return "else {"
        start = "else " if self.number else ""
        return f"{start}if ({self.kinds.name}[{self.variable}] == {self.number}) {{"


@dataclass(frozen=True)
class Leave:
    """The end of a loop or of what is done to items of one kind."""

    text = "}"
