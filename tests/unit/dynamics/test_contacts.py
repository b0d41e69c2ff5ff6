"""Dynamics with soft contacts against MuJoCo."""

from __future__ import annotations

import warnings
from copy import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gridgen
from gridgen.backends import TARGETS
from gridgen.compiler import read_tree
from gridgen.dynamics.contacts import touching
from gridgen.dynamics.contacts.softness import weights
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import GridGenWarning, InternalError, ModelError, OptionError
from gridgen.kernel import SEVERAL, KernelKey
from gridgen.model.contacts import pair_of
from gridgen.model.readers.mujoco import from_model
from gridgen.model.soft import POINTS, Contact, Solid
from gridgen.model.tree import build_tree
from gridgen.options import RobotOptions
from gridgen.schedules.team.schedule import Teams
from gridgen.schedules.thread.plan import plan_lines
from gridgen.schedules.thread.schedule import ThreadSchedule
from gridgen.symbolic.memory import Repeat
from gridgen.symbolic.scalars import FloatScalars
from helpers.dynamics import load_tree
from helpers.program_interpreter import run
from helpers.robots import OWN, exhaustive, joint_text, link_text, robot_text

mujoco = pytest.importorskip("mujoco")
from helpers.contact_models import EQUALITIES, EVERYTHING, LOOPS, TEXTS, model_of  # noqa: E402
from helpers.contacts import Peer, iterate_to_the_end, local  # noqa: E402

mujoco.set_mju_user_warning(lambda text: None)  # no file of warnings
pytestmark = [
    pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning"),
    # Of states that have converged.
    pytest.mark.filterwarnings("ignore:(invalid value|divide by zero):RuntimeWarning"),
]

LOADED: dict[str, Any] = {
    **{"joint_dynamics": True, "contact": True, "actuators": True, "backend": "cpu"}
}
FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
#: A capsule that moves along a fixed one and about it.
PARALLEL = """
<mujoco>
  <worldbody>
    <geom type="capsule" fromto="-0.2 0 0 0.2 0 0" size="0.05" condim="4"/>
    <body>
      <joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>
      <joint type="slide" axis="0 0 1"/><joint axis="1 0 0"/>
      <geom type="capsule" fromto="-0.15 0.01 0 0.15 0.01 0" size="0.04" margin="0.01"/>
    </body>
  </worldbody>
</mujoco>
"""
#: Three legs whose friction is stiff and rolls: each point has ten edges of a pyramid.
STOOL = """
<mujoco>
  <option impratio="100"/>
  <default><geom size="0.02" condim="6" friction="0.8 0.02 0.01" solimp="0.015 1 0.031"/></default>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body pos="0 0 0.1">
      <freejoint/>
      <inertial mass="7" pos="0 0 0.05" diaginertia="0.1 0.2 0.1"/>
      {}
    </body>
  </worldbody>
</mujoco>
"""
LEG = """<body pos="{} {} 0"><joint axis="0 1 0" armature="0.01"/><geom pos="0 0 -0.1"/>
  <inertial mass="0.3" pos="0 0 -0.05" diaginertia="0.001 0.002 0.001"/></body>"""
#: A wheel that rolls.
WHEEL = """<mujoco model="wheel"><worldbody><geom type="plane" size="1 1 1"/>
  <body><joint type="slide" axis="0 0 1"/><joint type="slide" axis="1 0 0.1"/><joint axis="0 1 0"/>
  <geom size="0.1"/></body>
  </worldbody></mujoco>"""
MESH = """<asset><mesh name="part" vertex="0 0 0  0.1 0 0  0 0.1 0  0 0 0.1"/></asset>
  <worldbody>"""

#: A tetrahedron that rolls.
ROCKER = f"""<mujoco>{MESH}<geom type="plane" size="1 1 1"/>
  <body><joint type="slide" axis="1 0 0.1"/><joint type="slide" axis="0 0 1"/><joint axis="0 1 0"/>
  <geom type="mesh" mesh="part"/></body>
  </worldbody></mujoco>"""


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize(
    "name",
    ["hopper", "half_cheetah", "walker2d_v5", "ant", "humanoid", "quadruped", "hand", *TEXTS],
)
@pytest.mark.parametrize("count", [20, *exhaustive(1000)])
def test_accelerations_and_forces_are_those_of_mujoco(name: str, cone: str, count: int) -> None:
    peer = Peer(model_of(name, cone), count)
    tree = peer.tree()
    found = weights(tree)
    assert_allclose(found.velocities, peer.model.dof_invweight0, rtol=1e-9)
    x = {**peer.x, "tolerance": np.full((count, 1), 1e-12)}
    results = evaluate_reference(tree, "contact_forward_dynamics", x)
    peer.check(*results, tolerance=1e-8)


