"""Resolved calls: the kernel of a call with its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gridgen.functions.calls import Request, RolloutSettings
from gridgen.kernel import Kernel
from gridgen.runtime.calls.fused import FusedFunctions

#: How a call is computed: by its kernel; by the kernel of all frames.
Evaluation = Literal["kernel", "frames"]


@dataclass(slots=True)
class Resolved:
    """A call with its kernel."""

    kernel: Kernel  #: computes it, or declares its arrays.
    inputs: dict[str, Any]  #: the given arrays by name; ``None`` for the default.
    backend: str | None = None  #: overrides the robot's backend.
    out: Any = None  #: arrays for the results.
    settings: RolloutSettings | None = None  #: rollout options.
    evaluation: Evaluation = "kernel"  #: how it is computed.
    #: indices of the requested frames, where the kernel computes all.
    frames: int | list[int] | None = None
    fused: FusedFunctions | None = None  #: result type of fused functions.
    request: Request | None = None  #: the request, if later ones like it have the same kernel.
