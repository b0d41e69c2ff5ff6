"""Sensors against MuJoCo."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gridgen
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import GridGenWarning, ModelError, OptionError
from gridgen.model.readers.mujoco import from_model
from gridgen.model.sensors import KINDS
from gridgen.model.tree import build_tree
from gridgen.options import RobotOptions
from helpers.dynamics import load_tree
from helpers.robots import OWN

mujoco = pytest.importorskip("mujoco")

pytestmark = [
    pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning"),
    # Of values that are not selected.
    pytest.mark.filterwarnings("ignore:(invalid value|divide by zero):RuntimeWarning"),
]

#: A tree on a post, and a body on a free joint that is not the first joint.
MODEL = """
<mujoco>
  <compiler angle="radian"/>
  <option tolerance="0" iterations="300" gravity="0.3 -0.2 -9.6" magnetic="0.2 -0.5 0.4"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom type="plane" size="2 2 1" pos="0 0 {height}" contype="1" conaffinity="1"/>
    <site name="fixed" pos="0.2 0.1 0.3" euler="0.3 -0.4 0.5"/>
    <body name="post" pos="1 0 0.5" euler="0.2 0.3 -2.5">
      <geom size="0.1" pos="0.05 0 0.1" mass="2"/>
      <joint name="swivel" axis="0.2 0.1 1" pos="0.1 0.02 0" ref="0.4" range="-0.6 0.5"
             damping="0.2" stiffness="3" springref="0.1"/>
      <body name="arm" pos="0.3 0 0.1" quat="-0.6 0 0.8 0">
        <joint name="slider" type="slide" axis="0 1 0.3" ref="0.1" range="-0.2 0.3"/>
        <geom name="arm" type="box" size="0.1 0.05 0.2" euler="0.1 0.5 0.2" pos="0.1 0 0" mass="1"/>
        <body name="tool" pos="0 0.1 0.2" euler="2 0 0.4">
          <geom size="0.06" pos="0.02 0.03 0" mass="0.3"/>
          <site name="tool" pos="0 0.05 0" euler="0 1 0.3"/>
          <body name="ball" pos="0.1 0 0"><joint name="ball" type="ball"/>
            <geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.3" mass="0.4"/>
            <camera name="eye" pos="0 0 0.1" euler="0.3 1 0"/></body></body>
      </body>
    </body>
    <body name="trunk" pos="0 0 1"><freejoint name="free"/>
      <geom name="trunk" type="box" size="0.2 0.1 0.05" mass="3"/>
      <site name="imu" pos="0.05 0.02 0.04" euler="0.1 0.2 2.3"/>
      <body name="leg" pos="0.1 0.1 0" euler="0 0.2 0">
        <joint name="hip" axis="0 1 0" range="-0.5 0.4"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.3" mass="0.5"/>
        <body name="foot" pos="0 0 -0.3">
          <geom size="0.05" mass="0.1" pos="0 0.01 0" contype="1" conaffinity="1"/>
          <site name="foot" size="0.06" euler="0.3 0.2 0.1"/></body></body>
    </body>
  </worldbody>
  <actuator>
    <position name="servo" joint="swivel" kp="12" kv="0.6" gear="-1.5" forcerange="-2 2"/>
    <motor joint="hip" gear="2"/><motor name="second" joint="hip" gear="0.5"/>
  </actuator>
  <sensor>{sensors}</sensor>
</mujoco>
"""
OBJECTS = {"tool": "body", "arm": "geom", "eye": "camera", "fixed": "site", "imu": "site"}
OBJECTS |= {"trunk": "body", "ball": "xbody"}
COUNT = 5
OF_FORCES = {kind for kind, row in KINDS.items() if row.touches} | {"force", "torque"}

#: A trunk on legs with feet and touch sensors of all shapes, and a ball that may touch them.
LEGS = """
<mujoco>
  <compiler angle="radian"/>
  <option tolerance="0" iterations="500" cone="{cone}"/>
  <worldbody><geom name="floor" type="plane" size="3 3 1"/>
    <body pos="0 0 0.35"><freejoint/>
      <geom type="box" size="0.2 0.1 0.05" mass="3" contype="0" conaffinity="0"/>
      <site name="imu"/>{legs}</body>
    <body name="ball" pos="0 0 0.12"><freejoint/><geom name="ball" size="0.1" mass="0.5"/>
      <site name="ball" size="0.12"/></body>
  </worldbody>
  <sensor><touch site="ball"/><force site="imu"/><torque site="imu"/>{sensors}</sensor>
