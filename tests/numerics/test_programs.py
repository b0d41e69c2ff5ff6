"""The program of every function of every robot, run in Python, against the reference.

This is what a module's text means, before any compiler: what is specialised, shared and printed.
That compilers keep to it is shown on fewer robots (test_cpu.py).
"""

from __future__ import annotations

import numpy as np
import pytest

from gridgen.check import compare_function, random_states
from gridgen.dynamics.arrays import array_shape
from gridgen.dynamics.functions import FUNCTIONS, refusal
from gridgen.model.tree import KinematicTree
from gridgen.options import FUNCTION_CHOICES
from gridgen.pipeline import selected_functions
from gridgen.schedules.thread import plan_thread
from numerics.robots import Arrays, load_tree, urdf_path
from program_interpreter import run
from robots_for_tests import LARGE_ROBOTS, MAIN_CASES

STATES = 3
#: Functions whose programs grow fast with the robot. Of large ones the first is looked at in every
#: run: the others are made of the same parts.
DERIVATIVES = [name for name in FUNCTIONS if "gradient" in name or "second_order" in name]


def check(tree: KinematicTree, function: str, x: Arrays) -> None:
    program = plan_thread(tree, function)
    inputs = {
        array.name: list(x[array.name].reshape(STATES, array.size).T) for array in program.inputs
    }
    outputs = run(program, inputs)
    results = []
    for array in program.outputs:
        columns = [np.broadcast_to(element, STATES) for element in outputs[array.name]]
        shape = array_shape(array.name, tree)
        results.append(np.stack(columns, axis=1).reshape(STATES, *shape))
    row = compare_function(tree, function, "float64", x, tuple(results))
    assert row.passed, row


def states(tree: KinematicTree) -> Arrays:
    return random_states(tree, STATES, np.random.default_rng(tree.nv))


@pytest.mark.parametrize(("name", "floating"), MAIN_CASES)
def test_programs_compute_what_the_reference_computes(name: str, floating: bool) -> None:
    tree = load_tree(urdf_path(name), floating)
    x = states(tree)
    for function in selected_functions(tree, FUNCTION_CHOICES, [tree.bodies[-1].name]):
        if function not in DERIVATIVES:
            check(tree, function, x)


def derivatives() -> list[object]:
    return [
        pytest.param(
            *case.values,
            function,
            id=f"{case.id}-{function}",
            marks=pytest.mark.exhaustive
            if case.values[0] in LARGE_ROBOTS and function != DERIVATIVES[0]
            else (),
        )
        for case in MAIN_CASES
        for function in DERIVATIVES
    ]


@pytest.mark.parametrize(("name", "floating", "function"), derivatives())
def test_programs_of_derivatives_do_too(name: str, floating: bool, function: str) -> None:
    tree = load_tree(urdf_path(name), floating)
    if (why := refusal(tree, function)) is not None:
        pytest.skip(f"refused: {why}")
    check(tree, function, states(tree))
