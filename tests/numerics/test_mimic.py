"""Mimic joints against Pinocchio's own, and against constraints put on independent joints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gridgen.check import TOLERANCE, random_states, relative_errors
from gridgen.errors import ModelError
from helpers.oracle import Oracle
from helpers.robots import joint_text, link_text, robot_text
from numerics.robots import Evaluate, evaluate_on_reference, load_robot, load_tree, urdf_path

STATES = 20
FUNCTIONS = ["inverse_dynamics", "bias_forces", "mass_matrix", "forward_dynamics_crba"]
#: Accelerations of these well-conditioned robots lose up to three digits.
ACCELERATION_TOLERANCE = 1e-9

#: Robots with mimic joints that Pinocchio ties together itself.
PINOCCHIOS = ["panda", "baxter", "tiago_pro", "pr2"]


def check(
    evaluate: Evaluate, urdf: Path | str, function: str, floating: bool, *, mimic: bool
) -> None:
    tree = load_tree(urdf, floating)
    assert tree.has_mimic
    x = random_states(tree, STATES, np.random.default_rng(3))
    del x["f_ext"]
    result = evaluate(urdf, function, x, floating_base=floating)
    expected = Oracle(tree, urdf, mimic=mimic).evaluate(function, x)
    limit = ACCELERATION_TOLERANCE if "forward" in function else TOLERANCE["float64"]
    assert relative_errors(result, expected).max() <= limit


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", PINOCCHIOS)
def test_mimic_joints_are_pinocchios(name: str, function: str) -> None:
    urdf = urdf_path(name)
    model = Oracle(load_tree(urdf), urdf, mimic=True).model
    assert model.nv == load_tree(urdf).nv
    check(evaluate_on_reference, urdf, function, False, mimic=True)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_compiled_mimic_joints_are_pinocchios(evaluate: Evaluate, function: str) -> None:
    check(evaluate, urdf_path("panda"), function, False, mimic=True)


def chain_of_mimics(kind: str, multiplier: str, offset: str) -> str:
    """Return a hand: two fingers, whose joints follow one another and, last, the leader."""
    follow = f'multiplier="{multiplier}" offset="{offset}"'
    return robot_text(
        link_text("palm"),
        link_text("thumb", com="0.1 0 0.2"),
        link_text("finger", com="0 0.1 0.1", rpy="0.3 0.2 0.1"),
        link_text("tip", mass="0.3"),
        link_text("nail", mass="0.2", com="0.1 0.1 0"),
        joint_text("lead", "palm", "thumb", kind, axis="0 1 0"),
        joint_text(
            "a", "palm", "finger", kind, axis="0.6 0 0.8", extra=f'<mimic joint="b" {follow}/>'
        ),
        joint_text("b", "finger", "tip", kind, rpy="0.4 0 1", extra='<mimic joint="lead"/>'),
        joint_text(
            "c", "thumb", "nail", kind, axis="1 0 0", extra='<mimic joint="a" multiplier="2"/>'
        ),
    )


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("kind", ["revolute", "prismatic", "continuous"])
def test_chains_of_mimics_keep_their_constraints(
    evaluate: Evaluate, kind: str, function: str
) -> None:
    urdf = chain_of_mimics(kind, "-1.5", "0.25")
    factors = {body.joint: (body.multiplier, body.offset) for body in load_tree(urdf).bodies}
    assert factors == {"lead": (1, 0), "b": (1, 0), "a": (-1.5, 0.25), "c": (-3.0, 0.5)}
    check(evaluate, urdf, function, False, mimic=False)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_leader_may_come_after_its_follower(evaluate: Evaluate, function: str) -> None:
    urdf = urdf_path("gripper")
    bodies = load_tree(urdf).bodies
    joints = [body.joint for body in bodies]
    follower, leader = joints.index("left_slide"), joints.index("right_slide")
    assert follower < leader
    assert bodies[follower].mimics
    assert bodies[follower].v_index == bodies[leader].v_index
    check(evaluate, urdf, function, False, mimic=False)


@pytest.mark.parametrize("multiplier", ["0", "1", "-1"])
def test_multipliers_that_fold(evaluate: Evaluate, multiplier: str) -> None:
    urdf = chain_of_mimics("revolute", multiplier, "0")
    for function in FUNCTIONS:
        check(evaluate, urdf, function, False, mimic=False)


def test_mimic_joints_on_a_floating_base(evaluate: Evaluate) -> None:
    urdf = chain_of_mimics("revolute", "0.5", "-0.1")
    for function in FUNCTIONS:
        check(evaluate, urdf, function, True, mimic=False)


def test_articulated_bodies_are_refused_with_the_remedy() -> None:
    robot = load_robot(urdf_path("panda"))
    one = np.zeros(robot.nv)
    with pytest.raises(ModelError, match='use method="crba"'):
        robot.forward_dynamics(np.zeros(robot.nq), one, one, method="aba")
    np.testing.assert_array_equal(
        robot.forward_dynamics(np.zeros(robot.nq), one, one),
        robot.forward_dynamics(np.zeros(robot.nq), one, one, method="crba"),
    )
