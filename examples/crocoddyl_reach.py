"""Reach for a point with Crocoddyl's FDDP; the dynamics of all nodes are one batch.

    python examples/crocoddyl_reach.py [--urdf robots/arm7.urdf] [--nodes 100] [--peer]

Crocoddyl evaluates one action model after the other. ``Trajectory`` makes models that share arrays.
The rollout of a line search writes every node's state into them. The first node that must return
derivatives computes those of all nodes by one call of ``step_gradient``. With ``--peer`` the same
problem is also solved with Pinocchio's dynamics, called from Python node by node.
Needs the package ``crocoddyl``.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import crocoddyl
import numpy as np
from numpy.typing import NDArray

import gridgen

Array = NDArray[np.float64]
ROOT = Path(__file__).resolve().parents[1]


class Cost(Protocol):
    """Costs of a batch of states x = (q, qd) and torques; the last node has no torques."""

    def values(self, x: Array, tau: Array | None) -> Array:
        """Return the cost of each node, shape (B,)."""

    def derivatives(self, x: Array, tau: Array | None) -> tuple[Array, Array, Array, Array]:
        """Return Lx (B, 2 nv), Lu (B, nv), Lxx (B, 2 nv, 2 nv) and Luu (B, nv, nv)."""


@dataclass
class Reach:
    """Half the weighted squares of a link's distance from a point, of velocities and torques.

    Attributes:
        robot:    the robot.
        link:     name of the link.
        target:   desired position of its origin, in the world [m].
        distance: weight of the squared distance.
        state:    weight of the squared numbers of q and qd.
        effort:   weight of the squared torques.
    """

    robot: gridgen.Robot
    link: str
    target: Array
    distance: float = 10.0
    state: float = 1e-2
    effort: float = 1e-4

    def values(self, x: Array, tau: Array | None) -> Array:
        """Return the cost of each node."""
        places = self.robot.forward_kinematics(x[:, : self.robot.nq], [self.link])[:, 0, :3, 3]
        cost = self.distance * ((places - self.target) ** 2).sum(axis=1)
        cost += self.state * (x**2).sum(axis=1)
        if tau is not None:
            cost += self.effort * (tau**2).sum(axis=1)
        return 0.5 * cost

    def derivatives(self, x: Array, tau: Array | None) -> tuple[Array, Array, Array, Array]:
        """Return the derivatives; those of second order are Gauss and Newton's."""
        robot, (count, size), nv = self.robot, x.shape, self.robot.nv
        q = x[:, : robot.nq]
        error = robot.forward_kinematics(q, [self.link])[:, 0, :3, 3] - self.target
        J = robot.jacobian(q, self.link, reference="local_world_aligned")[:, :3]
        Lx = self.state * x
        Lx[:, :nv] += self.distance * np.einsum("bij,bi->bj", J, error)
        Lxx = np.tile(self.state * np.eye(size), (count, 1, 1))
        Lxx[:, :nv, :nv] += self.distance * J.transpose(0, 2, 1) @ J
        Luu = np.tile(self.effort * np.eye(nv), (count, 1, 1))
        Lu = np.zeros((count, nv)) if tau is None else self.effort * tau
        return Lx, Lu, Lxx, Luu


