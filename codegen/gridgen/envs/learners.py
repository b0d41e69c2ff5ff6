"""Vector environments as those of learning libraries: Stable-Baselines3, rsl_rl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode

from gridgen.batch import Array
from gridgen.errors import OptionError

if TYPE_CHECKING:
    import torch


def _resets_in_the_same_step(environment: Any) -> Any:
    mode = environment.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise OptionError(f"autoreset_mode is {mode}; the library needs SAME_STEP")
    return environment


def stable_baselines(environment: Any) -> Any:
    """Return a ``VecEnv`` of Stable-Baselines3 around a vector environment of Gymnasium.

    Args:
        environment: in the mode ``SAME_STEP`` of autoreset, such as a ``VectorEnv``.

    Raises:
        OptionError: the environment has another mode.
    """
    from stable_baselines3.common.vec_env import VecEnv

    class Adapter(VecEnv):  # type: ignore[misc]
        def __init__(self) -> None:
            self.environment = _resets_in_the_same_step(environment)
            spaces = environment.single_observation_space, environment.single_action_space
            super().__init__(environment.num_envs, *spaces)

        def reset(self) -> Array:
            observations: Array = environment.reset(seed=self._seeds[0])[0]
            self._reset_seeds()
            return observations

        def step_async(self, actions: Array) -> None:
            self.actions = actions

        def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
            seen, rewards, terminations, truncations, infos = environment.step(self.actions)
            each: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
            for k in np.flatnonzero(terminations | truncations):
                each[k]["terminal_observation"] = infos["final_obs"][k]
                each[k]["TimeLimit.truncated"] = bool(truncations[k] and not terminations[k])
            return seen, rewards.astype(np.float32), terminations | truncations, each

        def close(self) -> None:
            environment.close()

        # All environments share the attributes of the batch.
        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [getattr(environment, attr_name) for _ in self._get_indices(indices)]

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            setattr(environment, attr_name, value)

        def env_method(
            self, name: str, *args: Any, indices: Any = None, **kwargs: Any
        ) -> list[Any]:
            result = getattr(environment, name)(*args, **kwargs)
            return [result for _ in self._get_indices(indices)]

        def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
            return [False for _ in self._get_indices(indices)]

    return Adapter()


def rsl_rl(environment: Any, seed: int | None = None) -> Any:
    """Return a ``VecEnv`` of rsl_rl around a vector environment of Gymnasium, on the CPU.

    Observations are the group ``policy`` in float32.

    Args:
        environment: a ``VectorEnv`` in the mode ``SAME_STEP`` of autoreset.
        seed:        of the first reset.

    Raises:
        OptionError: the environment has another mode.
    """
    import torch
    from rsl_rl.env import VecEnv
    from tensordict import TensorDict

    class Adapter(VecEnv):  # type: ignore[misc]
        def __init__(self) -> None:
            self.environment = _resets_in_the_same_step(environment)
            self.num_envs = environment.num_envs
            self.num_actions = environment.single_action_space.shape[0]
            self.max_episode_length = environment.max_episode_steps or 2**31
            self.device = "cpu"
            self.cfg: dict[str, Any] = {}
            self._seen = environment.reset(seed=seed)[0]

        @property
        def episode_length_buf(self) -> torch.Tensor:
            return torch.from_numpy(environment.steps)

        @episode_length_buf.setter
        def episode_length_buf(self, steps: torch.Tensor) -> None:
            environment.steps[:] = steps.numpy()

        def get_observations(self) -> Any:
            group = {"policy": torch.as_tensor(self._seen, dtype=torch.float32)}
            return TensorDict(group, batch_size=[self.num_envs])

        def step(self, actions: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor, Any]:
            results = environment.step(actions.detach().numpy())
            self._seen, rewards, terminations, truncations, _ = results
            extras = {"time_outs": torch.from_numpy(truncations & ~terminations), "log": {}}
            return (
                self.get_observations(),
                torch.as_tensor(rewards, dtype=torch.float32),
                torch.from_numpy(terminations | truncations),
                extras,
            )

    return Adapter()
