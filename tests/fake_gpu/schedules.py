"""Which operation runs next: orders that streams allow and careless callers do not expect."""

from __future__ import annotations

import random
from collections.abc import Collection

from fake_gpu.work import Operation, Schedule


def late(ready: list[Operation], needed: Collection[Operation]) -> Operation | None:
    """Run only what somebody waits for, the newest first: a GPU that is busy with other things."""
    return next((operation for operation in reversed(ready) if operation in needed), None)


def early(ready: list[Operation], needed: Collection[Operation]) -> Operation | None:
    """Run everything at once, the oldest first: a GPU that has nothing else to do."""
    return ready[0]


def shuffled(seed: int) -> Schedule:
    """Return a schedule that runs now this and now that."""
    draw = random.Random(seed)

    def schedule(ready: list[Operation], needed: Collection[Operation]) -> Operation | None:
        return draw.choice(ready) if needed or draw.random() < 0.5 else None

    return schedule


def schedule(name: str) -> Schedule:
    """Return a schedule by its name: ``late``, ``early``, or a number, the seed of a shuffled one.

    Raises:
        ValueError: there is no such schedule.
    """
    named = {"late": late, "early": early}
    if name in named:
        return named[name]
    if name.isdigit():
        return shuffled(int(name))
    raise ValueError(f'schedule is "{name}"; choose late, early or a number')
