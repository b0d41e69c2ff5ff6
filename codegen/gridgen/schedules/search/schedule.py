"""Searches: inverse kinematics, in lanes that take a problem each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gridgen.dynamics.computation import array_shape
from gridgen.dynamics.functions import computation_of
from gridgen.dynamics.inverse_kinematics import SearchIteration
from gridgen.kernel import Kernel, KernelKey, Work
from gridgen.schedules.interface import KernelSelection, is_search
from gridgen.schedules.team.schedule import Teams
from gridgen.schedules.thread.schedule import ThreadSchedule

#: The variant of a key that names the program of one iteration.
ITERATION = "iteration"


class SearchSchedule:
    """The searches of one robot, one for each list of frames.

    Args:
        teams: of the robot; not used.
    """

    name = "search"

    def __init__(self, teams: Teams) -> None:
        self.tree = teams.tree
        self._thread = ThreadSchedule(teams)

    def keys(self, selection: KernelSelection) -> Iterator[KernelKey]:
        """Yield the requested searches; see ``Schedule``."""
        yield from selection.searches

    def has(self, key: KernelKey) -> bool:
        """Return whether a kernel belongs to this schedule; see ``Schedule``."""
        return is_search(key)

    def refusal(self, key: KernelKey) -> str | None:
        """Return why the robot does not support a kernel; see ``Schedule``."""
        return self._thread.refusal(iteration_of(key))

    def work(self, key: KernelKey) -> Work:
        """Return the work of a kernel per iteration; see ``Schedule``."""
        return self._thread.work(iteration_of(key))

    def kernel(self, key: KernelKey) -> Kernel:
        """Return the record of a kernel; see ``Schedule``."""
        iteration = computation_of(self.tree, iteration_of(key))
        assert isinstance(iteration, SearchIteration)
        inputs = {"q0": array_shape("q0", self.tree)}
        inputs |= {
            name: iteration.shape(name, self.tree)
            for name in iteration.inputs
            if name not in ("q", "progress")
        }
        return Kernel(
            key=key,
            same=key,
            title=iteration.search_title,
            source=iteration.source,
            inputs=inputs,
            outputs={name: array_shape(name, self.tree) for name in ("q", "success", "residual")},
            calls=(iteration.key,),
        )


def iteration_of(key: KernelKey) -> KernelKey:
    """Return the kernel whose program computes an iteration of a search."""
    return replace(key, variant=ITERATION)
