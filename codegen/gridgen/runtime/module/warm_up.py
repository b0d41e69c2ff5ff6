"""Compiling before the first call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from gridgen.backends.interface import FormKernel
from gridgen.errors import OptionError
from gridgen.kernel import Kernel
from gridgen.naming import show_value
from gridgen.progress import announced
from gridgen.runtime.calls.evaluation import Evaluator


def check_batch(batch: object) -> None:
    """Raise unless a value is a number of states."""
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise OptionError(f"batch is {show_value(batch)}; give a number of states, 1 or more")


def warm_up(
    evaluator: Evaluator,
    launches: Sequence[tuple[Kernel, NDArray[Any]]],
    batch: int,
    backend: str | None,
    progress: Callable[[str], None] | None,
) -> None:
    """Compile kernels, in both forms where there are two.

    Args:
        evaluator: caches the kernels.
        launches:  each kernel with an array like the first one of its calls.
        batch:     number of states of the calls, 0 if unknown.
        backend:   overrides the robot's backend.
        progress:  called with a text for each kernel; by default the standard error shows them if
                   they take long.
    """
    # A process that finds all kernels in the cache starts no thread.
    from gridgen.backends.process import side_by_side

    tasks = {
        f"{kernel.name} ({like.dtype})": partial(_make, evaluator, kernel, like, batch, backend)
        for kernel, like in launches
    }
    with announced("compiling", progress=progress, names_steps=True) as shown:
        for _ in side_by_side(tasks, shown):
            pass


def _make(
    evaluator: Evaluator, kernel: Kernel, like: NDArray[Any], batch: int, backend: str | None
) -> None:
    made = evaluator.compiled.find(kernel, like, backend, batch).kernel
    if isinstance(made, FormKernel):
        made.make(batch)
