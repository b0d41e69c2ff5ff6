"""NumPy arrays on a fake GPU: brought there, computed with and brought back in parts."""

from __future__ import annotations

import contextlib
import inspect
from functools import partial

import numpy as np
import pytest

import gridgen
from fake_gpu.errors import MisuseError
from fake_gpu.transfers import empty_pinned
from gridgen.backends.cuda.backend import CudaKernel
from gridgen.check import random_states
from gridgen.papers import Hybrid, hybrid
from gridgen.runtime.arrays import staging, streaming
from gridgen.runtime.calls import evaluation
from helpers.scan import ROBOTS, tree_of

pytest.importorskip("cupy", reason="NVRTC comes with CuPy")

#: States of a call, and bytes of a part: 17 states of inverse dynamics of arm7 in float32.
STATES, PART_BYTES = 80, 2000

on_every_schedule = pytest.mark.parametrize("machine", ["late", "early", "1", "2"], indirect=True)


@pytest.fixture
def arm(machine, monkeypatch):
    """An arm that computes NumPy arrays on the GPU."""
    monkeypatch.setattr(streaming, "PART_BYTES", PART_BYTES)
    return gridgen.load(ROBOTS / "arm7.urdf", backend="cuda")


def states(*names, count=STATES, dtype="float32"):
    """Return random states of the arm."""
    drawn = random_states(tree_of("arm7"), count, np.random.default_rng(7))
    return [drawn[name].astype(dtype) for name in names]


def at_once(cupy, function, *arrays, **options):
    """Return what a function gives for the same arrays on the GPU, in one launch."""
    given = {name: cupy.asarray(array) for name, array in options.items()}
    results = function(*map(cupy.asarray, arrays), **given)
    return tuple(map(cupy.asnumpy, results)) if isinstance(results, tuple) else results.get()


# -- numbers --------------------------------------------------------------------------------------


@on_every_schedule
def test_parts_give_the_bits_of_one_launch(cupy, arm, machine):
    q, qd, qdd, gravity = states("q", "qd", "qdd", "gravity")
    for options in ({}, {"gravity": gravity}, {"gravity": gravity[0]}):
        expected = at_once(cupy, arm.inverse_dynamics, q, qd, qdd, **options)
        result = arm.inverse_dynamics(q, qd, qdd, **options)
        assert type(result) is np.ndarray
        assert np.array_equal(result, expected)
        assert not machine.work.pending


def test_several_results_in_arrays_of_any_strides(cupy, arm):
    q, qd, qdd = states("q", "qd", "qdd", dtype="float64")
    expected = at_once(cupy, arm.inverse_dynamics_gradient, q, qd, qdd)
    wide = np.zeros((2 * STATES, 7, 9))
    given = [np.asfortranarray(q), np.stack([qd, qd], axis=-1)[..., 0], qdd[::-1].copy()[::-1]]
    out = np.empty((7, 7, STATES)).transpose(2, 0, 1), wide[::2, :, 1:8]
    assert arm.inverse_dynamics_gradient(*given, out=out) is out
    for result, reference in zip(out, expected, strict=True):
        assert np.array_equal(result, reference)


@pytest.mark.parametrize("count", [0, 1, 16, 17, 18, 34, 35])
def test_batches_around_a_part(cupy, arm, count):
    arguments = [array[:count] for array in states("q", "qd", "qdd")]
    expected = at_once(cupy, arm.inverse_dynamics, *arguments)
    assert np.array_equal(arm.inverse_dynamics(*arguments), expected)


def test_one_state(cupy, arm):
    q, qd, qdd = (array[3] for array in states("q", "qd", "qdd"))
    result = arm.inverse_dynamics(q, qd, qdd)
    assert result.shape == (7,)
    assert np.array_equal(result, at_once(cupy, arm.inverse_dynamics, q, qd, qdd))


