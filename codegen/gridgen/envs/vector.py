"""Environments of one model as a batch, with Gymnasium's vector API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gridgen.batch import Array, Batch
from gridgen.errors import GridGenError, OptionError, ShapeError
from gridgen.naming import one_line, show_value

try:
    from gymnasium.spaces import Box
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector import VectorEnv as Gymnasium
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise GridGenError(
        f"gridgen.envs needs Gymnasium ({one_line(error)}): pip install 'gymnasium>=1.1'"
    ) from error


class VectorEnv(Gymnasium, ABC):  # type: ignore[misc]
    """Environments of one MuJoCo model, each a simulation of a ``Batch``.

    A subclass overrides ``observe``, ``evaluate`` and ``begin``, and ``advance`` if actions are not
    the controls. Rewards of environments that are reset in a step, their masks in ``infos``, and
    the order of resets in the modes of autoreset are those of ``gymnasium.vector.SyncVectorEnv``.

    Args:
        model:             an ``MjModel``, or the path of an MJCF file.
        num_envs:          number of environments.
        frame_skip:        substeps of the model's time step in a step.
        max_episode_steps: steps after which an episode is truncated; ``None`` for no limit.
        autoreset_mode:    when environments whose episode has ended are reset.
        options:           the others as of ``Batch``: ``dtype``, and the options of ``load``.

    Attributes:
        batch: the simulations.
        dt:    time of a step [s].
        steps: of the present episode of each environment (num_envs,).

    Raises:
        OptionError: an argument is invalid.
        GridGenError: Gymnasium is not installed.
        Also the errors of ``Batch``.
    """

    def __init__(
        self,
        model: Any,
        num_envs: int = 1,
        *,
        frame_skip: int = 1,
        max_episode_steps: int | None = None,
        autoreset_mode: Any = AutoresetMode.NEXT_STEP,
        **options: Any,
    ) -> None:
        for name, number in (("frame_skip", frame_skip), ("max_episode_steps", max_episode_steps)):
            if number is not None and (not isinstance(number, int) or number < 1):
                raise OptionError(f"{name} is {show_value(number)}; give a positive number")
        self.batch = Batch(model, num_envs, **options)
        self.num_envs, self.frame_skip = num_envs, frame_skip
        self.max_episode_steps = max_episode_steps
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode(autoreset_mode)}
        self.dt = frame_skip * float(self.batch.model.opt.timestep)
        self.steps = np.zeros(num_envs, np.int64)
        self._ended = np.zeros(num_envs, np.bool_)
        self._must_reset = True

    @cached_property
    def single_action_space(self) -> Any:
        """Controls within their ranges."""
        model = self.batch.model
        low, high = np.where(
            model.actuator_ctrllimited[:, None].astype(bool),
            model.actuator_ctrlrange,
            (-np.inf, np.inf),
        ).T
        return Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    @cached_property
    def single_observation_space(self) -> Any:
        """Any numbers."""
        return Box(-np.inf, np.inf, self.observe().shape[1:], self.observe().dtype)

    @cached_property
    def action_space(self) -> Any:
        """``single_action_space`` for all environments."""
        return batch_space(self.single_action_space, self.num_envs)

    @cached_property
    def observation_space(self) -> Any:
        """``single_observation_space`` for all environments."""
        return batch_space(self.single_observation_space, self.num_envs)

    def observe(self) -> Array:
        """Return the observations of the present states (num_envs, n)."""
        return np.concatenate([self.batch.qpos, self.batch.qvel], axis=1)

    @abstractmethod
    def evaluate(self, actions: Array) -> tuple[Array, Array, dict[str, Array]]:
        """Return rewards, terminations and infos of a step, (num_envs,) each.

        Environments whose state is not finite terminate in any case.
        """

    def seed(self, seed: int | None, rows: Array) -> None:
        """Seed the random numbers of environments that are reset."""
        super().reset(seed=seed)

    def begin(self, rows: Array) -> dict[str, Array]:
        """Begin an episode in environments, whose numbers are ``rows``; return infos of all.

        The batch has been reset there. ``np_random`` is the source of random numbers.
        """
        return {}

    def advance(self, actions: Array, rows: Array | None) -> None:
        """Simulate a step of environments, all by default."""
        self.batch.ctrl = actions
        self.batch.step(rows, nstep=self.frame_skip)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin episodes: of the environments in ``options["reset_mask"]``, all by default.

        Returns:
            observations (num_envs, n), and infos.

        Raises:
            OptionError, ShapeError: the mask is invalid.
        """
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_)))
        if mask.shape != (self.num_envs,):
            raise ShapeError(f"reset_mask has shape {mask.shape}; give ({self.num_envs},)")
        if mask.dtype != np.bool_ or not mask.any():
            raise OptionError(f"reset_mask is {show_value(mask)}; give booleans, one of them True")
        if self._must_reset and not mask.all():
            raise OptionError("reset_mask leaves out environments; first reset all")
        self.seed(seed, np.flatnonzero(mask))
        infos = self._begin(mask)
        self._must_reset, self._ended = False, self._ended & ~mask
        return self._observed(), _masked({}, mask, infos)

    def step(self, actions: ArrayLike) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Take a step in all environments, as Gymnasium's.

        Args:
            actions: (num_envs, nu), finite. Controls beyond their range act as at its end.

        Returns:
            observations (num_envs, n), rewards, terminations and truncations (num_envs,), infos.

        Raises:
            ShapeError, OptionError: the actions are invalid, or an episode has to be reset.
        """
        mode, again = self.metadata["autoreset_mode"], self._ended
        if self._must_reset or (mode == AutoresetMode.DISABLED and again.any()):
            raise OptionError("episodes have ended; call reset, which takes a reset_mask")
        moved = self._actions(actions)
        self.advance(moved, np.flatnonzero(~again) if again.any() else None)
        self.steps += 1
        rewards, terminations, infos = self.evaluate(moved)
        states = np.concatenate([self.batch.qpos, self.batch.qvel], axis=1)
        is_finite = np.isfinite(states).all(axis=1)
        terminations = (terminations | ~is_finite) & ~again
        limit = np.inf if self.max_episode_steps is None else self.max_episode_steps
        truncations = (self.steps >= limit) & ~again
        self._ended = ended = terminations | truncations
        given: dict[str, Any] = {}
        begins = again
        if mode == AutoresetMode.SAME_STEP:
            begins, self._ended = ended, np.zeros_like(ended)
            if ended.any():
                last = self.observe()
                given["final_obs"] = np.full(self.num_envs, None, object)
                for k in np.flatnonzero(ended):
                    given["final_obs"][k] = last[k].copy()
                given["final_info"] = _masked({}, ended, infos)
                given["_final_obs"], given["_final_info"] = ended.copy(), ended.copy()
        given |= _masked({}, ~begins, infos)
        if begins.any():
            _masked(given, begins, self._begin(begins))
        rewards = np.where(again, 0.0, rewards)
        return self._observed(), rewards, terminations, truncations, given

    def _begin(self, mask: Array) -> dict[str, Array]:
        rows = np.flatnonzero(mask)
        self.batch.reset(rows)
        self.steps[rows] = 0
        return self.begin(rows)

    def _observed(self) -> Array:
        return np.array(self.observe(), dtype=self.single_observation_space.dtype)

    def _actions(self, actions: ArrayLike) -> Array:
        given = np.asarray(actions)
        if given.shape != self.action_space.shape:
            raise ShapeError(f"actions have shape {given.shape}; give {self.action_space.shape}")
        if given.dtype.kind not in "fiub":
            raise OptionError(f"actions have type {given.dtype}; give numbers")
        if not np.isfinite(given).all():
            k = np.flatnonzero(~np.isfinite(given).all(axis=1))[0]
            raise OptionError(f"the action of environment {k} is {show_value(given[k])}")
        return given


def _masked(infos: dict[str, Any], mask: Array, values: dict[str, Array]) -> dict[str, Any]:
    """Add values where a mask holds, and the mask of each, as Gymnasium does."""
    for name, value in values.items() if mask.any() else ():
        found = infos.setdefault(name, np.zeros_like(value))
        found[mask] = value[mask]
        infos[f"_{name}"] = infos.get(f"_{name}", False) | mask
    return infos
