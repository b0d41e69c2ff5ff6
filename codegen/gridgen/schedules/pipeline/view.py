"""Data of the templates of the pipeline schedule: scan teams, and their division among warps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gridgen.kernel import Kernel
from gridgen.schedules.pipeline.model import Split


@dataclass(frozen=True)
class PipelineView:
    """The chains."""

    forward: int  #: warps of the forward chain.
    backward: int  #: warps of the backward chain.
    at_once: int  #: samples that a chain processes at a time.
    layout: str  #: a description, one line.


def with_chains(
    view: Mapping[str, Any], kernels: Sequence[Kernel], split: Split, at_once: int
) -> dict[str, Any]:
    """Extend the template data of the scan schedule by the chains."""
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
