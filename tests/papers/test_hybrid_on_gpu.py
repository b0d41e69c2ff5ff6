"""The hybrid schedule on a fake GPU, whose streams run late: the order of copies and halves."""

from __future__ import annotations

import contextlib
import gc
import inspect

import numpy as np
import pytest

import gridgen
from fake_gpu.errors import MisuseError
from fake_gpu.transfers import MemoryPointer
from gridgen.check import random_states
from gridgen.compiler import read_tree
from gridgen.errors import ParameterError
from gridgen.options import RobotOptions
from gridgen.papers import Hybrid, hybrid
from gridgen.runtime.calls.evaluation import Evaluator
from helpers.robots import exhaustive
from helpers.scan import ROBOTS, tree_of

pytest.importorskip("cupy", reason="NVRTC comes with CuPy")

#: States of a call, and of a part of it where it is done in parts.
STATES, PART = 80, 32

on_every_schedule = pytest.mark.parametrize(
    "machine", ["late", *exhaustive("early", "1", "2")], indirect=True
)


@pytest.fixture
def arm(machine):
    return Hybrid(gridgen.load(ROBOTS / "arm7.urdf"))


def states(cupy, *names, dtype="float32", count=STATES):
    """Return random states of the arm on the GPU, enqueued on the current stream."""
    drawn = random_states(tree_of("arm7"), count, np.random.default_rng(7))
    return [cupy.asarray(drawn[name].astype(dtype)) for name in names]


def hybrid_accelerations(cupy, monkeypatch, kind=Hybrid):
    """Return what the hybrid schedule computes in several parts, on a stream of its own.

    A call of few states comes before, and takes less memory.
    """
    monkeypatch.setattr(hybrid, "STATES", PART)
    arm = kind(gridgen.load(ROBOTS / "arm7.urdf"))
    with cupy.cuda.Stream(non_blocking=True):
        arguments = states(cupy, "q", "qd", "tau")
        arm.forward_dynamics(*(array[:5] for array in arguments))
        return cupy.asnumpy(arm.forward_dynamics(*arguments))


def expected_accelerations():
    """Return the same from the CPU."""
    drawn = random_states(tree_of("arm7"), STATES, np.random.default_rng(7))
    arguments = [drawn[name].astype("float32") for name in ("q", "qd", "tau")]
    return gridgen.load(ROBOTS / "arm7.urdf").forward_dynamics(*arguments)


@on_every_schedule
def test_the_hybrid_schedule_is_in_order(cupy, arm, monkeypatch):
    computed = hybrid_accelerations(cupy, monkeypatch)
    expected = expected_accelerations()
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
            computed = Hybrid(arm).forward_dynamics(q, qd, tau, **there)
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
    try:
        computed = hybrid_accelerations(cupy, monkeypatch, mutant["Hybrid"])
        cupy.cuda.runtime.deviceSynchronize()
    except MisuseError:
        with contextlib.suppress(MisuseError):
            machine.settle()
        return
    assert not np.allclose(computed, expected_accelerations(), rtol=0, atol=1)


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
    arm.forward_dynamics(*arguments)
    machine.settle()
    monkeypatch.setattr(arm, "_lock", Lock())
    if place == "in the lock":
        monkeypatch.setattr(hybrid._Transfer, "enqueue", interrupted(hybrid._Transfer.enqueue))
    if place == "in the other half":
        evaluator = type(arm.evaluator)
        monkeypatch.setattr(evaluator, "evaluate", interrupted(evaluator.evaluate))
    with cupy.cuda.Stream(non_blocking=True), pytest.raises(InterruptedError):
        arm.forward_dynamics(*arguments)
    (transfer,) = arm._transfers.values()
    assert transfer.stream.done
    machine.settle()


@pytest.mark.usefixtures("few_objects")
def test_memory_of_a_robot_that_is_gone_is_freed_when_its_work_is_done(cupy, machine):
    arm = Hybrid(gridgen.load(ROBOTS / "arm7.urdf"))
    result = arm.forward_dynamics(*states(cupy, "q", "qd", "tau"))
    assert any(operation.label.startswith("function") for operation in machine.work.pending)
    del arm
    gc.collect()
    assert not any(operation.label.startswith("function") for operation in machine.work.pending)
    machine.settle()
    assert result.shape == (STATES, 7)


def test_the_hybrid_schedule_lets_the_host_go_on(cupy, arm, machine):
    """The call returns before anything has been computed; also before what it was told before."""
    arguments = states(cupy, "q", "qd", "tau")
    arm.forward_dynamics(*arguments)  # compiled
    machine.settle()
    with cupy.cuda.Stream(non_blocking=True):
        arguments[2] = arguments[2] + 0
        result = arm.forward_dynamics(*arguments)
        waiting = [operation.label.split()[0] for operation in machine.work.pending]
        assert waiting[:5] == ["add", "copy", "function", "copy", "kernel"]
        arguments[2].fill(np.nan)
        computed = cupy.asnumpy(result)
    expected = expected_accelerations()
    assert np.abs(computed - expected).max() <= 1e-3 * np.abs(expected).max()


def test_tasks_are_let_go_when_they_are_done(cupy, machine, monkeypatch):
    """However many calls there are, what is kept is what is under way."""
    monkeypatch.setattr(hybrid, "STATES", 10)
    arm = Hybrid(gridgen.load(ROBOTS / "arm7.urdf"))
    arguments = states(cupy, "q", "qd", "tau")
    for _ in range(2):
        machine.settle()
        computed = arm.forward_dynamics(*arguments)
        (transfer,) = arm._transfers.values()
        assert len(transfer._under_way) == STATES // 10
    expected = expected_accelerations()
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
            arm.forward_dynamics(*(array[:5] for array in arguments))
        monkeypatch.setattr(Evaluator, "evaluate", evaluate)
        computed = cupy.asnumpy(arm.forward_dynamics(*arguments))
    expected = expected_accelerations()
    assert np.abs(computed - expected).max() <= 1e-3 * np.abs(expected).max()


@pytest.mark.usefixtures("few_objects")
def test_the_memory_of_copies_that_failed_is_not_used_again_too_early(
    cupy, arm, machine, monkeypatch
):
    """The copies to the host are under way when the one back fails."""
    arguments = [array[:, ::-1] for array in states(cupy, "q", "qd", "tau")]  # to be copied
    expected = cupy.asnumpy(arm.forward_dynamics(*arguments))

    def failing(*_):
        raise RuntimeError("no copy")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryPointer, "copy_from_host_async", failing)
        with pytest.raises(RuntimeError, match="no copy"):
            arm.forward_dynamics(*arguments)
    gc.collect()
    computed = arm.forward_dynamics(*arguments)
    machine.settle()
    assert np.array_equal(cupy.asnumpy(computed), expected)


def test_the_hybrid_schedule_is_not_captured(cupy, arm):
    *arguments, gravity = states(cupy, "q", "qd", "tau", "gravity")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        with pytest.raises(gridgen.DeviceError, match="computes on the CPU too"):
            arm.forward_dynamics(*arguments, gravity=gravity)
        stream.end_capture()
