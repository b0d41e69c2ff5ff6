"""Forward dynamics on two processors: cpu and emulated backend, both at work at once."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gridgen
from gridgen.check import random_states
from gridgen.errors import DeviceError, ModelError, OptionError, ShapeError
from gridgen.papers import Hybrid, hybrid
from gridgen.robot import open_module
from helpers.robots import exhaustive_cases
from helpers.scan import ROBOTS, tree_of

CASES = [("quadruped", True), *exhaustive_cases(("arm7", False))]
LOADS = ("f_ext", "base_velocity", "base_acceleration")


def robot_and_states(name, floating_base, count, dtype="float64"):
    robot = gridgen.load(ROBOTS / f"{name}.urdf", floating_base=floating_base)
    tree = tree_of(name, floating_base=floating_base)
    drawn = random_states(tree, count, np.random.default_rng(3))
    return robot, {key: value.astype(dtype) for key, value in drawn.items()}


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-4), *exhaustive_cases(("float64", 1e-12))]
)
@pytest.mark.parametrize(("name", "floating_base"), CASES)
def test_accelerations_are_those_of_the_thread_schedule(name, floating_base, dtype, tolerance):
    robot, states = robot_and_states(name, floating_base, 5, dtype)
    loads = {key: states[key] for key in LOADS}
    for extra in ({}, loads):
        arguments = (states["q"], states["qd"], states["tau"])
        expected = robot.forward_dynamics(*arguments, **extra)
        computed = Hybrid(robot).forward_dynamics(*arguments, **extra)
        assert computed.dtype == dtype
        assert_allclose(computed, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_batches_are_divided_and_results_written_where_asked(monkeypatch):
    robot, states = robot_and_states("arm7", False, 7)
    arguments = (states["q"], states["qd"], states["tau"])
    robot = Hybrid(robot)
    whole = robot.forward_dynamics(*arguments)
    monkeypatch.setattr(hybrid, "STATES", 3)
    out = np.empty_like(whole)
    gravity = np.array([0.0, 0.0, -9.81])
    assert robot.forward_dynamics(*arguments, gravity=gravity, out=out) is out
    assert_array_equal(out, whole)
    one = robot.forward_dynamics(*(array[4] for array in arguments))
    assert_array_equal(one, whole[4])
    none = robot.forward_dynamics(*(array[:0] for array in arguments))
    assert none.shape == (0, 7)


def test_the_halves_overlap_in_time(monkeypatch):
    """Each half, once begun, waits until the other has begun: in sequence neither would end."""
    robot, states = robot_and_states("arm7", False, 2)
    both_at_work = threading.Barrier(2, timeout=60)
    met = []

    def compile_and_meet(self, record, q, target, batch):
        kernel = compile_kernel(self, record, q, target, batch)
        if record.key not in (hybrid.BIAS, hybrid.INERTIAS):
            return kernel

        def meeting(arguments, batch):
            both_at_work.wait()
            met.append((record.name, target.name))
            kernel(arguments, batch)

        return meeting

    kernels = type(robot._evaluator.compiled)
    compile_kernel = kernels._compile
    monkeypatch.setattr(kernels, "_compile", compile_and_meet)
    Hybrid(robot).forward_dynamics(states["q"], states["qd"], states["tau"])
    assert sorted(met) == [(hybrid.INERTIAS.name, "cpu"), (hybrid.BIAS.name, "emulated")]


def test_an_error_in_either_half_reaches_the_caller(monkeypatch):
    robot, states = robot_and_states("arm7", False, 2)
    arguments = (states["q"], states["qd"], states["tau"])
    evaluator = type(robot._evaluator)
    evaluate = evaluator.evaluate
    for half in (hybrid.BIAS, hybrid.INERTIAS):

        def failing(self, resolved, half=half):
            if resolved.kernel.key == half:
                raise DeviceError(f"no {half.name}")
            return evaluate(self, resolved)

        monkeypatch.setattr(evaluator, "evaluate", failing)
        with pytest.raises(DeviceError, match=f"no {half.name}"):
            Hybrid(robot).forward_dynamics(*arguments)


def test_bad_arguments_are_refused_before_anything_is_computed():
    robot, states = robot_and_states("arm7", False, 2)
    q, qd, tau = states["q"], states["qd"], states["tau"]
    with pytest.raises(ShapeError, match="tau has shape"):
        Hybrid(robot).forward_dynamics(q, qd, tau[:, :3])
    with pytest.raises(OptionError, match="has no input method"):
        Hybrid(robot).forward_dynamics(q, qd, tau, method="crba")
    with pytest.raises(OptionError, match='schedule is "hybrid"; choose one of auto, thread, scan'):
        robot.forward_dynamics(q, qd, tau, schedule="hybrid")
    folder = ROBOTS.parent / "generated" / "two_link"
    generated = open_module(str(folder / "__init__.py"))
    with pytest.raises(OptionError, match=r"give a robot of gridgen\.load"):
        Hybrid(generated)
    with pytest.raises(OptionError, match="the robot is 3; give a robot"):
        Hybrid(3)
    mimic = gridgen.load(ROBOTS / "gripper.urdf")
    zeros = np.zeros((1, mimic.nv))
    with pytest.raises(ModelError, match="mimic"):
        Hybrid(mimic).forward_dynamics(zeros, zeros, zeros)
