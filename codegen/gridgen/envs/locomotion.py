"""Gymnasium's Ant, HalfCheetah, Hopper, Walker2d and Humanoid, version 5, as batches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from gymnasium.envs.mujoco.mujoco_env import expand_model_path
from gymnasium.utils import seeding

from gridgen.batch import Array
from gridgen.envs.bodies import Bodies
from gridgen.envs.vector import VectorEnv
from gridgen.errors import OptionError
from gridgen.model.readers.packages import library
from gridgen.naming import show, similar

_INF = float("inf")


class Locomotion(VectorEnv):
    """A task of Gymnasium, with the results of its ``SyncVectorEnv`` for equal seeds.

    The solver of the contacts has converged, which Gymnasium's has to 1e-8 or, with the settings of
    Humanoid, less.

    Args:
        num_envs: number of environments.
        options:  those of ``VectorEnv`` for the simulations.
        settings: keyword arguments of Gymnasium's environment, such as ``ctrl_cost_weight``, and
                  ``max_episode_steps`` and ``autoreset_mode`` of ``VectorEnv``.

    Raises:
        OptionError: a setting is unknown. Also the errors of ``VectorEnv``.
    """

    #: Arguments of Gymnasium's environment with their defaults.
    SETTINGS: ClassVar[Mapping[str, Any]] = {}
    #: Positions in the plane; whether initial velocities are normal, not uniform; their limit.
    PLANE, IS_NORMAL, MAX_VELOCITY = 1, False, _INF

    def __init__(
        self, num_envs: int = 1, options: Mapping[str, Any] | None = None, **settings: Any
    ) -> None:
        own: dict[str, Any] = {
            "max_episode_steps": 1000,
            "exclude_current_positions_from_observation": True,
        }
        own |= {"forward_reward_weight": 1.0, **self.SETTINGS}
        for name in settings.keys() - own.keys() - {"autoreset_mode"}:
            near = similar(name, own) or sorted(own)
            raise OptionError(f"no setting {show(name)}; the nearest are {', '.join(near)}")
        self.settings = own | settings
        more = {k: v for k, v in settings.items() if k == "autoreset_mode"}
        self._generators: dict[int, np.random.Generator] = {}
        mujoco = library("mujoco", type(self).__name__, "a model is read by")
        model = mujoco.MjModel.from_xml_path(expand_model_path(self.settings["xml_file"]))
        super().__init__(
            model,
            num_envs,
            frame_skip=self.settings["frame_skip"],
            max_episode_steps=self.settings["max_episode_steps"],
            **more,
            **(options or {}),
            **self.prepare(model),
        )
        self._before = self.marks()

    def prepare(self, model: Any) -> dict[str, Any]:
        """Return the options of ``load`` that the task requires."""
        return {}

    def marks(self) -> Array:
        """Return the positions whose rate is the velocity that is rewarded (num_envs, 1 or 2)."""
        return self.batch.qpos[:, :1].copy()

    def seed(self, seed: int | None, rows: Array) -> None:
        """Seed each environment with its number added, as ``SyncVectorEnv`` does."""
        super().seed(seed, rows)
        for k in rows:
            if seed is not None or k not in self._generators:
                own = None if seed is None else seed + int(k)
                self._generators[k] = seeding.np_random(own)[0]

    def begin(self, rows: Array) -> dict[str, Array]:
        """Move environments from the initial state at random; what is derived is computed."""
        scale, batch = self.settings["reset_noise_scale"], self.batch
        for k in rows:
            random, (nq, nv) = self._generators[k], (batch.model.nq, batch.model.nv)
            batch.qpos[k] += random.uniform(-scale, scale, nq)
            if self.IS_NORMAL:
                batch.qvel[k] += scale * random.standard_normal(nv)
            else:
                batch.qvel[k] += random.uniform(-scale, scale, nv)
        self.derive(rows)
        self._before[rows] = self.marks()[rows]
        return self.describe()

    def derive(self, rows: Array) -> None:
        """Compute what depends on states that begin."""

    def describe(self) -> dict[str, Array]:
        """Return the infos of the states."""
        return {"x_position": self.batch.qpos[:, 0].copy()}

    def healthy(self) -> Array:
        """Return whether states are within the ranges of the settings (num_envs,)."""
        q, qd = self.batch.qpos, self.batch.qvel
        result = np.ones(self.num_envs, np.bool_)
        for name, values in (
            ("healthy_z_range", q[:, self.PLANE, None]),
            ("healthy_angle_range", q[:, 2:3]),
            ("healthy_state_range", np.concatenate([q[:, 2:], qd], axis=1)),
        ):
            low, high = self.settings.get(name, (-_INF, _INF))
            result &= ((low < values) & (values < high)).all(axis=1)
        return result

    def costs(self, actions: Array) -> dict[str, Array]:
        """Return the terms of the reward that are costs."""
        weight = self.settings["ctrl_cost_weight"]
        return {"reward_ctrl": -weight * np.square(actions).sum(axis=1)}

    def evaluate(self, actions: Array) -> tuple[Array, Array, dict[str, Array]]:
        """Return rewards, terminations and infos."""
        now, is_healthy = self.marks(), self.healthy()
        velocity, self._before = (now - self._before) / self.dt, now
        terms = {"reward_forward": self.settings["forward_reward_weight"] * velocity[:, 0]}
        terms |= self.costs(actions)
        if "healthy_reward" in self.settings:
            terms["reward_survive"] = is_healthy * self.settings["healthy_reward"]
        named = dict(zip(("x_velocity", "y_velocity"), velocity.T, strict=False))
        ends = ~is_healthy & self.settings.get("terminate_when_unhealthy", False)
        return sum(terms.values()), ends, self.describe() | named | terms

    def observe(self) -> Array:
        """Return positions, without those in the plane by default, and velocities."""
        begin = self.PLANE if self.settings["exclude_current_positions_from_observation"] else 0
        limit = self.MAX_VELOCITY
        velocity = np.clip(self.batch.qvel, -limit, limit)
        return np.concatenate([self.batch.qpos[:, begin:], velocity], axis=1)


class HalfCheetah(Locomotion):
    """Gymnasium's HalfCheetah-v5."""

    SETTINGS: ClassVar[Mapping[str, Any]] = {
        "xml_file": "half_cheetah.xml",
        "frame_skip": 5,
        "ctrl_cost_weight": 0.1,
        "reset_noise_scale": 0.1,
    }
    IS_NORMAL = True


