"""A fake GPU that has little memory, an old driver, fails, or is one of two."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import gridgen
from gridgen.backends.cuda.backend import CudaKernel
from gridgen.check import random_states
from gridgen.modules import TracedModule
from gridgen.robot import Robot
from gridgen.runtime.arrays import streaming
from gridgen.runtime.calls import compiled
from helpers.robots import exhaustive
from helpers.scan import ROBOTS, tree_of

pytest.importorskip("cupy", reason="NVRTC comes with CuPy")

STATES = 80


@pytest.fixture
def arm(machine):
    """An arm that computes NumPy arrays on the GPU."""
    return gridgen.load(ROBOTS / "arm7.urdf", backend="cuda")


@pytest.fixture
def leave(machine):
    """Return what leaves the first GPU so many bytes of memory, or again as many as there are."""
    pool = machine.devices[0].pool
    whole = pool.limit

    def leave_bytes(count=None):
        gc.collect()
        pool.give_back()
        pool.limit = whole if count is None else pool.used + count

    yield leave_bytes
    pool.limit = whole


def states(*names):
    """Return random states of the arm."""
    drawn = random_states(tree_of("arm7"), STATES, np.random.default_rng(7))
    return [drawn[name].astype(np.float32) for name in names]


# -- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("part_bytes", [1 << 24, 4000])
def test_numpy_arrays_are_streamed_through_little_memory(cupy, arm, leave, monkeypatch, part_bytes):
    arguments = states("q", "qd", "qdd")
    expected = arm.inverse_dynamics(*arguments)
    monkeypatch.setattr(streaming, "PART_BYTES", part_bytes)
    launched = launches(monkeypatch)
    leave(6000)  # two lanes with ten states each
    assert np.array_equal(arm.inverse_dynamics(*arguments), expected)
    assert sum(launched) == STATES
    assert max(launched) <= 35
    leave(1000)  # less than one state of each array takes
    with pytest.raises(gridgen.DeviceError, match=r"GPU 0: Out of memory .* fewer states"):
        arm.inverse_dynamics(*arguments)
    leave()
    assert np.array_equal(arm.inverse_dynamics(*arguments), expected)


def launches(monkeypatch):
    """Return a list that gets the states of each launch."""
    found, launch = [], CudaKernel.__call__

    def launched(self, arguments, batch):
        found.append(batch)
        launch(self, arguments, batch)

    monkeypatch.setattr(CudaKernel, "__call__", launched)
    return found


def test_copies_on_the_gpu_are_as_large_as_there_is_room(cupy, arm, leave, monkeypatch):
    (q,) = states("q")
    q, transposed = cupy.asarray(q), cupy.empty((STATES, 7, 7), np.float32)
    expected = cupy.asnumpy(arm.mass_matrix(q))
    launched = launches(monkeypatch)
    out = cupy.moveaxis(transposed, 1, 2)
    arm.mass_matrix(q, out=out)
    assert launched == [STATES]
    transposed.fill(0)
    leave(5000)  # of 15680
    arm.mass_matrix(q, out=out)
    assert launched[1:] == [STATES // 4] * 4
    leave()
    assert np.array_equal(cupy.asnumpy(transposed), expected)


def test_what_a_kernel_keeps_is_as_large_as_there_is_room(cupy, machine, leave, monkeypatch):
    robot = Robot(TracedModule(tree_of("arm7"), 0), "auto")
    arguments = [cupy.asarray(array) for array in states("q", "qd", "qdd")]
    expected = cupy.asnumpy(robot.inverse_dynamics(*arguments))
    out = cupy.empty((STATES, 7), np.float32)
    launched = launches(monkeypatch)
    robot.inverse_dynamics(*arguments, out=out)
    assert launched == [STATES]
    taken = machine.devices[0].pool.largest_free
    leave(taken // 2 + 512)
    robot.inverse_dynamics(*arguments, out=out)
    assert launched[1:] == [STATES // 2] * 2
    bound = robot.bind("inverse_dynamics", *arguments)
    leave()
    for result in (out, bound()):
        assert np.array_equal(cupy.asnumpy(result), expected)
    leave(100)
    with pytest.raises(gridgen.DeviceError, match="GPU 0: Out of memory"):
        robot.inverse_dynamics(*arguments, out=out)


def test_workspaces_hold_more_than_a_thousand_states(monkeypatch):
    """As many as the memory of a launch holds; where there is less, as many as that holds."""
    team = gridgen.kernel.TeamLaunch(64, 4, 0, 100)
    q = np.zeros((1, 7), np.float32)
    assert compiled.workspace(team, 1 << 20, q).states == 1 << 20
    monkeypatch.setattr(compiled, "_SCRATCH_BYTES", 1 << 20)
    assert compiled.workspace(team, 1 << 20, q).states == 2624  # 656 blocks of 4
    monkeypatch.setattr(compiled, "_SCRATCH_BYTES", 1 << 10)
    assert compiled.workspace(team, 1 << 20, q).states == 1024


def test_results_that_do_not_fit_are_refused_and_may_go_to_numpy_arrays(cupy, arm, leave):
    (q,) = states("q")
    given = cupy.asarray(q)
    expected = cupy.asnumpy(arm.mass_matrix(given))
    leave(8000)
    with pytest.raises(gridgen.DeviceError, match=r"give NumPy arrays, also for out"):
        arm.mass_matrix(given)
    out = np.empty((STATES, 7, 7), np.float32)
    assert np.array_equal(arm.mass_matrix(given, out=out), expected)
    assert cupy.asnumpy(arm.mass_matrix(given[:10])).shape == (10, 7, 7)


# -- the driver -----------------------------------------------------------------------------------


def test_a_driver_that_is_too_old_is_named(cupy, arm, machine):
    arguments = states("q", "qd", "qdd")
    machine.newest_ptx, machine.driver = (7, 0), (11, 8)
    try:
        for array in (np.asarray, cupy.asarray):
            message = (
                r"GPU 0: .*unsupported toolchain.*driver supports CUDA 11\.8 and is too old for"
            )
            with pytest.raises(gridgen.DeviceError, match=message):
                arm.inverse_dynamics(*map(array, arguments))
        with pytest.raises(gridgen.DeviceError, match=r"pip install '[a-z-]*nvrtc[a-z0-9-]*==11"):
            arm.bind("inverse_dynamics", *map(cupy.asarray, arguments))
    finally:
        machine.newest_ptx = machine.driver = (99, 0)
    assert arm.inverse_dynamics(*arguments).shape == (STATES, 7)


# -- failures -------------------------------------------------------------------------------------

CALLS = {
    "plain": lambda robot, arrays: robot.inverse_dynamics(*arrays),
    "bound": lambda robot, arrays: robot.bind("inverse_dynamics", *arrays)(),
    "scan": lambda robot, arrays: robot.forward_dynamics(*arrays, method="cfa"),
}


@pytest.mark.parametrize("place", ["numpy", *exhaustive("cupy")])
@pytest.mark.parametrize("call", CALLS)
def test_after_a_failure_the_next_call_works(cupy, arm, machine, monkeypatch, call, place):
    """On another GPU at once; on the same one when that works again, with nothing on it."""
    monkeypatch.setattr(streaming, "PART_BYTES", 2000)
    compute = CALLS[call]
    arguments = states("q", "qd", "qdd")
    brought = np.asarray if place == "numpy" else cupy.asarray
    before = [brought(array) for array in arguments]
    expected = cupy.asnumpy(compute(arm, before))
    cupy.asnumpy(compute(arm, before))  # arrays like earlier ones
    machine.devices[0].fail("cudaErrorECCUncorrectable")
    try:
        message = r"GPU 0: cudaErrorECCUncorrectable: .*; all data on this GPU are lost"
        with pytest.raises(gridgen.DeviceError, match=message):
            compute(arm, before)
        with cupy.cuda.Device(1):
            elsewhere = compute(arm, [brought(array) for array in arguments])
            assert np.array_equal(cupy.asnumpy(elsewhere), expected)
    finally:
        machine.devices[0].recover()
    for _ in range(2):
        again = compute(arm, [brought(array) for array in arguments])
        assert np.array_equal(cupy.asnumpy(again), expected)


def test_a_failure_under_way_is_told(cupy, arm, machine, monkeypatch):
    monkeypatch.setattr(streaming, "PART_BYTES", 2000)
    arguments = states("q", "qd", "qdd")
    expected = arm.inverse_dynamics(*arguments)
    begin, parts = streaming._Lane.begin, []

    def failing(*given):
        begin(*given)
        parts.append(given)
        if len(parts) == 2:
            machine.devices[0].fail("cudaErrorIllegalAddress")

    with monkeypatch.context() as patch:
        patch.setattr(streaming._Lane, "begin", failing)
        with pytest.raises(gridgen.DeviceError, match="GPU 0: cudaErrorIllegalAddress"):
            arm.inverse_dynamics(*arguments)
    machine.devices[0].recover()
    assert np.array_equal(arm.inverse_dynamics(*arguments), expected)


def test_a_bound_call_whose_gpu_failed_says_so(cupy, arm, machine):
    bound = arm.bind("inverse_dynamics", *map(cupy.asarray, states("q", "qd", "qdd")))
    bound()
    machine.devices[0].fail("cudaErrorLaunchFailure")
    try:
        with cupy.cuda.Device(1), pytest.raises(gridgen.DeviceError, match=r"GPU 0: .*bind calls"):
            bound()
    finally:
        machine.devices[0].recover()
    with pytest.raises(gridgen.DeviceError, match=r"GPU 0: CUDA_ERROR_INVALID_HANDLE.*bind calls"):
        bound()


# -- several GPUs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS)
def test_arrays_decide_which_gpu_computes(cupy, arm, machine, call):
    """Those on a GPU themselves; NumPy arrays go to the current one."""
    arguments = states("q", "qd", "qdd")
    expected = cupy.asnumpy(CALLS[call](arm, [cupy.asarray(array) for array in arguments]))
    machine.settle()
    with cupy.cuda.Device(1):
        there = [cupy.asarray(array) for array in arguments]
        machine.settle()
    machine.devices[0].fail("cudaErrorECCUncorrectable")
    try:
        result = CALLS[call](arm, there)
        assert result.device.id == 1
        with cupy.cuda.Device(1):
            assert np.array_equal(cupy.asnumpy(result), expected)
            assert np.array_equal(CALLS[call](arm, arguments), expected)
    finally:
        machine.devices[0].recover()


def test_arrays_on_two_gpus_are_refused_by_both_names(cupy, arm):
    q, qd, qdd = states("q", "qd", "qdd")
    here = [cupy.asarray(array) for array in (q, qd, qdd)]
    with cupy.cuda.Device(1):
        there, out = cupy.asarray(qd), cupy.empty((STATES, 7), np.float32)
    for function in (arm.inverse_dynamics, lambda *x, **y: arm.bind("inverse_dynamics", *x, **y)):
        with pytest.raises(gridgen.DeviceError, match="qd is on GPU 1, q on GPU 0: move one"):
            function(here[0], there, here[2])
        with pytest.raises(gridgen.DeviceError, match="out is on GPU 1, q on GPU 0: move one"):
            function(*here, out=out)
    with pytest.raises(gridgen.DeviceError, match=r'backend "cpu" needs arrays on the CPU.* GPU 1'):
        arm.mass_matrix(there, backend="cpu")


def test_a_number_goes_where_the_arrays_lie(cupy, machine):
    two_link = gridgen.load(ROBOTS / "two_link.urdf")
    q = np.ones((STATES, 2), np.float32)
    with cupy.cuda.Device(1):
        ends = cupy.asarray(0 * q), cupy.asarray(q)
        machine.settle()
    result = two_link.interpolate(*ends, 0.3)
    with cupy.cuda.Device(1):
        for found in (result, two_link.interpolate(*ends, 0.3)):
            np.testing.assert_allclose(cupy.asnumpy(found), 0.3 * q, rtol=1e-6)


def test_what_hinders_a_number_is_told(cupy, machine):
    two_link = gridgen.load(ROBOTS / "two_link.urdf")
    q = cupy.ones((STATES, 2), np.float32)
    machine.devices[0].fail("cudaErrorLaunchFailure")
    try:
        with pytest.raises(gridgen.DeviceError, match="GPU 0: cudaErrorLaunchFailure"):
            two_link.interpolate(q, q, 0.3)
    finally:
        machine.devices[0].recover()
