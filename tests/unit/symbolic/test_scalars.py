"""The three kinds of scalars: numbers, counters, graph nodes."""

from __future__ import annotations

import numpy as np
import pytest

from gridgen.symbolic.expr import Expr
from gridgen.symbolic.scalars import (
    CountingScalars,
    FloatScalars,
    FoldingScalars,
    LongProgramError,
)
from gridgen.symbolic.trace import TraceScalars


def polynomial(x: object, y: object) -> object:
    return -(2.0 * x + y * x) / (y - 1.0)


def test_counters_count_every_operation() -> None:
    scalars = CountingScalars()
    x, y = scalars.inputs(2)
    polynomial(x, y)
    assert scalars.operations == 6
    scalars.sincos(x)
    scalars.sign(x)
    assert scalars.operations == 9
    scalars.constant(0.0) * x  # nothing of the robot is known: it may be any number
    assert scalars.operations == 10
    assert not scalars.specialize


def test_zeros_and_ones_cost_nothing() -> None:
    scalars = FoldingScalars(most=100)
    x, y = scalars.inputs(2)
    polynomial(x, y)
    assert scalars.operations == 5  # the sign is free
    zero, one = scalars.constant(0.0), scalars.constant(1.0)
    for free in (zero * x, x * zero, zero / x, x + zero, zero - x, one * x, x * -one):
        assert free is x or free == 0.0
    assert scalars.sincos(0.0) == (0.0, 1.0)
    assert scalars.operations == 5
    x + x, x * x, x - 2.0, 2.0 / x
    scalars.sincos(x)
    assert scalars.operations == 11
    assert scalars.specialize


def test_a_count_stops_at_its_limit() -> None:
    scalars = FoldingScalars(most=4)
    x, y = scalars.inputs(2)
    with pytest.raises(LongProgramError):
        polynomial(x, y)


def test_floats_compute_at_once() -> None:
    scalars = FloatScalars()
    assert polynomial(scalars.constant(3.0), scalars.constant(2.0)) == -12.0
    assert scalars.keep("f", 3, (1.0, 2.0)) == (1.0, 2.0)
    assert scalars.named["f", 3] == (1.0, 2.0)


def test_complex_steps_pass_through_signs() -> None:
    sign = FloatScalars().sign(np.array([-2.0 + 1e-30j, 0.0, 3.0j + 1.0]))
    np.testing.assert_array_equal(sign, [-1.0, 0.0, 1.0])


def test_a_trace_remembers_parts_and_names() -> None:
    trace = TraceScalars()
    a, b = trace.inputs("q", 2)
    trace.begin("outward", 4)
    product = trace.keep("w", 4, (a * b, a, 1.0))
    assert trace.blocks[-1] == ("outward", 4)
    assert product[0].block == len(trace.blocks) - 1
    assert trace.names == {product[0].index: ("w", 4, "x")}  # inputs and numbers need no name


def test_the_first_name_of_a_node_stays() -> None:
    trace = TraceScalars()
    a, b = trace.inputs("q", 2)
    trace.keep("f", 0, a * b)
    trace.keep("n", 1, a * b)
    assert list(trace.names.values()) == [("f", 0, "")]


def test_numbers_become_nodes() -> None:
    trace = TraceScalars()
    sine, cosine = trace.sincos(0.0)
    assert isinstance(sine, Expr)
    assert (sine.value, cosine.value) == (0.0, 1.0)
    assert trace.sign(trace.inputs("qd", 1)[0]).op == "sign"
