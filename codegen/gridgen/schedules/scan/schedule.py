"""The scan schedule: one team of lanes per state, one body per lane, log-many rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gridgen.dynamics.refusals import of_free_joints
from gridgen.kernel import Kernel, KernelKey, TeamLaunch, Work
from gridgen.schedules.scan.kernels import SCAN_ROWS, ScanKernel
from gridgen.schedules.scan.view import ScanFunctionView, scan_function_view, scan_view
from gridgen.schedules.team.plan import ScanPlan
from gridgen.schedules.team.schedule import Teams, TeamSchedule

#: Most entries of the largest array of one state: kernels use 32-bit indices.
MAX_ENTRIES = 2**31 - 1


class ScanSchedule(TeamSchedule[ScanKernel]):
    """The scan schedule of one robot."""

    name = "scan"

    def __init__(self, teams: Teams, rows: Iterable[ScanKernel] = SCAN_ROWS) -> None:
        super().__init__(teams, rows)

    def _tables(self, rows: Sequence[ScanKernel]) -> dict[str, Any]:
        return {"scan": scan_view(self.teams.plan, rows)}

    def _function(self, kernel: Kernel, row: ScanKernel, observed: bool) -> ScanFunctionView:
        return scan_function_view(self.teams.plan, kernel, row)

    def work(self, key: KernelKey) -> Work:
        """Return the work of a kernel per state; see ``Schedule``."""
        from gridgen.schedules.scan.work import scan_work  # traces the operators of a body

        return scan_work(self.teams.plan, self.row(key))

    def _refusal(self, row: ScanKernel) -> str | None:
        return super()._refusal(row) or scan_refusal(self.teams.plan, row)

    def _launch(self, row: ScanKernel) -> TeamLaunch:
        plan = self.teams.plan
        return TeamLaunch(
            threads_per_block=plan.threads_of(row),
            states_per_block=plan.states_of(row),
            shared_numbers=plan.shared_numbers(row),
            workspace_numbers=plan.workspace_numbers(row),
        )


def scan_refusal(plan: ScanPlan, kernel: ScanKernel) -> str | None:
    """Return why the teams of a robot do not support a kernel, with the remedy, or ``None``."""
    tree = plan.tree
    if kernel.broadcasts_rows and not plan.on_warp:
        # A row of the mass matrix, and its torque, are broadcast to the block at once.
        if plan.columns_in_all + 1 > plan.piece * plan.bodies:
            return (
                f"a row of the mass matrix has {plan.columns_in_all} numbers, and a block of the "
                f'GPU can share {plan.piece * plan.bodies - 1}: use method="aba"'
            )
    if kernel.memory:
        if reason := of_free_joints(tree):
            return reason
        entries = 4 * len(tree.bodies) ** 3 if tree.has_mimic else tree.nv**3
        if entries > MAX_ENTRIES:
            return (
                f"{tree.nv} velocities have {tree.nv**3} second derivatives, more than a kernel "
                "can index: use finite differences of inverse_dynamics_gradient"
            )
    return None
