"""``gridgen.ilqr`` beside Crocoddyl: the same problems, their minima and the time for a batch.

    python benchmarks/ilqr.py [--batch 256] [--repeats 3] [--output benchmarks/results/ilqr.csv]

An arm, a quadruped in flight and a quadruped whose feet constraints hold change their postures.
Crocoddyl's C++ solver FDDP solves one problem after the other in one thread; ``ilqr`` solves all
in a call with all cores. Rates are those per second of processor time, so other work on the machine
and the number of cores do not favor either. Both start from zero torques. There is no gravity:
Crocoddyl 3.2.1 is compiled for Pinocchio 4.0. Beside Pinocchio 4.1 it loses gravity, and its
contacts end the process: the case that needs them is skipped. Install ``pin==4.0.0`` for it.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

import gridgen
from gridgen.functions.types import Dtype

ROBOTS = Path(__file__).resolve().parents[1] / "robots"
DT = 0.01
#: Weights of the running costs per second, and of the final state.
STATE, EFFORT, END_STATE = 1.0, 1e-2, 1e2
#: Damping of the feet's constraints [1/s], and the angles of a bent leg [rad].
DAMPING, BENT = 20.0, (0.0, 0.8, -1.6)


def has_contacts() -> bool:
    """Return whether Crocoddyl reads Pinocchio's models: it was compiled for this release."""
    import crocoddyl
    import pinocchio

    model = pinocchio.buildModelFromUrdf(str(ROBOTS / "arm7.urdf"))
    state, x = crocoddyl.StateMultibody(model), np.full(2 * model.nv, 0.1)
    cost = crocoddyl.CostModelSum(state, model.nv)
    motion = crocoddyl.DifferentialActionModelFreeFwdDynamics(
        state, crocoddyl.ActuationModelFull(state), cost
    )
    data, (q, qd) = motion.createData(), np.split(x, 2)
    motion.calc(data, x, np.zeros(model.nv))
    qdd = pinocchio.aba(model, model.createData(), q, qd, np.zeros(model.nv))
    return bool(np.allclose(data.xout, qdd))


class Problem:
    """One robot's problems, for both solvers.

    Args:
        name:     robot of ``robots``.
        floating: whether its base floats.
        feet:     links whose points constraints hold.
        steps:    number of steps.
        batch:    number of problems: initial states.
    """

    def __init__(
        self, name: str, floating: bool, feet: Sequence[str], steps: int, batch: int
    ) -> None:
        import pinocchio

        self.file, self.floating, self.feet = ROBOTS / f"{name}.urdf", floating, feet
        self.steps = steps
        held = [{"kind": "point", "link": foot, "stabilization": [0.0, DAMPING]} for foot in feet]
        robot = self.robot = gridgen.load(self.file, floating_base=floating, constraints=held)
        rng = np.random.default_rng(0)
        nv = robot.nv
        self.goal = robot.neutral()
        if feet:
            self.goal[-len(BENT) * len(feet) :] = np.tile(BENT, len(feet))
        spread = 0.2 if feet else 0.5
        self.q0 = robot.integrate(
            np.tile(self.goal, (batch, 1)), rng.uniform(-spread, spread, (batch, nv))
        )
        self.qd0 = np.zeros((batch, nv))
        root = [pinocchio.JointModelFreeFlyer()] if floating else []
        self.model = pinocchio.buildModelFromUrdf(str(self.file), *root)
        self.model.armature[:] = 0.0
        self.model.gravity.linear = np.zeros(3)

    def solve(self, dtype: Dtype) -> gridgen.IlqrResult:
        """Solve all problems by ``gridgen.ilqr``, with derivatives of a type."""
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
            dtype=dtype,
            gravity=np.zeros(3),
        )

    def peer(self, index: int) -> Any:
        """Return Crocoddyl's solver of one problem, and its first guess."""
        import crocoddyl
        import pinocchio

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
        contacts = crocoddyl.ContactModelMultiple(state, actuation.nu)
        for foot in self.feet:
            at, axes = model.getFrameId(foot), pinocchio.LOCAL_WORLD_ALIGNED
            gains = np.array([0.0, DAMPING])
            contact = crocoddyl.ContactModel3D(state, at, np.zeros(3), axes, actuation.nu, gains)
            contacts.addContact(foot, contact)

        def motion(cost: Any) -> Any:
            if self.feet:
                kind = crocoddyl.DifferentialActionModelContactFwdDynamics
                return kind(state, actuation, contacts, cost)
            return crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, cost)

        nodes = [
            crocoddyl.IntegratedActionModelEuler(motion(cost), dt)
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
        self.kept = (state, actuation, contacts, nodes, problem)  # which the solver does not own
        return solver, xs, us


FEET = tuple(f"{leg}_foot" for leg in ("FL", "FR", "RL", "RR"))
CASES = {
    "arm7": ("arm7", False, (), 100),
    "quadruped in flight": ("quadruped", True, (), 50),
    "quadruped on its feet": ("quadruped", True, FEET, 50),
}


def measure(
    name: str,
    batch: int,
    repeats: int,
    dtype: Dtype = "float64",
    peers: int = 16,
) -> dict[str, Any]:
    """Return times and minima of one case; calls of both solvers alternate."""
    problem = Problem(*CASES[name], batch)
    problem.solve(dtype)
    own, other, seconds, count = [], [], [], min(peers, batch)
    for _ in range(repeats):
        begin, wall = time.process_time(), time.perf_counter()
        found = problem.solve(dtype)
        own.append(time.process_time() - begin)
        seconds.append(time.perf_counter() - wall)
        costs, passes, spent = [], [], 0.0
        for index in range(count):
            solver, xs, us = problem.peer(index)
            begin = time.process_time()
            solver.solve(xs, us, 200)
            spent += time.process_time() - begin
            costs.append(solver.cost)
            passes.append(solver.iter + 1)
        other.append(spent / count)
    difference = np.abs(found.cost[:count] / costs - 1.0)
    rate, peer_rate = batch / min(own), 1.0 / min(other)
    return {
        "case": name,
        "dtype": dtype,
        "batch": batch,
        "seconds": min(seconds),
        "cores": len(os.sched_getaffinity(0)),
        "problems_per_core_s": rate,
        "crocoddyl_problems_per_core_s": peer_rate,
        "ratio": rate / peer_rate,
        "converged": int(found.converged.sum()),
        "same_minimum": int((difference < 1e-3).sum()),
        "compared": count,
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
    rows = []
    for name, case in CASES.items():
        if case[2] and not has_contacts():
            print(f"{name}: skipped, Crocoddyl was compiled for another release of Pinocchio")
            continue
        for dtype in get_args(Dtype):
            rows.append(measure(name, options.batch, options.repeats, dtype))
            print(json.dumps(rows[-1]))
    if options.output:
        with options.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
