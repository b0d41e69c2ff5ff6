"""Offsets of frames at run time, against Pinocchio's frames and against products of poses."""

from __future__ import annotations

from functools import cache

import numpy as np
import pinocchio
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import gridgen
from gridgen.check import random_states
from gridgen.errors import ParameterError
from helpers.oracle import pinocchio_model
from helpers.robots import spread
from numerics.robots import load_tree, urdf_path

FloatArray = NDArray[np.float64]
REFERENCES = {
    "local": pinocchio.LOCAL,
    "world": pinocchio.WORLD,
    "local_world_aligned": pinocchio.LOCAL_WORLD_ALIGNED,
}
ROBOTS = [("arm7", False, "flange"), ("quadruped", True, "FL_foot"), ("arm6", True, "tool0")]


@cache
def robot_of(name: str, floating_base: bool) -> gridgen.Robot:
    return gridgen.load(urdf_path(name), floating_base=floating_base)


def states(name: str, floating_base: bool) -> dict[str, FloatArray]:
    tree = load_tree(urdf_path(name), floating_base)
    return random_states(tree, 4, np.random.default_rng(len(name)))


@pytest.mark.parametrize(
    ("name", "floating_base", "link", "reference"), spread(ROBOTS, list(REFERENCES), 1)
)
def test_an_offset_is_a_frame_of_pinocchio(
    name: str, floating_base: bool, link: str, reference: str
) -> None:
    robot, x = robot_of(name, floating_base), states(name, floating_base)
    tool = x["offset"][0]
    model = pinocchio_model(urdf_path(name), floating_base)
    parent = model.frames[model.getFrameId(link)]
    place = parent.placement * pinocchio.SE3(tool)
    tip = model.addFrame(
        pinocchio.Frame("tool of a test", parent.parentJoint, place, pinocchio.OP_FRAME)
    )
    data = model.createData()
    poses = robot.forward_kinematics(x["q"], link, offset=tool)
    J = robot.jacobian(x["q"], link, reference, offset=tool)
    drift = robot.jacobian_dot_qd(x["q"], x["qd"], link, reference, offset=tool)
    for i, (q, qd) in enumerate(zip(x["q"], x["qd"], strict=True)):
        pinocchio.forwardKinematics(model, data, q, qd, np.zeros(model.nv))
        pinocchio.updateFramePlacements(model, data)
        assert_allclose(poses[i], data.oMf[tip].homogeneous, atol=1e-12)
        frame = REFERENCES[reference]
        expected = pinocchio.computeFrameJacobian(model, data, q, tip, frame)
        assert_allclose(J[i], expected, atol=1e-12)
        pinocchio.forwardKinematics(model, data, q, qd, np.zeros(model.nv))
        acceleration = pinocchio.getFrameAcceleration(model, data, tip, frame)
        if reference == "local_world_aligned":
            acceleration = pinocchio.getFrameClassicalAcceleration(model, data, tip, frame)
        assert_allclose(drift[i], acceleration.vector, atol=1e-11)


def test_offsets_differ_between_states_and_serve_lists_of_links() -> None:
    robot, x = robot_of("arm7", False), states("arm7", False)
    links = ["flange", "tool"]
    found = robot.forward_kinematics(x["q"], links, offset=x["offset"])
    poses = robot.forward_kinematics(x["q"], links)
    assert_allclose(found, poses @ x["offset"][:, None], atol=1e-14)
    every = robot.forward_kinematics(x["q"], offset=x["offset"])
    places = [robot.frame_names.index(link) for link in links]
    assert_allclose(every[:, places], found, atol=1e-14)


def test_operational_space_is_about_the_tool() -> None:
    robot, x = robot_of("arm7", False), states("arm7", False)
    q, qd, tool = x["q"], x["qd"], x["offset"]
    J = robot.jacobian(q, "flange", offset=tool)
    inverse = robot.mass_matrix_inverse(q)
    A = J @ inverse @ J.swapaxes(1, 2)
    Lambda = robot.operational_space_inertia(q, "flange", offset=tool)
    assert_allclose(Lambda @ A, np.tile(np.eye(6), (4, 1, 1)), atol=1e-9)
    assert_allclose(
        robot.point_inertia(q, "flange", offset=tool) @ A[:, :3, :3],
        np.tile(np.eye(3), (4, 1, 1)),
        atol=1e-9,
    )
    Jbar = robot.dynamically_consistent_inverse(q, "flange", offset=tool)
    assert_allclose(J @ Jbar, np.tile(np.eye(6), (4, 1, 1)), atol=1e-9)
    drift = robot.jacobian_dot_qd(q, qd, "flange", offset=tool)
    free = np.einsum("bij,bjk,bk->bi", J, inverse, robot.bias_forces(q, qd)) - drift
    bias = robot.operational_space_bias(q, qd, "flange", offset=tool)
    assert_allclose(np.einsum("bij,bj->bi", A, bias), free, rtol=1e-8, atol=1e-8)


def test_gradients_by_an_offset() -> None:
    robot, x = robot_of("arm7", False), states("arm7", False)
    q, tool = x["q"], x["offset"]
    bar = np.random.default_rng(3).normal(size=(4, 4, 4))
    by_q, by_offset = robot.vjp(
        "forward_kinematics", bar, q, "flange", wrt=("q", "offset"), offset=tool
    )
    pose = robot.forward_kinematics(q, "flange")
    assert_allclose(by_offset[:, :3], (pose.swapaxes(1, 2) @ bar)[:, :3], atol=1e-12)
    own = robot.vjp("forward_kinematics", bar @ tool.swapaxes(1, 2), q, "flange")
    assert_allclose(by_q, own, atol=1e-12)


def test_an_offset_is_validated() -> None:
    robot, x = robot_of("arm7", False), states("arm7", False)
    wrong = x["offset"].copy()
    for entry in ((2, 3, 0), (2, 0, 0)):
        wrong[...] = x["offset"]
        wrong[entry] += 0.1
        for _ in range(2):  # also where a launch is known
            with pytest.raises(ParameterError, match=r"offset\[2\] is no pose"):
                robot.jacobian(x["q"], "flange", offset=wrong)
            robot.jacobian(x["q"], "flange", offset=x["offset"])
    with pytest.raises(ParameterError, match="offset is no pose"):
        robot.jacobian(x["q"], "flange", offset=np.diag([1.0, 1, -1, 1]))