class Standing(Peer):
    """The states of a robot that stands on a plane."""

    def _place(self, rng: np.random.Generator) -> None:
        mujoco.mj_resetData(self.model, self.data)
        q, torques = self.data.qpos, self.data.qfrc_applied
        self.data.qvel[:] = rng.normal(size=self.model.nv)
        q[2] += rng.uniform(-0.03, 0.015)
        q[3:7] += 0.05 * rng.normal(size=4)
        q[3:7] /= np.linalg.norm(q[3:7])
        q[7:] += 0.3 * rng.normal(size=len(q) - 7)
        torques[6:] = 5.0 * rng.normal(size=len(torques) - 6)


def test_stiff_friction_converges() -> None:
    """Some states take more than 20 iterations, and end by rounding of forces."""
    legs = "".join(LEG.format(x, y) for x, y in ((0.2, 0.02), (-0.2, 0.1), (-0.2, -0.1)))
    model = mujoco.MjModel.from_xml_string(STOOL.format(legs))
    iterate_to_the_end(model)
    peer = Standing(model, 25)
    tree = peer.tree()
    peer.check(*evaluate_reference(tree, "contact_forward_dynamics", peer.x), tolerance=1e-7)
    # Contacts that push a robot at rest without gravity, where no torque but theirs acts.
    alone = peer.x | {name: 0.0 * peer.x[name] for name in ("qd", "tau", "gravity")}
    for x in (peer.x, alone):
        (residual,) = evaluate_reference(tree, "contact_residual", x)
        assert residual.max() < 1e-9


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_states_that_do_not_converge_are_reported_once(dtype: str) -> None:
    robot = gridgen.load(WHEEL, contact={"iterations": 1}, backend="cpu")
    near = np.random.default_rng(0).normal(size=(5, 3)).astype(dtype)
    near[:, 0] = np.linspace(0.08, 0.1, 5)
    far, qd, tau = near + 1, 10 * near[::-1], 0 * near
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        robot.contact_forward_dynamics(far, qd, tau)
        assert not seen
        for _ in range(3):
            robot.contact_forward_dynamics(near, qd, tau)
    assert len(seen) == 1
    assert seen[0].filename == __file__
    assert "wheel: the contact solver has not converged in every" in str(seen[0].message)


@pytest.mark.parametrize("kind", EQUALITIES)
def test_equality_constraints_are_those_of_mujoco(kind: str) -> None:
    peer = Peer(model_of(LOOPS.replace("EQUALITY", EQUALITIES[kind]), "pyramidal"), 5)
    x = peer.x | {"active": np.zeros(1)}
    found, free = (
        evaluate_reference(peer.tree(), "contact_forward_dynamics", y) for y in (peer.x, x)
    )
    peer.check(*found, tolerance=1e-8)
    assert (kind == "inactive") == (np.abs(found[0] - free[0]).max() < 1e-6)


@pytest.mark.parametrize("kind", ["point", "frame"])
def test_a_constraint_without_a_target_is_one_that_is_met(kind: str) -> None:
    text = LOOPS.replace('<site name="tip"', '<site name="here"/><site name="tip"')
    peer = Peer(model_of(text.replace("EQUALITY", ""), "pyramidal"), 3)
    softness = {"solref": (0.03, 0.8), "solimp": (0.8, 0.96, 0.01, 0.4, 2.0)}
    found, _ = evaluate_reference(
        peer.tree(constraints=[{"kind": kind, "link": "b", **softness}]),
        "contact_forward_dynamics",
        peer.x,
    )
    for k in range(3):
        peer.place(k)
        mujoco.mj_kinematics(peer.model, peer.data)
        body = peer.data.body("b")
        place = " ".join(map(repr, body.xpos.tolist()))
        turn = " ".join(map(repr, body.xquat.tolist()))
        there = f'<site name="there" pos="{place}" quat="{turn}"/><body name="trunk"'
        equality = "connect" if kind == "point" else "weld"
        held = text.replace("EQUALITY", f'<{equality} site1="here" site2="there"/>')
        model = model_of(held.replace('<body name="trunk"', there), "pyramidal")
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:], data.qfrc_applied[:], _ = peer.states[k]
        mujoco.mj_forward(model, data)
        expected = local(model, data, data.qacc, shifted=True)
        assert_allclose(found[k], expected, rtol=0.0, atol=1e-8 * np.abs(expected).max())


def test_a_ball_in_the_air_rests_beside_one_that_touches() -> None:
    """Its search has no step, and raises no warning."""
    text = (
        '<mujoco><worldbody><geom type="plane" size="5 5 .1"/><body pos="0 0 1"><freejoint/>'
        '<geom size=".1"/></body></worldbody></mujoco>'
    )
    tree = read_tree(text, RobotOptions(contact=True))
    rng = np.random.default_rng(0)
    q = rng.normal(size=(50, 7))
    q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1)[:, None]
    q[:, 2] = 0.1 + 0.01 * rng.normal(size=50)
    zero = np.zeros((50, 6))
    x = {"q": q, "qd": zero, "tau": zero, "gravity": zero[:, :3], "tolerance": zero[:, :1]}
    with np.errstate(invalid="raise", divide="raise"):
        qdd, forces = evaluate_reference(tree, "contact_forward_dynamics", x)
    is_free = q[:, 2] > 0.1
    assert 10 < is_free.sum() < 40
    assert (qdd[is_free] == 0.0).all()
    assert (forces[~is_free, 0, 2] > 0.0).all()


