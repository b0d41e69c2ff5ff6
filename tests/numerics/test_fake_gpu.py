"""The ``cuda`` backend on a fake GPU, whose streams run late: everything but the arithmetic.

Kernels are compiled by NVRTC to PTX, launched as on a GPU, and executed on the host. Whatever
nothing orders is reported, whether or not it has gone wrong this time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gridgen
from fake_gpu.capture import Graph
from fake_gpu.errors import MisuseError
from gridgen.backends.cuda.backend import CudaKernel
from gridgen.check import compare_function, random_states
from gridgen.cost.devices import Device
from gridgen.modules import TracedModule
from gridgen.robot import Robot
from gridgen.runtime.arrays import defaults, staging
from gridgen.runtime.calls import compiled
from helpers.robots import exhaustive
from helpers.scan import ROBOTS, tree_of

pytest.importorskip("cupy", reason="NVRTC comes with CuPy")

TESTS = Path(__file__).parents[1]
GPU_TESTS = TESTS / "numerics" / "test_cuda.py"
TORCH_TESTS = GPU_TESTS.with_name("test_torch_on_gpu.py")
#: Functions of the everyday run: one with much arithmetic, one with a matrix.
FEW = "inverse_dynamics,mass_matrix"
#: States of a call, and of a part of it where it is done in parts.
STATES, PART = 80, 32


def run_gpu_tests(*options, file=GPU_TESTS):
    """Run the tests that are made for a GPU, in a process that finds the pretended one."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        "GRIDGEN_REQUIRE_GPU": "1",
    }
    plugins = ("-p", "fake_gpu.plugin", "-p", "no:cacheprovider", "-p", "no:xdist")
    command = [sys.executable, "-m", "pytest", "-q", *plugins, str(file), *options]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "passed" in result.stdout
    assert "skipped" not in result.stdout


@pytest.mark.exhaustive
def test_what_is_tested_on_a_gpu_holds_for_an_arm():
    """But for what takes a compiler or an executor long."""
    left_out = "quadruped or gripper or under_loads or million or hybrid and float64"
    chosen = f"(arm7 or not every_function) and not ({left_out})"
    run_gpu_tests("-k", chosen, "--functions", FEW)


@pytest.mark.exhaustive
@pytest.mark.parametrize("capability", ["76", "91"])
def test_what_is_tested_on_a_gpu_holds_for_every_function(capability):
    chosen = "arm7 or quadruped or not every_function"
    run_gpu_tests("-k", chosen, "--capability", capability)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["early", "1", "2", "3"])
def test_what_is_tested_on_a_gpu_holds_on_every_schedule(name):
    chosen = "arm7 or quadruped or not every_function"
    run_gpu_tests("-k", chosen, "--functions", FEW, "--schedule", name)


@pytest.mark.parametrize("schedule", ["late", *exhaustive("early", "1")])
def test_what_is_tested_with_pytorch_on_a_gpu_holds(schedule):
    pytest.importorskip("torch")
    # In an everyday run without what takes the translator of PTX long.
    few = () if schedule != "late" else ("-k", "graph and not training and not backward")
    run_gpu_tests("--torch", "--schedule", schedule, *few, file=TORCH_TESTS)


on_every_schedule = pytest.mark.parametrize(
    "machine", ["late", *exhaustive("early", "1", "2")], indirect=True
)


@pytest.fixture
def arm(machine):
    return gridgen.load(ROBOTS / "arm7.urdf")


def states(cupy, *names, dtype="float32", count=STATES):
    """Return random states of the arm on the GPU, enqueued on the current stream."""
    drawn = random_states(tree_of("arm7"), count, np.random.default_rng(7))
    return [cupy.asarray(drawn[name].astype(dtype)) for name in names]


# -- streams and memory -------------------------------------------------------------------------


