"""Memory, loop headers and queries of programs.

A query is a computation that is no straight-line code, such as the search of a nearest pair. A
program contains it as one statement, a call of a static C++ function. Its results are constant
where they have a derivative: an algorithm computes differentiable results from them. If it has a
``gradient``, it has one result, and another query computes its derivatives by the operands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


class Memory:
    """Records of numbers.

    Attributes:
        name:      name of the memory.
        count:     number of records.
        is_local:  whether it is one record, in local variables.
        is_result: whether it is an output array.
        version:   number of writes so far.
    """

    def __init__(
        self, name: str, count: int, *, is_local: bool = False, is_result: bool = False
    ) -> None:
        self.name, self.count = name, count
        self.is_local, self.is_result = is_local, is_result
        self.version = 0
        self._slots: dict[int, int] = {}

    def slot(self, leaf: int) -> int:
        """Return the position of an entry in a record."""
        return self._slots.setdefault(leaf, len(self._slots))

    def keep_only(self, leaves: set[int]) -> None:
        """Remove all other entries."""
        retained = [leaf for leaf in self._slots if leaf in leaves]
        self._slots = {leaf: slot for slot, leaf in enumerate(retained)}

    @property
    def width(self) -> int:
        """Numbers per record."""
        return len(self._slots)

    @property
    def size(self) -> int:
        """Numbers of all records."""
        return self.count * self.width

    @property
    def endings(self) -> list[str]:
        """Suffixes of the name: numbers for local variables, otherwise an empty one."""
        return [f"_{slot}" for slot in range(self.width)] if self.is_local else [""]

    @property
    def names(self) -> list[str]:
        """Names of the local variables."""
        return [self.name + ending for ending in self.endings]

    def place(self, index: str, leaf: int) -> str:
        """Return the C++ text of a number."""
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
        name:   name, derived from the content.
        values: the content.
    """

    version = 0

    def __init__(self, word: str, values: tuple[float, ...] | tuple[int, ...]) -> None:
        digest = hashlib.sha256(repr(values).encode()).hexdigest()[:12]
        self.name, self.values = f"{word}_{digest}", values

    @property
    def has_reals(self) -> bool:
        """Whether it contains numbers of type R; otherwise indices."""
        return isinstance(self.values[0], float)

    def place(self, index: str, leaf: int) -> str:
        """Return the C++ text of a number."""
        return f"{self.name}<R>[{index}]" if self.has_reals else f"{self.name}[{index}]"


class Input:
    """An input array."""

    version = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def place(self, index: str, leaf: int) -> str:
        """Return the C++ text of a number."""
        return f"{self.name}[{index}]"


class Element(Input):
    """A number that C++ text describes."""

    def place(self, index: str, leaf: int) -> str:
        """Return the C++ text of the number."""
        return self.name


@dataclass(frozen=True)
class MemoryEntry:
    """A number in memory: the entry ``leaf`` of the record ``index``."""

    memory: Memory | Constants | Input
    index: str
    leaf: int

    @property
    def text(self) -> str:
        """C++ text of the number."""
        return self.memory.place(self.index, self.leaf)


@dataclass(frozen=True)
class Entries:
    """An entry of all records."""

    memory: Memory
    leaf: int


@dataclass(frozen=True)
class Walk:
    """The header of a loop."""

    variable: str  #: loop variable.
    first: str  #: first value of the variable.
    going: str  #: condition of the loop.
    step: str  #: update of the variable.
    domain: int = 0  #: upper bound of the variable's values.
    back: tuple[Walk | When, ...] = ()  #: headers of the reverse loop.

    @property
    def text(self) -> str:
        """C++ text of the header."""
        head = f"int {self.variable} = {self.first}; {self.going}; {self.step}"
        return f"GRIDGEN_ROLLED for ({head}) {{"