class Trajectory:
    """The nodes of a shooting problem, whose derivatives are computed as one batch.

    Args:
        robot: the robot; its joints have one coordinate each unless ``state`` is given.
        cost:  of the nodes but the last, and of the last.
        final: cost of the last node.
        nodes: number of steps.
        dt:    their length [s].
        state: the manifold of x = (q, qd); a vector space if it is not given. Pinocchio's
               ``StateMultibody`` has the coordinates of grid-gen's free joint.
    """

    def __init__(
        self,
        robot: gridgen.Robot,
        cost: Cost,
        final: Cost,
        nodes: int,
        dt: float,
        state: crocoddyl.StateAbstract | None = None,
    ) -> None:
        if state is None and robot.nq != robot.nv:
            raise ValueError(f"{robot.name} has quaternions; give its manifold as state=")
        self.robot, self.cost, self.final, self.nodes = robot, cost, final, nodes
        self.state = crocoddyl.StateVector(robot.nq + robot.nv) if state is None else state
        # Nodes without a state are at rest.
        self.x = np.tile(self.state.zero(), (nodes + 1, 1))
        self.tau = np.zeros((nodes, robot.nv))
        self.next = np.zeros((nodes, robot.nq + robot.nv))
        q, qd = self.x[:nodes, : robot.nq], self.x[:nodes, robot.nq :]
        next_q, next_qd = self.next[:, : robot.nq], self.next[:, robot.nq :]
        self.linearize = robot.bind("step_gradient", q, qd, self.tau, dt)
        each = (slice(node, node + 1) for node in range(nodes))
        self.steps = [
            robot.bind("step", q[n], qd[n], self.tau[n], dt, out=(next_q[n], next_qd[n]))
            for n in each
        ]
        self.single = [array[:1].copy() for array in (q, qd, self.tau)]
        self.linearize_one = robot.bind("step_gradient", *self.single, dt)
        self.changed = True
        self.models = [Node(self, index) for index in range(nodes + 1)]

    def problem(self, x0: Array) -> crocoddyl.ShootingProblem:
        """Return the shooting problem that begins with a state; it refers to the trajectory."""
        return crocoddyl.ShootingProblem(x0, self.models[:-1], self.models[-1])

    def refresh(self) -> None:
        """Compute the derivatives of all nodes, if a state or a torque has changed."""
        if self.changed:
            self.A, self.B = self.linearize()
            self.of_costs = self.cost.derivatives(self.x[:-1], self.tau)
            self.changed = False


class Node(crocoddyl.ActionModelAbstract):
    """One node of a trajectory.

    Args:
        trajectory: whose node it is.
        index:      its place; the last one has no step.
    """

    def __init__(self, trajectory: Trajectory, index: int) -> None:
        super().__init__(trajectory.state, trajectory.robot.nv)
        self.trajectory, self.index = trajectory, index

    def calc(self, data: Any, x: Array, u: Array | None = None) -> None:
        """Compute the next state and the cost."""
        every, n = self.trajectory, self.index
        if n == every.nodes or u is None:
            data.xnext, data.cost = x, float(every.final.values(x[None], None)[0])
            return
        every.x[n], every.tau[n], every.changed = x, u, True
        every.steps[n]()
        data.xnext, data.cost = every.next[n], float(every.cost.values(x[None], u[None])[0])

    def calcDiff(self, data: Any, x: Array, u: Array | None = None) -> None:
        """Compute the derivatives, those of the whole trajectory if this node is as in ``calc``."""
        every, n = self.trajectory, self.index
        if n == every.nodes or u is None:
            data.Lx, _, data.Lxx, _ = (array[0] for array in every.final.derivatives(x[None], None))
            return
        if np.array_equal(x, every.x[n]) and np.array_equal(u, every.tau[n]):
            every.refresh()
            found, at = (every.A, every.B, *every.of_costs), n
        else:
            nq = every.robot.nq
            for array, value in zip(every.single, (x[:nq], x[nq:], u), strict=True):
                array[0] = value
            found = (*every.linearize_one(), *every.cost.derivatives(x[None], u[None]))
            at = 0
        data.Fx, data.Fu, data.Lx, data.Lu, data.Lxx, data.Luu = (array[at] for array in found)


def solve(problem: crocoddyl.ShootingProblem, iterations: int = 100) -> crocoddyl.SolverFDDP:
    """Solve a problem from rest, with the same guess always."""
    solver = crocoddyl.SolverFDDP(problem)
    solver.th_stop = 1e-9
    guess = [problem.x0] * (problem.T + 1), [np.zeros(problem.runningModels[0].nu)] * problem.T
    solver.solve(*guess, iterations, False)
    return solver


