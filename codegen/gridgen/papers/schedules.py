"""Kernels of the papers on the teams of the scan schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from gridgen.kernel import WARP, Kernel, KernelKey, TeamLaunch, Work
from gridgen.model.tree import KinematicTree
from gridgen.modules import TracedModule
from gridgen.papers.model import Machine, Operations, Split, best_split
from gridgen.schedules import Schedules
from gridgen.schedules.scan.kernels import ScanKernel
from gridgen.schedules.scan.schedule import ScanSchedule
from gridgen.schedules.scan.view import ScanFunctionView
from gridgen.schedules.team.schedule import Teams
from gridgen.schedules.views import RobotView

#: Warps of a block: one for every scheduler of a multiprocessor.
WARPS = 4
#: Numbers that the forward chain passes on for each body: a placement and a wrench.
RECORD_NUMBERS = 12 + 6
SLOTS = 2

PIPELINE_ROW = ScanKernel(
    KernelKey("inverse_dynamics", schedule="pipeline"),
    KernelKey("inverse_dynamics"),
    "Iannello, Siciliano; Yang, Wu, Pan (prefix sums) Algorithm 1",
    (("V", 6), ("A", 6), ("F", 6)),
    "inverse_dynamics",
)

# Operations per body, as ``gridgen.schedules.scan.work`` counts them: of each chain, and of each
# round.
_FORWARD, _FORWARD_ROUND = 121, 2 * 30 + 36
_BACKWARD, _BACKWARD_ROUND = 1, 24 + 6 + 36
# Clocks of an operation of a lane, and of a barrier.
_CLOCKS = Machine(operation=5, start=40, message=0)


class PipelineSchedule(ScanSchedule):
    """One block per trajectory, with separate warps for each chain of Newton-Euler.

    Warps of the forward chain compute velocities, accelerations and wrenches of some samples. Warps
    of the backward chain sum these wrenches while the forward chain computes the next samples. In
    each chain a sample is mapped to lanes as in the scan schedule.
    """

    name = "pipeline"
    folder = "papers"

    def __init__(self, teams: Teams) -> None:
        super().__init__(teams, (PIPELINE_ROW,))

    @cached_property
    def split(self) -> Split:
        """The warps of each chain, for a supported robot."""
        rounds = self.teams.plan.rounds
        operations = Operations(
            _FORWARD + rounds * _FORWARD_ROUND, _BACKWARD + rounds * _BACKWARD_ROUND
        )
        return best_split(WARPS, 1, operations, _CLOCKS)

    @property
    def at_once(self) -> int:
        """Samples that a chain processes at a time."""
        return self.split.forward * WARP // self.teams.plan.width

    def view(
        self, robot: RobotView, kernels: Sequence[Kernel], *, observed: bool = False
    ) -> dict[str, Any]:
        """Return what the templates see of kernels, and of the chains; see ``TeamSchedule``."""
        counted = [f"{count} warp{'s' * (count > 1)}" for count in vars(self.split).values()]
        layout = f"{counted[0]} forward, {counted[1]} back, up to {self.at_once} samples at a time"
        chains = {**vars(self.split), "at_once": self.at_once, "layout": layout}
        return {**super().view(robot, kernels, observed=observed), "pipeline": chains}

    def work(self, key: KernelKey) -> Work:
        """Return the work of a sample in both chains: a scan with the placements doubled twice."""
        from gridgen.schedules.team import operations as of
        from gridgen.schedules.team.rounds import doublings

        handed_over = Work(0, 0, 2)
        return super().work(key) + doublings(self.teams.plan, of.COMPOSE, 0) + handed_over

    def _function(self, kernel: Kernel, row: ScanKernel, observed: bool) -> ScanFunctionView:
        view = super()._function(kernel, row, observed)
        threads = self._launch(row).threads_per_block
        return replace(view, part="papers/pipeline_inverse_dynamics.jinja", threads=threads)

    def _refusal(self, row: ScanKernel) -> str | None:
        if not self.teams.plan.on_warp:
            return (
                f"the robot has {self.teams.plan.bodies} bodies, and a warp of the pipeline has "
                f'lanes for at most {WARP}: use schedule="scan"'
            )
        return super()._refusal(row)

    def _launch(self, row: ScanKernel) -> TeamLaunch:
        return TeamLaunch(
            threads_per_block=WARP * (self.split.forward + self.split.backward),
            states_per_block=1,
            shared_numbers=SLOTS * RECORD_NUMBERS * WARP * self.split.forward,
        )


class PaperModule(TracedModule):
    """A robot's kernels, including those of this package."""

    def _plan(self, tree: KinematicTree) -> Schedules:
        return Schedules(tree, (PipelineSchedule,))