</mujoco>
"""
LEG = """
<body pos="{x} {y} 0"><joint axis="1 0 0" range="-0.3 0.3" name="hip{k}"/>
  <geom size="0.02" mass="0.2" contype="0" conaffinity="0"/>
  <site name="hip{k}" euler="0.2 0.1 0.4" pos="0.01 0.02 0.03"/>
  <body pos="0 0 -0.02" euler="0 {tilt} 0">
    <joint axis="0 1 0" range="-0.4 0.3" name="knee{k}" damping="0.1"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.25" size="0.03" mass="0.2" contype="0"/>
    <body pos="0 0 -0.28" euler="0.1 0.2 0">
      <geom name="foot{k}" type="{shape}" size="0.04 0.03 0.05" mass="0.1" contype="0"
            condim="{condim}"/>
      <site name="foot{k}" type="{site}" size="0.06 0.05 0.04" pos="0 0.01 -0.01" euler="0 0.7 0"/>
      <site name="far{k}" type="{site}" size="0.05 0.04 0.03" pos="0.03 0 -0.06" euler="0 0 1"/>
    </body></body></body>
"""
LEG_SENSORS = """
<touch site="foot{k}"/><touch site="far{k}" cutoff="30"/><force site="foot{k}"/>
<torque site="foot{k}"/><force site="hip{k}"/><torque site="hip{k}"/>
<jointlimitpos joint="hip{k}"/><jointlimitvel joint="knee{k}"/><jointlimitfrc joint="knee{k}"/>
<contact geom1="foot{k}" geom2="{other}" num="1" reduce="mindist" data="found"/>
"""
#: Shape of a foot, of its sites, and dimensions of its contact forces.
FEET = ("sphere", "sphere", 3), ("sphere", "capsule", 4), ("capsule", "box", 6)
FEET += ("box", "ellipsoid", 1), ("sphere", "cylinder", 3)


def listed() -> str:
    """Return a sensor of every kind, and several of those of frames."""
    names, found = [*OBJECTS], []
    quiet = {kind: row for kind, row in KINDS.items() if kind not in OF_FORCES}
    for kind in ("gyro", "velocimeter", "accelerometer", "magnetometer"):
        found += [f'<{kind} site="{site}"/>' for site in ("imu", "tool", "fixed")]
    for kind, row in quiet.items():
        if kind.startswith("frame"):
            for index, (name, what) in enumerate(OBJECTS.items()):
                other = names[(3 * index + len(found)) % len(names)]
                to = f'reftype="{OBJECTS[other]}" refname="{other}"' if row.has_reference else ""
                found.append(f'<{kind} objtype="{what}" objname="{name}" {to}/>')
                if row.has_reference and index < 2:
                    found.append(f'<{kind} objtype="{what}" objname="{name}"/>')
        elif row.of == "subtree":
            found += [f'<{kind} body="{body}"/>' for body in ("world", "post", "tool", "leg")]
        elif row.of == "joint":
            found += [f'<{kind} joint="{joint}"/>' for joint in ("swivel", "slider", "hip")]
        elif row.of == "ball":
            found.append(f'<{kind} joint="ball"/>')
        elif row.of == "actuator":
            found += [f'<{kind} actuator="{name}"/>' for name in ("servo", "second")]
        elif not row.of:
            found.append(f"<{kind}/>")
    cut = '<accelerometer site="imu" cutoff="3"/><jointpos joint="swivel" cutoff="0.2"/>'
    return "".join([*found, cut])


class Peer:
    """MuJoCo's numbers of a model in random states."""

    def __init__(self, sensors: str, height: float = -9.0) -> None:
        text = MODEL.format(sensors=sensors, height=height)
        self.model = model = mujoco.MjModel.from_xml_string(text)
        rng = np.random.default_rng(7)
        self.x = {name: rng.normal(size=(COUNT, model.nv)) for name in ("qd", "tau")}
        self.x |= {
            "q": np.tile(model.qpos0, (COUNT, 1)),
            "ctrl": rng.normal(size=(COUNT, model.nu)),
        }
        for q, v in zip(self.x["q"], rng.normal(size=(COUNT, model.nv)), strict=True):
            v[7:10] *= 0.2
            mujoco.mj_integratePos(model, q, v, 1.5)
        self.x["gravity"] = np.array(model.opt.gravity)

    def sensordata(self, *, is_held: bool = True) -> Any:
        """Return MuJoCo's numbers, without constraints unless ``is_held``."""
        flags = 0 if is_held else int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        self.model.opt.disableflags = flags
        data, found = mujoco.MjData(self.model), []
        for q, qd, tau, ctrl in zip(*(self.x[n] for n in ("q", "qd", "tau", "ctrl")), strict=True):
            mujoco.mj_resetData(self.model, data)
            data.qpos[:], data.qvel[:], data.qfrc_applied[:], data.ctrl[:] = q, qd, tau, ctrl
            mujoco.mj_forward(self.model, data)
            found.append(data.sensordata.copy())
        return np.array(found)


