"""Several functions in one: what they compute, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from gridgen.check import compare_function, random_states
from gridgen.dynamics.computation import Computation
from gridgen.dynamics.functions import computation_of, frame_idents, fused_keys
from gridgen.kernel import KernelKey
from gridgen.schedules.thread.plan import plan_loops
from helpers.dynamics import load_tree
from helpers.programs import plan_thread
from numerics.robots import run_program


def several(tree, *names, inputs=()) -> Computation:
    (key,) = fused_keys(tree, {"some": names})
    return computation_of(tree, KernelKey(**{**key_fields(key), "inputs": inputs}))


def key_fields(key: KernelKey) -> dict[str, object]:
    return {name: getattr(key, name) for name in ("function", "parts", "label")}


def operations(tree, *names) -> int:
    """Return those of the program of some functions in one, or of one alone."""
    key = several(tree, *names).key
    return plan_thread(tree, key if len(names) > 1 else key.parts[0]).operations


@pytest.mark.parametrize(
    ("name", "floating"), [("arm6", False), ("gripper", False), ("quadruped", True)]
)
@pytest.mark.parametrize("plan", [plan_thread, plan_loops])
def test_programs_compute_what_each_function_does_alone(name, floating, plan):
    tree = load_tree(name, floating)
    x = random_states(tree, 3, np.random.default_rng(tree.nv))
    first, last = tree.frame_names[0], tree.bodies[-1].name
    spec = several(
        tree,
        *("mass_matrix", "bias_forces", "inverse_dynamics", "forward_dynamics"),
        *(f"jacobian:{last}", f"jacobian:{first}:world", f"jacobian_dot_qd:{last}"),
        *(f"forward_kinematics:{last}", "forward_kinematics", "potential_energy"),
        inputs=("f_ext", "base_motion"),
    )
    assert spec.inputs[-3:] == ("f_ext", "base_velocity", "base_acceleration")
    assert len(set(spec.outputs)) == 10
    results = run_program(tree, plan(tree, spec.key), x)
    arrays = zip(results, spec.outputs, strict=True)
    shaped = tuple(array.reshape(3, *spec.shape(output, tree)) for array, output in arrays)
    row = compare_function(tree, spec.key, "float64", x, shaped)
    assert row.passed, row


@pytest.mark.parametrize("plan", [plan_thread, plan_loops])
def test_frames_in_one_array(plan):
    tree = load_tree("quadruped", True)
    x = random_states(tree, 3, np.random.default_rng(0))
    idents = frame_idents(tree)
    for function, reference in (("jacobian", "world"), ("forward_kinematics", "")):
        parts = tuple(
            KernelKey(function, frame=idents[frame], reference=reference)
            for frame in (tree.frame_names[-1], tree.frame_names[0])
        )
        spec = computation_of(tree, KernelKey(function, parts=parts))
        (array,) = run_program(tree, plan(tree, spec.key), x)
        shaped = array.reshape(3, *spec.shape(spec.outputs[0], tree))
        assert shaped.shape[:2] == (3, 2)
        row = compare_function(tree, spec.key, "float64", x, (shaped,))
        assert row.passed, row


def test_what_functions_have_in_common_is_computed_once():
    tree = load_tree("arm7")
    gradient = operations(tree, "inverse_dynamics_gradient")
    both = operations(tree, "inverse_dynamics", "inverse_dynamics_gradient")
    assert both <= 1.1 * gradient
    names = ("mass_matrix", "bias_forces", "jacobian:hand", "jacobian:link3")
    assert operations(tree, *names) <= 0.98 * sum(operations(tree, name) for name in names)


def test_one_frame_costs_a_part_of_all():
    tree = load_tree("humanoid", True)
    every = operations(tree, "forward_kinematics")
    each = [operations(tree, f"forward_kinematics:{name}") for name in tree.frame_names]
    assert len(each) == 44
    assert sum(each) / 44 < every / 5
    assert max(each) < every / 3


def test_results_of_one_kind_are_told_apart():
    tree = load_tree("arm7")
    spec = several(
        tree, "inverse_dynamics", "bias_forces", "forward_dynamics:crba", "jacobian:hand"
    )
    assert spec.inputs == ("q", "qd", "qdd", "tau", "gravity")
    assert spec.outputs == (
        *("tau_inverse_dynamics", "tau_bias_forces", "qdd_forward_dynamics_crba", "J"),
    )
    assert spec.kernel(tree).kind("tau_bias_forces") == "tau"