def test_a_launch_on_another_stream_is_found(cupy, machine, arm, monkeypatch):
    q, qd, qdd = states(cupy, "q", "qd", "qdd")
    launch = CudaKernel.__call__

    def elsewhere(*arguments):
        with cupy.cuda.Stream(non_blocking=True):
            launch(*arguments)

    monkeypatch.setattr(CudaKernel, "__call__", elsewhere)
    arm.inverse_dynamics(q, qd, qdd)
    with pytest.raises(MisuseError, match=r"kernel \w*inverse_dynamics"):
        machine.settle()


@on_every_schedule
def test_copies_of_parts_are_in_order(cupy, arm, monkeypatch):
    """Results that no kernel can write in place, on memory that the parts use in turn."""
    monkeypatch.setattr(staging, "GPU_PART_BYTES", PART * 7 * 7 * 4)
    with cupy.cuda.Stream(non_blocking=True):
        (q,) = states(cupy, "q")
        transposed = cupy.empty((STATES, 7, 7), np.float32)
        arm.mass_matrix(q, out=cupy.moveaxis(transposed, 1, 2))
        cupy.testing.assert_array_equal(transposed, arm.mass_matrix(q))


@on_every_schedule
def test_the_default_of_gravity_is_there_for_every_stream(cupy, arm):
    arguments = states(cupy, "q", "qd", "qdd")
    cupy.cuda.runtime.deviceSynchronize()
    results = []
    for _ in range(2):
        with cupy.cuda.Stream(non_blocking=True):
            results.append(cupy.asnumpy(arm.inverse_dynamics(*arguments)))
    assert np.array_equal(*results)


@pytest.mark.parametrize("options", [{}, {"method": "cfa"}], ids=["thread", "scan"])
def test_a_bound_call_can_be_captured(cupy, arm, options):
    """The graph reads what its arguments hold when it is launched."""
    q, qd, tau, other = states(cupy, "q", "qd", "tau", "qdd")
    bound = arm.bind("forward_dynamics", q, qd, tau, **options)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        out = bound()
        graph = stream.end_capture()
        for efforts in (other, other + 1):
            tau[...] = efforts
            expected = arm.forward_dynamics(q, qd, efforts, **options)
            graph.launch(stream)
            cupy.testing.assert_array_equal(out, expected)


@on_every_schedule
def test_bound_calls_in_a_row_are_one_launch(cupy, monkeypatch):
    """The second call reads the results of the first, on any stream."""
    gripper = gridgen.load(ROBOTS / "gripper.urdf")
    drawn = random_states(tree_of("gripper"), 40, np.random.default_rng(3))
    q, qd, qdd = (cupy.asarray(drawn[name]) for name in ("q", "qd", "qdd"))
    tau = cupy.zeros(q.shape, q.dtype)
    first = gripper.bind("inverse_dynamics", q, qd, qdd, out=tau)
    second = gripper.bind("forward_dynamics", q, qd, tau)
    both = first.then(second)
    launched, launch = [], Graph.launch
    monkeypatch.setattr(Graph, "launch", lambda *given: launched.append(1) or launch(*given))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for new in (qdd, 2 * qdd):
            qdd[...] = new
            results = both()
            cupy.testing.assert_allclose(results[1], qdd, rtol=1e-6, atol=1e-8)
        assert results[0] is tau
        stream.begin_capture()
        both()
        graph = stream.end_capture()
        tau.fill(0)
        graph.launch(stream)
        assert np.abs(cupy.asnumpy(tau)).max() > 0
    assert len(launched) == 3
    host = gripper.bind("bias_forces", drawn["q"], drawn["qd"])
    with pytest.raises(gridgen.OptionError, match="calls in a row are on GPU 0, CPU"):
        first.then(host)
    assert len(host.then(host)()) == 2