def test_results_may_lie_where_arguments_do(cupy, arm):
    q, qd, qdd = states("q", "qd", "qdd")
    expected = at_once(cupy, arm.inverse_dynamics, q, qd, qdd)
    room = np.concatenate([qdd, qdd[:1]])
    assert np.array_equal(arm.inverse_dynamics(q, qd, qdd, out=qdd), expected)
    # State i where another one's argument lies: all of them are read before.
    arm.inverse_dynamics(q, qd, room[:-1], out=room[1:])
    assert np.array_equal(room[1:], expected)


@on_every_schedule
def test_arrays_in_pinned_memory_are_copied_straight(cupy, arm, monkeypatch):
    q, qd, qdd = states("q", "qd", "qdd")
    expected = at_once(cupy, arm.inverse_dynamics, q, qd, qdd)
    pinned = [empty_pinned(q.shape, q.dtype) for _ in range(4)]
    for array, values in zip(pinned, (q, qd, qdd), strict=False):
        array[...] = values
    columns = empty_pinned(q.shape[::-1], q.dtype).T
    columns[...] = q
    rooms = []
    monkeypatch.setattr(
        "cupyx.empty_pinned", lambda *shape: rooms.append(shape[0]) or empty_pinned(*shape)
    )
    gravity = empty_pinned(3, q.dtype)
    gravity[...] = (0, 0, -9.81)
    assert np.array_equal(arm.inverse_dynamics(*pinned[:3], gravity=gravity), expected)
    arm.inverse_dynamics(*pinned[:3], gravity=gravity, out=pinned[3])
    assert np.array_equal(pinned[3], expected)
    assert {shape[-1] for shape in rooms} == {7}
    assert len(rooms) == streaming.LANES  # of the one result that lay elsewhere
    arm.inverse_dynamics(columns, *pinned[1:3], gravity=gravity, out=pinned[2])
    assert np.array_equal(pinned[2], expected)


@on_every_schedule
def test_results_of_arrays_on_the_gpu_go_to_numpy_arrays(cupy, arm):
    """So results may be larger than the GPU's memory; the arguments may not be there yet."""
    q, qd, qdd = states("q", "qd", "qdd")
    expected = at_once(cupy, arm.inverse_dynamics, q, qd, qdd)
    with cupy.cuda.Stream(non_blocking=True):
        given = [cupy.asarray(q), cupy.asarray(qd) + 0, cupy.asarray(qdd) * 1]
        out = np.empty_like(q)
        assert arm.inverse_dynamics(*given, out=out) is out
        assert np.array_equal(out, expected)
        given[2][...] = 0  # after the call nobody reads it
    with pytest.raises(gridgen.DeviceError, match="qd is on the CPU, q on GPU 0: move one"):
        arm.inverse_dynamics(given[0], qd, qdd)
    with pytest.raises(gridgen.DeviceError, match="out is on GPU 0, q on the CPU: move one"):
        arm.inverse_dynamics(q, qd, qdd, out=given[0])


@pytest.mark.filterwarnings("ignore:.*without inertia")
def test_quaternions_are_normalized_or_refused(cupy, monkeypatch):
    monkeypatch.setattr(streaming, "PART_BYTES", PART_BYTES)
    robot = gridgen.load(ROBOTS / "two_link.urdf", floating_base=True, backend="cuda")
    q = np.random.default_rng(1).normal(size=(STATES, robot.nq))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1)[:, None]
    expected = at_once(cupy, robot.mass_matrix, q)
    off = q.copy()
    off[::3, 3:7] *= 1 + 5e-4
    before = off.copy()
    assert np.allclose(robot.mass_matrix(off), expected, rtol=1e-12, atol=1e-12)
    assert np.array_equal(off, before)
    off[50, 3:7] *= 2
    out = np.zeros((STATES, robot.nv, robot.nv))
    with pytest.raises(gridgen.QuaternionError, match=r"state 50|\[50\]"):
        robot.mass_matrix(off, out=out)
    assert not out.any()


