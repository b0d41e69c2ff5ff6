"""Robots as other libraries have them are the robots that those libraries compute."""

from __future__ import annotations

import io
import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gridgen.compiler import load, read_tree
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import GridGenWarning, ModelError, OptionError, UrdfError
from gridgen.model.readers import limited, mujoco, mujoco_fields
from gridgen.model.tree import KinematicTree
from gridgen.options import RobotOptions
from helpers.robots import OWN, needs

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
    return read_tree(robot, RobotOptions(joint_dynamics=joint_dynamics))


def full_matrix(mujoco: Any, model: Any, data: Any) -> Any:
    """Return M, which releases of MuJoCo hand over in two ways."""
    M = np.zeros((model.nv, model.nv))
    try:
        mujoco.mj_fullM(model, data, M)
    except TypeError:
        mujoco.mj_fullM(model, M, data.qM)
    return M


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
    M = full_matrix(mujoco, model, data)
    tau = M @ spread @ qacc + data.qfrc_bias
    given = {"q": q[None], "qd": qd[None], "qdd": qdd[None], "gravity": [0.0, 0.0, -9.81]}
    (ours,) = evaluate_reference(tree, "mass_matrix", given)
    expected = spread.T @ M @ spread
    np.testing.assert_allclose(ours[0], expected, atol=TOLERANCE * np.abs(M).max())
    (ours,) = evaluate_reference(tree, "inverse_dynamics", given)
    np.testing.assert_allclose(ours[0], spread.T @ tau, atol=TOLERANCE * np.abs(tau).max())
    (poses,) = evaluate_reference(tree, "forward_kinematics", given)
    for index in range(1, model.nbody):
        name = model.body(index).name
        pose = poses[0][tree.frame_names.index(name)]
        np.testing.assert_allclose(pose[:3, 3], data.body(name).xpos, atol=TOLERANCE)
        np.testing.assert_allclose(pose[:3, :3].ravel(), data.body(name).xmat, atol=TOLERANCE)


ROOTS = {
    "fixed": "",
    "floating": "<freejoint/>",
    "hinge": '<joint type="hinge" axis="0 1 1" pos=".3 0 0"/>',
}


@needs("mujoco")
@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS.keys())
def test_a_robot_of_mujoco(root: str, tmp_path: Path) -> None:
    import mujoco

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


CART = """
<mujoco>
  <option>FLAG</option>
  <default><geom type="capsule" size=".03 .1" contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="cart">
      <joint name="rail" type="slide" axis="1 0 0" damping="2" frictionloss=".1" range="-1 1"
        limited="true"/>
      <geom/>
      <body name="pole" pos="0 0 .1">
        <joint name="pivot" axis="0 1 0" armature=".25" damping="LOSS" stiffness="STIFF"/>
        <geom/>
        <body name="tip" pos="0 0 .2">
          <joint name="wrist" axis="1 0 .3" armature=".01"/><geom/>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon><fixed name="rope"><joint joint="wrist" coef="1"/></fixed></tendon>
  <actuator>ACTUATORS</actuator>
</mujoco>
"""
DRIVES = """
  <motor joint="rail" gear="3" armature=".2" damping=".4"/>
  <position jointinparent="pivot" gear="-5" armature=".1" kp="9"/>
  <velocity joint="pivot" gear="2" armature=".3" damping=".02" kv="4"/>
  <motor joint="pivot" gear="9"/>
"""


def cart(flag: str = "", loss: str = ".5", actuators: str = "", stiffness: float = 0) -> str:
    text = CART.replace("FLAG", f'<flag {flag}="disable"/>' if flag else "")
    text = text.replace("STIFF", str(stiffness))
    return text.replace("LOSS", loss).replace("ACTUATORS", actuators)


def compiled(mujoco: Any, text: str) -> Any:
    """Compile what only newer releases of MuJoCo understand."""
    try:
        return mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        pytest.skip(f"this MuJoCo has none: {error}")


