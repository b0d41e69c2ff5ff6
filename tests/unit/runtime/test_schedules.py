"""Which kernel ``schedule="auto"`` means."""

from __future__ import annotations

import numpy as np
import pytest

import gridgen
from gridgen.runtime.evaluation import Evaluator
from robots_for_tests import OWN

GRADIENTS = ("inverse_dynamics_gradient", "forward_dynamics_gradient")


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that would be evaluated."""
    names: list[str] = []
    monkeypatch.setattr(
        Evaluator, "evaluate", lambda self, kernel, *rest: names.append(kernel.name)
    )
    return names


@pytest.mark.parametrize("backend", ["cpu", "cuda", "emulated"])
@pytest.mark.parametrize("name", ["arm7", "humanoid"])
def test_derivatives_of_large_robots_take_a_team_of_gpu_threads(name, backend, evaluated):
    robot = gridgen.load(OWN / f"{name}.urdf", backend=backend)
    q = np.zeros(robot.nq)
    qd = np.zeros(robot.nv)
    suffix = "_scan" if (name, backend) == ("humanoid", "cuda") else ""
    for function in GRADIENTS:
        getattr(robot, function)(q, qd, qd)
        assert evaluated.pop() == function + suffix
        getattr(robot, function)(q, qd, qd, f_ext=np.zeros((len(robot.body_names), 6)))
        assert evaluated.pop() == f"{function}{suffix}_f_ext"
        getattr(robot, function)(q, qd, qd, schedule="thread")
        assert evaluated.pop() == function
        getattr(robot, function)(q, qd, qd, schedule="scan")
        assert evaluated.pop() == f"{function}_scan"
    robot.mass_matrix_inverse(q)
    assert evaluated.pop() == f"mass_matrix_inverse{suffix}"
    robot.mass_matrix(q)
    assert evaluated.pop() == "mass_matrix"
