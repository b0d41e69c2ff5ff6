"""Constraints of MJCF files and of Pinocchio's models are those that the libraries compute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pinocchio
import pytest
from numpy.testing import assert_allclose

from gridgen.check import random_states
from gridgen.compiler import load, read_tree
from gridgen.dynamics.constraints import Constraints
from gridgen.dynamics.reference import evaluate_reference
from gridgen.dynamics.state import State
from gridgen.errors import GridGenWarning, ModelError, OptionError
from gridgen.functions.arrays import PROXIMAL
from gridgen.model.pose import from_rpy, to_rpy
from gridgen.model.tree import KinematicTree
from gridgen.options import RobotOptions
from gridgen.symbolic.scalars import FloatScalars
from helpers.robots import OWN

#: A chain of skew joints that carries two others, as a hand has them.
MECHANISM = """
<mujoco>
  <option><flag contact="disable" gravity="enable"/></option>
  <default>
    <geom type="capsule" size=".03 .1" contype="0" conaffinity="0"/>
    <equality solref=".03 .8" solimp=".9 .96"/>
  </default>
  <worldbody>
    <body name="base" pos=".1 .2 .3" euler="10 0 20">
      <geom/>
      <body name="a" pos="0 0 .2" euler="0 20 0"><joint name="ja" axis="0 1 .3" ref="25"/>
        <geom euler="20 0 0"/>
        <body name="b" pos=".1 0 .2"><joint name="jb" axis="1 .2 0" pos="0 .05 .1"/><geom/>
          <site name="tip" pos=".02 .1 .1" euler="5 60 0"/>
          <body name="c" pos="0 .1 .2"><joint name="jc" type="slide" axis="0 .4 1"/><geom/></body>
        </body>
      </body>
      <body name="d" pos=".3 0 0" euler="0 0 90">
        <joint name="jx" type="slide" axis="1 0 0"/><joint name="jy" type="slide" axis="0 1 .2"/>
        <joint name="jd" axis="0 1 0" armature=".1"/><joint name="je" axis=".3 0 1"/>
        <geom euler="0 50 0"/>
        <site name="hook" pos="0 .1 .2" euler="70 0 10"/>
        <body name="f" pos="0 0 .3"><joint name="jf" axis="1 0 0" ref="-10"/><geom/></body>
      </body>
    </body>
    <body name="hand" mocap="true"/>
  </worldbody>
  <equality>EQUALITY</equality>
</mujoco>
"""
EQUALITIES = {
    "connect": '<connect body1="c" body2="d" anchor=".1 .2 .3"/>',
    "connect with the world": '<connect body1="f" anchor=".1 .2 .3"/>',
    "the world first": '<weld body1="world" body2="f" anchor=".1 .2 .3"/>',
    "connect of sites": '<connect site1="tip" site2="hook"/>',
    "weld": '<weld body1="b" body2="f" anchor=".1 .2 .3" relpose=".1 0 .2 .8 .2 .4 .4"/>',
    "weld where they are": '<weld body1="c" body2="f" anchor=".1 -.2 .3" torquescale="2"/>',
    "weld of sites": '<weld site1="hook" site2="tip"/>',
    "weld without torques": '<weld body1="b" body2="f" torquescale="0"/>',
    "joints": '<joint joint1="ja" joint2="jf" polycoef=".2 -1.5 0 0 0"/>',
    "a joint": '<joint joint1="jc" polycoef=".2 1 0 0 0" solref="-200 -30"/>',
}


def read(equality: str) -> tuple[Any, Any, KinematicTree]:
    """Return MuJoCo, its model and the robot."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(MECHANISM.replace("EQUALITY", equality))
    with pytest.warns(GridGenWarning, match="mocap"):
        return mujoco, model, read_tree(model)


def rows_at(tree: KinematicTree, q: np.ndarray) -> Any:
    """Return the constraint in a state."""
    return Constraints(State(tree, FloatScalars(), list(map(float, q))))


def close_up(mujoco: Any, model: Any, data: Any) -> None:
    """Move the joints until the constraint is fulfilled."""
    data.qpos = model.qpos0 + 0.2 * np.random.default_rng(1).normal(size=model.nq)
    for _ in range(60):
        mujoco.mj_forward(model, data)
        J = data.efc_J.reshape(-1, model.nv)
        data.qpos -= np.linalg.pinv(J, rcond=1e-6) @ data.efc_pos
    mujoco.mj_forward(model, data)
    assert np.abs(data.efc_pos).max() < 1e-12


