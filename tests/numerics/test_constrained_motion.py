"""Steps and rollouts of robots with constraints, and a loop that stays closed for ten seconds."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pinocchio
import pytest

import gridgen
from fake_gpu.ptx.backend import PTX_TARGETS
from gridgen.backends import TARGETS
from gridgen.check import compare_function, random_states
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import OptionError, ShapeError
from gridgen.functions.arrays import PROXIMAL
from gridgen.schedules.thread.plan import plan_lines
from helpers.dynamics import COMPLEX_STEP, load_tree, tangent_steps
from helpers.oracle import Oracle
from helpers.robots import CONSTRAINTS, INTEGRATORS, exhaustive
from numerics.robots import run_program, urdf_path

STATES, TIMES = 3, 5
INPUTS = ("active", "stabilization", "compliance", "proximal")
QUADRUPED = pytest.param("quadruped", True, marks=pytest.mark.exhaustive)


def held_tree(name: str, floating: bool = False, **options: Any) -> Any:
    return load_tree(name, floating, constraints=CONSTRAINTS[name], **options)


@cache
def held_robot(name: str) -> gridgen.Robot:
    options = {"floating_base": name == "quadruped", "constraints": CONSTRAINTS[name]}
    return gridgen.load(urdf_path(name), backend="cpu", **options)


def accelerations(tree: Any, x: dict[str, np.ndarray], **state: Any) -> np.ndarray:
    return evaluate_reference(tree, "constrained_forward_dynamics", {**x, **state})[0]


@pytest.mark.parametrize(("name", "floating"), [("arm6", False), ("quadruped", True)])
def test_steps_integrate_the_accelerations_of_constraints(name: str, floating: bool) -> None:
    """Implicit damping is an armature: that of M + dt D."""
    tree = held_tree(name, floating, joint_dynamics=True, parameters=("armature", "damping"))
    x = random_states(tree, STATES, np.random.default_rng(1))
    x["active"][0] = 1.0
    q, qd, dt = x["q"], x["qd"], x["dt"][:, None]
    stiff = x["armature"] + dt * x["damping"]
    ends = {
        "semi_implicit": qd + dt * accelerations(tree, x),
        "implicit": qd + dt * accelerations(tree, x, armature=stiff),
    }
    ends["euler"] = ends["semi_implicit"]
    for integrator, end in ends.items():
        found = evaluate_reference(tree, f"step_{integrator}", x)
        along = qd if integrator == "euler" else end
        (moved,) = evaluate_reference(tree, "integrate", {"q": q, "v": dt * along})
        np.testing.assert_allclose(found[1], end, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found[0], moved, rtol=1e-10, atol=1e-10)


def test_runge_kutta_evaluates_constraints_four_times() -> None:
    tree = held_tree("arm6")
    x = random_states(tree, STATES, np.random.default_rng(2))
    q, qd, dt = x["q"], x["qd"], x["dt"][:, None]
    v, a = [qd], [accelerations(tree, x)]
    for share in (0.5, 0.5, 1.0):
        v.append(qd + share * dt * a[-1])
        a.append(accelerations(tree, x, q=q + share * dt * v[-2], qd=v[-1]))
    found = evaluate_reference(tree, "step_rk4", x)
    for end, start, rates in zip(found, (q, qd), (v, a), strict=True):
        mean = (rates[0] + 2 * rates[1] + 2 * rates[2] + rates[3]) / 6
        np.testing.assert_allclose(end, start + dt * mean, rtol=1e-11, atol=1e-11)


FEET = [{"kind": "point", "link": f"{leg}_foot"} for leg in ("FL", "FR", "RL", "RR")]


def test_a_rollout_is_pinocchios_dynamics_integrated() -> None:
    """Four feet, of which two lift off half way."""
    robot = gridgen.load(urdf_path("quadruped"), floating_base=True, constraints=FEET)
    tree = load_tree("quadruped", True)
    peer = Oracle(tree, urdf_path("quadruped"))
    model, data = peer.model, peer.model.createData()
    rng, dt, steps = np.random.default_rng(3), 1e-3, 20
    start, tau = robot.random_configuration(rng, 1)[0], rng.normal(size=(steps, robot.nv))
    active = np.ones((steps, 4))
    active[steps // 2 :, 1:3] = 0.0
    path, speeds = robot.rollout(start, np.zeros(robot.nv), tau, dt, active=active)
    q, v = start, np.zeros(robot.nv)
    for t in range(steps):
        models, states = pinocchio.StdVec_RigidConstraintModel(), []
        for foot, holds in zip(FEET, active[t], strict=True):
            if holds:
                (frame,) = (one for one in tree.frames if one.name == foot["link"])
                joint = model.getJointId(tree.bodies[frame.body].joint)
                at = pinocchio.SE3(np.array(frame.rotation), np.array(frame.translation))
                seen = pinocchio.ReferenceFrame.LOCAL_WORLD_ALIGNED
                kind = pinocchio.ContactType.CONTACT_3D
                models.append(pinocchio.RigidConstraintModel(kind, model, joint, at, seen))
        states = pinocchio.StdVec_RigidConstraintData()
        states.extend([one.createData() for one in models])
        pinocchio.initConstraintDynamics(model, data, models, states)
        settings = pinocchio.ProximalSettings(1e-14, 1e-14, 1e-12, 20)
        qdd = pinocchio.constraintDynamics(model, data, q, v, tau[t], models, states, settings)
        v = v + dt * qdd
        q = pinocchio.integrate(model, q, dt * v)
        np.testing.assert_allclose(path[t + 1], q, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(speeds[t + 1], v, rtol=0.0, atol=1e-8)


def given(robot: gridgen.Robot, tree: Any, dtype: str) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments of a rollout whose constraints differ from step to step."""
    x = random_states(tree, STATES * TIMES, np.random.default_rng(4))
    in_time = {
        name: x[name].reshape(STATES, TIMES, *x[name].shape[1:]) for name in ("tau", *INPUTS)
    }
    in_time["compliance"] = in_time["compliance"][:, 0]
    options = {name: value.astype(dtype) for name, value in in_time.items()}
    arguments = [x["q"][:STATES].astype(dtype), x["qd"][:STATES].astype(dtype)]
    return [*arguments, options.pop("tau"), x["dt"][:STATES].astype(dtype)], options


