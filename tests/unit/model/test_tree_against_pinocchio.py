"""The tree of a real robot is Pinocchio's: order, names, placements, inertias, frames, limits."""

from __future__ import annotations

import warnings

import numpy as np
import pinocchio
import pytest

from gridgen.errors import GridGenWarning
from gridgen.model.readers.pinocchio import from_model
from gridgen.model.readers.urdf import parse_urdf
from gridgen.model.tree import Body, KinematicTree, build_tree
from gridgen.options import RobotOptions
from helpers.robots import example_urdf

ROBOTS = [
    "panda",
    "ur10_robot",
    "xarm7",
    "kinova",
    "double_pendulum_continuous",
    "allegro_right_hand",
    "anymal_b_simple_description/robots/anymal",
    "go2",
    "solo12",
    "b1-z1",
    "baxter",
    "tiago",
    "pr2",
    "icub_reduced",
    "talos_reduced",
    "g1_29dof_with_hand_rev_1_0",
    "romeo_small",
    "borinot_flying_arm_2",
]

TOLERANCE = 1e-12
"""Both sides compute in float64 from the same decimals; merged links sum a few dozen terms."""


def load(name: str, floating: bool) -> tuple[KinematicTree, pinocchio.Model]:
    path = str(example_urdf(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridGenWarning)
        tree = build_tree(parse_urdf(path), RobotOptions(floating_base=floating))
    if floating:
        return tree, pinocchio.buildModelFromUrdf(path, pinocchio.JointModelFreeFlyer(), mimic=True)
    return tree, pinocchio.buildModelFromUrdf(path, mimic=True)


@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
@pytest.mark.parametrize("name", ROBOTS)
def test_tree_is_pinocchios(name: str, floating: bool) -> None:
    tree, model = load(name, floating)
    compare(tree, model)


@pytest.mark.parametrize("name", ["panda", "tiago", "pr2", "borinot_flying_arm_2"])
@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
def test_tree_of_a_loaded_model_is_that_models(name: str, floating: bool) -> None:
    _, model = load(name, floating)
    compare(build_tree(from_model(model)), model)


def compare(tree: KinematicTree, model: pinocchio.Model) -> None:
    assert list(tree.joint_names) == list(model.names)[1:]
    assert list(tree.parents) == [parent - 1 for parent in list(model.parents)[1:]]
    for index, body in enumerate(tree.bodies):
        compare_body(tree, index, body, model)
    compare_coordinates(tree, model)
    compare_frames(tree, model)
    assert tree.total_mass == pytest.approx(pinocchio.computeTotalMass(model), rel=TOLERANCE)


def compare_body(tree: KinematicTree, index: int, body: Body, model: pinocchio.Model) -> None:
    outer = np.eye(3) if body.parent < 0 else np.array(tree.bodies[body.parent].link_rotation)
    alignment = np.array(body.link_rotation)
    np.testing.assert_allclose(alignment @ alignment.T, np.eye(3), atol=1e-15)

    placement = model.jointPlacements[index + 1]
    rotation = outer @ np.array(body.rotation) @ alignment.T
    np.testing.assert_allclose(rotation, placement.rotation, atol=TOLERANCE)
    np.testing.assert_allclose(
        outer @ np.array(body.translation), placement.translation, atol=TOLERANCE
    )

    inertia = model.inertias[index + 1]
    # Pinocchio's 6x6 matrix about the link frame's origin, linear part first.
    matrix = inertia.matrix()
    scale = max(1.0, float(np.abs(matrix).max()))
    assert body.mass == pytest.approx(inertia.mass, rel=TOLERANCE)
    np.testing.assert_allclose(
        alignment @ np.array(body.first_moment),
        inertia.mass * inertia.lever,
        atol=TOLERANCE * scale,
    )
    np.testing.assert_allclose(
        alignment @ np.array(body.inertia) @ alignment.T, matrix[3:, 3:], atol=TOLERANCE * scale
    )
    assert np.array_equal(body.inertia, np.transpose(body.inertia))

    if body.kind != "free":
        check_axis(body, model.joints[index + 1], model)


def check_axis(body: Body, joint: pinocchio.JointModel, model: pinocchio.Model) -> None:
    """The canonical z axis is the axis along which Pinocchio's joint moves."""
    data = joint.createData()
    joint.calc(data, pinocchio.neutral(model))
    subspace = np.array(data.S).reshape(6, -1)[:, 0] / body.multiplier
    axis = np.array(body.link_rotation)[:, 2]
    expected = np.zeros(6)
    expected[3 if body.kind == "revolute" else 0 :][:3] = axis
    np.testing.assert_allclose(subspace, expected, atol=TOLERANCE)


def compare_coordinates(tree: KinematicTree, model: pinocchio.Model) -> None:
    # A continuous joint is one angle here; cosine and sine, two coordinates, there.
    assert tree.nv == model.nv
    shared_here, shared_there = [], []
    two_there = 0
    for index, body in enumerate(tree.bodies):
        joint = model.joints[index + 1]
        assert body.v_index == joint.idx_v
        if body.mimics:
            continue
        assert body.nv == joint.nv
        if body.nq == joint.nq:
            shared_here += range(body.q_index, body.q_index + body.nq)
            shared_there += range(joint.idx_q, joint.idx_q + joint.nq)
        else:
            assert (body.nq, joint.nq) == (1, 2)
            assert tree.lower_limits[body.q_index] == -np.inf
            assert tree.upper_limits[body.q_index] == np.inf
            two_there += 1
    assert tree.nq == model.nq - two_there
    limits_are_equal(
        np.array(tree.lower_limits)[shared_here], model.lowerPositionLimit[shared_there]
    )
    limits_are_equal(
        np.array(tree.upper_limits)[shared_here], model.upperPositionLimit[shared_there]
    )
    limits_are_equal(np.array(tree.effort_limits), model.upperEffortLimit)
    limits_are_equal(np.array(tree.velocity_limits), model.upperVelocityLimit)
    assert len(tree.armature) == model.nv


def limits_are_equal(ours: np.ndarray, theirs: np.ndarray) -> None:
    # "No limit" is infinity here and the largest float64 there.
    np.testing.assert_array_equal(np.clip(ours, -1e300, 1e300), np.clip(theirs, -1e300, 1e300))


def compare_frames(tree: KinematicTree, model: pinocchio.Model) -> None:
    theirs = {frame.name: frame for frame in model.frames if frame.type == pinocchio.FrameType.BODY}
    # The world, under the free joint of a loaded model, is a frame here.
    frames = [frame for frame in tree.frames if frame.name != "universe"]
    assert {frame.name for frame in frames} == set(theirs)
    for frame in frames:
        other = theirs[frame.name]
        assert frame.body == other.parentJoint - 1
        np.testing.assert_allclose(frame.rotation, other.placement.rotation, atol=TOLERANCE)
        np.testing.assert_allclose(frame.translation, other.placement.translation, atol=TOLERANCE)


def test_the_robots_cover_what_differs_between_robots() -> None:
    trees = [load(name, False)[0] for name in ROBOTS]
    bodies = [body for tree in trees for body in tree.bodies]
    assert any(body.mimics for body in bodies)
    assert {body.kind for body in bodies} == {"revolute", "prismatic"}
    assert any(tree.is_serial for tree in trees)
    assert any(not tree.is_serial for tree in trees)
    assert any(tree.nq < load(name, False)[1].nq for tree, name in zip(trees, ROBOTS, strict=True))
