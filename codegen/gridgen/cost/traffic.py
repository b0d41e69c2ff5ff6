"""What a kernel moves between memory and multiprocessors, by the layout of its arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from gridgen.cost.devices import LINE, SECTOR
from gridgen.functions.arrays import ARRAYS
from gridgen.kernel import WARP, Kernel

#: How a batch lies in memory: a state after the other, (B, n), or a component after the other.
Layout = Literal["rows", "components"]


@dataclass(frozen=True)
class Traffic:
    """What one state moves. What a whole batch shares, such as one gravity, counts as nothing.

    Attributes:
        bytes:   inputs and results, each once: what no kernel can do without.
        sectors: pieces of 32 bytes that multiprocessors exchange with L2.
        lines:   lines of 128 bytes that instructions touch for it.
    """

    bytes: int
    sectors: float
    lines: float


def traffic_of(kernel: Kernel, itemsize: int, layout: Layout = "rows") -> Traffic:
    """Return what a kernel moves for one state.

    Threads of a warp move their rows together, through shared memory, as they do with components
    that lie side by side. The lanes of a team write a row together.

    Args:
        kernel:   the record.
        itemsize: bytes of a number.
        layout:   that of all arrays.
    """
    read = sum(math.prod(s) for name, s in kernel.inputs.items() if not ARRAYS[name].shared)
    written = sum(map(math.prod, kernel.outputs.values()))
    together = _written_together(kernel, itemsize, layout)
    kept = 2 * ((kernel.team and kernel.team.workspace_numbers) or 0) * itemsize
    return Traffic(
        bytes=(read + written) * itemsize,
        sectors=(read * itemsize + kept) / SECTOR + written / min(together, SECTOR // itemsize),
        lines=(read * itemsize + kept) / LINE + written / min(together, LINE // itemsize),
    )


def _written_together(kernel: Kernel, itemsize: int, layout: Layout) -> int:
    """Return how many neighboring numbers an instruction of a warp writes."""
    if kernel.team is None:
        return WARP
    states = kernel.team.states_per_block * WARP // kernel.team.threads_per_block
    return WARP // max(states, 1) if layout == "rows" else max(states, 1)
