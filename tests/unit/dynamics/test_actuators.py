"""Actuators and springs against MuJoCo."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gridgen
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import GridGenWarning, ModelError, OptionError, ShapeError
from gridgen.model.readers.mujoco import from_model
from gridgen.model.tree import KinematicTree, build_tree
from gridgen.options import RobotOptions
from helpers.dynamics import load_tree
from helpers.robots import INTEGRATORS, OWN

pytestmark = [
    pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning"),
    # Of values that are not selected.
    pytest.mark.filterwarnings("ignore:(invalid value|divide by zero):RuntimeWarning"),
]

#: A leg on a rail: every kind of actuator, every range, springs; a foot that may touch a plane.
LEG = """
<mujoco>
  <compiler angle="radian"/>
  <option integrator="{integrator}" timestep="0.005" tolerance="0" iterations="200"
          actuatorgroupdisable="2"/>
  <worldbody>
    <geom type="plane" size="1 1 1" pos="0 0 {height}"/>
    <body>
      <joint name="rail" type="slide" axis="0 0 1" damping="0.7" stiffness="30" springref="0.2"/>
      <geom size="0.1" contype="0" conaffinity="0"/>
      <body>
        <joint name="hip" axis="0 1 0.1" ref="0.3" armature="0.02" actuatorfrcrange="-6 5"/>
        <geom type="capsule" fromto="0 0 0 0.1 0 -0.4" size="0.04" contype="0" conaffinity="0"/>
        <body pos="0.1 0 -0.4">
          <joint name="knee" axis="0 1 0" damping="0.1" stiffness="2" springref="0.5"
                 frictionloss="{loss}"/>
          <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03" contype="0" conaffinity="0"/>
          <geom size="0.05" pos="0 0 -0.4"/>
          <body pos="0 0.1 -0.4">
            <joint name="toe" axis="1 0 0"/>
            <geom size="0.04" pos="0 0.1 0" contype="0" conaffinity="0"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="rail" gear="3" ctrlrange="-1 1" armature="0.1" damping="0.2"/>
    <position joint="hip" kp="12" kv="0.6" gear="-1.5" forcerange="-4 4"/>
    <general joint="hip" gaintype="affine" gainprm="2 0.3 -0.4" biastype="affine"
             biasprm="0.1 -3 -0.2" ctrlrange="-0.5 0.7"/>
    <velocity jointinparent="knee" kv="0.8"/>
    <damper joint="knee" kv="0.5" ctrlrange="0 1"/>
    <position joint="toe" kp="3" dampratio="1" inheritrange="0" ctrllimited="false"/>
    <velocity joint="toe" kv="9" group="2"/>
  </actuator>
</mujoco>
"""
COUNT = 12


class Peer:
    """The leg in random states; ``varies``: each state has numbers of its own for actuators."""

    def __init__(self, integrator: str, *, touches: bool, varies: bool = False) -> None:
        self.mujoco = pytest.importorskip("mujoco")
        height, loss = (-0.75, 0.3) if touches else (-9.0, 0.0)
        text = LEG.format(integrator=integrator, height=height, loss=loss)
        self.model = self.mujoco.MjModel.from_xml_string(text)
        self.options: dict[str, Any] = {"joint_dynamics": True, "actuators": True}
        if touches:
            self.options["contact"] = {"iterations": 100}
        rng = np.random.default_rng(3)
        nv, nu = self.model.nv, self.model.nu
        self.x = {name: rng.normal(size=(COUNT, nv)) for name in ("q", "qd", "tau")}
        self.x["q"] *= 0.4
        self.x["ctrl"] = 1.2 * rng.normal(size=(COUNT, nu))
        self.x["gravity"] = np.array(self.model.opt.gravity)
        self.dt = self.model.opt.timestep
        if varies:
            self.options["parameters"] = ["actuator_gains", "gear", "stiffness"]
            self.options["parameters"] += ["joint_friction"] * touches
            for name, own in self.tree().parameters.items():
                if name in self.options["parameters"]:
                    numbers = np.asarray(own)
                    self.x[name] = numbers * rng.uniform(0.5, 1.5, (COUNT, *numbers.shape))
            self.x["gear"][:, 0] = 3.0  # MuJoCo's armature of the rail's motor depends on it

    def tree(self) -> KinematicTree:
        """Return gridgen's tree."""
        return build_tree(from_model(self.model), RobotOptions(**self.options))

    def each(self) -> Any:
        """Yield MuJoCo's data of each state."""
        model, x = self.model, self.x
        data = self.mujoco.MjData(model)
        for k in range(COUNT):
            self.mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:], data.qfrc_applied[:] = x["q"][k], x["qd"][k], x["tau"][k]
            data.ctrl[:] = x["ctrl"][k]
            if "gear" in x:
                enabled = slice(0, 6)  # the group of the last is disabled
                model.actuator_gainprm[enabled, :3] = x["actuator_gains"][k, enabled, :3]
                model.actuator_biasprm[enabled, :3] = x["actuator_gains"][k, enabled, 3:]
                model.actuator_gear[:, 0] = x["gear"][k]
                model.jnt_stiffness.flat[[0, 2]] = x["stiffness"][k]
            if "joint_friction" in x:
                model.dof_frictionloss[2] = x["joint_friction"][k, 2]
            yield data