@pytest.mark.parametrize("schedule", ["scan", "hybrid"])
def test_other_schedules_are_streamed(cupy, arm, monkeypatch, schedule):
    monkeypatch.setattr(hybrid, "STATES", 8)
    compute = Hybrid(arm).forward_dynamics
    if schedule == "scan":
        compute = partial(arm.forward_dynamics, method="cfa")
    q, qd, tau = states("q", "qd", "tau")
    assert np.array_equal(compute(q, qd, tau), at_once(cupy, compute, q, qd, tau))


@pytest.mark.parametrize("followed", [False, True])
def test_rollouts_are_streamed_state_by_state(cupy, monkeypatch, followed):
    """With efforts of each state or of all, and positions to be followed by all at all times."""
    robot = gridgen.load(ROBOTS / "two_link.urdf", backend="cuda")
    rng = np.random.default_rng(3)
    q, qd = rng.normal(size=(2, STATES, 2))
    tau, dt = rng.normal(size=(STATES, 5, 2)), rng.uniform(1e-3, 2e-3, STATES)
    gains = np.eye(2, 4), rng.normal(size=(5, 2)), np.zeros(2)

    def rolled(tau, place=np.asarray, **options):
        if followed:
            options["feedback"] = tuple(map(place, gains))
        return robot.rollout(*map(place, (q, qd, tau, dt)), **options)

    expected = [cupy.asnumpy(found) for found in rolled(tau, cupy.asarray)]
    monkeypatch.setattr(staging, "ROLLOUT_PART_BYTES", 5000)
    out = np.empty((STATES, 6, 2)), np.empty((STATES, 6, 2))
    for found in (rolled(tau), rolled(tau, out=out), rolled(tau, cupy.asarray, out=out)):
        for result, reference in zip(found, expected, strict=True):
            assert np.array_equal(result, reference)
    ends = rolled(tau[0], store_every="last")
    reference = [cupy.asnumpy(found) for found in rolled(tau[0], cupy.asarray, store_every="last")]
    bound = robot.bind("rollout", q, qd, tau[0], dt, store_every="last")()
    for results in (ends, *[bound] * (not followed)):
        assert all(map(np.array_equal, results, reference))
    one = robot.rollout(q[0], qd[0], tau[0], 1e-3)
    assert all(map(np.array_equal, one, (x[0] for x in robot.rollout(q[:1], qd[:1], tau[0], 1e-3))))


def test_ways_back_are_streamed_state_by_state(cupy, monkeypatch):
    """As are the rollouts that make their checkpoints."""
    robot = gridgen.load(ROBOTS / "two_link.urdf", backend="cuda")
    rng = np.random.default_rng(4)
    q, qd = rng.normal(size=(2, STATES, 2))
    tau, gains = rng.normal(size=(STATES, 5, 2)), (np.eye(2, 4), rng.normal(size=(5, 2)), q[0])
    bars = rng.normal(size=(2, STATES, 6, 2))

    def taken_back(place, feedback):
        given = {"feedback": tuple(map(place, gains))} if feedback else {}
        arrays = map(place, (q, qd, tau))
        return robot.rollout_vjp(
            *arrays, 1e-3, tuple(map(place, bars)), wrt=("q0", "tau", "dt"), **given
        )

    for feedback in (False, True):
        expected = [cupy.asnumpy(found) for found in taken_back(cupy.asarray, feedback)]
        with monkeypatch.context() as small:
            small.setattr(staging, "ROLLOUT_PART_BYTES", 5000)
            assert all(map(np.array_equal, taken_back(np.asarray, feedback), expected))


def test_a_bound_call_reads_what_numpy_arrays_hold_then(cupy, arm):
    q, qd, qdd = states("q", "qd", "qdd")
    bound = arm.bind("inverse_dynamics", q, qd, np.zeros_like(qdd))
    q2, qd2, qdd2 = (array[::-1].copy() for array in (q, qd, qdd))
    bound = arm.bind("inverse_dynamics", q, qd, qdd)
    first = bound().copy()
    q[...], qd[...], qdd[...] = q2, qd2, qdd2
    assert np.array_equal(bound(), first[::-1])