class PinocchioNode(crocoddyl.ActionModelAbstract):
    """A node with Pinocchio's dynamics, one call from Python after the other.

    Args:
        model: the robot.
        cost:  of the node.
        dt:    length of its step [s]; 0 for the last node.
    """

    def __init__(self, model: Any, cost: Cost, dt: float) -> None:
        super().__init__(crocoddyl.StateVector(2 * model.nv), model.nv)
        self.model, self.data, self.cost, self.dt = model, model.createData(), cost, dt

    def calc(self, data: Any, x: Array, u: Array | None = None) -> None:
        """Compute the next state and the cost."""
        import pinocchio

        data.xnext, nv = x, self.model.nv
        if self.dt:
            qdd = pinocchio.aba(self.model, self.data, x[:nv], x[nv:], u)
            qd = x[nv:] + self.dt * qdd
            data.xnext = np.concatenate([x[:nv] + self.dt * qd, qd])
        efforts = u[None] if self.dt else None
        data.cost = float(self.cost.values(x[None], efforts)[0])

    def calcDiff(self, data: Any, x: Array, u: Array | None = None) -> None:
        """Compute the derivatives."""
        import pinocchio

        efforts, nv, dt = (u[None] if self.dt else None), self.model.nv, self.dt
        found = self.cost.derivatives(x[None], efforts)
        data.Lx, data.Lu, data.Lxx, data.Luu = (array[0] for array in found)
        if dt:
            changes = pinocchio.computeABADerivatives(self.model, self.data, x[:nv], x[nv:], u)
            by_q, by_qd, by_tau = (dt * change for change in changes)
            one = np.eye(nv)
            by_qd += one
            data.Fx = np.block([[one + dt * by_q, dt * by_qd], [by_q, by_qd]])
            data.Fu = np.vstack([dt * by_tau, by_tau])


def pinocchio_problem(
    urdf: Path, cost: Cost, final: Cost, nodes: int, dt: float, x0: Array
) -> crocoddyl.ShootingProblem:
    """Return the same problem with Pinocchio's dynamics."""
    import pinocchio

    model = pinocchio.buildModelFromUrdf(str(urdf))
    running = [PinocchioNode(model, cost, dt) for _ in range(nodes)]
    return crocoddyl.ShootingProblem(x0, running, PinocchioNode(model, final, 0.0))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--urdf", type=Path, default=ROOT / "robots" / "arm7.urdf")
    parser.add_argument("--link", default="hand")
    parser.add_argument("--target", type=float, nargs=3, default=[0.4, 0.2, 0.6])
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--peer", action="store_true", help="also solve with Pinocchio's dynamics")
    arguments = parser.parse_args()
    robot = gridgen.load(arguments.urdf)
    cost = Reach(robot, arguments.link, np.array(arguments.target))
    final = Reach(robot, arguments.link, np.array(arguments.target), 1e3, 1.0)
    x0 = np.concatenate([robot.neutral(), np.zeros(robot.nv)])
    trajectory = Trajectory(robot, cost, final, arguments.nodes, 0.01)
    problems = {"grid-gen": trajectory.problem(x0)}
    if arguments.peer:
        words = arguments.urdf, cost, final, arguments.nodes, 0.01, x0
        problems["Pinocchio"] = pinocchio_problem(*words)
    for name, problem in problems.items():
        solve(problem, 1)  # compiles
        start = time.perf_counter()
        solver = solve(problem)
        seconds = time.perf_counter() - start
        place = robot.forward_kinematics(solver.xs[-1][: robot.nq], arguments.link)[:3, 3]
        print(
            f"{name}: {solver.iter} iterations in {1e3 * seconds:.0f} ms, cost {solver.cost:.6f}, "
            f"{1e3 * np.linalg.norm(place - cost.target):.2f} mm from the target"
        )


if __name__ == "__main__":
    main()
