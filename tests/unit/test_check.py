"""What is allowed to rounding errors."""

from __future__ import annotations

import numpy as np
import pytest

import gridgen
from gridgen.check import IDENTITIES, compare_function, compare_identity, random_states
from gridgen.dynamics.functions import computation_of, refusal
from gridgen.dynamics.reference import evaluate_reference, rounding_bounds
from gridgen.kernel import KernelKey
from gridgen.schedules.thread.plan import plan_lines
from helpers.programs import plan_thread
from helpers.robots import OWN, joint_text, link_text, robot_text
from helpers.scan import tree_of, tree_of_text
from numerics.robots import run_program


@pytest.mark.parametrize(("method", "passed"), [(None, False), ("cfa", True)])
def test_methods_are_held_to_the_equations_where_they_solve_them(method, passed):
    """An error that is far below what conditioning explains, but violates M qdd + h = tau."""
    tree = tree_of("arm7")
    x = random_states(tree, 16, np.random.default_rng(0))
    (qdd,) = evaluate_reference(tree, "forward_dynamics_aba", x)
    row = compare_function(tree, "forward_dynamics_aba", "float32", x, qdd, method)
    assert row.passed
    row = compare_function(tree, "forward_dynamics_aba", "float32", x, qdd * (1 + 1.5e-5), method)
    assert row.error < row.tolerance
    assert row.passed == passed


def test_a_number_of_each_state_is_compared_with_the_largest_of_the_batch():
    """An energy is zero where a convention has it: a state close by has as much rounding."""
    tree = tree_of("arm7")
    x = random_states(tree, 16, np.random.default_rng(0))
    (energy,) = evaluate_reference(tree, "potential_energy", x)
    scale = np.abs(energy).max()
    for error, passed in ((1e-5, True), (1e-4, False)):
        row = compare_function(tree, "potential_energy", "float32", x, energy + error * scale)
        assert row.error == pytest.approx(error)
        assert row.passed == passed


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gripper", {"joint_dynamics": True, "armature": 0.1, "parameters": "armature"}),
        ("arm6", {"floating_base": True, "convention": "mujoco"}),
    ],
)
def test_the_reference_satisfies_identities_that_an_error_breaks(name, options, monkeypatch):
    """An error of a formula that the program shares with its reference is found."""
    tree = gridgen.load(OWN / f"{name}.urdf", **options)._module.tree
    x = random_states(tree, 4, np.random.default_rng(2))
    there = [one for one in IDENTITIES if refusal(tree, one) is None]
    assert len(there) >= (8 if options.get("convention") is None else 7)
    for function in there:
        assert compare_identity(tree, function, x).error < 1e-9, function
        with monkeypatch.context() as context:
            context.setattr(
                "gridgen.check.evaluate_reference",
                lambda tree, one, x, own=function: [
                    result * (1.01 if one == own else 1.0)
                    for result in evaluate_reference(tree, one, x)
                ],
            )
            assert not compare_identity(tree, function, x).passed, function


#: A link that slides forth and back, so that nothing but the motor's armature moves.
UNMOVED = robot_text(
    link_text("base"),
    '<link name="carriage"/>',
    link_text("load", com="0.1 0.2 -0.1", rpy="0.3 0.2 0.1"),
    joint_text("a", "base", "carriage", axis="0.6 0.48 0.64"),
    joint_text(
        "b",
        "carriage",
        "load",
        axis="0.6 0.48 0.64",
        xyz="0 0 0",
        extra='<mimic joint="a" multiplier="-1"/>',
    ),
)


@pytest.mark.parametrize(
    "function",
    ["gravity_forces", "bias_forces", "center_of_mass_jacobian", "inverse_dynamics_second_order"],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_where_all_terms_cancel_errors_are_measured_against_them(function, dtype):
    tree = tree_of_text(UNMOVED, armature=0.1)
    x = random_states(tree, 16, np.random.default_rng(0))
    references = evaluate_reference(tree, function, x)
    eps = np.finfo(dtype).eps
    for error, passed in ((0.3 * eps, True), (1e5 * eps, False)):
        results = tuple(reference + error for reference in references)
        assert compare_function(tree, function, dtype, x, results).passed == passed
    program = run_program(tree, plan_thread(tree, function), x)
    assert compare_function(tree, function, dtype, x, program).passed


def test_a_gradient_that_is_zero_may_be_rounding():
    """Accelerations of a slide depend on no position."""
    tree = tree_of_text(UNMOVED, armature=0.1)
    x = random_states(tree, 16, np.random.default_rng(0))
    by_q, by_qd, by_tau = evaluate_reference(tree, "forward_dynamics_gradient", x)
    for error, passed in ((1e-15, True), (1e-6, False)):
        results = by_q + error, by_qd, by_tau
        row = compare_function(tree, "forward_dynamics_gradient", "float64", x, results)
        assert row.passed == passed


PRODUCTS = [
    KernelKey("inverse_dynamics").product("vjp", ("q", "qd")),
    KernelKey("mass_matrix").product("jvp", ("q",)),
]


@pytest.mark.parametrize(
    "function",
    ["inverse_dynamics", "mass_matrix", "coriolis_matrix", "difference", "step_rk4", *PRODUCTS],
    ids=lambda function: getattr(function, "name", function),
)
@pytest.mark.parametrize(("name", "floating"), [("gripper", False), ("cart_pole", True)])
def test_no_error_is_beyond_its_bound(name, floating, function):
    """The algorithms in float32 are as far from themselves in float64 as the bounds allow."""
    tree = tree_of(name, floating_base=floating, armature=0.1)
    rng = np.random.default_rng(1)
    x = random_states(tree, 16, rng)
    spec = computation_of(tree, function)
    x |= {n: rng.normal(size=(16, *spec.shape(n, tree))) for n in spec.inputs if n not in x}
    single = {n: array.astype(np.float32) for n, array in x.items()}
    exact = {n: array.astype(np.float64) for n, array in single.items()}
    rounded = evaluate_reference(tree, function, single)
    if isinstance(function, KernelKey):  # complex steps have no float32
        rounded = run_program(tree, plan_lines(tree, function), single)
    bounds = rounding_bounds(tree, function, exact)
    references = evaluate_reference(tree, function, exact)
    for found, reference, bound in zip(rounded, references, bounds, strict=True):
        eps = np.finfo(np.float32).eps
        assert (np.abs(found - reference) <= eps * bound).all()
        if function != "step_rk4":  # and they are not much larger where nothing is solved for
            assert bound.max() <= 1e5 * np.abs(reference).max()
