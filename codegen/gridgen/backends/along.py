"""Kernels that go along trajectories, whatever the backend."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from gridgen.backends.cpu.direct import as_arguments
from gridgen.backends.interface import Arguments, RunnableKernel


class TrajectoryKernel:
    """A kernel that goes along trajectories, as one that computes a batch of states.

    Args:
        kernel:  takes how many samples a trajectory has, and all, as its last argument.
        samples: of a trajectory; by default the batch is one.
    """

    def __init__(self, kernel: RunnableKernel, samples: int | None = None) -> None:
        self._kernel, self._samples = kernel, samples

    def of(self, samples: int) -> TrajectoryKernel:
        """Return the kernel for trajectories of so many samples."""
        return TrajectoryKernel(self._kernel, samples)

    def __call__(self, arguments: Arguments, batch: int) -> None:
        """Compute ``batch`` states; see :class:`gridgen.backends.interface.RunnableKernel`."""
        if batch:
            self._kernel(*self._with_length(arguments, batch))

    def prepare(self, arguments: Arguments, batch: int) -> Callable[[], object]:
        """Return what computes the same states whenever it is called; see ``RunnableKernel``."""
        return self._kernel.prepare(*self._with_length(arguments, batch))

    def _with_length(self, arguments: Arguments, batch: int) -> tuple[Arguments, int]:
        samples = self._samples or max(batch, 1)
        words = array("q", (0, samples, batch)).tobytes()
        return as_arguments(bytes(arguments) + words), -(-batch // samples)
