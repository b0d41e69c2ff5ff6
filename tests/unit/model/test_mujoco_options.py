"""Every option, flag and attribute of MuJoCo's own lists: its numbers, a warning or an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gridgen
from gridgen.compiler import read_tree
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import GridGenError, OptionError
from gridgen.model.diagnostics import noted
from gridgen.model.readers.mujoco import from_model
from gridgen.model.tree import KinematicTree, build_tree
from gridgen.options import RobotOptions
from helpers.robots import exhaustive

mujoco = pytest.importorskip("mujoco")
if not hasattr(mujoco.MjSpec, "from_string"):
    pytest.skip("this MuJoCo cannot edit models", allow_module_level=True)
from helpers.contacts import has_converged, iterate_to_the_end  # noqa: E402

mujoco.set_mju_user_warning(lambda text: None)  # no file of warnings
pytestmark = [
    pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # MuJoCo's, of a changed model
    # Of states that have converged.
    pytest.mark.filterwarnings("ignore:(invalid value|divide by zero):RuntimeWarning"),
]

#: Every kind of row: contacts, a pair, limits, dry friction, equalities, a spring, actuators.
TEXT = """
<mujoco>
  <compiler angle="radian"/>
  <option cone="elliptic"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="base" pos="0 0 0.2">
      <joint name="x" type="slide" axis="1 0 0" frictionloss="0.3"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <geom name="trunk" size="0.15" pos="0.02 0.01 0"/>
      <body name="leg" pos="0.2 0 0">
        <joint name="hip" axis="0 1 0.2" range="-0.3 0.3" damping="0.3" armature="0.01"
               stiffness="2" springref="0.3"/>
        <geom name="thigh" type="capsule" fromto="0 0 0 0.1 0.05 -0.1" size="0.03" condim="4"/>
        <body name="shank" pos="0.1 0.05 -0.1">
          <joint name="knee" axis="1 0 0" ref="0.4"/>
          <geom name="foot" size="0.05" pos="0 0 -0.1"/>
        </body>
      </body>
      <body name="arm" pos="-0.2 0 0">
        <joint name="shoulder" axis="0 1 0"/>
        <geom name="hand" size="0.06" pos="0 0 -0.15" condim="1"/>
      </body>
    </body>
    <body name="ball" pos="0.34 0.05 0.1"><freejoint/><geom name="ball" size="0.05"/></body>
  </worldbody>
  <contact><pair name="pair" geom1="hand" geom2="floor" margin="0.02"/></contact>
  <equality>
    <joint joint1="hip" joint2="shoulder" polycoef="0.1 0.5 0 0 0"/>
    <connect body1="shank" body2="arm" anchor="0 0 0"/>
  </equality>
  <actuator>
    <position joint="hip" kp="5" ctrlrange="-1 1" forcerange="-2 2"/>
    <motor joint="knee" gear="3"/>
  </actuator>
