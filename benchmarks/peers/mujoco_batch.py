"""MuJoCo's own batches: ``mj_forward`` of every state, which computes more than the acceleration.

Contacts, limits and passive forces are off, but energies, sensors' stages and the bookkeeping of a
simulation remain.
"""

from __future__ import annotations

import numpy as np
from cases import Case, States
from native import Unavailable

from peers import Contestant
from peers.mujoco_model import build
from peers.world_velocity import converted, restored

try:
    from mujoco.batch import Batch
except ImportError as error:
    raise Unavailable(f"this MuJoCo has no batches: {error}") from error


class Peer:
    """One robot."""

    def __init__(self, case: Case, threads: int) -> None:
        self._case = case
        self._model, self._order = build(case)
        self._threads = threads

    def contestants(self, function: str, states: States) -> dict[str, Contestant]:
        """Return forward dynamics in float64."""
        if function != "forward_dynamics_aba":
            return {}
        own = converted(self._case, states, self._order)
        batch = Batch(self._model, nsim=len(own["q"]), nthread=self._threads)
        qacc = batch.bind("qacc")
        fields = [
            (batch.bind(field), np.ascontiguousarray(own[name]))
            for field, name in (("qpos", "q"), ("qvel", "qd"), ("qfrc_applied", "tau"))
        ]

        def run() -> None:
            for field, values in fields:
                field[...] = values
            batch.forward()

        def results() -> list[np.ndarray]:
            return [restored(self._case, states, self._order, function, np.array(qacc))]

        return {"MuJoCo batch": Contestant(run, results)}