def test_a_first_call_inside_a_capture_says_what_to_do(cupy):
    gripper = gridgen.load(ROBOTS / "gripper.urdf")
    drawn = random_states(tree_of("gripper"), 5, np.random.default_rng(1))
    q, qd, gravity = (cupy.asarray(drawn[name]) for name in ("q", "qd", "gravity"))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        with pytest.raises(gridgen.DeviceError, match="before the capture"):
            gripper.bias_forces(q, qd, gravity=gravity)
        with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="Invalidated"):
            stream.end_capture()


@on_every_schedule
def test_what_loops_keep_is_in_order(cupy, monkeypatch):
    """Launches that share the memory for what their loops keep of some states."""
    monkeypatch.setattr(compiled, "_SCRATCH_BYTES", 1)
    monkeypatch.setattr(Device, "filling", 32)
    tree = tree_of("arm7")
    looping, straight = Robot(TracedModule(tree, 0), "auto"), Robot(TracedModule(tree), "auto")
    with cupy.cuda.Stream(non_blocking=True):
        arguments = states(cupy, "q", "qd", "qdd")
        computed = looping.inverse_dynamics(*arguments)
        expected = straight.inverse_dynamics(*arguments)
        scale = float(abs(expected).max())
        cupy.testing.assert_allclose(computed, expected, rtol=0, atol=1e-5 * scale)


@pytest.mark.exhaustive
@on_every_schedule
def test_workspaces_are_in_order(cupy, monkeypatch):
    """Launches that share scratch memory of a kernel that has too little of a block's."""
    monkeypatch.setattr(compiled, "_SCRATCH_BYTES", 1)
    monkeypatch.setattr(compiled, "_TEAMS", 2)
    tree = tree_of("chain 32")
    robot = Robot(TracedModule(tree), "auto")
    drawn = random_states(tree, 5, np.random.default_rng(1))
    with cupy.cuda.Stream(non_blocking=True):
        inputs = {name: cupy.asarray(drawn[name]) for name in ("q", "qd", "qdd")}
        results = robot.inverse_dynamics_second_order(**inputs, schedule="scan")
        row = compare_function(
            tree,
            "inverse_dynamics_second_order",
            "float64",
            drawn,
            tuple(cupy.asnumpy(result) for result in results),
        )
    assert row.passed, row


@on_every_schedule
def test_numbers_that_are_not_kept_stay_until_they_have_been_read(cupy, machine, monkeypatch):
    monkeypatch.setattr(defaults, "_MAX_NUMBERS", 0)
    robot = gridgen.load(ROBOTS / "two_link.urdf")
    fresh = cupy.cuda.Stream(non_blocking=True)
    with cupy.cuda.Stream(non_blocking=True):
        # A new stream may have the handle, and so the memory, of one that is gone.
        monkeypatch.setattr(cupy.cuda, "Stream", lambda **_: fresh)
        q = cupy.ones((STATES, 2), np.float32)
        results = [robot.interpolate(0 * q, q, part / 8) for part in range(8)]
        machine.settle()
        for part, result in enumerate(results):
            cupy.testing.assert_array_equal(result, q * (part / 8))


@on_every_schedule
def test_streams_in_turn_find_what_all_calls_share(cupy):
    """The default of gravity, room for results, what is known of arrays like earlier ones."""
    robot = gridgen.load(ROBOTS / "two_link.urdf")
    states = np.random.default_rng(0).normal(size=(3, STATES, 2)).astype(np.float32)
    arrays = [cupy.asarray(array) for array in states]
    cupy.cuda.runtime.deviceSynchronize()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    results = []
    for call in (robot.inverse_dynamics, lambda *x: robot.bind("inverse_dynamics", *x)()):
        for stream in streams:
            with stream:
                results.append(call(*arrays))
    with streams[0]:
        robot.inverse_dynamics(*arrays)  # not done yet when its room is taken for the next results
        bound = robot.bind("inverse_dynamics", *arrays)
    with streams[1]:
        results.append(bound())
    for stream in streams:
        stream.synchronize()
    for result in results:
        cupy.testing.assert_array_equal(result, results[0])
