"""gridgen's own ``cpu`` backend, called as a user calls it, results into ``out=``."""

from __future__ import annotations

from functools import partial

import numpy as np
from cases import INPUTS, KEYS, Case, States

from gridgen.options import DTYPE_CHOICES
from gridgen.robot import Robot
from peers import Contestant


class Peer:
    """One robot; the number of threads is that of ``$GRIDGEN_NUM_THREADS``."""

    def __init__(self, case: Case, threads: int) -> None:
        self._case = case
        self._robot = Robot(case.module, "cpu")

    def contestants(self, function: str, states: States) -> dict[str, Contestant]:
        """Return the function in float32 and in float64."""
        return {
            f"gridgen {dtype}": self.contestant(function, states, dtype) for dtype in DTYPE_CHOICES
        }

    def contestant(self, function: str, states: States, dtype: str) -> Contestant:
        """Return the function in one type."""
        call = getattr(self._robot, KEYS[function].function)
        method = partial(call, **self._case.keywords(function))
        inputs = [np.ascontiguousarray(states[x], dtype=dtype) for x in INPUTS[function]]
        out = method(*inputs)
        results = out if isinstance(out, tuple) else (out,)
        return Contestant(partial(method, *inputs, out=out), lambda: results)
