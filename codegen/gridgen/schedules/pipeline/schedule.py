"""The pipeline schedule: one block per trajectory, with separate warps for each chain.

Warps of the forward chain compute velocities, accelerations and wrenches of some samples. Warps of
the backward chain sum these wrenches while the forward chain computes the next samples. In each
chain a sample is mapped to lanes as in the scan schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from gridgen.kernel import WARP, Kernel, KernelKey, TeamLaunch, Work
from gridgen.schedules.pipeline.model import Machine, Operations, Split, best_split
from gridgen.schedules.pipeline.view import with_chains
from gridgen.schedules.scan.kernels import ScanKernel
from gridgen.schedules.scan.schedule import ScanSchedule
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
    """The pipeline schedule of one robot."""

    name = "pipeline"

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
        """Return what the templates see of kernels; see ``TeamSchedule``."""
        if not kernels:
            return {"robot": robot, "functions": []}
        view = super().view(robot, kernels, observed=observed)
        return with_chains(view, kernels, self.split, self.at_once)

    def work(self, key: KernelKey) -> Work:
        """Return the work of a kernel per state; see ``Schedule``."""
        from gridgen.schedules.pipeline.work import pipeline_work  # traces the operators of a body

        return pipeline_work(self.teams.plan, self.row(key))

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
            along=True,
        )
