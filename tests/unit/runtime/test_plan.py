"""What ``auto`` means, and how ``plan`` explains it."""

from __future__ import annotations

import re
import sys
from functools import cache

import numpy as np
import pytest

import gridgen
from gridgen.cost import profile
from gridgen.cost.devices import DEVICES
from gridgen.cost.profile import Profile, TimedKernel
from gridgen.errors import DeviceError, ModelError, OptionError
from gridgen.functions import FUNCTIONS, GENERATED
from gridgen.runtime.calls.evaluation import Evaluator
from gridgen.runtime.planning.devices import host_place
from helpers.robots import CONSTRAINTS, OWN, TESTED_APART, exhaustive

GRADIENTS = ("inverse_dynamics_gradient", "forward_dynamics_gradient")


ON_GPU = {"thread", "scan", "warp"}


@cache
def loaded(name):
    return gridgen.load(OWN / f"{name}.urdf", constraints=CONSTRAINTS[name])


@pytest.fixture(params=("arm7", "humanoid"))
def robot(request):
    return loaded(request.param)


@pytest.fixture(params=("arm7", "humanoid"))
def on_gpu(request, evaluated):
    """A robot whose calls are for a GPU; none of them is run."""
    return gridgen.load(OWN / f"{request.param}.urdf", backend="cuda")


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that would be run."""
    names: list[str] = []
    monkeypatch.setattr(
        Evaluator, "evaluate", lambda self, resolved: names.append(resolved.kernel.name)
    )
    return names


def suffix(plan) -> str:
    schedule = plan.chosen.schedule
    return "" if schedule == "thread" else f"_{schedule}"


@pytest.mark.parametrize("batch", [1, 256, 1 << 16])
def test_a_call_does_what_the_plan_says(on_gpu, batch, evaluated):
    robot = on_gpu
    q, qd = np.zeros((batch, robot.nq)), np.zeros((batch, robot.nv))
    loads = np.zeros((batch, len(robot.body_names), 6))
    for function in GRADIENTS:
        # An array on no GPU has no architecture: nothing is known of the device.
        plan = robot.plan(function, batch=batch, device="sm_90", dtype="float64")
        getattr(robot, function)(q, qd, qd)
        assert evaluated.pop() == function + suffix(plan) == plan.chosen.kernel
        getattr(robot, function)(q, qd, qd, f_ext=loads)
        assert evaluated.pop() == f"{function}{suffix(plan)}_f_ext"
        for schedule, end in (("thread", ""), ("warp", "_warp")):
            getattr(robot, function)(q, qd, qd, schedule=schedule)
            assert evaluated.pop() == function + end
    plan = robot.plan("forward_dynamics", batch=batch, device="sm_90", dtype="float64")
    robot.forward_dynamics(q, qd, qd)
    assert evaluated.pop() == f"forward_dynamics_aba{suffix(plan)}"
    robot.forward_dynamics(q, qd, qd, method="jsiia")
    assert evaluated.pop() == "forward_dynamics_jsiia_scan"
    robot.gravity_forces(q)
    assert evaluated.pop() == "gravity_forces"


def test_few_states_of_many_bodies_get_teams(robot):
    """And threads where there are states enough for all of them."""
    few = robot.plan("inverse_dynamics_gradient", batch=32, device="sm_90")
    many = robot.plan("inverse_dynamics", batch=1 << 20, device="sm_90")
    assert robot.name != "humanoid" or few.chosen.schedule == "warp"
    assert many.chosen.schedule == "thread"


@pytest.mark.parametrize("backend", ["cpu", "emulated"])
def test_what_runs_on_the_host_has_one_state_in_a_thread(backend, evaluated):
    robot = gridgen.load(OWN / "humanoid.urdf", backend=backend)
    q = np.zeros(robot.nv)
    for function in GRADIENTS:
        getattr(robot, function)(q, q, q)
        assert evaluated.pop() == function


def test_a_batch_is_served_as_the_next_power_of_two(on_gpu, evaluated):
    """What is decided is remembered for few batches, not for each."""
    for batch in range(65, 129):
        on_gpu.mass_matrix(np.zeros((batch, on_gpu.nq)))
    assert len(evaluated) == 64
    assert len(set(evaluated)) == 1
    assert len(on_gpu.resolver._planned_before) == 1


@pytest.mark.parametrize("device", ["cpu", *DEVICES])
@pytest.mark.parametrize("name", ["arm7", *exhaustive("humanoid")])
def test_every_function_has_a_plan(name, device):
    robot = loaded(name)
    hand = {"arm7": "tool", "humanoid": "left_palm"}[name]
    for function in GENERATED:
        if function in TESTED_APART:
            continue
        frame = hand if FUNCTIONS[function].of_frame else None
        plan = robot.plan(function, batch=1000, device=device, frame=frame)
        assert plan.chosen in plan.candidates
        times = [candidate.seconds or 0.0 for candidate in plan.candidates]
        assert times == sorted(times)
        text = str(plan)
        assert text.startswith(f"{name}, {function}: 1,000 states of float32 on ")
        assert f"* {plan.chosen.kernel}" in text
        assert plan.reason.startswith(f"{plan.chosen.kernel}: ")
        schedules = {candidate.schedule for candidate in plan.candidates}
        assert schedules == {"thread"} if device == "cpu" else schedules <= ON_GPU


def test_a_plan_has_the_usual_block_until_others_are_measured(robot):
    for batch, block in ((1 << 18, 128), (64, 32)):
        plan = robot.plan("bias_forces", batch=batch, device="sm_90")
        assert [c.block for c in plan.candidates if c.schedule == "thread"] == [block]


def test_a_cpu_has_no_times_before_a_measurement(robot):
    plan = robot.plan("forward_dynamics", batch=5000)
    assert {c.seconds for c in plan.candidates} == {None}
    assert plan.chosen.method == "aba"
    assert "grid-gen tune --device cpu" in plan.reason


def test_what_was_measured_decides(tmp_path, monkeypatch, evaluated):
    """On this CPU, by times that were made up; and a method only where that is left open."""
    monkeypatch.setattr(profile, "cache_folder", tmp_path.joinpath)

    def robot(any_method, **seconds):
        new = gridgen.load(OWN / "two_link.urdf")
        times = {
            TimedKernel(f"forward_dynamics_{method}", "float64", 0): {16: 1e-6, 64: value}
            for method, value in seconds.items()
        }
        digest = new._module.description.digest
        Profile("two_link", digest, host_place(), any_method, times).keep()
        return new

    q = np.zeros((64, 2))
    for any_method, aba, crba, method in (
        (True, 9e-6, 2e-6, "crba"),
        (True, 2e-6, 9e-6, "aba"),
        (True, 1.01e-6, 1e-6, "aba"),
        (False, 9e-6, 2e-6, "aba"),
    ):
        one = robot(any_method, aba=aba, crba=crba)
        plan = one.plan("forward_dynamics", batch=64, dtype="float64")
        assert plan.chosen.method == method
        assert plan.chosen.is_measured
        assert "by grid-gen tune" in plan.reason
        assert plan.chosen.seconds == pytest.approx({"aba": aba, "crba": crba}[method])
        one.forward_dynamics(q, q, q)
        one.forward_dynamics(q, q, q, method="aba")
        assert evaluated[-2:] == [f"forward_dynamics_{method}", "forward_dynamics_aba"]
        assert not one.plan("forward_dynamics", batch=64, dtype="float32").chosen.is_measured


def test_what_is_measured_on_this_cpu(tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "cache_folder", tmp_path.joinpath)
    robot = gridgen.load(OWN / "two_link.urdf")
    tuned = robot.tune(device="cpu", batches=[8, 128], dtypes=["float64"])
    assert {way.kernel for way in tuned.profile.times} == {
        "forward_dynamics_aba",
        "forward_dynamics_crba",
    }
    assert all(seconds > 0 for times in tuned.profile.times.values() for seconds in times.values())
    assert [one.chosen.method for one in tuned.outcomes] == ["aba", "aba"]
    assert "Each process chooses its threads" in str(tuned)
    # What is measured later is added.
    robot.tune(device="cpu", functions=["mass_matrix"], batches=[8], dtypes=["float64"])
    plan = robot.plan("forward_dynamics", batch=8, dtype="float64")
    assert plan.chosen.is_measured
    assert robot.plan("mass_matrix", batch=8, dtype="float64").chosen.is_measured
    # A robot with one way to compute each function.
    gripper = gridgen.load(OWN / "gripper.urdf").tune(device="cpu")
    assert "nothing to choose" in str(gripper)
    assert not gripper.outcomes
    assert len([*(tmp_path / "profiles").iterdir()]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "sm_90"}, 'device is "sm_90"; choose one of cuda, cpu'),
        ({"functions": "mass_matrix"}, "functions is 'mass_matrix'; give a list"),
        ({"functions": ["jacobian"]}, 'functions is "jacobian"; choose one of'),
        ({"batches": [0]}, "batches has 0; give numbers of states, 1 or more"),
        ({"batches": []}, "there is nothing to measure"),
        ({"dtypes": ["float16"]}, 'dtypes is "float16"; choose one of float32, float64'),
    ],
)
def test_what_cannot_be_measured_is_refused(options, message):
    robot = gridgen.load(OWN / "two_link.urdf")
    with pytest.raises(OptionError, match=re.escape(message)):
        robot.tune(**{"device": "cpu", **options})


def test_without_a_gpu_tune_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    robot = gridgen.load(OWN / "two_link.urdf")
    remedy = "run it on a machine with a GPU"
    with pytest.raises(DeviceError, match=rf"needs CuPy .* {remedy}.*--device cpu"):
        robot.tune()
    with pytest.raises(DeviceError, match="needs CuPy"):
        robot.plan("mass_matrix", batch=1, device="cuda")


def test_auto_keeps_to_the_most_accurate_method(robot):
    """The others are shown; by which one a caller saves time, the table tells."""
    plan = robot.plan("forward_dynamics", batch=32, device="sm_90")
    assert plan.chosen.method == "aba"
    assert {c.method for c in plan.candidates} >= {"aba", "crba", "jsiia"}
    is_beaten = any(c.seconds < plan.chosen.seconds for c in plan.candidates)
    assert ("most accurate" in plan.reason) == is_beaten


def test_a_module_plans_as_its_robot(tmp_path):
    """From ``model.json`` alone."""
    options = gridgen.GenerateOptions(
        output=tmp_path, functions=("forward_dynamics", "bias_forces")
    )
    written = gridgen.generate(OWN / "two_link.urdf", options)
    from gridgen.runtime.module.files import FolderModule

    made = gridgen.Robot(FolderModule(written.folder))
    loaded = gridgen.load(OWN / "two_link.urdf")
    for device in ("cpu", "sm_80"):
        arguments = {"batch": 300, "device": device}
        assert made.plan("forward_dynamics", **arguments) == loaded.plan(
            "forward_dynamics", **arguments
        )
    with pytest.raises(ModelError, match="generated without it"):
        made.plan("mass_matrix", batch=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"function": "forward"}, 'function is "forward"; choose one of inverse_dynamics'),
        ({"batch": 0}, "batch is 0; give a number of states, 1 or more"),
        ({"batch": 2.5}, "batch is 2.5; give a number of states"),
        ({"device": "sm30"}, 'device is "sm30"; choose cpu, cuda or one of sm_75'),
        ({"device": "sm_1"}, 'device is "sm_1"; choose cpu, cuda or one of sm_75'),
        ({"device": 90}, "device is 90; give cpu or sm_90"),
        ({"dtype": "float16"}, 'dtype is "float16"; choose one of float32, float64'),
        ({"function": "jacobian"}, "frame is None; give the name of one link"),
    ],
)
def test_what_cannot_be_planned_is_refused(robot, options, message):
    arguments = {"function": "mass_matrix", "batch": 1, **options}
    with pytest.raises(OptionError, match=re.escape(message)):
        robot.plan(arguments.pop("function"), **arguments)
