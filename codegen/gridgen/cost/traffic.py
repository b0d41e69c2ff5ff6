"""Memory traffic of a kernel by the layout of its arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from gridgen.cost.devices import LINE, SECTOR
from gridgen.functions.arrays import ARRAYS
from gridgen.kernel import WARP, Kernel

#: Layout of a batch: one state after the other, (B, n), or one component after the other.
Layout = Literal["rows", "components"]


@dataclass(frozen=True)
class Traffic:
    """Memory traffic per state; without arrays that the whole batch shares, such as gravity."""

    bytes: int  #: bytes of inputs and results, each once: the least traffic of any kernel.
    sectors: float  #: sectors of 32 bytes exchanged with L2.
    lines: float  #: lines of 128 bytes that instructions access.


def traffic_of(kernel: Kernel, itemsize: int, layout: Layout = "rows") -> Traffic:
    """Return a kernel's memory traffic per state.

    The threads of a warp move their rows together through shared memory, and adjacent components
    directly. The lanes of a team write a row together.
    """
    read = sum(math.prod(s) for name, s in kernel.inputs.items() if not ARRAYS[name].shared)
    written = sum(map(math.prod, kernel.outputs.values()))
    together = _written_together(kernel, itemsize, layout)
    extra = 2 * ((kernel.team and kernel.team.workspace_numbers) or 0) * itemsize
    return Traffic(
        bytes=(read + written) * itemsize,
        sectors=(read * itemsize + extra) / SECTOR + written / min(together, SECTOR // itemsize),
        lines=(read * itemsize + extra) / LINE + written / min(together, LINE // itemsize),
    )


def _written_together(kernel: Kernel, itemsize: int, layout: Layout) -> int:
    """Return how many adjacent numbers an instruction of a warp writes."""
    if kernel.team is None:
        return WARP
    states = kernel.team.states_per_block * WARP // kernel.team.threads_per_block
    return WARP // max(states, 1) if layout == "rows" else max(states, 1)
