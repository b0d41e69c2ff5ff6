"""Pinocchio's own batch functions, with their own threads, on the column-major arrays they want."""

from __future__ import annotations

import numpy as np
import pinocchio
from cases import INPUTS, Case, States

from peers import Contestant
from peers.pinocchio_model import build, positions

_FUNCTIONS = {
    "inverse_dynamics": pinocchio.rneaInParallel,
    "forward_dynamics_aba": pinocchio.abaInParallel,
    "forward_dynamics_crba": pinocchio.abaInParallel,  # both ways compete with its only one
}


class Peer:
    """One robot, and a pool of workspaces."""

    def __init__(self, case: Case, threads: int) -> None:
        self._case = case
        self._model = build(case)
        self._threads = threads
        self._pool = pinocchio.ModelPool(self._model, threads)

    def contestants(self, function: str, states: States) -> dict[str, Contestant]:
        """Return the function in float64."""
        evaluate = _FUNCTIONS.get(function)
        if evaluate is None:
            return {}
        inputs = [states[x] for x in INPUTS[function]]
        inputs[0] = positions(self._model, self._case, inputs[0])
        columns = [np.asfortranarray(x.T) for x in inputs]
        out = np.empty((self._model.nv, len(inputs[0])), order="F")
        arguments = (self._threads, self._pool, *columns, out)
        return {
            "Pinocchio's batch function": Contestant(
                lambda: evaluate(*arguments), lambda: [np.ascontiguousarray(out.T)]
            )
        }