def natural(model: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return inputs in gridgen's convention."""
    x = {name: values.copy() for name, values in given.items()}
    for joint in range(model.njnt):
        at, v, kind = (a[joint] for a in (model.jnt_qposadr, model.jnt_dofadr, model.jnt_type))
        at += 3 * (kind == 0)
        if kind > 1:
            continue
        for k, q in enumerate(given["q"] if kind == 0 else ()):
            R = np.zeros(9)
            mujoco.mju_quat2Mat(R, q[at : at + 4])
            for name in ("qd", "tau"):
                x[name][k, v : v + 3] = R.reshape(3, 3).T @ x[name][k, v : v + 3]
        x["q"][:, at : at + 4] = np.roll(x["q"][:, at : at + 4], -1, axis=1)
    return x


def test_every_kind_has_mujocos_numbers() -> None:
    peer = Peer(listed())
    options: dict[str, Any] = {"sensors": True, "joint_dynamics": True, "actuators": True}
    for is_held in (False, True):
        expected = peer.sensordata(is_held=is_held)
        tree = build_tree(
            from_model(peer.model), RobotOptions(**options, contact=is_held and {"iterations": 99})
        )
        assert len(tree.sensors) == peer.model.nsensor
        assert {one.kind for one in tree.sensors} == {*KINDS} - OF_FORCES
        (found,) = evaluate_reference(tree, "sensors", natural(peer.model, peer.x))
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9 if is_held else 1e-11)


