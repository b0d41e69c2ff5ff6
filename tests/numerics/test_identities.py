"""What holds of any robot, whatever computes it: no oracle is asked."""

from __future__ import annotations

import numpy as np
import pytest

from gridgen.check import TOLERANCE, backward_errors, random_states, relative_errors
from gridgen.dynamics.reference import evaluate_reference
from helpers.robots import exhaustive_cases, spread
from numerics.robots import Evaluate, load_robot, load_tree, urdf_path

STATES = 40
#: Efforts found again from accelerations: two algorithms' rounding errors.
ROUND_TRIP = {"float64": 1e-12, "float32": 4e-5}
ROBOTS = [("arm7", False), ("gripper", False), ("quadruped", True)]
FURTHER = [("cart_pole", False), ("quadruped", False)]
robots = pytest.mark.parametrize(("name", "floating"), [*ROBOTS, *exhaustive_cases(*FURTHER)])


def states(name: str, floating: bool) -> dict[str, np.ndarray]:
    tree = load_tree(urdf_path(name), floating)
    return random_states(tree, STATES, np.random.default_rng(12))


@pytest.mark.parametrize(
    ("name", "floating", "dtype"),
    [*spread(ROBOTS, ["float32", "float64"], 1), *spread(FURTHER, ["float32", "float64"], 0)],
)
def test_inverse_dynamics_undoes_forward_dynamics(name: str, floating: bool, dtype: str) -> None:
    robot = load_robot(urdf_path(name), floating_base=floating)
    x = {key: value.astype(dtype) for key, value in states(name, floating).items()}
    q, qd, tau = x["q"], x["qd"], x["tau"]
    M = robot.mass_matrix(q).astype(float)
    for method in ("crba",) if name == "gripper" else ("aba", "crba"):
        qdd = robot.forward_dynamics(q, qd, tau, method=method)
        # Accelerations large enough to swamp the efforts cannot give them back more exactly.
        terms = np.abs(np.einsum("bij,bj->bij", M, qdd)).max(axis=(1, 2))
        scale = np.maximum(terms, np.abs(tau).max(axis=1))
        error = np.abs(robot.inverse_dynamics(q, qd, qdd) - tau).max(axis=1) / scale
        assert error.max() <= ROUND_TRIP[dtype], method


@robots
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mass_matrices_are_symmetric_to_the_bit_and_positive(
    name: str, floating: bool, dtype: str
) -> None:
    robot = load_robot(urdf_path(name), floating_base=floating)
    M = robot.mass_matrix(states(name, floating)["q"].astype(dtype))
    np.testing.assert_array_equal(M, M.swapaxes(1, 2))
    np.linalg.cholesky(M.astype(float))  # raises unless positive definite


@robots
def test_the_equations_of_motion_hold(evaluate: Evaluate, name: str, floating: bool) -> None:
    urdf, x = urdf_path(name), states(name, floating)
    M, bias, tau = (
        evaluate(urdf, function, x, floating_base=floating)
        for function in ("mass_matrix", "bias_forces", "inverse_dynamics")
    )
    assert backward_errors(M, bias, tau, x["qdd"]).max() <= TOLERANCE["float64"]


@robots
def test_power_goes_into_energy(name: str, floating: bool) -> None:
    """The power of the bias forces is that of gravity and of the changing inertia: no more."""
    tree, x = load_tree(urdf_path(name), floating), states(name, floating)
    qd = x["qd"]
    step = 1e-30  # complex: no difference is formed, no digit lost
    moved = {**x, "q": x["q"] + 1j * step * configuration_rate(x["q"], qd, floating)}
    (M,) = evaluate_reference(tree, "mass_matrix", moved)
    kinetic = 0.5 * np.einsum("bi,bij,bj->b", qd, M.imag / step, qd)
    (weight,) = evaluate_reference(tree, "bias_forces", {**x, "qd": np.zeros_like(qd)})
    (bias,) = evaluate_reference(tree, "bias_forces", x)
    scale = np.abs(qd * bias).sum(axis=1)
    error = np.einsum("bi,bi->b", qd, bias - weight) - kinetic
    assert (np.abs(error) / scale).max() <= TOLERANCE["float64"]


def configuration_rate(q: np.ndarray, qd: np.ndarray, floating: bool) -> np.ndarray:
    """Return the derivative of q. The base's position changes no inertia and is left out."""
    if not floating:
        return qd
    (x, y, z, w), (wx, wy, wz) = q[:, 3:7].T, qd[:, 3:6].T
    turn = 0.5 * np.array(
        [
            w * wx + y * wz - z * wy,
            w * wy + z * wx - x * wz,
            w * wz + x * wy - y * wx,
            -x * wx - y * wy - z * wz,
        ]
    )
    return np.hstack([np.zeros((len(q), 3)), turn.T, qd[:, 6:]])


def test_a_robot_at_rest_weighs_its_mass(evaluate: Evaluate) -> None:
    urdf, x = urdf_path("quadruped"), states("quadruped", True)
    x["qd"][:] = 0.0
    bias = evaluate(urdf, "bias_forces", x, floating_base=True)
    weight = np.linalg.norm(bias[:, :3], axis=1)
    np.testing.assert_allclose(weight, 9.81 * load_tree(urdf, True).total_mass, rtol=1e-14)


def test_free_fall_moves_no_joint(evaluate: Evaluate) -> None:
    urdf, x = urdf_path("quadruped"), states("quadruped", True)
    x["qd"][:] = x["tau"][:] = 0.0
    for function in ("forward_dynamics_aba", "forward_dynamics_crba"):
        qdd = evaluate(urdf, function, x, floating_base=True)
        np.testing.assert_allclose(np.linalg.norm(qdd[:, :3], axis=1), 9.81, rtol=1e-12)
        np.testing.assert_allclose(qdd[:, 3:], 0.0, atol=1e-9)


def test_the_place_of_a_floating_robot_does_not_matter(evaluate: Evaluate) -> None:
    urdf, x = urdf_path("quadruped"), states("quadruped", True)
    elsewhere = {**x, "q": x["q"] + np.array([1e3, -7.0, 0.1, *[0.0] * 16])}
    for function in ("inverse_dynamics", "mass_matrix", "forward_dynamics_aba"):
        np.testing.assert_array_equal(
            evaluate(urdf, function, elsewhere, floating_base=True),
            evaluate(urdf, function, x, floating_base=True),
        )


def test_gravity_is_an_acceleration_of_the_base(evaluate: Evaluate) -> None:
    urdf, x = urdf_path("arm7"), states("arm7", False)
    x |= {"f_ext": 0 * x["f_ext"], "base_velocity": 0 * x["base_velocity"]}
    lifted = {**x, "base_acceleration": np.tile([0.0, 0.0, 9.81, 0, 0, 0], (STATES, 1))}
    lifted["gravity"] = np.zeros((STATES, 3))
    result = evaluate(urdf, "inverse_dynamics_f_ext_base_motion", lifted)
    expected = evaluate(urdf, "inverse_dynamics", x)
    assert relative_errors(result, expected).max() <= TOLERANCE["float64"]
