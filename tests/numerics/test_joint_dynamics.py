"""Damping, friction, armature and rotors of joints, in every function."""

from __future__ import annotations

import math

import numpy as np
import pinocchio
import pytest

import gridgen
from gridgen.check import TOLERANCE, compare_function, random_states, relative_errors
from gridgen.compiler import read_tree
from gridgen.dynamics.friction import tanh
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import ModelError, OptionError
from gridgen.options import RobotOptions
from gridgen.symbolic.scalars import FloatScalars
from helpers.oracle import Oracle
from helpers.robots import OWN, joint_text, link_text, robot_text
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


def test_tanh_is_accurate_also_where_it_is_small() -> None:
    x = np.concatenate([np.logspace(-300, 2, 2001), np.linspace(0.01, 25.0, 2001)])
    expected = np.array([math.tanh(value) for value in x])
    for sign in (1.0, -1.0):
        found = tanh(sign * x, FloatScalars())
        assert np.abs(sign * found / expected - 1.0).max() <= 4 * np.finfo(float).eps
    assert np.array_equal(tanh(np.array([0.0, np.inf, -np.inf]), FloatScalars()), [0.0, 1.0, -1.0])


@pytest.mark.parametrize("width", [0.0, 0.2])
@pytest.mark.parametrize("robot", [LOSSY, OWN / "gripper.urdf"], ids=["lossy", "gripper"])
def test_friction_is_an_input(robot: object, width: float) -> None:
    """Its coefficients, and its smooth form, in compiled code too."""
    options = {"friction_width": width, "parameters": ("joint_friction", "damping")}
    tree = read_tree(robot, RobotOptions(floating_base=robot == LOSSY, **options))
    drawn = random_states(tree, STATES, np.random.default_rng(1))
    x = {name: value for name, value in drawn.items() if name != "f_ext" and "base" not in name}
    oracle = Oracle(tree, robot)
    for function in ("inverse_dynamics", "bias_forces"):
        (found,) = evaluate_reference(tree, function, x)
        assert relative_errors(found, oracle.evaluate(function, x)).max() <= 1e-12
    if robot == LOSSY:
        return
    compiled = gridgen.load(robot, **options)
    for function in ("inverse_dynamics_gradient", "step_gradient_semi_implicit"):
        row = compare_function(tree, function, "float64", x, compiled.evaluate(function, x))
        assert row.passed, row
    given = {name: x[name] for name in ("joint_friction", "damping")}
    primal, bar = [x[name] for name in ("q", "qd", "qdd")], x["tau"]
    pulled = compiled.vjp("inverse_dynamics", bar, *primal, wrt="joint_friction", **given)
    sign = np.tanh(x["qd"] / width) if width else np.sign(x["qd"])
    assert np.abs(pulled - sign * bar).max() <= 1e-14
    with pytest.raises(ModelError, match="constant friction"):
        compiled.inverse_dynamics(*primal, schedule="scan", **given)


def test_friction_width_needs_friction() -> None:
    with pytest.raises(OptionError, match="no friction"):
        read_tree(LOSSY, RobotOptions(friction_width=0.1))
    with pytest.raises(OptionError, match="friction_width"):
        RobotOptions(friction_width=-1.0)


#: A motor at the elbow of an arm that turns about another axis.
MOTORS = robot_text(
    *(link_text(name, com="0.1 0.2 0.3") for name in ("base", "arm", "hand", "tip")),
    joint_text("a", "base", "arm", axis="0 1 0"),
    joint_text("b", "arm", "hand", axis="0.6 0 0.8", rpy="0.3 -0.4 0.5"),
    joint_text("c", "hand", "tip", "prismatic", axis="1 0 0"),
)
ROTORS = {"a": (2e-3, -30.0), "b": (1e-3, 50.0), "c": (3e-3, 40.0)}


def test_rotors_add_pinocchios_armature() -> None:
    tree = read_tree(MOTORS, RobotOptions(rotors=ROTORS, armature=0.1))
    model = pinocchio.buildModelFromXML(MOTORS)
    for index, (inertia, ratio) in enumerate(ROTORS.values()):
        model.rotorInertia[index], model.rotorGearRatio[index] = inertia, ratio
    expected = 0.1 + model.rotorInertia * model.rotorGearRatio**2
    assert np.allclose(tree.armature, expected, rtol=1e-15)


@pytest.mark.parametrize("floating", [False, True])
def test_gyroscopic_rotors_add_their_angular_momentum(floating: bool) -> None:
    """Lagrange's equations of the momentum J r qd about the axis, carried by the parent link."""
    options = {"floating_base": floating, "rotors": ROTORS}
    plain = read_tree(MOTORS, RobotOptions(**options))
    tree = read_tree(MOTORS, RobotOptions(**options, gyroscopic=True))
    x = random_states(plain, STATES, np.random.default_rng(2))
    x.pop("f_ext")
    model = pinocchio.buildModelFromXML(MOTORS, *[pinocchio.JointModelFreeFlyer()] * floating)
    data, expected = model.createData(), []
    for q, qd, qdd in zip(x["q"], x["qd"], x["qdd"], strict=True):
        pinocchio.forwardKinematics(model, data, q, qd, qdd)
        pinocchio.computeJointJacobians(model, data, q)
        total = np.zeros(model.nv)
        for name, (inertia, ratio) in ROTORS.items():
            joint = model.getJointId(name)
            parent, j = model.parents[joint], model.joints[joint].idx_v
            if name == "c" or not parent:
                continue
            to_parent = model.jointPlacements[joint].rotation
            axis = to_parent @ (np.array([0.6, 0.0, 0.8]) if name == "b" else np.array([0, 1, 0]))
            J = pinocchio.getJointJacobian(model, data, parent, pinocchio.LOCAL)[3:]
            spin, change = data.v[parent].angular, data.a[parent].angular
            momentum = inertia * ratio * axis
            total += J.T @ (momentum * qdd[j] + np.cross(spin, momentum * qd[j]))
            total[j] += momentum @ change
        expected.append(total)
    pair = [evaluate_reference(one, "inverse_dynamics", x)[0] for one in (tree, plain)]
    assert np.abs(pair[0] - pair[1] - expected).max() <= 1e-12 * np.abs(pair[0]).max()
    assert np.abs(np.array(expected)).max() > 1e-3


@pytest.mark.parametrize(
    ("rotors", "message"),
    [
        ({"x": (1.0, 1.0)}, "not a joint"),
        ({"a": 1.0}, "gear ratio"),
        ({"a": (-1.0, 1.0)}, "inertia >= 0"),
        ({"a": (1.0, float("nan"))}, "gear ratio"),
    ],
)
def test_invalid_rotors_are_refused(rotors: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_tree(MOTORS, RobotOptions(rotors=rotors))
    with pytest.raises(OptionError, match="without rotors"):
        RobotOptions(gyroscopic=True)
