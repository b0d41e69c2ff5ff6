"""Reverse differentiation against complex steps: single operations, whole algorithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gridgen.check import random_states
from gridgen.dynamics.computation import array_size
from gridgen.dynamics.functions import computation_of
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import InternalError
from gridgen.symbolic.adjoint import adjoints
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.program import Array, Program, build_program
from gridgen.symbolic.scalars import FloatScalars
from gridgen.symbolic.trace import TraceScalars
from helpers.program_interpreter import run
from numerics.robots import load_tree, urdf_path

STEP = 1e-30

Algorithm = Callable[[Sequence[Any], Any], Sequence[Any]]


def derivatives(algorithm: Algorithm, count: int, results: int) -> Program:
    """Return the program of the adjoints of ``algorithm``, named ``change``."""
    trace = TraceScalars()
    x, weights = trace.inputs("x", count), trace.inputs("weights", results)
    found = [trace.graph.lift(result) for result in algorithm(x, trace)]
    changes = adjoints(trace, found, weights, x)
    arrays = [Array("x", count), Array("weights", results)]
    return build_program(trace, arrays, [(Array("change", count), changes)], ["body"], 0)


def assert_adjoint(algorithm: Algorithm, x: np.ndarray, results: int) -> None:
    weights = np.random.default_rng(5).normal(size=results)
    program = derivatives(algorithm, len(x), results)
    found = run(program, {"x": list(x), "weights": list(weights)})["change"]
    for k in range(len(x)):
        stepped = x + 1j * STEP * np.eye(len(x))[k]
        slopes = [np.imag(result) / STEP for result in algorithm(list(stepped), FloatScalars())]
        expected = np.dot(weights, slopes)
        assert found[k] == pytest.approx(expected, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize(
    "algorithm",
    [
        lambda x, scalars: [x[0] + x[1], x[0] - x[1]],
        lambda x, scalars: [x[0] * x[1] * x[0], 3.0 * x[1]],
        lambda x, scalars: [x[0] / x[1], 2.0 / (x[0] * x[0] + x[1])],
        lambda x, scalars: [scalars.sincos(x[0])[0] * x[1], scalars.sincos(x[0] * x[1])[1]],
        lambda x, scalars: [-x[0], -(x[0] * x[1])],
        lambda x, scalars: [x[0], scalars.constant(4.0)],
        lambda x, scalars: [scalars.sign(x[0]) * x[0], scalars.sign(x[1])],
        lambda x, scalars: [scalars.sqrt(x[0]) * x[1], scalars.sqrt(2.0 + x[1])],
        lambda x, scalars: [
            scalars.select(x[1], x[0] * x[0], x[1]),
            scalars.select(x[0], x[1], x[0]),
        ],
        lambda x, scalars: [scalars.atan2(x[0], x[1]), scalars.atan2(x[1], 2.0 * x[0])],
        lambda x, scalars: [scalars.exp(x[0] * x[1]), scalars.log(x[0]) * scalars.exp(x[1])],
    ],
    ids="sums products quotients angles negatives leaves signs roots choices arcs powers".split(),
)
def test_every_operation(algorithm: Algorithm) -> None:
    assert_adjoint(algorithm, np.array([0.7, -1.3]), 2)


def test_an_operation_that_has_none_is_named() -> None:
    trace = TraceScalars()
    (x,) = trace.inputs("x", 1)
    action = trace.graph.act("read", (x,), None)
    with pytest.raises(InternalError, match="read"):
        adjoints(trace, [action], [trace.graph.one], [x])


def test_what_an_input_is_computed_from_is_not_looked_at() -> None:
    trace = TraceScalars()
    x, y = trace.inputs("x", 2)
    product = x * y
    changes = adjoints(trace, [product * x], [trace.graph.one], [product, x])
    assert changes == [x, product]


def test_inputs_without_influence_have_none() -> None:
    trace = TraceScalars()
    x, y = trace.inputs("x", 2)
    assert adjoints(trace, [x], [trace.graph.one], [x, y]) == [trace.graph.one, trace.graph.zero]


@pytest.mark.parametrize(
    ("robot", "floating", "function"),
    [
        ("gripper", False, "inverse_dynamics"),
        ("arm6", True, "forward_dynamics_aba"),
        ("quadruped", True, "forward_dynamics_crba"),
        ("cart_pole", False, "mass_matrix_inverse"),
    ],
)
def test_whole_algorithms(robot: str, floating: bool, function: str) -> None:
    """Every input of a function, gravity included, in one direction each."""
    tree = load_tree(urdf_path(robot), floating)
    spec = computation_of(tree, function)
    trace = TraceScalars()
    nodes = {name: trace.inputs(name, array_size(name, tree)) for name in spec.inputs}
    results = [
        node for part in spec.algorithm(tree, nodes, trace) for node in map(trace.graph.lift, part)
    ]
    weights = trace.inputs("weights", len(results))
    every: list[Expr] = [node for name in spec.inputs for node in nodes[name]]
    changes = adjoints(trace, results, weights, every)
    arrays = [
        *(Array(name, len(nodes[name])) for name in spec.inputs),
        Array("weights", len(weights)),
    ]
    idents = [f"b{place}" for place in range(len(tree.bodies))]
    program = build_program(trace, arrays, [(Array("change", len(every)), changes)], idents, 0)

    rng = np.random.default_rng(len(robot))
    states = random_states(tree, 3, rng)
    x = {name: states[name] for name in spec.inputs}
    w = rng.normal(size=(3, len(weights)))
    found = np.stack(
        np.broadcast_arrays(
            *run(
                program,
                {**{n: list(v.reshape(3, -1).T) for n, v in x.items()}, "weights": list(w.T)},
            )["change"]
        )
    )
    start = 0
    for name, values in x.items():
        size = values[0].size
        step = rng.normal(size=values.shape)
        moved = {**x, name: values + 1j * STEP * step}
        slopes = [
            np.imag(result).reshape(3, -1) / STEP
            for result in evaluate_reference(tree, function, moved)
        ]
        expected = np.einsum("bi,bi->b", np.concatenate(slopes, axis=1), w)
        got = np.einsum("ib,bi->b", found[start : start + size], step.reshape(3, -1))
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
        start += size