</mujoco>
"""
#: Lists of elements of a ``MjSpec``.
OWNERS = ("bodies", "joints", "geoms", "pairs", "equalities", "actuators")
#: Options of solvers, which are exact here.
OF_SOLVERS = {"solver", "iterations", "tolerance", "ls_iterations", "ls_tolerance"}
#: The type of a geom, in deep contact as an ellipsoid.
NOT_CHANGED = OF_SOLVERS | {"type"}
#: Options with words, and the words.
WORDS = {"integrator": "mjtIntegrator", "cone": "mjtCone", "jacobian": "mjtJacobian"}


class Case:
    """A changed model: MuJoCo's accelerations in two states, and gridgen's."""

    def __init__(self, spec: Any) -> None:
        self.model = spec.compile()
        iterate_to_the_end(self.model)
        data, rng = mujoco.MjData(self.model), np.random.default_rng(0)
        rows: dict[str, list[Any]] = {name: [] for name in ("q", "qd", "tau", "ctrl", "qdd")}
        self.has_converged = True
        for height in (-0.02, -0.1):
            mujoco.mj_resetData(self.model, data)
            data.qpos[:5] = 0.1, height, 0.4, 0.3, -0.2
            data.qpos[5:12] = 0.33, 0.03, 0.045, 0.1, 0.7, -0.5, 0.5
            data.qpos[8:12] /= np.linalg.norm(data.qpos[8:12])
            data.qvel[:], data.qfrc_applied[:] = rng.normal(size=(2, self.model.nv))
            data.ctrl[:] = rng.normal(size=self.model.nu)
            mujoco.mj_forward(self.model, data)
            self.has_converged &= has_converged(self.model, data)
            arrays = data.qpos, data.qvel, data.qfrc_applied, data.ctrl, data.qacc
            for name, array in zip(rows, arrays, strict=True):
                rows[name].append(array.copy())
        self.x = {name: np.array(values) for name, values in rows.items()}
        self.expected = self.x.pop("qdd")
        is_off = self.model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_GRAVITY)
        self.x["gravity"] = np.zeros(3) if is_off else np.array(self.model.opt.gravity)

    def read(self) -> tuple[KinematicTree, set[str]]:
        """Return gridgen's tree, and its warnings."""
        options: dict[str, Any] = {"contact": {"iterations": 100}, "actuators": True}
        options |= {"convention": "mujoco", "joint_dynamics": True}
        with noted() as said:
            tree = build_tree(from_model(self.model), RobotOptions(**options))
        return tree, {*said}

    def error(self, tree: KinematicTree) -> float:
        """Return the error of the accelerations, relative to the largest one."""
        qdd, _ = evaluate_reference(tree, "contact_forward_dynamics", self.x)
        return float(np.abs(qdd - self.expected).max() / np.abs(self.expected).max())


def attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values of an element that can be changed."""
    for name in dir(owner):
        try:
            value = getattr(owner, name)
        except ValueError:  # an attribute that is set alone
            continue
        if not name.startswith("_") and not callable(value) and not isinstance(value, str):
            yield name, value


def others(name: str, value: Any) -> Iterator[Any]:
    """Yield other values of an attribute."""
    kind = getattr(mujoco, WORDS.get(name, ""), type(value))
    if name.endswith("flags"):
        bits = mujoco.mjtDisableBit if name.startswith("disable") else mujoco.mjtEnableBit
        yield from (value ^ int(bit) for word, bit in bits.__members__.items() if "_" in word)
    elif hasattr(kind, "__members__"):
        yield from (one for one in kind.__members__.values() if int(one) != int(value))
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, float):
        yield from (0.5,) if np.isnan(value) else (1.3 * value + 0.1, -value - 0.05, 0.0)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        for k in range(value.size):
            for changed in (1.4 * value.flat[k] + 0.07, -value.flat[k] - 0.05):
                made = value.copy()
                made.flat[k] = 0.5 if np.isnan(changed) else changed
                yield made


@pytest.mark.parametrize("owners", ["option", *exhaustive("compiler", *OWNERS)])
def test_every_attribute_has_mujocos_numbers_or_is_named(owners: str) -> None:
    def owned(spec: Any) -> list[Any]:
        found = getattr(spec, owners)
        return [*found] if owners in OWNERS else [found]

    whole = mujoco.MjSpec.from_string(TEXT)
    case = Case(whole)
    plain, before = case.read()
    assert not before
    assert case.error(plain) < 1e-9
    expected, changes, named = case.expected, 0, 0
    for index, owner in enumerate(owned(whole)):
        for name, value in attributes(owner):
            for other in () if name in NOT_CHANGED else others(name, value):
                spec = mujoco.MjSpec.from_string(TEXT)
                try:
                    setattr(owned(spec)[index], name, other)
                    case = Case(spec)
                    assert case.expected.shape == expected.shape
                except (TypeError, ValueError, AttributeError, AssertionError):
                    continue  # MuJoCo refuses it, or it is another robot
                if not case.has_converged:
                    continue
                try:
                    tree, said = case.read()
                except GridGenError:
                    named += 1
                    continue
                is_same = bool(np.abs(case.expected - expected).max() < 1e-7)
                if said or (is_same and tree == plain):
                    named += bool(said)
                    continue
                changes += not is_same
                assert case.error(tree) < 1e-6, (name, other)
    assert changes + named > 2


#: Two bodies whose shapes may coincide or cross, of three joints and free.
TWO = """<mujoco><option cone="{cone}"/><worldbody>
  <body><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint axis="0 0 1"/>
    <geom {a} size="0.1 0.1" mass="1"/></body>
  <body><freejoint/><geom {b} size="0.2 0.1" mass="2"/></body></worldbody></mujoco>"""
BALL, ROD, ACROSS = 'type="sphere"', 'type="capsule"', 'type="capsule" euler="0 90 0"'
#: Shapes on a plane, one of them fixed to another one by no joint.
WELDED = """<mujoco><option cone="{cone}"/><worldbody><geom name="floor" type="plane" size="1 1 1"/>
  <body pos="0 0 -0.3"><joint type="slide" axis="0 0 1"/><geom name="a" size="0.2"/>
    <body pos="0.1 0 0"><geom name="b" size="0.1"/>
      <body pos="0 0.1 0"><joint axis="0 1 0"/><geom name="c" size="0.1" pos="0.02 0 0"/></body>
    </body></body></worldbody>{more}</mujoco>"""
SLIPPERY = """<mujoco><option cone="{cone}"/><worldbody><geom type="plane" size="1 1 1"
  friction="0 0 0" condim="6"/><body pos="0 0 0.1"><freejoint/><geom size="0.2" friction="0 0 -1"/>
  </body></worldbody></mujoco>"""
SIGNS = ("0.02 -1", "-100 1", "0 1", "0.02 0", "-100 0")
TEXTS = {
    "no friction": SLIPPERY.format(cone="pyramidal"),
    "no friction, elliptic": SLIPPERY.format(cone="elliptic"),
    "balls": TWO.format(a=BALL, b=BALL, cone="elliptic"),
    "a ball in a rod": TWO.format(a=BALL, b=ROD, cone="pyramidal"),
    "rods that cross": TWO.format(a=ROD, b=ACROSS, cone="elliptic"),
    "a pair of welded bodies": WELDED.format(
        cone="pyramidal",
        more='<contact><pair geom1="a" geom2="b"/><pair geom1="a" geom2="c" gap="0.1"/></contact>',
    ),
    "parents": WELDED.format(
        cone="elliptic", more='<option><flag filterparent="disable"/></option>'
    ),
} | {
    f"solref {pair}": WELDED.format(
        cone="elliptic",
        more=f"""<default><joint range="0.1 0.2" limited="true" frictionloss="1"
            solreflimit="{pair}" solreffriction="{pair}"/><geom solref="{pair}"/></default>
            <contact><pair geom1="a" geom2="floor" solreffriction="{pair}"/></contact>""",
    )
    for pair in SIGNS
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_what_rarely_occurs_has_mujocos_numbers(text: str) -> None:
    """Coincident shapes, pairs of welded bodies, contacts of parents, mixed signs."""
    model = mujoco.MjModel.from_xml_string(text)
    iterate_to_the_end(model)
    data = mujoco.MjData(model)
    data.qvel[:] = np.random.default_rng(0).normal(size=model.nv)
    mujoco.mj_forward(model, data)
    assert data.ncon
    options: dict[str, Any] = {"convention": "mujoco", "joint_dynamics": True}
    tree = build_tree(from_model(model), RobotOptions(contact=True, **options))
    x = {"q": data.qpos, "qd": data.qvel, "tau": np.zeros(model.nv)}
    x = {name: array.copy()[None] for name, array in x.items()}
    x["gravity"] = np.array(model.opt.gravity)
    qdd, _ = evaluate_reference(tree, "contact_forward_dynamics", x)
    assert_allclose(qdd[0], data.qacc, rtol=1e-8, atol=1e-8 * np.abs(data.qacc).max())


@pytest.mark.parametrize(
    ("integrator", "child", "problem"),
    [
        ("implicit", True, "its integrator is implicit, which"),
        ("implicitfast", False, r'gyroscopic terms of free bodies without children \("ball"\)'),
        ("implicitfast", True, ""),
        ("Euler", False, ""),
    ],
)
def test_an_integrator_that_gridgen_lacks_is_named(
    integrator: str, child: bool, problem: str
) -> None:
    below = '<freejoint/><body><joint/><geom size="1"/></body>'
    text = TWO.replace(
        "<body><freejoint/>", f'<body name="ball">{below if child else "<freejoint/>"}'
    )
    text = text.format(cone=f'elliptic" integrator="{integrator}', a=BALL, b=BALL)
    with noted() as said:
        from_model(mujoco.MjModel.from_xml_string(text))
    found = [one for one in said if "integrator" in one]
    assert bool(found) == bool(problem)
    assert not problem or re.search(problem, found[0])


@pytest.mark.parametrize("given", ['impratio="-1"', 'impratio="0"'])
def test_an_impratio_that_is_not_positive_is_refused(given: str) -> None:
    text = TWO.format(cone=f'elliptic" {given} jacobian="dense', a=BALL, b=BALL)
    description = from_model(mujoco.MjModel.from_xml_string(text))
    with pytest.raises(OptionError, match="; give a positive number"):
        build_tree(description, RobotOptions(contact=True))


KEYS = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <camera name="fixed" pos="1 0 2" euler="0.3 0 0"/>
    <body name="trunk" pos="0 0 1"><freejoint/><geom size="0.1"/>
      <site name="imu" pos="0.1 0 0.2" euler="0.1 0.2 0.3"/><site/>
      <body name="arm" pos="0.1 0 0"><joint name="swing" type="ball"/><geom size="0.05"/>
        <body name="hand" pos="0 0 1"><joint name="bend" ref="0.2"/><geom size="0.05" pos="0 1 0"/>
          <site name="tip" pos="0 1 0"/><camera name="eye" pos="0 0.5 0" euler="0 0.4 0"/>
          <camera name="turns" mode="targetbody" target="trunk"/></body></body></body>
  </worldbody>
  <actuator><motor name="elbow" joint="bend"/></actuator>
  <keyframe><key name="home" qpos="1 2 3 0.8 0 0.6 0 0.6 0.8 0 0 0.3" ctrl="0.7"
                 qvel="1 2 3 4 5 6 7 8 9 10"/><key/></keyframe>
</mujoco>
"""


