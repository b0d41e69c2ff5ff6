"""Swing an arm up with motors that cannot lift it: iterative LQR (iLQR) within limits of effort.

    python examples/swing_up.py [--share 0.15] [--seconds 3] [--iterations 100]

The arm hangs and shall stand, but its motors have a share of the efforts of the file: too little to
hold the stretched arm out. Every iteration linearizes all steps of the motion in one batch, goes
back through them for a change of the efforts and for gains (a Riccati recursion that knows the
limits, Tassa, Mansard and Todorov 2014), and tries many sizes of that change in one batch of
rollouts, with the gains inside the kernel. Second derivatives of the steps are left out, which is
the method of Gauss and Newton.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

import gridgen

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
ARM = Path(__file__).resolve().parents[1] / "robots" / "arm6.urdf"
#: The arm hangs, and shall stand [rad].
HANGING = np.array([0.0, -0.5 * np.pi, 0.0, 0.0, 0.0, 0.0])
STANDING = -HANGING
#: Length of a step of time [s].
DT = 0.02
#: Sizes of a change that are tried.
SIZES = np.sqrt(0.5) ** np.arange(16)
#: Weights of positions and velocities, on the way and at the end; of efforts as parts of limits.
WAY, END, EFFORT = (0.1, 0.3), (300.0, 30.0), 0.3
#: Regularization, in units of the weights: the least, the first, the last, and the factor between.
LEAST, FIRST, LAST, FACTOR = 3e-4, 0.3, 1e6, 4.0
#: Changes of this size tell that the linearization holds so far.
TRUSTED = 0.25
#: It is done when an iteration takes away less than this part of the cost.
DONE = 5e-3


@dataclass
class Motion:
    """A motion of T steps.

    Attributes:
        q:    (T + 1, nq)
        qd:   (T + 1, nv)
        tau:  (T, nv), as they are applied.
        cost: what it costs.
        size: of the change that led to it.
    """

    q: Array
    qd: Array
    tau: Array
    cost: float = np.inf
    size: float = 1.0


@dataclass
class Result:
    """What the iterations did.

    Attributes:
        robot:   the arm, with its weak motors.
        motion:  the last.
        gains:   to follow it (T, nv, 2 nv).
        costs:   before the first iteration and after each that made them less.
        errors:  of the motion's first and last state (2, 2 nv), positions and velocities.
        passes:  iterations, and those that were tried again with more regularization.
        seconds: of all passes, by what was done.
    """

    robot: gridgen.Robot
    motion: Motion
    gains: Array
    costs: list[float]
    errors: Array
    passes: int
    seconds: dict[str, float]


def weakened(urdf: Path, share: float) -> str:
    """Return the text of an arm whose motors have a share of their efforts, and no dry friction."""
    root = ElementTree.parse(urdf).getroot()
    for limit in root.findall("joint/limit"):
        limit.set("effort", repr(share * float(limit.get("effort", "inf"))))
    for dynamics in root.findall("joint/dynamics"):
        dynamics.set("friction", "0")  # which has no derivative where a joint turns back
    return ElementTree.tostring(root, encoding="unicode")


def least_between(
    H: Array, g: Array, lower: Array, upper: Array, held: Array
) -> tuple[Array, Array]:
    """Return where g x + x H x / 2 is least between bounds, and by which of them x is held.

    What is held is guessed, and the guess mended until it is right (a primal-dual active set).

    Args:
        H:     (n, n)
        g:     (n)
        lower: (n)
        upper: (n)
        held:  the first guess (n): 1 for the upper bound, -1 for the lower, 0 for none.
    """
    for _ in range(2 * len(g)):
        free = held == 0
        x = np.where(held > 0, upper, np.where(held < 0, lower, 0.0))
        x[free] = np.linalg.solve(H[free][:, free], -(g + H @ x)[free])
        # Free ones stay between their bounds, others as long as they are driven against them.
        outside = 1 * (x > upper) - (x < lower)
        right = np.where(free, outside, held * (held * (g + H @ x) < 0.0))
        if (right == held).all():
            break
        held = right
    return np.clip(x, lower, upper), held


class Optimizer:
    """iLQR for an arm that shall stand still somewhere.

    Args:
        robot: the arm.
        goal:  where (nq).
    """

    def __init__(self, robot: gridgen.Robot, goal: Array) -> None:
        self._robot, self._goal = robot, goal
        self._limits = np.array(robot.effort_limits)
        self._end = np.repeat(END, robot.nv)
        # Those of the way are rates.
        self._way = DT * np.repeat(WAY, robot.nv)
        self._effort = DT * EFFORT / self._limits**2
        self.seconds: dict[str, float] = {}

    @contextmanager
    def _clock(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin

    def difference(self, q0: Array, qd0: Array, q1: Array, qd1: Array) -> Array:
        """Return the changes from states to others (..., 2 nv)."""
        return np.concatenate([self._robot.difference(q0, q1), qd1 - qd0], axis=-1)

    def errors(self, q: Array, qd: Array) -> Array:
        """Return by how much states miss the goal (..., 2 nv)."""
        return self.difference(self._goal, np.zeros(self._robot.nv), q, qd)

    def cost(self, q: Array, qd: Array, tau: Array) -> Array:
        """Return what motions cost (...)."""
        square = self.errors(q, qd) ** 2
        way = (square[..., :-1, :] @ self._way + tau**2 @ self._effort).sum(axis=-1)
        total: Array = 0.5 * (way + square[..., -1, :] @ self._end)
        return total

    def forward(self, motion: Motion, change: Array, gains: Array) -> Motion:
        """Return the motion of least cost among those of all sizes of a change.

        Args:
            motion: the present one, which is followed.
            change: of its efforts (T, nv).
            gains:  (T, nv, 2 nv)
        """
        q0, qd0 = (np.tile(x[0], (len(SIZES), 1)) for x in (motion.q, motion.qd))
        q_ref, qd_ref = motion.q[:-1], motion.qd[:-1]
        tau = motion.tau + SIZES[:, None, None] * change
        with self._clock("rollouts"):
            q, qd, tau = self._robot.rollout(
                q0,
                qd0,
                tau,
                DT,
                integrator="implicit",
                feedback=(gains, q_ref, qd_ref),
                effort_limits=True,
                return_efforts=True,
            )
        with self._clock("costs"), np.errstate(over="ignore", invalid="ignore"):
            costs = self.cost(q, qd, tau)
            costs[~np.isfinite(costs)] = np.inf
            i = int(costs.argmin())
        return Motion(q[i], qd[i], tau[i], float(costs[i]), float(SIZES[i]))

    def linearized(self, motion: Motion) -> tuple[Array, Array]:
        """Return the derivatives of all steps, A (T, 2 nv, 2 nv) and B (T, 2 nv, nv)."""
        with self._clock("linearization"):
            A, B = self._robot.rollout_gradient(
                motion.q, motion.qd, motion.tau, DT, integrator="implicit"
            )
        return A, B

    def backward(self, motion: Motion, A: Array, B: Array, near: float) -> tuple[Array, Array]:
        """Return how the efforts shall change (T, nv), and gains (T, nv, 2 nv).

        Args:
            motion: the present one.
            A:      its derivatives by the states.
            B:      those by the efforts.
            near:   what it costs to leave the present states, the regularization.
        """
        errors = self.errors(motion.q, motion.qd)
        change = np.zeros_like(motion.tau)
        gains = np.zeros((*change.shape, A.shape[-1]))
        lower, upper = -self._limits - motion.tau, self._limits - motion.tau
        W, R, N = (np.diag(w) for w in (self._way, self._effort, np.full(len(self._way), near)))
        # A state that deviates by x will cost v x + x V x / 2 more.
        v, V = self._end * errors[-1], np.diag(self._end)
        held = np.zeros(len(self._limits), int)
        with self._clock("Riccati"):
            for t in reversed(range(len(change))):
                kept = B[t].T @ (V + N)
                H = R + kept @ B[t]
                g = R @ motion.tau[t] + B[t].T @ v
                k, held = least_between(H, g, lower[t], upper[t], held)
                K, free = gains[t], held == 0
                K[free] = np.linalg.solve(H[free][:, free], (kept @ A[t])[free])
                change[t] = k
                # With the efforts tau + k - K x the state at the end changes so:
                closed, moved = A[t] - B[t] @ K, B[t] @ k
                v = W @ errors[t] + closed.T @ (v + V @ moved) - K.T @ R @ (motion.tau[t] + k)
                V = W + closed.T @ V @ closed + K.T @ R @ K
        return change, gains


def swing_up(share: float, seconds: float, iterations: int) -> Result:
    """Find efforts by which the hanging arm comes to stand, and print how that goes.

    Args:
        share:      of the efforts that the file allows.
        seconds:    for the motion.
        iterations: at most.
    """
    robot = gridgen.load(weakened(ARM, share), joint_dynamics=True)
    optimizer = Optimizer(robot, STANDING)
    steps = round(seconds / DT)
    q, rest = np.tile(HANGING, (steps + 1, 1)), np.zeros((steps + 1, robot.nv))
    gains = np.zeros((steps, robot.nv, 2 * robot.nv))
    motion = optimizer.forward(Motion(q, rest, rest[1:]), rest[1:], gains)
    A, B = optimizer.linearized(motion)
    optimizer.seconds.clear()  # that was compiling

    near, costs, passes = FIRST, [motion.cost], 0
    print(f"{'iteration':>9} {'cost':>10} {'error [rad]':>12} {'size':>6} {'regularization':>15}")
    print(f"{0:9} {motion.cost:10.3f} {worst(optimizer, motion):12.4f}")
    while len(costs) <= iterations and near < LAST:
        found = optimizer.forward(motion, *optimizer.backward(motion, A, B, near))
        passes += 1
        if found.cost >= motion.cost:
            near *= FACTOR
            continue
        saved, motion = motion.cost - found.cost, found
        print(
            f"{len(costs):9} {motion.cost:10.3f} {worst(optimizer, motion):12.4f} "
            f"{motion.size:6.3f} {near:15.1e}"
        )
        costs.append(motion.cost)
        A, B = optimizer.linearized(motion)
        trusted = motion.size >= TRUSTED
        if trusted and near <= FIRST and saved < DONE * motion.cost:
            break
        near = max(near / FACTOR, LEAST) if trusted else near * FACTOR
    spent = dict(optimizer.seconds)
    _, gains = optimizer.backward(motion, A, B, LEAST)
    ends = optimizer.errors(motion.q[[0, -1]], motion.qd[[0, -1]])
    return Result(robot, motion, gains, costs, ends, passes, spent)


def worst(optimizer: Optimizer, motion: Motion) -> float:
    """Return by how much a joint misses its goal at the end of a motion at most [rad]."""
    last = optimizer.errors(motion.q[-1:], motion.qd[-1:])[0]
    return float(np.abs(last[: len(last) // 2]).max())


def replayed(result: Result, substeps: int, factor: float) -> float:
    """Return by how much a joint misses its goal [rad] in finer steps than it was planned in.

    Args:
        result:   what was planned.
        substeps: of each step.
        factor:   of the gains.
    """
    robot, motion = result.robot, result.motion
    q, _ = robot.rollout(
        motion.q[0],
        motion.qd[0],
        motion.tau,
        DT,
        substeps=substeps,
        keep="last",
        integrator="implicit",
        feedback=(factor * result.gains, motion.q[:-1], motion.qd[:-1]),
        effort_limits=True,
    )
    return float(np.abs(robot.difference(STANDING, q)).max())


def main(arguments: list[str] | None = None) -> Result:
    """Swing the arm up, and print what that took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--share", type=float, default=0.15, help="of the efforts of the file")
    parser.add_argument("--seconds", type=float, default=3.0, help="of the motion")
    parser.add_argument("--iterations", type=int, default=100, help="at most")
    options = parser.parse_args(arguments)
    result = swing_up(options.share, options.seconds, options.iterations)

    robot, motion = result.robot, result.motion
    needed = np.abs(robot.gravity_forces(motion.q)).max(axis=0)
    joint = int((needed / robot.effort_limits).argmax())
    print(
        f"{robot.joint_names[joint]}: to hold the arm still takes up to {needed[joint]:.1f} N m on "
        f"the way, the motor gives {robot.effort_limits[joint]:.1f} N m"
    )
    position, velocity = np.abs(result.errors[1]).reshape(2, -1).max(axis=1)
    print(f"error at the end: {1e3 * position:.1f} mrad, {1e3 * velocity:.1f} mrad/s")
    without, with_gains = (replayed(result, 10, factor) for factor in (0.0, 1.0))
    print(
        f"in steps of {1e2 * DT:g} ms, with these efforts alone: {without:.2f} rad; "
        f"with the gains: {with_gains:.3f} rad"
    )
    total = sum(result.seconds.values())
    print(
        f"{len(result.costs) - 1} iterations, {result.passes} passes of "
        f"{1e3 * total / result.passes:.1f} ms each: "
        + ", ".join(f"{name} {100 * part / total:.1f} %" for name, part in result.seconds.items())
    )
    return result


if __name__ == "__main__":
    main()