UNTOUCHED = """
<mujoco><option timestep="0.002" tolerance="0" iterations="200"/><worldbody>
  <body><joint name="a" axis="0 1 0" range="-20 30" frictionloss="0.3" stiffness="5"/>
    <geom size="0.1" pos="0.3 0 0"/>
    <body pos="0.5 0 0"><joint name="b" axis="0 1 0.2" damping="0.1" springref="9"/>
      <geom size="0.1" pos="0.3 0 0"/></body></body>
  <body pos="0 3 0"><joint name="c" type="slide" axis="0 1 0.2" range="-1 0.2"/>
    <geom size="0.1" contype="0" conaffinity="0"/></body></worldbody>
  <equality><joint joint1="a" joint2="c" polycoef="0 0.7 0 0 0"/></equality></mujoco>
"""


@pytest.mark.parametrize("rows", ["all", "none"])
def test_a_model_in_which_nothing_touches_keeps_its_other_constraints(rows: str) -> None:
    text = UNTOUCHED
    if rows == "none":  # the spring and the damping are left
        for own in (' frictionloss="0.3"', 'range="-20 30"', 'range="-1 0.2"', "<joint joint1"):
            assert own in text
            text = text.replace(own, "<!-- <joint joint1" if own[0] == "<" else "")
        text = text.replace("</equality>", " --></equality>")
    model = mujoco.MjModel.from_xml_string(text)
    robot = gridgen.load(model, contact=True, actuators=True, joint_dynamics=True, backend="cpu")
    assert (robot.contact_names, robot.actuator_names) == ((), ())
    rng, data = np.random.default_rng(2), mujoco.MjData(model)
    q, qd, tau = rng.normal(size=(3, 30, 3))
    qdd, forces = robot.contact_forward_dynamics(q, qd, tau, tolerance=np.array([1e-13]))
    assert forces.shape == (30, 0, 3)
    end_q, end_qd = robot.step(q, qd, tau, 0.002, integrator="implicit")
    for k in range(30):
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q[k], qd[k], tau[k]
        mujoco.mj_step(model, data)
        assert_allclose(qdd[k], data.qacc, rtol=1e-10, atol=1e-10)
        assert_allclose(end_q[k], data.qpos, rtol=0.0, atol=1e-8)
        assert_allclose(end_qd[k], data.qvel, rtol=1e-8, atol=1e-8)


def test_pairs_select_the_contacts_of_links() -> None:
    model = model_of("pairs", "pyramidal")

    def names(pairs: Any) -> list[str]:
        tree = build_tree(from_model(model), RobotOptions(contact={"pairs": pairs}))
        return [one.name for one in tree.contact_model.contacts if len(one.solids) == 2]

    assert names([]) == []
    assert names([["arm", "thigh"]]) == ["geom4:geom6"]
    assert names([{"links": ["arm", "thigh"], "condim": 1}]) == ["arm:thigh"]
    for pairs, message in (
        ("arm", "pairs is 'arm'; give a list of pairs of links"),
        ([["arm"]], r"pairs\[0\] has links \['arm'\]; give two names"),
        ([["arm", "leg"]], r"pairs\[0\] has link 'leg': no link"),
        ([["arm", "arm"]], "do not move apart"),
        ([{"links": ["arm", "thigh"], "radius": 1}], "has 'radius'; choose links"),
        ([["world", "world"]], "do not move apart"),
    ):
        with pytest.raises(OptionError, match=message):
            names(pairs)


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("name", ["pairs", *exhaustive("humanoid")])
def test_the_nearest_pairs_have_the_results_of_all(name: str, cone: str) -> None:
    peer = Peer(model_of(name, cone), 30)
    for most in (1, 4):
        tree = peer.tree(contact={"iterations": 100, "max_pairs": most})
        qdd, forces = evaluate_reference(tree, "contact_forward_dynamics", peer.x)
        (residual,) = evaluate_reference(tree, "contact_residual", peer.x)
        is_whole = residual.ravel() < 1.0
        assert is_whole.all() == (most == 4)
        assert is_whole.sum() > 20
        some = copy(peer)
        some.x = {key: peer.x[key][is_whole] for key in ("q", "qdd")}
        some.seen = [seen for seen, whole in zip(peer.seen, is_whole, strict=True) if whole]
        some.check(qdd[is_whole], forces[is_whole], tolerance=1e-8)


def test_the_table_of_touches_has_every_pair_of_kinds() -> None:
    assert touching._TOUCHES.keys() == POINTS.keys()
    cylinder = Solid("a", radii=(0.1, 0.1, 0.0))
    assert pair_of(cylinder, cylinder) is None
    with pytest.raises(InternalError, match="CYLINDER"):
        next(
            touching.touches(
                SimpleNamespace(scalars=FloatScalars()), Contact("", cylinder, cylinder), 0.1
            )
        )


