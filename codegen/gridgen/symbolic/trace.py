"""Traces: runs of an algorithm on graph nodes, and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gridgen.symbolic.expr import Expr, Graph
from gridgen.symbolic.memory import (
    Case,
    Choose,
    Constants,
    Header,
    Leave,
    Line,
    Memory,
    MemoryEntry,
    Query,
    Repeat,
    Walk,
    When,
)
from gridgen.symbolic.scalars import Iteration, ListScalars, Scalar, Value, selected

#: A mark in a program: where a loop or a branch begins or ends, or a statement of a team.
Mark: TypeAlias = Walk | Repeat | When | Case | Choose | Header | Line | Leave

_AXES = ("x", "y", "z")
_COMPONENTS: dict[int, tuple[str, ...]] = {
    3: _AXES,
    6: ("xx", "xy", "xz", "yy", "yz", "zz"),
}
_SPATIAL = ("vx", "vy", "vz", "wx", "wy", "wz")
#: Six-vectors that are a motion or a wrench, not a symmetric matrix.
_SPATIAL_SYMBOLS = frozenset({"G"})


@dataclass
class Loops:
    """Memory and loops of a program with loops."""

    effects: list[Expr] = field(default_factory=list)  #: nodes that change memory, in order.
    #: for each block, the loops that begin and end with it.
    marks: dict[int, list[Mark]] = field(default_factory=dict)
    #: for each block, the number of loops around it.
    depths: dict[int, int] = field(default_factory=dict)
    #: workspace memory, neither argument nor result.
    scratch: list[Memory] = field(default_factory=list)
    #: constant arrays, by name, also those of queries.
    tables: dict[str, Constants] = field(default_factory=dict)

    def constants(self, word: str, values: Sequence[float]) -> Constants:
        """Return a constant array; equal arrays share one."""
        table = Constants(word, tuple(values))
        known = self.tables.setdefault(table.name, table)
        assert known.values == table.values, "arrays with equal names differ"
        return known


class TraceScalars(ListScalars):
    """Graph nodes as the scalars of an algorithm.

    Attributes:
        graph:  the nodes.
        blocks: (phase, body) of every block of the program, in order.
        names:  textbook names of nodes, by index: (symbol, body, component). The body is -1 for the
                base and ``None`` for several bodies; a node without a symbol has its own statement.
        loops:  memory and loops of a program with loops.
        held:   nodes that derivatives do not pass.
    """

    specialize = True

    def __init__(self) -> None:
        self.graph = Graph()
        self.blocks: list[tuple[str, int]] = [("start", -1)]
        self.names: dict[int, tuple[str, int | None, str]] = {}
        self.loops = Loops()
        self.held: list[Expr] = []
        self._computed: dict[tuple[Any, ...], Any] = {}
        self._depth = 0
        self._epoch = 0
        self._iterations = 0

    def constant(self, value: float) -> Scalar:
        """Return the node of a number."""
        return self.graph.const(value)

    def sincos(self, angle: Scalar) -> tuple[Scalar, Scalar]:
        """Return the nodes of the sine and the cosine."""
        angle = self.graph.lift(angle)
        return self.graph.sin(angle), self.graph.cos(angle)

    def sign(self, value: Scalar) -> Scalar:
        """Return the node of the sign."""
        return self.graph.sign(self.graph.lift(value))

    def sqrt(self, value: Scalar) -> Scalar:
        """Return the node of the square root."""
        return self.graph.sqrt(self.graph.lift(value))

    def exp(self, value: Scalar) -> Scalar:
        """Return the node of the exponential."""
        return self.graph.exp(self.graph.lift(value))

    def log(self, value: Scalar) -> Scalar:
        """Return the node of the logarithm."""
        return self.graph.log(self.graph.lift(value))

    def atan2(self, y: Scalar, x: Scalar) -> Scalar:
        """Return the node of the angle."""
        return self.graph.atan2(self.graph.lift(y), self.graph.lift(x))

    def select(self, test: Scalar, negative: Scalar, otherwise: Scalar) -> Scalar:
        """Return the node of the choice."""
        return self.graph.select(*map(self.graph.lift, (test, negative, otherwise)))

    def query(
        self, query: Query, operands: Sequence[Scalar], array: Sequence[Scalar]
    ) -> list[Expr]:
        """Return the nodes of the results of a query."""
        for table in query.tables:
            self.loops.tables[table.name] = table
        return self.graph.query(query, tuple(map(self.graph.lift, operands)))

    def inputs(self, array: str, count: int) -> list[Expr]:
        """Return the elements of an input array."""
        return [self.graph.input(array, index) for index in range(count)]

    def begin(self, phase: str, body: int) -> None:
        """Begin a block of the program, which receives the nodes created from now on."""
        self.blocks.append((phase, body))
        self.graph.block = len(self.blocks) - 1
        self.loops.depths[self.graph.block] = self._depth

    def iterate(
        self,
        symbol: str,
        most: int,
        start: Sequence[Scalar],
        step: Iteration,
        test: Scalar = -1.0,
        given: Sequence[Scalar] = (),
        reports: bool = False,
    ) -> list[Scalar]:
        """Trace one iteration, as the body of a loop with variables; see ``Scalars``."""
        if given:
            return self.once(
                symbol,
                given,
                lambda: self.iterate(symbol, most, start, step, test, reports=reports),
            )
        graph = self.graph
        memory = Memory(symbol, 1, is_local=True)
        self.loops.effects.append(graph.act("declare", (), memory))

        def assign(values: Sequence[Scalar]) -> None:
            for leaf, value in enumerate(values):
                memory.slot(leaf)
                place = MemoryEntry(memory, "0", leaf)
                self.loops.effects.append(graph.act("write", (graph.lift(value),), place))

        def current() -> list[Scalar]:
            return [
                graph.act("read", (), MemoryEntry(memory, "0", leaf)) for leaf in range(len(start))
            ]

        assign([*start, test])
        self._iterations += 1
        variable = f"{symbol}_round_{self._iterations}"
        self._mark(Repeat(variable, most, memory, len(start), reports), +1)
        before = current()
        test = graph.act("read", (), MemoryEntry(memory, "0", len(start)))
        after, new_test = step(before)
        assign(selected(self, test, [*after, new_test], [*before, test]))
        self._mark(Leave(), -1)
        return current()

    def hold(self, values: list[Value]) -> list[Value]:
        """Record the nodes as constants of derivatives; see ``Scalars``."""
        self.held += map(self.graph.lift, values)  # type: ignore[arg-type]
        return values

    def once(self, name: str, operands: Iterable[Scalar], compute: Callable[[], Value]) -> Value:
        """Return the nodes of the first computation; see ``Scalars``."""
        key = name, *(self.graph.lift(operand).index for operand in operands)
        if key not in self._computed:
            self._computed[key] = compute()
        found: Value = self._computed[key]
        return found

    def _mark(self, mark: Mark, deeper: int) -> None:
        """Begin or end a loop or a branch."""
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

    def keep(self, symbol: str, body: int | None, value: Value) -> Value:
        """Name the nodes of ``value``; the first name of a node is final."""
        self._name(symbol, body, value, "")
        return value

    def _name(self, symbol: str, body: int | None, value: Any, component: str) -> None:
        if isinstance(value, Expr):
            if value.op not in ("const", "input", "read"):
                self.names.setdefault(value.index, (symbol, body, component))
        elif isinstance(value, Sequence):
            suffixes = _SPATIAL if symbol in _SPATIAL_SYMBOLS else _COMPONENTS[len(value)]
            for suffix, entry in zip(suffixes, value, strict=True):
                self._name(symbol, body, entry, component + suffix)
