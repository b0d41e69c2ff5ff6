"""Those compared: each module has a class ``Peer`` that turns a function and states into a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from cases import Case, States
from native import Unavailable

#: Modules in the order of the tables.
MODULES = (
    "gridgen_cpu",
    "pinocchio_loop",
    "pinocchio_library",
    "pinocchio_python",
    "pinocchio_pool",
    "mujoco_loop",
    "mujoco_batch",
    "frax_jax",
    "numpy_reference",
)


@dataclass(frozen=True)
class Contestant:
    """One way to compute a function of a batch.

    Attributes:
        run:     computes; inputs and memory for results are at hand.
        results: returns what the last run computed, in gridgen's conventions.
        states:  how many states a run computes, if not all.
    """

    run: Callable[[], object]
    results: Callable[[], Sequence[np.ndarray]]
    states: int | None = None


class Peer(Protocol):
    """One library, for one robot and a number of threads."""

    def contestants(self, function: str, states: States) -> dict[str, Contestant]:
        """Return the ways to compute ``function`` by name; none if there is none."""


def peers(case: Case, threads: int, chosen: Sequence[str] = MODULES) -> dict[str, Any]:
    """Return every peer that works here, by name; one that does not, as its reason in words."""
    found: dict[str, Any] = {}
    for name in chosen:
        try:
            found[name] = import_module(f"peers.{name}").Peer(case, threads)
        except (ImportError, Unavailable) as error:
            found[name] = str(error)
    return found
