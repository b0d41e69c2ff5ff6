"""Thousands of quadrupeds that stand on springy ground: a batch environment with a floating base.

    python examples/batch_environment.py [--robots 1024] [--seconds 1.0]

An environment as learning libraries expect it: ``reset`` gives observations, ``step`` takes wanted
positions of the joints and gives observations, rewards and which robots have fallen. The ground
pushes feet by springs and dampers, as external forces; everything else is one call of ``step`` for
all robots. Forward kinematics and Jacobians of the feet alone are computed in one kernel.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gridgen

Array = NDArray[np.float32]
ROOT = Path(__file__).resolve().parents[1]
#: Of the ground: stiffness [N/m], damping [N s/m], friction as viscous force up to a cone.
STIFFNESS, DAMPING, FRICTION, SLIP = 8000.0, 80.0, 0.8, 150.0
#: Of the joints: gains [N m/rad, N m s/rad].
GAIN, LOSS = 60.0, 1.5
#: Steps of physics in a step of control, and their length [s].
SUBSTEPS, DT = 10, 1e-3
#: A robot stands like this: joints of each leg [rad]; it has fallen below this height [m].
STANCE, FALLEN = (0.0, 0.8, -1.6), 0.15


class Standing:
    """A batch of quadrupeds.

    Args:
        urdf:   the robot; its feet are the links whose names end with ``foot``.
        robots: how many.
        rng:    the source of randomness.
    """

    def __init__(self, urdf: Path, robots: int, rng: np.random.Generator) -> None:
        self.robot = gridgen.load(urdf, floating_base=True)
        self.rng, self.count = rng, robots
        self.feet = [name for name in self.robot.frame_names if name.endswith("foot")]
        bodies = [self._carrier(foot) for foot in self.feet]
        self.bodies = np.array(bodies)
        self.limits = np.array(self.robot.effort_limits[6:], np.float32)
        self.q = np.zeros((robots, self.robot.nq), np.float32)
        self.qd = np.zeros((robots, self.robot.nv), np.float32)
        self.f_ext = np.zeros((robots, len(self.robot.body_names), 6), np.float32)
        self.tau = np.zeros_like(self.qd)

    def _carrier(self, foot: str) -> int:
        """Return the body that a foot is fixed to: the one before it in depth-first order."""
        frames = self.robot.frame_names
        before = frames[: frames.index(foot)]
        return max(
            self.robot.body_names.index(name) for name in before if name in self.robot.body_names
        )

    def reset(self, fallen: NDArray[np.bool_] | slice = slice(None)) -> Array:
        """Put robots, all by default, on their feet above the ground; return all states."""
        count = len(self.q[fallen])
        stance = np.tile(np.array(STANCE, np.float32), 4)
        self.q[fallen] = np.concatenate([[0.0, 0.0, 0.34, 0.0, 0.0, 0.0, 1.0], stance])
        self.q[fallen, 7:] += 0.05 * self.rng.standard_normal((count, 12), np.float32)
        self.qd[fallen] = 0.0
        return self.observations()

    def observations(self) -> Array:
        """Return positions and velocities, (robots, nq + nv)."""
        return np.concatenate([self.q, self.qd], axis=1)

    def step(self, targets: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Let the joints seek targets for one step of control.

        Args:
            targets: (robots, 12) wanted positions of the joints [rad].

        Returns:
            observations, rewards (robots,): how level and high a trunk is, and who has fallen.
        """
        for _ in range(SUBSTEPS):
            self._push()
            efforts = GAIN * (targets - self.q[:, 7:]) - LOSS * self.qd[:, 6:]
            self.tau[:, 6:] = np.clip(efforts, -self.limits, self.limits)
            self.q, self.qd = self.robot.step(self.q, self.qd, self.tau, DT, f_ext=self.f_ext)
        height = self.q[:, 2]
        level = 1.0 - 2.0 * (self.q[:, 3] ** 2 + self.q[:, 4] ** 2)
        return self.observations(), level + height, height < FALLEN

    def _push(self) -> None:
        """Compute what the ground does to the feet, as wrenches on the bodies that carry them."""
        poses = self.robot.forward_kinematics(self.q, frames=self.feet)
        places = poses[:, :, :3, 3]
        J = self.robot.jacobian(self.q, self.feet, reference="local_world_aligned")
        velocity = np.einsum("bfij,bj->bfi", J[:, :, :3], self.qd)
        depth = np.maximum(-places[:, :, 2], 0.0)
        force = np.zeros_like(places)
        normal = np.where(depth > 0.0, STIFFNESS * depth - DAMPING * velocity[:, :, 2], 0.0)
        force[:, :, 2] = np.maximum(normal, 0.0)
        slip = -SLIP * velocity[:, :, :2]
        size = np.linalg.norm(slip, axis=2, keepdims=True)
        most = FRICTION * force[:, :, 2:]
        force[:, :, :2] = slip * np.minimum(1.0, most / np.maximum(size, 1e-6)) * (most > 0.0)
        # A foot has the axes of its body, and hangs at a place of it: the wrench is about its link.
        names = [self.robot.body_names[body] for body in self.bodies]
        frames = self.robot.forward_kinematics(self.q, frames=names)
        axes, arm = frames[:, :, :3, :3], places - frames[:, :, :3, 3]
        self.f_ext[:, self.bodies, :3] = np.einsum("bfji,bfj->bfi", axes, force)
        self.f_ext[:, self.bodies, 3:] = np.einsum("bfji,bfj->bfi", axes, np.cross(arm, force))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--urdf", type=Path, default=ROOT / "robots" / "quadruped.urdf")
    parser.add_argument("--robots", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    environment = Standing(arguments.urdf, arguments.robots, np.random.default_rng(0))
    environment.reset()
    targets = np.tile(np.array([*STANCE] * 4, np.float32), (arguments.robots, 1))
    environment.step(targets)  # compiles
    steps = round(arguments.seconds / (SUBSTEPS * DT))
    start = time.perf_counter()
    for _ in range(steps):
        _, rewards, fallen = environment.step(targets)
        if fallen.any():
            environment.reset(fallen)
    rate = arguments.robots * steps * SUBSTEPS / (time.perf_counter() - start)
    print(f"{rate:,.0f} steps of physics a second; mean reward {rewards.mean():.3f}")
    print(f"{fallen.sum()} of {len(fallen)} have fallen")


if __name__ == "__main__":
    main()
