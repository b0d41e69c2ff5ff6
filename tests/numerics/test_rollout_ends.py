"""States of rollouts that end beyond bounds, and results of every step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gridgen
from fake_gpu.ptx.backend import PTX_TARGETS
from gridgen.backends import TARGETS
from gridgen.runtime.calls import rollout_vjp
from helpers.robots import OWN, exhaustive, exhaustive_cases
from numerics.robots import urdf_path

STATES, TIMES = 37, 12
DONE = {"height": (-0.05, None), "tilt": 0.5, "pivot": (None, 1.0)}


def case() -> tuple[Any, list[np.ndarray]]:
    """Return a floating robot that falls, tilts and swings, in states that end at all times."""
    robot = gridgen.load(urdf_path("cart_pole"), floating_base=True, armature=0.1)
    rng = np.random.default_rng(1)
    q = np.tile(robot.neutral(), (STATES, 1))
    q[:, 2] = rng.uniform(-0.06, 0.2, STATES)
    qd, tau = rng.normal(size=(STATES, robot.nv)), rng.normal(size=(STATES, TIMES, robot.nv))
    return robot, [q, qd, tau]


def ends_of(robot: Any, q: np.ndarray) -> np.ndarray:
    """Return the first states of paths beyond the bounds."""
    pole = q[..., robot.nq - 1]
    up = 1.0 - 2.0 * (q[..., 3] ** 2 + q[..., 4] ** 2)
    out = (q[..., 2] < -0.05) | (up < np.cos(0.5)) | (pole > 1.0) | np.isnan(q).any(axis=-1)
    return np.where(out.any(axis=1), out.argmax(axis=1), TIMES + 1)


@pytest.mark.parametrize("backend", ["compute_75", *exhaustive("cpu", "emulated", "compute_90")])
def test_a_state_that_has_ended_stays(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if backend in PTX_TARGETS:
        pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
        monkeypatch.setitem(TARGETS, "emulated", PTX_TARGETS[backend])
        backend = "emulated"
    robot, (q0, qd0, tau) = case()
    qd0[3] = np.nan
    q0[4, robot.nq - 1] = 2.0
    options: dict[str, Any] = {"substeps": 2, "backend": backend}
    q, qd, *forces = robot.rollout(q0, qd0, tau, 0.02, record=("bias_forces",), **options)
    found = robot.rollout(
        *(q0, qd0, tau, 0.02),
        stop_when=DONE,
        return_efforts=True,
        record=("bias_forces",),
        **options,
    )
    ends = found[3]
    np.testing.assert_array_equal(ends, ends_of(robot, q))
    assert ends[3] == 1
    assert ends[4] == 0
    assert len(np.unique(ends)) > 8
    assert ends.max() == TIMES + 1
    last = np.minimum(ends, TIMES).astype(int)
    times = np.minimum(np.arange(TIMES + 1), last[:, None])
    rows = np.arange(STATES)[:, None]
    for path, free in zip(found, (q, qd), strict=False):
        np.testing.assert_array_equal(path, free[rows, times])
    moves = (np.arange(TIMES) < last[:, None])[..., None]
    np.testing.assert_array_equal(found[2], np.where(moves, tau, 0.0))
    np.testing.assert_array_equal(found[4], np.where(moves, forces[0], 0.0))
    last_q, _, same = robot.rollout(
        q0, qd0, tau, 0.02, stop_when=DONE, store_every="last", **options
    )
    # Programs with other results round differently.
    np.testing.assert_allclose(last_q, found[0][:, -1], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(same, ends)


def test_results_of_every_step_are_those_of_separate_calls() -> None:
    robot, (q0, qd0, tau) = case()
    names = ("forward_dynamics", "jacobian:pole", "center_of_mass")
    q, qd, *seen = robot.rollout(q0, qd0, tau, 0.02, record=names)
    states = q[:, :-1].reshape(-1, robot.nq), qd[:, :-1].reshape(-1, robot.nv)
    reference = (
        robot.forward_dynamics(*states, tau.reshape(-1, robot.nv)),
        robot.jacobian(states[0], "pole"),
        robot.center_of_mass(states[0]),
    )
    for found, expected in zip(seen, reference, strict=True):
        assert found.shape[:2] == (STATES, TIMES)
        np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=0, atol=1e-12)
    bound = robot.bind("rollout", q0, qd0, tau, 0.02, stop_when=DONE, record=names)
    called = robot.rollout(q0, qd0, tau, 0.02, stop_when=DONE, record=names)
    again = robot.rollout(q0, qd0, tau, 0.02, stop_when=DONE, record=names)
    for one, other, third in zip(bound(), called, again, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, third)
    wider = robot.rollout(q0, qd0, tau, 0.02, stop_when={"height": (-9, 9)}, record=names)
    assert (wider[2] == TIMES + 1).sum() > (called[2] == TIMES + 1).sum()


@pytest.mark.parametrize(
    ("backend", "near"), [("cpu", 0), *exhaustive_cases(("cpu", 1 << 20), ("emulated", 0))]
)
def test_gradients_stop_at_the_end(
    backend: str, near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout_vjp, "_NEAR_BYTES", near)
    robot, given = case()
    rng = np.random.default_rng(6)
    gains = 0.1 * rng.normal(size=(robot.nv, 2 * robot.nv))
    options: dict[str, Any] = {
        "stop_when": DONE,
        "substeps": 2,
        "backend": backend,
        "feedback": (gains, robot.neutral(), np.zeros(robot.nv)),
    }
    *paths, ends = robot.rollout(*given, 0.02, **options)
    weights = tuple(rng.normal(size=path.shape) for path in paths)
    found = robot.rollout_vjp(*given, 0.02, weights, **options)
    tangents = [rng.normal(size=array.shape) for array in given]
    tangents[0][:, 3:7] = 0.0  # a quaternion does not move along a straight line

    def loss(step: float) -> np.ndarray:
        moved = (a + step * b for a, b in zip(given, tangents, strict=True))
        *ahead, same = robot.rollout(*moved, 0.02, **options)
        assert np.array_equal(same, ends)
        return sum((w * path).sum(axis=(1, 2)) for w, path in zip(weights, ahead, strict=True))

    slope = (loss(1e-7) - loss(-1e-7)) / 2e-7
    products = (
        (bar * tangent).reshape(STATES, -1).sum(axis=1)
        for bar, tangent in zip(found, tangents, strict=True)
    )
    np.testing.assert_allclose(sum(products), slope, rtol=1e-5, atol=1e-5)
    after = np.arange(TIMES) >= ends[:, None]
    assert after.any()
    assert (found[2][after] == 0.0).all()
    known = robot.rollout_vjp(*given, 0.02, weights, results=(*paths, ends), **options)
    for one, other in zip(known, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_state_ends_before_links_touch() -> None:
    spheres = {"upper_arm_link": [(0, 0, 0.2, 0.1)], "wrist_3_link": [(0, 0, 0, 0.1)]}
    robot = gridgen.load(urdf_path("ur5_robot"), spheres=spheres, backend="cpu")
    rng = np.random.default_rng(3)
    q0 = robot.random_configuration(rng, 40)
    qd0, tau = 2.0 * rng.normal(size=(40, 6)), np.zeros((40, TIMES, 6))
    gravity = np.zeros(3)
    *_, distance, _ = robot.rollout(q0, qd0, tau, 0.03, gravity=gravity, record=("self_distance",))
    q, _, ends = robot.rollout(
        q0, qd0, tau, 0.03, gravity=gravity, stop_when={"self_distance": 0.05}, store_every=1
    )
    for k, end in enumerate(ends.astype(int)):
        assert (distance[k, : min(end, TIMES)] >= 0.05).all()
        if end <= TIMES:
            assert robot.self_distance(q[k, end])[0] < 0.05
            assert (q[k, end:] == q[k, end]).all()
    assert 3 < (ends <= TIMES).sum() < 37


LINK = """<link name="{0}"><inertial><origin xyz="0.1 0.05 0"/><mass value="1"/>
<inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
JOINT = """<joint name="{0}" type="{1}"><parent link="{2}"/><child link="{3}"/>{4}
<axis xyz="0 1 0"/></joint>"""
MOVED = '<origin xyz="0.3 -0.2 0.4" rpy="0.5 -0.8 1.1"/>'


