"""The printed text means what the graph means."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from gridgen.symbolic.expr import Expr, Graph
from gridgen.symbolic.printer import expression, literal
from helpers.program_interpreter import value_of

VALUES = [Fraction(3, 7), Fraction(-5, 3), Fraction(11, 2), Fraction(2, 9)]


@pytest.fixture
def graph() -> Graph:
    return Graph()


def inputs(graph: Graph) -> tuple[Expr, ...]:
    return tuple(graph.input("q", i) for i in range(4))


def text_of(node: Expr) -> str:
    return expression(node, {})


def test_brackets_stand_only_where_they_must(graph: Graph) -> None:
    a, b, c, d = inputs(graph)
    examples = {
        a + b + c: "q[2] + q[0] + q[1]",
        a - (b + c): "q[0] - (q[1] + q[2])",
        a - (b - c): "q[0] - (q[1] - q[2])",
        (a + b) * c: "q[2] * (q[0] + q[1])",
        a * b * c: "q[2] * (q[0] * q[1])",
        a / b / c: "q[0] / q[1] / q[2]",
        a / (b / c): "q[0] / (q[1] / q[2])",
        a / (b * c): "q[0] / (q[1] * q[2])",
        -(a * b): "-q[0] * q[1]",
        -(a + b): "-(q[0] + q[1])",
        -(c - d): "q[3] - q[2]",
        -(d - (a + b)): "q[0] + q[1] - q[3]",
        -((a + b) - (c + d)): "q[2] + q[3] - (q[0] + q[1])",
        2.5 * a - 1.0: "R(2.5) * q[0] - R(1)",
        graph.sign(a - b): "gridgen::sign<T>(q[0] - q[1])",
    }
    for node, text in examples.items():
        assert text_of(node) == text


def test_named_operands_appear_as_their_names(graph: Graph) -> None:
    a, b, c, _ = inputs(graph)
    total = a + b
    variables = {total.index: "t0"}
    assert expression(total * c, variables) == "q[2] * t0"
    assert expression(total, variables) == "t0"
    assert expression(total, variables, define=True) == "q[0] + q[1]"


def test_a_named_difference_is_negated_by_its_name(graph: Graph) -> None:
    a, b, _, _ = inputs(graph)
    difference = a - b
    assert expression(b - a, {difference.index: "t0"}) == "-t0"


NUMBERS = [0.1, 1 / 3, 1e-300, 5e-324, 1.7976931348623157e308, 123456789.0, 1e22, -2.5, math.pi]
NUMBERS += [0.0, -0.0, 3.0, -40.0, 2.0**24]


@pytest.mark.parametrize("number", NUMBERS)
def test_literals_read_back_as_the_same_number(number: float) -> None:
    text = literal(number)
    assert text.startswith("R(")
    assert float(text[2:-1]) == number
    assert math.copysign(1, float(text[2:-1])) == math.copysign(1, number)
    # Without point or exponent C++ reads an integer, which float must hold, and which has one zero.
    is_integer = not any(mark in text for mark in ".e")
    assert is_integer == (text in ("R(3)", "R(-40)", "R(0)"))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0.0"),
        (40.0, "40"),
        (1e-5, "1e-5"),
        (1e22, "1e22"),
        (2.0**24, "16777216.0"),
    ],
)
def test_literals_are_short(number: float, text: str) -> None:
    assert literal(number) == f"R({text})"


@pytest.mark.parametrize("seed", range(20))
def test_random_expressions_keep_their_value(seed: int) -> None:
    numbers = random.Random(seed)
    graph = Graph()
    pool = [(node, value) for node, value in zip(inputs(graph), VALUES, strict=True)]
    pool += [(graph.const(value), Fraction(value)) for value in (1.0, 2.0, -0.25)]
    checked = 0
    for _ in range(600):
        (a, u), (b, v) = numbers.choices(pool, k=2)
        operation = numbers.choice("+-*/n")
        if operation == "/" and (v == 0 or b.op == "const"):
            continue
        node, value = {
            "+": lambda a, b, u, v: (a + b, u + v),
            "-": lambda a, b, u, v: (a - b, u - v),
            "*": lambda a, b, u, v: (a * b, u * v),
            "/": lambda a, b, u, v: (a / b, u / v),
            "n": lambda a, b, u, v: (-a, -u),
        }[operation](a, b, u, v)
        text = text_of(node)
        if len(text) > 600:
            continue
        assert value_of(text, {"q": VALUES}, Fraction) == value, text
        pool.append((node, value))
        checked += 1
    assert checked > 100
