"""The constraint-force algorithm on the teams of the scan schedule."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from gridgen.dynamics.cfa import refusal
from gridgen.kernel import Kernel, KernelKey, TeamLaunch, Work
from gridgen.schedules.cfa.plan import CfaPlan, cfa_work, plan_cfa
from gridgen.schedules.cfa.view import CfaFunctionView, cfa_function_view, cfa_view
from gridgen.schedules.scan.view import scan_view
from gridgen.schedules.team.schedule import TeamKernel, Teams, TeamSchedule

CFA_ROWS = (
    TeamKernel(
        KernelKey("forward_dynamics", "cfa", "scan"),
        KernelKey("forward_dynamics", "aba"),
        "Yang, Wu, Pan (GPU scheme) Algorithms 1 and 2",
        # Motion and wrench of the bias motion, and C, the additional wrench of the joint.
        (("V", 6), ("A", 6), ("F", 6), ("C", 6)),
    ),
)


class CfaSchedule(TeamSchedule[TeamKernel]):
    """The constraint-force algorithm for one robot."""

    name = "cfa"

    def __init__(self, teams: Teams) -> None:
        super().__init__(teams, CFA_ROWS)

    @cached_property
    def plan(self) -> CfaPlan:
        """The plan of a robot that supports the algorithm."""
        return plan_cfa(self.teams.plan)

    def _tables(self, rows: Sequence[TeamKernel]) -> dict[str, Any]:
        return {"scan": scan_view(self.teams.plan), "cfa": cfa_view(self.plan)}

    def _function(self, kernel: Kernel, row: TeamKernel, observed: bool) -> CfaFunctionView:
        return cfa_function_view(kernel, row, observed)

    def work(self, key: KernelKey) -> Work:
        """Return the work of a kernel per state; see ``Schedule``."""
        return cfa_work(self.plan)

    def _refusal(self, row: TeamKernel) -> str | None:
        return refusal(self.tree)

    def _launch(self, row: TeamKernel) -> TeamLaunch:
        plan = self.plan
        return TeamLaunch(
            threads_per_block=plan.threads,
            states_per_block=plan.states_per_block,
            shared_numbers=plan.shared_numbers(),
            workspace_numbers=0 if plan.in_shared_memory() else plan.numbers,
        )