class Hopper(Locomotion):
    """Gymnasium's Hopper-v5."""

    SETTINGS: ClassVar[Mapping[str, Any]] = {
        "xml_file": "hopper.xml",
        "frame_skip": 4,
        "ctrl_cost_weight": 1e-3,
        "healthy_reward": 1.0,
        "terminate_when_unhealthy": True,
        "healthy_state_range": (-100.0, 100.0),
        "healthy_z_range": (0.7, _INF),
        "healthy_angle_range": (-0.2, 0.2),
        "reset_noise_scale": 5e-3,
    }
    MAX_VELOCITY = 10.0

    def describe(self) -> dict[str, Array]:
        """Return the infos of the states."""
        height = self.batch.qpos[:, 1] - self.batch.model.qpos0[1]
        return super().describe() | {"z_distance_from_origin": height}


class Walker2d(Hopper):
    """Gymnasium's Walker2d-v5."""

    SETTINGS: ClassVar[Mapping[str, Any]] = {
        **{k: v for k, v in Hopper.SETTINGS.items() if k != "healthy_state_range"},
        "xml_file": "walker2d_v5.xml",
        "healthy_z_range": (0.8, 2.0),
        "healthy_angle_range": (-1.0, 1.0),
    }


class Ant(Locomotion):
    """Gymnasium's Ant-v5. Positions and contact forces are those of MuJoCo's last evaluation."""

    SETTINGS: ClassVar[Mapping[str, Any]] = {
        "xml_file": "ant.xml",
        "frame_skip": 5,
        "ctrl_cost_weight": 0.5,
        "contact_cost_weight": 5e-4,
        "healthy_reward": 1.0,
        "main_body": 1,
        "terminate_when_unhealthy": True,
        "healthy_z_range": (0.2, 1.0),
        "contact_force_range": (-1.0, 1.0),
        "reset_noise_scale": 0.1,
        "include_cfrc_ext_in_observation": True,
    }
    PLANE, IS_NORMAL = 2, True

    def prepare(self, model: Any) -> dict[str, Any]:
        """Return the sensors of the bodies."""
        self.bodies = Bodies(model)
        return {"sensors": self.bodies.sensors}

    @cached_property
    def seen(self) -> dict[str, Array]:
        """Quantities of the bodies, (num_envs, ...) by name."""
        return self.bodies.forward(self.batch, None)

    def marks(self) -> Array:
        """Return the positions of the main body (num_envs, 2)."""
        body = self.batch.model.body(self.settings["main_body"]).id
        return self.seen["xpos"][:, body - 1, :2].copy()

    def advance(self, actions: Array, rows: Array | None) -> None:
        """Simulate a step."""
        self.batch.ctrl = actions
        if self.frame_skip > 1:
            self.batch.step(rows, nstep=self.frame_skip - 1)
        self._note(rows, self.bodies.step(self.batch, rows))

    def derive(self, rows: Array) -> None:
        """Compute the quantities of the bodies; contact forces begin as 0."""
        self._note(rows, self.bodies.forward(self.batch, rows))
        self.seen["cfrc_ext"][rows] = 0.0

    def _note(self, rows: Array | None, quantities: Mapping[str, Array]) -> None:
        for name, values in quantities.items():
            self.seen[name][slice(None) if rows is None else rows] = values

    def describe(self) -> dict[str, Array]:
        """Return the infos of the states."""
        plane = self.batch.qpos[:, :2]
        more = {"y_position": plane[:, 1].copy()}
        more["distance_from_origin"] = np.sqrt(np.square(plane).sum(axis=1))
        return super().describe() | more

    def forces(self) -> Array:
        """Return the contact forces of the bodies within their range (num_envs, n, 6)."""
        forces: Array = np.clip(self.seen["cfrc_ext"], *self.settings["contact_force_range"])
        return forces

    def costs(self, actions: Array) -> dict[str, Array]:
        """Return the terms of the reward that are costs."""
        cost = self.settings["contact_cost_weight"] * np.square(self.forces()).sum(axis=(1, 2))
        cost = np.clip(cost, *self.settings.get("contact_cost_range", (-_INF, _INF)))
        return super().costs(actions) | {"reward_contact": -cost}

    def observe(self) -> Array:
        """Return positions, velocities, and the quantities of bodies that the settings include."""
        given = self.seen | {"cfrc_ext": self.forces()}
        names = [n for n in given if self.settings.get(f"include_{n}_in_observation")]
        parts = [given[name].reshape(self.num_envs, -1) for name in names]
        return np.concatenate([super().observe(), *parts], axis=1)


