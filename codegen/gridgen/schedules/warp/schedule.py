"""The warp schedule: one team of lanes per state, programs traced from ``gridgen.dynamics``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gridgen.dynamics import base_bodies, base_steps
from gridgen.dynamics.functions import computation_of
from gridgen.kernel import Kernel, KernelKey, TeamLaunch, Work
from gridgen.schedules.team.schedule import Teams, TeamSchedule
from gridgen.schedules.views import RobotView
from gridgen.schedules.warp.kernels import WARP_ROWS, WarpKernel
from gridgen.schedules.warp.plan import MAX_LANES, WarpPlan, plan_warp, width_of
from gridgen.schedules.warp.view import (
    WarpFunctionView,
    warp_function_view,
    warp_view,
    with_shared_numbers,
)


class WarpSchedule(TeamSchedule[WarpKernel]):
    """The warp schedule of one robot."""

    name = "warp"

    def __init__(self, teams: Teams) -> None:
        super().__init__(teams, WARP_ROWS)

    def _plan(self, row: WarpKernel) -> WarpPlan:
        return plan_warp(self.tree, row)

    def refusal(self, key: KernelKey) -> str | None:
        """Return why the robot does not support a kernel; see ``Schedule``."""
        row = self.row(key)
        if self.tree.has_mujoco_quaternions:
            return (
                "teams of threads do not convert MuJoCo's coordinates: load it without convention="
            )
        reason = computation_of(self.tree, row.same).refusal(self.tree)
        reason = reason or base_bodies.refusal(self.tree)
        if key.function in ("step", "step_gradient"):
            reason = reason or base_steps.refusal(self.tree)
        if reason:
            return reason
        if width_of(self.tree) > MAX_LANES:
            return (
                f"the robot has {len(self.tree.bodies)} bodies, and a team at most {MAX_LANES} "
                'lanes: use schedule="thread"'
            )
        if not self._plan(row).fits:
            return (
                "a state needs more shared memory than every GPU grants a block: use "
                'schedule="thread"'
            )
        return None

    def view(
        self, robot: RobotView, kernels: Sequence[Kernel], *, observed: bool = False
    ) -> dict[str, Any]:
        """Return the fields of the template; see ``TeamSchedule``."""
        view = super().view(robot, kernels, observed=observed)
        tables, functions = with_shared_numbers(view["functions"])
        return view | {"tables": tables, "functions": functions}

    def _tables(self, rows: Sequence[WarpKernel]) -> dict[str, Any]:
        return {"warp": warp_view(self.tree)}

    def _function(self, kernel: Kernel, row: WarpKernel, observed: bool) -> WarpFunctionView:
        return warp_function_view(kernel, self._plan(row))

    def work(self, key: KernelKey) -> Work:
        """Return the work of a kernel per state; see ``Schedule``."""
        plan = self._plan(self.row(key))
        return Work(plan.width * plan.layout.work, plan.layout.work, plan.layout.meets)

    def _launch(self, row: WarpKernel) -> TeamLaunch:
        return self._plan(row).launch
