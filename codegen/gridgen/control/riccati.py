"""Backward pass of iterative LQR, compiled for numbers of states and controls."""

from __future__ import annotations

import ctypes
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.backend import thread_count
from gridgen.backends.cpu.compiler import shared_library
from gridgen.backends.interface import Sources
from gridgen.control.costs import Array, TrajectoryCost
from gridgen.template_root import static_text

_FLAGS = (
    *("-std=c++17", "-O3", "-ffp-contract=fast", "-fno-math-errno"),
    *("-fno-exceptions", "-fno-rtti", "-fvisibility=hidden"),
)


@functools.cache
def _function(states: int, controls: int) -> Any:
    """Return the compiled function for numbers of states and controls."""
    text = static_text("riccati.cpp")
    unit = f"#define GRIDGEN_N {states}\n#define GRIDGEN_M {controls}\n{text}"
    name = "gridgen_riccati"
    path = shared_library(Sources("gridgen", {}), name, unit, _FLAGS, BuildCache())
    found = ctypes.CDLL(str(path)).gridgen_riccati
    found.argtypes, found.restype = [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 12], None
    return found


def backward(
    cost: TrajectoryCost, A: Array, B: Array, lower: Array, upper: Array, near: Array
) -> tuple[Array, Array, Array]:
    """Return the changes of controls and the gains that minimize the quadratic model.

    Args:
        cost:  derivatives of the cost.
        A:     derivatives of the steps by the states (B, T, n, n).
        B:     derivatives by the controls (B, T, n, m).
        lower: lower limits of the changes (B, T, m).
        upper: upper limits of the changes (B, T, m).
        near:  regularization of the states (B,).

    Returns:
        k (B, T, m), K (B, T, m, n), and the linear and quadratic parts of the expected change of
        the cost (B, 2), NaN where the model has no minimum.

    Source: Tassa, Mansard and Todorov 2014.
    """
    batch, steps, n, m = B.shape
    given = (A, B, cost.l_x, cost.l_u, cost.l_xx, cost.l_uu, lower, upper, near)
    arrays = [np.ascontiguousarray(array, np.float64) for array in given]
    results = np.zeros((batch, steps, m)), np.zeros((batch, steps, m, n)), np.zeros((batch, 2))
    pointers = [array.ctypes.data for array in (*arrays, *results)]
    function = _function(n, m)
    threads = max(1, min(batch, thread_count()))
    bounds = [batch * part // threads for part in range(threads + 1)]

    def part(index: int) -> None:
        function(bounds[index], bounds[index + 1], steps, *pointers)

    if threads == 1:
        part(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(part, range(threads)))
    return results