def test_armature_and_damping_of_actuators_are_those_of_their_joints() -> None:
    mujoco = pytest.importorskip("mujoco")
    model = compiled(mujoco, cart(actuators=DRIVES))
    with pytest.warns(GridGenWarning, match="actuators"):
        compare_with_mujoco(mujoco, model, model)
    with pytest.warns(GridGenWarning, match="actuators"):
        bodies = tree_of(model, joint_dynamics=True).bodies
    data = mujoco.MjData(model)
    data.qvel = [0.3, -0.7, 1.1]
    mujoco.mj_forward(model, data)
    expected = [-body.damping * v for body, v in zip(bodies, data.qvel, strict=True)]
    np.testing.assert_allclose(expected, data.qfrc_passive, rtol=TOLERANCE)


def test_an_actuator_of_a_free_joint_adds_armature_to_all_its_velocities() -> None:
    """To those along its axes too, where MuJoCo's acts in the axes of the world."""
    mujoco = pytest.importorskip("mujoco")
    text = MJCF.replace("ROOT", '<freejoint name="root"/>').replace(
        "</mujoco>",
        '<actuator><motor joint="root" gear="3" armature=".5"/></actuator></mujoco>',
    )
    with pytest.raises(ModelError, match=r'"root": is free and has armature \(4\.5\)'):
        tree_of(compiled(mujoco, text))


REFUSED = {
    "joint": (cart(loss="2 1 3"), 'joint "pivot": has damping that is a polynomial'),
    "actuator": (
        cart(actuators='<motor name="m" joint="wrist" damping="1 2"/>'),
        'actuator "m": has damping that is a polynomial',
    ),
    "tendon": (cart(actuators='<motor name="m" tendon="rope" armature="2"/>'), "armature"),
}


@needs("mujoco")
@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_no_joint_here_can_have_is_refused_by_name(text: str, message: str) -> None:
    import mujoco

    model = compiled(mujoco, text)
    with pytest.raises(ModelError, match=message):
        tree_of(model)


def test_what_a_flag_disables_is_not_there() -> None:
    mujoco = pytest.importorskip("mujoco")

    def read(flag: str) -> tuple[str, KinematicTree]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tree = tree_of(compiled(mujoco, cart(flag, stiffness=7)), joint_dynamics=True)
        return " ".join(str(warning.message) for warning in caught), tree

    told, tree = read("")
    assert "gravity" not in told
    assert "has a spring" in told
    assert (tree.bodies[0].damping, tree.bodies[0].friction) == (2.0, 0.1)
    assert tree.lower_limits[0] == -1.0
    assert read("gravity")[1].gravity == (0.0, 0.0, 0.0)
    both = "passive" if "mjDSBL_PASSIVE" in mujoco.mjtDisableBit.__members__ else ""
    assert "has a spring" not in read(both or "spring")[0]
    assert read(both or "damper")[1].bodies[0].damping == 0.0
    assert read("frictionloss")[1].bodies[0].friction == 0.0
    assert read("limit")[1].lower_limits[0] == -np.inf
    assert read("constraint")[1].bodies[0].friction == 0.0


