"""Steps in time and rollouts: against Pinocchio, by their order, and against each other."""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio
import pytest
from lxml import etree

import gridgen
from fake_gpu.ptx.backend import PTX_TARGETS
from gridgen.backends import TARGETS
from gridgen.check import random_states
from gridgen.dynamics import variational
from gridgen.dynamics.reference import evaluate_reference, evaluate_rollout
from gridgen.functions import FUNCTIONS
from gridgen.kernel import KernelKey
from gridgen.runtime.calls import bound as bound_calls
from gridgen.runtime.calls import evaluation
from helpers.oracle import Oracle
from helpers.robots import OWN, needs
from numerics.robots import load_robot, load_tree, urdf_path

Array = np.ndarray
State = tuple[Array, Array]
Step = Callable[[Array, Array, float], State]

INTEGRATORS = tuple(FUNCTIONS["step"].methods)
#: Whole SIMD packs and a part of one, more than one block of states.
STATES = 71
#: More than are written together, and some left over.
MOMENTS = 23


def reference_step(robot: str, floating: bool, integrator: str, **options: object) -> Step:
    """Return the reference's step of a robot: of fixed efforts, from state to state."""
    tree = load_tree(urdf_path(robot), floating, **options)
    x = random_states(tree, 3, np.random.default_rng(1))

    def step(q: Array, qd: Array, dt: float) -> State:
        given = {**x, "q": q, "qd": qd, "dt": np.full(len(q), dt)}
        q, qd = evaluate_reference(tree, f"step_{integrator}", given)
        return q, qd

    return step


