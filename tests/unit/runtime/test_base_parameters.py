"""Which inertial parameters can be told apart."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import gridgen
from gridgen.errors import ModelError, OptionError, ShapeError
from helpers.robots import exhaustive_cases

ROOT = Path(__file__).parents[3]


def load(name: str, **options: bool) -> gridgen.Robot:
    return gridgen.load(ROOT / "robots" / f"{name}.urdf", backend="cpu", **options)


@pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning")  # a base without inertia
@pytest.mark.parametrize(
    ("name", "floating", "count"),
    [
        ("pendulum", False, 3),
        ("arm6", False, 36),
        ("gripper", False, 32),
        ("two_link", True, 24),
        *exhaustive_cases(("quadruped", True, 94)),
    ],
)
def test_they_explain_the_regressor_and_are_independent(name, floating, count):
    robot = load(name, floating_base=floating)
    found = gridgen.base_parameters(robot)
    rng = np.random.default_rng(3)
    q = robot.random_configuration(rng, 200)
    qd, qdd = rng.normal(size=(2, 200, robot.nv))
    Y = robot.joint_torque_regressor(q, qd, qdd)
    params = rng.normal(size=(len(robot.body_names), 10))
    tau = Y @ params.reshape(-1)
    assert np.allclose(Y[..., found.columns] @ found.of(params), tau, rtol=0, atol=1e-11)
    kept = Y[..., found.columns].reshape(-1, len(found))
    assert len(found) == np.linalg.matrix_rank(kept / np.linalg.norm(kept, axis=0), 1e-9) == count
    for name in found.without_effect:
        assert not np.any(np.abs(Y[..., found.names.index(name)]) > 1e-14)


def test_combinations_are_shown_with_the_names_of_links():
    shown = str(gridgen.base_parameters(load("two_link")))
    assert shown.splitlines()[:3] == [
        "upper_arm.mx + 0.4 forearm.m",
        "upper_arm.mz",
        "upper_arm.Iyy + 0.16 forearm.m",
    ]


def test_what_can_be_identified_depends_on_gravity():
    robot = load("pendulum")
    assert len(gridgen.base_parameters(robot, gravity=(0.0, 0.0, 0.0))) == 1


def test_wrong_arguments_are_refused(tmp_path):
    robot = load("pendulum")
    with pytest.raises(OptionError, match=r"robot is 3; give what gridgen.load returns"):
        gridgen.base_parameters(3)
    for wrong in (0, "x", None):
        with pytest.raises(OptionError, match=f"tolerance is {wrong!r}; give a number"):
            gridgen.base_parameters(robot, tolerance=wrong)
    for wrong in (-1, "x", 0.5):
        with pytest.raises(OptionError, match=f"seed is {wrong!r}; give a whole number"):
            gridgen.base_parameters(robot, seed=wrong)
    with pytest.raises(ShapeError, match=r"params has shape \(3,\); give 10 numbers"):
        gridgen.base_parameters(robot).of([1.0, 2.0, 3.0])
    options = gridgen.GenerateOptions(output=tmp_path, functions=("mass_matrix",))
    module = gridgen.generate(ROOT / "robots" / "pendulum.urdf", options)
    with pytest.raises(ModelError, match="generated without it"):
        gridgen.base_parameters(gridgen.Robot(module, "cpu"))


def test_the_example_identifies_an_arm(capsys):
    example = runpy.run_path(str(ROOT / "examples" / "identification.py"))
    example["main"](["--urdf", str(ROOT / "robots" / "two_link.urdf"), "--noise", "0.01"])
    *_, last = capsys.readouterr().out.splitlines()
    assert all(float(share) < 0.5 for share in last.split())