def test_torques_are_those_of_mujoco() -> None:
    peer = Peer("implicitfast", touches=False)
    (found,) = evaluate_reference(peer.tree(), "actuator_torques", peer.x)
    for torques, data in zip(found, peer.each(), strict=True):
        peer.mujoco.mj_forward(peer.model, data)
        assert_allclose(torques, data.qfrc_actuator, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("touches", [False, True])
@pytest.mark.parametrize(
    ("integrator", "option"),
    [("implicit", "Euler"), ("implicit", "implicitfast"), ("rk4", "RK4")],
)
def test_steps_are_those_of_mujoco(integrator: str, option: str, touches: bool) -> None:
    peer = Peer(option, touches=touches, varies=True)
    x = {**peer.x, "dt": np.full(COUNT, peer.dt)}
    q, qd = evaluate_reference(peer.tree(), f"step_{integrator}", x)
    for k, data in enumerate(peer.each()):
        peer.mujoco.mj_step(peer.model, data)
        assert_allclose(q[k], data.qpos, rtol=0.0, atol=1e-10)
        assert_allclose(qd[k], data.qvel, rtol=0.0, atol=1e-9)


def test_a_rollout_follows_controls_as_mujoco() -> None:
    peer, steps = Peer("implicitfast", touches=False), 40
    ctrl = 1.2 * np.random.default_rng(4).normal(size=(COUNT, steps, peer.model.nu))
    robot = gridgen.load(peer.model, **peer.options, backend="cpu")
    assert robot.actuator_names[0] == "actuator0"
    x, tau = peer.x, np.zeros((steps, robot.nv))
    options: dict[str, Any] = {"integrator": "implicit", "gravity": x["gravity"]}
    q, qd = robot.rollout(x["q"], x["qd"], tau, peer.dt, ctrl=ctrl, **options)
    for k, data in enumerate(peer.each()):
        data.qfrc_applied[:] = 0.0
        for t in range(steps):
            data.ctrl[:] = ctrl[k, t]
            peer.mujoco.mj_step(peer.model, data)
            assert_allclose(q[k, t + 1], data.qpos, rtol=0.0, atol=1e-9)
    # One target for all steps; the default is zero.
    held = robot.rollout(x["q"], x["qd"], tau, peer.dt, ctrl=ctrl[0, 0], **options)
    stepped = robot.rollout(x["q"], x["qd"], tau, peer.dt, ctrl=ctrl[:1, :1], **options)
    assert np.array_equal(held[0], stepped[0])
    alone = robot.step(x["q"], x["qd"], tau[0], peer.dt, ctrl=ctrl[:, 0], **options)
    assert np.array_equal(alone[1], qd[:, 1])
    zero = robot.step(x["q"], x["qd"], tau[0], peer.dt, ctrl=0.0 * ctrl[:, 0], **options)
    assert np.array_equal(robot.step(x["q"], x["qd"], tau[0], peer.dt, **options)[1], zero[1])


def test_products_are_those_of_differences() -> None:
    peer, size = Peer("implicitfast", touches=False, varies=True), 1e-6
    robot = gridgen.load(peer.model, **peer.options, backend="cpu")
    own_numbers = {name: peer.x[name] for name in peer.options["parameters"]}
    rng, x = np.random.default_rng(5), peer.x
    ctrl = x["ctrl"][:, None] + 0.3 * rng.normal(size=(COUNT, 5, peer.model.nu))
    tau = np.repeat(x["tau"][:, None], 5, axis=1)
    bars = rng.normal(size=(2, COUNT, 6, robot.nv))
    options: dict[str, Any] = {"integrator": "implicit", "gravity": x["gravity"]}
    wrt = ("q0", "ctrl", *own_numbers)
    given = {"q0": x["q"], "ctrl": ctrl, **own_numbers}
    found = robot.rollout_vjp(
        x["q"], x["qd"], tau, peer.dt, (*bars,), ctrl=ctrl, wrt=wrt, **own_numbers, **options
    )
    assert found[1].shape == ctrl.shape

    def cost(q0: np.ndarray, **inputs: np.ndarray) -> np.ndarray:
        paths = robot.rollout(q0, x["qd"], tau, peer.dt, **inputs, **options)
        return sum((bar * path).sum(axis=(1, 2)) for bar, path in zip(bars, paths, strict=True))

    for place, (name, start) in enumerate(given.items()):
        move = rng.normal(size=start.shape)
        ends = [cost(**{**given, name: start + sign * size * move}) for sign in (1.0, -1.0)]
        expected = (ends[0] - ends[1]) / (2.0 * size)
        own = (found[place] * move).reshape(COUNT, -1).sum(axis=1)
        assert_allclose(own, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    # A control beyond its range moves nothing.
    of_rail, beyond = found[1][:, :, 0], np.abs(ctrl[:, :, 0]) > 1.0
    assert np.array_equal(of_rail == 0.0, beyond)
    assert beyond.any()


@pytest.mark.parametrize(
    ("integrator", "touches"),
    [*itertools.product(INTEGRATORS, (False, True)), ("variational", False)],
)
def test_linearized_steps_are_those_of_differences(integrator: str, touches: bool) -> None:
    peer, size = Peer("implicitfast", touches=touches), 1e-6
    tree, n = peer.tree(), peer.model.nv
    x = {**peer.x, "dt": np.full(COUNT, peer.dt)}
    if touches:
        x["tolerance"] = np.full((COUNT, 1), 1e-13)
    names = ("q", "qd", "tau")
    many: dict[str, np.ndarray] = {
        key: np.concatenate([v] * 3 * n) if len(v) == COUNT else v for key, v in x.items()
    }
    ends = []
    for sign in (1.0, -1.0):
        moved = dict(many)
        for place, name in enumerate(names):
            steps = np.zeros((3 * n, COUNT, n))
            for k in range(n):
                steps[place * n + k, :, k] = sign * size
            moved[name] = many[name] + steps.reshape(-1, n)
        ends.append(np.hstack(evaluate_reference(tree, f"step_{integrator}", moved)))
    slopes = ((ends[0] - ends[1]) / (2.0 * size)).reshape(3 * n, COUNT, 2 * n).transpose(1, 2, 0)
    found = np.concatenate(evaluate_reference(tree, f"step_gradient_{integrator}", x), axis=2)
    assert_allclose(found, slopes, rtol=1e-5, atol=1e-5)


#: A floating body with two branches, tendons between them, thrusters, and compensated weight.
GLIDER = """
<mujoco>
  <compiler angle="radian"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <option integrator="{integrator}" timestep="0.004" tolerance="0" iterations="200"/>
  <worldbody>
    <body pos="0 0 1"><freejoint/>
      <geom type="box" size="0.2 0.1 0.1"/><site name="rotor" pos="0.1 0.2 0" euler="0.2 0.3 0.1"/>
      <body gravcomp="0.7"><joint name="a" axis="0 1 0.1" ref="0.2" damping="0.1"/>
        <geom type="capsule" fromto="0 0 0 0 0.3 0" size="0.03"/>
        <body pos="0 0.3 0"><joint name="b" axis="0 0 1" range="-0.3 0.4"/>
          <geom type="capsule" fromto="0 0 0 0 0.3 0" size="0.03"/><site name="tip" pos="0 0.3 0"/>
          <body pos="0 0.3 0" gravcomp="1"><geom size="0.05"/></body>
        </body>
      </body>
      <body pos="0.1 0 0"><joint name="c" axis="1 0 0" frictionloss="0.05"/>
        <geom type="capsule" fromto="0 0 0 0 0.3 0" size="0.03"/>
        <body pos="0 0.3 0"><joint name="d" type="slide" axis="1 0 0"/>
          <geom type="capsule" fromto="0 0 0 0 0.3 0" size="0.03"/></body>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="t1" range="-0.2 0.3" margin="0.05" stiffness="3" damping="0.4"
           springlength="-0.1 0.15" frictionloss="0.2">
      <joint joint="a" coef="1.3"/><joint joint="c" coef="-0.6"/></fixed>
    <fixed name="t2" stiffness="2" springlength="0.1">
      <joint joint="b" coef="0.5"/><joint joint="d" coef="2"/></fixed>
    <fixed name="t3" range="-1 0.1"><joint joint="b" coef="-1.5"/></fixed>
  </tendon>
  <actuator>
    <position tendon="t1" kp="4" kv="0.5" gear="1.2" forcerange="-3 3"/>
    <velocity tendon="t2" kv="0.7"/>
    <motor tendon="t3" gear="2"/>
    <motor joint="c" gear="2"/>
    <general site="rotor" gear="0.1 0.2 1 0.01 0.02 -0.03" biastype="affine"
             biasprm="0.2 0.5 -0.3" gainprm="2" ctrlrange="0 1"/>
    <motor site="tip" gear="1 0 0 0 0 0.1"/>
  </actuator>
</mujoco>
"""


@pytest.mark.parametrize(
    ("integrator", "option"),
    [("implicit", "Euler"), ("implicit", "implicitfast"), ("rk4", "RK4")],
)
def test_tendons_and_thrusters_are_those_of_mujoco(integrator: str, option: str) -> None:
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(GLIDER.format(integrator=option))
    options = RobotOptions(joint_dynamics=True, actuators=True, contact=True, convention="mujoco")
    tree, data = build_tree(from_model(model), options), mujoco.MjData(model)
    rng, nv, step = np.random.default_rng(0), model.nv, 1e-6
    x = {name: rng.normal(size=(COUNT, size)) for name, size in (("qd", nv), ("tau", nv))}
    x["q"], x["ctrl"] = 0.4 * rng.normal(size=(COUNT, nv + 1)), rng.normal(size=(COUNT, model.nu))
    x["q"][:, 3:7] /= np.linalg.norm(x["q"][:, 3:7], axis=1)[:, None]
    x |= {"tolerance": np.full((COUNT, 1), 1e-14), "dt": np.full(COUNT, model.opt.timestep)}
    x["gravity"] = np.array(model.opt.gravity)
    q, qd = evaluate_reference(tree, f"step_{integrator}", x)
    (torques,) = evaluate_reference(tree, "actuator_torques", x)
    for k in range(COUNT):
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = x["q"][k], x["qd"][k], x["ctrl"][k]
        data.qfrc_applied[:] = x["tau"][k]
        mujoco.mj_forward(model, data)
        assert_allclose(torques[k], data.qfrc_actuator, rtol=0.0, atol=1e-12)
        mujoco.mj_step(model, data)
        assert_allclose(q[k], data.qpos, rtol=0.0, atol=1e-12)
        assert_allclose(qd[k], data.qvel, rtol=0.0, atol=1e-10)
    # The derivative along a random direction of joint positions and velocities.
    moves = {"q": np.hstack([np.zeros((COUNT, 7)), rng.normal(size=(COUNT, nv - 6))])}
    moves["qd"] = rng.normal(size=(COUNT, nv))
    ends = []
    for s in (step, -step):
        there = x | {name: x[name] + s * move for name, move in moves.items()}
        ends.append(evaluate_reference(tree, f"step_{integrator}", there))
    slope = (ends[0][1] - ends[1][1]) / (2.0 * step)
    by_state, _ = evaluate_reference(tree, f"step_gradient_{integrator}", x)
    found = np.einsum("nij,nj->ni", by_state[:, nv:, 6:nv], moves["q"][:, 7:])
    found += np.einsum("nij,nj->ni", by_state[:, nv:, nv:], moves["qd"])
    assert_allclose(found, slope, rtol=1e-5, atol=1e-5)


def test_damping_of_several_joints_is_implicit_with_contacts_only() -> None:
    model = pytest.importorskip("mujoco").MjModel.from_xml_string(
        GLIDER.format(integrator="implicitfast")
    )
    robot = gridgen.load(model, joint_dynamics=True, actuators=True)
    zeros = np.zeros((1, robot.nv))
    with pytest.raises(
        ModelError, match=r'"actuator1", "actuator4" and 1 more is of several joints.*contact=True'
    ):
        robot.step(np.eye(1, robot.nq, 6), zeros, zeros, 0.01, integrator="implicit")


def test_actuators_of_locked_joints_are_left_out_by_name() -> None:
    model = pytest.importorskip("mujoco").MjModel.from_xml_string(GLIDER.format(integrator="Euler"))
    options = RobotOptions(actuators=True, joint_dynamics=True, lock={"a": 0.2, "c": -0.1})
    with pytest.warns(GridGenWarning, match="locked.*leaves it out.*actuator3"):
        tree = build_tree(from_model(model), options)
    assert [one.name for one in tree.actuators] == [f"actuator{k}" for k in (1, 2, 4, 5)]
    assert [one.name for one in tree.tendons] == ["t2", "t3"]
    batch = gridgen.Batch(model, 2)
    with pytest.raises(OptionError, match="at a site has six gears"):
        batch.expand("actuator_gear")


def test_a_thruster_pushes_a_link() -> None:
    rotor = {"link": "trunk", "gear": (0, 0, 1, 0, 0, 0.02), "name": "rotor"}
    robot = gridgen.load(OWN / "quadruped.urdf", floating_base=True, actuators=[rotor])
    q, nv = np.eye(1, robot.nq, 6), robot.nv
    found = robot.actuator_torques(q, np.zeros((1, nv)), ctrl=[[2.0]])
    assert_allclose(found[0], [0, 0, 2, 0, 0, 0.04, *[0] * (nv - 6)])
    with pytest.raises(OptionError, match=r"link and joint|joint and link"):
        gridgen.load(OWN / "quadruped.urdf", actuators=[{**rotor, "joint": "FL_hip_joint"}])


SERVOS = [
    {"joint": joint, "kind": "position", "kp": 5, "kv": 0.3, "ctrlrange": (-1, 1)}
    for joint in ("shoulder", "elbow")
]


@pytest.mark.parametrize("shape", [(2,), (6, 2), (4, 6, 2)])
def test_pytorch_differentiates_by_controls(shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    robot = gridgen.load(OWN / "two_link.urdf", backend="cpu", actuators=SERVOS)
    rng = np.random.default_rng(0)
    q, qd = rng.normal(size=(2, 4, 2))
    tau, ctrl, bars = np.zeros((6, 2)), rng.normal(size=shape), rng.normal(size=(2, 4, 7, 2))
    options: dict[str, Any] = {"integrator": "implicit"}
    bar = robot.rollout_vjp(q, qd, tau, 0.01, (*bars,), ctrl=ctrl, wrt=("ctrl",), **options)
    watched = torch.tensor(ctrl, requires_grad=True)
    paths = robot.rollout(*map(torch.tensor, (q, qd, tau)), 0.01, ctrl=watched, **options)
    sum((torch.tensor(a) * b).sum() for a, b in zip(bars, paths, strict=True)).backward()
    own = bar.sum(axis=tuple(range(bar.ndim - len(shape))))
    assert_allclose(watched.grad.numpy(), own, rtol=1e-12)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"joint": "wrist"}, r"actuators\[0\] has joint 'wrist': no joint that moves"),
        ({"joint": "elbow", "kind": "muscle"}, "kind 'muscle'; choose one of motor, position"),
        ({"joint": "elbow", "kp": 3}, 'has "kp"; a motor has kind, joint'),
        ({"joint": "elbow", "kind": "position", "kp": -1}, "kp -1; give a number, 0 or more"),
        ({"joint": "elbow", "ctrlrange": (1, -1)}, r"ctrlrange \(1, -1\); give \(least, most\)"),
        ({"joint": "elbow", "gear": "2"}, "gear '2'; give a number"),
        ({"joint": "elbow", "implicit": 1}, "implicit 1; give True or False"),
        ({"joint": "FL_foot"}, "no joint that moves"),
        ({"joint": "w*"}, 'joint "w\\*", which matches none of the joints .*: "shoulder", "elbow"'),
        ({"joint": "*", "name": "a"}, "joint '\\*' matches 2 joints; omit the name"),
    ],
)
def test_wrong_entries_say_what_to_do(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        load_tree("two_link", False, actuators=[entry])


def test_a_pattern_selects_the_joints_that_no_other_entry_names() -> None:
    servo = {"kind": "position", "kp": 9.0}
    listed = [
        {"joint": "*_calf_joint", **servo},
        {"joint": "*"},
        {"joint": "FL_hip_joint", **servo},
    ]
    tree = load_tree("quadruped", True, actuators=listed)
    every = [name for name in tree.joint_names if name != "root_joint"]
    calves = [name for name in every if name.endswith("calf_joint")]
    rest = [name for name in every if name not in calves and name != "FL_hip_joint"]
    assert [one.name for one in tree.actuators] == [*calves, *rest, "FL_hip_joint"]
    assert [one.gain[0] for one in tree.actuators] == [9.0] * 4 + [1.0] * 7 + [9.0]
    with pytest.raises(OptionError, match="matches only joints of other entries"):
        load_tree("quadruped", True, actuators=[{"joint": "*"}, {"joint": "FL*"}])


@pytest.mark.parametrize("library", ["numpy", "torch", "jax.numpy"])
def test_no_torques_beside_controls_are_zeros(library: str) -> None:
    xp = pytest.importorskip(library)
    robot = gridgen.load(OWN / "two_link.urdf", actuators=SERVOS)
    rng = np.random.default_rng(3)
    q, qd, ctrl, tau = (xp.asarray(x, dtype=xp.float32) for x in rng.normal(size=(4, 3, 2)))
    for given in (ctrl, ctrl[0]):
        found = robot.step(q, qd, None, 0.01, ctrl=given)
        for own, other in zip(found, robot.step(q, qd, 0 * tau, 0.01, ctrl=given), strict=True):
            assert type(own) is type(other)
            assert (own == other).all()
    two = q[:2], qd[:2]
    paths = [robot.rollout(*two, none, 0.01, ctrl=ctrl)[0] for none in (None, 0 * tau)]
    assert paths[0].shape == (2, 4, 2)
    assert (paths[0] == paths[1]).all()
    with pytest.raises(ShapeError, match="number of steps is unknown"):
        robot.rollout(q, qd, None, 0.01, ctrl=ctrl[0])
    with pytest.raises(ShapeError, match=r"ctrl has shape \(3, 2\), and there are as many states"):
        robot.rollout(q, qd, None, 0.01, ctrl=ctrl)


def test_what_cannot_be_an_actuator_is_named() -> None:
    assert load_tree("two_link", False, actuators=True).actuators == ()
    with pytest.raises(OptionError, match="actuators has 3; give a dictionary for each"):
        load_tree("two_link", False, actuators=[3])
    with pytest.raises(OptionError, match='"root_joint", which has several velocities'):
        load_tree("two_link", True, actuators=[{"joint": "root_joint"}])
    robot = gridgen.load(OWN / "two_link.urdf", actuators=SERVOS)
    q = np.zeros((1, 2))
    with pytest.raises(ModelError, match="actuators or springs, whose steps have no second"):
        robot.step_hessian(q, q, q, 0.01, np.zeros((1, 4)))
    bare = gridgen.load(OWN / "two_link.urdf")
    with pytest.raises(OptionError, match="has no actuators: load it with actuators="):
        bare.step(q, q, q, 0.01, ctrl=q)
    with pytest.raises(ModelError, match="has no actuators: load it with actuators="):
        bare.actuator_torques(q, q)


@pytest.mark.parametrize(
    ("actuator", "problem"),
    [
        ('<intvelocity name="a" joint="hip" kp="1" actrange="-1 1"/>', "state .*integrator"),
        ('<muscle name="a" joint="hip" lengthrange="-1 1"/>', "state .*muscle"),
        ('<motor name="a" site="sole" refsite="toe" gear="1 0 0 0 0 0"/>', "another site"),
        ('<motor name="a" tendon="rope"/>', "tendon is spatial"),
        ('<adhesion name="a" body="shin" ctrlrange="0 1"/>', 'transmission is "body"'),
        ('<motor name="a" joint="root"/>', "joint with several velocities"),
    ],
)
def test_actuators_of_a_file_that_are_not_supported_are_left_out(
    actuator: str, problem: str
) -> None:
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(f"""
      <mujoco><worldbody><body><freejoint name="root"/><geom size="0.1"/><body name="shin">
        <joint name="hip" stiffness="3"/><geom size="0.1"/><site name="sole"/>
        <site name="toe" pos="0 0 1"/></body></body></worldbody>
      <tendon><spatial name="rope"><site site="sole"/><site site="toe"/></spatial></tendon>
      <actuator><motor joint="hip"/>{actuator}<motor joint="hip" gear="2"/></actuator></mujoco>
    """)
    description = from_model(model)
    with pytest.warns(GridGenWarning, match=f'actuator "a": .*{problem}.* leaves it out'):
        tree = build_tree(description, RobotOptions(actuators=True))
    assert [one.name for one in tree.actuators] == ["actuator0", "actuator2"]
    with pytest.warns(GridGenWarning) as caught:
        build_tree(description)
    said = " ".join(str(warning.message) for warning in caught)
    assert 'joint "hip": has a spring, which gridgen ignores' in said
    assert "has actuators, which gridgen ignores; load it with actuators=True" in said
