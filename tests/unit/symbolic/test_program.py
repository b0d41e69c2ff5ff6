"""Traced programs: order, names, sharing, and what they compute."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from gridgen.check import random_states
from gridgen.dynamics.reference import evaluate_reference
from gridgen.functions.arrays import OPTIONAL_INPUTS
from gridgen.model.tree import KinematicTree
from gridgen.schedules.thread.plan import is_longer
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.program import Array, Program, SineCosine, Statement, Store, build_program
from gridgen.symbolic.trace import TraceScalars
from helpers.program_interpreter import run
from helpers.programs import plan_thread
from numerics.robots import load_tree, urdf_path

FUNCTIONS = [
    "inverse_dynamics",
    "inverse_dynamics_f_ext_base_motion",
    "bias_forces",
    "forward_dynamics_aba",
    "forward_dynamics_crba",
    "mass_matrix",
]


def tree_of(name: str, floating: bool = False) -> KinematicTree:
    return load_tree(urdf_path(name), floating, joint_dynamics=True)


def program_of(trace: TraceScalars, *outputs: Expr) -> Program:
    array = Array("out", len(outputs))
    return build_program(trace, [Array("q", 9)], [(array, outputs)], ["arm", "hand"], 0)


def statements(program: Program) -> list[Statement | SineCosine | Store]:
    return [statement for block in program.blocks for statement in block.statements]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("name", "floating"), [("cart_pole", False), ("arm6", False), ("quadruped", True)]
)
def test_the_lines_of_a_program_compute_the_reference(
    name: str, floating: bool, function: str
) -> None:
    tree = tree_of(name, floating)
    x = random_states(tree, 1, np.random.default_rng(2))
    program = plan_thread(tree, function)
    flat = {key: value.ravel().tolist() for key, value in x.items()}
    results = run(program, {array.name: flat[array.name] for array in program.inputs})
    references = evaluate_reference(tree, function, x)
    for array, reference in zip(program.outputs, references, strict=True):
        expected = reference.ravel()
        np.testing.assert_allclose(
            results[array.name], expected, rtol=0, atol=1e-10 * np.abs(expected).max()
        )


def test_every_element_of_every_output_is_stored_once() -> None:
    program = plan_thread(tree_of("arm6"), "mass_matrix")
    stores = Counter(s.index for s in statements(program) if isinstance(s, Store))
    assert stores == Counter(range(36))


def test_names_are_distinct() -> None:
    program = plan_thread(tree_of("quadruped", True), "forward_dynamics_aba")
    names = list(program.variables.values())
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)


def test_a_shared_term_is_one_statement() -> None:
    trace = TraceScalars()
    a, b, c, *_ = trace.inputs("q", 9)
    shared = a * b
    program = program_of(trace, shared + c, shared * c)
    defined = [s for s in statements(program) if isinstance(s, Statement)]
    assert [repr(s.node) for s in defined].count(repr(shared)) == 1
    assert (program.operations, program.instructions) == (3, 3)


def test_a_product_that_only_sums_read_is_part_of_each() -> None:
    trace = TraceScalars()
    a, b, c, *_ = trace.inputs("q", 9)
    program = program_of(trace, a * b + c, a * b - c)
    assert not any(s.node.op == "mul" for s in statements(program) if isinstance(s, Statement))
    assert (program.operations, program.instructions) == (3, 2)


def test_a_negative_is_no_statement() -> None:
    trace = TraceScalars()
    a, b, c, *_ = trace.inputs("q", 9)
    program = program_of(trace, c - a * b, a * a - a * c, -a, (a + b) * c, -((a + b) * c))
    defined = [s for s in statements(program) if isinstance(s, Statement)]
    assert not any(s.node.op == "neg" for s in defined)
    assert [s.node.op for s in defined].count("mul") == 1  # (a + b) c


def test_the_terms_of_a_sum_may_be_many() -> None:
    trace = TraceScalars()
    q = trace.inputs("q", 9)
    total = q[0]
    for k in range(3000):
        total = total + (k + 0.5) * q[k % 9] * q[(k + 1) % 9]
    program = program_of(trace, total)
    assert program.instructions < program.operations


def test_a_term_of_one_user_is_written_inside_it() -> None:
    trace = TraceScalars()
    a, b, c, *_ = trace.inputs("q", 9)
    program = program_of(trace, a * b + c)
    assert [type(s) for s in statements(program)] == [Store]


def test_a_long_expression_is_broken() -> None:
    trace = TraceScalars()
    *terms, last = trace.inputs("q", 9)
    total = last
    for i in range(40):
        total = total * terms[i % 8] + terms[(3 * i) % 8]
    program = program_of(trace, total)
    assert sum(isinstance(s, Statement) for s in statements(program)) >= 8
    values = [0.5, 1.5, -0.25, 0.75, 1.25, -1.0, 0.3, 0.9, 2.0]
    expected = values[-1]
    for i in range(40):
        expected = expected * values[i % 8] + values[(3 * i) % 8]
    assert run(program, {"q": values})["out"] == [pytest.approx(expected, rel=1e-12)]


def test_sine_and_cosine_of_an_angle_are_computed_together() -> None:
    trace = TraceScalars()
    angle = trace.inputs("q", 9)[0]
    s, c = trace.sincos(angle)
    other, _ = trace.sincos(angle + 1.0)
    program = program_of(trace, s * c, other)
    pairs = [statement for statement in statements(program) if isinstance(statement, SineCosine)]
    assert len(pairs) == 2
    assert run(program, {"q": [0.4] * 9})["out"] == [
        pytest.approx(np.sin(0.4) * np.cos(0.4)),
        pytest.approx(np.sin(1.4)),
    ]


def test_constant_and_plain_outputs_are_stored() -> None:
    trace = TraceScalars()
    a, *_ = trace.inputs("q", 9)
    program = program_of(trace, trace.constant(2.5), a, trace.graph.zero)
    assert run(program, {"q": [7.0] * 9})["out"] == [2.5, 7.0, 0.0]
    assert program.operations == 0


def test_unused_terms_are_left_out() -> None:
    trace = TraceScalars()
    a, b, *_ = trace.inputs("q", 9)
    _ = trace.keep("f", 0, a * b * 17.0)
    assert program_of(trace, a + b).operations == 1


def test_kept_quantities_bear_the_textbooks_names() -> None:
    trace = TraceScalars()
    a, b, c, *_ = trace.inputs("q", 9)
    trace.begin("outward", 1)
    force = trace.keep("f", 1, (a + b, a * c, b * c))
    force = trace.keep("f", 1, (force[0] + c, force[1] + b, force[2]))
    program = program_of(trace, *force)
    assert set(program.variables.values()) >= {"f_hand_x", "f_hand_y", "f_hand_x_2", "f_hand_z"}


def test_specialization_removes_most_of_the_dense_operations() -> None:
    for name, share in (("arm6", 0.6), ("quadruped", 0.6), ("cart_pole", 0.9)):
        program = plan_thread(tree_of(name), "inverse_dynamics")
        assert program.operations < (1 - share) * program.dense_operations, name


def test_what_does_not_depend_on_the_state_costs_nothing() -> None:
    assert plan_thread(tree_of("pendulum"), "mass_matrix").operations == 0


def test_loads_that_are_not_given_cost_nothing() -> None:
    tree = tree_of("arm6")
    plain, loaded = (
        plan_thread(tree, f"inverse_dynamics{suffix}") for suffix in ("", "_f_ext_base_motion")
    )
    assert plain.operations < loaded.operations
    assert {array.name for array in loaded.inputs} - {array.name for array in plain.inputs} == set(
        array for name in ("f_ext", "base_motion") for array in OPTIONAL_INPUTS[name].arrays
    )


@pytest.mark.parametrize(("name", "floating"), [("arm7", False), ("humanoid", True)])
@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics_crba", "mass_matrix"])
def test_the_length_of_a_program_is_known_beforehand(
    name: str, floating: bool, function: str
) -> None:
    tree = tree_of(name, floating)
    operations = plan_thread(tree, function).operations
    assert is_longer(tree, function, operations - 1)  # the count is never too low ...
    assert not is_longer(tree, function, 2 * operations)  # ... nor much too high
