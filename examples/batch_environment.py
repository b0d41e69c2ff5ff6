"""Thousands of quadrupeds that learn to walk: a vector environment of Gymnasium.

``gymnasium.make_vec("gridgen/Quadruped-v0", num_envs=1024)`` is the batch, ``gymnasium.make`` one
robot of it. Actions are offsets of the servos' targets from a stance. A step of control is one
rollout of all robots, with contacts, the friction of each robot, and servos within effort limits.
Needs the package ``gymnasium``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import quadruped
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from quadruped import Array

Mask = NDArray[np.bool_]
#: Time of a step of control [s], steps of physics in it; an action of 1 [rad].
PERIOD, SUBSTEPS, REACH = 0.02, 4, 0.5
#: Steps of control after which an episode is truncated.
EPISODE = 500
#: Friction of the ground, for each episode; greatest height of the trunk [m].
FRICTION, FLYING = (0.5, 1.0), 1.0


class QuadrupedVectorEnv(VectorEnv[Array, Array, NDArray[Any]]):
    """A batch of quadrupeds that track a velocity in a trot.

    An episode terminates when the trunk is too low, too high or upside down.

    Args:
        num_envs:       number of robots.
        urdf:           the robot, with the links of ``quadruped.FEET``.
        command:        desired velocity, as ``quadruped.COMMAND``.
        episode:        steps of control after which an episode is truncated.
        autoreset_mode: when robots whose episode has ended are reset.
    """

    def __init__(
        self,
        num_envs: int = 1,
        urdf: Path = quadruped.URDF,
        command: tuple[float, float, float] = quadruped.COMMAND,
        episode: int = EPISODE,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.robot = quadruped.load(urdf)
        self.num_envs, self.episode = num_envs, episode
        self.command = np.array(command, np.float32)
        self.metadata = {"render_modes": [], "autoreset_mode": autoreset_mode}
        self.stance = quadruped.standing(self.robot)
        self.q = np.tile(self.stance, (num_envs, 1))
        self.qd = np.zeros((num_envs, self.robot.nv), np.float32)
        self.actions = np.zeros((num_envs, self.robot.nv - 6), np.float32)
        self.friction = np.ones((num_envs, len(quadruped.FEET)), np.float32)
        self.steps, self.ended = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.bool_)
        self.single_action_space = Box(-1.0, 1.0, self.actions.shape[1:], np.float32)
        size = self._observations().shape[1]
        self.single_observation_space = Box(
            -quadruped.MAX_OBSERVATION, quadruped.MAX_OBSERVATION, (size,), np.float32
        )
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Put robots on their feet: those of the option ``reset_mask``, all by default."""
        super().reset(seed=seed)
        self._stand((options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_)))
        return self._observations(), {}

    def step(self, actions: Array) -> tuple[Array, NDArray[np.float64], Mask, Mask, dict[str, Any]]:
        """Let the servos seek targets: offsets from the stance in units of ``REACH``, (B, 12)."""
        mode, again = self.metadata["autoreset_mode"], self.ended.copy()
        if mode == AutoresetMode.DISABLED and again.any():
            raise ValueError("episodes have ended; call reset(options={'reset_mask': ended})")
        before, self.actions = self.actions, np.clip(actions, -1.0, 1.0)
        targets = quadruped.STANCE + REACH * self.actions[:, None]
        self.q, self.qd = self.robot.rollout(
            self.q, self.qd, np.zeros((1, self.robot.nv), np.float32), PERIOD, ctrl=targets,
            substeps=SUBSTEPS, store_every="last", integrator="implicit", friction=self.friction,
        )  # fmt: skip
        self.steps += 1
        rewards = quadruped.rewards(
            self.robot, self.q, self.qd, self.actions - before, PERIOD * self.steps, self.command
        )
        height, level = self.q[:, 2], quadruped.vertical(self.q)[:, 2]
        terminations = ~again & ((height < quadruped.FALLEN) | (height > FLYING) | (level < 0.0))
        truncations = ~again & ~terminations & (self.steps >= self.episode)
        self._stand(again)  # a robot that this call resets returns how its episode begins
        self.ended = terminations | truncations
        infos: dict[str, Any] = {}
        if mode == AutoresetMode.SAME_STEP and self.ended.any():
            last, ended = self._observations(), self.ended
            infos["final_obs"] = np.full(self.num_envs, None, object)
            for robot in np.flatnonzero(ended):
                infos["final_obs"][robot] = last[robot]
            infos |= {"_final_obs": ended, "final_info": {}, "_final_info": ended.copy()}
            self._stand(ended)
        return self._observations(), np.where(again, 0.0, rewards), terminations, truncations, infos

    def _stand(self, robots: Mask) -> None:
        """Put robots on their feet: an episode begins."""
        count = np.count_nonzero(robots)
        noise = self.np_random.standard_normal((count, self.robot.nv - 6), np.float32)
        self.q[robots], self.qd[robots], self.actions[robots] = self.stance, 0.0, 0.0
        self.q[robots, 7:] += 0.05 * noise
        self.friction[robots] = self.np_random.uniform(*FRICTION, (count, 1))
        self.steps[robots], self.ended = 0, self.ended & ~robots

    def _observations(self) -> Array:
        return quadruped.observations(self.q, self.qd, self.actions, PERIOD * self.steps)


class QuadrupedEnv(gymnasium.Env[Array, Array]):
    """One robot of the batch, for programs without vector environments: the same options."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, **options: Any) -> None:
        self.batch = QuadrupedVectorEnv(1, autoreset_mode=AutoresetMode.DISABLED, **options)
        self.action_space = self.batch.single_action_space
        self.observation_space = self.batch.single_observation_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Put the robot on its feet."""
        super().reset(seed=seed)
        self.batch.np_random = self.np_random
        return self.batch.reset()[0][0], {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Take one step of control."""
        observations, rewards, terminated, truncated, _ = self.batch.step(action[None])
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}


if "gridgen/Quadruped-v0" not in gymnasium.registry:
    gymnasium.register(
        "gridgen/Quadruped-v0", entry_point=QuadrupedEnv, vector_entry_point=QuadrupedVectorEnv
    )
