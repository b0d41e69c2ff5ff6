"""Queries: computations that are no straight-line code, such as the search of a nearest pair.

A program contains a query as one statement, a call of a static C++ function. Its results are
constant where they have a derivative: an algorithm computes differentiable results from them. If it
has a ``gradient``, it has one result, and another query computes its derivatives by the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridgen.symbolic.memory import Constants


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
