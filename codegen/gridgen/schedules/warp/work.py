"""The work of kernels of the warp schedule, counted from their algorithms."""

from __future__ import annotations

from gridgen.kernel import Work
from gridgen.schedules.warp.plan import WarpPlan


def warp_work(plan: WarpPlan) -> Work:
    """Return the work of a kernel per state."""
    layout = plan.layout
    return Work(plan.width * layout.work, layout.work, layout.meets)
