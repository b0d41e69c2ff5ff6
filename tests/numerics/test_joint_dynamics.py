"""Damping, Coulomb friction and armature of joints, in every function."""

from __future__ import annotations

import numpy as np
import pytest

from gridgen.check import TOLERANCE, random_states, relative_errors
from helpers.oracle import Oracle
from helpers.robots import joint_text, link_text, robot_text
from numerics.robots import Evaluate, load_tree, urdf_path

STATES = 20
#: Accelerations of these well-conditioned robots lose up to three digits.
ACCELERATION_TOLERANCE = 1e-9
FUNCTIONS = [
    "inverse_dynamics",
    "bias_forces",
    "mass_matrix",
    "forward_dynamics_aba",
    "forward_dynamics_crba",
]

DAMPING, FRICTION = np.array([0.5, 0.0, 2.0]), np.array([0.0, 0.3, 0.7])
LOSSY = robot_text(
    *(link_text(name, com="0.1 0.2 0.3") for name in ("base", "arm", "hand", "thumb")),
    joint_text("a", "base", "arm", axis="0 1 0", extra='<dynamics damping="0.5"/>'),
    joint_text("b", "arm", "hand", "prismatic", extra='<dynamics friction="0.3"/>'),
    joint_text("c", "hand", "thumb", axis="1 0 0", extra='<dynamics damping="2" friction="0.7"/>'),
)


def tolerance(function: str) -> float:
    return ACCELERATION_TOLERANCE if "forward" in function else TOLERANCE["float64"]


def states(urdf: object, **options: object) -> dict[str, np.ndarray]:
    x = random_states(load_tree(urdf, **options), STATES, np.random.default_rng(4))
    del x["f_ext"]
    return x


def test_losses_are_left_out_unless_asked_for(evaluate: Evaluate) -> None:
    x = states(LOSSY)
    for function in FUNCTIONS:
        expected = Oracle(load_tree(LOSSY), LOSSY).evaluate(function, x)
        assert relative_errors(evaluate(LOSSY, function, x), expected).max() <= tolerance(function)


@pytest.mark.parametrize("suffix", ["", "_f_ext_base_motion"])
def test_losses_oppose_the_motion(evaluate: Evaluate, suffix: str) -> None:
    x = states(LOSSY)
    x["qd"][0] = 0.0  # at rest there is no friction
    x["qd"][1, 1:] = 0.0
    x |= {"f_ext": np.zeros((STATES, 3, 6))}
    x |= {name: np.zeros((STATES, 6)) for name in ("base_velocity", "base_acceleration")}
    lossless = Oracle(load_tree(LOSSY), LOSSY)
    losses = DAMPING * x["qd"] + FRICTION * np.sign(x["qd"])
    for function in FUNCTIONS:
        if function == "mass_matrix":
            expected, name = lossless.evaluate(function, x), function
        elif "forward" in function:
            expected = lossless.evaluate(function, {**x, "tau": x["tau"] - losses})
            name = function + suffix
        else:
            expected, name = lossless.evaluate(function, x) + losses, function + suffix
        result = evaluate(LOSSY, name, x, joint_dynamics=True)
        assert relative_errors(result, expected).max() <= tolerance(function), function


def test_losses_of_a_mimic_joint_act_on_its_leader(evaluate: Evaluate) -> None:
    follower = '<dynamics damping="2" friction="0.7"/><mimic joint="a" multiplier="-3"/>'
    urdf = robot_text(
        *(link_text(name) for name in ("base", "arm", "hand")),
        joint_text("a", "base", "arm", axis="0 1 0", extra='<dynamics damping="0.5"/>'),
        joint_text("b", "arm", "hand", axis="1 0 0", extra=follower),
    )
    x = states(urdf)
    # The follower turns with -3 qd against a loss that is carried back through -3.
    losses = (0.5 + 9 * 2) * x["qd"] + 3 * 0.7 * np.sign(x["qd"])
    expected = Oracle(load_tree(urdf), urdf).evaluate("inverse_dynamics", x) + losses
    result = evaluate(urdf, "inverse_dynamics", x, joint_dynamics=True)
    assert relative_errors(result, expected).max() <= TOLERANCE["float64"]


@pytest.mark.parametrize("armature", [0.3, (0.1, 0.0, 2.5)], ids=["one number", "per velocity"])
@pytest.mark.parametrize("suffix", ["", "_f_ext_base_motion"])
def test_armature_is_pinocchios(evaluate: Evaluate, armature: object, suffix: str) -> None:
    x = states(LOSSY)
    x |= {"f_ext": np.ones((STATES, 3, 6))}
    x |= {name: np.zeros((STATES, 6)) for name in ("base_velocity", "base_acceleration")}
    oracle = Oracle(load_tree(LOSSY), LOSSY)
    oracle.model.armature[:] = armature
    for function in FUNCTIONS:
        name = function if function == "mass_matrix" else function + suffix
        given = x if suffix else {key: value for key, value in x.items() if key != "f_ext"}
        result = evaluate(LOSSY, name, x, armature=armature)
        error = relative_errors(result, oracle.evaluate(function, given)).max()
        assert error <= tolerance(function), f"{function}: {error:.1e}"


def test_armature_on_a_floating_base_has_one_number_per_velocity(evaluate: Evaluate) -> None:
    armature = tuple(0.1 * np.arange(9))
    options = {"floating_base": True, "armature": armature}
    x = states(LOSSY, **options)
    oracle = Oracle(load_tree(LOSSY, True), LOSSY)
    oracle.model.armature[:] = armature
    for function in FUNCTIONS:
        error = relative_errors(
            evaluate(LOSSY, function, x, **options), oracle.evaluate(function, x)
        )
        assert error.max() <= tolerance(function), function


def test_armature_makes_a_singular_robot_solvable(evaluate: Evaluate) -> None:
    urdf = urdf_path("romeo_laas_small")
    assert load_tree(urdf).singular_joint is not None
    tree = load_tree(urdf, armature=0.1)
    assert tree.singular_joint is None
    x = states(urdf, armature=0.1)
    M, bias = (evaluate(urdf, name, x, armature=0.1) for name in ("mass_matrix", "bias_forces"))
    qdd = evaluate(urdf, "forward_dynamics_crba", x, armature=0.1)
    expected = np.linalg.solve(M, (x["tau"] - bias)[..., None])[..., 0]
    assert relative_errors(qdd, expected).max() <= ACCELERATION_TOLERANCE
