"""What the templates of the pipeline schedule see: the teams of scan, and how warps share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gridgen.emit.views import scan
from gridgen.emit.views.robot import RobotView
from gridgen.kernel import Kernel
from gridgen.schedules.pipeline import PipelineSchedule


@dataclass(frozen=True)
class PipelineView:
    """The chains.

    Attributes:
        forward:  warps of the forward chain.
        backward: warps of the backward chain.
        at_once:  samples that a chain works on at a time.
        layout:   this in words, one line.
    """

    forward: int
    backward: int
    at_once: int
    layout: str


def template_view(
    schedule: PipelineSchedule, robot: RobotView, kernels: Sequence[Kernel]
) -> dict[str, Any]:
    """Return the fields of the template that holds the kernels; as that of the scan schedule."""
    if not kernels:
        return {"robot": robot, "functions": []}
    view = scan.template_view(schedule, robot, kernels)
    split, at_once = schedule.split, schedule.at_once
    counted = ["one warp" if count == 1 else f"{count} warps" for count in vars(split).values()]
    layout = f"{counted[0]} forward, {counted[1]} back, up to {at_once} samples at a time"
    teams = [kernel.team for kernel in kernels]
    functions = [
        replace(function, threads=team.threads_per_block)
        for function, team in zip(view["functions"], teams, strict=True)
        if team is not None
    ]
    pipeline = PipelineView(split.forward, split.backward, at_once, layout)
    return {**view, "functions": functions, "pipeline": pipeline}