@pytest.mark.parametrize(
    ("robot", "floating"),
    [
        ("arm6", False),
        ("quadruped", True),
        pytest.param("humanoid", True, marks=pytest.mark.exhaustive),
    ],
)
def test_a_step_is_pinocchio_s_dynamics_and_its_integrate(robot: str, floating: bool) -> None:
    tree = load_tree(urdf_path(robot), floating)
    oracle = Oracle(tree, urdf_path(robot))
    x = random_states(tree, 5, np.random.default_rng(2))
    x["dt"][:] = 0.01
    model, data = oracle.model, oracle.model.createData()
    for name in ("semi_implicit", "euler"):
        results = evaluate_reference(tree, f"step_{name}", x)
        for i in range(5):
            q, qd, tau = x["q"][i], x["qd"][i], x["tau"][i]
            end = qd + 0.01 * pinocchio.aba(model, data, q, qd, tau)
            way = 0.01 * (end if name == "semi_implicit" else qd)
            expected = pinocchio.integrate(model, q, way)
            np.testing.assert_allclose(results[1][i], end, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(results[0][i], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("robot", "floating"), [("gripper", False), ("arm6", True)])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_half_the_step_has_the_error_of_the_order(
    integrator: str, robot: str, floating: bool
) -> None:
    """It is that of a method on the manifold of a floating base too."""
    order = {"rk4": 4, "midpoint": 2, "trapezoidal": 2, "variational": 2}.get(integrator, 1)
    tree = load_tree(urdf_path(robot), floating)
    step = reference_step(robot, floating, integrator)
    exact_step = reference_step(robot, floating, "rk4")
    x = random_states(tree, 3, np.random.default_rng(3))
    whole = 0.01

    def rolled(step: Step, count: int) -> Array:
        q, qd = x["q"], x["qd"]
        for _ in range(count):
            q, qd = step(q, qd, whole / count)
        return np.concatenate((q, qd), axis=1)

    exact = rolled(exact_step, 8)
    few, twice = (np.abs(rolled(step, count) - exact).max() for count in (2, 4))
    assert abs(np.log2(few / twice) - order) < 0.35


def energy(tree: object, q: Array, qd: Array) -> Array:
    given = {"q": q, "qd": qd, "gravity": np.array([0.0, 0.0, -9.81])}
    names = ("kinetic_energy", "potential_energy")
    return sum(evaluate_reference(tree, name, given)[0] for name in names)


def test_variational_steps_conserve_momentum() -> None:
    """That about the origin, which is not that about the center of mass of a discrete path."""
    tree = load_tree(urdf_path("arm6"), True)
    x = random_states(tree, 2, np.random.default_rng(4))
    x["gravity"][:], x["dt"][:] = 0.0, 2e-3
    x["tau"] *= np.arange(tree.nv) >= 6
    x["tau"] *= 0.01

    def momentum() -> Array:
        (found,) = evaluate_reference(tree, "centroidal_momentum", x)
        (center,) = evaluate_reference(tree, "center_of_mass", x)
        found[:, 3:] += np.cross(center, found[:, :3])
        return found

    start = momentum()
    for _ in range(20):
        x["q"], x["qd"] = evaluate_reference(tree, "step_variational", x)
    assert np.abs(momentum() - start).max() <= 1e-9 * np.abs(start).max()


@pytest.mark.parametrize(("name", "floating"), [("arm7", False), ("quadruped", True)])
def test_iterations_of_variational_steps_converge_in_short_steps(
    name: str, floating: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In steps in which joints turn by at most 0.05 rad."""
    tree = load_tree(urdf_path(name), floating)
    x = random_states(tree, 20, np.random.default_rng(1))
    x["qd"] *= 4.0 / np.abs(x["qd"]).max(1, keepdims=True)
    x["dt"][:] = 0.05 / 4.0
    (x["tau"],) = evaluate_reference(tree, "bias_forces", x)
    _, found = evaluate_reference(tree, "step_variational", x)
    monkeypatch.setattr(variational, "ITERATIONS", 40)
    _, expected = evaluate_reference(tree, "step_variational", x)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("name", "floating"), [("gripper", False), ("arm6", True)])
def test_matrices_of_variational_steps_are_differences(name: str, floating: bool) -> None:
    """In a random direction, with joints that mimic others, on a floating base."""
    tree = load_tree(urdf_path(name), floating)
    x = random_states(tree, 2, np.random.default_rng(4))
    x = {key: x[key] for key in ("q", "qd", "tau", "dt", "gravity")}
    x["dt"][:] = 2e-3
    A, B = evaluate_reference(tree, "step_gradient_variational", x)
    way = np.random.default_rng(5).normal(size=3 * tree.nv)
    dq, dqd, dtau = np.split(1e-6 * way, 3)
    ends = []
    for sign in (1.0, -1.0):
        (q,) = evaluate_reference(tree, "integrate", {"q": x["q"], "v": sign * np.tile(dq, (2, 1))})
        moved = {**x, "q": q, "qd": x["qd"] + sign * dqd, "tau": x["tau"] + sign * dtau}
        ends.append(evaluate_reference(tree, "step_variational", moved))
    (ahead, faster), (behind, slower) = ends
    (change,) = evaluate_reference(tree, "difference", {"q0": behind, "q1": ahead})
    expected = np.concatenate([change, faster - slower], axis=1) / 2e-6
    found = np.concatenate([A, B], axis=2) @ way
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


def test_the_energy_of_variational_steps_does_not_drift() -> None:
    robot, tree = load_robot(urdf_path("two_link")), load_tree(urdf_path("two_link"), False)
    q, qd, tau = np.full((1, 2), 1.5), np.zeros((1, 2)), np.zeros((1, 20_000, 2))

    def drift(integrator: str) -> float:
        path = robot.rollout(q, qd, tau, 5e-3, integrator=integrator)
        found = energy(tree, *(states[0] for states in path))
        return float(abs(found[-4000:].mean() - found[:4000].mean()) / np.ptp(found[:4000]))

    assert drift("variational") < 0.1 < 1.0 < drift("midpoint")


def test_energy_is_kept_where_nothing_takes_it() -> None:
    """The error of Runge-Kutta's energy falls with the fifth power of the step, or faster."""
    tree = load_tree(urdf_path("arm6"), True)
    x = random_states(tree, 2, np.random.default_rng(4))
    x["tau"][:] = 0.0
    drifts = []
    for count in (4, 8):
        q, qd = x["q"], x["qd"]
        for _ in range(count):
            given = {**x, "q": q, "qd": qd, "dt": np.full(2, 0.02 / count)}
            q, qd = evaluate_reference(tree, "step_rk4", given)
        change = energy(tree, q, qd) - energy(tree, x["q"], x["qd"])
        drifts.append(np.abs(change).max())
    assert drifts[1] < drifts[0] / 12.0, drifts
    assert drifts[1] < 1e-5 * np.abs(energy(tree, x["q"], x["qd"])).max()


STIFF = """<robot name="stiff">
  <link name="base"/>
  <link name="rod"><inertial><origin xyz="0 0 -1"/><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="end"><inertial><mass value="0.1"/>
    <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
    <dynamics damping="5000"/></joint>
  <joint name="slide" type="prismatic"><parent link="rod"/><child link="end"/><axis xyz="1 0 0"/>
    <limit lower="-1" upper="1" effort="3" velocity="1"/><dynamics damping="7"/></joint>
</robot>"""


@pytest.mark.parametrize("mimic", [False, True])
def test_stiff_damping_is_taken_implicitly(mimic: bool) -> None:
    """The velocities at the end are those of (M + dt D)(qd' - qd) = dt (tau - h - D qd)."""
    follows = '<dynamics damping="7"/><mimic joint="hinge" multiplier="0.5"/>'
    text = STIFF.replace('<dynamics damping="7"/>', follows) if mimic else STIFF
    tree = load_tree(text, joint_dynamics=True)
    x = random_states(tree, 4, np.random.default_rng(5))
    x["dt"][:] = 0.01
    _, qd = evaluate_reference(tree, "step_implicit", x)
    (M,) = evaluate_reference(tree, "mass_matrix", x)
    (h,) = evaluate_reference(tree, "bias_forces", x)  # with the damping of now
    D = np.diag([5000.0 + 0.25 * 7.0]) if mimic else np.diag([5000.0, 7.0])
    change = np.linalg.solve(M + 0.01 * D, 0.01 * (x["tau"] - h)[..., None])[..., 0]
    np.testing.assert_allclose(qd, x["qd"] + change, rtol=1e-11, atol=1e-11)
    assert np.abs(qd[:, 0]).max() < np.abs(x["qd"][:, 0]).max()
    exploded = evaluate_reference(tree, "step_semi_implicit", x)[1]
    assert np.abs(exploded[:, 0]).max() > 5.0


@pytest.mark.parametrize(
    ("name", "floating", "integrator", "dtype", "backend"),
    [
        ("gripper", False, "implicit", "float64", "cpu"),
        ("arm6", True, "semi_implicit", "float32", "cpu"),
        ("two_link", False, "euler", "float32", "emulated"),
        ("arm6", True, "semi_implicit", "float64", "emulated"),
        ("two_link", False, "rk4", "float32", "compute_75"),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in itertools.product(
                ("arm6", "arm7", "quadruped", "gripper"),
                (False, True),
                INTEGRATORS,
                ("float32", "float64"),
                ("cpu", "emulated", *PTX_TARGETS),
            )
            if case[:2] != ("gripper", True)  # it cannot move about its axis
        ),
    ],
)
def test_a_rollout_is_a_step_again_and_again(
    name: str,
    floating: bool,
    integrator: str,
    dtype: str,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bit for bit. One state becomes NaN on the way, which does not change the others."""
    if backend in PTX_TARGETS:
        pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
        monkeypatch.setitem(TARGETS, "emulated", PTX_TARGETS[backend])
        backend = "emulated"
    robot = gridgen.load(urdf_path(name), floating_base=floating, backend=backend)
    tree = load_tree(urdf_path(name), floating)
    x = random_states(tree, STATES, np.random.default_rng(6))
    given = {key: value.astype(dtype) for key, value in x.items()}
    tau = np.stack([np.roll(given["tau"], t, axis=0) for t in range(MOMENTS)], axis=1)
    options = {"integrator": integrator}
    whole = robot.rollout(given["q"], given["qd"], tau, given["dt"], **options)
    hurt = tau.copy()
    hurt[5, 7] = np.nan
    paths = robot.rollout(given["q"], given["qd"], hurt, given["dt"], **options)
    others = np.arange(STATES) != 5
    for path, unhurt in zip(paths, whole, strict=True):
        np.testing.assert_array_equal(path[others], unhurt[others])
        np.testing.assert_array_equal(path[5, :8], unhurt[5, :8])
        assert np.isnan(path[5, 8:]).any()
    q, qd = given["q"], given["qd"]
    for t in range(MOMENTS):
        np.testing.assert_array_equal(whole[0][:, t], q)
        np.testing.assert_array_equal(whole[1][:, t], qd)
        q, qd = robot.step(q, qd, np.ascontiguousarray(tau[:, t]), given["dt"], **options)
    np.testing.assert_array_equal(whole[0][:, -1], q)
    np.testing.assert_array_equal(whole[1][:, -1], qd)
    key = KernelKey("step", integrator)
    exact = {key: value.astype(np.float64) for key, value in given.items()}
    start = {"q0": exact["q"], "qd0": exact["qd"], "tau": tau[:, :2].astype(np.float64)}
    reference = evaluate_rollout(tree, key, {**exact, **start})
    for path, expected in zip(whole, reference, strict=True):
        tolerance = 1e-4 if dtype == "float32" else 1e-11
        scale = np.abs(expected).max()
        assert np.abs(path[:, :3] - expected).max() < tolerance * scale


def test_loads_may_differ_from_step_to_step() -> None:
    robot = load_robot(urdf_path("gripper"))
    x = random_states(load_tree(urdf_path("gripper")), 5, np.random.default_rng(7))
    T, rng = 4, np.random.default_rng(8)
    tau = rng.normal(size=(T, robot.nv))
    loads = {
        "gravity": rng.normal(size=(5, T, 3)),
        "f_ext": rng.normal(size=(5, 1, len(robot.body_names), 6)),
        "base_velocity": rng.normal(size=(5, 6)),
        "base_acceleration": rng.normal(size=(5, T, 6)),
    }
    paths = robot.rollout(x["q"], x["qd"], tau, x["dt"], **loads)
    q, qd = x["q"], x["qd"]
    for t in range(T):
        now = {
            key: np.ascontiguousarray(value[:, min(t, value.shape[1] - 1)])
            if key != "base_velocity"
            else value
            for key, value in loads.items()
        }
        q, qd = robot.step(q, qd, np.tile(tau[t], (5, 1)), x["dt"], **now)
        np.testing.assert_array_equal(paths[0][:, t + 1], q)
        np.testing.assert_array_equal(paths[1][:, t + 1], qd)


def test_what_is_kept_and_where_it_is_written() -> None:
    robot = load_robot(urdf_path("gripper"))
    n, v = robot.nq, robot.nv
    rng = np.random.default_rng(9)
    q, qd = robot.random_configuration(rng, 33), rng.normal(size=(33, v))
    tau = rng.normal(size=(33, 6, v))
    whole = robot.rollout(q, qd, tau, 0.01)
    for store_every, moments in (
        ("last", -1),
        (2, slice(None, None, 2)),
        (6, slice(None, None, 6)),
    ):
        for path, all_of_it in zip(
            robot.rollout(q, qd, tau, 0.01, store_every=store_every), whole, strict=True
        ):
            np.testing.assert_array_equal(path, all_of_it[:, moments])
    # Any strides: states beside each other, time before states, gaps.
    ways = [(2, 1, 0), (1, 0, 2), (0, 2, 1)]
    for axes in ways:
        out = []
        for width in (n, v):
            shape = (33, 7, width)
            back = tuple(int(k) for k in np.argsort(axes))
            out.append(np.empty([shape[axis] for axis in axes]).transpose(back)[:33])
        assert robot.rollout(q, qd, tau, 0.01, out=tuple(out))[0] is out[0]
        for path, all_of_it in zip(out, whole, strict=True):
            np.testing.assert_array_equal(path, all_of_it)
    # Finer steps are steps of their own.
    fine = robot.rollout(q, qd, np.repeat(tau, 3, axis=1), 0.01 / 3.0, store_every=3)
    for path, finer in zip(robot.rollout(q, qd, tau, 0.01, substeps=3), fine, strict=True):
        np.testing.assert_array_equal(path, finer)
    # One state, efforts for all, no state, no step.
    one = robot.rollout(q[0], qd[0], tau[0], 0.01)
    np.testing.assert_array_equal(one[0], whole[0][0])
    shared = robot.rollout(q, qd, tau[0], np.full(33, 0.01))
    np.testing.assert_array_equal(shared[1][0], whole[1][0])
    assert robot.rollout(q[:0], qd[:0], tau[:0], 0.01)[0].shape == (0, 7, n)
    for store_every in (1, "last"):
        still = robot.rollout(q, qd, tau[:, :0], 0.01, store_every=store_every)
        np.testing.assert_array_equal(still[0].reshape(33, n), q)
    # The end of one rollout is the beginning of the next, in the same memory.
    path = whole[0].copy(), whole[1].copy()
    robot.rollout(path[0][:, -1], path[1][:, -1], tau, 0.01, out=path)
    again = robot.rollout(whole[0][:, -1].copy(), whole[1][:, -1].copy(), tau, 0.01)
    np.testing.assert_array_equal(path[0], again[0])


def test_a_bound_rollout_computes_anew() -> None:
    robot = load_robot(urdf_path("gripper"))
    rng = np.random.default_rng(10)
    q, qd = robot.random_configuration(rng, 9), rng.normal(size=(9, robot.nv))
    tau = rng.normal(size=(9, 3, robot.nv))
    bound = robot.bind("rollout", q, qd, tau, 0.01, store_every="last")
    for _ in range(2):
        tau += 1.0
        for found, expected in zip(
            bound(), robot.rollout(q, qd, tau, 0.01, store_every="last"), strict=True
        ):
            np.testing.assert_array_equal(found, expected)
    with pytest.raises(gridgen.ShapeError, match=r"out\[0\] overlaps q0"):
        robot.bind("rollout", q, qd, tau, 0.01, store_every="last", out=(q, qd))


@pytest.mark.parametrize("backend", ["cpu", "emulated"])
def test_rollouts_that_are_alike_are_looked_at_once(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their numbers may be others, but not what decides how arrays lie; results may be anywhere."""
    robot = gridgen.load(urdf_path("gripper"), backend=backend, parameters="all")
    looked, checked = [], evaluation.checked_call

    def noted(*arguments: Any) -> object:
        looked.append(arguments)
        return checked(*arguments)

    for module in (evaluation, bound_calls):
        monkeypatch.setattr(module, "checked_call", noted)
    rng = np.random.default_rng(13)
    wide = rng.normal(size=(2, 19, 5, robot.nv))
    feedback = rng.normal(size=(3, 6)), rng.normal(size=(19, 4, 3)), np.zeros(3)
    params = robot.parameters()
    for times in range(3):
        q, qd, tau = wide[0, :, 0], wide[1, :, 0].copy(), wide[0, :, 1:] + times
        options = {"gravity": rng.normal(size=3), "feedback": feedback, "params": params}
        found = robot.rollout(q, qd, tau, 0.01, **options)
        bound = robot.bind("rollout", q, qd, tau, 0.01, **options)()
        assert all(map(np.array_equal, found, bound))
        assert sum(len(call) > 0 for call in looked) == 1 + (times + 1)  # and each that is bound
    out = tuple(np.empty((19, 5, 3)) for _ in range(2))
    for _ in range(2):
        assert robot.rollout(q, qd, tau, 0.01, out=out, **options) is out
        assert all(map(np.array_equal, out, found))
    looked.clear()
    # What was found of other arrays does not hold.
    robot.rollout(q, qd, tau, 0.01, out=out, **{**options, "substeps": 1})
    assert not looked
    start = out[0][:, 0], out[1][:, 0]
    start[0][...], start[1][...] = q, qd
    robot.rollout(*start, tau, 0.01, out=out, **options)  # results over arguments
    assert all(map(np.array_equal, out, found))
    with pytest.raises(gridgen.ParameterError):
        robot.rollout(q, qd, tau, 0.01, **{**options, "params": -params})
    with pytest.raises(gridgen.OptionError, match="substeps is True"):
        robot.rollout(q, qd, tau, 0.01, substeps=True, **options)
    other = robot.rollout(q, qd, tau, 0.02, **options)
    assert not np.array_equal(other[0], found[0])


def test_quaternions_are_normalized_or_refused() -> None:
    robot = load_robot(urdf_path("arm6"), floating_base=True)
    q, qd = np.tile(robot.neutral(), (3, 1)), np.zeros((3, robot.nv))
    tau = np.zeros((3, 2, robot.nv))
    expected = robot.rollout(q, qd, tau, 0.01)
    bound = robot.bind("rollout", q, qd, tau, 0.01)
    q[1, 6] = 1.0005
    for found in (robot.rollout(q, qd, tau, 0.01), bound()):
        np.testing.assert_array_equal(found[0], expected[0])
    q[1, 6] = 1.1
    with pytest.raises(gridgen.QuaternionError, match="q0"):
        robot.rollout(q, qd, tau, 0.01)
    with pytest.raises(gridgen.QuaternionError, match="q0"):
        bound()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"tau": np.zeros((4, 2))}, gridgen.ShapeError, r"\(5, 4, 3\) or \(4, 3\)"),
        ({"tau": np.zeros(3)}, gridgen.ShapeError, "joint torques of every step"),
        ({"tau": np.zeros((3, 4, 3))}, gridgen.ShapeError, "tau has shape"),
        ({"qd0": np.zeros((4, 3))}, gridgen.ShapeError, r"qd0 has shape .* \(5, 3\)"),
        ({"qd0": np.zeros(2)}, gridgen.ShapeError, "qd0 has shape"),
        ({"dt": np.zeros(3)}, gridgen.ShapeError, r"dt has shape .* \(\) or \(5,\)"),
        ({"dt": "1"}, gridgen.DtypeError, "dt is"),
        ({"dt": np.full((), 1, np.float32)}, gridgen.DtypeError, "dt has dtype float32"),
        ({"dt": np.complex64(1)}, gridgen.DtypeError, "dt is .*; give numbers"),
        ({"dt": 10**400}, gridgen.DtypeError, "dt is 1000.*too large"),
        ({"store_every": 3}, gridgen.OptionError, "divides 4"),
        ({"store_every": "first"}, gridgen.OptionError, "last, or a number"),
        ({"store_every": 2**70, "tau": np.zeros((0, 3))}, gridgen.OptionError, "last, or a number"),
        ({"substeps": 0}, gridgen.OptionError, "substeps is 0"),
        ({"substeps": 2**70}, gridgen.OptionError, "a whole number from 1 to"),
        ({"effort_limits": "no"}, gridgen.OptionError, "True or False"),
        ({"return_efforts": 1}, gridgen.OptionError, "return_efforts is 1"),
        ({"integrator": "auto"}, gridgen.OptionError, "semi_implicit, euler, rk4"),
        ({"schedule": "scan"}, gridgen.OptionError, "auto, thread"),
        ({"gravity": np.zeros((4, 3))}, gridgen.ShapeError, r"\(3,\) or \(5, 3\) or \(5, 4, 3\)"),
        ({"out": (np.zeros((5, 4, 3)),) * 2}, gridgen.ShapeError, r"\(5, 5, 3\)"),
    ],
)
def test_bad_arguments_are_named(change: dict, error: type, message: str) -> None:
    robot = load_robot(urdf_path("gripper"))
    assert robot.nv == 3
    given = {"q0": np.zeros((5, 3)), "qd0": np.zeros((5, 3)), "tau": np.zeros((5, 4, 3)), "dt": 0.1}
    with pytest.raises(error, match=message):
        robot.rollout(**{**given, **change})


