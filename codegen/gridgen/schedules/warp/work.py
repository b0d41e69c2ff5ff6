"""The work of kernels of the warp schedule, counted from their programs."""

from __future__ import annotations

from gridgen.kernel import Work
from gridgen.schedules.warp.plan import WarpPlan


def warp_work(plan: WarpPlan) -> Work:
    """Return the work of a kernel per state."""
    lanes = plan.lanes
    return Work(plan.width * lanes.work, lanes.work, lanes.meets)
