"""Constant arrays of generated kernels, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from textwrap import wrap

from gridgen.naming import number_literal
from gridgen.schedules.team.plan import Lists

_COLUMNS = 96  # of a line of numbers, without its indentation


@dataclass(frozen=True)
class TableView:
    """A constant array."""

    comment: str  #: what it holds, one line.
    declaration: str  #: ``__device__ const short kinds[7]``.
    lines: tuple[str, ...]  #: the initializer.


def numbers_text(comment: str, name: str, columns: Sequence[tuple[float, ...]]) -> TableView:
    """Return a table of numbers: one row for each component, so that lanes read neighbors."""
    rows = [[number_literal(value) for value in row] for row in zip(*columns, strict=True)]
    return TableView(
        comment,
        f"template <class T> __device__ const T {name}[{len(rows)}][{len(columns)}]",
        tuple(braced(rows)),
    )


def indices_text(comment: str, name: str, values: Sequence[int], kind: str = "short") -> TableView:
    """Return a table of indices."""
    return TableView(
        comment,
        f"__device__ const {kind} {name}[{len(values)}]",
        tuple(wrapped([str(int(value)) for value in values])),
    )


def rows_text(comment: str, name: str, rows: Sequence[Sequence[int]]) -> TableView:
    """Return a table with several rows of indices."""
    text = [[str(value) for value in row] for row in rows]
    declaration = f"__device__ const short {name}[{len(rows)}][{len(rows[0])}]"
    return TableView(comment, declaration, tuple(braced(text)))


def lists_text(comment: str, name: str, tables: Sequence[Lists]) -> Iterable[TableView]:
    """Return the start offsets of all lists, one row for each table, and their members."""
    lengths = [len(members) for lists in tables for members in lists]
    starts = list(accumulate(lengths, initial=0))
    count = len(tables[0])
    rows = [starts[k * count : (k + 1) * count + 1] for k in range(len(tables))]
    yield rows_text(f"{comment}: start of each body's list", f"{name}_starts", rows)
    members = [member for lists in tables for listed in lists for member in listed]
    yield indices_text(f"{comment}: the lists", f"{name}_members", members or [-1])


def braced(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of words as lines of a nested initializer."""
    lines = []
    for row in rows:
        first, *rest = wrapped(row, _COLUMNS - 3)
        block = ["{" + first, *(" " + line for line in rest)]
        block[-1] += "},"
        lines += block
    return lines


def wrapped(words: Sequence[str], columns: int = _COLUMNS) -> list[str]:
    """Return words, separated by commas, as lines of bounded length."""
    lines: list[str] = []
    line = ""
    for position, word in enumerate(words):
        word += "," if position < len(words) - 1 else ""
        if line and len(line) + 1 + len(word) > columns:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def called(function: str, arguments: Sequence[str]) -> list[str]:
    """Return a call as a statement, in one line or with its arguments in lines below."""
    line = f"{function}({', '.join(arguments)});"
    if len(line) <= _COLUMNS:
        return [line]
    *names, last = arguments
    return [f"{function}(", *(f"    {below}" for below in wrapped([*names, f"{last});"]))]


def braces(values: Iterable[object]) -> str:
    """Return an initializer."""
    return f"{{{', '.join(map(str, values))}}}"


def definition(text: str) -> list[str]:
    """Return the definition of members of a class, as lines of bounded length."""
    return wrap(
        f"static constexpr {text};",
        _COLUMNS,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
