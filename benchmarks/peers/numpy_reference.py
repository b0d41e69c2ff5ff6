"""The plain NumPy reference: the same algorithms, run on arrays, one NumPy call an operation."""

from __future__ import annotations

from cases import Case, States

from gridgen.dynamics.reference import evaluate_reference
from peers import Contestant


class Peer:
    """One robot."""

    def __init__(self, case: Case, threads: int) -> None:
        self._case = case

    def contestants(self, function: str, states: States) -> dict[str, Contestant]:
        """Return the function in float64."""
        entry = self._case.entry(function)
        kept: list = [()]

        def run() -> None:
            kept[0] = evaluate_reference(self._case.tree, entry, states)

        return {"NumPy reference": Contestant(run, lambda: kept[0])}
