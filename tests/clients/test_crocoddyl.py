"""Crocoddyl solves with grid-gen's dynamics what it solves with Pinocchio's."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gridgen
from helpers.robots import OWN

crocoddyl = pytest.importorskip("crocoddyl")
pinocchio = pytest.importorskip("pinocchio")

DT = 0.01
#: Forward differences of Crocoddyl's ``ActionModelNumDiff``, relative.
DIFFERENCES = 1e-5


@pytest.fixture
def module(example: Callable[[str], Any]) -> Any:
    return example("crocoddyl_reach")


def compare_with_differences(node: Any, x: np.ndarray, u: np.ndarray) -> None:
    """Compare the derivatives of a node, as it computes them by itself, with differences."""
    differences = crocoddyl.ActionModelNumDiff(node, True)
    data, expected = node.createData(), differences.createData()
    differences.calc(expected, x, u)
    differences.calcDiff(expected, x, u)
    node.calc(data, x, u)
    node.calcDiff(data, x, u)
    for name in ("Fx", "Fu", "Lx", "Lu"):
        value, other = getattr(data, name), getattr(expected, name)
        assert np.abs(value - other).max() < DIFFERENCES * max(1.0, np.abs(other).max()), name


def reach(module: Any, robot: gridgen.Robot, link: str) -> Any:
    return module.Reach(robot, link, np.array([0.3, 0.1, 0.4]), 10.0, 1e-2, 1e-3)


def test_derivatives_of_an_arm(module: Any) -> None:
    robot = gridgen.load(OWN / "arm6.urdf")
    cost = reach(module, robot, robot.frame_names[-1])
    trajectory = module.Trajectory(robot, cost, cost, 3, DT)
    rng = np.random.default_rng(0)
    for node in trajectory.models[:-1]:
        compare_with_differences(node, rng.normal(size=2 * robot.nv), rng.normal(size=robot.nv))


def test_derivatives_of_a_floating_robot(module: Any) -> None:
    """On the manifold of Crocoddyl's own states; a cost of efforts alone."""
    robot = gridgen.load(OWN / "quadruped.urdf", floating_base=True)
    with pytest.raises(ValueError, match="quaternions"):
        module.Trajectory(robot, None, None, 2, DT)
    model = pinocchio.buildModelFromUrdf(
        str(OWN / "quadruped.urdf"), pinocchio.JointModelFreeFlyer()
    )
    state = crocoddyl.StateMultibody(model)

    class Effort:
        def values(self, x: np.ndarray, tau: np.ndarray | None) -> np.ndarray:
            return np.zeros(len(x)) if tau is None else 0.5 * (tau**2).sum(axis=1)

        def derivatives(self, x: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, ...]:
            count, nv = tau.shape
            square = np.zeros((count, 2 * nv, 2 * nv))
            return np.zeros((count, 2 * nv)), tau, square, np.tile(np.eye(nv), (count, 1, 1))

    trajectory = module.Trajectory(robot, Effort(), Effort(), 2, DT, state)
    rng = np.random.default_rng(1)
    for node in trajectory.models[:-1]:
        x = state.integrate(state.zero(), 0.5 * rng.normal(size=state.ndx))
        compare_with_differences(node, x, rng.normal(size=robot.nv))


def test_the_solution_is_that_of_pinocchio(module: Any) -> None:
    """Every iterate too; and all nodes' derivatives are one call."""
    urdf, nodes = OWN / "arm6.urdf", 25
    robot = gridgen.load(urdf)
    cost = reach(module, robot, robot.frame_names[-1])
    final = module.Reach(robot, cost.link, cost.target, 1e3, 1.0)
    x0 = np.zeros(2 * robot.nv)
    trajectory = module.Trajectory(robot, cost, final, nodes, DT)
    calls, linearize = [], trajectory.linearize
    trajectory.linearize = lambda: calls.append(1) or linearize()
    trajectory.linearize_one = None
    solver = module.solve(trajectory.problem(x0), 30)
    other = module.solve(module.pinocchio_problem(urdf, cost, final, nodes, DT, x0), 30)
    assert solver.iter == other.iter
    assert 3 < len(calls) <= solver.iter + 1
    np.testing.assert_allclose(solver.xs, other.xs, atol=1e-6)
    assert abs(solver.cost - other.cost) < 1e-9 * other.cost


def test_a_node_is_right_whatever_was_asked_before(module: Any) -> None:
    """Derivatives at a state that is not the node's last one, and after others have changed."""
    robot = gridgen.load(OWN / "two_link.urdf")
    cost = reach(module, robot, "tip")
    trajectory = module.Trajectory(robot, cost, cost, 2, DT)
    rng = np.random.default_rng(2)
    first, second = trajectory.models[:2]
    (x, u), (y, v) = ((rng.normal(size=4), rng.normal(size=2)) for _ in range(2))
    data, again, fresh = first.createData(), first.createData(), first.createData()
    first.calc(data, x, u)
    first.calcDiff(data, x, u)
    second.calc(second.createData(), y, v)
    second.calcDiff(second.createData(), y, v)
    first.calcDiff(again, y, v)
    first.calc(fresh, y, v)
    first.calcDiff(fresh, y, v)
    np.testing.assert_allclose(again.Fx, fresh.Fx, atol=1e-14)
    np.testing.assert_allclose(again.Lx, fresh.Lx, atol=1e-14)
    assert np.abs(again.Fx - data.Fx).max() > 1e-4


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", ["arm7", "quadruped in flight", "quadruped on its feet"])
def test_ilqr_finds_the_same_minima(case: str) -> None:
    benchmark = runpy.run_path(str(OWN.parent / "benchmarks" / "ilqr.py"))
    if benchmark["CASES"][case][2] and not benchmark["has_contacts"]():
        pytest.skip("Crocoddyl was compiled for another release of Pinocchio")
    for dtype in ("float32", "float64"):
        row = benchmark["measure"](case, 3, 1, dtype)
        assert row["converged"] == row["same_minimum"] == row["compared"] == 3
