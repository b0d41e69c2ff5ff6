"""The work of the kernels of the pipeline schedule."""

from __future__ import annotations

from gridgen.kernel import Work
from gridgen.schedules.scan.kernels import ScanKernel
from gridgen.schedules.scan.work import scan_work
from gridgen.schedules.team import operations as of
from gridgen.schedules.team.plan import ScanPlan
from gridgen.schedules.team.rounds import doublings


def pipeline_work(plan: ScanPlan, kernel: ScanKernel) -> Work:
    """Return the work of a sample in both chains: a scan with the placements doubled twice."""
    handed_over = Work(0, 0, 2)
    return scan_work(plan, kernel) + doublings(plan, of.COMPOSE, 0) + handed_over
