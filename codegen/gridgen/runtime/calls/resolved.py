"""What a call is computed from, when its kernel has been found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gridgen.functions.calls import RolloutSettings
from gridgen.kernel import Kernel
from gridgen.runtime.calls.fused import Several

#: How a call is computed: by a kernel alone; some frames by the kernel of all; several functions
#: by one kernel; with halves on two processors; along trajectories.
Way = Literal["kernel", "frames", "several", "hybrid", "pipeline"]


@dataclass(slots=True)
class Resolved:
    """What a call is computed from.

    Attributes:
        kernel:  computes it, or has its arrays.
        inputs:  its arrays by name, as they were given; ``None`` for the default.
        backend: overrides the robot's.
        out:     arrays for the results.
        course:  how a rollout goes.
        way:     how it is computed.
        frames:  indices of the frames that are asked for, where the kernel computes all.
        several: how the results of several functions are handed back.
    """

    kernel: Kernel
    inputs: dict[str, Any]
    backend: str | None = None
    out: Any = None
    course: RolloutSettings | None = None
    way: Way = "kernel"
    frames: int | list[int] | None = None
    several: Several | None = None