@pytest.mark.parametrize(
    ("name", "floating", "backend"),
    [("arm6", True, "cpu"), ("two_link", False, "emulated"), ("gripper", False, "cpu")],
)
def test_a_controller_follows_a_reference_within_the_limits(
    name: str, floating: bool, backend: str
) -> None:
    robot = gridgen.load(urdf_path(name), floating_base=floating, backend=backend)
    tree = load_tree(urdf_path(name), floating)
    B, T, nv = 19, 5, robot.nv
    x = random_states(tree, B, np.random.default_rng(11))
    rng = np.random.default_rng(12)
    tau = rng.normal(size=(B, T, nv))
    gains = rng.normal(size=(B, T, nv, 2 * nv))
    q_ref = np.stack([np.roll(x["q"], t, axis=0) for t in range(1, T + 1)], axis=1)
    qd_ref = rng.normal(size=(B, T, nv))
    start = {**x, "q0": x["q"], "qd0": x["qd"], "tau": tau, "dt": np.full(B, 1e-3)}
    cases = [
        (gains, q_ref, qd_ref),
        (30.0 * gains[0, 0], q_ref[0, 0], qd_ref[0]),
        (gains[:, :1], q_ref[:1], qd_ref[0, 0]),
    ]
    for feedback in cases:
        K, q_target, qd_target = feedback
        full = {
            "gains": np.broadcast_to(K, gains.shape),
            "q_ref": np.broadcast_to(q_target, q_ref.shape),
            "qd_ref": np.broadcast_to(qd_target, qd_ref.shape),
        }
        options = {"effort_limits": True, "substeps": 2}
        key = KernelKey("step", "semi_implicit")
        reference = evaluate_rollout(tree, key, {**start, **full}, **options)
        found = robot.rollout(x["q"], x["qd"], tau, 1e-3, feedback=feedback, **options)
        for path, expected in zip(found, reference, strict=True):
            np.testing.assert_allclose(path, expected, rtol=1e-9, atol=1e-9)
        *path, efforts = robot.rollout(
            x["q"], x["qd"], tau, 1e-3, feedback=feedback, return_efforts=True, **options
        )
        assert all(map(np.array_equal, path, found))
        assert (np.abs(efforts) <= robot.effort_limits).all()
        again = robot.rollout(x["q"], x["qd"], efforts, 1e-3, substeps=2)
        assert all(map(np.array_equal, again, found))
    named = dict(zip(("gains", "q_ref", "qd_ref"), cases[0], strict=True))
    by_name = robot.evaluate("rollout_semi_implicit", {**start, **named})
    called = robot.rollout(x["q"], x["qd"], tau, 1e-3, feedback=cases[0])
    for path, expected in zip(by_name, called, strict=True):
        np.testing.assert_array_equal(path, expected)
    free = robot.rollout(x["q"], x["qd"], tau, 1e-3, feedback=cases[1], substeps=2)
    assert np.abs(free[1] - found[1]).max() > 1e-3