def test_every_field_of_this_mujoco_is_known() -> None:
    """A release that adds one has to be read: it may change M, as an actuator's armature did."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(cart())
    fields = list(mujoco_fields.fields(model))
    kinds = ("mjtDisableBit", "mjtEnableBit", "mjtJoint", "mjtTrn")
    flags = [name for kind in kinds for name in getattr(mujoco, kind).__members__]
    assert len(fields) > 400
    assert not mujoco_fields.unknown([*fields, *flags])
    assert mujoco_fields.unknown(["jnt_inertance", "actuator_inertance", "mjDSBL_X"])


def test_what_the_reader_takes_is_what_its_list_says() -> None:
    source = Path(mujoco_fields.__file__).with_name("mujoco.py").read_text(encoding="utf-8")
    owners = "body|geom|site|eq_|jnt|dof|actuator|tendon|n"
    read = set(re.findall(rf"model\.((?:opt\.)?(?:{owners})[a-z_0-9]+)\b", source))
    read |= set(re.findall(r'newer\("(\w+)"', source)) - {"dof", "actuator"}
    listed = re.compile("|".join(f"{mujoco_fields.TAKEN} {mujoco_fields.NAMED}".split()))
    assert len(read) > 25
    assert not [name for name in read if not listed.fullmatch(name)]


def test_an_unknown_field_that_a_model_uses_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    mujoco = pytest.importorskip("mujoco")
    known = re.compile(mujoco_fields._KNOWN.pattern.replace("|frictionloss)", ")"))
    monkeypatch.setattr(mujoco_fields, "_KNOWN", known)
    unknown = 'uses "dof_frictionloss", which gridgen does not support'
    with pytest.warns(GridGenWarning, match=unknown):
        tree_of(mujoco.MjModel.from_xml_string(cart()))


def test_a_mocap_body_is_warned_of_and_too_many_bodies_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mujoco_library = pytest.importorskip("mujoco")
    held = '<worldbody><body name="grip" mocap="true"><geom size=".1"/></body>'
    text = MJCF.replace("ROOT", "").replace("<worldbody>", held)
    model = mujoco_library.MjModel.from_xml_string(text)
    with pytest.warns(GridGenWarning, match="has mocap bodies, which gridgen treats as fixed"):
        tree_of(model)
    with (
        pytest.warns(GridGenWarning),
        pytest.raises(OptionError, match=r'the file moves "grip" \(mocap\).*omit floating_base'),
    ):
        read_tree(model, RobotOptions(floating_base=True))
    with pytest.raises(ModelError, match="has 4 moving bodies; gridgen supports at most 3"):
        mujoco.from_model(model, most_bodies=3)
    monkeypatch.setattr(mujoco, "MAX_LINKS", 4)
    with pytest.raises(ModelError, match="has 6 bodies; at most 4 are supported"):
        tree_of(model)


SELF_ATTACHED = """<mujoco><asset><model name="me" file="FILE"/></asset><worldbody><body name="b">
<joint/><geom size=".1"/><attach model="me" body="b" prefix="x"/></body></worldbody></mujoco>"""
BOMBS = {
    "self-attached.xml": (SELF_ATTACHED, "MuJoCo"),
    "replicated.xml": (
        """<mujoco><worldbody><replicate count="90000" offset="1 0 0"><replicate count="90000"
        offset="0 1 0"><geom size=".1"/></replicate></replicate></worldbody></mujoco>""",
        "MuJoCo",
    ),
    "mountain.xml": (
        """<mujoco><asset><hfield name="h" nrow="90000" ncol="90000" size="1 1 1 1"/></asset>
        <worldbody><body><joint/><geom size=".1"/></body></worldbody></mujoco>""",
        "MuJoCo",
    ),
    "power.xacro": ("<robot><link name='${7**8**9}'/></robot>", "xacro takes more than 2 s"),
    "long.xacro": (
        "<robot><link name='${[0] * 10**10}'/></robot>",
        "xacro (needs more than 4 GiB|takes more)",
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.exhaustive) if name == "replicated.xml" else name
        for name in BOMBS
    ],
)
def test_a_bomb_ends_a_child_process(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, message = BOMBS[name]
    pytest.importorskip("xacro" if name.endswith("xacro") else "mujoco")
    path = tmp_path / name
    path.write_text(text.replace("FILE", name))
    monkeypatch.setattr(limited, "SECONDS", 2.0)
    with pytest.raises(UrdfError, match=rf"{re.escape(name)}: (?:{message})") as caught:
        load(path)
    assert "; " in str(caught.value)


def test_what_mujoco_refuses_is_an_error_of_the_file(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    path = tmp_path / "m.xml"
    path.write_text("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>")
    with pytest.raises(UrdfError, match=r"m\.xml: MuJoCo cannot compile it"):
        load(path)


@needs("yourdfpy")
@pytest.mark.parametrize("name", ["quadruped", "gripper"])
def test_a_robot_of_yourdfpy(name: str) -> None:
    import yourdfpy

    path = OWN / f"{name}.urdf"
    loaded = yourdfpy.URDF.load(str(path), build_scene_graph=False, load_meshes=False)
    theirs, ours = tree_of(loaded), tree_of(path)
    assert theirs.bodies == ours.bodies
    assert theirs.frames == ours.frames
    assert theirs.lower_limits == ours.lower_limits


SOLIDS = """<robot name="r"><link name="base"/><link name="arm">
<collision><origin xyz="1 2 3" rpy="0 0 1.5707963267948966"/>
<geometry><box size=".2 .4 .6"/></geometry></collision>
<collision><geometry><cylinder radius=".1" length=".8"/></geometry></collision>
<collision><geometry><sphere radius=".3"/></geometry></collision>
<collision><geometry><mesh filename="none.stl"/></geometry></collision></link>
<joint name="j" type="continuous"><parent link="base"/><child link="arm"/></joint></robot>"""
GEOMS = """<mujoco><worldbody><body name="arm"><joint name="j"/>
<geom type="box" size=".1 .2 .3" pos="1 2 3" euler="0 0 90"/><geom type="cylinder" size=".1 .4"/>
<geom size=".3"/><geom type="capsule" size=".1 .4" mass="1"/>
<geom size="1" contype="0" conaffinity="0"/></body></worldbody></mujoco>"""


def shapes_of(robot: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridGenWarning)
        return [
            shape and np.array([*shape.pose.translation, *np.ravel(shape.pose.rotation),
                                *shape.half_lengths, *shape.radii])
            for shape in tree_of(robot).frame_of["arm"].shapes
        ]  # fmt: skip


@needs("yourdfpy")
@needs("mujoco")
def test_collision_shapes_are_those_of_the_file() -> None:
    import yourdfpy

    *solids, mesh = shapes_of(SOLIDS)
    assert mesh is None
    *geoms, capsule = shapes_of(GEOMS)
    loaded = yourdfpy.URDF.load(io.StringIO(SOLIDS), build_scene_graph=False, load_meshes=False)
    *same, none = shapes_of(loaded)
    assert none is None
    np.testing.assert_array_equal(same, solids)
    np.testing.assert_allclose(geoms, solids, atol=1e-12)
    expected = [(0.1, 0.2, 0.3, 0, 0, 0), (0, 0, 0.4, 0.1, 0.1, 0), (0, 0, 0, 0.3, 0.3, 0.3)]
    np.testing.assert_allclose([solid[12:] for solid in solids], expected)
    np.testing.assert_allclose(solids[0][:12], [1, 2, 3, 0, -1, 0, 1, 0, 0, 0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(capsule[12:], (0, 0, 0.4, 0.1, 0.1, 0.1))


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
    with pytest.raises(OptionError, match=r"mass.*3.*as strings"):
        load(path, mappings={"mass": 3})  # type: ignore[dict-item]
    path.write_text(XACRO.replace("${side}", "${sid}"))
    with pytest.raises(UrdfError, match=r"r\.urdf\.xacro: xacro cannot expand it: .*sid"):
        load(path)
    path.write_text(XACRO.replace("continuous", "contin"))
    with pytest.raises(UrdfError, match=r"r\.urdf\.xacro \(expanded\):.*contin"):
        load(path)


def test_mappings_without_xacro_are_refused() -> None:
    with pytest.raises(OptionError, match="the robot is not a xacro file"):
        load(OWN / "arm6.urdf", mappings={"mass": "3"})
    with pytest.raises(OptionError, match="give a dictionary"):
        load(OWN / "arm6.urdf", mappings=["mass"])  # type: ignore[arg-type]


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A package of names, as robot_descriptions is; that one downloads what it names."""
    package = SimpleNamespace(DESCRIPTIONS={"arm_description": {}, "lost_description": {}})
    monkeypatch.setitem(sys.modules, "robot_descriptions", package)  # type: ignore[arg-type]
    robot = SimpleNamespace(URDF_PATH=str(OWN / "arm6.urdf"))
    monkeypatch.setitem(sys.modules, "robot_descriptions.arm_description", robot)  # type: ignore[arg-type]
    return package


def test_a_name_of_the_catalog_is_its_file(catalog: SimpleNamespace) -> None:
    assert tree_of("arm_description") == tree_of(OWN / "arm6.urdf")
    with pytest.raises(UrdfError, match='did you mean "arm_description"'):
        load("arms_description")
    with pytest.raises(UrdfError, match="lost_description: robot_descriptions cannot load it"):
        load("lost_description")


def test_the_real_catalog_lists_names() -> None:
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
