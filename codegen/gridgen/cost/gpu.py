"""The time of a kernel on a GPU, predicted from what it takes of it.

A multiprocessor issues the instructions of the warps that it has, L2 and memory move what they read
and write, and each warp waits for its own operands: whichever takes longest is the time, after the
launch. What has been measured of a device is in its row (``gridgen.cost.devices``).
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

#: What a time is bound by: issuing instructions, waiting for operands in too few warps, L2, memory,
#: or the launch.
Bound = Literal["issue", "latency", "L2", "memory", "launch"]

_ARITHMETIC: tuple[Pipe, ...] = ("fp32", "fp64", "xu")


@dataclass(frozen=True)
class Demand:
    """What a kernel takes of a GPU.

    Attributes:
        threads_per_block: threads of a block.
        states_per_block:  states of a block.
        registers:         of a thread.
        shared_bytes:      shared memory of a block.
        instructions:      that a warp executes.
        pipes:             those of them that a pipe executes.
        pace:              clocks that a warp alone takes for an instruction.
        trips:             answers of memory that it waits for one after the other.
        traffic:           what a state moves.
        code_bytes:        length of the machine code.
        local_bytes:       local memory of a thread.
        local_moves:       instructions of a warp that read or write it.
    """

    threads_per_block: int
    states_per_block: int
    registers: int
    shared_bytes: int
    instructions: float
    pipes: Mapping[Pipe, float] = field(hash=False)
    pace: float
    trips: float
    traffic: Traffic
    code_bytes: float = 0.0
    local_bytes: float = 0.0
    local_moves: float = 0.0

    @property
    def warps_per_block(self) -> int:
        """Warps of a block."""
        return -(-self.threads_per_block // WARP)


@dataclass(frozen=True)
class Prediction:
    """The time of a launch, predicted.

    Attributes:
        seconds: the time.
        bound:   what it is bound by.
        terms:   what each bound alone takes [s].
        blocks:  blocks of the launch.
        at_once: warps that a multiprocessor has at once, at most.
        waves:   how often the multiprocessor with most blocks is filled.
    """

    seconds: float
    bound: Bound
    terms: Mapping[Bound, float] = field(hash=False)
    blocks: int
    at_once: int
    waves: int


def predicted(demand: Demand, device: Device, batch: int) -> Prediction:
    """Predict the time of a launch.

    Args:
        demand: what the kernel takes.
        device: where it runs; a block is taken to fit.
        batch:  number of states, at least one.
    """
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
    extra = _beyond_the_caches(demand, device, at_once * warps)
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


def ceiling(demand: Demand, device: Device, batch: int) -> float:
    """Return the time that no kernel with these arrays and this arithmetic can beat [s].

    That of memory alone, or of the arithmetic alone on all multiprocessors.

    Args:
        demand: what the kernel takes.
        device: where it runs.
        batch:  number of states.
    """
    threads = batch * demand.threads_per_block / demand.states_per_block
    clocks = max(demand.pipes.get(pipe, 0) / device.lanes[pipe] for pipe in _ARITHMETIC)
    arithmetic = clocks * threads / (device.sms * device.clock)
    return max(arithmetic, batch * demand.traffic.bytes / device.bandwidth)


def _beyond_the_caches(demand: Demand, device: Device, warps: int) -> float:
    """Return the bytes that a warp exchanges with L2 for its code and its local memory.

    Straight-line code that outgrows the caches is fetched anew by every warp. Local memory stays in
    the first cache, which shares its memory with that of blocks, unless all warps together have
    more.
    """
    code = 0.0 if _is_cached(demand, device) else demand.code_bytes
    is_kept = warps * WARP * demand.local_bytes <= device.shared
    local = 0.0 if is_kept else demand.local_moves * WARP * 4
    return code + local


def _is_cached(demand: Demand, device: Device) -> bool:
    """Tell whether the instruction caches hold a kernel's code."""
    return demand.code_bytes <= device.code_bytes


def code_bytes(instructions: float) -> float:
    """Return the length of machine code of so many instructions."""
    return instructions * INSTRUCTION_BYTES
