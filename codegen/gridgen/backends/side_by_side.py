"""Parallel compilation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import TypeVar

from gridgen.backends.process import ended_by_termination
from gridgen.progress import Progress, Step

_Result = TypeVar("_Result")
# Longest wait for a task before signals are handled [s].
_PATIENCE = 0.5


def side_by_side(
    tasks: Mapping[str, Callable[[], _Result]],
    progress: Progress,
    jobs: int | None = None,
) -> Iterator[_Result]:
    """Run tasks in parallel and yield their results in order.

    The first exception cancels all tasks that have not started.

    Args:
        tasks:    tasks by name.
        progress: called with a message for each task.
        jobs:     number of parallel tasks; the default is the number of cores of this process.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    with ended_by_termination(), ThreadPoolExecutor(jobs or cores, "gridgen-compile") as pool:
        # Each task runs in this context: what it reports belongs to the task of the caller.
        futures: dict[str, Future[_Result]] = {
            name: pool.submit(copy_context().run, task) for name, task in tasks.items()
        }
        try:
            for count, (name, future) in enumerate(futures.items(), 1):
                progress(Step.of("compiling", name, count, len(tasks)))
                # In turns: a signal just before a wait is handled only after it.
                while not wait((future,), timeout=_PATIENCE).done:
                    pass
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
