"""Compiled functions of a robot on trajectories, one time after the other; the backward pass."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.backend import CpuKernel
from gridgen.backends.cpu.compiler import shared_library
from gridgen.backends.interface import Sources
from gridgen.errors import DeviceError
from gridgen.kernel import Kernel
from gridgen.progress import announced
from gridgen.robot import Robot
from gridgen.template_root import static_text

Array = NDArray[np.float64]


def entry_of(robot: Robot, kernel: Kernel, dtype: np.dtype[Any], backend: str = "cpu") -> Any:
    """Return the compiled code of a kernel.

    Raises:
        DeviceError: the backend does not compile for the CPU.
    """
    found = robot._evaluator.compiled.find(kernel, np.empty(0, dtype), backend).kernel
    if not isinstance(found, CpuKernel):
        raise DeviceError(f"{kernel.name} on trajectories runs on the CPU")
    return found.entry


class Called:
    """A function with its arrays, called for all problems at one time, from time to time.

    Args:
        entry:   its compiled code; ``None`` if the results are known.
        inputs:  its inputs, with axes that broadcast to those of problems and times, and their
                 shapes for one state. The last time of an input with fewer times repeats.
        lead:    number of problems and of times.
        results: arrays for its results (B, T, ...).
    """

    def __init__(
        self,
        entry: Any,
        inputs: Sequence[tuple[NDArray[Any], tuple[int, ...]]],
        lead: tuple[int, int],
        results: Sequence[NDArray[Any]] = (),
    ) -> None:
        self._lead, self._entry = lead, entry
        arrays = [*inputs, *((array, array.shape[2:]) for array in results)]
        self._references, rows = [], []
        for array, shape in arrays:
            count = array.ndim - len(shape)
            times = array.shape[count - 1] if count else 1
            array = np.broadcast_to(array, (lead[0], times, *shape)).reshape(
                lead[0], times, math.prod(shape)
            )
            self._references.append(array)
            b, t, c = (
                stride * (n > 1) for stride, n in zip(array.strides, array.shape, strict=True)
            )
            size = array.itemsize
            rows.append((array.ctypes.data, b // size, c // size, t, times))
        #: address, strides of problems and elements, stride of times [bytes], number of times.
        self.arrays = np.array(rows, np.int64)
        #: address of the compiled code, or 0.
        self.address = ctypes.cast(entry, ctypes.c_void_p).value if entry else 0

    def run(self) -> None:
        """Compute the results of all times, in SIMD lanes of problems or of times."""
        batch, times = self._lead
        data, problem, component, time, count = self.arrays.T
        size = self._references[0].itemsize
        common = min([times, *count[count > 1]]) if batch < times else 0
        calls = [(data + b * problem * size, time // size) for b in range(batch if common else 0)]
        calls += [
            (data + np.minimum(t, count - 1) * time, problem)
            for t in range(common, times if batch else common)
        ]
        for i, (begin, stride) in enumerate(calls):
            states = common if common and i < batch else batch
            table = np.stack([begin, stride, component], axis=1)
            self._entry(table.ctypes.data, 0, states, states)


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
    with announced("compiling the backward pass"):
        path = shared_library(sources, "gridgen_riccati", unit, _FLAGS, BuildCache())
    found = ctypes.CDLL(str(path)).gridgen_riccati
    found.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_double, *[ctypes.c_void_p] * 9]
    found.restype = None
    return found


class _Called(ctypes.Structure):
    """A ``Called`` of the C++ text."""

    _fields_ = (("entry", ctypes.c_void_p), ("arrays", ctypes.c_void_p), ("count", ctypes.c_int64))


def backward(
    steps: Called,
    costs: Called,
    efforts: NDArray[Any],
    limits: Array,
    near: Array,
    out: Sequence[Array],
    rows: NDArray[np.int64],
    *,
    coupled: int,
    fixed: int = 0,
    derived: int = 0,
    dt: float = 0.0,
) -> None:
    """Compute the changes of controls and the gains that minimize the quadratic model.

    Args:
        steps:   computes the derivatives of the steps by the states (n, n) and controls (n, m).
        costs:   computes the cost and its derivatives, the results of ``CostComputation``.
        efforts: controls (B, T, m); their type is that of all inputs.
        limits:  of the changed controls (m,).
        near:    regularization of the states (B,).
        out:     k (C, T, m) and K (C, T, m, n), the controls change by k - K x. The first ``fixed``
                 controls are not written. And the linear and quadratic parts of the expected change
                 of the cost (C, 2), NaN where the model has no minimum.
        rows:    index of each problem in these (B,).
        coupled: rows of the dense part of the Hessian of the cost.
        fixed:   number of first controls that do not change.
        derived: number of last positions that move by ``dt`` times their next velocities; their
                 rows of the derivatives are not read.
        dt:      length of a step.

    Source: Tassa, Mansard and Todorov 2014.
    """
    _, T, m, n = out[1].shape
    arrays = [np.ascontiguousarray(array, efforts.dtype) for array in (efforts, limits, near)]
    calls = [
        _Called(one.address, one.arrays.ctypes.data, len(one.arrays)) for one in (steps, costs)
    ]
    pointers = [array.ctypes.data for array in (*arrays, rows, *out)]
    real = "float" if efforts.dtype == np.float32 else "double"
    function = _function(real, n, m - fixed, m, derived, coupled)
    function(len(rows), T, dt, *map(ctypes.addressof, calls), *pointers)
