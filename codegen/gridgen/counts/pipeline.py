"""The work of the kernels of the pipeline schedule."""

from __future__ import annotations

from gridgen.counts import bodies as of
from gridgen.counts.rounds import doublings
from gridgen.counts.scan import scan_work
from gridgen.kernel import Work
from gridgen.schedules.pipeline import PipelineSchedule
from gridgen.schedules.scan.kernels import ScanKernel


def pipeline_work(schedule: PipelineSchedule, kernel: ScanKernel) -> Work:
    """Return the work of a sample in both chains: that of a scan, placements being doubled twice.

    Args:
        schedule: of the robot.
        kernel:   which one.
    """
    plan = schedule.teams.plan
    handed_over = Work(0, 0, 2)
    return scan_work(plan, kernel) + doublings(plan, of.COMPOSE, 0) + handed_over
