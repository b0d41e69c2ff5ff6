"""Predict the time of a kernel on a GPU from the resources that it needs.

A multiprocessor issues the instructions of its resident warps, L2 and memory move their data, and
each warp waits for its own operands. The time is the longest of these, plus the launch. Figures
that have been measured on a device are in its row (``gridgen.cost.devices``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gridgen.cost.devices import (
    INSTRUCTION_BYTES,
    SCHEDULERS,
    SECTOR,
    Device,
    Pipe,
)
from gridgen.cost.traffic import Traffic
from gridgen.kernel import WARP

#: The limiting resource: instruction issue, latency (too few warps), L2, memory or the launch.
Bound = Literal["issue", "latency", "L2", "memory", "launch"]

_ARITHMETIC: tuple[Pipe, ...] = ("fp32", "fp64", "xu")


@dataclass(frozen=True)
class Demand:
    """The resources that a kernel needs on a GPU."""

    threads_per_block: int  #: threads per block.
    states_per_block: int  #: states per block.
    registers: int  #: registers per thread.
    shared_bytes: int  #: shared memory per block.
    instructions: float  #: instructions that a warp executes.
    pipes: Mapping[Pipe, float] = field(hash=False)  #: instructions of a warp by pipe.
    pace: float  #: clocks per instruction of a warp that runs alone.
    trips: float  #: memory latencies that a warp waits for in sequence.
    traffic: Traffic  #: data moved per state.
    code_bytes: float = 0.0  #: size of the machine code.
    local_bytes: float = 0.0  #: local memory per thread.
    local_moves: float = 0.0  #: instructions of a warp that access local memory.

    @property
    def warps_per_block(self) -> int:
        """Warps per block."""
        return -(-self.threads_per_block // WARP)


@dataclass(frozen=True)
class Prediction:
    """The predicted time of a launch."""

    seconds: float  #: the time.
    bound: Bound  #: the limiting resource.
    #: the time that each resource alone needs [s].
    terms: Mapping[Bound, float] = field(hash=False)
    blocks: int  #: blocks of the launch.
    at_once: int  #: most resident warps of a multiprocessor.
    waves: int  #: waves of blocks on the multiprocessor with most blocks.


def predicted(demand: Demand, device: Device, batch: int) -> Prediction:
    """Predict the time of a launch."""
    warps = demand.warps_per_block
    blocks = -(-batch // demand.states_per_block)
    most = -(-blocks // device.sms)  # of one multiprocessor
    at_once = max(
        1, device.blocks_at_once(demand.threads_per_block, demand.registers, demand.shared_bytes)
    )
    waves = -(-most // at_once)
    pipes = max(count / device.lanes[pipe] for pipe, count in demand.pipes.items())
    issued = demand.instructions * -(-most * warps // SCHEDULERS)
    pace = demand.pace if _is_cached(demand, device) else max(demand.pace, device.fetched_pace)
    alone = pace * demand.instructions + device.latency * demand.trips
    extra = _beyond_the_caches(demand, device, at_once)
    moved = batch * demand.traffic.sectors * SECTOR + blocks * warps * extra
    terms: dict[Bound, float] = {
        "issue": max(issued, pipes * most * warps * WARP) / device.clock,
        "latency": waves * alone / device.clock,
        "L2": moved / (device.l2_reached * device.l2_clock * device.clock),
        "memory": batch * demand.traffic.bytes / (device.memory_reached * device.bandwidth),
        "launch": device.launch,
    }
    seconds = device.launch + max(time for bound, time in terms.items() if bound != "launch")
    return Prediction(
        seconds, max(terms, key=terms.__getitem__), terms, blocks, at_once * warps, waves
    )


def roofline_bound(demand: Demand, device: Device, batch: int) -> float:
    """Return the roofline bound of a kernel's time [s].

    The longer of the memory traffic alone and of the arithmetic alone on all multiprocessors.
    """
    threads = batch * demand.threads_per_block / demand.states_per_block
    clocks = max(demand.pipes.get(pipe, 0) / device.lanes[pipe] for pipe in _ARITHMETIC)
    arithmetic = clocks * threads / (device.sms * device.clock)
    return max(arithmetic, batch * demand.traffic.bytes / device.bandwidth)


def _beyond_the_caches(demand: Demand, device: Device, blocks: int) -> float:
    """Return the bytes that a warp exchanges with L2 for its code and its local memory.

    Every warp fetches straight-line code that exceeds the instruction caches. Local memory stays in
    L1, which shares its memory with the blocks' shared memory, unless all resident blocks
    together need more.
    """
    code = 0.0 if _is_cached(demand, device) else demand.code_bytes
    local_bytes = demand.threads_per_block * demand.local_bytes
    fits_l1 = blocks * (local_bytes + demand.shared_bytes) <= device.shared
    local = 0.0 if fits_l1 else demand.local_moves * WARP * 4
    return code + local


def _is_cached(demand: Demand, device: Device) -> bool:
    """Return whether the instruction caches hold a kernel's code."""
    return demand.code_bytes <= device.code_bytes


def code_bytes(instructions: float) -> float:
    """Return the size of machine code with this number of instructions."""
    return instructions * INSTRUCTION_BYTES
