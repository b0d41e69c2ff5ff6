"""Robots that urdfpy or urchin loaded are the robots of their files."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gridgen.errors import GridGenWarning, UrdfError
from gridgen.model.readers.objects import from_object, is_robot_object
from gridgen.model.readers.urdf import parse_urdf
from gridgen.model.tree import KinematicTree, build_tree
from gridgen.options import RobotOptions
from helpers.robots import example_urdf, joint_text, link_text, robot_text


def placeholder() -> SimpleNamespace:
    return SimpleNamespace(mass=1.0, inertia=np.eye(3), origin=np.eye(4))


def robot_object(**changes: Any) -> SimpleNamespace:
    """Return a robot of one joint as urchin would hold it, with attributes of the joint changed."""
    joint = {
        "name": "j",
        "joint_type": "revolute",
        "parent": "base",
        "child": "arm",
        "origin": np.array([[0.0, -1, 0, 1], [1, 0, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]),
        "axis": np.array([0.0, 0.0, 2.0]),
        "limit": SimpleNamespace(lower=-1.0, upper=2.0, effort=3.0, velocity=4.0),
        "mimic": None,
        "dynamics": SimpleNamespace(damping=0.5, friction=None),
    }
    inertial = SimpleNamespace(mass=2.0, inertia=np.diag([1.0, 2.0, 3.0]), origin=np.eye(4))
    return SimpleNamespace(
        name="r",
        links=[
            SimpleNamespace(name="base", inertial=None),
            SimpleNamespace(name="arm", inertial=inertial),
        ],
        joints=[SimpleNamespace(**{**joint, **changes})],
    )


def test_the_attributes_are_read() -> None:
    source = robot_object()
    assert is_robot_object(source)
    robot = from_object(source)
    assert (robot.name, robot.source) == ("r", "<types.SimpleNamespace object>")
    base, arm = robot.links
    assert base.inertial is None
    assert arm.inertial is not None
    assert arm.inertial.mass == 2.0
    assert arm.inertial.inertia == ((1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 3.0))
    (joint,) = robot.joints
    assert joint.origin.rotation == ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    assert joint.origin.translation == (1.0, 2.0, 3.0)
    assert joint.axis == (0.0, 0.0, 1.0)
    assert joint.limits is not None
    assert (joint.limits.lower, joint.limits.velocity) == (-1.0, 4.0)
    assert (joint.damping, joint.friction) == (0.5, 0.0)
    assert build_tree(robot).total_mass == 2.0
    assert from_object(robot_object()).digest == robot.digest
    assert from_object(robot_object(axis=np.array([1.0, 0, 0]))).digest != robot.digest


def test_invented_inertias_are_taken_for_missing_ones() -> None:
    source = robot_object()
    source.links[0].inertial = placeholder()
    with pytest.warns(GridGenWarning, match=r'link "base": .*urdfpy and urchin'):
        robot = from_object(source)
    assert robot.links[0].inertial is None
    source.links[0].inertial.mass = 1.5
    assert from_object(source).links[0].inertial is not None


FAULTS = {
    "type": ({"joint_type": "ball"}, ['joint "j"', '"ball"', "revolute"]),
    "axis": ({"axis": np.zeros(3)}, ['joint "j"', "axis is 0 0 0"]),
    "axis of two": ({"axis": np.zeros(2)}, ['joint "j"', "axis", "(3,)"]),
    "nan": ({"axis": np.array([math.nan, 0, 1])}, ['joint "j"', "axis", "nan"]),
    "origin": ({"origin": np.eye(3)}, ['joint "j"', "origin", "(4, 4)"]),
    "stretched": ({"origin": np.diag([2.0, 1, 1, 1])}, ['joint "j"', "not a rotation"]),
    "mirrored": ({"origin": np.diag([-1.0, 1, 1, 1])}, ['joint "j"', "not a rotation"]),
    "limit": (
        {"limit": SimpleNamespace(lower="x", upper=0, effort=0, velocity=0)},
        ['joint "j"', "lower limit", '"x"'],
    ),
    "child": ({"child": "amr"}, ['joint "j"', '"amr"', 'did you mean "arm"']),
    "mimic": (
        {"mimic": SimpleNamespace(joint="j", multiplier=None, offset=None)},
        ['joint "j"', "mimics itself"],
    ),
    "name": ({"name": "a\nb"}, ["a\\nb", "control character"]),
}


@pytest.mark.parametrize(("changes", "parts"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_names_its_element(changes: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(UrdfError) as caught:
        from_object(robot_object(**changes))
    message = str(caught.value)
    assert message.startswith("<types.SimpleNamespace object>: ")
    for part in parts:
        assert part in message


@pytest.mark.parametrize("source", [object(), SimpleNamespace(name="r", links=[1], joints=[])])
def test_something_else_is_refused(source: object) -> None:
    with pytest.raises(UrdfError, match="give the URDF file"):
        from_object(source)


def test_an_infinite_limit_is_none() -> None:
    limit = SimpleNamespace(lower=-math.inf, upper=None, effort=None, velocity=math.inf)
    limits = from_object(robot_object(limit=limit)).joints[0].limits
    assert limits is not None
    assert (limits.lower, limits.upper) == (-math.inf, 0.0)
    assert (limits.effort, limits.velocity) == (math.inf, math.inf)


ARM = robot_text(
    '<link name="base"/>',
    link_text("upper", com="0.1 0.2 0.3", rpy="0.1 0.2 0.3"),
    link_text("lower", mass="0.5"),
    link_text("finger", mass="0.1"),
    joint_text("shoulder", "base", "upper", axis="1 2 3", rpy="0.3 -0.2 1.1"),
    joint_text("elbow", "upper", "lower", "continuous", rpy="1.5707963267948966 0 0"),
    joint_text(
        "grip",
        "lower",
        "finger",
        "prismatic",
        extra='<mimic joint="elbow" multiplier="2" offset="1"/><dynamics damping="1"/>',
    ),
)


def test_urchin_and_the_file_give_one_tree(tmp_path: Path) -> None:
    """Needs the extra ``urdfpy``, which installs urchin."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what its own imports deprecate
        urchin = pytest.importorskip("urchin")
        path = tmp_path / "arm.urdf"
        path.write_text(ARM)
        pairs = [
            (urchin.URDF.load(str(file), lazy_load_meshes=True), file)
            for file in (path, example_urdf("double_pendulum_simple"))
        ]
    for robot, file in pairs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GridGenWarning)
            trees_are_equal(
                build_tree(from_object(robot), RobotOptions(joint_dynamics=True)),
                build_tree(parse_urdf(file), RobotOptions(joint_dynamics=True)),
            )


def trees_are_equal(tree: KinematicTree, expected: KinematicTree) -> None:
    assert tree.joint_names == expected.joint_names
    assert tree.frame_names == expected.frame_names
    assert tree.lower_limits == expected.lower_limits
    assert tree.effort_limits == expected.effort_limits
    for body, other in zip(tree.bodies, expected.bodies, strict=True):
        assert (body.q_index, body.multiplier, body.offset, body.damping, body.mass) == (
            other.q_index,
            other.multiplier,
            other.offset,
            other.damping,
            other.mass,
        )
        for name in ("rotation", "translation", "link_rotation", "first_moment", "inertia"):
            np.testing.assert_allclose(
                getattr(body, name), getattr(other, name), atol=1e-14, err_msg=name
            )
