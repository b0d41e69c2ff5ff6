"""``gridgen.ilqr`` beside Crocoddyl: the same problems, their minima and the time for a batch.

    python benchmarks/ilqr.py [--batch 256] [--repeats 3] [--output benchmarks/results/ilqr.csv]

An arm and a floating quadruped in flight change their postures. Crocoddyl's C++ solver
FDDP solves one problem after the other in one thread. Its rate is multiplied by the number of
cores, as if it scaled ideally. Both start from zero torques. There is no gravity: the releases
3.2.1 of Crocoddyl and 4.1 of Pinocchio, installed together, lose it.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import gridgen

ROBOTS = Path(__file__).resolve().parents[1] / "robots"
DT = 0.01
#: Weights of the running costs per second, and of the final state.
STATE, EFFORT, END_STATE = 1.0, 1e-2, 1e2


class Problem:
    """One robot's problems, for both solvers.

    Args:
        name:     robot of ``robots``.
        floating: whether it flies.
        steps:    number of steps.
        batch:    number of problems: initial states.
    """

    def __init__(self, name: str, floating: bool, steps: int, batch: int) -> None:
        import pinocchio

        self.file, self.floating = ROBOTS / f"{name}.urdf", floating
        self.steps = steps
        robot = self.robot = gridgen.load(self.file, floating_base=floating)
        rng = np.random.default_rng(0)
        nv = robot.nv
        self.goal = robot.neutral()
        self.q0 = robot.integrate(
            np.tile(self.goal, (batch, 1)), rng.uniform(-0.5, 0.5, (batch, nv))
        )
        self.qd0 = np.zeros((batch, nv))
        root = [pinocchio.JointModelFreeFlyer()] if floating else []
        self.model = pinocchio.buildModelFromUrdf(str(self.file), *root)
        self.model.armature[:] = 0.0
        self.model.gravity.linear = np.zeros(3)

    def solve(self) -> gridgen.IlqrResult:
        """Solve all problems by ``gridgen.ilqr``."""
        nv, Cost = self.robot.nv, gridgen.Cost
        costs = [
            Cost("q", STATE * DT, END_STATE, self.goal),
            Cost("qd", STATE * DT, END_STATE),
            Cost("tau", EFFORT * DT),
        ]
        assert nv == self.model.nv
        return gridgen.ilqr(
            self.robot,
            costs,
            self.q0,
            self.qd0,
            T=self.steps,
            dt=DT,
            effort_limits=False,
            tolerance=1e-7,
            gravity=np.zeros(3),
        )

    def peer(self, index: int) -> Any:
        """Return Crocoddyl's solver of one problem, and its first guess."""
        import crocoddyl

        model = self.model
        state = crocoddyl.StateMultibody(model)
        full = (
            crocoddyl.ActuationModelFloatingBase if self.floating else crocoddyl.ActuationModelFull
        )
        actuation = full(state)
        target = np.concatenate([self.goal, np.zeros(model.nv)])
        x = crocoddyl.ResidualModelState(state, target, actuation.nu)
        u = crocoddyl.ResidualModelControl(state, actuation.nu)
        running, final = (crocoddyl.CostModelSum(state, actuation.nu) for _ in range(2))
        running.addCost("x", crocoddyl.CostModelResidual(state, x), STATE)
        running.addCost("u", crocoddyl.CostModelResidual(state, u), EFFORT)
        final.addCost("x", crocoddyl.CostModelResidual(state, x), END_STATE)
        nodes = [
            crocoddyl.IntegratedActionModelEuler(
                crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, cost), dt
            )
            for cost, dt in ((running, DT), (final, 0.0))
        ]
        begin = np.concatenate([self.q0[index], self.qd0[index]])
        problem = crocoddyl.ShootingProblem(begin, [nodes[0]] * self.steps, nodes[1])
        problem.nthreads = 1
        solver = crocoddyl.SolverFDDP(problem)
        solver.th_stop = 1e-7
        us = [np.zeros(actuation.nu) for _ in range(self.steps)]
        zero = np.zeros((self.steps, self.robot.nv))
        states = self.robot.rollout(self.q0[index], self.qd0[index], zero, DT, gravity=np.zeros(3))
        xs = [*np.concatenate(states, axis=-1)]
        self.kept = (state, actuation, nodes, problem)  # which the solver does not own
        return solver, xs, us


CASES = {
    "arm7": ("arm7", False, 100),
    "quadruped in flight": ("quadruped", True, 50),
}


def measure(name: str, batch: int, repeats: int, peers: int = 16) -> dict[str, Any]:
    """Return times and minima of one case; calls of both solvers alternate."""
    problem = Problem(*CASES[name], batch)
    found = problem.solve()
    own, other, costs, passes = [], [], [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        found = problem.solve()
        own.append(time.perf_counter() - begin)
        costs, passes, spent = [], [], 0.0
        for index in range(min(peers, batch)):
            solver, xs, us = problem.peer(index)
            begin = time.perf_counter()
            solver.solve(xs, us, 200)
            spent += time.perf_counter() - begin
            costs.append(solver.cost)
            passes.append(solver.iter + 1)
        other.append(spent / len(costs))
    cores = len(os.sched_getaffinity(0))
    difference = np.abs(found.cost[: len(costs)] / costs - 1.0)
    rate, peer_rate = batch / min(own), cores / min(other)
    return {
        "case": name,
        "batch": batch,
        "cores": cores,
        "problems_per_s": rate,
        "crocoddyl_problems_per_s": peer_rate,
        "ratio": rate / peer_rate,
        "converged": int(found.converged.sum()),
        "same_minimum": int((difference < 1e-3).sum()),
        "compared": len(costs),
        "iterations": float(found.iterations.mean()),
        "crocoddyl_iterations": float(np.mean(passes)),
    }


def main() -> None:
    """Measure all cases, print them and write them as data."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows = [measure(name, options.batch, options.repeats) for name in CASES]
    for row in rows:
        print(json.dumps(row))
    if options.output:
        with options.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
