"""Kernels of the papers on the teams of the scan schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gridgen.kernel import WARP, Kernel, KernelKey, TeamLaunch, Work
from gridgen.model.tree import KinematicTree
from gridgen.modules import TracedModule
from gridgen.papers.halves import ACCELERATIONS, REST
from gridgen.papers.model import Machine, Operations, Split, best_split
from gridgen.schedules import Schedules
from gridgen.schedules.scan.kernels import ScanKernel
from gridgen.schedules.scan.schedule import ScanSchedule
from gridgen.schedules.scan.view import ScanFunctionView
from gridgen.schedules.team.plan import ScanPlan
from gridgen.schedules.team.schedule import Teams
from gridgen.schedules.views import RobotView

#: Warps of a block: one for every scheduler of a multiprocessor.
WARPS = 4
#: Numbers that the forward chain passes on for each body: a placement and a wrench.
RECORD_NUMBERS = 12 + 6
SLOTS = 2

_MOTION = (("V", 6), ("A", 6), ("F", 6))
_ABA = KernelKey("forward_dynamics", method="aba")


@dataclass(frozen=True)
class PaperKernel(ScanKernel):
    """A kernel of a paper."""

    folder: str = "papers"  #: of its template.

    @property
    def optional_inputs(self) -> tuple[str, ...]:
        """Optional inputs that its variants can read; those of a step have none."""
        return () if self.same.step else super().optional_inputs


PIPELINE_ROW = PaperKernel(
    KernelKey("inverse_dynamics", schedule="pipeline"),
    KernelKey("inverse_dynamics"),
    "Iannello, Siciliano; Yang, Wu, Pan (prefix sums) Algorithm 1",
    _MOTION,
    "pipeline_inverse_dynamics",
)
SYNCHRONOUS_ROW = PaperKernel(
    KernelKey("inverse_dynamics", schedule="scan", variant="synchronous"),
    KernelKey("inverse_dynamics"),
    "Yang, Wu, Pan (prefix sums) eq. 12 and 13",
    _MOTION,
    "inverse_dynamics_synchronous",
)
UNMERGED_ROW = PaperKernel(
    replace(_ABA, schedule="scan", variant="unmerged"),
    _ABA,
    "Yang, Wu, Pan (prefix sums) eq. 7, 16, 18 and 19",
    (*_MOTION, ("J", 21), ("p", 6), ("a", 6)),
    "aba",
    parks=12,
    parks_if_free=21,
    folder="scan",
)
#: The second half of Algorithm 3, which uses the articulated inertias.
HYBRID_ROW = PaperKernel(
    ACCELERATIONS,
    REST,
    "Yang, Wu, Pan (prefix sums) Algorithm 3, eq. 18 and 19",
    (("J", 21), ("p", 6), ("a", 6)),
    "articulated_accelerations",
    parks=18,
    parks_if_free=21,
    parks_effort=True,
)
#: The kernels of ``PaperSchedule``.
PAPER_ROWS = (SYNCHRONOUS_ROW, UNMERGED_ROW, HYBRID_ROW)

# Operations per body, as the scan schedule counts them: of each chain, and of each round.
_FORWARD, _FORWARD_ROUND = 121, 2 * 30 + 36
_BACKWARD, _BACKWARD_ROUND = 1, 24 + 6 + 36
# Clocks of an operation of a lane, and of a barrier.
_CLOCKS = Machine(operation=5, start=40, message=0)


class PaperSchedule(ScanSchedule):
    """Variants of kernels of the scan schedule, and the second half of Algorithm 3."""

    name = "papers"

    def __init__(self, teams: Teams, rows: Sequence[PaperKernel] = PAPER_ROWS) -> None:
        super().__init__(teams, rows)

    def work(self, key: KernelKey) -> Work:
        """Return the work of a kernel per state; see ``Schedule``."""
        return paper_work(self.teams.plan, self.row(key))

    def _function(self, kernel: Kernel, row: ScanKernel, observed: bool) -> ScanFunctionView:
        assert isinstance(row, PaperKernel)
        view = super()._function(kernel, row, observed)
        return replace(view, part=f"{row.folder}/{row.part}.jinja")


class PipelineSchedule(PaperSchedule):
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

    def _function(self, kernel: Kernel, row: ScanKernel, observed: bool) -> ScanFunctionView:
        view = super()._function(kernel, row, observed)
        threads = self._launch(row).threads_per_block
        return replace(view, threads=threads)

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


def paper_work(plan: ScanPlan, row: ScanKernel) -> Work:
    """Return the work of a kernel of a paper, or of the scan schedule, per state or sample."""
    from gridgen.schedules.scan.work import (  # traces operators
        articulated_scans,
        masses,
        scan_work,
    )
    from gridgen.schedules.team import operations as of
    from gridgen.schedules.team.operations import doublings, each, inward, outward

    start = each(plan, of.PLACEMENT + 2 * of.JOINT_MOTION)
    if row.part == PIPELINE_ROW.part:  # a scan, with the placements doubled in both chains
        scan, handed_over = replace(row, part="inverse_dynamics"), Work(0, 0, 2)
        return scan_work(plan, scan) + doublings(plan, of.COMPOSE, 0) + handed_over
    if row.part == HYBRID_ROW.part:
        return start + articulated_scans(plan)
    if row.part == SYNCHRONOUS_ROW.part:
        loads = of.EXTERNAL_WRENCH if "f_ext" in row.key.inputs else 0
        both = outward(plan, 2 * of.TO_BODY + of.CARRIED) + doublings(plan, of.COMPOSE, 0)
        collected = inward(plan, of.TO_ANCESTOR, of.SUM) + each(plan, 1)
        return masses(plan) + start + both + each(plan, of.MOTION_WRENCH + loads) + collected
    return scan_work(plan, row)


class PaperModule(TracedModule):
    """A robot's kernels, including those of this package."""

    def _plan(self, tree: KinematicTree) -> Schedules:
        return Schedules(tree, (PaperSchedule, PipelineSchedule))