@pytest.mark.parametrize(
    ("model", "contact", "name"),
    [
        ("pairs", {"max_pairs": 2}, "contact_forward_dynamics"),
        ("many", True, "contact_forward_dynamics"),
        ("many", True, "contact_residual"),
    ],
)
def test_programs_with_loops_compute_the_reference(model: str, contact: Any, name: str) -> None:
    peer = Peer(model_of(model, "elliptic"), 3)
    tree = peer.tree(contact=contact)
    program = plan_lines(tree, name)
    expected = evaluate_reference(tree, name, peer.x)
    known = {key: np.ravel(value) for key, value in tree.parameters.items()}
    for k in range(3):
        x = {key: value if key == "gravity" else value[k] for key, value in peer.x.items()}
        given = {one.name: (known | x)[one.name].tolist() for one in program.inputs}
        for array, own in zip(program.outputs, expected, strict=True):
            found = run(program, given)[array.name]
            assert_allclose(found, np.ravel(own[k]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("value", [0, 1.5])
def test_the_number_of_nearest_pairs_is_checked(value: Any) -> None:
    options = RobotOptions(contact={"max_pairs": value})
    with pytest.raises(OptionError, match=f"max_pairs {value}; give 1 to 1000"):
        build_tree(from_model(model_of("pairs", "pyramidal")), options)


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_parallel_capsules_have_two_points(cone: str) -> None:
    """Side by side, and one behind the other; a setting without effect on other capsules."""
    model = model_of(PARALLEL, cone)
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    rows: list[tuple[np.ndarray, ...]] = []
    while len(rows) < 40:
        mujoco.mj_resetData(model, data)
        angle, apart = rng.uniform(0.0, 6.28), rng.uniform(0.03, 0.095)
        around = apart * np.cos(angle), apart * np.sin(angle)
        data.qpos[:] = rng.uniform(-0.43, 0.43), *around, rng.normal()
        data.qvel[:], data.qfrc_applied[:] = rng.normal(size=(2, 4))
        mujoco.mj_forward(model, data)
        if data.ncon:
            assert data.ncon == 2
            rows.append(
                (data.qpos.copy(), data.qvel.copy(), data.qfrc_applied.copy(), data.qacc.copy())
            )
    q, qd, tau, expected = map(np.array, zip(*rows, strict=True))
    x = {"q": q, "qd": qd, "tau": tau, "gravity": np.array(model.opt.gravity)}
    for parallel in (True, False):
        options = RobotOptions(contact={"iterations": 100, "parallel": parallel})
        tree = build_tree(from_model(model), options)
        found, forces = evaluate_reference(tree, "contact_forward_dynamics", x)
        assert forces.shape[1] == 1 + parallel
        errors = np.abs(found - expected).max(axis=1) / np.abs(expected).max(axis=1)
        assert (errors.max() < 1e-8) == parallel
    peer = Peer(model_of("pairs", cone), 10)
    tree = peer.tree(contact={"iterations": 100, "parallel": True})
    found, _ = evaluate_reference(tree, "contact_forward_dynamics", peer.x)
    scale = np.maximum(np.abs(peer.x["qdd"]).max(axis=1, keepdims=True), 1.0)
    assert_allclose(found / scale, peer.x["qdd"] / scale, rtol=0.0, atol=1e-8)


def test_pairs_of_a_urdf_have_the_parameters_of_mujoco() -> None:
    text = """<robot name="pair"><link name="base"/>{}</robot>"""
    part = """
      <link name="{0}">
        <inertial><origin xyz="0 0 -0.1"/><mass value="2"/>
          <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
        <collision><origin xyz="0 0 -0.2"/><geometry><sphere radius="0.2"/></geometry></collision>
      </link>
      <joint name="{0}_joint" type="continuous"><parent link="base"/><child link="{0}"/>
        <origin xyz="{1} 0 0"/><axis xyz="0 1 0.1"/></joint>"""
    text = text.format(part.format("left", 0) + part.format("right", 0.3))
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = (0.2, 0.3), (-1.0, 0.5)
    mujoco.mj_forward(model, data)
    assert data.ncon == 1
    pairs = {"pairs": [["left", "right"]]}
    robot = gridgen.load(text, contact=pairs, joint_dynamics=True)
    assert robot.contact_names == ("left:right",)
    qdd, _ = robot.contact_forward_dynamics(data.qpos[None], data.qvel[None], np.zeros((1, 2)))
    assert_allclose(qdd[0], data.qacc, rtol=1e-6)


def test_the_text_of_contacts_does_not_grow_with_their_number() -> None:
    def instructions(count: int) -> int:
        rng = np.random.default_rng(count)
        shapes = "".join(
            f'<geom size="{size}" pos="{x} {y} {z}"/>'
            for size, x, y, z in rng.uniform(0.01, 0.1, size=(count, 4))
        )
        link = f'<body><joint axis="0 1 0"/>{shapes}</body>'
        text = f'<geom type="plane" size="1 1 1"/><body><freejoint/>{shapes}{link}{link}</body>'
        model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{text}</worldbody></mujoco>")
        tree = build_tree(from_model(model), RobotOptions(contact=True))
        assert len(tree.contact_model.contacts) == 3 * count + count**2
        return plan_lines(tree, "contact_residual").instructions

    assert instructions(8) == instructions(16)


@pytest.mark.parametrize("dtype", ["float32", *exhaustive("float64")])
@pytest.mark.parametrize("cone", ["elliptic", *exhaustive("pyramidal")])
@pytest.mark.parametrize("name", ["many", *exhaustive("hopper", "hand")])
def test_compiled_code_has_mujocos_numbers(name: str, cone: str, dtype: str) -> None:
    peer = Peer(model_of(name, cone), 40)
    robot = gridgen.load(peer.model, **LOADED | {"actuators": peer.model.nu > 0})
    x = {name: array.astype(dtype) for name, array in peer.x.items() if name != "qdd"}
    gravity = x.pop("gravity")
    qdd, forces = robot.contact_forward_dynamics(**x, gravity=gravity)
    peer.check(qdd, forces, tolerance=1e-3 if dtype == "float32" else 1e-6)
    # The same bits alone as in a pack with others.
    for k in range(0, 40, 7):
        one = {name: array[k : k + 1] for name, array in x.items()}
        alone = robot.contact_forward_dynamics(**one, gravity=gravity)
        assert np.array_equal(alone[0][0], qdd[k])
        assert np.array_equal(alone[1][0], forces[k])


@pytest.mark.parametrize("way", ["emulated", *exhaustive("compute_75")])
def test_hulls_on_gpus_have_the_bits_of_the_cpu(way: str, monkeypatch: Any) -> None:
    if way != "emulated":
        pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
        from fake_gpu.ptx.backend import PTX_TARGETS

        monkeypatch.setitem(TARGETS, "emulated", PTX_TARGETS[way])
    x = np.random.default_rng(0).normal(size=(3, 20, 3)).astype("float32")
    x[0, :, 1] *= 0.03
    results = [
        gridgen.load(ROCKER, contact=True, backend=backend).contact_forward_dynamics(*x)
        for backend in ("emulated", "cpu")
    ]
    assert 0.3 < (results[1][1] != 0.0).any(axis=2).mean() < 0.9
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other)


def test_a_urdf_with_ground_is_the_same_robot() -> None:
    peer = Peer(model_of("quadruped", "elliptic"), 10)
    tree = load_tree(
        "quadruped",
        floating=True,
        joint_dynamics=True,
        ground=[{"link": foot, "radius": 0.02} for foot in FEET],
        contact={"cone": "elliptic", "impratio": 3.0, "iterations": 100},
    )
    own = peer.tree()
    assert len(tree.contact_model.contacts) == len(own.contact_model.contacts) == 4
    assert tree.joint_names[1:] == own.joint_names[1:]
    for foot in FEET:
        calf = foot.replace("foot", "calf")
        assert_allclose(weights(tree).links[foot], weights(own).links[calf], rtol=1e-9)
    peer.check(*evaluate_reference(tree, "contact_forward_dynamics", peer.x), tolerance=1e-8)


def test_friction_and_radii_are_inputs() -> None:
    model = model_of("quadruped", "pyramidal")
    peer = Peer(model, 10)
    given = {"friction": np.full(4, 0.3), "radii": np.full(4, 0.05)}
    before = evaluate_reference(peer.tree(), "contact_forward_dynamics", peer.x)
    after = evaluate_reference(peer.tree(), "contact_forward_dynamics", {**peer.x, **given})
    assert np.abs(before[0] - after[0]).max() > 1.0
    model.geom_friction[:, 0] = 0.3
    for field in (model.geom_size[:, 0], model.geom_rbound):
        field[model.geom_type == 2] = 0.05
    changed = Peer(model, 10)
    changed.check(
        *evaluate_reference(peer.tree(), "contact_forward_dynamics", {**changed.x, **given}),
        tolerance=1e-8,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ground": "foot"}, "ground is 'foot'; give a list of links"),
        ({"ground": ["toe"]}, r"ground\[0\] has link 'toe': no link"),
        ({"ground": [{"link": "FL_foot", "mu": 1.0}]}, r"ground\[0\] has 'mu'; choose link"),
        ({"ground": [{"link": "FL_foot", "condim": 2}]}, "condim 2; give 1, 3, 4 or 6"),
        ({"ground": [{"link": "FL_foot", "friction": -1}]}, "friction -1; give a number"),
        ({"ground": [{"link": "FL_foot", "solref": 1}]}, "solref 1; give 2 numbers"),
        (
            {"ground": ["FL_foot"], "contact": {"cone": "round"}},
            "cone 'round'; give pyramidal or elliptic",
        ),
        ({"ground": ["FL_foot"], "contact": {"iterations": 0}}, "iterations 0; give 1 to 1000"),
        ({"contact": 3}, "contact is 3; give a dictionary"),
        ({"ground": ["FL_foot"], "contact": {"parallel": 1}}, "parallel 1; give True or False"),
        (
            {"ground": ["FL_foot"], "contact": {"parallel": True, "max_pairs": 2}},
            "parallel and max_pairs; give one of them",
        ),
        (
            {"ground": [{"link": "FL_foot", "radius": 0.02, "solimp": (0.9, 0.9, 0.1, 0.5, 1.1)}]},
            "the power 1.1; give a multiple of 1/64 up to 10",
        ),
        ({"contact": True}, "no link touches a plane or another link: name links"),
    ],
)
def test_wrong_options_say_what_to_do(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        load_tree("quadruped", True, **options)


def test_a_robot_without_contacts_has_no_such_function() -> None:
    robot = gridgen.load(OWN / "two_link.urdf")
    q = np.zeros((1, 2))
    with pytest.raises(ModelError, match="no link of the robot touches the ground"):
        robot.contact_forward_dynamics(q, q, q)


@pytest.mark.parametrize("integrator", ["semi_implicit", "implicit", "rk4"])
@pytest.mark.parametrize(
    "name", ["everything", "half_cheetah", "walker2d_v5", "ant", "humanoid", "quadruped", "loops"]
)
def test_steps_are_those_of_mujoco(name: str, integrator: str) -> None:
    model = model_of(name, "pyramidal")
    if integrator == "semi_implicit":
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
    of_mujoco = "RK4" if integrator == "rk4" else "EULER"
    model.opt.integrator = mujoco.mjtIntegrator.__members__[f"mjINT_{of_mujoco}"]
    peer = Peer(model, 10)
    for joint in peer.free:  # MuJoCo's forces on free joints turn otherwise during a step
        at = model.jnt_dofadr[joint]
        for applied in (*peer.x["tau"], *(state[2] for state in peer.states)):
            applied[at : at + 3] = 0.0
    x = {**peer.x, "dt": np.full(10, model.opt.timestep)}
    q, qd = evaluate_reference(peer.tree(), f"step_{integrator}", x)
    for k in range(10):
        peer.place(k)
        mujoco.mj_step(model, peer.data)
        mujoco.mj_kinematics(model, peer.data)
        assert_allclose(q[k], peer.permuted(peer.data.qpos.copy()), rtol=0.0, atol=1e-10)
        assert_allclose(qd[k], peer.local(peer.data.qvel), rtol=0.0, atol=1e-9)


def test_a_rollout_stays_with_mujoco() -> None:
    model = model_of("hopper", "elliptic")
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    peer, steps = Peer(model, 4), 100
    robot = gridgen.load(model, **LOADED)
    q0, qd0 = peer.x["q"], peer.x["qd"]
    options: dict[str, Any] = {"integrator": "implicit", "gravity": peer.x["gravity"]}
    tau, ctrl = (np.repeat(peer.x[name][:, None], steps, axis=1) for name in ("tau", "ctrl"))
    dt = model.opt.timestep
    q, qd = robot.rollout(q0, qd0, tau, dt, ctrl=ctrl, **options)
    stepped = robot.step(q[:, 7], qd[:, 7], tau[:, 7], dt, ctrl=ctrl[:, 7], **options)
    assert np.array_equal(stepped[0], q[:, 8])
    touches = 0
    for k in range(4):
        peer.place(k)
        for t in range(steps):
            mujoco.mj_step(model, peer.data)
            touches += peer.data.ncon
            assert_allclose(q[k, t + 1], peer.data.qpos, rtol=0.0, atol=1e-8)
    assert touches > steps


@pytest.mark.parametrize("name", exhaustive("hopper", ROCKER), ids=["hopper", "hull"])
def test_products_are_those_of_differences(name: str) -> None:
    peer = Peer(model_of(name, "elliptic"), 6)
    robot = gridgen.load(peer.model, joint_dynamics=True, contact=True, backend="cpu")
    name, gravity = "contact_forward_dynamics", peer.x["gravity"]
    x = {key: peer.x[key] for key in ("q", "qd", "tau")}
    x["friction"] = np.full((6, len(robot.contact_names)), 0.7)
    rng = np.random.default_rng(1)
    tangents = [rng.normal(size=value.shape) for value in x.values()]
    weights = rng.normal(size=x["qd"].shape)

    def call(step: float) -> np.ndarray:
        q, qd, tau, friction = (a + step * b for a, b in zip(x.values(), tangents, strict=True))
        return robot.contact_forward_dynamics(q, qd, tau, friction=friction, gravity=gravity)[0]

    q, qd, tau, friction = x.values()
    options = {"friction": friction, "gravity": gravity, "wrt": tuple(x)}
    bars = robot.vjp(name, (weights, None), q, qd, tau, **options)
    found = sum((bar * tangent).sum(axis=1) for bar, tangent in zip(bars, tangents, strict=True))
    differences = (call(1e-6) - call(-1e-6)) / 2e-6
    assert_allclose(found, (weights * differences).sum(axis=1), rtol=1e-5, atol=1e-4)
    _, moved = robot.jvp(name, tuple(tangents), q, qd, tau, **options)
    assert_allclose((weights * moved[0]).sum(axis=1), found, rtol=1e-9)
    A, B = robot.step_gradient(q, qd, tau, 1e-3, friction=friction, gravity=gravity)
    slopes = np.einsum("bij,bj->bi", A, np.hstack(tangents[:2]))
    slopes += np.einsum("bij,bj->bi", B, tangents[2])
    options = {"friction": friction, "gravity": gravity, "wrt": ("q", "qd", "tau")}
    _, moved = robot.jvp("step", tuple(tangents[:3]), q, qd, tau, 1e-3, **options)
    assert_allclose(slopes, np.hstack(moved), rtol=1e-9, atol=1e-9)


@pytest.mark.exhaustive
def test_the_backward_pass_of_a_rollout_is_that_of_differences() -> None:
    peer = Peer(model_of("hopper", "elliptic"), 6)
    robot = gridgen.load(peer.model, joint_dynamics=True, contact=True, backend="cpu")
    tau = np.repeat(peer.x["tau"][:, None], 5, axis=1)
    given = [peer.x["q"], peer.x["qd"], tau]
    options = {"integrator": "implicit", "gravity": peer.x["gravity"]}
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=path.shape) for path in robot.rollout(*given, 2e-3, **options)]
    tangents = [rng.normal(size=value.shape) for value in given]

    def loss(step: float) -> np.ndarray:
        moved = [a + step * b for a, b in zip(given, tangents, strict=True)]
        paths = robot.rollout(*moved, 2e-3, **options)
        return sum((a * b).sum(axis=(1, 2)) for a, b in zip(weights, paths, strict=True))

    bars = robot.rollout_vjp(*given, 2e-3, tuple(weights), **options)
    found = sum(
        (bar * tangent).reshape(6, -1).sum(axis=1)
        for bar, tangent in zip(bars, tangents, strict=True)
    )
    assert_allclose(found, (loss(1e-6) - loss(-1e-6)) / 2e-6, rtol=1e-5, atol=1e-5)


