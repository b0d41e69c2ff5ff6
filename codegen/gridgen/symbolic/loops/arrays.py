"""Arrays of scalars with indices: inputs and matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from gridgen.symbolic.expr import Expr
from gridgen.symbolic.loops.members import Index, Key, text_of
from gridgen.symbolic.loops.tables import MemoryScalars, neighbors
from gridgen.symbolic.memory import Input, Memory
from gridgen.symbolic.scalars import Scalar


class Matrix:
    """An array of scalars with several axes."""

    def __init__(
        self, tracer: MemoryScalars, key: Key, memory: Memory, shape: tuple[int, ...]
    ) -> None:
        self._tracer, self.key, self.memory, self.shape = tracer, key, memory, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int | Index) -> Row:
        return Row(self, self.shape[1:], _product(index, math.prod(self.shape[1:])))

    def finish(self) -> None:
        """Do nothing: no entry is known."""


class Row:
    """Remaining axes of a matrix after its first indices."""

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
    return text_of(index * factor) if factor > 1 else text_of(index)


class Vector:
    """An input array that accepts an ``Index``."""

    def __init__(self, tracer: MemoryScalars, name: str, count: int) -> None:
        self._tracer, self._memory, self._count = tracer, Input(name), count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Expr]:
        return iter([self[k] for k in range(self._count)])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return neighbors(self, index)
        return self._tracer.read(self._memory, index, 0)