def test_feedback_that_does_not_fit_is_refused() -> None:
    robot = load_robot(urdf_path("gripper"))
    start = np.zeros((5, 3)), np.zeros((5, 3)), np.zeros((4, 3)), 0.1
    with pytest.raises(gridgen.OptionError, match=r"\(K, q_ref, qd_ref\)"):
        robot.rollout(*start, feedback=np.zeros((3, 6)))
    with pytest.raises(gridgen.ShapeError, match=r"gains has shape \(3, 3\).*\(5, 4, 3, 6\)"):
        robot.rollout(*start, feedback=(np.zeros((3, 3)), np.zeros(3), np.zeros(3)))
    with pytest.raises(gridgen.ShapeError, match=r"q_ref has shape \(5, 3\)"):
        robot.rollout(*start, feedback=(np.zeros((3, 6)), np.zeros((5, 3)), np.zeros(3)))
    with pytest.raises(gridgen.OptionError, match="feedback lacks gains"):
        robot.rollout(*start, feedback=(None, np.zeros(3), np.zeros(3)))


#: MuJoCo's integrator and the flag that it needs, of a robot with damping and without actuators.
OF_MUJOCO = {
    "semi_implicit": [("EULER", "EULERDAMP")],
    "implicit": [("EULER", ""), ("IMPLICITFAST", "")],
    "rk4": [("RK4", "")],
    "euler": [],
    "midpoint": [],
    "trapezoidal": [],
    "constant_acceleration": [],
    "variational": [],
}


