"""Backward pass of iterative LQR, compiled for numbers of states and controls."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.compiler import shared_library
from gridgen.backends.interface import Sources
from gridgen.control.costs import Array, TrajectoryCost
from gridgen.template_root import static_text

_HEADERS = ("gridgen_simd.h", "gridgen_math.cuh", "gridgen.h")
_MACROS = ("REAL", "N", "M", "U", "D", "P")
_FLAGS = (
    *("-std=c++17", "-O3", "-ffp-contract=fast", "-fno-math-errno"),
    *("-fno-exceptions", "-fno-rtti", "-fvisibility=hidden"),
)


@functools.cache
def _function(real: str, *extents: int) -> Any:
    """Return the compiled function for a type and extents; see ``backward``."""
    values = (real, *extents)
    lines = [f"#define GRIDGEN_{n} {v}" for n, v in zip(_MACROS, values, strict=True)]
    unit = "\n".join([*lines, static_text("riccati.cpp")])
    sources = Sources("gridgen", {name: static_text(name) for name in _HEADERS})
    path = shared_library(sources, "gridgen_riccati", unit, _FLAGS, BuildCache())
    found = ctypes.CDLL(str(path)).gridgen_riccati
    found.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_double, *[ctypes.c_void_p] * 13]
    found.restype = None
    return found


def backward(
    cost: TrajectoryCost,
    A: NDArray[Any],
    B: NDArray[Any],
    lower: Array,
    upper: Array,
    near: Array,
    out: Sequence[NDArray[Any]],
    *,
    fixed: int = 0,
    derived: int = 0,
    dt: float = 0.0,
) -> Array:
    """Compute the changes of controls and the gains that minimize the quadratic model.

    Args:
        cost:    derivatives of the cost.
        A:       derivatives of the steps by the states (B, T, n, n); its type is that of the sweep.
        B:       derivatives by the controls (B, T, n, m).
        lower:   lower limits of the changes (B, T, m).
        upper:   upper limits of the changes (B, T, m).
        near:    regularization of the states (B,).
        out:     k (B, T, m) and K (B, T, m, n): the controls change by k - K x. Rows of the first
                 ``fixed`` controls are not written.
        fixed:   number of first controls that do not change.
        derived: number of last positions that move by ``dt`` times their next velocities; their
                 rows of A and B are not read.
        dt:      length of a step.

    Returns:
        The linear and quadratic parts of the expected change of the cost (B, 2), NaN where the
        model has no minimum.

    Source: Tassa, Mansard and Todorov 2014.
    """
    batch, steps, n, m = B.shape
    given = (A, B, cost.l_x, cost.l_u, cost.diagonal, cost.dense, cost.l_uu, lower, upper, near)
    arrays = [np.ascontiguousarray(array, A.dtype) for array in given]
    expected = np.zeros((batch, 2), A.dtype)
    pointers = [array.ctypes.data for array in (*arrays, *out, expected)]
    real = "float" if A.dtype == np.float32 else "double"
    function = _function(real, n, m - fixed, m, derived, cost.dense.shape[-1])
    function(batch, steps, dt, *pointers)
    return expected.astype(np.float64)
