"""The URDF files of robots/: they load, and their numbers are those of things that can exist."""

import math
from contextlib import nullcontext
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pinocchio
import pytest

from gridgen.errors import GridGenWarning
from gridgen.model.readers.urdf import parse_urdf
from gridgen.model.tree import build_tree
from gridgen.options import RobotOptions

ROBOTS = Path(__file__).resolve().parents[3] / "robots"

# name: (moving joints, mimic joints among them, total mass in kg with the base)
EXPECTED = {
    "arm6": (6, 0, 20.9939),
    "arm7": (7, 0, 19.83),
    "cart_pole": (2, 0, 1.75),
    "gripper": (8, 5, 0.965),
    "humanoid": (31, 0, 42.24),
    "pendulum": (1, 0, 1.0),
    "quadruped": (12, 0, 12.08),
    "two_link": (2, 0, 3.2),
}

# Joints that roll or yaw turn the other way on the other side of a mirrored robot.
TURNS_OVER = ("roll", "yaw", "_hip_joint")


def path_of(name):
    return ROBOTS / f"{name}.urdf"


def pinocchio_model(name, floating_base=False):
    arguments = [pinocchio.JointModelFreeFlyer()] if floating_base else []
    return pinocchio.buildModelFromUrdf(str(path_of(name)), *arguments)


def moving_joints(name):
    joints = ElementTree.parse(path_of(name)).getroot().iter("joint")
    return [joint for joint in joints if joint.get("type") not in (None, "fixed")]


def number(element, tag, attribute):
    return float(element.find(tag).get(attribute))


def inertia_matrix(inertial):
    entry = {key: float(value) for key, value in inertial.find("inertia").items()}
    return np.array(
        [
            [entry["ixx"], entry["ixy"], entry["ixz"]],
            [entry["ixy"], entry["iyy"], entry["iyz"]],
            [entry["ixz"], entry["iyz"], entry["izz"]],
        ]
    )


def symmetric(upper):
    return np.triu(upper) + np.triu(upper, 1).T


