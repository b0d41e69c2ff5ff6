"""Traced programs of teams, and the layout of their memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from gridgen.symbolic.expr import reachable
from gridgen.symbolic.fuse import unsigned
from gridgen.symbolic.lanes.areas import WIDE, Area
from gridgen.symbolic.lanes.operations import LaneOperations
from gridgen.symbolic.memory import Element, Header, Leave, Line, MemoryEntry, Query, Record
from gridgen.symbolic.program import Array, Program, build_program
from gridgen.symbolic.scalars import FoldingScalars, Scalar
from gridgen.symbolic.trace import TraceScalars

#: Names that the text around a program has.
NAMES = (
    "lane",
    "is_valid",
    "shared",
    "numbers",
    "indices",
    "up",
    "above",
    "component",
    "level",
    "depth",
    "team",
)


@dataclass
class LaneProgram:
    """A traced program of a team.

    Attributes:
        program: statements by phase.
        numbers: constants of the items, one row each.
        indices: indices of the items, one row each.
        areas:   arrays in shared memory.
        shared:  numbers of shared memory of a team.
        meets:   synchronizations.
        work:    operations of a lane.
    """

    program: Program
    numbers: Sequence[Sequence[float]]
    indices: Sequence[Sequence[int]]
    areas: Sequence[Area]
    shared: int


class LaneScalars(LaneOperations, TraceScalars):
    """Graph nodes as the scalars of a team's program."""

    def __init__(self, parents: Sequence[int], width: int) -> None:
        TraceScalars.__init__(self)
        LaneOperations.__init__(self, parents, width)
        self._known: dict[int, tuple[float, ...]] = {}

    def begin(self, phase: str, body: int) -> None:
        """See ``LaneOperations``."""
        TraceScalars.begin(self, phase, body)

    def constant(self, value: float) -> Scalar:
        """See ``LaneOperations``."""
        return TraceScalars.constant(self, value)

    @contextmanager
    def _at_start(self) -> Iterator[None]:
        """Place new nodes before the first phase, where their latencies overlap."""
        place = self.graph.block, self.graph.scope
        scope = self.graph.scope
        while scope.outer is not None:
            scope = scope.outer
        self.graph.block, self.graph.scope = 0, scope
        yield
        self.graph.block, self.graph.scope = place

    def _first_leaf(self, text: str) -> Scalar:
        with self._at_start():
            return self.graph.act("read", (), MemoryEntry(Element(text), "", 0), text)

    def _constant_leaf(self, text: str, row: Sequence[float]) -> Scalar:
        node = self._first_leaf(text)
        self._known[node.index] = tuple(row[: self.count])
        return node

    def _constants(self, value: Scalar) -> Sequence[float]:
        node = self.graph.lift(value)
        if node.op == "const":
            assert isinstance(node.value, float)
            return [node.value] * self.count
        return self._known[node.index]

    def value(self, text: str) -> Scalar:
        """See ``LaneOperations``."""
        return self.graph.act("read", (), MemoryEntry(Element(text), "", 0))

    def line(self, text: str) -> None:
        """See ``LaneOperations``."""
        self._mark(Line(text), 0)

    @contextmanager
    def where(self, header: str, times: int = 1) -> Iterator[None]:
        """See ``LaneOperations``."""
        self._mark(Header(header), +1)
        yield
        self._mark(Leave(), -1)

    def _write(self, text: str, value: Scalar) -> None:
        entry = MemoryEntry(Element(text), "", 0)
        self.loops.effects.append(self.graph.act("write", (self.graph.lift(value),), entry))

    def _store(self, address: str, values: Sequence[Scalar]) -> None:
        nodes = tuple(map(self.graph.lift, values))
        self.loops.effects.append(self.graph.act("write", nodes, Record(address)))

    def _loaded(self, stem: str, address: str, count: int) -> list[Scalar]:
        names = tuple(f"{stem}_{k}" for k in range(count))
        function, rounds = f"load_record<T, {count}>", -(-count // WIDE)
        query = Query(function, (), (address,), names, rounds, lambda *_: (), record=stem)
        found = self.graph.act("query", (), query)
        return [self.graph.act("part", (found,), float(k), (found.index, k)) for k in range(count)]

    def finish(self, arrays: Sequence[str]) -> LaneProgram:
        """Return the program.

        Args:
            arrays: names of the inputs and outputs.
        """
        for node in reachable(self.loops.effects):
            for operand in node.args:
                _, read = unsigned(operand)
                if read.op in ("add", "sub") and read.block != node.block:
                    # A sum stays in its phase: its terms would need more variables.
                    self.names.setdefault(read.index, ("", None, ""))
        taken = (*arrays, *NAMES, *(area.name for area in self.areas))
        inputs = tuple(Array(name, 0) for name in taken)
        program = build_program(self, inputs, [], ["root"], 0)
        shared = self.allocate()
        return LaneProgram(
            program,
            self._numbers,
            [[int(index) for index in row] for row in self._indices],
            self.areas,
            shared,
        )


# Fraction of the counted operations that remains: most products are fused with sums.
_LEFT = 0.5


class LaneLayout(LaneOperations, FoldingScalars):
    """Counters as the scalars of a team's program: its shared memory and operations, not traced."""

    def __init__(self, parents: Sequence[int], width: int) -> None:
        FoldingScalars.__init__(self, sys.maxsize)
        LaneOperations.__init__(self, parents, width)

    @property
    def work(self) -> int:
        """Operations of a lane."""
        return round(_LEFT * self.operations) + self._extra

    @property
    def meets(self) -> int:
        """Synchronizations."""
        return self._phase + self._fences

    def begin(self, phase: str, body: int) -> None:
        """Do nothing: a count has no parts."""

    def constant(self, value: float) -> Scalar:
        """Return ``value``."""
        return value

    def line(self, text: str) -> None:
        """Do nothing: a count has no statements."""

    @contextmanager
    def where(self, header: str, times: int = 1) -> Iterator[None]:
        """Count the operations of all rounds."""
        before = self.counts[0]
        yield
        self.counts[0] += (times - 1) * (self.counts[0] - before)

    def value(self, text: str) -> Scalar:
        """Return a counter."""
        return self._scalar

    def _first_leaf(self, text: str) -> Scalar:
        return self._scalar

    def _constant_leaf(self, text: str, row: Sequence[float]) -> Scalar:
        return self._scalar

    def _constants(self, value: Scalar) -> Sequence[float]:
        return [1.0] * self.count

    def _write(self, text: str, value: Scalar) -> None:
        self.counts[0] += 1

    def _store(self, address: str, values: Sequence[Scalar]) -> None:
        self.counts[0] += -(-len(values) // WIDE)

    def _loaded(self, stem: str, address: str, count: int) -> list[Scalar]:
        self.counts[0] += -(-count // WIDE)
        return [self._scalar] * count