def test_what_a_file_has_and_contacts_do_not_cover_is_named() -> None:
    text = EVERYTHING.format(cone="elliptic", impratio=1.0)
    text = text.replace("<worldbody>", MESH).replace('type="ellipsoid"', 'type="mesh" mesh="part"')
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.noslip_iterations = 3
    with pytest.warns(GridGenWarning) as caught:
        gridgen.load(model, contact=True)
    said = " ".join(str(warning.message) for warning in caught)
    assert (
        "contacts of other shapes than spheres, capsules, and spheres with boxes or cylinders"
        in said
    )
    assert "the noslip solver" in said
    assert 'joint "a": has damping or dry friction, which gridgen ignores' in said
    with pytest.warns(GridGenWarning, match="has contacts, which gridgen ignores"):
        assert not gridgen.load(model).contact_names


def test_a_residual_is_the_share_of_all_torques() -> None:
    """A ball of mass m on a slide: |m a - b - f| / |(b, f)|, where the solver ends early too."""
    mass, ball = 2.0, '<collision><geometry><sphere radius="0.1"/></geometry></collision></link>'
    ball = link_text("ball", mass=f"{mass}", com="0 0 0").replace("</link>", ball)
    slide = joint_text("z", "base", "ball", "prismatic", xyz="0 0 0")
    tree = load_tree(robot_text(link_text("base"), ball, slide), ground=["ball"])
    x = {"q": np.array([[0.09], [0.095], [0.2]]), "qd": np.array([[-1.0], [0.2], [0.0]])}
    x |= {"tau": np.array([[1.0], [-3.0], [4.0]]), "gravity": np.tile((0.0, 0.0, -9.81), (3, 1))}
    for tolerance in (1e-10, 100.0):
        x["tolerance"] = np.full((3, 1), tolerance)
        qdd, forces = evaluate_reference(tree, "contact_forward_dynamics", x)
        (found,) = evaluate_reference(tree, "contact_residual", x)
        b = x["tau"][:, 0] - 9.81 * mass
        f = forces[:, 0, 2]
        expected = np.abs(mass * qdd[:, 0] - b - f) / np.hypot(b, f)
        assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        assert (expected.max() > 0.5) == (tolerance > 1.0)