@pytest.mark.parametrize("equality", EQUALITIES.values(), ids=EQUALITIES.keys())
def test_an_equality_has_mujocos_error_and_gains(equality: str) -> None:
    mujoco, model, tree = read(equality)
    data = mujoco.MjData(model)
    data.qpos = model.qpos0 + np.random.default_rng(0).normal(size=tree.nq)
    mujoco.mj_forward(model, data)
    constraints, (one,) = rows_at(tree, data.qpos), tree.constraints
    (held,) = constraints.held
    found = np.array(held.turned(constraints.errors(held)))
    axes = np.eye(3)
    if one.to is not None:
        (poses,) = evaluate_reference(tree, "forward_kinematics", {"q": data.qpos[None]})
        if one.to.body >= 0:
            axes = poses[0, tree.frame_names.index(tree.bodies[one.to.body].name), :3, :3]
        axes = axes @ np.array(one.to.rotation)
    assert_allclose(axes @ found[:3] if len(found) > 1 else found, data.efc_pos[:3], atol=1e-12)
    if len(found) == 6:  # MuJoCo's error is the sine of half the angle, about the same axis
        half = data.efc_pos[3:] / model.eq_data[0, 10]
        sine = np.sin(2.0 * np.arcsin(np.linalg.norm(half)))
        assert_allclose(np.linalg.norm(found[3:]), abs(sine), atol=1e-12)
    close_up(mujoco, model, data)
    stiffness, damping, impedance, _ = data.efc_KBIP[0]
    assert_allclose(one.stabilization, (stiffness * impedance, damping), rtol=1e-9)


@pytest.mark.parametrize("equality", EQUALITIES.values(), ids=EQUALITIES.keys())
def test_a_stiff_equality_has_mujocos_accelerations(equality: str) -> None:
    """In the rigid limit of MuJoCo's equations: M, J and the forces are its own."""
    mujoco, model, tree = read(equality)
    data, rng = mujoco.MjData(model), np.random.default_rng(1)
    close_up(mujoco, model, data)
    data.qfrc_applied = rng.normal(size=tree.nv)
    mujoco.mj_forward(model, data)
    x = random_states(tree, 1, rng)
    x |= {"q": data.qpos[None], "qd": np.zeros((1, tree.nv)), "tau": data.qfrc_applied[None]}
    x |= {"gravity": np.array([[0.0, 0.0, -9.81]]), "active": np.ones((1, 1))}
    x |= {"compliance": np.zeros((1, 1)), "proximal": np.full((1, 1), PROXIMAL["float64"])}
    qdd, _ = evaluate_reference(tree, "constrained_forward_dynamics", x)
    (M,) = evaluate_reference(tree, "mass_matrix", x)
    J = data.efc_J.reshape(-1, tree.nv)
    response = np.linalg.solve(M[0], J.T)
    forces = np.linalg.lstsq(J @ response, -J @ data.qacc_smooth, rcond=1e-9)[0]
    expected = data.qacc_smooth + response @ forces
    assert_allclose(qdd[0], expected, atol=1e-9 * max(1.0, np.abs(data.qacc_smooth).max()))
    soft = np.linalg.solve(J @ response + np.diag(data.efc_R), -J @ data.qacc_smooth)
    assert_allclose(data.qacc_smooth + response @ soft, data.qacc, atol=1e-6)


def pinocchios(
    model: Any, models: Any, q: np.ndarray, qd: np.ndarray, tau: np.ndarray
) -> np.ndarray:
    """Return Pinocchio's accelerations."""
    data, own = model.createData(), pinocchio.StdVec_RigidConstraintData()
    own.extend([one.createData() for one in models])
    pinocchio.initConstraintDynamics(model, data, models, own)
    settings = pinocchio.ProximalSettings(1e-14, 1e-14, 1e-12, 20)
    return pinocchio.constraintDynamics(model, data, q, qd, tau, models, own, settings).copy()


