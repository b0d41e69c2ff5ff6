"""Robots as other libraries have them are the robots that those libraries compute."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import GridGenWarning, ModelError, OptionError, UrdfError
from gridgen.model.tree import KinematicTree
from gridgen.stages import load, read_tree
from robots_for_tests import OWN

TOLERANCE = 1e-12
"""Both sides compute in float64, a few hundred operations from the same numbers."""

MJCF = """
<mujoco model="m">
  <option><flag contact="disable"/></option>
  <default><geom type="capsule" size=".05 .2" mass="2" contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="trunk" pos="1 2 3" quat=".6 .8 0 0">
      ROOT
      <geom/>
      <body name="z_leg" pos=".1 .2 .3" euler="10 20 30">
        <joint name="hip_x" axis="1 .2 0" pos="0 .1 .05" ref="30" armature=".3"/>
        <joint name="hip_slide" type="slide" axis="0 0 1" range="-1 1" limited="true" ref=".1"/>
        <joint name="hip_y" axis="0 1 0" pos=".02 0 .1" damping=".5" frictionloss=".2"/>
        <geom pos=".1 0 0" euler="0 40 0"/>
        <body name="foot" pos="0 0 -.4"><geom/></body>
      </body>
      <body name="arm" pos="-.1 0 .2">
        <joint name="shoulder" axis="0 0 1" actuatorfrclimited="true" actuatorfrcrange="-7 7"/>
        <geom pos="0 .2 0" euler="50 0 0"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def tree_of(robot: Any, joint_dynamics: bool = False) -> KinematicTree:
    return read_tree(robot, floating_base=False, joint_dynamics=joint_dynamics, armature=0.0)


def compare_with_mujoco(mujoco: Any, model: Any, robot: Any) -> None:
    """Compare M and the efforts in one state; a free joint has other coordinates there."""
    tree = tree_of(robot)
    assert tree.nv == model.nv
    assert tree.nq == model.nq
    rng = np.random.default_rng(0)
    q, qd, qdd = rng.normal(size=tree.nq), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    qpos, qacc, spread = q.copy(), qdd.copy(), np.eye(tree.nv)
    if tree.bodies[0].kind == "free":
        q[3:7] /= np.linalg.norm(q[3:7])
        qpos[3:7] = np.roll(q[3:7], 1)
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, qpos[3:7])
        spread[:3, :3] = rotation.reshape(3, 3)
        qacc[:3] += np.cross(qd[3:6], qd[:3])
    data = mujoco.MjData(model)
    data.qpos, data.qvel = qpos, spread @ qd
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    tau = M @ spread @ qacc + data.qfrc_bias
    given = {"q": q[None], "qd": qd[None], "qdd": qdd[None], "gravity": [0.0, 0.0, -9.81]}
    (ours,) = evaluate_reference(tree, "mass_matrix", given)
    expected = spread.T @ M @ spread
    np.testing.assert_allclose(ours[0], expected, atol=TOLERANCE * np.abs(M).max())
    (ours,) = evaluate_reference(tree, "inverse_dynamics", given)
    np.testing.assert_allclose(ours[0], spread.T @ tau, atol=TOLERANCE * np.abs(tau).max())
    (poses,) = evaluate_reference(tree, "forward_kinematics", given)
    for name in ("trunk", "foot", "arm"):
        pose = poses[0][tree.frame_names.index(name)]
        np.testing.assert_allclose(pose[:3, 3], data.body(name).xpos, atol=TOLERANCE)
        np.testing.assert_allclose(pose[:3, :3].ravel(), data.body(name).xmat, atol=TOLERANCE)


