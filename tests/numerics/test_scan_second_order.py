"""Second derivatives of the scan schedule on the emulated backend."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gridgen
from gridgen.model.tree import KinematicTree
from gridgen.schedules.scan.kernels import SCAN_KERNELS
from gridgen.schedules.scan.schedule import scan_refusal
from gridgen.schedules.team.plan import plan_scan
from helpers.robots import exhaustive
from helpers.scan import (
    ROBOTS,
    module_of,
    random_inputs,
    references,
    relative_error,
    run_all,
    tree_of,
)

SECOND = "inverse_dynamics_second_order_scan_f_ext_base_motion"
#: A few hundred roundings.
EXACT = {"float64": 1e-12, "float32": 2e-5}
ALL = {"joint_dynamics": True, "armature": 0.1}


def check(tree, *, dtype="float64", threads=None, batch=3):
    """Compare the kernel with the reference, output by output; return its outputs."""
    inputs = random_inputs(tree, SECOND, batch, dtype)
    outputs, _ = run_all(module_of(tree, SECOND, threads, observed=False), SECOND, inputs, dtype)
    for output, expected in zip(outputs, references(tree, SECOND, inputs), strict=True):
        assert relative_error(output, expected) <= EXACT[dtype]
    if not tree.has_mimic:
        check_zeros(tree, outputs)
    return outputs


def check_zeros(tree: KinematicTree, outputs) -> None:
    """Entries of joints that are not on one path are zero, to the bit."""
    nv = tree.nv
    paths = np.zeros((nv, nv), bool)
    for i in range(nv):
        for above in (i, *tree.ancestors(i)):
            paths[i, above] = paths[above, i] = True
    chains = paths[:, :, None] & paths[None] & paths[:, None]
    for output in outputs:
        assert not output.reshape(-1, nv, nv, nv)[:, ~chains].any()
    # A joint changes no inertia between joints that it carries.
    row, column, layer = np.indices((nv, nv, nv))
    carried = layer <= np.minimum(row, column)
    assert not outputs[3].reshape(-1, nv, nv, nv)[:, carried].any()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, ALL) for name in ("arm6", "gripper", "quadruped", "screws")),
        *(
            pytest.param(name, options, marks=pytest.mark.exhaustive)
            for name, options in (("humanoid", ALL), ("chain 32", {}), ("tree 70", {}))
        ),
    ],
)
def test_our_robots(name, options):
    """Prismatic and helical joints, skew axes, a joint that mimics, branches."""
    check(tree_of(name, **options), batch=2)


@pytest.mark.parametrize("name", ["arm7", *exhaustive("quadruped", "tree 40")])
def test_float32(name):
    check(tree_of(name), dtype="float32")


@pytest.mark.parametrize("name", exhaustive("pendulum", "two_link", "cart_pole"))
def test_few_joints(name):
    check(tree_of(name), batch=40)


# -- nothing but the state decides the bits ---------------------------------------------------


def test_results_do_not_depend_on_the_number_of_threads():
    """A body for each lane, or two."""
    one, two = (check(tree_of("tree 40"), threads=threads, batch=1) for threads in (64, 32))
    for a, b in zip(one, two, strict=True):
        assert_array_equal(a, b)


def test_results_do_not_depend_on_the_batch():
    """States that fill a block, that do not, and one alone, in blocks of two sizes."""
    tree = tree_of("arm7")
    inputs = random_inputs(tree, SECOND, 19)
    module = module_of(tree, SECOND, observed=False)
    small = module_of(tree, SECOND, threads=32, observed=False)
    together, _ = run_all(module, SECOND, inputs)
    for states in (slice(0, 5), slice(18, 19)):
        part = {name: array[states] for name, array in inputs.items()}
        for some in (module, small):
            for a, b in zip(run_all(some, SECOND, part)[0], together, strict=True):
                assert_array_equal(a, b[states])


def test_nan_stays_in_its_state():
    """In the middle of a block, beside states that share its warp."""
    tree = tree_of("quadruped", **ALL)
    module = module_of(tree, SECOND, observed=False)
    inputs = random_inputs(tree, SECOND, 3)
    clean, _ = run_all(module, SECOND, inputs)
    broken = inputs | {"q": inputs["q"].copy()}
    broken["q"][1, -1] = np.nan
    outputs, _ = run_all(module, SECOND, broken)
    for output, expected in zip(outputs, clean, strict=True):
        assert_array_equal(output[::2], expected[::2])
        assert np.isnan(output[1]).any()


# -- plans, and what users see ------------------------------------------------------------------


def test_memory_of_teams_is_shared_memory_where_it_fits():
    kernel = SCAN_KERNELS[SECOND]
    for name in ("arm7", "humanoid", "tree 40", "chain 200"):
        plan = plan_scan(tree_of(name))
        shared, numbers = plan.shared_numbers(kernel), plan.memory_numbers(kernel)
        assert 8 * shared <= 48 * 1024
        states = plan.states_of(kernel)
        assert states * (plan.width or plan.threads) == plan.threads_of(kernel)
        if plan.workspace_numbers(kernel) is None:
            assert shared == plan.exchanged_numbers(kernel) + states * numbers
        else:
            assert plan.workspace_numbers(kernel) == numbers
    assert plan_scan(tree_of("arm7")).workspace_numbers(kernel) is None
    assert plan_scan(tree_of("chain 200")).workspace_numbers(kernel) is not None


def test_a_robot_with_too_many_second_derivatives_is_refused():
    plan = plan_scan(tree_of("chain 1300"))
    reason = scan_refusal(plan, SCAN_KERNELS[SECOND])
    assert "use finite differences of inverse_dynamics_gradient" in reason


def test_users_reach_the_kernel():
    robot = gridgen.load(ROBOTS / "cart_pole.urdf", backend="emulated")
    q, qd, x = np.random.default_rng(3).normal(size=(3, 4, robot.nv))
    for given in ({}, {"base_velocity": np.ones(6)}):
        found, expected = (
            robot.inverse_dynamics_second_order(q, qd, x, schedule=schedule, **given)
            for schedule in ("scan", "thread")
        )
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "function",
    [
        *("mass_matrix", "mass_matrix_inverse"),
        *("inverse_dynamics_gradient", "forward_dynamics_gradient"),
    ],
)
def test_functions_of_the_warp_schedule_name_it(function):
    robot = gridgen.load(ROBOTS / "cart_pole.urdf", backend="emulated")
    x = np.zeros((1, robot.nv))
    arguments = [x] if function.startswith("mass_matrix") else [x, x, x]
    with pytest.raises(gridgen.OptionError, match="choose one of auto, thread, warp"):
        getattr(robot, function)(*arguments, schedule="scan")
