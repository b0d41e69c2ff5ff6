"""The program of every function, run in Python, against the reference.

This is what a module's text means, before any compiler: what is specialized, shared and printed.
That compilers keep to it is shown on fewer robots (test_cpu.py).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from gridgen.check import compare_function, random_states
from gridgen.dynamics.functions import COMPUTATIONS
from gridgen.functions import GENERATED
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.schedules import KernelSelection, Schedules
from helpers.programs import plan_thread
from helpers.robots import (
    LARGE_ROBOTS,
    MAIN_ROBOTS,
    OWN_ROBOTS,
    TESTED_APART,
    exhaustive,
    refusal,
    refused,
)
from numerics.robots import Arrays, load_tree, run_program, urdf_path

STATES = 3
#: Robots and bases of every run: of random ones, test_random_robots.py has every function too.
CHOSEN = [
    *(("two_link", False), ("gripper", False), ("cart_pole", True)),
]
#: Functions whose programs grow fast with the robot: not on large ones.
SECOND = ("second_order", "hessian", "regressor_gradient")
LONG = [
    name
    for name in COMPUTATIONS
    if any(word in name for word in ("dynamics_gradient", "torque_regressor", *SECOND))
]
#: Steps in time, made of forward dynamics and integrate, and their derivatives.
STEPS = [c.name for c in COMPUTATIONS.values() if c.key.function in ("step", "step_gradient")]
#: Integrators of most runs are those with most stages, with a solution, and the shortest.
FURTHER_STEPS = ("euler", "midpoint", "trapezoidal", "constant_acceleration")
#: Robots of the long functions, in turn, and whether their base is free: skew axes; a slide and
#: mimic joints; a free joint, without loads. The longest are tried on smaller ones.
OF_LONG = {
    False: [("arm6", False), ("gripper", False), ("quadruped", True)],
    True: [("arm6", False), ("gripper", False)],
}
OF_LONGEST = {False: [("gripper", False)], True: [("cart_pole", True)]}
#: Our robots whose functions are tried with their optional inputs in every run.
LOADED = ("cart_pole", "gripper")


def check(tree: KinematicTree, function: str | KernelKey, x: Arrays) -> None:
    results = run_program(tree, plan_thread(tree, function), x)
    row = compare_function(tree, function, "float64", x, results)
    assert row.passed, row


def states(tree: KinematicTree) -> Arrays:
    return random_states(tree, STATES, np.random.default_rng(tree.nv))


def cases() -> list[tuple[str, bool, bool]]:
    """Return robots, bases, and whether each is left out of most runs.

    Every run tries few; all bases and robots are made of the same parts.
    """
    return [
        (name, floating, (name, floating) not in CHOSEN)
        for name in (*OWN_ROBOTS, *MAIN_ROBOTS)
        for floating in (False, True)
    ]


def params(*functions: str) -> list[object]:
    """Return every case with every function, or with none."""
    every = []
    for name, floating, left_out in cases():
        for function in functions or (None,):
            if name in LARGE_ROBOTS and any(word in (function or "") for word in SECOND):
                continue  # a million operations
            further = function is not None and bool(COMPUTATIONS[function].key.inputs)
            of_one = ("step_gradient", *SECOND)
            is_of_one = any(word in (function or "") for word in of_one)
            robots = (OF_LONGEST if is_of_one else OF_LONG)[further]
            longer = function is not None and (
                (name, floating) != robots[functions.index(function) % len(robots)]
                or function.endswith(FURTHER_STEPS)
            )
            marks = pytest.mark.exhaustive if left_out or longer else ()
            values = (name, floating) if function is None else (name, floating, function)
            every.append(pytest.param(*values, marks=marks))
    return every


@pytest.mark.parametrize(("name", "floating"), params())
def test_programs_compute_what_the_reference_computes(name: str, floating: bool) -> None:
    check_all(name, floating, {False, name in LOADED})


@pytest.mark.parametrize("floating", exhaustive(False, True))
@pytest.mark.parametrize("name", [n for n in OWN_ROBOTS if n not in (*LARGE_ROBOTS, *LOADED)])
def test_programs_with_optional_inputs_do_too(name: str, floating: bool) -> None:
    check_all(name, floating, {True})


def check_all(name: str, floating: bool, with_inputs: Collection[bool]) -> None:
    """Check all programs that are not long, with optional inputs, without, or both."""
    tree = load_tree(urdf_path(name), floating)
    x = states(tree)
    kernels, _ = Schedules(tree).select(KernelSelection(GENERATED, [tree.bodies[-1].name]))
    for kernel in kernels:
        if kernel.team is not None or kernel.calls or kernel.name in (*LONG, *STEPS):
            continue
        if bool(kernel.key.inputs) in with_inputs:
            check(tree, kernel.key, x)


@refused(lambda name, floating, function: refusal(load_tree(urdf_path(name), floating), function))
@pytest.mark.parametrize(("name", "floating", "function"), params(*LONG, *STEPS))
def test_long_programs_do_too(name: str, floating: bool, function: str) -> None:
    tree = load_tree(urdf_path(name), floating)
    check(tree, function, states(tree))


@pytest.mark.parametrize(
    ("name", "floating", "few"),
    [
        ("arm7", False, ()),
        ("quadruped", True, ()),
        ("gripper", False, ("aba", "articulated")),
    ],
)
def test_what_is_left_out_of_the_cases(name: str, floating: bool, few: tuple[str, ...]) -> None:
    """Cases that a robot cannot have are not collected: here are all that it can have."""
    tree = load_tree(urdf_path(name), floating, constraints=name)
    left_out = {name for name, one in COMPUTATIONS.items() if one.refusal(tree)}
    words = (*few, *TESTED_APART, "excess_apart", "variational")
    assert not {function for function in left_out if not any(word in function for word in words)}