def scene(*joints: tuple[str, str, str, str]) -> str:
    """Return a URDF scene of links on joints with moved origins: name, type, parent, child."""
    links = "".join(LINK.format(child) for *_, child in joints)
    text = "".join(JOINT.format(*joint, MOVED) for joint in joints)
    return f'<robot name="scene"><link name="world"/>{links}{text}</robot>'


@pytest.mark.parametrize(
    ("convention", "free"), [("mujoco", "z"), *exhaustive_cases(("pinocchio", "a"))]
)
def test_height_and_tilt_are_those_of_the_base_in_the_world(convention: str, free: str) -> None:
    """Also of a free joint whose origin is moved, and behind a door that is the first body."""
    text = scene(
        (free, "floating", "world", "trunk"),
        ("hip", "continuous", "trunk", "leg"),
        ("door", "continuous", "world", "leaf"),
    )
    robot = gridgen.load(text, convention=convention)
    rng = np.random.default_rng(5)
    q0 = robot.random_configuration(rng, 200)
    given = q0, rng.normal(size=(200, robot.nv)), np.zeros((200, TIMES, robot.nv)), 0.02
    *_, poses = robot.rollout(*given, record=("forward_kinematics:trunk",))
    height, upright = poses[..., 2, 3], poses[..., 2, 2]
    assert len(np.unique(np.sign(height))) == 2
    bounds: list[tuple[dict[str, Any], Any]] = [
        ({"height": (-0.1, 0.9)}, (height < -0.1) | (height > 0.9)),
        ({"tilt": 1.2}, upright < np.cos(1.2)),
    ]
    for stop_when, out in bounds:
        ends = robot.rollout(*given, stop_when=stop_when)[2]
        late = ~out.any(axis=1)
        assert 30 < late.sum() < 170
        np.testing.assert_array_equal(ends[~late], out.argmax(axis=1)[~late])
        assert (ends[late] >= TIMES).all()