def test_forces_and_residuals_are_observed_along_a_rollout() -> None:
    """The step and what is observed solve once."""
    peer, steps = Peer(model_of("hopper", "elliptic"), 8), 20
    robot = gridgen.load(peer.model, joint_dynamics=True, contact=True, backend="cpu")
    q0, qd0, gravity = (peer.x[name] for name in ("q", "qd", "gravity"))
    tau = np.repeat(peer.x["tau"][:, None], steps, axis=1)
    options: dict[str, Any] = {"integrator": "implicit", "gravity": gravity}
    names = ("contact_forward_dynamics", "contact_residual")
    options |= {"record": names, "stop_when": {"rootz": (float(np.median(q0[:, 1])), None)}}
    q, qd, ends, *seen = robot.rollout(q0, qd0, tau, 2e-3, **options)
    is_kept = np.arange(steps) < ends[:, None]
    assert 0 < is_kept.sum() < is_kept.size
    here = [array[:, :-1][is_kept] for array in (q, qd)]
    qdd, forces = robot.contact_forward_dynamics(*here, tau[is_kept], gravity=gravity)
    assert [array.shape[2:] for array in seen] == [(robot.nv,), forces.shape[1:], ()]
    assert_allclose(seen[0][is_kept], qdd, rtol=1e-9, atol=1e-9)
    assert_allclose(seen[1][is_kept], forces, rtol=1e-9, atol=1e-9)
    assert np.abs(forces).max() > 10.0
    assert (seen[2] < 1e-9).all()
    assert all((array[~is_kept] == 0.0).all() for array in seen)
    roughly = robot.rollout(q0, qd0, tau, 2e-3, **options, tolerance=np.full(1, 10.0))
    assert 1e-3 < roughly[-1].max() < 10.0
    parts = tuple(map(KernelKey, names))
    program = plan_lines(peer.tree(), KernelKey(SEVERAL, parts=(KernelKey("step", "rk4"), *parts)))
    marks = [mark for marks in program.loops.marks.values() for mark in marks]
    rounds = [mark for mark in marks if isinstance(mark, Repeat) and "newton" in mark.variable]
    assert len(rounds) == 4  # the stages of the step


