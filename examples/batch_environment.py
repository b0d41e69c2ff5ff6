"""Thousands of quadrupeds that stand on springy ground: a vector environment of Gymnasium.

    python examples/batch_environment.py [--robots 1024] [--seconds 1.0]

``gymnasium.make_vec("gridgen/Quadruped-v0", num_envs=1024)`` is the batch, ``gymnasium.make`` one
robot of it. Actions are offsets of the joints from a stance, observations the pose and the velocity
of the trunk and of the joints. The ground pushes the feet by springs and dampers, as external
wrenches; everything else is one call of ``step`` for all robots. Needs the package ``gymnasium``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

import gridgen

Array = NDArray[np.float32]
Mask = NDArray[np.bool_]
ROOT = Path(__file__).resolve().parents[1]
QUADRUPED = ROOT / "robots" / "quadruped.urdf"
#: Ground: stiffness [N/m], damping [N s/m], friction coefficient, viscosity below it [N s/m].
STIFFNESS, DAMPING, FRICTION, SLIP = 8000.0, 80.0, 0.8, 150.0
#: Joint controller: gains [N m/rad, N m s/rad]; joint angle of an action of 1 [rad].
GAIN, LOSS, REACH = 60.0, 1.5, 0.6
#: Steps of physics in a step of control, and their length [s].
SUBSTEPS, DT = 10, 1e-3
#: Steps of control after which an episode is truncated.
EPISODE = 500
#: Joint angles of each leg in the stance [rad]; heights of the trunk that end an episode [m].
STANCE, HEIGHT, FALLEN, FLYING = (0.0, 0.8, -1.6), 0.34, 0.15, 1.0
#: Observations are clipped to this magnitude.
MOST = 100.0


class QuadrupedVectorEnv(VectorEnv[Array, Array, NDArray[Any]]):
    """A batch of quadrupeds.

    An episode terminates when the trunk is too low, too high or upside down, and is truncated after
    ``episode`` steps. The reward of a step says how level and how high the trunk is.

    Args:
        num_envs:       number of robots.
        urdf:           the robot; its feet are the links whose names end with ``foot``.
        episode:        steps of control after which an episode is truncated.
        autoreset_mode: when robots whose episode has ended are reset: in the next call of ``step``,
                        in the same, or by ``reset(options={"reset_mask": mask})``.
    """

    def __init__(
        self,
        num_envs: int = 1,
        urdf: Path = QUADRUPED,
        episode: int = EPISODE,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.robot = gridgen.load(urdf, floating_base=True)
        self.num_envs, self.episode = num_envs, episode
        self.metadata = {"render_modes": [], "autoreset_mode": autoreset_mode}
        joints = self.robot.nv - 6
        self.single_action_space = Box(-1.0, 1.0, (joints,), np.float32)
        # All but the position in the plane.
        size = self.robot.nq - 2 + self.robot.nv
        self.single_observation_space = Box(-MOST, MOST, (size,), np.float32)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

        self.feet = [name for name in self.robot.frame_names if name.endswith("foot")]
        self.bodies = np.array([self._carrier(foot) for foot in self.feet])
        carriers = [self.robot.body_names[body] for body in self.bodies]
        self.frames = [*self.feet, *carriers]
        self.stance = np.tile(np.array(STANCE, np.float32), joints // len(STANCE))
        self.limits = np.array(self.robot.effort_limits[6:], np.float32)
        self.q = np.zeros((num_envs, self.robot.nq), np.float32)
        self.qd = np.zeros((num_envs, self.robot.nv), np.float32)
        self.f_ext = np.zeros((num_envs, len(self.robot.body_names), 6), np.float32)
        self.tau = np.zeros_like(self.qd)
        self.steps = np.zeros(num_envs, np.int64)
        self.ended = np.zeros(num_envs, np.bool_)

    def _carrier(self, foot: str) -> int:
        """Return the body that a foot is fixed to: the one before it in depth-first order."""
        frames = self.robot.frame_names
        before = frames[: frames.index(foot)]
        return max(
            self.robot.body_names.index(name) for name in before if name in self.robot.body_names
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Put robots on their feet.

        Args:
            seed:    of the random numbers; they go on where they are if it is not given.
            options: ``reset_mask``, shape (num_envs,): the robots to reset; all by default.

        Returns:
            observations of all robots, shape (num_envs, n), and no infos.
        """
        super().reset(seed=seed)
        self._stand((options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_)))
        return self._observations(), {}

    def step(self, actions: Array) -> tuple[Array, NDArray[np.float64], Mask, Mask, dict[str, Any]]:
        """Let the joints seek targets for one step of control.

        Args:
            actions: offsets from the stance, shape (num_envs, joints), in units of ``REACH``.

        Returns:
            observations, rewards, terminations, truncations, infos. In the mode ``SAME_STEP`` the
            infos have the last observations of the episodes that have ended (``final_obs``).

        Raises:
            ValueError: a robot that must be reset has not been (mode ``DISABLED``).
        """
        mode = self.metadata["autoreset_mode"]
        again = self.ended.copy()
        if mode == AutoresetMode.DISABLED and again.any():
            raise ValueError("episodes have ended; call reset(options={'reset_mask': ended})")
        self._stand(again)
        fresh = self.q[again]
        self._simulate(self.stance + REACH * np.clip(actions, -1.0, 1.0))
        # A robot that this call resets shows how its episode begins.
        self.q[again], self.qd[again] = fresh, 0.0

        height = self.q[:, 2]
        level = 1.0 - 2.0 * (self.q[:, 3] ** 2 + self.q[:, 4] ** 2)
        rewards = np.where(again, 0.0, (level + height).astype(np.float64))
        terminations = ~again & ((height < FALLEN) | (height > FLYING) | (level < 0.0))
        self.steps += ~again
        truncations = ~terminations & (self.steps >= self.episode)
        self.ended = terminations | truncations
        infos: dict[str, Any] = {}
        if mode == AutoresetMode.SAME_STEP and self.ended.any():
            last, ended = self._observations(), self.ended
            infos["final_obs"] = np.full(self.num_envs, None, object)
            for robot in np.flatnonzero(ended):
                infos["final_obs"][robot] = last[robot]
            infos |= {"_final_obs": ended, "final_info": {}, "_final_info": ended.copy()}
            self._stand(ended)
        return self._observations(), rewards, terminations, truncations, infos

    def _stand(self, robots: Mask) -> None:
        """Put robots on their feet above the ground: an episode begins."""
        count = np.count_nonzero(robots)
        noise = self.np_random.standard_normal((count, len(self.stance)), np.float32)
        self.q[robots, :7] = (0.0, 0.0, HEIGHT, 0.0, 0.0, 0.0, 1.0)
        self.q[robots, 7:] = self.stance + 0.05 * noise
        self.qd[robots] = 0.0
        self.steps[robots] = 0
        self.ended = self.ended & ~robots

    def _observations(self) -> Array:
        """Return all but the position in the plane, and the velocity."""
        return np.clip(np.concatenate([self.q[:, 2:], self.qd], axis=1), -MOST, MOST)

    def _simulate(self, targets: Array) -> None:
        """Let the joints seek targets [rad] for one step of control."""
        for _ in range(SUBSTEPS):
            self._push()
            efforts = GAIN * (targets - self.q[:, 7:]) - LOSS * self.qd[:, 6:]
            self.tau[:, 6:] = np.clip(efforts, -self.limits, self.limits)
            self.q, self.qd = self.robot.step(self.q, self.qd, self.tau, DT, f_ext=self.f_ext)

    def _push(self) -> None:
        """Compute the ground's forces on the feet, as wrenches on the bodies that carry them."""
        poses = self.robot.forward_kinematics(self.q, frames=self.frames)
        feet, carriers = np.split(poses, 2, axis=1)
        places = feet[:, :, :3, 3]
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
        # Wrenches act at the origins of bodies, in their axes.
        axes, arm = carriers[:, :, :3, :3], places - carriers[:, :, :3, 3]
        self.f_ext[:, self.bodies, :3] = np.einsum("bfji,bfj->bfi", axes, force)
        self.f_ext[:, self.bodies, 3:] = np.einsum("bfji,bfj->bfi", axes, np.cross(arm, force))