def test_every_file_is_expected():
    assert sorted(path.stem for path in ROBOTS.glob("*.urdf")) == sorted(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_pinocchio_finds_the_expected_joints_and_mass(name):
    model = pinocchio_model(name, floating_base=True)
    joints, followers, mass = EXPECTED[name]
    assert model.name == name
    assert model.nv == 6 + joints
    assert sum(joint.find("mimic") is not None for joint in moving_joints(name)) == followers
    assert pinocchio.computeTotalMass(model) == pytest.approx(mass, rel=1e-12)


@pytest.mark.parametrize("name", EXPECTED)
def test_inertias_are_physical(name):
    for inertial in ElementTree.parse(path_of(name)).getroot().iter("inertial"):
        assert number(inertial, "mass", "value") > 0.0
        small, middle, large = np.linalg.eigvalsh(inertia_matrix(inertial))
        assert small > 0.0
        assert large < small + middle


@pytest.mark.parametrize("name", EXPECTED)
def test_limits_and_joint_dynamics_are_sensible(name):
    for joint in moving_joints(name):
        limit = joint.find("limit")
        assert float(limit.get("effort")) >= 0.0
        assert float(limit.get("velocity")) > 0.0
        if joint.get("type") != "continuous":
            assert float(limit.get("lower")) < float(limit.get("upper"))
        assert number(joint, "dynamics", "damping") > 0.0
        assert number(joint, "dynamics", "friction") >= 0.0
        axis = [float(x) for x in joint.find("axis").get("xyz").split()]
        assert math.hypot(*axis) == pytest.approx(1.0, abs=1e-15)


MASSLESS_BASE = {"cart_pole", "gripper", "pendulum", "two_link"}


@pytest.mark.parametrize("floating_base", [False, True])
@pytest.mark.parametrize("name", EXPECTED)
def test_gridgen_loads_it_without_a_warning(name, floating_base):
    # A base without inertia, set afloat, leaves the mass matrix singular: that is worth a warning.
    afloat = floating_base and name in MASSLESS_BASE
    expected = pytest.warns(GridGenWarning, match="root_joint") if afloat else nullcontext()
    with expected:
        tree = build_tree(parse_urdf(path_of(name)), RobotOptions(floating_base=floating_base))
    joints, followers, _ = EXPECTED[name]
    assert tree.name == name
    assert len(tree.bodies) == joints + floating_base
    assert tree.nv == joints - followers + 6 * floating_base
    model = pinocchio_model(name, floating_base)
    assert tuple(tree.joint_names) == tuple(model.names)[1:]


@pytest.mark.parametrize(
    ("name", "frame", "position", "outwards"),
    [
        # From the Denavit-Hartenberg tables in the files' headers.
        ("arm6", "tool0", (0.425 + 0.39225, 0.10915 + 0.0823, 0.089159 - 0.09465), (0, 1, 0)),
        ("arm7", "flange", (0.088, 0, 0.333 + 0.316 + 0.384 - 0.107), (0, 0, -1)),
        ("two_link", "tip", (0.75, 0, 0.5), (0, 0, 1)),
        ("pendulum", "tip", (0, 0, -0.5), (0, 0, 1)),
        ("quadruped", "RR_foot", (-0.19, -0.13, -0.42), (0, 0, 1)),
    ],
)
def test_frames_stand_where_the_header_says(name, frame, position, outwards):
    model = pinocchio_model(name)
    data = model.createData()
    pinocchio.framesForwardKinematics(model, data, pinocchio.neutral(model))
    placement = data.oMf[model.getFrameId(frame)]
    np.testing.assert_allclose(placement.translation, position, atol=1e-14)
    np.testing.assert_allclose(placement.rotation[:, 2], outwards, atol=1e-14)


def mirrored_joint(name):
    """Return the joint's counterpart on the other side, itself for a joint in the middle."""
    pairs = (("left_", "right_"), ("FL_", "FR_"), ("RL_", "RR_"))
    for left, right in pairs:
        if name.startswith(left):
            return right + name.removeprefix(left)
        if name.startswith(right):
            return left + name.removeprefix(right)
    return name


@pytest.mark.parametrize("name", ["humanoid", "quadruped"])
def test_left_and_right_are_mirror_images(name):
    model = pinocchio_model(name)
    data = model.createData()
    names = list(model.names)[1:]
    mirror = np.zeros((model.nv, model.nv))
    for row, joint in enumerate(names):
        sign = -1.0 if any(word in joint for word in TURNS_OVER) else 1.0
        mirror[row, names.index(mirrored_joint(joint))] = sign

    q = np.random.default_rng(0).uniform(-1.0, 1.0, model.nq)
    center = pinocchio.centerOfMass(model, data, q).copy()
    mass_matrix = symmetric(pinocchio.crba(model, data, q))
    mirrored_center = pinocchio.centerOfMass(model, data, mirror @ q).copy()
    mirrored_mass_matrix = symmetric(pinocchio.crba(model, data, mirror @ q))
    np.testing.assert_allclose(mirrored_center, center * (1.0, -1.0, 1.0), atol=1e-14)
    np.testing.assert_allclose(mirrored_mass_matrix, mirror @ mass_matrix @ mirror.T, atol=1e-13)

    limits = np.stack([model.lowerPositionLimit, model.upperPositionLimit])
    mirrored_limits = np.sort(limits @ mirror.T, axis=0)
    np.testing.assert_array_equal(mirrored_limits, limits)


def test_the_humanoid_has_skew_axes_and_full_inertias():
    root = ElementTree.parse(path_of("humanoid")).getroot()
    axes = [[float(x) for x in axis.get("xyz").split()] for axis in root.iter("axis")]
    assert {np.count_nonzero(axis) for axis in axes} == {1, 2, 3}
    full = [inertial for inertial in root.iter("inertial") if inertia_matrix(inertial).all()]
    turned = [item for item in full if item.find("origin").get("rpy") != "0 0 0"]
    assert len(full) >= 20
    assert len(turned) >= 5


def test_limits_of_a_follower_are_the_image_of_its_leader():
    joints = {joint.get("name"): joint for joint in moving_joints("gripper")}
    for joint in joints.values():
        mimic = joint.find("mimic")
        if mimic is None:
            continue
        leader = joints[mimic.get("joint")]
        multiplier = float(mimic.get("multiplier", 1.0))
        offset = float(mimic.get("offset", 0.0))
        image = sorted(
            multiplier * number(leader, "limit", bound) + offset for bound in ("lower", "upper")
        )
        own = [number(joint, "limit", bound) for bound in ("lower", "upper")]
        assert own == pytest.approx(image, abs=1e-15)
        assert number(joint, "limit", "velocity") == pytest.approx(
            abs(multiplier) * number(leader, "limit", "velocity")
        )
