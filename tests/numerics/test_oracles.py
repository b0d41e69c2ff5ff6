"""Every function has a test against something else than its own text.

Programs, compiled code and ``--check`` are compared with the algorithm on numbers: an error of the
algorithm is on both sides. The tests named here compare the algorithm with Pinocchio, MuJoCo, Coal,
complex steps, or an identity. Each fails if the results of the algorithm grow by one percent.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gridgen.functions import FUNCTIONS, GENERATED
from gridgen.functions.record import STEPS

TESTS = Path(__file__).parents[1]
#: Functions by the test that judges them; those of ``unit/dynamics`` unless a folder is named.
JUDGED = {
    "numerics/test_reference.py::test_reference_agrees_with_pinocchio": (
        *("inverse_dynamics", "bias_forces", "mass_matrix", "forward_dynamics"),
    ),
    "test_pinocchio.py::test_functions_are_those_of_pinocchio": (
        *("gravity_forces", "coriolis_matrix", "mass_matrix_inverse"),
        *("inverse_dynamics_gradient", "forward_dynamics_gradient"),
        *("center_of_mass", "center_of_mass_jacobian", "kinetic_energy", "potential_energy"),
        *("centroidal_momentum_matrix", "centroidal_momentum", "centroidal_inertia"),
        *("centroidal_momentum_matrix_derivative", "centroidal_dynamics_gradient"),
        *("joint_torque_regressor", "kinetic_energy_regressor", "potential_energy_regressor"),
    ),
    "test_constraints.py::test_the_delassus_matrix_is_pinocchios": ("delassus",),
    "test_constraints.py::test_contacts_with_the_world_are_pinocchios": (
        "constrained_forward_dynamics",
    ),
    "test_constraints.py::test_gradients_are_pinocchios": (
        "constrained_forward_dynamics_gradient",
    ),
    "test_constraints.py::test_impacts_are_pinocchios": ("impulse_dynamics",),
    "test_constraints.py::test_forces_that_carry_a_robot_have_least_norm": (
        "constrained_inverse_dynamics",
    ),
    "numerics/test_projection.py::test_the_jacobian_is_the_derivative_of_the_residual": (
        "constraint_residual",
    ),
    "numerics/test_projection.py::test_jacobians_are_pinocchios": ("constraint_jacobian",),
    "test_contacts.py::test_accelerations_and_forces_are_those_of_mujoco": (
        "contact_forward_dynamics",
    ),
    "test_contacts.py::test_a_residual_is_the_share_of_all_torques": ("contact_residual",),
    "test_actuators.py::test_torques_are_those_of_mujoco": ("actuator_torques",),
    "test_sensors.py::test_every_kind_has_mujocos_numbers": ("sensors",),
    "test_second_order.py::test_second_derivatives_are_the_complex_steps_of_the_first": (
        "inverse_dynamics_second_order",
    ),
    "test_second_order.py::test_those_of_forward_dynamics_are_too": (
        *("forward_dynamics_second_order", "forward_dynamics_hessian"),
    ),
    "test_second_order.py::test_the_hessian_of_a_step_is_the_complex_step_of_its_gradient": (
        "step_hessian",
    ),
    "numerics/test_motion.py::test_a_step_is_pinocchio_s_dynamics_and_its_integrate": ("step",),
    "numerics/test_motion.py::test_a_rollout_is_a_step_again_and_again": ("rollout",),
    "numerics/test_random_robots.py::test_derivatives": ("step_gradient",),
    "test_frames.py::test_poses_are_pinocchios": ("forward_kinematics",),
    "test_frames.py::test_jacobians_are_pinocchios": ("jacobian", "jacobian_dot_qd"),
    "test_frames.py::test_jacobian_gradient_is_the_complex_step": ("jacobian_gradient",),
    "test_operational.py::test_operational_space_is_that_of_pinocchios_matrices": (
        *("operational_space_inertia", "point_inertia", "dynamically_consistent_inverse"),
        "operational_space_bias",
    ),
    "test_collision.py::test_self_distance_is_that_of_the_nearest_of_all_pairs": ("self_distance",),
    "test_collision.py::test_world_distance_is_that_of_coal": ("world_distance",),
    "test_collision.py::test_soft_minima_are_those_of_all_pairs": (
        *("soft_self_distance", "soft_world_distance"),
    ),
    "test_collision.py::test_free_is_where_both_distances_are_beyond_the_margin": (
        "collision_free",
    ),
    "test_regressor.py::test_the_gradient_is_the_complex_step_of_the_regressor": (
        "joint_torque_regressor_gradient",
    ),
    "test_regressor.py::"
    "test_momentum_is_that_of_the_mass_matrix_and_its_rate_that_of_the_efforts": (
        "momentum_regressor",
    ),
    "test_configurations.py::test_they_are_those_of_pinocchio": (
        *("integrate", "difference", "interpolate", "distance"),
        *("integrate_gradient", "difference_gradient"),
    ),
}


def scaled(result: Any) -> Any:
    """Return the results of an algorithm, one percent larger."""
    if isinstance(result, (list, tuple)):
        return type(result)([scaled(entry) for entry in result])
    return result * 1.01


def scale(function: str) -> None:
    """Make the algorithms of a function compute results that are one percent too large."""
    methods = [*FUNCTIONS[function].methods.values()]
    methods += [step.algorithm for step in STEPS.values() if step.function == function]
    for path in {method.algorithm for method in methods if method.algorithm}:
        module, name = path.rsplit(".", 1)
        there = importlib.import_module(f"gridgen.dynamics.{module}")
        own = getattr(there, name)
        grown = functools.wraps(own)(lambda *a, _own=own, **words: scaled(_own(*a, **words)))
        setattr(there, name, grown)


def test_every_function_has_its_judge() -> None:
    named = [function for functions in JUDGED.values() for function in functions]
    assert sorted(named) == sorted(GENERATED)
    for test in JUDGED:
        file, name = path_of(test)
        assert re.search(rf"^def {name}\(", file.read_text(), re.M), test


def path_of(test: str) -> tuple[Path, str]:
    """Return the file and the name of a test."""
    file, name = test.split("::")
    return TESTS / (file if "/" in file else f"unit/dynamics/{file}"), name


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("test", "function"),
    [(test, one) for test, functions in JUDGED.items() for one in functions if one != "rollout"],
)
def test_the_judge_finds_an_error_of_one_percent(test: str, function: str, tmp_path: Path) -> None:
    file, name = path_of(test)
    script = f"import sys; sys.path.insert(0, {str(TESTS)!r}); "
    script += f"from numerics.test_oracles import scale; scale({function!r}); "
    script += "import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    words = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", f"{file}::{name}"]
    run = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=TESTS.parent,
        env={**os.environ, "GRIDGEN_CACHE_DIR": str(tmp_path)},  # wrong text stays there
    )
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout[-2000:]
    assert "AssertionError" in run.stdout or "assert " in run.stdout, run.stdout[-2000:]
