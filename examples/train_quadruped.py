"""Train a quadruped to walk with Stable-Baselines3, and let it walk in MuJoCo.

    python examples/train_quadruped.py [--robots 512] [--steps 1500000] [--plant own]

``ForStableBaselines`` makes a vector environment of Gymnasium a ``VecEnv`` of Stable-Baselines3:
the whole batch is one call, where that library's own classes call one environment after the other.
Needs the packages ``gymnasium``, ``stable-baselines3`` and ``mujoco``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import plants
import quadruped
import torch
from batch_environment import PERIOD, REACH, QuadrupedVectorEnv
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv, VecMonitor


class ForStableBaselines(VecEnv):
    """A vector environment of Gymnasium, in the mode ``SAME_STEP``, for Stable-Baselines3."""

    def __init__(self, environment: VectorEnv[Any, Any, Any]) -> None:
        mode = environment.metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise ValueError(f"autoreset_mode is {mode}; Stable-Baselines3 needs SAME_STEP")
        self.environment = environment
        self.actions: NDArray[Any] | None = None
        spaces = environment.single_observation_space, environment.single_action_space
        super().__init__(environment.num_envs, *spaces)

    def reset(self) -> NDArray[Any]:
        """Return the first observations; ``seed(number)`` before it is the batch's seed."""
        observations, _ = self.environment.reset(seed=self._seeds[0])
        self._reset_seeds()
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Note the actions."""
        self.actions = actions

    def step_wait(
        self,
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], list[dict[str, Any]]]:
        """Take a step; infos have what Stable-Baselines3 requires at ends of episodes."""
        observations, rewards, terminations, truncations, infos = self.environment.step(
            self.actions
        )
        each: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = terminations | truncations
        for index in np.flatnonzero(ended):
            each[index]["terminal_observation"] = infos["final_obs"][index]
            each[index]["TimeLimit.truncated"] = bool(truncations[index])
        return observations, rewards, ended, each

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the environment, once for each robot."""
        return [getattr(self.environment, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the environment, which all robots share."""
        setattr(self.environment, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the environment, which all robots share; return its result for each."""
        result = getattr(self.environment, method_name)(*method_args, **method_kwargs)
        return [result] * len(list(self._get_indices(indices)))

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """Return that no robot has a wrapper of its own."""
        return [False] * len(list(self._get_indices(indices)))


def train(robots: int, steps: int, widths: Sequence[int] = (128, 128), seed: int = 0) -> PPO:
    """Return a policy after some steps of control of all robots together."""
    torch.set_num_threads(1)  # the network is small
    batch = QuadrupedVectorEnv(robots, autoreset_mode=AutoresetMode.SAME_STEP)
    model = PPO(
        "MlpPolicy",
        VecMonitor(ForStableBaselines(batch)),
        learning_rate=1e-3,
        n_steps=24,
        batch_size=6 * robots,
        n_epochs=5,
        policy_kwargs={"net_arch": list(widths), "activation_fn": torch.nn.ELU, "log_std_init": -1},
        seed=seed,
        device="cpu",
    )
    return model.learn(steps)


class Walker:
    """A policy as a controller of one robot."""

    def __init__(self, policy: PPO) -> None:
        self.policy, self.steps = policy, 0
        self.action = np.zeros((1, len(quadruped.STANCE)), np.float32)

    def step(self, q: NDArray[Any], qd: NDArray[Any]) -> NDArray[Any]:
        """Return the targets of the servos for the next step of control, (1, 12)."""
        times = np.array([PERIOD * self.steps])
        seen = quadruped.observations(q[None], qd[None], self.action, times)
        self.action, _ = self.policy.predict(seen, deterministic=True)
        self.steps += 1
        return quadruped.STANCE + REACH * self.action


def main() -> None:
    """Train a policy, and let it walk."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", type=int, default=512)
    parser.add_argument("--steps", type=int, default=1_500_000, help="of control, all robots")
    parser.add_argument("--plant", choices=("mujoco", "own"), default="mujoco")
    parser.add_argument("--clip", help="GIF to write, from MuJoCo's pictures")
    options = parser.parse_args()
    begin = time.perf_counter()
    model = train(options.robots, options.steps)
    seconds = time.perf_counter() - begin
    returns = [episode["r"] for episode in model.ep_info_buffer or ()] or [np.nan]
    print(
        f"{model.num_timesteps:,} steps in {seconds:.0f} s; "
        f"mean return of the last {len(returns)} episodes: {np.mean(returns):.1f}"
    )
    plant = plants.PLANTS[options.plant](quadruped.load(), quadruped.URDF)
    quadruped.walk(plant, Walker(model).step, PERIOD, 5.0, clip=options.clip)


if __name__ == "__main__":
    main()
