"""Measured on a fake GPU, whose events tell made-up times: ``auto`` takes what they say."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

import gridgen
from fake_gpu.installation import installed
from gridgen.check import random_states
from gridgen.cost import profile
from gridgen.cost.profile import TimedKernel
from gridgen.runtime.planning import devices
from helpers.scan import ROBOTS, tree_of

pytest.importorskip("cupy", reason="NVRTC comes with CuPy")

STATES = 150
#: Made-up seconds of a launch; a team's are a tenth for few states.
SLOW, FAST, FEW = 4e-3, 1e-3, 1


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine for which a block of 64 is the best, and teams for few states."""
    monkeypatch.setattr(profile, "cache_folder", lambda *_: tmp_path)
    launched = []

    def duration(name, blocks, threads):
        launched.append((name, blocks, threads))
        if "warp" in name:
            return FAST / 10 if blocks <= FEW else 10 * SLOW
        return FAST if threads == 64 else SLOW

    with installed() as machine:
        machine.launched = launched
        before = machine.duration
        machine.duration = duration
        try:
            yield machine
        finally:
            machine.duration = before


def called(machine, robot, batch, method="mass_matrix", count=1):
    """Return which kernel a call launched, and with blocks of how many threads."""
    cupy = sys.modules["cupy"]
    drawn = random_states(tree_of("two_link"), batch, np.random.default_rng(3))
    arrays = [cupy.asarray(drawn[name].astype("float32")) for name in ("q", "qd", "tau")[:count]]
    machine.launched.clear()
    result = getattr(robot, method)(*arrays)
    cupy.cuda.runtime.deviceSynchronize()
    cpu = gridgen.load(ROBOTS / "two_link.urdf", backend="cpu")
    expected = getattr(cpu, method)(*map(cupy.asnumpy, arrays))
    np.testing.assert_allclose(cupy.asnumpy(result), expected, rtol=1e-3, atol=1e-4)
    ((name, _, threads),) = machine.launched
    return "warp" if "warp" in name else "crba" if "crba" in name else "thread", threads


def test_auto_takes_what_was_measured(machine):
    robot = gridgen.load(ROBOTS / "two_link.urdf")
    assert called(machine, robot, STATES) == ("thread", 32)
    tuned = robot.tune(functions=["mass_matrix"], batches=[4, STATES], dtypes=["float32"])
    times = tuned.profile.times
    assert times[TimedKernel("mass_matrix", "float32", 64)][STATES] == pytest.approx(FAST)
    assert times[TimedKernel("mass_matrix", "float32", 32)][STATES] == pytest.approx(SLOW)
    assert tuned.profile.place.name == "fake GPU 0"
    taken = [(one.batch, one.chosen.schedule, one.chosen.block) for one in tuned.outcomes]
    assert taken[0][:2] == (4, "warp")
    assert taken[1:] == [(STATES, "thread", 64)]
    assert tuned.outcomes[1].before == pytest.approx(SLOW)
    # The robot that was measured, and others, in this process and in others.
    for one in (robot, gridgen.load(ROBOTS / "two_link.urdf")):
        assert called(machine, one, STATES) == ("thread", 64)
        assert called(machine, one, 4)[0] == "warp"
        bound = one.bind("mass_matrix", sys.modules["cupy"].zeros((STATES, 2), np.float32))
        machine.launched.clear()
        bound()
        assert machine.launched[0][2] == 64
    # A robot with other numbers is another robot; what was not measured is predicted.
    other = gridgen.load(ROBOTS / "two_link.urdf", armature=0.1)
    assert not other.plan("mass_matrix", batch=STATES, device="cuda").chosen.is_measured
    assert not robot.plan("bias_forces", batch=STATES, device="cuda").chosen.is_measured