@pytest.mark.parametrize(
    "cone", ["pyramidal", pytest.param("elliptic", marks=pytest.mark.exhaustive)]
)
def test_contact_forces_have_mujocos_numbers(cone: str) -> None:
    legs = "".join(
        LEG.format(
            **{"k": k, "x": 0.1 * k - 0.2, "y": 0.1 * (-1) ** k, "tilt": 0.1 * k - 0.2},
            **{"shape": shape, "site": site, "condim": condim},
        )
        for k, (shape, site, condim) in enumerate(FEET)
    )
    sensors = "".join(
        LEG_SENSORS.format(k=k, other="ball" if k % 2 else "floor") for k in range(len(FEET))
    )
    model = mujoco.MjModel.from_xml_string(LEGS.format(cone=cone, legs=legs, sensors=sensors))
    rng = np.random.default_rng(2)
    q, qd = np.tile(model.qpos0, (12, 1)), rng.normal(size=(12, model.nv))
    q[:, 2] += 0.05 * rng.normal(size=12) - 0.02
    q[:, -5] += 0.03 * rng.normal(size=12) - 0.03
    q[:, 4:17] += 0.15 * rng.normal(size=(12, 13))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    data, expected = mujoco.MjData(model), []
    for place, speed in zip(q, qd, strict=True):
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:] = place, speed
        mujoco.mj_forward(model, data)
        expected.append(data.sensordata.copy())
    options = {"sensors": True, "joint_dynamics": True, "contact": {"iterations": 200}}
    tree = build_tree(from_model(model), RobotOptions(**options))
    assert len(tree.sensors) == model.nsensor
    x = natural(model, {"q": q, "qd": qd, "tau": np.zeros_like(qd)})
    x["gravity"] = np.array(model.opt.gravity)
    (found,) = evaluate_reference(tree, "sensors", x)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-8)
    first = model.sensor_adr[model.sensor_type == int(mujoco.mjtSensor.mjSENS_TOUCH)]
    touched = np.count_nonzero(found[:, first], axis=0)
    assert np.all(((touched > 0) & (touched < len(found)))[1:])


def test_calls_derivatives_and_rollouts() -> None:
    sensors = '<accelerometer name="a" site="imu"/><framequat objtype="site" objname="tool"/>'
    peer = Peer(f'{sensors}<jointvel name="v" joint="hip"/>')
    x = peer.x
    robot = gridgen.load(
        peer.model, sensors=True, actuators=True, convention="mujoco", backend="cpu"
    )
    assert robot.sensor_names == ("a", "sensor1", "v")
    assert robot.sensor_slices["sensor1"] == slice(3, 7)
    peer.model.jnt_stiffness[:] = peer.model.dof_damping[:] = 0.0
    given: dict[str, Any] = {"ctrl": x["ctrl"]}  # the default of gravity is that of the file
    found = robot.sensors(x["q"], x["qd"], x["tau"], **given)
    assert_allclose(found, peer.sensordata(is_held=False), rtol=1e-9, atol=1e-9)
    single = [np.float32(x[name]) for name in ("q", "qd", "tau")]
    near = robot.sensors(*single, ctrl=np.float32(x["ctrl"]))
    assert_allclose(near, found, rtol=1e-3, atol=1e-3)
    zeros = np.zeros_like(x["tau"])
    assert np.array_equal(robot.sensors(x["q"], x["qd"]), robot.sensors(x["q"], x["qd"], zeros))
    assert np.array_equal(
        robot.sensors(x["q"], x["qd"], **given), robot.sensors(x["q"], x["qd"], zeros, **given)
    )
    bar, change, step = np.ones_like(found), np.cos(np.arange(robot.nv)), 1e-6
    _, by_qd, by_tau = robot.vjp("sensors", bar, x["q"], x["qd"], x["tau"], **given)
    ahead, back = (
        robot.sensors(x["q"], x["qd"] + s * change, x["tau"] + s * change, **given)
        for s in (step, -step)
    )
    slope = ((ahead - back) * bar).sum(1) / (2.0 * step)
    assert_allclose(by_qd @ change + by_tau @ change, slope, rtol=1e-6, atol=1e-6)
    tau, ctrl = (np.stack([x[name]] * 3, axis=1) for name in ("tau", "ctrl"))
    held = {**given, "ctrl": ctrl}
    path = robot.rollout(x["q"], x["qd"], tau, 1e-3, record=("sensors",), **held)
    assert_allclose(path[2][:, 0], found, atol=1e-12)
    later = robot.sensors(path[0][:, 2], path[1][:, 2], x["tau"], **given)
    assert_allclose(path[2][:, 2], later, atol=1e-9)


