"""Prints a program as lines of C++, for a scalar type ``T`` with real numbers ``R``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from gridgen.errors import InternalError
from gridgen.naming import number_literal
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.fuse import Chain, Fused, unsigned
from gridgen.symbolic.memory import (
    Case,
    Choose,
    Constants,
    Header,
    Leave,
    Line,
    MemoryEntry,
    Query,
    Repeat,
    Walk,
    When,
)
from gridgen.symbolic.program import (
    Block,
    Clear,
    Declare,
    Fill,
    Keep,
    Load,
    Publish,
    Queried,
    SineCosine,
    Statement,
    Write,
)

#: Variable for the angles of straight-line statements, which are reduced together.
ANGLES = "angles"

# Columns of a statement, which a function indents by four.
_WIDTH = 95

# Binding strength: an operand has brackets if it binds less than its position requires.
_SUM, _PRODUCT, _UNARY, _ATOM = 1, 2, 3, 4


def angles_of(blocks: Iterable[Block], variables: Mapping[int, str]) -> list[Expr]:
    """Return the angles of straight-line statements that depend on inputs only."""

    def is_known(node: Expr) -> bool:
        return node.op == "input" or (
            node.index not in variables and all(is_known(operand) for operand in node.args)
        )

    statements = (statement for block in blocks for statement in block.statements)
    angles = {s.angle.index: s.angle for s in statements if isinstance(s, SineCosine)}
    return [angle for angle in angles.values() if is_known(angle)]


def angle_lines(angles: Sequence[Expr], are_called: bool) -> list[str]:
    """Return the statement that computes the sines of several angles before all others.

    Args:
        angles:     the angles.
        are_called: whether a GPU calls a function for each.
    """
    numbers = ", ".join(expression(angle, {}) for angle in angles)
    count, called = len(angles), ", true" * are_called
    return [
        f"const gridgen::Angles<T, {count}{called}> {ANGLES}([&] {{",
        *wrap(f"    return gridgen::Numbers<T, {count}>{{{numbers}}};"),
        "});",
    ]


def block_lines(
    block: Block, variables: Mapping[int, str], angles: Sequence[Expr] = ()
) -> list[str]:
    """Return the statements of a block, one line each."""
    lines = []
    for statement in block.statements:
        if isinstance(statement, SineCosine):
            angle = expression(statement.angle, variables)
            results = f"{statement.sine}, {statement.cosine}"
            lines.append(f"T {results};")
            if statement.angle in angles:
                number = angles.index(statement.angle)
                lines.append(f"{ANGLES}.sincos({number}, {angle}, {results});")
            else:
                lines.append(f"gridgen::sincos<T>({angle}, {results});")
        elif isinstance(statement, Queried):
            lines += _queried(statement, variables)
        elif isinstance(statement, Statement):
            text = expression(statement.node, variables, define=True)
            lines += wrap(f"const T {statement.name} = {text};")
        elif isinstance(statement, Fill):
            text = f"gridgen::broadcast<T>({expression(statement.value, variables)})"
            elements = f"{statement.begin}, {statement.end}"
            lines.append(f"gridgen::fill<{elements}>({statement.array}, {text});")
        elif isinstance(statement, (Walk, Repeat, When, Case, Header, Line, Leave, Choose)):
            lines += chain.from_iterable(map(wrap, statement.text.splitlines()))
        elif isinstance(statement, Declare):
            lines += wrap(f"T {', '.join(statement.memory.names)};")
        elif isinstance(statement, Clear):
            memory, leaf = statement.entries.memory, statement.entries.leaf
            text = f"gridgen::broadcast<T>({expression(statement.value, variables)})"
            loop = f"GRIDGEN_BY_TWO for (int i = 0; i < {memory.count}; ++i)"
            lines.append(f"{loop} {memory.place('i', leaf)} = {text};")
        elif isinstance(statement, Write):
            lines += _assigned(statement.place.text, statement.value, variables)
        elif isinstance(statement, Publish):
            listed = ", ".join(expression(value, variables) for value in statement.values)
            count = len(statement.values)
            numbers = f"gridgen::Numbers<T, {count}>{{{listed}}}"
            lines += wrap(f"gridgen::store_record<T>({statement.record.address}, {numbers});")
        elif isinstance(statement, Keep):
            text = statement.name
            if statement.value is not None:
                text = expression(statement.value, variables, define=True)
            lines += wrap(f"{statement.array}[{statement.slot}] = {text};")
        elif isinstance(statement, Load):
            lines.append(f"const T {statement.name} = {statement.array}[{statement.slot}];")
        else:
            place = f"{statement.array}[{statement.index}]"
            lines += _assigned(place, statement.value, variables)
    return lines


def _queried(statement: Queried, variables: Mapping[int, str]) -> list[str]:
    """Return the call of a query."""
    node, query = statement.node, statement.node.value
    assert isinstance(query, Query)
    operands = [expression(operand, variables) for operand in node.args]
    for k, operand in enumerate(node.args):
        if operand.op == "const":
            operands[k] = f"gridgen::broadcast<T>({operands[k]})"
    numbers = [f"gridgen::Numbers<T, {len(operands)}>{{{', '.join(operands)}}}"] * bool(operands)
    tables = (table.name + "<R>" * table.has_reals for table in query.tables)
    if query.record:
        call = f"gridgen::{query.function}({', '.join((*numbers, *tables, *query.arrays))})"
        return wrap(f"const auto {statement.names[0]} = {call};")
    arguments = ", ".join((*numbers, *tables, *query.arrays, *statement.names))
    return [
        *wrap(f"T {', '.join(statement.names)};"),
        *wrap(f"gridgen::{query.function}({arguments});"),
    ]


def _assigned(place: str, value: Expr, variables: Mapping[int, str]) -> list[str]:
    """Return the lines of an assignment."""
    text = expression(value, variables)
    if value.op == "const":
        text = f"gridgen::broadcast<T>({text})"
    return wrap(f"{place} = {text};")


def wrap(line: str) -> list[str]:
    """Break a long statement between words."""
    if len(line) <= _WIDTH:
        return [line]
    lines, rest = [], line
    while len(rest) > _WIDTH and (end := rest.rfind(" ", 5, _WIDTH + 1)) > 0:
        lines.append(rest[:end])
        rest = f"    {rest[end + 1 :]}"
    return [*lines, rest]


def literal(value: float) -> str:
    """Return the shortest text that round-trips to ``value``, as a number of type R."""
    return f"R({number_literal(value)})"


def expression(node: Expr, variables: Mapping[int, str], *, define: bool = False) -> str:
    """Return the text of a node."""
    return _text(node, variables, define)[0]


def _text(node: Expr, variables: Mapping[int, str], define: bool) -> tuple[str, int]:
    if not define and node.index in variables:
        return variables[node.index], _ATOM
    if node.op == "const":
        assert isinstance(node.value, float)
        return literal(node.value), _ATOM
    if node.op == "input":
        assert isinstance(node.value, tuple)
        return f"{node.value[0]}[{node.value[1]}]", _ATOM

    def operand(index: int, strength: int) -> str:
        text, binding = _text(node.args[index], variables, False)
        return text if binding >= strength else f"({text})"

    if node.op == "add":
        return f"{operand(0, _SUM)} + {operand(1, _SUM)}", _SUM
    if node.op == "sub":
        return f"{operand(0, _SUM)} - {operand(1, _PRODUCT)}", _SUM
    if node.op == "mul":
        return f"{operand(0, _PRODUCT)} * {operand(1, _UNARY)}", _PRODUCT
    if node.op == "div":
        if node.args[0].op == "const" and node.args[0].value == 1:
            return f"gridgen::reciprocal<T>({operand(1, _SUM)})", _ATOM
        return f"{operand(0, _PRODUCT)} / {operand(1, _UNARY)}", _PRODUCT
    if node.op == "fma":
        negative, factor = unsigned(node.args[0])
        first = _text(factor, variables, False)[0]
        name = "fnma" if negative else "fma"
        return f"{name}({first}, {operand(1, _SUM)}, {operand(2, _SUM)})", _ATOM
    if node.op == "neg":
        inner = node.args[0]
        if inner.op == "sub" and inner.index not in variables:
            (a, strength), (b, _) = (_text(arg, variables, False) for arg in inner.args)
            return f"{b} - {a}" if strength >= _PRODUCT else f"{b} - ({a})", _SUM
        return f"-{operand(0, _PRODUCT)}", _UNARY
    if node.op == "read":
        assert isinstance(node.value, MemoryEntry)
        text = node.value.text
        is_number = isinstance(node.value.memory, Constants)
        return (f"gridgen::broadcast<T>({text})" if is_number else text), _ATOM
    if node.op in ("sign", "sqrt", "exp", "log", "atan2", "select"):
        operands = ", ".join(operand(index, _SUM) for index in range(len(node.args)))
        return f"gridgen::{node.op}<T>({operands})", _ATOM
    raise InternalError(f"no C++ for the operation {node.op!r}")


def fused_expression(
    node: Expr, fused: Fused, variables: Mapping[int, str], *, define: bool = False
) -> str:
    """Return the text of a node whose products and sums are calls of ``product`` and ``fma``."""
    return _fused_text(node, fused, variables, define)[0]


def _fused_text(
    node: Expr, fused: Fused, variables: Mapping[int, str], define: bool = False
) -> tuple[str, int]:
    negative, node = unsigned(node)
    if negative:
        return f"-{_fused_operand(node, fused, variables)}", _UNARY
    if not define and node.index in variables:
        return variables[node.index], _ATOM
    if node.op == "const":
        assert isinstance(node.value, float)
        return f"T({number_literal(node.value)})", _ATOM
    if node.op == "input":
        assert isinstance(node.value, tuple)
        return node.value[0], _ATOM
    if node.index in fused.sums:
        return _chain(fused.sums[node.index], fused, variables)
    if node.op == "mul":
        a, b = (_fused_text(arg, fused, variables)[0] for arg in node.args)
        return f"product({a}, {b})", _ATOM
    if node.op == "div":
        a, b = (_fused_operand(arg, fused, variables) for arg in node.args)
        return f"{a} / {b}", _PRODUCT
    raise InternalError(f"no fused C++ for the operation {node.op!r}")


def _fused_operand(node: Expr, fused: Fused, variables: Mapping[int, str]) -> str:
    text, binding = _fused_text(node, fused, variables)
    return text if binding >= _UNARY else f"({text})"


def _chain(chain: Chain, fused: Fused, variables: Mapping[int, str]) -> tuple[str, int]:
    """Return a sum: its nodes, around which its products are wrapped from the last to the first."""
    text, binding = "", _ATOM
    for negative, node, _ in chain.nodes:
        operand = _fused_operand(node, fused, variables)
        if text:
            text, binding = f"{text} {'-' if negative else '+'} {operand}", _SUM
        else:
            text = f"-{operand}" if negative else operand
            binding = _UNARY if negative else _ATOM
    for negative, product, _ in reversed(chain.products):
        first = _fused_operand(product.args[0], fused, variables)
        if text:
            second = _fused_text(product.args[1], fused, variables)[0]
            text, binding = f"fma({'-' if negative else ''}{first}, {second}, {text})", _ATOM
        else:
            second = _fused_operand(product.args[1], fused, variables)
            text = f"-({first} * {second})" if negative else f"{first} * {second}"
    return text, binding
