"""Friction as an input and with a width, and rotors; test_random_robots.py has the other losses."""

from __future__ import annotations

import math

import numpy as np
import pinocchio
import pytest

import gridgen
from gridgen.check import compare_function, random_states, relative_errors
from gridgen.compiler import read_tree
from gridgen.dynamics.losses import tanh
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import ModelError, OptionError
from gridgen.options import RobotOptions
from gridgen.symbolic.scalars import FloatScalars
from helpers.oracle import Oracle
from helpers.robots import OWN, joint_text, link_text, robot_text

STATES = 20
LOSSY = robot_text(
    *(link_text(name, com="0.1 0.2 0.3") for name in ("base", "arm", "hand", "thumb")),
    joint_text("a", "base", "arm", axis="0 1 0", extra='<dynamics damping="0.5"/>'),
    joint_text("b", "arm", "hand", "prismatic", extra='<dynamics friction="0.3"/>'),
    joint_text("c", "hand", "thumb", axis="1 0 0", extra='<dynamics damping="2" friction="0.7"/>'),
)


def test_tanh_is_accurate_also_where_it_is_small() -> None:
    x = np.concatenate([np.logspace(-300, 2, 2001), np.linspace(0.01, 25.0, 2001)])
    expected = np.array([math.tanh(value) for value in x])
    for sign in (1.0, -1.0):
        found = tanh(sign * x, FloatScalars())
        assert np.abs(sign * found / expected - 1.0).max() <= 4 * np.finfo(float).eps
    assert np.array_equal(tanh(np.array([0.0, np.inf, -np.inf]), FloatScalars()), [0.0, 1.0, -1.0])


@pytest.mark.parametrize(
    ("robot", "width"),
    [
        pytest.param(LOSSY, 0.0, id="lossy-0.0"),
        pytest.param(OWN / "gripper.urdf", 0.2, id="gripper-0.2"),
        pytest.param(LOSSY, 0.2, id="lossy-0.2", marks=pytest.mark.exhaustive),
        pytest.param(OWN / "gripper.urdf", 0.0, id="gripper-0.0", marks=pytest.mark.exhaustive),
    ],
)
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