def test_nothing_is_streamed_in_a_capture(cupy, arm):
    q, qd, qdd = states("q", "qd", "qdd")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        with pytest.raises(
            gridgen.DeviceError, match="stream is being captured: a call with NumPy"
        ):
            arm.inverse_dynamics(q, qd, qdd)
        stream.end_capture()


# -- order ----------------------------------------------------------------------------------------


def test_a_lane_is_waited_for_when_the_other_one_works(cupy, arm, machine, monkeypatch):
    events = []
    launch, wait = CudaKernel.__call__, type(machine.work).wait

    def launched(*given):
        events.append("launch")
        launch(*given)

    def waited(self, operations):
        awaited = list(operations)
        if not all(operation.done for operation in awaited):
            events.append("wait")
            wait(self, awaited)
            if len(events) < 9:
                assert self.pending, "nothing is under way while the host copies"

    monkeypatch.setattr(CudaKernel, "__call__", launched)
    monkeypatch.setattr(type(machine.work), "wait", waited)
    arm.inverse_dynamics(*states("q", "qd", "qdd"))
    assert events == ["launch", "launch", *["wait", "launch"] * 3, "wait", "wait"]


def orderings():
    """Return the lines in which something waits for something else."""
    lines = inspect.getsource(streaming).splitlines()
    waits = ("wait_event(", "synchronize()", "map(wait, streams)")
    return [line.strip() for line in lines if any(word in line for word in waits)]


def without(line):
    """Return the module without a line."""
    text = inspect.getsource(streaming)
    assert text.count(f" {line}\n") == 1
    members = {"__name__": streaming.__name__}
    exec(compile(text.replace(f" {line}\n", " pass\n"), streaming.__file__, "exec"), members)
    members["PART_BYTES"] = PART_BYTES
    return members


@pytest.mark.parametrize("line", orderings())
def test_no_ordering_can_be_left_out(cupy, arm, machine, monkeypatch, line):
    """What is left out is reported, or shows in the numbers."""
    q, qd, qdd = states("q", "qd", "qdd")
    expected = at_once(cupy, arm.inverse_dynamics, q, qd, qdd)
    mutant = without(line)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "run_streamed", mutant["run_streamed"])
        patch.setattr(mutant["_Lane"], "begin", failing_once(mutant["_Lane"].begin, at=4))
        wrong = []
        with contextlib.suppress(MisuseError):
            with cupy.cuda.Stream(non_blocking=True):
                given = [cupy.asarray(array) + 0 for array in (q, qd, qdd)]
                for arguments in ((q, qd, qdd), (q, qd, qdd), given):
                    out = np.zeros_like(q)
                    with contextlib.suppress(InterruptedError):
                        arm.inverse_dynamics(*arguments, out=out)
                        wrong.append(not np.array_equal(out, expected))
            machine.settle()
            assert any(wrong), "neither reported nor wrong"
    with contextlib.suppress(MisuseError):
        machine.settle()


def failing_once(begin, at):
    """Return a lane's beginning of parts that is interrupted once, when parts are under way."""
    calls = []

    def interrupted(*given):
        calls.append(0)
        begin(*given)
        if len(calls) == at:
            raise InterruptedError

    return interrupted


def test_a_call_that_is_interrupted_leaves_nothing_behind(cupy, arm, machine, monkeypatch):
    arguments = states("q", "qd", "qdd")
    expected = at_once(cupy, arm.inverse_dynamics, *arguments)
    begin = streaming._Lane.begin
    monkeypatch.setattr(streaming._Lane, "begin", failing_once(begin, at=2))
    with pytest.raises(InterruptedError):
        arm.inverse_dynamics(*arguments)
    assert not machine.work.pending
    assert np.array_equal(arm.inverse_dynamics(*arguments), expected)
