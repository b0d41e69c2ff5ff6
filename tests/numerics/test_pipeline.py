"""The pipeline schedule: two chains of warps along trajectories, emulated and race-checked."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gridgen
from gridgen.backends.interface import Launch
from gridgen.check import random_states
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import DeviceError, ModelError, OptionError, ShapeError
from gridgen.modules import TracedModule
from gridgen.robot import Robot
from gridgen.schedules import Schedules
from gridgen.schedules.pipeline.schedule import PIPELINE_ROW
from helpers.robots import exhaustive
from helpers.scan import assert_race, barriers, tree_of
from helpers.standalone import run_standalone

FUNCTION = PIPELINE_ROW.key.name
ROBOTS = {
    "arm6": {},
    "quadruped": {"floating_base": True},
    "gripper": {"joint_dynamics": True, "armature": 0.1},
    "screws": {"joint_dynamics": True},
    "chain 12": {},
    "chain 18": {},
}
LONG = pytest.mark.exhaustive
#: Waits and arrivals of the forward chain, then those of the backward chain.
BARRIERS = ("empty", "full", "full", "empty")


@cache
def robot_of(name: str) -> Robot:
    return Robot(TracedModule(tree_of(name, **ROBOTS[name])), "emulated")


def states_of(name, *lead):
    """Return arguments by name, of so many trajectories of so many samples."""
    x = random_states(tree_of(name, **ROBOTS[name]), int(np.prod(lead)), np.random.default_rng(3))
    wanted = ("q", "qd", "qdd", "f_ext", "gravity")
    return {n: x[n].reshape(*lead, *x[n].shape[1:]) for n in wanted}


def flat(x):
    return {n: array.reshape(-1, *array.shape[2:]) for n, array in x.items()}


@pytest.mark.parametrize(
    ("name", "lead"),
    [
        ("arm6", (1, 1)),
        ("arm6", (3, 2)),
        ("arm6", (1, 65)),
        ("quadruped", (2, 7)),
        ("screws", (1, 3)),
        pytest.param("gripper", (2, 7), marks=LONG),
        pytest.param("chain 12", (1, 1000), marks=LONG),
        pytest.param("chain 18", (2, 7), marks=LONG),
    ],
)
def test_efforts_are_those_of_a_scan_and_of_the_reference(name, lead):
    robot, x = robot_of(name), states_of(name, *lead)
    tau = robot.inverse_dynamics(x["q"], x["qd"], x["qdd"], schedule="pipeline")
    one = flat(x)
    scan = robot.inverse_dynamics(one["q"], one["qd"], one["qdd"], schedule="scan")
    assert_array_equal(tau.reshape(scan.shape), scan)
    (expected,) = evaluate_reference(tree_of(name, **ROBOTS[name]), "inverse_dynamics", one)
    assert_allclose(scan, expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_trajectory_alone(dtype):
    robot, x = robot_of("arm6"), states_of("arm6", 1, 1000)
    q, qd, qdd = (x[n][0].astype(dtype) for n in ("q", "qd", "qdd"))
    tau = robot.inverse_dynamics(q, qd, qdd, schedule="pipeline")
    assert tau.dtype == dtype
    assert_array_equal(tau, robot.inverse_dynamics(q, qd, qdd, schedule="scan"))


def test_loads_may_differ_from_sample_to_sample_or_not():
    robot, x = robot_of("quadruped"), states_of("quadruped", 2, 5)
    states = x["q"], x["qd"], x["qdd"]
    base = np.linspace(-1.0, 1.0, 6)
    given = {
        "f_ext": x["f_ext"],
        "base_velocity": base,
        "gravity": np.eye(3)[:2],
    }
    tau = robot.inverse_dynamics(*states, schedule="pipeline", **given)
    one = flat(x)
    given |= {"f_ext": one["f_ext"], "gravity": np.repeat(given["gravity"], 5, axis=0)}
    scan = robot.inverse_dynamics(one["q"], one["qd"], one["qdd"], schedule="scan", **given)
    assert_array_equal(tau.reshape(scan.shape), scan)


def test_results_go_where_they_are_asked_to_go():
    robot, x = robot_of("arm6"), states_of("arm6", 2, 7)
    states = x["q"], x["qd"], x["qdd"]
    room = np.full((2, 7, 12), np.nan)[..., ::2]
    assert robot.inverse_dynamics(*states, schedule="pipeline", out=room) is room
    assert_array_equal(room, robot.inverse_dynamics(*states, schedule="pipeline"))
    transposed = [np.ascontiguousarray(a.transpose(2, 0, 1)).transpose(1, 2, 0) for a in states]
    assert_array_equal(robot.inverse_dynamics(*transposed, schedule="pipeline"), room)
    none = np.empty((2, 0, 6))
    assert robot.inverse_dynamics(none, none, none, schedule="pipeline").shape == (2, 0, 6)


def test_a_bound_call_computes_trajectories():
    robot, x = robot_of("arm6"), states_of("arm6", 2, 7)
    states = x["q"], x["qd"], x["qdd"]
    bound = robot.bind("inverse_dynamics", *states, schedule="pipeline")
    states[1][...] *= 2
    assert_array_equal(bound(), robot.inverse_dynamics(*states, schedule="pipeline"))


def test_what_does_not_fit_is_refused():
    robot, x = robot_of("arm6"), states_of("arm6", 2, 7)
    q, qd, qdd = x["q"], x["qd"], x["qdd"]
    with pytest.raises(ShapeError, match=r"qd has shape \(2, 7, 6\)"):
        robot.inverse_dynamics(np.zeros((2, 8, 6)), qd, qdd, schedule="pipeline")
    with pytest.raises(ShapeError, match=r"qdd has shape \(2, 6\)"):
        robot.inverse_dynamics(q[0], qd[0], qdd[:, 0], schedule="pipeline")
    with pytest.raises(ShapeError, match="needs a row for every sample"):
        robot.inverse_dynamics(q[0, 0], qd[0, 0], qdd[0, 0], schedule="pipeline")
    with pytest.raises(OptionError, match="schedule"):
        robot.bias_forces(q, qd, schedule="pipeline")
    room = np.empty((7, 2, 6)).transpose(1, 0, 2)
    with pytest.raises(ShapeError, match="give an array in which states follow one another"):
        robot.inverse_dynamics(q, qd, qdd, schedule="pipeline", out=room)
    with pytest.raises(DeviceError, match="emulated"):
        robot.inverse_dynamics(q, qd, qdd, schedule="pipeline", backend="cpu")
    many = Robot(TracedModule(tree_of("chain 33")), "emulated")
    with pytest.raises(ModelError, match=r'33 bodies.*schedule="scan"'):
        many.inverse_dynamics(*np.zeros((3, 1, 2, 33)), schedule="pipeline")


def run_checked(name, sanitize, leave_out=None, samples=41):
    """Run two trajectories under a sanitizer, as a program of its own."""
    tree = tree_of(name, **ROBOTS[name])
    kernel = Schedules(tree).kernel(PIPELINE_ROW.key)
    x = flat(states_of(name, 2, samples))
    arrays = [x[n].reshape(2 * samples, -1) for n in kernel.inputs]
    arrays.append(np.full((2 * samples, tree.nv), np.nan))
    launch = Launch(kernel.team.threads_per_block, 1, 8 * kernel.team.shared_numbers)
    run = run_standalone(
        TracedModule(tree).sources(kernel),
        FUNCTION,
        "float64",
        arrays,
        launch,
        batch=2,
        sanitize=sanitize,
        leave_out=leave_out,
        words=(samples, 2 * samples),
    )
    return run, evaluate_reference(tree, "inverse_dynamics", x)[0]


@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize(
    ("name", "sanitize"),
    [
        ("arm6", "thread"),
        pytest.param("quadruped", "thread", marks=LONG),
        pytest.param("arm6", "address,undefined", marks=LONG),
    ],
)
def test_the_chains_neither_race_nor_stray(name, sanitize):
    run, expected = run_checked(name, sanitize)
    assert (run.status, run.report) == (0, "")
    assert_allclose(run.arrays[-1], expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize("place", range(len(BARRIERS)))
def test_a_missing_barrier_is_a_race(place):
    sources = TracedModule(tree_of("arm6")).sources(
        Schedules(tree_of("arm6")).kernel(PIPELINE_ROW.key)
    )
    file = next(name for name in sources.files if name.endswith("_pipeline.cuh") and "arm" in name)
    found = barriers(sources, file, r"barrier_(wait|arrive)\(")
    assert len(found) == len(BARRIERS)
    assert_race(run_checked("arm6", "thread", found[place])[0])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("arm6", "float64"),
        pytest.param("quadruped", "float32", marks=LONG),
        pytest.param("quadruped", "float64", marks=LONG),
    ],
)
def test_nvrtc_takes_the_chains_and_keeps_them_in_registers(name, dtype):
    pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
    from gridgen.backends.cuda.compiler import compile_kernel

    tree = tree_of(name, **ROBOTS[name])
    kernel = Schedules(tree).kernel(PIPELINE_ROW.key)
    found = compile_kernel(TracedModule(tree).sources(kernel), FUNCTION, dtype, "sm_90").resources
    assert found.spill_stores == found.spill_loads == 0


@pytest.mark.parametrize("arch", ["compute_75", *exhaustive("compute_90")])
def test_what_nvrtc_makes_of_the_chains_gives_the_same(arch):
    pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
    from fake_gpu.ptx.backend import PTX_TARGETS
    from gridgen.backends import TARGETS

    x = states_of("arm6", 2, 41)
    states = x["q"], x["qd"], x["qdd"]
    expected = robot_of("arm6").inverse_dynamics(*states, schedule="pipeline")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TARGETS, "emulated", PTX_TARGETS[arch])
        robot = gridgen.robot.Robot(TracedModule(tree_of("arm6")), "emulated")
        found = robot.inverse_dynamics(*states, schedule="pipeline")
    assert_array_equal(found, expected)