def test_short_kernels_are_timed_in_a_graph(machine, monkeypatch):
    """Of which a launch takes the host longer than the device."""
    short, launched = machine.duration, []

    def duration(name, blocks, threads):
        launched.append(name)
        return 1e-2 * short(name, blocks, threads)

    monkeypatch.setattr(machine, "duration", duration)
    robot = gridgen.load(ROBOTS / "pendulum.urdf")
    expected = {"functions": ["mass_matrix"], "batches": [STATES], "dtypes": ["float32"]}
    times = robot.tune(**expected).profile.times
    assert times[TimedKernel("mass_matrix", "float32", 64)][STATES] == pytest.approx(1e-2 * FAST)
    assert times[TimedKernel("mass_matrix", "float32", 32)][STATES] == pytest.approx(1e-2 * SLOW)
    # The calls that are captured, and few beside: 16 for each way, not for each sample.
    assert len(launched) <= 20 * len(times)


def test_predictions_are_for_the_gpu_that_is_there(machine, monkeypatch):
    """A part of an H200 has fewer multiprocessors than the table's."""
    robot = gridgen.load(ROBOTS / "gripper.urdf")
    batch = 1 << 20
    whole = robot.plan("forward_dynamics", batch=batch, device="cuda").chosen.seconds
    assert whole == robot.plan("forward_dynamics", batch=batch, device="sm_90").chosen.seconds
    part = {**machine.settings.attributes, "MultiProcessorCount": 16, "GlobalMemoryBusWidth": 768}
    monkeypatch.setattr(machine, "settings", replace(machine.settings, attributes=part))
    devices._attributes.cache_clear()
    few = robot.plan("forward_dynamics", batch=batch, device="cuda").chosen.seconds
    devices._attributes.cache_clear()
    assert few > 5 * whole


def test_the_plan_names_the_measurement(machine):
    robot = gridgen.load(ROBOTS / "two_link.urdf")
    assert not robot.plan("mass_matrix", batch=STATES, device="cuda").chosen.is_measured
    robot.tune(functions=["mass_matrix"], batches=[STATES], dtypes=["float32"])
    plan = robot.plan("mass_matrix", batch=STATES, device="cuda")
    assert (plan.chosen.block, plan.chosen.is_measured) == (64, True)
    assert plan.chosen.seconds == pytest.approx(FAST)
    driver = sys.modules["cupy"].cuda.runtime.driverGetVersion()
    assert f"measured on fake GPU 0 (sm_91, driver {driver}) by grid-gen tune" in plan.reason
    assert "a block of 32 was measured to take 4.0 times as long" in plan.reason
    assert "measured" in str(plan)
    # Not of an architecture, nor of another type.
    for options in ({"device": "sm_90"}, {"device": "cuda", "dtype": "float64"}):
        assert not robot.plan("mass_matrix", batch=STATES, **options).chosen.is_measured


@pytest.mark.exhaustive
def test_another_method_is_taken_if_that_is_left_open(machine, monkeypatch):
    def duration(name, blocks, threads):
        machine.launched.append((name, blocks, threads))
        return FAST if "crba" in name else SLOW

    monkeypatch.setattr(machine, "duration", duration)
    robot = gridgen.load(ROBOTS / "two_link.urdf")
    expected = {"functions": ["forward_dynamics"], "batches": [STATES], "dtypes": ["float32"]}
    robot.tune(**expected)
    assert called(machine, robot, STATES, "forward_dynamics", 3)[0] == "thread"  # aba
    robot.tune(**expected, any_method=True)
    assert called(machine, robot, STATES, "forward_dynamics", 3)[0] == "crba"
    assert robot.plan("forward_dynamics", batch=STATES, device="cuda").chosen.method == "crba"
    cupy = sys.modules["cupy"]
    q = cupy.zeros((STATES, 2), np.float32)
    machine.launched.clear()
    robot.forward_dynamics(q, q, q, method="aba")
    assert "aba" in machine.launched[0][0]


def test_batches_without_room_are_left_out(machine, monkeypatch):
    monkeypatch.setattr(machine.devices[0].pool, "limit", machine.devices[0].pool.used + 50_000)
    robot = gridgen.load(ROBOTS / "two_link.urdf")
    tuned = robot.tune(functions=["gravity_forces"], batches=[32, 1 << 20], dtypes=["float32"])
    assert {batch for times in tuned.profile.times.values() for batch in times} == {32}