def test_smooth_contacts_act_before_they_touch() -> None:
    """They are MuJoCo's with a margin and a wide impedance."""
    model, width = model_of("hopper", "elliptic"), 0.06
    moving = model.geom_bodyid > 0
    model.geom_margin[moving] += 0.5 * width
    model.geom_solimp[:, [0, 2, 3, 4]] = 0.0, width, 0.5, 2.0
    peer = Peer(model, 20)
    sharp = model_of("hopper", "elliptic")
    sharp.geom_solimp[:, 1] = model.geom_solimp[:, 1]
    given: dict[str, Any] = {"joint_dynamics": True, "actuators": True}
    smooth = {"smooth": width, "iterations": 100}
    tree = build_tree(from_model(sharp), RobotOptions(**given, contact=smooth))
    peer.check(*evaluate_reference(tree, "contact_forward_dynamics", peer.x), tolerance=1e-8)
    # The lowest geometry is a little above the ground.
    mujoco.mj_kinematics(sharp, data := mujoco.MjData(sharp))
    lowest = (data.geom_xpos[moving, 2] - sharp.geom_size[moving, 0]).min()
    sharp_tree = build_tree(from_model(sharp), RobotOptions(**given, contact=True))
    q = np.tile(data.qpos, (3, 1))
    q[:, 1] += np.array([0.004, 0.01, 0.05]) - lowest
    zero = np.zeros((3, model.nv))
    x = {"q": q, "qd": zero, "tau": zero, "gravity": np.array([0.0, 0.0, -9.81])}
    x["ctrl"] = np.zeros((3, model.nu))
    rates = [
        evaluate_reference(one, "contact_forward_dynamics", x)[0][:, 1]
        for one in (tree, sharp_tree)
    ]
    assert rates[0][0] > rates[0][1] > rates[0][2]
    assert_allclose(rates[1], rates[1][2], rtol=1e-9)