def arm_text(name: str) -> str:
    """Return a URDF with damping in every joint, without what MuJoCo makes constraints of."""
    root = etree.parse(urdf_path(name)).getroot()
    etree.strip_elements(root, "visual", "collision", "mimic", "dynamics", "transmission", "gazebo")
    for joint in root.iter("joint"):
        if joint.get("type") != "fixed":
            etree.SubElement(joint, "dynamics", damping="0.7")
    return etree.tostring(root, encoding="unicode")


@pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning")
@needs("mujoco")
@pytest.mark.parametrize(
    "name", ["cart_pole", "two_link", "arm6", "arm7", "panda", "ur5_robot", "kinova", "z1"]
)
def test_steps_of_arms_are_those_of_mujoco(name: str) -> None:
    import mujoco

    spec = mujoco.MjSpec.from_string(arm_text(name))
    spec.compiler.fusestatic, spec.compiler.balanceinertia = True, False
    model = spec.compile()
    model.opt.gravity[:], model.opt.timestep = (0.0, 0.0, -9.81), 5e-3
    tree = load_tree(arm_text(name), joint_dynamics=True)
    order = [tree.joint_names.index(model.joint(index).name) for index in range(model.njnt)]
    q, qd, tau = np.random.default_rng(0).normal(size=(3, 1, tree.nv))
    data = mujoco.MjData(model)

    def theirs(integrator: str, flag: str) -> Array:
        mujoco.mj_resetData(model, data)
        data.qpos, data.qvel, data.qfrc_applied = q[0, order], qd[0, order], tau[0, order]
        disabled = ["CONSTRAINT", *([flag] if flag else [])]
        bits = (int(mujoco.mjtDisableBit.__members__[f"mjDSBL_{bit}"]) for bit in disabled)
        model.opt.disableflags = sum(bits)
        model.opt.integrator = mujoco.mjtIntegrator.__members__[f"mjINT_{integrator}"]
        mujoco.mj_step(model, data)
        return np.array([data.qpos, data.qvel])

    given = {"q": q, "qd": qd, "tau": tau, "dt": [5e-3], "gravity": [0.0, 0.0, -9.81]}
    full = theirs("IMPLICIT", "")  # with the derivative of the Coriolis forces: none of ours
    for integrator in INTEGRATORS:
        after = evaluate_reference(tree, f"step_{integrator}", given)
        ours = np.array([array[0, order] for array in after])
        for method, flag in OF_MUJOCO[integrator]:
            np.testing.assert_allclose(ours, theirs(method, flag), rtol=1e-9, atol=1e-9)
        assert np.abs(ours - full).max() > 1e-7
    assert OF_MUJOCO.keys() == set(INTEGRATORS)