def ours(tree: KinematicTree, q: np.ndarray, qd: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Return the accelerations with the inputs that the robot came with."""
    x = {name: np.array([tree.parameters[name]]) for name in ("active", "compliance", "proximal")}
    x |= {"stabilization": np.array([tree.parameters["stabilization"]])}
    x |= {"q": q[None], "qd": qd[None], "tau": tau[None], "gravity": [[0.0, 0.0, -9.81]]}
    found: np.ndarray = evaluate_reference(tree, "constrained_forward_dynamics", x)[0][0]
    return found


@pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning")
@pytest.mark.parametrize("frame", ["LOCAL", "LOCAL_WORLD_ALIGNED"])
@pytest.mark.parametrize("kind", ["CONTACT_3D", "CONTACT_6D"])
def test_a_constraint_model_is_pinocchios(kind: str, frame: str) -> None:
    """A loop that is closed, and a foot that is drawn to a point of the world."""
    model = pinocchio.buildSampleModelHumanoidRandom(True)
    model.lowerPositionLimit[:7], model.upperPositionLimit[:7] = -1.0, 1.0
    pinocchio.seed(3)
    q = pinocchio.randomConfiguration(model)
    data, rng = model.createData(), np.random.default_rng(3)
    pinocchio.forwardKinematics(model, data, q)
    feet = [model.getJointId(f"{side}leg6_joint") for side in "rl"]
    hands = [model.getJointId(f"{side}arm6_joint") for side in "rl"]
    at = pinocchio.SE3.Random()
    there = data.oMi[hands[1]].actInv(data.oMi[hands[0]] * at)
    seen = getattr(pinocchio.ReferenceFrame, frame)
    closed = pinocchio.RigidConstraintModel(
        getattr(pinocchio.ContactType, kind), model, hands[0], at, hands[1], there, seen
    )
    drawn = pinocchio.RigidConstraintModel(
        pinocchio.ContactType.CONTACT_3D,
        model,
        *(feet[0], pinocchio.SE3.Random()),
        *(0, pinocchio.SE3.Random(), pinocchio.ReferenceFrame.LOCAL_WORLD_ALIGNED),
    )
    drawn.m_baumgarte_parameters.Kp, drawn.m_baumgarte_parameters.Kd = 3.0, 2.0
    closed.name = "hands"
    models = pinocchio.StdVec_RigidConstraintModel()
    models.extend([closed, drawn])
    tree = read_tree((model, models))
    assert [one.name for one in tree.constraints] == ["hands", "constraint1"]
    assert tree.constraints[1].stabilization == (3.0, 2.0)
    qd, tau = rng.normal(size=(2, model.nv))
    J = np.array(rows_at(tree, q).held[0].rows)
    qd -= np.linalg.pinv(J) @ J @ qd
    expected = pinocchios(model, models, q, qd, tau)
    assert_allclose(ours(tree, q, qd, tau), expected, atol=1e-8 * np.abs(expected).max())


FOUR_BAR = """
<mujoco model="four_bar">
  <default><geom type="capsule" size=".02"/></default>
  <worldbody><body name="base">
    <body name="crank"><joint name="j1" axis="0 1 0" range="-300 300"/>
      <geom fromto="0 0 0 0 0 .2"/>
      <body name="coupler" pos="0 0 .2"><joint name="j2" axis="0 1 0" range="-300 300"/>
        <geom fromto="0 0 0 .4 0 0"/></body></body>
    <body name="rocker" pos=".4 0 0"><joint name="j3" axis="0 1 0" range="-300 300"/>
      <geom fromto="0 0 0 0 0 .2"/></body>
  </body></worldbody>
  <equality>
    <connect name="pin" body1="coupler" body2="rocker" anchor=".4 0 0"/>
    <weld name="brake" body1="crank" active="false"/>
  </equality>
</mujoco>
"""


@pytest.mark.parametrize("legacy", ["", "Legacy"])
def test_a_four_bar_of_pinocchio(legacy: str, tmp_path: Any) -> None:
    """Pinocchio's reader ignores ``active``, and gives points and frames in two lists."""
    path = tmp_path / "four_bar.xml"
    path.write_text(FOUR_BAR.replace('<weld name="brake" body1="crank" active="false"/>', ""))
    model, *lists = getattr(pinocchio, f"buildModelAnd{legacy}ConstraintsFromMJCF")(str(path))
    for k in range(1, 4):
        model.inertias[k] = pinocchio.Inertia.FromEllipsoid(k, 0.1, 0.2, 0.3)
    tree = read_tree((model, *lists))
    models = pinocchio.StdVec_RigidConstraintModel()
    one = lists[0][0]
    ends = one.joint1_id, one.joint1_placement, one.joint2_id, one.joint2_placement
    models.append(
        pinocchio.RigidConstraintModel(
            pinocchio.ContactType.CONTACT_3D, model, *ends, pinocchio.ReferenceFrame.LOCAL
        )
    )
    q, tau = np.array([0.4, -0.4, 0.4]), np.array([0.3, 0.2, -0.5])
    qd = np.array([1.0, -1.0, 1.0])  # a parallelogram
    expected = pinocchios(model, models, q, qd, tau)
    assert_allclose(ours(tree, q, qd, tau), expected, atol=1e-9 * np.abs(expected).max())


#: A leg with a rod from the thigh to the heel, as Cassie's, that stands on its toe.
LEG = """
<mujoco>
  <default><geom type="capsule" size=".02" contype="0" conaffinity="0"/></default>
  <worldbody><body name="pelvis"><freejoint name="root"/><geom size=".1 .1"/>
    <body name="thigh" pos="0 .1 0"><joint name="hip" axis="0 1 .1"/>
      <geom fromto="0 0 0 .1 0 -.4"/>
      <body name="shin" pos=".1 0 -.4"><joint name="knee" axis="0 1 0"/>
        <geom fromto="0 0 0 0 0 -.3"/>
        <body name="heel" pos="0 0 -.3"><joint name="ankle" axis="0 1 0"/>
          <geom fromto="0 0 0 -.1 0 0"/>
          <body name="foot" pos="-.1 0 0"><joint name="toe" axis="0 1 0"/>
            <geom fromto="0 0 0 .2 0 0"/></body></body></body>
      <body name="yoke" pos="0 0 -.05"><joint name="yaw" axis="0 0 1"/><geom size=".01 .01"/>
        <body name="rod"><joint name="pitch" axis="0 1 0"/>
          <geom fromto="0 0 0 -.1 0 -.65"/></body></body></body>
  </body></worldbody>
  <equality>
    <connect name="rod" body1="rod" body2="heel" anchor="-.1 0 -.65"/>
    <connect name="toe" body1="foot" anchor=".2 0 0"/>
  </equality>
</mujoco>
"""


def test_a_leg_with_a_rod_moves_as_pinocchios(tmp_path: Any) -> None:
    """Both read the file: links and constraints from MuJoCo here, by its own reader there."""
    pytest.importorskip("mujoco")
    path = tmp_path / "leg.xml"
    inertial = '<inertial pos="0 .01 .02" mass="2" diaginertia=".01 .02 .025"/>'
    path.write_text(
        LEG.replace("<geom ", f"{inertial}<geom ").replace(f"{inertial}<geom type", "<geom type")
    )
    tree = read_tree(path)
    model, *lists = pinocchio.buildModelAndConstraintsFromMJCF(str(path))
    models = pinocchio.StdVec_RigidConstraintModel()
    for one in lists[0]:
        ends = one.joint1_id, one.joint1_placement, one.joint2_id, one.joint2_placement
        kinds = pinocchio.ContactType.CONTACT_3D, model
        models.append(pinocchio.RigidConstraintModel(*kinds, *ends, pinocchio.ReferenceFrame.LOCAL))
    rng = np.random.default_rng(0)
    qd, tau = rng.normal(size=(2, tree.nv))
    q = pinocchio.integrate(
        model, pinocchio.neutral(model), np.r_[rng.normal(size=6), 0.0 * qd[6:]]
    )
    J = np.array(rows_at(tree, q).held[0].rows)
    qd -= np.linalg.pinv(J) @ J @ qd
    expected = pinocchios(model, models, q, qd, tau)
    stabilization = tuple((0.0, 0.0) for _ in tree.constraints)
    tree = replace(tree, parameters={**tree.parameters, "stabilization": stabilization})
    assert_allclose(ours(tree, q, qd, tau), expected, atol=1e-8 * np.abs(expected).max())


def test_a_four_bar_of_mujoco_moves_as_one() -> None:
    pytest.importorskip("mujoco")
    with pytest.warns(GridGenWarning, match="contacts"):
        robot = load(FOUR_BAR, backend="cpu")
    assert robot.constraint_names == ("pin", "brake")
    np.testing.assert_array_equal(robot.parameters("active"), [1.0, 0.0])
    qdd, _ = robot.constrained_forward_dynamics(*np.zeros((2, 1, 3)), np.ones((1, 3)))
    assert_allclose(qdd[0, 0] * np.array([1.0, -1.0, 1.0]), qdd[0], atol=1e-9)
    assert abs(qdd[0, 0]) > 1e-3
    rigid = load(OWN / "arm6.urdf", constraints=[{"kind": "frame", "link": "tool0"}])
    with pytest.raises(ModelError, match='constraint "tool0" leaves no motion: lock joints'):
        rigid.delassus(np.zeros((1, 6)))


def test_what_is_not_read_is_refused_or_warned_of_by_name() -> None:
    mujoco = pytest.importorskip("mujoco")

    def text(equality: str) -> str:
        return MECHANISM.replace("EQUALITY", equality)

    message = 'equality "q": relates joints by a polynomial of degree 2'
    with pytest.raises(ModelError, match=message):
        read_tree(text('<joint name="q" joint1="ja" joint2="jb" polycoef="0 1 .1 0 0"/>'))
    held = text('<weld name="w" body1="hand" body2="f"/>')
    with pytest.warns(GridGenWarning) as caught:
        assert not read_tree(held).constraints
    assert any("holds a mocap body" in str(warning.message) for warning in caught)
    ropes = '<tendon><fixed name="t"><joint joint="ja" coef="1"/></fixed></tendon></mujoco>'
    rope = text('<tendon name="r" tendon1="t"/>').replace("</mujoco>", ropes)
    with pytest.warns(GridGenWarning) as caught:
        assert not read_tree(rope).constraints
    assert any('"r": is not of bodies or joints' in str(one.message) for one in caught)
    off = text(EQUALITIES["joints"]).replace('contact="disable"', 'equality="disable"')
    with pytest.warns(GridGenWarning):
        assert not read_tree(mujoco.MjModel.from_xml_string(off)).constraints
    with (
        pytest.warns(GridGenWarning, match="mocap"),
        pytest.raises(OptionError, match='constraint "same" has "base" and "world", which do'),
    ):
        read_tree(text('<weld name="same" body1="base"/>'))
    model = pinocchio.buildSampleModelManipulator()
    contact = pinocchio.RigidConstraintModel(pinocchio.ContactType.CONTACT_3D, model, 3)
    contact.desired_contact_velocity.linear = np.ones(3)
    with pytest.raises(ModelError, match='constraint "constraint0": has a desired offset'):
        read_tree((model, [contact]))
    with pytest.raises(ModelError, match='"constraint0": is a SE3, which gridgen does not'):
        read_tree((model, [pinocchio.SE3.Random()]))


@pytest.mark.parametrize("locked", ["ja", "jf", "both"])
def test_a_joint_that_is_locked_holds_the_other(locked: str) -> None:
    *_, tree = read(EQUALITIES["joints"])
    (before,) = tree.constraints
    lock = {"ja": 0.4, "jf": 0.3} if locked == "both" else {locked: 0.4}
    text = MECHANISM.replace("EQUALITY", EQUALITIES["joints"])
    with pytest.warns(GridGenWarning, match="mocap"):
        after = read_tree(text, RobotOptions(lock=lock)).constraints
    if locked == "both":
        assert not after
        return
    assert after[0].joints[1] == -1
    if locked == "jf":
        assert after[0].offset == pytest.approx(before.offset + before.multiplier * 0.4)
    else:
        assert before.multiplier * after[0].offset + before.offset == pytest.approx(0.4)


@pytest.mark.parametrize("pitch", [0.3, np.pi / 2, -np.pi / 2])
def test_roll_pitch_and_yaw_of_a_rotation(pitch: float) -> None:
    rotation = from_rpy(0.4, pitch, -2.0)
    assert_allclose(from_rpy(*to_rpy(rotation)), rotation, atol=1e-12)
