"""The pipeline schedule: two chains of warps along trajectories, emulated and race-checked."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gridgen.backends.interface import Launch
from gridgen.check import random_states
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import DeviceError, ModelError, OptionError, ShapeError
from gridgen.modules import TracedModule
from gridgen.papers import Pipeline
from gridgen.papers.schedules import PIPELINE_ROW, PaperModule
from gridgen.robot import Robot
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


@cache
def chains_of(name: str) -> Pipeline:
    return Pipeline(robot_of(name))


def states_of(name, *lead):
    """Return arguments by name, of so many trajectories of so many samples."""
    x = random_states(tree_of(name, **ROBOTS[name]), int(np.prod(lead)), np.random.default_rng(3))
    expected = ("q", "qd", "qdd", "f_ext", "gravity")
    return {n: x[n].reshape(*lead, *x[n].shape[1:]) for n in expected}


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
    chains, x = chains_of(name), states_of(name, *lead)
    tau = chains.inverse_dynamics(x["q"], x["qd"], x["qdd"])
    one = flat(x)
    scan = robot_of(name).inverse_dynamics(one["q"], one["qd"], one["qdd"], schedule="scan")
    assert_array_equal(tau.reshape(scan.shape), scan)
    (expected,) = evaluate_reference(tree_of(name, **ROBOTS[name]), "inverse_dynamics", one)
    assert_allclose(scan, expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_trajectory_alone(dtype):
    chains, x = chains_of("arm6"), states_of("arm6", 1, 1000)
    q, qd, qdd = (x[n][0].astype(dtype) for n in ("q", "qd", "qdd"))
    tau = chains.inverse_dynamics(q, qd, qdd)
    assert tau.dtype == dtype
    scan = robot_of("arm6").inverse_dynamics(q, qd, qdd, schedule="scan")
    assert_array_equal(tau, scan)


def test_loads_may_differ_from_sample_to_sample_or_not():
    chains, x = chains_of("quadruped"), states_of("quadruped", 2, 5)
    states = x["q"], x["qd"], x["qdd"]
    base = np.linspace(-1.0, 1.0, 6)
    given = {
        "f_ext": x["f_ext"],
        "base_velocity": base,
        "gravity": np.eye(3)[:2],
    }
    tau = chains.inverse_dynamics(*states, **given)
    one = flat(x)
    given |= {"f_ext": one["f_ext"], "gravity": np.repeat(given["gravity"], 5, axis=0)}
    scan = robot_of("quadruped").inverse_dynamics(
        one["q"], one["qd"], one["qdd"], schedule="scan", **given
    )
    assert_array_equal(tau.reshape(scan.shape), scan)


def test_arguments_are_broadcast():
    x = states_of("arm6", 2, 3)
    q, qd, qdd = (x[n] for n in ("q", "qd", "qdd"))
    for given in ((q, qd[0], qdd[0, 0].tolist()), (q[0, 0], qd, qdd[:, :1])):
        whole = [np.broadcast_to(array, q.shape).copy() for array in given]
        found = chains_of("arm6").inverse_dynamics(*given)
        assert_array_equal(found, chains_of("arm6").inverse_dynamics(*whole))
    gravity = [[0.0, 0.0, -9.81], [0.0, 1.0, 0.0]]
    found = chains_of("arm6").inverse_dynamics(q, qd, qdd, gravity=gravity)
    each = np.repeat(gravity, 3, axis=0).reshape(2, 3, 3)
    assert_array_equal(found, chains_of("arm6").inverse_dynamics(q, qd, qdd, gravity=each))


def test_results_go_where_they_are_asked_to_go():
    chains, x = chains_of("arm6"), states_of("arm6", 2, 7)
    states = x["q"], x["qd"], x["qdd"]
    room = np.full((2, 7, 12), np.nan)[..., ::2]
    assert chains.inverse_dynamics(*states, out=room) is room
    assert_array_equal(room, chains.inverse_dynamics(*states))
    transposed = [np.ascontiguousarray(a.transpose(2, 0, 1)).transpose(1, 2, 0) for a in states]
    assert_array_equal(chains.inverse_dynamics(*transposed), room)
    none = np.empty((2, 0, 6))
    assert chains.inverse_dynamics(none, none, none).shape == (2, 0, 6)


def test_what_does_not_fit_is_refused():
    chains, x = chains_of("arm6"), states_of("arm6", 2, 7)
    q, qd, qdd = x["q"], x["qd"], x["qdd"]
    with pytest.raises(ShapeError, match=r"qd has shape \(2, 7, 6\)"):
        chains.inverse_dynamics(np.zeros((2, 8, 6)), qd, qdd)
    with pytest.raises(ShapeError, match=r"qdd has shape \(2, 6\)"):
        chains.inverse_dynamics(q[0], qd[0], qdd[:, 0])
    with pytest.raises(ShapeError, match="needs a row for every sample"):
        chains.inverse_dynamics(q[0, 0], qd[0, 0], qdd[0, 0])
    with pytest.raises(OptionError, match="has no input masses"):
        chains.inverse_dynamics(q, qd, qdd, masses=1.0)
    with pytest.raises(OptionError, match="has no input params"):
        chains.inverse_dynamics(q, qd, qdd, params=1.0)
    with pytest.raises(OptionError, match="choose one of auto, thread, scan, warp"):
        robot_of("arm6").inverse_dynamics(q, qd, qdd, schedule="pipeline")
    room = np.empty((7, 2, 6)).transpose(1, 0, 2)
    with pytest.raises(ShapeError, match="give an array in which states follow one another"):
        chains.inverse_dynamics(q, qd, qdd, out=room)
    with pytest.raises(DeviceError, match="emulated"):
        Pipeline(Robot(TracedModule(tree_of("arm6")), "cpu")).inverse_dynamics(q, qd, qdd)
    many = Pipeline(Robot(TracedModule(tree_of("chain 33"))))
    with pytest.raises(ModelError, match=r'33 bodies.*schedule="scan"'):
        many.inverse_dynamics(*np.zeros((3, 1, 2, 33)))


def run_checked(name, sanitize, leave_out=None, samples=41):
    """Run two trajectories under a sanitizer, as a program of its own."""
    tree = tree_of(name, **ROBOTS[name])
    kernel = PaperModule(tree).kernels.find(PIPELINE_ROW.key)
    x = flat(states_of(name, 2, samples))
    arrays = [x[n].reshape(2 * samples, -1) for n in kernel.inputs]
    arrays.append(np.full((2 * samples, tree.nv), np.nan))
    launch = Launch(kernel.team.threads_per_block, 1, 8 * kernel.team.shared_numbers)
    run = run_standalone(
        PaperModule(tree).sources(kernel),
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
    module = PaperModule(tree_of("arm6"))
    sources = module.sources(module.kernels.find(PIPELINE_ROW.key))
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
    kernel = PaperModule(tree).kernels.find(PIPELINE_ROW.key)
    found = compile_kernel(PaperModule(tree).sources(kernel), FUNCTION, dtype, "sm_90").resources
    assert found.spill_stores == found.spill_loads == 0


@pytest.mark.parametrize("arch", ["compute_75", *exhaustive("compute_90")])
def test_what_nvrtc_makes_of_the_chains_gives_the_same(arch):
    pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
    from fake_gpu.ptx.backend import PTX_TARGETS
    from gridgen.backends import TARGETS

    x = states_of("arm6", 2, 41)
    states = x["q"], x["qd"], x["qdd"]
    expected = chains_of("arm6").inverse_dynamics(*states)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TARGETS, "emulated", PTX_TARGETS[arch])
        found = Pipeline(robot_of("arm6")).inverse_dynamics(*states)
    assert_array_equal(found, expected)
