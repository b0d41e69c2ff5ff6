"""Derivatives and inverses of the scan schedule on the emulated backend."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest
from numpy.testing import assert_array_equal

import gridgen
from gridgen.check import FORWARD, amplification
from gridgen.dynamics.reference import evaluate_reference
from gridgen.model.tree import KinematicTree
from gridgen.schedules.scan.kernels import SCAN_KERNELS
from gridgen.schedules.scan.schedule import scan_refusal
from gridgen.schedules.team.plan import plan_scan
from helpers.oracle import Oracle
from helpers.robots import example_urdf, exhaustive, refused, refused_kernel
from helpers.scan import (
    KERNELS,
    ROBOTS,
    module_of,
    random_inputs,
    references,
    relative_error,
    run_all,
    tree_of,
    tree_of_text,
)

INVERSE = "mass_matrix_inverse_scan"
OF_EFFORTS = "inverse_dynamics_gradient_scan_f_ext_base_motion"
OF_ACCELERATIONS = "forward_dynamics_gradient_scan_f_ext_base_motion"
SECOND = "inverse_dynamics_second_order_scan_f_ext_base_motion"
LOADED = (INVERSE, OF_EFFORTS, OF_ACCELERATIONS, SECOND)

#: A few hundred roundings. Solving with M multiplies them by how much M amplifies.
EXACT = {"float64": 1e-12, "float32": 2e-5}


def solves(function: str) -> bool:
    return function.startswith(("mass_matrix_inverse", "forward_dynamics"))


def check(tree, function, *, dtype="float64", threads=None, batch=3):
    """Compare a kernel with the reference, output by output; returns its outputs."""
    inputs = random_inputs(tree, function, batch, dtype)
    outputs, _ = run_all(
        module_of(tree, function, threads, observed=False), function, inputs, dtype
    )
    tolerance = EXACT[dtype]
    if solves(function):
        (M,) = evaluate_reference(tree, "mass_matrix", {"q": inputs["q"].astype(np.float64)})
        tolerance = max(tolerance, FORWARD * np.finfo(dtype).eps * amplification(M).max())
    for output, expected in zip(outputs, references(tree, function, inputs), strict=True):
        assert relative_error(output, expected) <= tolerance
    check_zeros(tree, function, outputs)
    return outputs


def check_zeros(tree: KinematicTree, function: str, outputs) -> None:
    """Entries between joints that are not on one path are zero, to the bit."""
    nv = tree.nv
    if solves(function) or tree.has_mimic:
        return
    paths = np.zeros((nv, nv), bool)
    for i, body in enumerate(tree.bodies):
        for other in (i, *tree.ancestors(i)):
            above = tree.bodies[other]
            rows = slice(body.v_index, body.v_index + body.nv)
            columns = slice(above.v_index, above.v_index + above.nv)
            paths[rows, columns] = paths[columns, rows] = True
    if function != SECOND:
        for output in outputs:
            assert not output.reshape(-1, nv, nv)[:, ~paths].any()
        return
    chains = paths[:, :, None] & paths[None] & paths[:, None]
    for output in outputs:
        assert not output.reshape(-1, nv, nv, nv)[:, ~chains].any()
    # A joint changes no inertia between joints that it carries.
    row, column, layer = np.indices((nv, nv, nv))
    carried = layer <= np.minimum(row, column)
    assert not outputs[3].reshape(-1, nv, nv, nv)[:, carried].any()


# -- numbers ------------------------------------------------------------------------------------


ALL = {"joint_dynamics": True, "armature": 0.1}
FLOATING = {"floating_base": True}


@refused(
    lambda name, options, function: refused_kernel(tree_of(name, **options), KERNELS[function].key)
)
@pytest.mark.parametrize(
    ("name", "options", "function"),
    [
        *((name, ALL, SECOND) for name in ("arm6", "gripper", "quadruped", "screws")),
        *(
            (name, options, function)
            for name, options in (
                ("arm6", {}),
                ("gripper", ALL | FLOATING),
                ("quadruped", FLOATING),
                ("screws", ALL),
            )
            for function in (INVERSE, OF_EFFORTS, OF_ACCELERATIONS)
        ),
        *(
            pytest.param(name, options, function, marks=pytest.mark.exhaustive)
            for name, options in (
                ("humanoid", ALL),
                ("humanoid", FLOATING),
                ("quadruped", ALL | FLOATING),
                ("chain 32", {}),
                ("tree 70", {}),
            )
            for function in LOADED
        ),
    ],
)
def test_our_robots(name, options, function):
    """Prismatic and helical joints, skew axes, a joint that mimics, branches and a free joint."""
    tree = tree_of(name, **options)
    check(tree, function, batch=2)


@pytest.mark.parametrize("function", [OF_ACCELERATIONS, *exhaustive(OF_EFFORTS, INVERSE)])
@pytest.mark.parametrize("name", ["talos_reduced", *exhaustive("icub", "tiago")])
def test_robots_that_no_one_here_wrote(name, function):
    check(tree_of_text(example_urdf(name), floating_base=True), function, batch=1)


@pytest.mark.parametrize("function", LOADED)
@pytest.mark.parametrize("name", ["arm7", *exhaustive("quadruped", "tree 40")])
def test_float32(name, function):
    check(tree_of(name), function, dtype="float32")


@pytest.mark.parametrize("function", LOADED)
@pytest.mark.parametrize("name", exhaustive("pendulum", "two_link", "cart_pole"))
def test_few_joints(name, function):
    check(tree_of(name), function, batch=40)


@pytest.mark.parametrize(
    ("name", "floating_base"),
    [
        ("arm6", False),
        pytest.param("kinova", False, marks=pytest.mark.exhaustive),
        ("quadruped", True),
    ],
)
def test_pinocchio_finds_the_same(name, floating_base):
    """Skew axes, a prismatic base, branches and a free joint."""
    own = (ROBOTS / f"{name}.urdf").exists()
    path = ROBOTS / f"{name}.urdf" if own else example_urdf(name)
    tree = tree_of_text(path, floating_base=floating_base)
    oracle = Oracle(tree, path)
    model, data = oracle.model, oracle.data
    function = "inverse_dynamics_gradient_scan"
    inputs = random_inputs(tree, function, 2)
    model.gravity.linear = inputs["gravity"][0]
    (by_q, by_qd), _ = run_all(module_of(tree, function, observed=False), function, inputs)
    for i in range(2):
        q, v = oracle.position(inputs["q"][i]), oracle.spread @ inputs["qd"][i]
        expected = pinocchio.computeRNEADerivatives(
            model, data, q, v, oracle.spread @ inputs["qdd"][i]
        )
        for found, wanted in zip((by_q, by_qd), expected[:2], strict=True):
            assert relative_error(found[i : i + 1], oracle.square(wanted).reshape(1, -1)) <= 1e-12

    function = "forward_dynamics_gradient_scan"
    inputs = random_inputs(tree, function, 2)
    found, _ = run_all(module_of(tree, function, observed=False), function, inputs)
    for i in range(2):
        q, v = oracle.position(inputs["q"][i]), oracle.spread @ inputs["qd"][i]
        pinocchio.computeABADerivatives(model, data, q, v, oracle.spread @ inputs["tau"][i])
        upper = np.triu(data.Minv)
        wanted = (data.ddq_dq, data.ddq_dv, upper + np.triu(upper, 1).T)
        for result, expected in zip(found, wanted, strict=True):
            assert relative_error(result[i : i + 1], expected.reshape(1, -1)) <= 1e-10


def test_the_inverse_is_symmetric_to_the_bit():
    tree = tree_of("quadruped", floating_base=True)
    inputs = random_inputs(tree, INVERSE, 2)
    (found,), _ = run_all(module_of(tree, INVERSE, observed=False), INVERSE, inputs)
    matrix = found.reshape(2, tree.nv, tree.nv)
    assert_array_equal(matrix, matrix.transpose(0, 2, 1))


# -- nothing but the state decides the bits ---------------------------------------------------


@pytest.mark.parametrize("function", LOADED)
def test_results_do_not_depend_on_the_number_of_threads(function):
    """A body for each lane, or two."""
    tree = tree_of("tree 40", floating_base=function != SECOND)
    one, two = (check(tree, function, threads=threads, batch=1) for threads in (64, 32))
    for a, b in zip(one, two, strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("function", LOADED)
def test_results_do_not_depend_on_the_batch(function):
    """States that fill a block, that do not, and one alone, in blocks of two sizes."""
    tree = tree_of("arm7")
    inputs = random_inputs(tree, function, 19)
    module = module_of(tree, function, observed=False)
    small = module_of(tree, function, threads=32, observed=False)
    together, _ = run_all(module, function, inputs)
    for states in (slice(0, 5), slice(18, 19)):
        part = {name: array[states] for name, array in inputs.items()}
        for some in (module, small):
            for a, b in zip(run_all(some, function, part)[0], together, strict=True):
                assert_array_equal(a, b[states])


@pytest.mark.parametrize("function", [OF_ACCELERATIONS, SECOND])
def test_nan_stays_in_its_state(function):
    """In the middle of a block, beside states that share its warp."""
    tree = tree_of("quadruped", **(ALL if function == SECOND else FLOATING))
    module = module_of(tree, function, observed=False)
    inputs = random_inputs(tree, function, 3)
    clean, _ = run_all(module, function, inputs)
    broken = inputs | {"q": inputs["q"].copy()}
    broken["q"][1, -1] = np.nan
    outputs, _ = run_all(module, function, broken)
    for output, expected in zip(outputs, clean, strict=True):
        assert_array_equal(output[::2], expected[::2])
        assert np.isnan(output[1]).any()


# -- plans, and what users see ------------------------------------------------------------------


def test_what_teams_keep_lies_in_shared_memory_where_it_fits():
    for name in ("arm7", "humanoid", "tree 40", "chain 200"):
        plan = plan_scan(tree_of(name))
        for kernel in (SCAN_KERNELS[name] for name in LOADED):
            shared, numbers = plan.shared_numbers(kernel), plan.memory_numbers(kernel)
            assert 8 * shared <= 48 * 1024
            states = plan.states_of(kernel)
            assert states * (plan.width or plan.threads) == plan.threads_of(kernel)
            if plan.workspace_numbers(kernel) is None:
                assert shared == plan.exchanged_numbers(kernel) + states * numbers
            else:
                assert plan.workspace_numbers(kernel) == numbers
    assert plan_scan(tree_of("arm7")).workspace_numbers(SCAN_KERNELS[SECOND]) is None
    assert plan_scan(tree_of("chain 200")).workspace_numbers(SCAN_KERNELS[SECOND]) is not None


def test_a_robot_with_too_many_second_derivatives_is_refused():
    plan = plan_scan(tree_of("chain 1300"))
    assert scan_refusal(plan, SCAN_KERNELS[OF_EFFORTS]) is None
    assert "use finite differences of inverse_dynamics_gradient" in scan_refusal(
        plan, SCAN_KERNELS[SECOND]
    )


def test_users_reach_the_kernels():
    robot = gridgen.load(ROBOTS / "cart_pole.urdf", backend="emulated")
    q, qd, x = np.random.default_rng(3).normal(size=(3, 4, robot.nv))
    calls = (
        (robot.mass_matrix_inverse, (q,)),
        (robot.inverse_dynamics_gradient, (q, qd, x)),
        (robot.forward_dynamics_gradient, (q, qd, x)),
        (robot.inverse_dynamics_second_order, (q, qd, x)),
    )
    for call, arguments in calls:
        found, expected = call(*arguments, schedule="scan"), call(*arguments, schedule="thread")
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)
    moved = robot.inverse_dynamics_gradient(q, qd, x, base_velocity=np.ones(6), schedule="scan")
    again = robot.inverse_dynamics_gradient(q, qd, x, base_velocity=np.ones(6))
    np.testing.assert_allclose(moved, again, rtol=1e-11, atol=1e-11)


def test_every_kernel_is_looked_at_here():
    kept = {name for name, kernel in SCAN_KERNELS.items() if kernel.memory}
    assert kept == {*LOADED, *(name.removesuffix("_f_ext_base_motion") for name in LOADED)}
