"""Operations on one body, as C++ functions that the kernels of teams call.

Each function is traced from ``gridgen.dynamics`` with symbols for all numbers, so that the dynamics
are implemented only there. The text is the same for every robot.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gridgen.rendering import render
from gridgen.schedules.team.operators import OPERATORS, RECORDS, Operator, build, flat
from gridgen.symbolic.expr import Expr, Graph
from gridgen.symbolic.fuse import Fused, fuse, unsigned
from gridgen.symbolic.printer import fused_expression

#: The file that contains them.
BODIES_FILE = "gridgen_bodies.cuh"

# Columns of a line.
_WIDTH = 100


@dataclass(frozen=True)
class OperatorView:
    """One function."""

    comment: str  #: what it computes, one line.
    head: tuple[str, ...]  #: its type, name and parameters, as lines.
    lines: tuple[str, ...]  #: its body.
    instructions: int  #: number of its instructions; a fused multiply-add counts as one.


@dataclass(frozen=True)
class RecordView:
    """One struct."""

    comment: str  #: what it holds, one line.
    name: str  #: of the struct.
    fields: tuple[str, ...]  #: declarations of its members.


@cache
def bodies_text() -> str:
    """Return the text of ``BODIES_FILE``."""
    records = [
        RecordView(
            record.comment,
            name,
            tuple(f"{_type(kind)} {field};" for field, kind in record.fields.items()),
        )
        for name, record in RECORDS.items()
    ]
    operators = [operator_view(operator) for operator in OPERATORS]
    view = {"records": records, "operators": operators}
    return render(f"scan/{BODIES_FILE}.jinja", view)


@cache
def operator_view(operator: Operator) -> OperatorView:
    """Trace an operator, fuse its multiply-adds, and print it."""
    graph = Graph()
    operands = [
        build(kind, name, lambda path: graph.input(path, 0))
        for name, kind in operator.operands.items()
    ]
    result = operator.function(*operands)
    leaves = {path: graph.lift(number) for path, number in flat(operator.result, result)}
    fused = fuse(tuple(leaves.values()))
    names = _names(leaves, fused)
    variables = {node.index: name for node, name in names.items()}
    lines: list[str] = []
    for node, name in sorted(names.items(), key=lambda item: item[0].index):
        text = fused_expression(node, fused, variables, define=True)
        lines += _wrapped(f"const T {name} = {text};")
    values = {
        path: names.get(node) or fused_expression(node, fused, variables)
        for path, node in leaves.items()
    }
    lines += _wrapped(f"return {_braced(operator.result, '', values)};")
    return OperatorView(operator.comment, _head(operator), tuple(lines), fused.instructions)


def _names(leaves: Mapping[str, Expr], fused: Fused) -> dict[Expr, str]:
    """Name the results, and each value with more than one use."""
    names: dict[Expr, str] = {}
    for path, node in leaves.items():
        if path and unsigned(node)[1].op not in ("input", "const"):
            names.setdefault(node, "_".join(path[1:].split(".")))
    others = [node for node in fused.stated if node not in names]
    return names | {node: f"t{number}" for number, node in enumerate(others)}


def _type(kind: str) -> str:
    return kind if kind == "T" else f"{kind}<T>"


def _head(operator: Operator) -> tuple[str, ...]:
    operands = ", ".join(
        f"{_type(kind)} {name}" if kind in ("T", "Vector") else f"const {_type(kind)}& {name}"
        for name, kind in operator.operands.items()
    )
    head = f"GRIDGEN_DEVICE {_type(operator.result)} {operator.name}({operands}) {{"
    return tuple(textwrap.wrap(head, _WIDTH, subsequent_indent="    ", break_long_words=False))


def _braced(kind: str, path: str, values: Mapping[str, str]) -> str:
    """Return the initializer of a record."""
    if kind == "T":
        return values[path]
    fields = RECORDS[kind].fields.items()
    return f"{{{', '.join(_braced(inner, f'{path}.{field}', values) for field, inner in fields)}}}"


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(
        line,
        _WIDTH,
        initial_indent="    ",
        subsequent_indent="        ",
        break_long_words=False,
        break_on_hyphens=False,
    )
