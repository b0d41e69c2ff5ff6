"""Programs whose loops over bodies stay loops, against the reference and against Pinocchio.

Only robots of hundreds of bodies get them unasked. Here those of all robots have loops: run in
Python, which shows what their text means, and a few compiled.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np
import pytest

from gridgen.backends import BackendName
from gridgen.check import TOLERANCE, compare_function, random_states, relative_errors
from gridgen.dynamics import derivatives, minverse
from gridgen.dynamics.functions import (
    COMPUTATIONS,
    computation_of,
    frame_computations,
    refusal,
)
from gridgen.dynamics.reference import evaluate_reference
from gridgen.model.tree import KinematicTree
from gridgen.modules import TracedModule
from gridgen.options import MAX_PROGRAM
from gridgen.robot import Robot
from gridgen.schedules.thread.plan import MAX_SHARED, is_longer, is_never_in_loops, plan_loops
from helpers.oracle import Oracle
from helpers.robots import (
    MAIN_ROBOTS,
    OWN_ROBOTS,
    exhaustive,
    joint_text,
    link_text,
    robot_text,
    spread,
)
from numerics.robots import load_robot, load_tree, run_program, urdf_path

STATES = 3
#: Whole SIMD packs and a part of one.
BATCH = 37
SECOND_ORDER = [n for n in COMPUTATIONS if "second_order" in n or "hessian" in n]
FIRST_ORDER = [name for name in COMPUTATIONS if name not in SECOND_ORDER]
#: Robots of our own on which everything is tried in every run.
SMALL = ("cart_pole", "pendulum")
#: Robots of every run: links in a row, a slide, branches and a mimic joint, a free joint.
FEW = [("pendulum", False), ("gripper", False), ("quadruped", True)]
#: Of the integrators, what is tried in every run on robots that are not small.
STEPS = ("step_semi_implicit", "step_gradient_semi_implicit")
#: Accelerations of robots with hundreds of bodies lose some digits.
ACCELERATION_TOLERANCE = 1e-9


def check(tree: KinematicTree, functions: Sequence[str]) -> None:
    """Run the programs of functions in Python that the robot supports and that have loops."""
    x = random_states(tree, STATES, np.random.default_rng(tree.nv))
    for function in functions:
        if is_never_in_loops(tree, computation_of(tree, function).key):
            continue
        if refusal(tree, function) is None:
            results = run_program(tree, plan_loops(tree, function), x)
            row = compare_function(tree, function, "float64", x, results)
            assert row.passed, row


def of_last_frame(tree: KinematicTree) -> list[str]:
    """Return the functions of the link that moves with the last body."""
    return list(frame_computations(tree, [tree.bodies[-1].name]))


def is_further(name: str, floating: bool, function: str) -> bool:
    """Tell whether a function is tried on one of our robots only when asked for."""
    if (name, floating) not in FEW:
        return True
    with_loads = function.endswith("_base_motion")
    if name == "gripper":
        of_steps = function.startswith("step_") and (with_loads or not function.startswith(STEPS))
        of_steps |= with_loads
        is_long = any(word in function for word in ("regressor_gradient", "centroidal_dynamics"))
        return function in SECOND_ORDER or of_steps or is_long
    if function in SECOND_ORDER or "regressor_gradient" in function:
        return name != "pendulum" or floating
    is_long = "gradient" in function or "torque_regressor" in function
    if function.startswith("step_"):
        return name != "pendulum"
    on_one_base = name == "quadruped" and floating
    return name not in SMALL and (with_loads or (is_long and not on_one_base))


def cases() -> list[object]:
    """Return robots and bases; with True, what is tried on them only when asked for."""
    robots = [(name, base) for name in (*OWN_ROBOTS, *MAIN_ROBOTS) for base in (False, True)]
    further = [case for case in robots if case != ("pendulum", False)]
    return [
        *(pytest.param(*case, False) for case in FEW),
        *(pytest.param(*case, True, marks=pytest.mark.exhaustive) for case in further),
    ]


@pytest.mark.parametrize(("name", "floating", "further"), cases())
def test_loops_compute_what_the_reference_computes(
    name: str, floating: bool, further: bool
) -> None:
    tree = load_tree(urdf_path(name), floating, joint_dynamics=True)
    functions = [*COMPUTATIONS, *of_last_frame(tree)]
    check(tree, [f for f in functions if is_further(name, floating, f) == further])


# -- a robot of all kinds of joints, with branches and skew axes ------------------------------


def random_robot(bodies: int, seed: int, *, branches: bool = True, mimic: bool = False) -> str:
    """Return a robot of many joints, hinges and some slides, at any angles.

    Args:
        bodies:   number of moving links.
        seed:     of all that is random.
        branches: whether some links carry several.
        mimic:    whether every fifth joint follows the one three before it.
    """
    rng = np.random.default_rng(seed)
    kinds: list[str] = []
    elements = [link_text("base")]

    def three(scale: float) -> str:
        return " ".join(f"{number:.4f}" for number in rng.uniform(-scale, scale, 3))

    for k in range(bodies):
        carrier = k - 1 if not branches or rng.random() < 0.8 else int(rng.integers(-1, k))
        follows = mimic and k % 5 == 4
        extra = f'<mimic joint="j{k - 3}" multiplier="-0.7" offset="0.1"/>' if follows else ""
        kinds.append(kinds[k - 3] if follows else ("revolute", "prismatic")[rng.random() < 0.25])
        mass = f"{rng.uniform(0.2, 1.0):.3f}"
        parent = "base" if carrier < 0 else f"l{carrier}"
        placed = {"xyz": three(0.2), "rpy": three(1.5), "axis": three(1.0)}
        elements.append(link_text(f"l{k}", mass=mass, com=three(0.1), rpy=three(1.0)))
        elements.append(joint_text(f"j{k}", parent, f"l{k}", kinds[k], extra=extra, **placed))
    return robot_text(*elements)


@pytest.mark.parametrize("loaded", [True, *exhaustive(False)])
@pytest.mark.parametrize("mimic", [False, *exhaustive(True)])
def test_a_large_robot_of_everything(mimic: bool, loaded: bool) -> None:
    """Functions that mimic joints forbid are tried without them, all others with them.

    Those that can read loads read them in every run.
    """
    trees = [
        load_tree(random_robot(10, 1, mimic=has_mimic), True, joint_dynamics=True)
        for has_mimic in (False, True)
    ]
    tree = trees[mimic]
    assert (tree.has_mimic, tree.is_serial) == (mimic, False)
    assert {body.kind for body in tree.bodies} == {"free", "prismatic", "revolute"}
    functions = [
        function
        for function in [*FIRST_ORDER, *of_last_frame(tree)]
        if (refusal(trees[1], function) is None) == mimic
        and (f"{function}_f_ext_base_motion" in COMPUTATIONS) != loaded
        and (function.startswith(STEPS) or not function.startswith("step_"))
        and "regressor_gradient" not in function  # as many numbers as in all others
    ]
    assert functions
    check(tree, functions)


#: Functions of second order that every run tries, and the robots: with mimic joints, floating.
TRIED = {
    "inverse_dynamics_second_order": [(False, True)],
    "forward_dynamics_second_order": [(True, False)],
    "step_hessian_semi_implicit": [(False, False)],
}


@pytest.mark.parametrize(
    ("mimic", "floating", "function"),
    [
        pytest.param(*base, name, marks=() if is_tried else pytest.mark.exhaustive)
        for base in ((False, False), (True, False), (False, True), (True, True))
        for name in SECOND_ORDER
        for is_tried in [base in TRIED.get(name, ())]
    ],
)
def test_second_order_of_few_bodies(mimic: bool, floating: bool, function: str) -> None:
    robot = random_robot(5 if mimic else 3, 2, branches=floating, mimic=mimic)
    tree = load_tree(robot, floating, joint_dynamics=True)
    assert tree.has_mimic == mimic
    assert refusal(tree, function) is None
    check(tree, [function])


#: The first joint follows one that comes after it.
FOLLOWER_FIRST = robot_text(
    *(link_text(name, com="0.1 0 0.05") for name in ("base", "left", "right", "tip")),
    joint_text("a_slide", "base", "left", "prismatic", extra='<mimic joint="b_slide"/>'),
    joint_text("b_slide", "base", "right", "prismatic", axis="0 1 0"),
    joint_text("c_hinge", "right", "tip", axis="1 0 0"),
)


@pytest.mark.parametrize("floating", [False, *exhaustive(True)])
def test_a_follower_may_be_the_first_body(floating: bool) -> None:
    tree = load_tree(FOLLOWER_FIRST, floating)
    configurations = ("integrate", "difference", "interpolate", "distance")
    check(tree, [*configurations, "step_rk4", "step_gradient_rk4"])


# -- both ways to the inverse of a mass matrix -------------------------------------------------


@pytest.mark.parametrize(("deep", "floating"), spread([(False,), (True,)], [True, False], 1))
def test_the_inverse_is_found_both_ways(
    deep: bool, floating: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = load_tree(random_robot(9, 3), floating)
    assert not minverse.is_deep(tree)
    for module in (minverse, derivatives):
        monkeypatch.setattr(module, "is_deep", lambda tree: deep)
    x = random_states(tree, STATES, np.random.default_rng(0))
    program = plan_loops(tree, "mass_matrix_inverse")
    assert ("rate_stored" in {memory.name for memory in program.workspace}) == deep
    (inverse,) = run_program(tree, program, x)
    (M,) = evaluate_reference(tree, "mass_matrix", x)
    np.testing.assert_allclose(inverse, np.linalg.inv(M), rtol=1e-9, atol=1e-9)
    check(tree, ["forward_dynamics_gradient"])


def test_long_chains_are_deep() -> None:
    """Also one with a free joint; not one with mimic joints, which cannot be done so."""
    chains = [random_robot(100, 4, branches=False, mimic=mimic) for mimic in (False, True)]
    assert minverse.is_deep(load_tree(chains[0]))
    assert minverse.is_deep(load_tree(chains[0], True))
    assert not minverse.is_deep(load_tree(chains[1]))


# -- compiled ----------------------------------------------------------------------------------

COMPILED = [
    ("gripper", False, "inverse_dynamics_f_ext_base_motion"),
    ("gripper", False, "forward_dynamics_crba"),
    ("quadruped", True, "forward_dynamics_aba"),
    ("quadruped", True, "mass_matrix_inverse"),
    ("quadruped", True, "forward_dynamics_gradient"),
    ("quadruped", False, "inverse_dynamics_second_order"),
]


#: Backends and types; each function is tried in one of these in every run, in turn.
WAYS = [("cpu", "float64"), ("emulated", "float32"), ("cpu", "float32"), ("emulated", "float64")]


@pytest.mark.parametrize(("name", "floating", "function", "way"), spread(COMPILED, WAYS, 1))
def test_compiled_loops_compute_what_the_reference_computes(
    name: str, floating: bool, function: str, way: tuple[BackendName, str]
) -> None:
    backend, dtype = way
    tree = load_tree(urdf_path(name), floating)
    robot = Robot(TracedModule(tree, 0), backend)
    x = random_states(tree, BATCH, np.random.default_rng(4))
    rounded = {key: apart(value.astype(dtype)) for key, value in x.items()}
    exact = {key: value.astype(np.float64) for key, value in rounded.items()}
    row = compare_function(tree, function, dtype, exact, robot.evaluate(function, rounded))
    assert row.passed, row


def apart(array: np.ndarray) -> np.ndarray:
    """Return an array whose entries are not adjacent in memory."""
    room = np.full((2 * len(array), *array.shape[1:-1], 3 * array.shape[-1]), 7.0, array.dtype)
    view = room[::2, ..., 1::3]
    view[:] = array
    return view


@pytest.mark.parametrize("backend", ["cpu", "emulated"])
def test_loops_write_into_arrays_of_any_layout(backend: BackendName) -> None:
    tree = load_tree(urdf_path("quadruped"), True)
    robot = Robot(TracedModule(tree, 0), backend)
    q = random_states(tree, BATCH, np.random.default_rng(5))["q"]
    expected = robot.mass_matrix(q)
    room = np.full((BATCH, tree.nv + 3, 2 * tree.nv), 7.0)
    robot.mass_matrix(apart(q), out=room[:, 3:, ::2])
    np.testing.assert_array_equal(room[:, 3:, ::2], expected)
    room[:, 3:, ::2] = 7.0
    assert (room == 7.0).all()


def test_loops_of_a_gpu_leave_the_cpu_its_bits() -> None:
    """Where a function has two programs, the kernels are of the one with loops."""
    tree = load_tree(urdf_path("quadruped"), True)
    q = random_states(tree, BATCH, np.random.default_rng(5))["q"]

    def computed(backend: BackendName, *limits: int) -> np.ndarray:
        return Robot(TracedModule(tree, *limits), backend).mass_matrix(q)

    lines, loops = computed("cpu", MAX_PROGRAM), computed("cpu", 0)
    np.testing.assert_array_equal(computed("cpu", MAX_PROGRAM, 0), lines)
    np.testing.assert_array_equal(computed("emulated", MAX_PROGRAM, 0), loops)
    np.testing.assert_allclose(loops, lines, atol=1e-13)


def test_a_rollout_takes_the_programs_of_its_target() -> None:
    tree = load_tree(urdf_path("cart_pole"))
    x = random_states(tree, BATCH, np.random.default_rng(6))
    tau = np.stack([x["tau"]] * 3, axis=1)

    def computed(backend: BackendName, *limits: int) -> np.ndarray:
        robot = Robot(TracedModule(tree, *limits), backend)
        return np.hstack([a.reshape(BATCH, -1) for a in robot.rollout(x["q"], x["qd"], tau, 0.01)])

    lines, loops = computed("cpu", MAX_PROGRAM), computed("cpu", 0)
    np.testing.assert_array_equal(computed("cpu", MAX_PROGRAM, 0), lines)
    np.testing.assert_array_equal(computed("emulated", MAX_PROGRAM, 0), loops)
    np.testing.assert_allclose(loops, lines, rtol=1e-9, atol=1e-9)


def test_a_chain_of_many_bodies_agrees_with_pinocchio() -> None:
    """Straight-line programs would have more instructions than the option of load allows."""
    urdf, longest = random_robot(110, 6, branches=False), 4_000
    tree, robot = load_tree(urdf), load_robot(urdf, longest_program=longest)
    oracle = Oracle(tree, urdf)
    x = random_states(tree, 5, np.random.default_rng(7))
    del x["f_ext"]
    for function in ("inverse_dynamics", "forward_dynamics_aba", "mass_matrix"):
        assert is_longer(tree, function, MAX_SHARED * longest)
        result = robot.evaluate(function, x)
        limit = ACCELERATION_TOLERANCE if "forward" in function else TOLERANCE["float64"]
        assert relative_errors(result, oracle.evaluate(function, x)).max() <= limit, function


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors do not mind them")
@pytest.mark.exhaustive
def test_what_dies_away_in_a_long_chain_costs_no_time() -> None:
    """Loops take subnormal numbers of float32 for zero, and leave the caller's arithmetic alone."""
    urdf = random_robot(500, 8, branches=False)
    tree, robot = load_tree(urdf), load_robot(urdf)
    q = random_states(tree, 1, np.random.default_rng(9))["q"]
    exact, found = robot.mass_matrix_inverse(q), robot.mass_matrix_inverse(q.astype(np.float32))
    least = np.finfo(np.float32).tiny
    assert (np.abs(exact[exact != 0.0]) < least).mean() > 0.05
    assert np.abs(found[found != 0.0]).min() >= least
    subnormal = np.full(64, 1e-40, np.float32)
    assert (subnormal * np.float32(0.5) > 0.0).all()