class Humanoid(Ant):
    """Gymnasium's Humanoid-v5; as ``Ant``."""

    SETTINGS: ClassVar[Mapping[str, Any]] = {
        **{k: v for k, v in Ant.SETTINGS.items() if k != "main_body"},
        "xml_file": "humanoid.xml",
        "forward_reward_weight": 1.25,
        "ctrl_cost_weight": 0.1,
        "contact_cost_weight": 5e-7,
        "contact_cost_range": (-_INF, 10.0),
        "contact_force_range": (-_INF, _INF),
        "healthy_reward": 5.0,
        "healthy_z_range": (1.0, 2.0),
        "reset_noise_scale": 1e-2,
        "include_cinert_in_observation": True,
        "include_cvel_in_observation": True,
        "include_qfrc_actuator_in_observation": True,
    }
    IS_NORMAL = False

    def marks(self) -> Array:
        """Return the centers of mass in the plane (num_envs, 2)."""
        return self.seen["subtree_com"][:, :2].copy()

    def costs(self, actions: Array) -> dict[str, Array]:
        """Return the terms of the reward that are costs."""
        return super().costs(np.asarray(actions, np.float64))

    def describe(self) -> dict[str, Array]:
        """Return the infos of the states."""
        names = {"ten_length": "tendon_length", "ten_velocity": "tendon_velocity"}
        return super().describe() | {new: self.seen[name].copy() for name, new in names.items()}
