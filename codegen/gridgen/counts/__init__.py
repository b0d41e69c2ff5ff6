"""What kernels cost, counted from the robot when its kernels are made: nothing is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gridgen.counts.cfa import cfa_work
from gridgen.counts.pipeline import pipeline_work
from gridgen.counts.scan import scan_work
from gridgen.counts.thread import thread_work
from gridgen.kernel import Kernel, KernelKey, Work
from gridgen.schedules import Schedules
from gridgen.schedules.rollout import repeated

#: How the kernels of each schedule are counted, by its name.
_COUNTS: dict[str, Callable[[Any, KernelKey], Work]] = {
    "thread": lambda schedule, key: thread_work(schedule.tree, key),
    "rollout": lambda schedule, key: thread_work(schedule.tree, repeated(key)),
    "scan": lambda schedule, key: scan_work(schedule.teams.plan, schedule.row(key)),
    "hybrid": lambda schedule, key: scan_work(schedule.teams.plan, schedule.row(key)),
    "pipeline": lambda schedule, key: pipeline_work(schedule, schedule.row(key)),
    "cfa": lambda schedule, key: cfa_work(schedule.plan),
}


def work_of(schedules: Schedules, kernel: Kernel) -> Work:
    """Return what a state costs a kernel of a robot.

    Args:
        schedules: of the robot.
        kernel:    one of theirs.
    """
    schedule = schedules.of(kernel.key)
    return _COUNTS[schedule.name](schedule, kernel.key)
