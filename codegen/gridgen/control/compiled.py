"""Compiled functions of a robot on trajectories, one time after the other."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.backends.cpu.backend import CpuKernel
from gridgen.errors import DeviceError
from gridgen.kernel import Kernel
from gridgen.robot import Robot

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