ROOTS = {
    "fixed": "",
    "floating": "<freejoint/>",
    "hinge": '<joint type="hinge" axis="0 1 1" pos=".3 0 0"/>',
}


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS.keys())
def test_a_robot_of_mujoco(root: str, tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    text = MJCF.replace("ROOT", root)
    path = tmp_path / "m.xml"
    path.write_text(text)
    model = mujoco.MjModel.from_xml_path(str(path))
    for robot in (model, path, text):
        compare_with_mujoco(mujoco, model, robot)


def test_a_free_joint_has_armature_of_its_turns_alone() -> None:
    """MuJoCo adds it in the axes of the world to slides, in those of the body to turns."""
    mujoco = pytest.importorskip("mujoco")
    text = MJCF.replace("<default>", '<default><joint armature=".7"/>')
    with pytest.raises(ModelError, match=r'joint "root": is free and has armature \(0\.7\)'):
        load(text.replace("ROOT", '<joint name="root" type="free"/>'))
    for root in ("<freejoint/>", '<joint type="free" armature="0"/>'):
        model = mujoco.MjModel.from_xml_string(text.replace("ROOT", root))
        assert not model.dof_armature[:6].any()
        compare_with_mujoco(mujoco, model, model)
    model.dof_armature[3:6] = 0.2, 0.5, 0.1
    compare_with_mujoco(mujoco, model, model)


def test_what_mujoco_says_of_joints_is_kept() -> None:
    pytest.importorskip("mujoco")
    robot = tree_of(MJCF.replace("ROOT", ""), joint_dynamics=True)
    assert robot.name == "m"
    assert robot.joint_names == ("hip_x", "hip_slide", "hip_y", "shoulder")
    np.testing.assert_array_equal(robot.effort_limits, [np.inf] * 3 + [7.0])
    np.testing.assert_array_equal(robot.lower_limits, [-np.inf, -1.0, -np.inf, -np.inf])
    bodies = {body.joint: body for body in robot.bodies}
    assert (bodies["hip_y"].damping, bodies["hip_y"].friction) == (0.5, 0.2)
    assert bodies["hip_x"].armature == (0.3,)


def test_forces_of_mujoco_are_named_in_a_warning() -> None:
    pytest.importorskip("mujoco")
    text = MJCF.replace("ROOT", "").replace('damping=".5"', 'stiffness="3"')
    text = text.replace("</mujoco>", '<actuator><motor joint="hip_x"/></actuator></mujoco>')
    with pytest.warns(GridGenWarning) as caught:
        load(text)
    told = " ".join(str(warning.message) for warning in caught)
    assert 'joint "hip_y": has a spring' in told
    assert "has actuators" in told


def test_a_ball_joint_is_refused_by_name() -> None:
    pytest.importorskip("mujoco")
    with pytest.raises(ModelError, match=r'joint "ball": is a ball joint'):
        load(MJCF.replace("ROOT", '<joint name="ball" type="ball"/>'))


def test_what_mujoco_refuses_is_an_error_of_the_file(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    path = tmp_path / "m.xml"
    path.write_text("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>")
    with pytest.raises(UrdfError, match=r"m\.xml: MuJoCo cannot compile it"):
        load(path)


@pytest.mark.parametrize("name", ["quadruped", "gripper"])
def test_a_robot_of_yourdfpy(name: str) -> None:
    yourdfpy = pytest.importorskip("yourdfpy")
    path = OWN / f"{name}.urdf"
    loaded = yourdfpy.URDF.load(str(path), build_scene_graph=False, load_meshes=False)
    theirs, ours = tree_of(loaded), tree_of(path)
    assert theirs.bodies == ours.bodies
    assert theirs.frames == ours.frames
    assert theirs.lower_limits == ours.lower_limits


XACRO = """<robot xmlns:xacro="http://www.ros.org/wiki/xacro" name="r">
<xacro:arg name="mass" default="2"/>
<link name="base"/>
<xacro:macro name="arm" params="side"><link name="${side}_arm"><inertial><mass value="$(arg mass)"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<joint name="${side}" type="continuous"><parent link="base"/><child link="${side}_arm"/></joint>
</xacro:macro><xacro:arm side="left"/><xacro:arm side="right"/></robot>
"""


def test_a_xacro_file_is_expanded(tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    path = tmp_path / "r.urdf.xacro"
    path.write_text(XACRO)
    robot = load(path)
    assert robot.joint_names == ("left", "right")
    assert robot.total_mass == 4.0
    assert load(str(path), mappings={"mass": "3"}).total_mass == 6.0
    with pytest.raises(OptionError, match=r"mass.*3.*as text"):
        load(path, mappings={"mass": 3})  # type: ignore[dict-item]
    path.write_text(XACRO.replace("${side}", "${sid}"))
    with pytest.raises(UrdfError, match=r"r\.urdf\.xacro: xacro cannot expand it: .*sid"):
        load(path)
    path.write_text(XACRO.replace("continuous", "contin"))
    with pytest.raises(UrdfError, match=r"r\.urdf\.xacro \(expanded\):.*contin"):
        load(path)


def test_mappings_without_xacro_are_refused() -> None:
    with pytest.raises(OptionError, match="the robot is no xacro file"):
        load(OWN / "arm6.urdf", mappings={"mass": "3"})
    with pytest.raises(OptionError, match="give a dictionary"):
        load(OWN / "arm6.urdf", mappings=["mass"])  # type: ignore[arg-type]


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A package of names, as robot_descriptions is; that one downloads what it names."""
    package = SimpleNamespace(DESCRIPTIONS={"arm_description": {}, "lost_description": {}})
    monkeypatch.setitem(sys.modules, "robot_descriptions", package)  # type: ignore[arg-type]
    robot = SimpleNamespace(URDF_PATH=str(OWN / "arm6.urdf"))
    monkeypatch.setitem(sys.modules, "robot_descriptions.arm_description", robot)  # type: ignore[arg-type]
    return package


def test_a_name_of_the_catalogue_is_its_file(catalogue: SimpleNamespace) -> None:
    assert tree_of("arm_description") == tree_of(OWN / "arm6.urdf")
    with pytest.raises(UrdfError, match='did you mean "arm_description"'):
        load("arms_description")
    with pytest.raises(UrdfError, match="lost_description: robot_descriptions cannot get it"):
        load("lost_description")


def test_the_real_catalogue_lists_names() -> None:
    package = pytest.importorskip("robot_descriptions")
    assert "panda_description" in package.DESCRIPTIONS


@pytest.mark.parametrize(
    ("robot", "name"),
    [("<mujoco/>", "mujoco"), ("panda_description", "robot_descriptions"), ("", "xacro")],
)
def test_a_missing_library_is_named(
    robot: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    if not robot:
        path = tmp_path / "r.xacro"
        path.write_text(XACRO)
        robot = str(path)
    with pytest.raises(UrdfError, match=f"package {name}, which is not installed: pip install"):
        load(robot)
