"""External wrenches, gravity and the motion of the base against Pinocchio.

For the base's motion, Pinocchio's robot stands on one more free joint that moves as prescribed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gridgen.check import TOLERANCE, random_states, relative_errors
from gridgen.dynamics.functions import refusal
from helpers.oracle import Oracle
from numerics.robots import Evaluate, load_robot, load_tree, urdf_path

STATES = 20
#: Serial and branched, prismatic and skew axes, fixed links on bodies, a mimic joint.
ROBOTS = ["cart_pole", "arm6", "kinova", "panda", "quadruped"]
FUNCTIONS = ["inverse_dynamics", "bias_forces", "forward_dynamics_aba", "forward_dynamics_crba"]
#: Accelerations of these well-conditioned robots lose up to three digits.
ACCELERATION_TOLERANCE = 1e-9

#: In the order of the arguments.
LOADS = ("f_ext", "base_velocity", "base_acceleration")


def tolerance(function: str) -> float:
    return ACCELERATION_TOLERANCE if "forward" in function else TOLERANCE["float64"]


def states(urdf: Path, floating: bool, given: set[str]) -> dict[str, np.ndarray]:
    """Return random states in which only the loads ``given`` are not zero."""
    rng = np.random.default_rng(11)
    x = random_states(load_tree(urdf, floating), STATES, rng)
    for name in set(LOADS) - given:
        x[name] = np.zeros_like(x[name])
    if "gravity" in given:
        x["gravity"] = 10 * rng.normal(size=(STATES, 3))
    return x


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
@pytest.mark.parametrize("name", ROBOTS)
def test_loads_act_as_in_pinocchio(
    evaluate: Evaluate, name: str, floating: bool, function: str
) -> None:
    urdf = urdf_path(name)
    tree = load_tree(urdf, floating)
    if refusal(tree, function) is not None:
        return
    oracle = Oracle(tree, urdf, moving_base=True)
    for given in ({"f_ext"}, {"base_velocity"}, {"base_acceleration"}, {"gravity", *LOADS}):
        x = states(urdf, floating, given)
        result = evaluate(urdf, f"{function}_f_ext_base_motion", x, floating_base=floating)
        error = relative_errors(result, oracle.evaluate(function, x)).max()
        assert error <= tolerance(function), f"{sorted(given)}: {error:.1e}"


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
def test_gravity_has_any_direction_in_every_state(
    evaluate: Evaluate, floating: bool, function: str
) -> None:
    urdf = urdf_path("arm6")
    x = states(urdf, floating, {"gravity"})
    expected = Oracle(load_tree(urdf, floating), urdf).evaluate(
        function, {name: x[name] for name in ("q", "qd", "qdd", "tau", "gravity")}
    )
    result = evaluate(urdf, function, x, floating_base=floating)
    assert relative_errors(result, expected).max() <= tolerance(function)


def test_loads_are_keywords_of_the_methods() -> None:
    urdf = urdf_path("arm6")
    robot = load_robot(urdf)
    x = states(urdf, False, {"gravity", *LOADS})
    loads = {name: x[name] for name in ("gravity", *LOADS)}
    q, qd = x["q"], x["qd"]
    calls = {
        "inverse_dynamics": lambda: robot.inverse_dynamics(q, qd, x["qdd"], **loads),
        "bias_forces": lambda: robot.bias_forces(q, qd, **loads),
        "forward_dynamics_aba": lambda: robot.forward_dynamics(q, qd, x["tau"], **loads),
        "forward_dynamics_crba": lambda: robot.forward_dynamics(
            q, qd, x["tau"], method="crba", **loads
        ),
    }
    for function, call in calls.items():
        np.testing.assert_array_equal(call(), robot.evaluate(f"{function}_f_ext_base_motion", x))


@pytest.mark.parametrize("name", ["gravity", *LOADS[1:]])
def test_one_vector_serves_the_whole_batch(name: str) -> None:
    urdf = urdf_path("arm6")
    robot = load_robot(urdf)
    x = states(urdf, False, {name})
    vector = x[name][3]
    shared = robot.inverse_dynamics(x["q"], x["qd"], x["qdd"], **{name: vector})
    repeated = np.tile(vector, (STATES, 1))
    np.testing.assert_array_equal(
        shared, robot.inverse_dynamics(x["q"], x["qd"], x["qdd"], **{name: repeated})
    )


def test_a_load_left_out_is_zero() -> None:
    urdf = urdf_path("quadruped")
    robot = load_robot(urdf, floating_base=True)
    x = states(urdf, True, {"f_ext"})
    np.testing.assert_array_equal(
        robot.bias_forces(x["q"], x["qd"], f_ext=x["f_ext"]),
        robot.evaluate("bias_forces_f_ext", x),
    )
    both = robot.bias_forces(x["q"], x["qd"], f_ext=x["f_ext"], base_velocity=np.zeros(6))
    np.testing.assert_array_equal(both, robot.evaluate("bias_forces_f_ext_base_motion", x))
    plain = robot.bias_forces(x["q"], x["qd"])
    unloaded = robot.bias_forces(x["q"], x["qd"], f_ext=np.zeros_like(x["f_ext"]))
    assert relative_errors(unloaded, plain).max() <= TOLERANCE["float64"]


def test_a_joint_feels_the_moment_about_its_axis() -> None:
    """Statics of one revolute joint: a force at its origin does nothing, a moment all it can."""
    urdf = urdf_path("pendulum")
    robot = load_robot(urdf)
    force, moment = (4.0, 5.0, 6.0), (1.0, 2.0, 3.0)
    f_ext = np.array([[[*force, *moment]]])
    rest = np.zeros((1, 1))
    tau = robot.inverse_dynamics(rest, rest, rest, gravity=(0.0, 0.0, 0.0), f_ext=f_ext)
    axis = np.array(load_tree(urdf).bodies[0].link_rotation)[:, 2]
    np.testing.assert_allclose(tau, [[-axis @ moment]], atol=1e-15)
