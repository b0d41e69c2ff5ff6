"""Kernels that compute trajectories, for every backend."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from gridgen.backends.cpu.direct import as_arguments
from gridgen.backends.interface import Arguments, RunnableKernel


class TrajectoryKernel:
    """Adapter that runs a trajectory kernel as a kernel for a batch of states.

    Args:
        kernel:  its last argument is the number of samples of a trajectory, and of all.
        samples: samples of a trajectory; by default the batch is one trajectory.
    """

    def __init__(self, kernel: RunnableKernel, samples: int | None = None) -> None:
        self._kernel, self._samples = kernel, samples

    def of(self, samples: int) -> TrajectoryKernel:
        """Return the kernel for trajectories of this many samples."""
        return TrajectoryKernel(self._kernel, samples)

    def __call__(self, arguments: Arguments, batch: int) -> None:
        """Compute ``batch`` states; see :class:`gridgen.backends.interface.RunnableKernel`."""
        if batch:
            self._kernel(*self._with_length(arguments, batch))

    def prepare(self, arguments: Arguments, batch: int) -> Callable[[], object]:
        """Return a function that computes the same states; see ``RunnableKernel``."""
        return self._kernel.prepare(*self._with_length(arguments, batch))

    def _with_length(self, arguments: Arguments, batch: int) -> tuple[Arguments, int]:
        samples = self._samples or max(batch, 1)
        words = array("q", (0, samples, batch)).tobytes()
        return as_arguments(bytes(arguments) + words), -(-batch // samples)