def test_a_height_of_several_bases_is_refused_by_name() -> None:
    text = scene(
        ("door", "continuous", "world", "leaf"),
        ("free", "floating", "world", "trunk"),
        ("other", "floating", "world", "ball"),
    )
    robot = gridgen.load(text)
    given = robot.neutral(), np.zeros(robot.nv), np.zeros((3, robot.nv)), 0.02
    with pytest.raises(gridgen.OptionError, match='first: "free", "other"; test'):
        robot.rollout(*given, stop_when={"height": (0, 1)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stop_when": 3}, r"stop_when is 3; give ranges by name, such as"),
        ({"stop_when": {}}, "stop_when is {}"),
        ({"stop_when": {"hight": (0, 1)}}, "stop_when has 'hight'; choose height"),
        ({"stop_when": {"height": 1}}, ".height.: 1; give .low, high"),
        ({"stop_when": {"height": (2, 1)}}, "whose ends are exchanged"),
        ({"stop_when": {"height": ("a", 1)}}, ".height.: 'a'; give a number"),
        ({"stop_when": {"tilt": 4.0}}, ".tilt.: 4.0; give a number from 0 to 3.14"),
        ({"record": "forward_dynamics"}, "give a tuple of names"),
        ({"record": ("inverse_dynamics",)}, "needs qdd: choose functions of q, qd and tau"),
        ({"record": ("world_distance",)}, "cannot be fused"),
    ],
)
def test_wrong_options_say_what_to_do(change: dict[str, Any], message: str) -> None:
    robot, given = case()
    with pytest.raises(gridgen.OptionError, match=message):
        robot.rollout(*given, 0.02, **change)


def test_what_a_robot_or_a_framework_lacks_is_refused() -> None:
    robot, given = case()
    with pytest.raises(gridgen.ModelError, match="no spheres"):
        robot.rollout(*given, 0.02, stop_when={"self_distance": 0.0})
    with pytest.raises(gridgen.OptionError, match="stop_when has 'tilt'; choose"):
        gridgen.load(OWN / "two_link.urdf").rollout(
            np.zeros(2), np.zeros(2), np.zeros((3, 2)), 0.02, stop_when={"tilt": 0.1}
        )
    with pytest.raises(gridgen.OptionError, match="omit record"):
        robot.rollout_vjp(*given, 0.02, (None, None), record=("center_of_mass",))
    torch = pytest.importorskip("torch")
    tensors = [torch.tensor(array) for array in given]
    plain = robot.rollout(*tensors, 0.02, stop_when=DONE)
    np.testing.assert_array_equal(plain[2].numpy(), robot.rollout(*given, 0.02, stop_when=DONE)[2])
    tensors[2].requires_grad_()
    with pytest.raises(gridgen.OptionError, match="stop_when: a rollout that PyTorch"):
        robot.rollout(*tensors, 0.02, stop_when=DONE)