ARM = """
<robot name="arm">
  <link name="base"/>
  {links}
  <joint name="a" type="revolute"><parent link="base"/><child link="l0"/><axis xyz="0 0.6 0.8"/>
    <origin xyz="0.1 0 0.2" rpy="0.3 0 0"/><limit effort="1" velocity="1"/></joint>
  <joint name="b" type="{kind}"><parent link="l0"/><child link="l1"/><axis xyz="1 0 0"/>
    <origin xyz="0 0.1 0.2" rpy="0 0.4 0"/><limit effort="1" velocity="1"/>{mimic}</joint>
</robot>
"""


@pytest.mark.parametrize("kind", ["continuous", "prismatic"])
def test_sensors_of_a_mimic_joint_are_those_of_the_joint(kind: str) -> None:
    link = (
        '<link name="l{}"><inertial><mass value="1"/><origin xyz="0.1 0.2 0"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )
    links = "".join(link.format(k) for k in (0, 1))
    of_link = {"link": "l1", "offset": (0.1, 0.2, 0.3), "rpy": (1.0, 2.0, 3.0)}
    sensors = [{"kind": one, **of_link} for one in ("gyro", "velocimeter", "framequat")]
    sensors += [{"kind": f"joint{one}", "joint": "b"} for one in ("pos", "vel")]
    sensors += [
        {"kind": "subtreeangmom", "link": "l0"},
        {"kind": "framepos", "link": "l0", "to": "l1"},
    ]
    mimic = '<mimic joint="a" multiplier="-1.5" offset="0.4"/>'
    q, qd = np.random.default_rng(0).normal(size=(2, 3, 1))
    x = {"q": q, "qd": qd}
    both = {"q": np.hstack([q, 0.4 - 1.5 * q]), "qd": np.hstack([qd, -1.5 * qd])}
    numbers = []
    for given, text in ((x, mimic), (both, "")):
        tree = load_tree(ARM.format(links=links, mimic=text, kind=kind), sensors=sensors)
        rest = {"tau": given["qd"], "gravity": np.zeros(3)}
        numbers.append(evaluate_reference(tree, "sensors", {**given, **rest})[0])
    assert_allclose(*numbers, atol=1e-12)


def test_what_is_left_out_is_named() -> None:
    sensors = '<clock name="now"/><actuatorpos name="length" actuator="servo"/><gyro site="imu"/>'
    description = from_model(Peer(sensors).model)
    with pytest.warns(GridGenWarning) as caught:
        tree = build_tree(description, RobotOptions(sensors=True))
    text = "".join(str(one.message) for one in caught)
    assert 'sensor "now": gridgen has no sensor "clock"' in text
    assert "load it with actuators=" in text
    assert [one.name for one in tree.sensors] == ["sensor2"]
    with pytest.raises(ModelError, match=r"has no sensors: load it with sensors="):
        gridgen.load(OWN / "two_link.urdf").sensors(np.zeros((1, 2)), np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"kind": "imus", "link": "tip"}, "kind 'imus'; choose one of imu, gyro"),
        ({"kind": "gyro", "link": "tipp"}, "link is 'tipp', which the robot lacks; did you mean"),
        ({"kind": "gyro", "link": "tip", "to": "tip"}, 'has "to"; a gyro has'),
        ({"kind": "framequat", "link": "tip", "cutoff": 1.0}, "has cutoff 1; a framequat has none"),
        ({"kind": "jointpos", "joint": 3}, "joint is 3, which the robot lacks"),
        (
            {"kind": "actuatorfrc", "actuator": "elbow"},
            "the robot has none; load it with actuators=",
        ),
        ({"kind": "ballquat", "joint": "elbow"}, "is no ball joint"),
        ({"kind": "gyro", "link": "tip", "offset": (0.0, 1.0)}, "give 3 numbers"),
        ({"kind": "subtreecom", "link": "tip"}, "has no mass"),
    ],
)
def test_invalid_entries(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        gridgen.load(OWN / "two_link.urdf", sensors=[entry])


def test_names_are_distinct() -> None:
    twice = [{"kind": "imu", "link": "tip"}] * 2
    with pytest.raises(OptionError, match='name "tip_imu_gyro" of another sensor'):
        gridgen.load(OWN / "two_link.urdf", sensors=twice)