def test_the_example_reaches_its_target(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(OWN.parent / "examples"))
    example = runpy.run_path(str(OWN.parent / "examples" / "sampling_control.py"))
    robot = example["load"](urdf_path("arm7"))
    result = example["control"](robot, samples=64, steps=150, log=True)
    assert result.distances[-1] < example["NEAR"] < 0.1 * result.distances[0]
    assert "mm from the target" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_the_weak_arm_swings_up() -> None:
    example = runpy.run_path(str(OWN.parent / "examples" / "swing_up.py"))
    robot, motion = example["main"]([])
    limits, q, tau = np.array(robot.effort_limits), motion.q[0], motion.tau[0]
    assert motion.converged.all()
    assert np.abs(example["HANGING"] - example["STANDING"]).max() == pytest.approx(np.pi)
    assert np.abs(q[-1] - example["STANDING"]).max() < 0.05
    assert np.abs(motion.qd[0, -1]).max() < 0.05
    # It cannot have been lifted slowly.
    assert (np.abs(tau) <= limits).all()
    assert (np.abs(robot.gravity_forces(q)).max(axis=0) > 1.5 * limits).any()
    # The torques are those that led along it; in finer steps the gains are needed too.
    path, _ = robot.rollout(q[0], motion.qd[0, 0], tau, example["DT"], integrator="implicit")
    np.testing.assert_allclose(path, q, atol=1e-6)
    with_gains, without = (example["replayed"](robot, motion, 10, gain) for gain in (1.0, 0.0))
    assert with_gains < 0.2 * without


def test_a_plan_is_of_one_integrator() -> None:
    """Others compute other states, however fast they are."""
    robot = load_robot(urdf_path("gripper"))
    for name, ending in (("step", "."), ("rollout", " This is the time of one step.")):
        plan = robot.plan(name, batch=8)
        assert {candidate.kernel for candidate in plan.candidates} == {f"{name}_semi_implicit"}
        assert plan.reason.endswith(ending)
