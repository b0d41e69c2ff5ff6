"""Compilations, several at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")


def side_by_side(
    tasks: Mapping[str, Callable[[], _Result]],
    progress: Callable[[str], None],
    jobs: int | None = None,
) -> Iterator[_Result]:
    """Yield what tasks return, in order; a task for each core at a time.

    The first that fails ends all: those that have not begun never do.

    Args:
        tasks:    what to do, by what it is called.
        progress: called with words whenever one is done.
        jobs:     tasks at a time; by default as many as there are cores for this process.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    with ThreadPoolExecutor(jobs or cores, "gridgen-compile") as pool:
        futures: dict[str, Future[_Result]] = {n: pool.submit(t) for n, t in tasks.items()}
        try:
            for count, (name, future) in enumerate(futures.items(), 1):
                progress(f"compiling {count} of {len(tasks)}: {name}")
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
