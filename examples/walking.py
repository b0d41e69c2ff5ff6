"""Make a quadruped walk by sampling-based control (MPPI); MuJoCo simulates the robot.

    python examples/walking.py [--command 0.5 0 0] [--seconds 5] [--clip walk.gif]

Every 20 ms the controller tries 1,024 trajectories of the servos' targets over 25 steps, with
contacts and effort limits. The cost is the deviation from a velocity of the trunk and from the
heights of the feet in a trot. The samples determine where the feet step. A plan begins with the
targets that the robot tracks during its computation. Needs the packages ``mujoco`` and ``pillow``;
``--plant own`` simulates by grid-gen.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import plants
import quadruped
from mppi import MPPI, Array

import gridgen

#: Steps of a rollout and the time of each [s]; steps that the robot tracks until the next plan.
HORIZON, DT, AHEAD = 25, 0.01, 2
#: Knots of a trajectory, deviation of the targets there [rad], temperature of the weights.
KNOTS, DEVIATION, TEMPERATURE = 5, 0.15, 0.05
#: Weights of the cost.
VELOCITY, TURN, HEIGHT, LEVEL, SPIN, FEET, POSTURE = 10.0, 1.0, 40.0, 20.0, 0.05, 100.0, 0.5


class Walker:
    """MPPI of a walking quadruped.

    Args:
        robot:   with ``ground``.
        command: forward and lateral velocity [m/s], yaw rate [rad/s].
        samples: rollouts for each plan.
        seed:    of the random numbers.
    """

    def __init__(
        self, robot: gridgen.Robot, command: Sequence[float], samples: int, seed: int = 0
    ) -> None:
        self.robot, self.command, self.time = robot, np.array(command, np.float32), 0.0
        self.height = quadruped.standing(robot)[2]
        plan = np.tile(quadruped.STANCE, (HORIZON, 1))
        knots = np.linspace(0, KNOTS - 1, HORIZON - AHEAD)[:, None] - np.arange(KNOTS)
        basis = np.zeros((HORIZON, KNOTS), np.float32)  # zero as long as the plan before is tracked
        basis[AHEAD:] = np.maximum(0.0, 1.0 - abs(knots))
        self.mppi = MPPI(
            robot, plan, basis, DEVIATION, TEMPERATURE, samples,
            self.cost, DT, seed,
        )  # fmt: skip

    def cost(self, q: Array, qd: Array) -> Array:
        """Return the cost of rollouts, (samples,)."""
        q, qd = q[:, 1:], qd[:, 1:]
        times = self.time + DT * np.arange(1, HORIZON + 1, dtype=np.float32)
        feet = self.robot.forward_kinematics(q, quadruped.FEET)[..., 2, 3]
        errors = (
            (VELOCITY, qd[..., :2] - self.command[:2]),
            (TURN, qd[..., 5:6] - self.command[2:]),
            (HEIGHT, q[..., 2:3] - self.height),
            (LEVEL, q[..., 3:5]),
            (SPIN, qd[..., 3:5]),
            (FEET, feet - quadruped.foot_heights(times)),
            (POSTURE, q[..., 7:] - quadruped.STANCE),
        )
        cost: Array = sum(weight * np.einsum("bti,bti->b", x, x) for weight, x in errors) / HORIZON
        return cost

    def step(self, q: Array, qd: Array) -> Array:
        """Return targets of the servos for the next AHEAD steps; plan for the time after them."""
        targets = self.mppi.plan[:AHEAD]
        self.mppi.update(q, qd)
        self.mppi.shift(AHEAD)
        self.time += AHEAD * DT
        return targets


def main(arguments: list[str] | None = None) -> Array:
    """Walk, print how well, and return the trunk's velocity and height, (steps, 4)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--urdf", type=Path, default=quadruped.URDF, help="of a quadruped")
    parser.add_argument("--command", type=float, nargs=3, default=quadruped.COMMAND, metavar="V",
                        help="forward and lateral velocity [m/s], yaw rate [rad/s]")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--plant", choices=("mujoco", "own"), default="mujoco")
    parser.add_argument("--seed", type=int, default=0, help="of the samples")
    parser.add_argument("--clip", help="GIF to write, from MuJoCo's pictures")
    options = parser.parse_args(arguments)
    robot = quadruped.load(options.urdf)
    plant = plants.PLANTS[options.plant](robot, options.urdf)
    walker = Walker(robot, options.command, options.samples, options.seed)
    states = quadruped.walk(
        plant, walker.step, AHEAD * DT, options.seconds, options.command, options.clip
    )
    ms = 1e3 * np.quantile(walker.mppi.seconds[1:], (0, 0.5, 0.95))  # the first one compiles
    size = f"{options.samples} rollouts of {HORIZON} steps"
    print("{}: least {:.1f} ms, median {:.1f} ms, 95 % within {:.1f} ms".format(size, *ms))
    return states


if __name__ == "__main__":
    main()
