"""Scalars of straight-line code that has loops over records of data, such as shapes of contacts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from gridgen.errors import InternalError
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.loops.members import Index, Items, Notes, along
from gridgen.symbolic.loops.scalars import LoopScalars
from gridgen.symbolic.loops.tables import Table
from gridgen.symbolic.memory import Choose, ChosenWalk, Input, Memory
from gridgen.symbolic.scalars import ListScalars


class RowScalars(LoopScalars):
    """Graph nodes whose tables are lists, except records of ``each``; one attempt suffices."""

    has_loops = False
    has_rows = True

    table = ListScalars.table
    pairs = ListScalars.pairs
    matrix = ListScalars.matrix
    carry = ListScalars.carry

    def __init__(self) -> None:
        super().__init__(Notes())

    def inputs(self, array: str, count: int) -> list[Expr]:
        """Return the elements of an input array, which accepts an ``Index`` too."""
        return _Inputs(self, array, count)

    def each(
        self,
        word: str,
        items: Sequence[Any],
        kind: Callable[[Any], Hashable] = lambda item: (),
        chosen: Any = None,
    ) -> Iterator[Any]:
        """Yield a stand-in for the items of each kind, in a loop; see ``Scalars``."""
        kinds: dict[Hashable, list[Any]] = {}
        for item in items:
            kinds.setdefault(kind(item), []).append(item)
        where = self._where
        for own in kinds.values():
            if len(own) == 1 and not chosen:
                yield own[0]
                continue
            run = range(len(own))
            loop = (*where, word, self._ordinal((*where, word)))
            walk = along(self._variable(word), run)
            if chosen:
                walk = ChosenWalk(**{**vars(walk), "chosen": chosen})
            for index in self._loop(loop, walk, run, dict.fromkeys(run, ()), len(own)):
                yield Items(own)[index]
            if self.notes.changed:
                raise InternalError(f"items of one kind differ in a loop over {word}")
            self._where = where

    def choose(self, symbol: str, tests: Any) -> str:
        """List the chosen items; see ``Scalars``."""
        self.begin(*self.blocks[-1])
        name = self.fresh(symbol)
        self.loops.marks.setdefault(self.graph.block, []).append(Choose(name, tests.memory))
        self.begin(*self.blocks[-1])
        return name

    def span(self, word: str, first: int | Index, end: int | Index) -> Iterator[Any]:
        """Yield an index from ``first`` to ``end``; see ``Scalars``."""
        return self.between(word, first, end)

    def items(self, items: Sequence[Any]) -> Any:
        """Return the items as a sequence that accepts an ``Index``."""
        return Items(items)

    def records(self, symbol: str, count: int, fill: Any = None) -> Any:
        """Return records in memory; see ``Scalars``."""
        table = Table(self, self._key(symbol), Memory(self.fresh(symbol), count), is_dense=True)
        self.tables.append(table)
        self.loops.scratch.append(table.memory)
        return table if fill is None else table.fill(fill)

    def grid(self, symbol: str, *shape: int) -> Any:
        """Return a matrix of zeros in memory; see ``Scalars``."""
        return LoopScalars.matrix(self, symbol, *shape)

    def when(self, test: Expr, change: Callable[[], None]) -> None:
        """Change records in a branch; see ``Scalars``."""

        def once(_: list[Expr]) -> tuple[list[Expr], Expr]:
            change()
            return [], self.graph.one

        self.iterate("touch", 1, (), once, test)


class _Inputs(list[Expr]):
    """The elements of an input array."""

    def __init__(self, tracer: RowScalars, name: str, count: int) -> None:
        super().__init__(tracer.graph.input(name, index) for index in range(count))
        self._tracer, self._memory = tracer, Input(name)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, Index):
            return self._tracer.read(self._memory, index, 0)
        return super().__getitem__(index)
