"""Schedules: how each one maps the states of a robot to threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gridgen.kernel import Kernel, KernelKey, Work
from gridgen.model.tree import KinematicTree
from gridgen.schedules.cfa.schedule import CfaSchedule
from gridgen.schedules.interface import KernelSelection, Schedule
from gridgen.schedules.rollout.schedule import RolloutSchedule
from gridgen.schedules.scan.schedule import ScanSchedule
from gridgen.schedules.search.schedule import SearchSchedule
from gridgen.schedules.team.schedule import Teams, TeamSchedule
from gridgen.schedules.thread.schedule import ThreadSchedule
from gridgen.schedules.warp.schedule import WarpSchedule

__all__ = ["KernelSelection", "Schedule", "Schedules"]

#: Every schedule; each is the only one that has its kernels.
_ALL: tuple[Callable[[Teams], Schedule], ...] = (
    ThreadSchedule,
    RolloutSchedule,
    SearchSchedule,
    ScanSchedule,
    CfaSchedule,
    WarpSchedule,
)


class Schedules:
    """All schedules of one robot, each planned once.

    Args:
        tree: the robot.
        more: further schedules.
    """

    def __init__(
        self, tree: KinematicTree, more: Sequence[Callable[[Teams], Schedule]] = ()
    ) -> None:
        self.tree = tree
        teams = Teams(tree)
        self.all = tuple(schedule(teams) for schedule in (*_ALL, *more))

    def of(self, key: KernelKey) -> Schedule:
        """Return the schedule that provides a kernel."""
        return next(schedule for schedule in self.all if schedule.has(key))

    def kernel(self, key: KernelKey) -> Kernel:
        """Return the record of a kernel that the robot supports."""
        return self.of(key).kernel(key)

    def work(self, kernel: Kernel) -> Work:
        """Return the work of a kernel per state, counted without tracing."""
        return self.of(kernel.key).work(kernel.key)

    @property
    def teams(self) -> Iterator[TeamSchedule[Any]]:
        """Schedules with one team of threads per state."""
        return (schedule for schedule in self.all if isinstance(schedule, TeamSchedule))

    def select(self, selection: KernelSelection) -> tuple[list[Kernel], dict[str, str]]:
        """Return the requested kernels that the robot supports; reasons for the others, by name."""
        kernels, refusals = [], {}
        for schedule in self.all:
            for key in schedule.keys(selection):
                if (reason := schedule.refusal(key)) is None:
                    kernels.append(schedule.kernel(key))
                else:
                    refusals[key.name] = reason
        return kernels, refusals
