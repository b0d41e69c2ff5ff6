"""The ``cuda`` backend on a fake GPU, whose streams run late: everything but the arithmetic.

Kernels are compiled by NVRTC to PTX, launched as on a GPU, and executed on the host. Whatever
nothing orders is reported, whether or not it has gone wrong this time.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gridgen
from fake_gpu.capture import Graph
from fake_gpu.errors import MisuseError
from fake_gpu.transfers import MemoryPointer
from gridgen.backends.cuda.backend import CudaKernel
from gridgen.check import compare_function, random_states
from gridgen.compiler import read_tree
from gridgen.errors import ParameterError
from gridgen.modules import TracedModule
from gridgen.options import RobotOptions
from gridgen.robot import Robot
from gridgen.runtime.arrays import defaults, staging
from gridgen.runtime.calls import chunks, hybrid
from gridgen.runtime.calls.evaluation import Evaluator
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


def hybrid_accelerations(cupy, monkeypatch):
    """Return what the hybrid schedule computes in several parts, on a stream of its own.

    A call of few states comes before, and takes less memory.
    """
    monkeypatch.setattr(hybrid, "STATES", PART)
    arm = gridgen.load(ROBOTS / "arm7.urdf")
    with cupy.cuda.Stream(non_blocking=True):
        arguments = states(cupy, "q", "qd", "tau")
        arm.forward_dynamics(*(array[:5] for array in arguments), schedule="hybrid")
        return cupy.asnumpy(arm.forward_dynamics(*arguments, schedule="hybrid"))


def expected_accelerations(arm):
    """Return the same from the CPU."""
    drawn = random_states(tree_of("arm7"), STATES, np.random.default_rng(7))
    arguments = [drawn[name].astype("float32") for name in ("q", "qd", "tau")]
    return arm.forward_dynamics(*arguments)


# -- the hybrid schedule ------------------------------------------------------------------------


@on_every_schedule
def test_the_hybrid_schedule_is_in_order(cupy, arm, monkeypatch):
    computed = hybrid_accelerations(cupy, monkeypatch)
    expected = expected_accelerations(arm)
    assert np.abs(computed - expected).max() <= 1e-3 * np.abs(expected).max()


@pytest.mark.exhaustive
@on_every_schedule
def test_parameters_reach_both_halves(cupy, machine, monkeypatch):
    monkeypatch.setattr(hybrid, "STATES", PART)
    chosen = ("hand", "armature")
    arm, tree = (
        load(ROBOTS / "arm7.urdf", parameters=chosen) for load in (gridgen.load, tree_with)
    )
    drawn = random_states(tree, STATES, np.random.default_rng(7))
    arguments = [drawn[name].astype("float32") for name in ("q", "qd", "tau")]
    given = {name: drawn[name].astype("float32") for name in ("params", "armature")}
    for numbers in (given, {}):
        expected = arm.forward_dynamics(*arguments, **numbers)
        with cupy.cuda.Stream(non_blocking=True):
            q, qd, tau = map(cupy.asarray, arguments)
            there = {name: cupy.asarray(array) for name, array in numbers.items()}
            computed = arm.forward_dynamics(q, qd, tau, **there, schedule="hybrid")
            assert np.abs(cupy.asnumpy(computed) - expected).max() <= 1e-3 * np.abs(expected).max()
    given["params"][3, 0, 0] = -1.0
    with pytest.raises(ParameterError, match=r"params\[3, 0\]"):
        arm.check_parameters(cupy.asarray(given["params"]))


def tree_with(urdf, parameters):
    return read_tree(urdf, RobotOptions(parameters=parameters))


def orderings():
    """Return the lines of the hybrid schedule in which something waits for something else."""
    lines = inspect.getsource(hybrid).splitlines()
    waits = ("wait_event(", "self.stream.synchronize()")
    return [line.strip() for line in lines if any(word in line for word in waits)]


def without(line):
    """Return the hybrid schedule's transfers and dynamics without a line."""
    text = inspect.getsource(hybrid)
    assert text.count(line) == 1
    members = {"__name__": hybrid.__name__}
    exec(compile(text.replace(line, "pass"), hybrid.__file__, "exec"), members)
    return members


@pytest.mark.parametrize("line", orderings())
def test_no_ordering_of_the_hybrid_schedule_can_be_left_out(cupy, machine, monkeypatch, line):
    """What is left out is reported, or the host reads what is not yet there."""
    mutant = without(line)
    mutant["STATES"] = PART
    monkeypatch.setattr("gridgen.robot.HybridDynamics", mutant["HybridDynamics"])
    try:
        computed = hybrid_accelerations(cupy, monkeypatch)
        cupy.cuda.runtime.deviceSynchronize()
    except MisuseError:
        with contextlib.suppress(MisuseError):
            machine.settle()
        return
    arm = gridgen.load(ROBOTS / "arm7.urdf")
    assert not np.allclose(computed, expected_accelerations(arm), rtol=0, atol=1)