def test_only_programs_that_are_too_long_have_no_matrices_of_derivatives() -> None:
    tree = Peer(model_of("humanoid", "pyramidal"), 0).tree(contact={"pairs": []})
    schedule = ThreadSchedule(Teams(tree))
    assert schedule.refusal(KernelKey("step_gradient", "semi_implicit")) is None
    reason = schedule.refusal(KernelKey("step_gradient", "rk4"))
    assert reason is not None
    assert "fewer pairs of links, or" in reason
    assert "or take vjp or jvp of step" in reason


@pytest.mark.parametrize("integrator", ["semi_implicit", *exhaustive("implicit", "rk4")])
@pytest.mark.parametrize(
    "name", ["hopper", *exhaustive("quadruped", "loops", "ant", "pairs", "everything")]
)
def test_linearized_steps_are_those_of_differences(name: str, integrator: str) -> None:
    peer = Peer(model_of(name, "elliptic"), 6)
    tree, n = peer.tree(contact={"iterations": 100, "max_pairs": 2}), peer.model.nv
    x = {**peer.x, "dt": np.full(6, 2e-3), "tolerance": np.full((6, 1), 1e-13)}
    directions = np.random.default_rng(0).normal(size=(6, 3 * n))
    along_q, along_qd, along_tau = np.split(directions, 3, axis=1)

    def end(step: float) -> list[np.ndarray]:
        (q,) = evaluate_reference(tree, "integrate", {"q": x["q"], "v": step * along_q})
        moved = {"q": q, "qd": x["qd"] + step * along_qd, "tau": x["tau"] + step * along_tau}
        return evaluate_reference(tree, f"step_{integrator}", {**x, **moved})

    A, B = evaluate_reference(tree, f"step_gradient_{integrator}", x)
    (q, qd), (q_before, qd_before) = end(1e-6), end(-1e-6)
    (change,) = evaluate_reference(tree, "difference", {"q0": q_before, "q1": q})
    slopes = np.hstack([change, qd - qd_before]) / 2e-6
    found = np.einsum("bij,bj->bi", np.concatenate([A, B], axis=2), directions)
    assert_allclose(found, slopes, rtol=1e-5, atol=1e-5)
