"""Train a quadruped to stand with Stable-Baselines3.

    python examples/train_quadruped.py [--robots 256] [--steps 200000]

``ForStableBaselines`` makes a vector environment of Gymnasium a ``VecEnv`` of Stable-Baselines3:
the whole batch is one call, where that library's own classes call one environment after the other.
Needs the packages ``gymnasium`` and ``stable-baselines3``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from batch_environment import QuadrupedVectorEnv
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv, VecMonitor


class ForStableBaselines(VecEnv):
    """A vector environment of Gymnasium as Stable-Baselines3 takes it.

    Args:
        environment: one that resets a robot in the step that ends its episode (``SAME_STEP``).

    Raises:
        ValueError: it resets at another time.
    """

    def __init__(self, environment: VectorEnv[Any, Any, Any]) -> None:
        mode = environment.metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise ValueError(f"autoreset_mode is {mode}; Stable-Baselines3 needs SAME_STEP")
        self.environment = environment
        self.actions: NDArray[Any] | None = None
        super().__init__(
            environment.num_envs,
            environment.single_observation_space,
            environment.single_action_space,
        )

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
        """Take a step; infos have what Stable-Baselines3 asks of ends of episodes."""
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

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """Return an attribute of the environment, once for each robot."""
        return [getattr(self.environment, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(
        self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None
    ) -> None:
        """Set an attribute of the environment, which all robots share."""
        setattr(self.environment, attr_name, value)

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: int | Iterable[int] | None = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """Call a method of the environment, which all robots share; return its result for each."""
        result = getattr(self.environment, method_name)(*method_args, **method_kwargs)
        return [result] * len(list(self._get_indices(indices)))

    def env_is_wrapped(
        self, wrapper_class: type[Any], indices: int | Iterable[int] | None = None
    ) -> list[bool]:
        """Return that no robot has a wrapper of its own."""
        return [False] * len(list(self._get_indices(indices)))


def train(robots: int, steps: int, widths: Sequence[int] = (128, 128), seed: int = 0) -> PPO:
    """Return a policy that has been trained.

    Args:
        robots: number of quadrupeds.
        steps:  steps of control of all of them together.
        widths: of the layers of the network.
        seed:   of the random numbers.
    """
    batch = QuadrupedVectorEnv(robots, autoreset_mode=AutoresetMode.SAME_STEP)
    model = PPO(
        "MlpPolicy",
        VecMonitor(ForStableBaselines(batch)),
        n_steps=16,
        batch_size=4 * robots,
        n_epochs=4,
        policy_kwargs={"net_arch": list(widths)},
        seed=seed,
        device="cpu",
    )
    return model.learn(steps)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--robots", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200_000)
    arguments = parser.parse_args()
    model = train(arguments.robots, arguments.steps)
    returns = [episode["r"] for episode in model.ep_info_buffer or ()]
    print(f"mean return of the last {len(returns)} episodes: {np.mean(returns):.1f}")


if __name__ == "__main__":
    main()
