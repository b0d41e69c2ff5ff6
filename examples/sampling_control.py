"""Control an arm by sampling: model predictive path integral control (MPPI).

    python examples/sampling_control.py [--urdf robots/arm7.urdf] [--samples 4096] [--steps 150]

In every step of control, many random ways of the joints are tried in one rollout each: a controller
inside the kernel follows them within the limits of the efforts. Those by which the hand comes close
to the target count most in the mean, whose first step the arm makes (Williams et al. 2017).
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gridgen

Array = NDArray[np.float32]
ROOT = Path(__file__).resolve().parents[1]
#: Steps that are looked ahead, and the length of each [s].
HORIZON, DT = 64, 0.01
#: The poses of every so many steps are looked at.
LOOK = 8
#: Deviation of the joints' random ways [rad], and what decides how much better ways count more [m].
DEVIATION, TEMPERATURE = 0.15, 0.01
#: Of the controller that follows a way, for a unit of each joint's inertia [1/s^2, 1/s].
STIFFNESS, DAMPING = np.float32(100.0), np.float32(20.0)
#: The hand has arrived within this distance [m], at this speed of every joint [rad/s].
NEAR, SLOW = 0.01, 0.3


@dataclass
class Result:
    """What a run of control did.

    Attributes:
        distances: from hand to target after each step of control [m].
        rate:      steps of states that were rolled out in a second.
    """

    distances: list[float]
    rate: float


class Controller:
    """MPPI for the hand of an arm.

    Args:
        robot:   the arm.
        hand:    the link that shall arrive.
        target:  where, in the base's frame [m].
        samples: ways that are tried in every step of control.
        rng:     the source of randomness.
    """

    def __init__(
        self,
        robot: gridgen.Robot,
        hand: str,
        target: Array,
        samples: int,
        rng: np.random.Generator,
    ) -> None:
        self._robot, self._hand, self._target, self._rng = robot, hand, target, rng
        self._shape = (samples, HORIZON, robot.nv)
        M = robot.mass_matrix(robot.neutral(like=target))
        self.gains = np.hstack([STIFFNESS * np.diag(np.diag(M)), DAMPING * np.diag(np.diag(M))])
        self.way: Array = np.zeros((0, robot.nv), np.float32)
        self.seconds = 0.0

    def position(self, q: Array) -> Array:
        """Return where the hand is (..., 3)."""
        place: Array = self._robot.forward_kinematics(q, [self._hand])[..., 0, :3, 3]
        return place

    def step(self, q: Array, qd: Array) -> Array:
        """Return the positions (nq) that the joints shall move to now."""
        robot = self._robot
        if not len(self.way):
            self.way = np.tile(q, (HORIZON, 1))
        ways = self.way + self._noise()
        tau = np.broadcast_to(robot.gravity_forces(q), (HORIZON, robot.nv))
        states = (np.tile(x, (len(ways), 1)) for x in (q, qd))
        begin = time.perf_counter()
        path, speed = robot.rollout(
            *states,
            tau,
            DT,
            keep=LOOK,
            integrator="implicit",
            feedback=(self.gains, ways, np.zeros(robot.nv, np.float32)),
            effort_limits=True,
        )
        self.seconds += time.perf_counter() - begin
        away = np.linalg.norm(self.position(path[:, 1:]) - self._target, axis=-1)
        cost = away.mean(axis=1) + away[:, -1] + 0.01 * np.square(speed[:, -1]).sum(axis=-1)
        weights = np.exp((cost.min() - cost) / TEMPERATURE)
        mean = np.einsum("i,itj->tj", weights / weights.sum(), ways)
        self.way = np.concatenate([mean[1:], mean[-1:]]).astype(np.float32)
        chosen: Array = mean[0].astype(np.float32)
        return chosen

    def _noise(self) -> Array:
        """Return random ways (samples, T, nv) that begin at zero and have no corners."""
        samples, steps, joints = self._shape
        ends = self._rng.normal(size=(samples, 2, joints)).astype(np.float32)
        u = np.linspace(0.0, 1.0, steps, dtype=np.float32)
        basis = np.stack([np.sin(0.5 * np.pi * u), np.sin(np.pi * u)], axis=1)
        noise = DEVIATION * np.einsum("tk,ikj->itj", basis, ends)
        noise[0] = 0.0  # the mean itself is tried too
        return noise


def control(
    robot: gridgen.Robot, samples: int, steps: int, seed: int = 0, log: bool = False
) -> Result:
    """Move the hand of an arm to a random point that it can reach.

    Args:
        robot:   the arm.
        samples: ways that are tried in every step of control.
        steps:   steps of control at most.
        seed:    of all that is random.
        log:     whether to print what happens.
    """
    rng = np.random.default_rng(seed)
    q = robot.neutral().astype(np.float32)
    qd = np.zeros(robot.nv, np.float32)
    hand = robot.frame_names[-1]
    reached = robot.random_configuration(rng, 1).astype(np.float32)
    target = robot.forward_kinematics(reached, [hand])[0, 0, :3, 3]
    controller = Controller(robot, hand, target, samples, rng)
    distances = []
    for count in range(steps):
        wanted = controller.step(q, qd)
        way = controller.gains @ np.concatenate([wanted - q, -qd])
        limits = np.array(robot.effort_limits, np.float32)
        tau = np.clip(robot.gravity_forces(q) + way, -limits, limits)
        q, qd = robot.step(q, qd, tau, DT, integrator="implicit")
        distances.append(float(np.linalg.norm(controller.position(q) - target)))
        if log and count % 10 == 0:
            print(f"{DT * count:5.2f} s: {1e3 * distances[-1]:6.1f} mm from the target")
        if distances[-1] < NEAR and np.abs(qd).max() < SLOW:
            break
    return Result(distances, samples * HORIZON * len(distances) / controller.seconds)


def main() -> None:
    """Control the arm that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--urdf", default=str(ROOT / "robots" / "arm7.urdf"))
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    robot = gridgen.load(options.urdf, joint_dynamics=True)
    result = control(robot, options.samples, options.steps, log=True)
    print(
        f"{1e3 * result.distances[-1]:.1f} mm from the target after "
        f"{DT * len(result.distances):.2f} s; {result.rate / 1e6:.1f} million steps of the arm "
        f"rolled out in a second, {options.samples} ways of {HORIZON} steps each time"
    )


if __name__ == "__main__":
    main()