@dataclass(frozen=True)
class Choose:
    """The items that have a negative number in some lane of a pack.

    Attributes:
        name:   of the list of their indices.
        memory: the numbers, one for each item.
    """

    name: str
    memory: Memory

    @property
    def text(self) -> str:
        """C++ text that makes the list."""
        count = self.memory.count
        arguments = f"{count}, {self.memory.name}, {self.name}"
        return (
            f"int {self.name}[{count}];\n"
            f"const int {self.name}_count = gridgen::choose<T>({arguments});"
        )


@dataclass(frozen=True)
class ChosenWalk(Walk):
    """The header of a loop over chosen items."""

    chosen: str = ""  #: name of the list.

    @property
    def text(self) -> str:
        """C++ text of the header."""
        at = f"{self.variable}_at"
        head = f"int {at} = 0; {at} < {self.chosen}_count; ++{at}"
        own = f"const int {self.variable} = {self.chosen}[{at}];"
        return f"GRIDGEN_ROLLED for ({head}) {{\n{own}"


@dataclass(frozen=True)
class Repeat:
    """The header of a loop that ends when all lanes of a pack have converged.

    Attributes:
        variable: counter of the iterations.
        most:     most iterations.
        memory:   variables of the loop.
        leaf:     the one that is negative while the loop must continue.
        reports:  whether to report a loop that ends before all lanes have converged.
    """

    variable: str
    most: int
    memory: Memory
    leaf: int
    reports: bool = False

    @property
    def text(self) -> str:
        """C++ text of the header."""
        going = f"gridgen::any_negative<T>({self.memory.place('0', self.leaf)})"
        more = f"{self.variable} < {self.most}"
        if self.reports:
            more = f"({more} || gridgen::has_not_converged())"
        head = f"int {self.variable} = 0; {going} && {more}"
        return f"GRIDGEN_ROLLED for ({head}; ++{self.variable}) {{"


@dataclass(frozen=True)
class When:
    """The header of a branch for indices less than an entry of a constant array."""

    index: str  #: the index.
    ends: Constants  #: the array.
    place: str  #: index of the entry.

    @property
    def text(self) -> str:
        """C++ text of the header."""
        return f"if ({self.index} < {self.ends.name}[{self.place}]) {{"


@dataclass(frozen=True)
class Case:
    """The header of a branch for items of one kind."""

    kinds: Constants  #: constant array with the kinds of all items.
    variable: str  #: loop variable.
    number: int  #: number of the kind.
    count: int  #: number of kinds.

    @property
    def text(self) -> str:
        """C++ text of the header."""
        if self.number == self.count - 1:
            return "else {"
        start = "else " if self.number else ""
        return f"{start}if ({self.kinds.name}[{self.variable}] == {self.number}) {{"


@dataclass(frozen=True)
class Header:
    """The header of a loop or a branch in C++: of some lanes of a team, or of unrolled rounds."""

    text: str


@dataclass(frozen=True)
class Line:
    """A statement in C++, such as a synchronization of lanes."""

    text: str


@dataclass(frozen=True)
class Record:
    """Consecutive numbers in memory, which a lane stores at once."""

    address: str  #: C++ text of a pointer to the first.


@dataclass(frozen=True)
class Leave:
    """The end of a loop or a branch."""

    text = "}"


@dataclass(frozen=True)
class Query:
    """A query.

    Attributes:
        function:     the C++ function, with its template arguments. It takes the numbers of
                      operands, tables and arrays, then the results.
        tables:       constant arrays, as words and values.
        arrays:       input arrays that it reads as a whole.
        results:      names of the results.
        instructions: estimate of its instructions.
        reference:    the computation on NumPy arrays of several states: of the operands, and of
                      the elements of the arrays.
        gradient:     the query of the derivatives by the first operands; others are constants.
        record:       name of the results, if the function returns them as one record.
    """

    function: str
    tables: tuple[Constants, ...]
    arrays: tuple[str, ...]
    results: tuple[str, ...]
    instructions: int
    reference: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]] = field(compare=False)
    gradient: Query | None = None
    record: str = ""

    def __hash__(self) -> int:
        return hash((self.function, *(table.name for table in self.tables)))
