"""Programs of the manual do what their pages say, at small size."""

from __future__ import annotations

import runpy
from typing import Any

import numpy as np

from robots_for_tests import OWN

EXAMPLES = OWN.parent / "examples"


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_computed_torque_keeps_to_the_way() -> None:
    run = example("computed_torque")["run"]
    exact = run(OWN / "arm6.urdf", 0.3, 0.0)
    assert exact.errors.max() < 5e-3, "the steps of time alone are left"
    loaded = run(OWN / "arm6.urdf", 0.3, 0.5)
    assert exact.errors.max() < loaded.errors.max() < 0.2, "the payload shows, and is borne"


def test_quadrupeds_stand() -> None:
    module = example("batch_environment")
    environment = module["Standing"](OWN / "quadruped.urdf", 5, np.random.default_rng(0))
    first = environment.reset()
    assert first.shape == (5, environment.robot.nq + environment.robot.nv)
    targets = np.tile(np.array([*module["STANCE"]] * 4, np.float32), (5, 1))
    for _ in range(60):
        observations, rewards, fallen = environment.step(targets)
    assert not fallen.any()
    assert (rewards > 1.2).all()
    weight = 9.81 * environment.robot.total_mass
    feet = environment.robot.forward_kinematics(environment.q, frames=environment.feet)
    sunk = -feet[:, :, 2, 3]
    assert (abs(sunk.sum(axis=1) * module["STIFFNESS"] - weight) < 0.2 * weight).all()
    assert np.abs(observations[:, -18:]).max() < 0.5, "they have come to rest"


def test_without_targets_they_fall() -> None:
    module = example("batch_environment")
    environment = module["Standing"](OWN / "quadruped.urdf", 2, np.random.default_rng(0))
    environment.reset()
    environment.limits[:] = 0.0
    for _ in range(60):
        *_, fallen = environment.step(np.zeros((2, 12), np.float32))
    assert fallen.all()
    environment.reset(fallen)
    assert (environment.q[:, 2] > 0.3).all()
