"""Sums of products become chains of fused multiply-adds, and lose nothing on the way."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from gridgen.symbolic.expr import Expr, Graph, reachable
from gridgen.symbolic.fuse import fuse, rewritten
from gridgen.symbolic.printer import fused_expression


@pytest.fixture
def abcd() -> list[Expr]:
    graph = Graph()
    return [graph.input(name, 0) for name in "abcd"]


def texts(roots: Sequence[Expr]) -> tuple[list[str], int]:
    """Return what each root is printed as, and the instructions of all."""
    fused = fuse(roots)
    variables = {node.index: f"t{k}" for k, node in enumerate(fused.stated)}
    return [fused_expression(root, fused, variables, define=True) for root in roots], (
        fused.instructions
    )


def test_a_sum_begins_with_what_is_no_product(abcd: list[Expr]) -> None:
    a, b, c, d = abcd
    assert texts([a * b + c * d]) == (["fma(c, d, a * b)"], 2)
    assert texts([a * b + c]) == (["fma(a, b, c)"], 1)
    assert texts([a * b + (c - d)]) == (["fma(a, b, c - d)"], 2)
    assert texts([a + b + c]) == (["c + a + b"], 2)


def test_signs_are_free(abcd: list[Expr]) -> None:
    a, b, c, d = abcd
    assert texts([c - a * b]) == (["fma(-a, b, c)"], 1)
    assert texts([d * b - c]) == (["fma(b, d, -c)"], 1)
    assert texts([-(a * b) - c * d]) == (["-fma(c, d, a * b)"], 2)
    assert texts([-a * (b + c)]) == (["-product(a, b + c)"], 2)


def test_a_product_that_only_sums_read_is_part_of_each(abcd: list[Expr]) -> None:
    a, b, c, d = abcd
    assert texts([a * b + c, a * b - d]) == (["fma(a, b, c)", "fma(a, b, -d)"], 2)


def test_a_product_with_which_two_sums_begin_is_computed_once(abcd: list[Expr]) -> None:
    a, b, c, d = abcd
    first, second = a * b + c * d, a * b + c * c
    assert texts([first, second])[1] == 3


def test_a_product_that_is_a_result_is_computed_by_itself(abcd: list[Expr]) -> None:
    a, b, c, _ = abcd
    assert texts([a * b, a * b + c]) == (["product(a, b)", "c + t0"], 2)


def test_factors_of_a_product_in_two_sums_are_computed_once(abcd: list[Expr]) -> None:
    a, b, c, d = abcd
    product = (a + b) * c
    found = texts([product + a, product + d])
    assert found == (["fma(c, t0, a)", "fma(c, t0, d)"], 3)


def test_terms_that_cancel_leave_a_number(abcd: list[Expr]) -> None:
    a, b, _, _ = abcd
    mass = a - (a - 3.5)
    computed = rewritten(fuse([mass * b - mass * 0.25])).values()
    assert not [node for node in computed if node.op == "fma"]
    assert {node.value for node in reachable([*computed]) if node.op == "const"} >= {3.5, -0.875}


def test_multiples_of_a_node_in_a_sum_are_one_product(abcd: list[Expr]) -> None:
    a, b, c, _ = abcd
    assert texts([(a * 0.25 + b) + a * 0.25]) == (["fma(T(0.5), a, b)"], 1)
    assert texts([(a * 0.75 - b) + (a - c * b)]) == (["fma(-b, c, fma(T(1.75), a, -b))"], 2)
    assert texts([(a * 0.5 + 1.0) - (a * 0.5 - b) + 2.0]) == (["T(3) + b"], 1)
    # A sum that another result needs stays: the product is still part of each.
    partial = a * 0.25 + b
    assert texts([partial, partial + a * 0.25])[1] == 2
    # A product that only sums read is no node of its own: two of them are two multiply-adds.
    assert texts([(a * b + c) + a * b])[1] == 2
    fused = fuse([(a * 0.25 + b) + a * 0.25])
    assert (fused.operations, fused.instructions) == (2, 1)


def test_chains_mean_what_the_graph_means(abcd: list[Expr]) -> None:
    a, b, c, d = abcd
    shared = a * b - c
    roots = [shared * d - (a - b * c), -(shared + d * d), (shared / d) - 0.5 * a * b]
    values = {"a": 3.0, "b": -5.0, "c": 7.0, "d": 2.0}
    calls = {"fma": lambda x, y, z: x * y + z, "product": lambda x, y: x * y, "T": float}
    fused = fuse(roots)
    names: dict[str, object] = {**values, **calls}
    variables: dict[int, str] = {}
    for node in fused.stated:
        names[f"t{node.index}"] = eval(fused_expression(node, fused, variables, define=True), names)
        variables[node.index] = f"t{node.index}"
    found = [eval(fused_expression(root, fused, variables), names) for root in roots]
    expected = [-22.0 * 2 - (3 + 35), -(-22.0 + 4), -11.0 + 7.5]
    assert all(math.isclose(x, y) for x, y in zip(found, expected, strict=True))
