"""Schedules: orders of operations that streams permit and that expose missing synchronization."""

from __future__ import annotations

import random
from collections.abc import Collection

from fake_gpu.work import Operation, Schedule


def late(ready: list[Operation], needed: Collection[Operation]) -> Operation | None:
    """Run only operations that the host waits for, the newest first: a busy GPU."""
    return next((operation for operation in reversed(ready) if operation in needed), None)


def early(ready: list[Operation], needed: Collection[Operation]) -> Operation | None:
    """Run operations immediately, the oldest first: an idle GPU."""
    return ready[0]


def shuffled(seed: int) -> Schedule:
    """Return a schedule that selects operations at random."""
    draw = random.Random(seed)

    def schedule(ready: list[Operation], needed: Collection[Operation]) -> Operation | None:
        return draw.choice(ready) if needed or draw.random() < 0.5 else None

    return schedule


def schedule(name: str) -> Schedule:
    """Return a schedule by name: ``late``, ``early``, or the seed of a shuffled schedule.

    Raises:
        ValueError: there is no such schedule.
    """
    named = {"late": late, "early": early}
    if name in named:
        return named[name]
    if name.isdigit():
        return shuffled(int(name))
    raise ValueError(f'schedule is "{name}"; choose late, early or a number')