@pytest.mark.parametrize(
    ("name", "integrator", "dtype", "backend"),
    [
        ("gripper", "semi_implicit", "float64", "cpu"),
        ("two_link", "rk4", "float32", "compute_75"),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in itertools.product(
                ("two_link", "arm6", "gripper", "quadruped"),
                INTEGRATORS,
                ("float32", "float64"),
                ("cpu", "emulated", *PTX_TARGETS),
            )
        ),
    ],
)
def test_constraints_may_differ_from_step_to_step(
    name: str, integrator: str, dtype: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollout is a step again and again, bit for bit."""
    if backend in PTX_TARGETS:
        pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
        monkeypatch.setitem(TARGETS, "emulated", PTX_TARGETS[backend])
        backend = "emulated"
    floating = name == "quadruped"
    robot = held_robot(name)
    tree = held_tree(name, floating)
    (q, qd, tau, dt), options = given(robot, tree, dtype)
    ways = {"integrator": integrator, "backend": backend}
    paths = robot.rollout(q, qd, tau, dt, **options, **ways)
    for t in range(TIMES):
        now = {key: value[:, t] for key, value in options.items() if key != "compliance"}
        now = {key: np.ascontiguousarray(value) for key, value in now.items()}
        now["compliance"] = options["compliance"]
        q, qd = robot.step(q, qd, np.ascontiguousarray(tau[:, t]), dt, **now, **ways)
        np.testing.assert_array_equal(paths[0][:, t + 1], q)
        np.testing.assert_array_equal(paths[1][:, t + 1], qd)


def test_booleans_defaults_and_axes_of_constraints() -> None:
    robot = held_robot("arm6")
    tree = held_tree("arm6")
    (q, qd, tau, dt), options = given(robot, tree, "float64")
    active = options["active"]
    expected = robot.rollout(q, qd, tau, dt, active=active)
    for same in (active > 0, active.astype(int), active.tolist()):
        for one, other in zip(robot.rollout(q, qd, tau, dt, active=same), expected, strict=True):
            np.testing.assert_array_equal(one, other)
    alone = robot.rollout(q[0], qd[0], tau[0], float(dt[0]), active=active[0])  # (T, k)
    np.testing.assert_array_equal(alone[0], expected[0][0])
    of_step = robot.step(q, qd, tau[:, 0], dt), robot.step(q, qd, tau[:, 0], dt, active=[[1]] * 3)
    np.testing.assert_array_equal(of_step[0][0], of_step[1][0])
    with pytest.raises(ShapeError, match="active has shape"):
        robot.rollout(q, qd, tau, dt, active=active[:, :2])
    with pytest.raises(OptionError, match="has no constraints: load it with constraints="):
        gridgen.load(urdf_path("arm6")).step(q, qd, tau[:, 0], dt, active=[1])


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize(("name", "floating"), [("gripper", False), QUADRUPED])
def test_linearized_steps_are_those_of_complex_steps(
    name: str, floating: bool, integrator: str
) -> None:
    tree = held_tree(name, floating)
    x = random_states(tree, 2, np.random.default_rng(5))
    x["active"][0], x["dt"][:], x["proximal"][:] = 1.0, 0.05, PROXIMAL["float64"]
    x["compliance"] += 0.1  # the loop is open: its constraints contradict each other
    A, B = evaluate_reference(tree, f"step_gradient_{integrator}", x)
    n = tree.nv
    steps = np.eye(n) * 1j * COMPLEX_STEP
    moved = [("q", tangent_steps(tree, x["q"], j)) for j in range(n)]
    moved += [(key, x[key] + step) for key in ("qd", "tau") for step in steps]
    start = evaluate_reference(tree, f"step_{integrator}", x)
    for column, (key, value) in enumerate(moved):
        q, qd = evaluate_reference(tree, f"step_{integrator}", {**x, key: value})
        change = {"q0": start[0], "q1": q}
        (way,) = evaluate_reference(tree, "difference", change)
        expected = np.imag(np.concatenate((way, qd), axis=1)) / COMPLEX_STEP
        found = A[:, :, column] if column < 2 * n else B[:, :, column - 2 * n]
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-7 * scale)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("arm6", "constrained_forward_dynamics_gradient"),
        ("gripper", "step_gradient_semi_implicit"),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in itertools.product(
                ("two_link", "arm6", "gripper", "quadruped", "humanoid"),
                ("constrained_forward_dynamics_gradient", "step_rk4", "step_gradient_implicit"),
            )
        ),
    ],
)
def test_programs_compute_what_the_reference_computes(name: str, function: str) -> None:
    tree = held_tree(name, name in ("quadruped", "humanoid"))
    x = random_states(tree, STATES, np.random.default_rng(7))
    results = run_program(tree, plan_lines(tree, function), x)
    row = compare_function(tree, function, "float64", x, results)
    assert row.passed, row


@pytest.mark.parametrize("backend", ["cpu", *exhaustive("emulated", *PTX_TARGETS)])
def test_backward_passes_are_differences_of_rollouts(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the inputs of constraints too, which differ from step to step or not."""
    if backend in PTX_TARGETS:
        pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
        monkeypatch.setitem(TARGETS, "emulated", PTX_TARGETS[backend])
        backend = "emulated"
    robot = held_robot("arm6")
    tree = held_tree("arm6")
    arguments, options = given(robot, tree, "float64")
    options |= {"substeps": 2, "backend": backend}
    names = ("q0", "qd0", "tau", "stabilization", "compliance")
    rng = np.random.default_rng(6)
    weights = [rng.normal(size=path.shape) for path in robot.rollout(*arguments, **options)]
    found = robot.rollout_vjp(*arguments, weights, wrt=names, **options)
    for place, (name, bar) in enumerate(zip(names, found, strict=True)):
        own = arguments[place] if place < 3 else options[name]
        assert bar.shape == own.shape
        move = 1e-6 * rng.normal(size=own.shape)
        ends = []
        for changed in (own + move, own - move):
            inputs = [*arguments[:place], changed, *arguments[place + 1 :]]
            other = options if place < 3 else {**options, name: changed}
            ends.append(robot.rollout(*(inputs if place < 3 else arguments), **other))
        slope = sum(np.sum(w * (a - b)) for w, a, b in zip(weights, *ends, strict=True)) / 2.0
        assert np.sum(bar * move) == pytest.approx(slope, rel=2e-6, abs=1e-12)


LENGTHS = {"crank": 0.3, "coupler": 0.8, "rocker": 0.6}
GROUND = 0.7
FOUR_BAR = (
    '<robot name="four_bar"><link name="ground"/>'
    + "".join(
        f'<link name="{name}"><inertial><origin xyz="{length / 2} 0 0"/><mass value="1"/>'
        '<inertia ixx="0.01" iyy="0.02" izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        for name, length in LENGTHS.items()
    )
    + "".join(
        f'<joint name="{child}_joint" type="continuous"><parent link="{parent}"/>'
        f'<child link="{child}"/><origin xyz="{x} 0 0"/><axis xyz="0 -1 0"/></joint>'
        for child, parent, x in (
            ("crank", "ground", 0.0),
            ("coupler", "crank", LENGTHS["crank"]),
            ("rocker", "ground", GROUND),
        )
    )
    + "</robot>"
)


@cache
def four_bar(backend: str = "cpu") -> gridgen.Robot:
    """Return a crank and rocker; of the loop's three rows, one is redundant."""
    loop = {"kind": "point", "link": "coupler", "offset": [LENGTHS["coupler"], 0.0, 0.0]}
    loop |= {"to": "rocker", "to_offset": [LENGTHS["rocker"], 0.0, 0.0]}
    loop |= {"stabilization": [1e4, 200.0]}
    return gridgen.load(FOUR_BAR, constraints=[loop], backend=backend)


def opening(q: np.ndarray) -> np.ndarray:
    """Return the distance between the ends of the loop [m]."""
    angles = q[..., 0], q[..., 0] + q[..., 1], q[..., 2]
    ends = (LENGTHS[name] * np.exp(1j * a) for name, a in zip(LENGTHS, angles, strict=True))
    crank, coupler, rocker = ends
    return np.abs(crank + coupler - GROUND - rocker)


def closed(crank: float) -> np.ndarray:
    """Return the positions of the closed four-bar at an angle of the crank."""
    knee = LENGTHS["crank"] * np.exp(1j * crank)
    between = GROUND - knee
    length = np.abs(between)
    along = (LENGTHS["coupler"] ** 2 - LENGTHS["rocker"] ** 2 + length**2) / (2 * length)
    across = np.sqrt(LENGTHS["coupler"] ** 2 - along**2)
    end = knee + (along + 1j * across) * between / length
    return np.array([crank, np.angle(end - knee) - crank, np.angle(end - GROUND)])


def test_a_loop_stays_closed_for_ten_seconds() -> None:
    """It falls and swings; its energy changes no more than that of the open chain."""
    robot, steps, dt = four_bar(), 10_000, 1e-3
    q0, qd0, tau = closed(1.0), np.zeros(3), np.zeros((steps, 3))
    assert opening(q0) < 1e-12

    def errors(integrator: str, active: int) -> tuple[float, float]:
        q, qd = robot.rollout(q0, qd0, tau, dt, integrator=integrator, active=[active])
        kinetic = robot.kinetic_energy(q, qd)
        total = kinetic + robot.potential_energy(q)
        return opening(q).max(), np.abs(total - total[0]).max() / np.ptp(kinetic)

    drift, change = errors("rk4", 1)
    assert drift < 1e-7
    assert change < max(1e-6, errors("rk4", 0)[1])
    drift, change = errors("semi_implicit", 1)
    assert drift < 1e-3
    assert change < errors("semi_implicit", 0)[1]
