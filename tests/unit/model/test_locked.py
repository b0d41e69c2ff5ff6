"""Joints that are locked: Pinocchio's reduced model, and the same robot standing still."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pinocchio
import pytest
from numpy.testing import assert_allclose

from gridgen.compiler import load
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import GridGenWarning, OptionError
from gridgen.model.readers.urdf import parse_urdf
from gridgen.model.tree import KinematicTree, build_tree
from gridgen.options import RobotOptions
from helpers.robots import OWN, SCREWS, described, example_urdf, joint_text, link_text, robot_text
from unit.model.test_tree_against_pinocchio import compare

KINDS = ("revolute", "continuous", "prismatic", "planar", "floating")
# One joint of every kind below a slider, each with an offset and a skew axis.
EVERY_KIND = robot_text(
    *(link_text(name) for name in ("base", "slide", *KINDS)),
    joint_text("slider", "base", "slide", "prismatic", xyz="0 0.1 0", axis="0 1 1"),
    *(
        joint_text(f"{k}_joint", "slide", k, k, xyz="0.1 0 0.2", rpy="0.3 0.1 0.2", axis="1 2 3")
        for k in KINDS
    ),
)


@pytest.mark.parametrize("name", ["ur10_robot", "solo12", "borinot_flying_arm_2", "romeo_small"])
def test_a_locked_robot_is_pinocchios_reduced_model(name: str) -> None:
    path, rng = str(example_urdf(name)), np.random.default_rng(len(name))
    model = pinocchio.buildModelFromUrdf(path, pinocchio.JointModelFreeFlyer())
    chosen = [j for j in range(2, model.njoints) if model.joints[j].nq == 1 and rng.random() < 0.5]
    q = pinocchio.neutral(model)
    for joint in chosen:
        q[model.idx_qs[joint]] = rng.uniform(-0.1, 0.1)
    lock = {model.names[j]: q[model.idx_qs[j]] for j in chosen}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridGenWarning)
        tree = build_tree(parse_urdf(path), RobotOptions(floating_base=True, lock=lock))
    compare(tree, pinocchio.buildReducedModel(model, chosen, q))


def built(source: object, **options: object) -> KinematicTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridGenWarning)
        return build_tree(described(source), RobotOptions(**options))


def at_rest(tree: KinematicTree, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mass matrix, and the forces that hold the robot, at one position."""
    (mass,) = evaluate_reference(tree, "mass_matrix", {"q": q[None]})
    gravity = np.array([0.1, 0.2, -9.81])
    given = {"q": q[None], "qd": np.zeros((1, tree.nv)), "gravity": gravity}
    return mass[0], evaluate_reference(tree, "bias_forces", given)[0][0]


LOCKED = [
    (OWN / "gripper.urdf", {"right_slide": 0.013}),
    (OWN / "gripper.urdf", {"thumb_base": np.float32(0.5), "wrist_roll": 3}),
    (EVERY_KIND, {"planar_joint": [0.1, -0.2, 0.3], "continuous_joint": 1.1}),
    (EVERY_KIND, {"floating_joint": (0.1, 0.2, 0.3, 0.5, -0.5, 0.5, 0.5), "prismatic_joint": 0.2}),
    (EVERY_KIND, {"slider": -0.3}),
    (SCREWS, {"c_screw": 0.7, "d": -0.2}),
]


@pytest.mark.parametrize(("source", "lock"), LOCKED)
def test_a_locked_robot_is_the_same_robot_standing_still(source: object, lock: dict) -> None:
    whole, tree = built(source, armature=0.1), built(source, armature=0.1, lock=lock)
    rng = np.random.default_rng(0)
    q, moving_q, moving_v = rng.uniform(0.0, 0.01, whole.nq), [], []
    for body in whole.bodies:
        if body.mimics:
            continue
        joint = body.joint.removesuffix("_x").removesuffix("_y")
        own_q, own_v = (
            range(body.q_index, body.q_index + body.nq),
            range(body.v_index, body.v_index + body.nv),
        )
        if body.kind == "free":
            q[body.q_index + 3 : body.q_index + 7] = 0.5
        if joint in lock:
            index = body.q_index - min(b.q_index for b in whole.bodies if b.joint.startswith(joint))
            q[list(own_q)] = np.atleast_1d(lock[joint])[index : index + body.nq]
        else:
            moving_q += own_q
            moving_v += own_v
    mass, forces = at_rest(whole, q)
    own_mass, own_forces = at_rest(tree, q[moving_q])
    assert 0 < tree.nv < whole.nv
    scale = np.abs(mass).max()
    assert_allclose(own_mass, mass[np.ix_(moving_v, moving_v)], atol=1e-13 * scale, rtol=1e-12)
    assert_allclose(own_forces, forces[moving_v], atol=1e-12 * np.abs(forces).max(), rtol=1e-12)
    assert tree.frame_names == whole.frame_names


REFUSED = [
    ({"thumb": 0.1}, 'lock has "thumb", which is not a joint'),
    (
        {"left_slide": 0.1},
        '"left_slide", a joint that mimics "right_slide"; lock that joint instead',
    ),
    ({"grasp_centre_fixed": 0.0}, '"grasp_centre_fixed", a joint that is already fixed; leave it'),
    ({"wrist_roll": "0.1"}, "lock a continuous joint at a number, finite"),
    ({"wrist_roll": float("nan")}, '"wrist_roll" at nan; lock a continuous joint at'),
    ({"wrist_roll": True}, '"wrist_roll" at True'),
    ({"wrist_roll": (0.1, 0.2)}, '"wrist_roll" at (0.1, 0.2)'),
    ({3: 0.1}, "lock has the key 3; give a string"),
]


@pytest.mark.parametrize(("lock", "message"), REFUSED)
def test_what_cannot_be_locked_is_refused(lock: dict, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        built(OWN / "gripper.urdf", lock=lock)


def test_positions_have_as_many_numbers_as_the_joint_has_coordinates() -> None:
    with pytest.raises(OptionError, match=r"lock a planar joint at \(x, y, angle\), finite"):
        built(EVERY_KIND, lock={"planar_joint": 0.1})
    with pytest.raises(OptionError, match="at a quaternion of norm 0"):
        built(EVERY_KIND, lock={"floating_joint": [0.0] * 7})
    with pytest.raises(OptionError, match=r"lock is 0\.1; give positions by joint"):
        RobotOptions(lock=0.1)


def test_a_position_beyond_limits_is_warned_of() -> None:
    with pytest.warns(GridGenWarning, match='"thumb_base": is locked at 90.0, beyond its'):
        build_tree(parse_urdf(OWN / "gripper.urdf"), RobotOptions(lock={"thumb_base": 90.0}))


def test_functions_of_a_locked_robot_are_its_own() -> None:
    """Text that was cached for the whole robot, or for another position, is not taken for it."""
    locks = (None, {"joint4": -1.3}, {"joint4": -1.4})
    arms = [load(OWN / "arm7.urdf", lock=lock) for lock in locks]
    assert [arm.nv for arm in arms] == [7, 6, 6]
    assert len({arm.handle for arm in arms}) == 3
    q = np.full((1, 6), 0.2)
    one, other = (arm.mass_matrix(q) for arm in arms[1:])
    assert not np.allclose(one, other)
