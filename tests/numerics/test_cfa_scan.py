"""Kernels of the constraint-force algorithm: emulated, under sanitizers, and through NVRTC."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gridgen.dynamics.cfa import forward_dynamics_cfa
from gridgen.errors import ModelError
from gridgen.schedules.cfa.plan import AVAILABLE, plan_cfa
from gridgen.schedules.team.plan import plan_scan
from gridgen.symbolic.scalars import FloatScalars
from helpers.cfa import KERNEL, LOADED, module_of, reference, run, run_alone
from helpers.dynamics import state_at
from helpers.robots import example_urdf, exhaustive, exhaustive_cases, link_text, robot_text, spread
from helpers.scan import (
    assert_race,
    barriers,
    random_inputs,
    relative_error,
    tree_of,
    tree_of_text,
)

# Rounding of the transmitted wrenches, each multiplied by the inverse of a small inertia.
TOLERANCE = {"float64": 1e-11, "float32": 1e-3}
# The error of a chain grows with the square of its length (docs/results/accuracy.md).
LONG = {100: 2e-11, 200: 1e-10, 1000: 2e-8}

BARRIER = r"__sync(?:warp|threads)\(\);"


def inputs_of(tree, function, batch, dtype="float64"):
    """Return the arguments: those of the articulated-body kernel."""
    return random_inputs(tree, function.replace("cfa", "aba"), batch, dtype)


def check(tree, tolerance, *, function=LOADED, dtype="float64", batch=3, **options):
    inputs = inputs_of(tree, function, batch, dtype)
    output, _ = run(module_of(tree, **options), function, inputs, dtype)
    assert relative_error(output, reference(tree, function, inputs)) <= tolerance
    return output


@pytest.mark.parametrize(
    ("name", "floating_base"),
    [
        ("pendulum", False),
        ("cart_pole", False),
        ("arm7", True),
        ("quadruped", True),
        ("humanoid", False),
        ("screws", True),
    ],
)
def test_our_robots(name, floating_base):
    check(tree_of(name, floating_base=floating_base), TOLERANCE["float64"])


@pytest.mark.parametrize("name", ["quadruped", *exhaustive("arm7", "humanoid")])
def test_float32(name):
    check(tree_of(name), TOLERANCE["float32"], dtype="float32")


@pytest.mark.parametrize(
    ("name", "armature"),
    [
        ("screws", (0.1, 0.0, 0.0, 0.3, 1e-6)),
        ("quadruped", (0.0, 0.5, 0.0, 0.0, 0.0, 0.2, *(0.1,) * 12)),
        *exhaustive_cases(
            ("cart_pole", 0.1), ("arm6", (0.0, 0.2, 0.0, 1e-6, 0.0, 0.3)), ("tree 40", 0.1)
        ),
    ],
)
def test_joint_dynamics_and_armatures(name, armature):
    tree = tree_of(name, floating_base=name == "quadruped", joint_dynamics=True, armature=armature)
    check(tree, TOLERANCE["float64"])


@pytest.mark.parametrize(
    "name",
    [
        *("allegro_left_hand", "talos_reduced"),
        *exhaustive(
            "ur5_robot",
            "solo12",
            "xarm7",
            "z1",
            "go2",
            "hyq_no_sensors",
            "g1_29dof_rev_1_0",
            "tiago",
        ),
    ],
)
def test_robots_that_no_one_here_wrote(name):
    floating_base = name not in ("ur5_robot", "xarm7", "z1", "allegro_left_hand")
    check(
        tree_of_text(example_urdf(name), floating_base=floating_base), TOLERANCE["float64"], batch=2
    )


@pytest.mark.parametrize("bodies", [1, 33, *exhaustive(2, 3, 31, 32, 100, 200, 1000)])
def test_chains(bodies):
    tolerance = LONG.get(bodies, TOLERANCE["float64"])
    check(tree_of(f"chain {bodies}"), tolerance, function=KERNEL, batch=1 + (bodies < 1000))


@pytest.mark.parametrize("floating_base", [False, True])
@pytest.mark.parametrize("bodies", [50, *exhaustive(300)])
def test_trees(bodies, floating_base):
    tree = tree_of(f"tree {bodies}", floating_base=floating_base)
    check(tree, TOLERANCE["float64"], function=KERNEL, batch=2)


def test_a_body_that_floats_alone():
    tree = tree_of_text(robot_text(link_text("a")), floating_base=True)
    assert module_of(tree).plan.elimination.rounds == ()
    check(tree, TOLERANCE["float64"])


# -- nothing but the state decides the bits ---------------------------------------------------


def test_results_do_not_depend_on_the_layout_of_a_block():
    """One joint a lane, or several; in shared memory, or in the workspace; a block for two states.

    Lanes share out blocks of the system, and every block is summed by one lane in one order.
    """
    tree = tree_of("tree 70", floating_base=True)
    first = check(tree, TOLERANCE["float64"], threads=96)
    for options in (
        {"threads": 32},
        {"threads": 64, "available": 10**5},
        {"available": 0},
        {"available": 0, "blocks": 2},
        {"available": 10**5, "blocks": 1},
    ):
        assert_array_equal(first, check(tree, TOLERANCE["float64"], **options))


def test_results_do_not_depend_on_the_batch():
    """States that fill a block of warps, that do not, and one alone; also in the workspace."""
    tree = tree_of("arm7")
    inputs = inputs_of(tree, KERNEL, 19)
    together, _ = run(module_of(tree), KERNEL, inputs)
    for states in (slice(0, 19), slice(0, 5), slice(18, 19)):
        part = {name: array[states] for name, array in inputs.items()}
        for options in ({}, {"threads": 32}, {"available": 0}):
            assert_array_equal(run(module_of(tree, **options), KERNEL, part)[0], together[states])


# -- what is found on the way -----------------------------------------------------------------


@pytest.mark.parametrize("armature", [0.0, 0.1])
@pytest.mark.parametrize("name", ["quadruped", "tree 40"])
def test_constraint_forces(name, armature):
    tree = tree_of(name, floating_base=True, armature=armature)
    inputs = inputs_of(tree, LOADED, 2)
    _, seen = run(module_of(tree, observed=True), f"{LOADED}_observed", inputs)

    scalars = FloatScalars()
    state, rows = state_at(tree, inputs, scalars)
    forward_dynamics_cfa(state, rows["tau"])
    for body in range(len(tree.bodies)):
        wrench = np.stack(np.broadcast_arrays(*scalars.named["F", body], state.q[0])[:6], axis=1)
        scale = np.abs(wrench).max()
        np.testing.assert_allclose(seen["C"][:, body], wrench, rtol=0, atol=1e-11 * scale)


# -- plans --------------------------------------------------------------------------------------


def test_small_robots_fit_in_shared_memory_and_large_ones_have_a_workspace():
    small, large = (plan_cfa(plan_scan(tree_of(name))) for name in ("humanoid", "chain 200"))
    assert small.in_shared_memory()
    assert small.shared_numbers() == small.states_per_block * small.numbers <= AVAILABLE
    assert small.workspace(5) == (0, small.numbers)
    assert not large.in_shared_memory()
    assert large.shared_numbers() <= AVAILABLE
    assert large.workspace(5) == (5, large.numbers)
    assert large.shared_numbers(large.numbers) == large.numbers


def test_a_robot_is_refused_when_it_is_planned():
    with pytest.raises(ModelError, match=r'mimic joints .* use method="crba"'):
        plan_cfa(plan_scan(tree_of("gripper")))


# -- races --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize(
    ("name", "options", "sanitize"),
    [
        pytest.param(*case, sanitize, marks=() if sanitize == chosen else pytest.mark.exhaustive)
        for *case, chosen in (
            ("quadruped", {}, "thread"),
            ("humanoid", {}, ""),
            ("tree 40", {"blocks": 1}, "address,undefined"),
            ("tree 40", {"available": 0}, ""),
        )
        for sanitize in ("thread", "address,undefined")
    ],
)
def test_no_kernel_is_reported(name, options, sanitize):
    tree = tree_of(name, floating_base=True)
    inputs = inputs_of(tree, LOADED, 3)
    result = run_alone(module_of(tree, **options), LOADED, inputs, sanitize)
    assert (result.status, result.report) == (0, "")
    error = relative_error(np.asarray(result.arrays[-2]), reference(tree, LOADED, inputs))
    assert error <= TOLERANCE["float64"]


#: Barriers of a kernel on warps and of one on blocks, which has one more; that between the states
#: of one block is not run here.
BARRIERS = [("humanoid", 9, (0, 4, 8)), ("tree 40", 10, range(10))]


@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize(
    ("name", "count", "missing"),
    [
        pytest.param(name, count, k, marks=() if k in (0, 9) else pytest.mark.exhaustive)
        for name, count, indices in BARRIERS
        for k in indices
    ],
)
def test_every_missing_barrier_is_a_race(name, count, missing):
    tree = tree_of(name, floating_base=True)
    module = module_of(tree)
    places = barriers(module.sources, "robot_cfa.cuh", BARRIER, end="__global__")
    assert len(places) == count
    inputs = inputs_of(tree, KERNEL, 1)
    assert_race(run_alone(module, KERNEL, inputs, "thread", places[missing]))


# -- NVRTC --------------------------------------------------------------------------------------


SMALL = [
    ("chain 32", {}),
    ("arm7", {"floating_base": True}),
    ("humanoid", {"joint_dynamics": True, "armature": 0.1}),
]


@pytest.mark.parametrize(
    ("name", "options", "arch"),
    spread(SMALL[:1], ["sm_75", "sm_80", "sm_90", "sm_120"], 1)
    + spread(SMALL[1:], ["sm_75", "sm_80", "sm_90", "sm_120"], 0),
)
def test_no_kernel_of_up_to_32_bodies_spills(name, options, arch):
    pytest.importorskip("cupy")
    from gridgen.backends.cuda.compiler import compile_kernel

    sources = module_of(tree_of(name, **options)).sources
    for dtype in ("float32", "float64"):
        resources = compile_kernel(sources, LOADED, dtype, arch).resources
        assert resources is not None
        assert (resources.spill_stores, resources.spill_loads, resources.stack) == (0, 0, 0)


@pytest.mark.exhaustive
def test_kernels_of_large_robots_compile():
    pytest.importorskip("cupy")
    from gridgen.backends.cuda.compiler import compile_kernel

    sources = module_of(tree_of("tree 300")).sources
    for dtype in ("float32", "float64"):
        compile_kernel(sources, KERNEL, dtype, "sm_90")
