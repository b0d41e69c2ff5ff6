"""Resolved calls: the kernel of a call with its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gridgen.functions.calls import RolloutSettings
from gridgen.kernel import Kernel
from gridgen.runtime.calls.fused import Several

#: How a call is computed: by its kernel; by the kernel of all frames; by a kernel of fused
#: functions; in halves on two processors.
Evaluation = Literal["kernel", "frames", "several", "hybrid"]


@dataclass(slots=True)
class Resolved:
    """A call with its kernel.

    Attributes:
        kernel:  computes it, or declares its arrays.
        inputs:  the given arrays by name; ``None`` for the default.
        backend: overrides the robot's backend.
        out:     arrays for the results.
        course:  rollout options.
        evaluation: how it is computed.
        frames:  indices of the requested frames, where the kernel computes all.
        several: result type of fused functions.
    """

    kernel: Kernel
    inputs: dict[str, Any]
    backend: str | None = None
    out: Any = None
    course: RolloutSettings | None = None
    evaluation: Evaluation = "kernel"
    frames: int | list[int] | None = None
    several: Several | None = None