@pytest.mark.parametrize("convention", ["pinocchio", "mujoco"])
def test_keyframes_sites_and_cameras_are_those_of_the_file(convention: str, tmp_path: Path) -> None:
    path = tmp_path / "robot.xml"
    path.write_text(KEYS)
    robot = gridgen.load(path, convention=convention, actuators=True)
    assert (robot.nu, list(robot.keyframes)) == (1, ["home", "key1"])
    home = robot.keyframes["home"]
    assert home.ctrl == [0.7]
    model = mujoco.MjModel.from_xml_string(KEYS)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    if convention == "mujoco":
        np.testing.assert_array_equal(home.q, data.qpos)
        np.testing.assert_allclose(home.qd, data.qvel, atol=1e-12)
    tree = read_tree(path, RobotOptions(convention=convention))
    assert not {"turns", ""} & {*tree.frame_names}
    poses, velocities = (
        evaluate_reference(tree, name, {"q": home.q[None], "qd": home.qd[None]})[0][0]
        for name in ("forward_kinematics", "centroidal_momentum")
    )
    for name, at, turn in (
        *((site, data.site(site).xpos, data.site(site).xmat) for site in ("imu", "tip")),
        *((eye, data.camera(eye).xpos, data.camera(eye).xmat) for eye in ("fixed", "eye")),
    ):
        pose = poses[tree.frame_names.index(name)]
        np.testing.assert_allclose(pose[:3, 3], at, atol=1e-12)
        np.testing.assert_allclose(pose[:3, :3].ravel(), turn, atol=1e-12)
    mujoco.mj_subtreeVel(model, data)
    total = data.subtree_linvel[0] * model.body_subtreemass[0]
    np.testing.assert_allclose(velocities[:3], total, atol=1e-9)
