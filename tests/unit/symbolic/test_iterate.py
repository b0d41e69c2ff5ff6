"""Iterations: one text in a loop, the same results for every kind of scalar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.helpers.program_interpreter import run

from gridgen.symbolic.dual import Dual, DualScalars
from gridgen.symbolic.program import Array, build_program
from gridgen.symbolic.scalars import CountingScalars, FloatScalars, Scalars
from gridgen.symbolic.trace import TraceScalars

NUMBERS = [np.array([2.0, 3.0, 1e6]), np.array([3.0, 100.0, 4.0])]


def root_of_product(x: Sequence[Any], scalars: Scalars) -> list[Any]:
    """Return the square root of a product by Newton's method, with a loop in each iteration."""
    product = x[0] * x[1]

    def step(values: list[Any]) -> tuple[list[Any], Any]:
        (root,) = values
        (half,) = scalars.iterate("half", 2, [root], lambda w: ([0.5 * w[0]], 1.0))
        new = half + 0.5 * product / root
        return [new], 1e-20 * product - (new - root) * (new - root)

    return [*scalars.iterate("root", 60, [product], step), product + x[1]]


def test_a_loop_has_the_results_of_floats_and_one_text() -> None:
    trace = TraceScalars()
    results = root_of_product(trace.inputs("x", 2), trace)
    outputs = [(Array("y", 2), [trace.graph.lift(node) for node in results])]
    program = build_program(trace, [Array("x", 2)], outputs, [], 0)
    expected = root_of_product(NUMBERS, FloatScalars())
    np.testing.assert_allclose(expected[0], np.sqrt(NUMBERS[0] * NUMBERS[1]), rtol=1e-12)
    assert np.array_equal(run(program, {"x": NUMBERS})["y"], expected)
    assert sum(node.op == "div" for node in program.nodes) == 1
    counting = CountingScalars()
    root_of_product(counting.inputs(2), counting)
    assert counting.operations < 20


def test_a_state_keeps_its_values_after_its_test() -> None:
    together = root_of_product(NUMBERS, FloatScalars())[0]
    alone = [root_of_product([a, b], FloatScalars())[0] for a, b in zip(*NUMBERS, strict=True)]
    assert np.array_equal(together, alone)


def test_dual_numbers_iterate_values_and_a_last_step_has_the_derivatives() -> None:
    x = [Dual(NUMBERS[0], np.ones(3)), Dual(NUMBERS[1], np.zeros(3))]
    root = root_of_product(x, DualScalars(FloatScalars()))[0]
    assert np.array_equal(root.value, root_of_product(NUMBERS, FloatScalars())[0])
    assert root.tangent == 0.0
    last = 0.5 * root + 0.5 * (x[0] * x[1]) / root
    np.testing.assert_allclose(last.tangent, 0.5 * np.sqrt(NUMBERS[1] / NUMBERS[0]), rtol=1e-9)