@pytest.mark.parametrize("place", ["in the lock", "after it", "in the other half"])
def test_an_interrupt_leaves_nothing_of_the_cpus_half_under_way(
    cupy, arm, machine, monkeypatch, place
):
    """Its copies would write into memory that others have got by then."""

    class Lock:
        def __enter__(self):
            pass

        def __exit__(self, *_):
            if place == "after it" and machine.work.pending:
                raise InterruptedError

    def interrupted(function):
        def call(*given):
            result = function(*given)
            if place == "in the lock" or given[1].kernel.key == hybrid.BIAS:
                raise InterruptedError
            return result

        return call

    arguments = states(cupy, "q", "qd", "tau")
    arm.forward_dynamics(*arguments, schedule="hybrid")
    machine.settle()
    dynamics = arm._hybrid
    monkeypatch.setattr(dynamics, "_lock", Lock())
    if place == "in the lock":
        monkeypatch.setattr(hybrid._Transfer, "enqueue", interrupted(hybrid._Transfer.enqueue))
    if place == "in the other half":
        evaluator = type(dynamics._evaluator)
        monkeypatch.setattr(evaluator, "evaluate", interrupted(evaluator.evaluate))
    with cupy.cuda.Stream(non_blocking=True), pytest.raises(InterruptedError):
        arm.forward_dynamics(*arguments, schedule="hybrid")
    (transfer,) = dynamics._transfers.values()
    assert transfer.stream.done
    machine.settle()


def test_memory_of_a_robot_that_is_gone_is_freed_when_its_work_is_done(cupy, machine):
    arm = gridgen.load(ROBOTS / "arm7.urdf")
    result = arm.forward_dynamics(*states(cupy, "q", "qd", "tau"), schedule="hybrid")
    assert any(operation.label.startswith("function") for operation in machine.work.pending)
    del arm
    gc.collect()
    assert not any(operation.label.startswith("function") for operation in machine.work.pending)
    machine.settle()
    assert result.shape == (STATES, 7)


def test_the_hybrid_schedule_lets_the_host_go_on(cupy, arm, machine):
    """The call returns before anything has been computed; also before what it was told before."""
    arguments = states(cupy, "q", "qd", "tau")
    arm.forward_dynamics(*arguments, schedule="hybrid")  # compiled
    machine.settle()
    with cupy.cuda.Stream(non_blocking=True):
        arguments[2] = arguments[2] + 0
        result = arm.forward_dynamics(*arguments, schedule="hybrid")
        waiting = [operation.label.split()[0] for operation in machine.work.pending]
        assert waiting[:5] == ["add", "copy", "function", "copy", "kernel"]
        arguments[2].fill(np.nan)
        computed = cupy.asnumpy(result)
    expected = expected_accelerations(arm)
    assert np.abs(computed - expected).max() <= 1e-3 * np.abs(expected).max()


def test_tasks_are_let_go_when_they_are_done(cupy, machine, monkeypatch):
    """However many calls there are, what is kept is what is under way."""
    monkeypatch.setattr(hybrid, "STATES", 10)
    arm = gridgen.load(ROBOTS / "arm7.urdf")
    arguments = states(cupy, "q", "qd", "tau")
    for _ in range(2):
        machine.settle()
        computed = arm.forward_dynamics(*arguments, schedule="hybrid")
        (transfer,) = arm._hybrid._transfers.values()
        assert len(transfer._under_way) == STATES // 10
    expected = expected_accelerations(arm)
    assert np.abs(cupy.asnumpy(computed) - expected).max() <= 1e-3 * np.abs(expected).max()


def test_the_memory_of_a_call_that_failed_is_not_used_again_too_early(cupy, arm, monkeypatch):
    """The bias efforts fail when the copies of the other half are under way already."""
    monkeypatch.setattr(hybrid, "STATES", PART)
    evaluate = Evaluator.evaluate

    def failing(self, resolved):
        if resolved.kernel.key.function == "bias_forces":
            raise gridgen.DeviceError("no bias efforts")
        return evaluate(self, resolved)

    with cupy.cuda.Stream(non_blocking=True):
        arguments = states(cupy, "q", "qd", "tau")
        monkeypatch.setattr(Evaluator, "evaluate", failing)
        with pytest.raises(gridgen.DeviceError, match="no bias efforts"):
            arm.forward_dynamics(*(array[:5] for array in arguments), schedule="hybrid")
        monkeypatch.setattr(Evaluator, "evaluate", evaluate)
        computed = cupy.asnumpy(arm.forward_dynamics(*arguments, schedule="hybrid"))
    expected = expected_accelerations(arm)
    assert np.abs(computed - expected).max() <= 1e-3 * np.abs(expected).max()


def test_the_memory_of_copies_that_failed_is_not_used_again_too_early(
    cupy, arm, machine, monkeypatch
):
    """The copies to the host are under way when the one back fails."""
    arguments = [array[:, ::-1] for array in states(cupy, "q", "qd", "tau")]  # to be copied
    expected = cupy.asnumpy(arm.forward_dynamics(*arguments, schedule="hybrid"))

    def failing(*_):
        raise RuntimeError("no copy")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryPointer, "copy_from_host_async", failing)
        with pytest.raises(RuntimeError, match="no copy"):
            arm.forward_dynamics(*arguments, schedule="hybrid")
    gc.collect()
    computed = arm.forward_dynamics(*arguments, schedule="hybrid")
    machine.settle()
    assert np.array_equal(cupy.asnumpy(computed), expected)


def test_the_hybrid_schedule_is_not_captured(cupy, arm):
    *arguments, gravity = states(cupy, "q", "qd", "tau", "gravity")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        with pytest.raises(gridgen.DeviceError, match="computes on the CPU too"):
            arm.forward_dynamics(*arguments, gravity=gravity, schedule="hybrid")
        stream.end_capture()


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
    monkeypatch.setattr(chunks, "_SCRATCH_BYTES", 1)
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
    monkeypatch.setattr(chunks, "_SCRATCH_BYTES", 1)
    monkeypatch.setattr(chunks, "_TEAMS", 2)
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
    monkeypatch.setattr(defaults, "_MOST_NUMBERS", 0)
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
