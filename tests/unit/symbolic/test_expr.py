"""The folding rules of the graph, one by one and against exact arithmetic."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from gridgen.symbolic.expr import Expr, Graph, reachable


@pytest.fixture
def graph() -> Graph:
    return Graph()


@pytest.fixture
def x(graph: Graph) -> Expr:
    return graph.input("q", 0)


@pytest.fixture
def y(graph: Graph) -> Expr:
    return graph.input("q", 1)


def test_equal_expressions_are_one_node(graph: Graph, x: Expr, y: Expr) -> None:
    assert graph.input("q", 0) is x
    assert x + y is y + x
    assert x * y is y * x
    assert x - y is x - y
    assert x / y is x / y
    assert graph.sin(x) is graph.sin(x)
    assert graph.const(0.1) is graph.const(0.1)
    assert x / y is not y / x


def test_nodes_are_numbered_after_their_operands(x: Expr, y: Expr) -> None:
    total = (x + y) * (x - y) / (x * 3.0)
    for node in reachable([total]):
        assert all(operand.index < node.index for operand in node.args)


def test_zeros_vanish(graph: Graph, x: Expr) -> None:
    assert x + 0.0 is x
    assert 0.0 + x is x
    assert x - 0.0 is x
    assert x * 0.0 is graph.zero
    assert 0.0 * x is graph.zero
    assert 0.0 / x is graph.zero
    assert x - x is graph.zero
    assert graph.const(-0.0) is graph.zero


def test_ones_vanish(graph: Graph, x: Expr) -> None:
    assert x * 1.0 is x
    assert 1.0 * x is x
    assert x / 1.0 is x
    assert (x * -1.0).op == "neg"


def test_constants_are_computed(graph: Graph) -> None:
    a, b = graph.const(6.0), graph.const(1.5)
    results = {a + b: 7.5, a - b: 4.5, a * b: 9.0, a / b: 4.0, -a: -6.0}
    assert all(node.value == value for node, value in results.items())
    assert graph.sin(b).value == math.sin(1.5)
    assert graph.cos(b).value == math.cos(1.5)


def test_signs_leave_products(graph: Graph, x: Expr, y: Expr) -> None:
    opposite = -x
    assert -opposite is x
    assert (-x) * y is -(x * y)
    assert x * (-y) is -(x * y)
    assert (-x) * (-y) is x * y
    assert (-x) / y is -(x / y)
    assert x / (-y) is -(x / y)
    assert x * -2.0 is -(x * 2.0)
    assert graph.sin(-x) is -graph.sin(x)
    assert graph.cos(-x) is graph.cos(x)


def test_sums_absorb_signs(x: Expr, y: Expr) -> None:
    assert x + (-y) is x - y
    assert (-x) + y is y - x
    assert x - (-y) is x + y
    assert (-x) - y is -(x + y)
    assert (x - (-3.0)) is x + 3.0


def test_a_difference_and_its_opposite_share_one_node(x: Expr, y: Expr) -> None:
    difference = x - y
    opposite = y - x
    assert opposite.op == "neg"
    assert opposite.args == (difference,)
    assert -difference is opposite
    assert -opposite is difference


def test_multiples_of_one_node_merge(graph: Graph, x: Expr) -> None:
    assert x + x is x * 2.0
    assert x * 2.0 + x is x * 3.0
    assert x * 2.0 - x * 2.0 is graph.zero
    assert x * 3.0 - x * 2.0 is x
    assert x * 2.0 * 3.0 is x * 6.0
    assert 0.5 * (x * 2.0) is x


def test_numbers_may_stand_on_either_side(graph: Graph, x: Expr) -> None:
    assert 2 + x is x + 2
    assert 2 * x is x * 2
    assert (2 - x).op == "sub"
    assert (2 / x).op == "div"
    assert x / 2 is x * 0.5


def test_only_what_outputs_need_is_reachable(x: Expr, y: Expr) -> None:
    unused = x * y
    nodes = reachable([x + y, x + y])
    assert unused not in nodes
    assert [node.op for node in nodes] == ["input", "input", "add"]


# -- random expressions, exactly ------------------------------------------------------------------

# Powers of two: their quotients and products are exact in floating point.
CONSTANTS = (0.0, 1.0, -1.0, 2.0, -0.5, 4.0)
INPUTS = 4


def exact(node: Expr, values: list[Fraction], known: dict[int, Fraction]) -> Fraction:
    """Return the value of a graph node in rational arithmetic."""
    if node.index not in known:
        if node.op == "const":
            result = Fraction(node.value)
        elif node.op == "input":
            result = values[node.value[1]]
        else:
            args = [exact(arg, values, known) for arg in node.args]
            result = {
                "add": lambda a, b: a + b,
                "sub": lambda a, b: a - b,
                "mul": lambda a, b: a * b,
                "div": lambda a, b: a / b,
                "neg": lambda a: -a,
            }[node.op](*args)
        known[node.index] = result
    return known[node.index]


@pytest.mark.parametrize("seed", range(20))
def test_folding_changes_no_value(seed: int) -> None:
    random_numbers = random.Random(seed)
    graph = Graph()
    values = [Fraction(random_numbers.randint(1, 99), 7) for _ in range(INPUTS)]
    pool = [(graph.input("q", i), values[i]) for i in range(INPUTS)]
    pool += [(graph.const(value), Fraction(value)) for value in CONSTANTS]
    known: dict[int, Fraction] = {}
    for _ in range(400):
        (a, a_value), (b, b_value) = random_numbers.choices(pool, k=2)
        operation = random_numbers.choice("+-*/n")
        if operation == "/" and (b_value == 0 or b.op == "const"):
            continue
        node, value = {
            "+": lambda a, b, u, v: (a + b, u + v),
            "-": lambda a, b, u, v: (a - b, u - v),
            "*": lambda a, b, u, v: (a * b, u * v),
            "/": lambda a, b, u, v: (a / b, u / v),
            "n": lambda a, b, u, v: (-a, -u),
        }[operation](a, b, a_value, b_value)
        if abs(value.numerator) > 10**40 or value.denominator > 10**40:
            continue
        assert exact(node, values, known) == value
        pool.append((node, value))
