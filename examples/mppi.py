"""Model predictive path integral control (Williams et al. 2017), for programs in this folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gridgen

Array = NDArray[np.float32]


class MPPI:
    """Optimizes a plan, the controls of a robot's actuators, by random changes.

    Args:
        robot:       with actuators.
        plan:        controls of the steps, (T, nu).
        basis:       (T, k): a change is a random combination of the columns.
        deviation:   of the combinations, in the unit of the controls.
        temperature: difference of costs that divides a weight by e.
        samples:     rollouts for a call of ``update``.
        cost:        (q, qd), the states of the rollouts -> (samples,).
        dt:          time of a step [s].
        seed:        of the random numbers.
        options:     of ``robot.rollout``.
    """

    def __init__(
        self,
        robot: gridgen.Robot,
        plan: Array,
        basis: Array,
        deviation: float,
        temperature: float,
        samples: int,
        cost: Callable[[Array, Array], Array],
        dt: float,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.robot, self.plan, self.cost = robot, plan, cost
        self.samples, self.dt, self.temperature = samples, dt, temperature
        self.basis = np.float32(deviation) * basis
        self.rng, self.options = np.random.default_rng(seed), options
        self.seconds: list[float] = []  # of each update

    def update(self, q: Array, qd: Array, tau: Array | float = 0.0) -> None:
        """Improve the plan, which begins at the state.

        Args:
            q:   the state, (nq,).
            qd:  (nv,).
            tau: joint torques in addition to those of the actuators, (nv,).
        """
        begin = time.perf_counter()
        size = self.samples, self.basis.shape[1], self.plan.shape[1]
        changes = self.basis @ self.rng.standard_normal(size, np.float32)
        changes[0] = 0.0  # the plan itself
        path = self.robot.rollout(
            q,
            qd,
            np.zeros((1, len(self.plan), self.robot.nv), np.float32) + tau,
            self.dt,
            integrator="implicit",
            ctrl=self.plan + changes,
            **self.options,
        )
        cost = np.nan_to_num(self.cost(*path), nan=np.inf)
        weights = np.exp((cost.min() - cost) / self.temperature)
        self.plan += np.tensordot(weights / weights.sum(), changes, 1)
        self.seconds.append(time.perf_counter() - begin)

    def shift(self, steps: int = 1) -> None:
        """Advance the plan in time."""
        self.plan = np.concatenate([self.plan[steps:], np.tile(self.plan[-1:], (steps, 1))])