class QuadrupedEnv(gymnasium.Env[Array, Array]):
    """One robot of the batch, for what takes no vector environment.

    Args:
        options: of ``QuadrupedVectorEnv``.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, **options: Any) -> None:
        self.batch = QuadrupedVectorEnv(1, autoreset_mode=AutoresetMode.DISABLED, **options)
        self.action_space = self.batch.single_action_space
        self.observation_space = self.batch.single_observation_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Put the robot on its feet; arguments as those of Gymnasium."""
        super().reset(seed=seed)
        self.batch.np_random = self.np_random
        observations, infos = self.batch.reset()
        return observations[0], infos

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Take one step of control; arguments and results as those of Gymnasium."""
        observations, rewards, terminations, truncations, infos = self.batch.step(action[None])
        ended = bool(terminations[0]), bool(truncations[0])
        return observations[0], float(rewards[0]), *ended, infos


if "gridgen/Quadruped-v0" not in gymnasium.registry:
    gymnasium.register(
        "gridgen/Quadruped-v0", entry_point=QuadrupedEnv, vector_entry_point=QuadrupedVectorEnv
    )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--urdf", type=Path, default=QUADRUPED)
    parser.add_argument("--robots", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    environment = QuadrupedVectorEnv(arguments.robots, arguments.urdf)
    environment.reset(seed=0)
    actions = np.zeros(environment.action_space.shape, np.float32)
    environment.step(actions)  # compiles
    steps = round(arguments.seconds / (SUBSTEPS * DT))
    ended = 0
    start = time.perf_counter()
    for _ in range(steps):
        _, rewards, terminations, _, _ = environment.step(actions)
        ended += np.count_nonzero(terminations)
    rate = arguments.robots * steps * SUBSTEPS / (time.perf_counter() - start)
    print(f"{rate:,.0f} steps of physics per second; mean reward {rewards.mean():.3f}")
    print(f"{ended} of {arguments.robots} have fallen")


if __name__ == "__main__":
    main()
