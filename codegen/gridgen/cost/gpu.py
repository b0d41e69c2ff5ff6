"""The time of a kernel on a GPU, predicted from what it takes of it.

A multiprocessor issues the instructions of the warps that it has, L2 and memory move what they read
and write, and each warp waits for its own operands: whichever takes longest is the time, after the
launch. Nothing here is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gridgen.cost.devices import SCHEDULERS, SECTOR, WARP, Device, Pipe
from gridgen.cost.traffic import Traffic

#: What a time is bound by: issuing instructions, waiting for operands in too few warps, L2, memory,
#: or the launch.
Bound = Literal["issue", "latency", "L2", "memory", "launch"]

#: From a launch to its first instruction, and from its last one to the next launch [s]: what empty
#: kernels in a CUDA graph take.
LAUNCH = 2.5e-6
#: Clocks that a warp alone takes for an instruction: each waits four for its operands, but for
#: those that are independent of the one before.
CLOCKS_ALONE = 2.5


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
        trips:             answers of memory that a warp waits for one after the other.
        traffic:           what a state moves.
        warp_bytes:        what a warp moves in addition: local memory, code that no cache holds.
    """

    threads_per_block: int
    states_per_block: int
    registers: int
    shared_bytes: int
    instructions: float
    pipes: Mapping[Pipe, float] = field(hash=False)
    trips: float
    traffic: Traffic
    warp_bytes: float = 0.0


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
    warps = -(-demand.threads_per_block // WARP)
    blocks = -(-batch // demand.states_per_block)
    most = -(-blocks // device.sms)  # of one multiprocessor
    at_once = max(
        1, device.blocks_at_once(demand.threads_per_block, demand.registers, demand.shared_bytes)
    )
    waves = -(-most // at_once)
    for_scheduler = -(-most * warps // SCHEDULERS)
    pipes = max(
        (count * most * warps * WARP / device.lanes[pipe] for pipe, count in demand.pipes.items()),
        default=0.0,
    )
    alone = CLOCKS_ALONE * demand.instructions + device.latency * demand.trips
    moved = batch * demand.traffic.sectors * SECTOR + blocks * warps * demand.warp_bytes
    terms: dict[Bound, float] = {
        "issue": max(demand.instructions * for_scheduler, pipes) / device.clock,
        "latency": waves * alone / device.clock,
        "L2": moved / (device.l2_clock * device.clock),
        "memory": batch * demand.traffic.bytes / device.bandwidth,
        "launch": LAUNCH,
    }
    longest = max(terms, key=terms.__getitem__)
    seconds = LAUNCH + max(time for bound, time in terms.items() if bound != "launch")
    return Prediction(seconds, longest, terms, blocks, at_once * warps, waves)


def ceiling(demand: Demand, device: Device, batch: int) -> float:
    """Return the time that no kernel with these arrays and this arithmetic can beat [s].

    That of memory alone, or of the floating-point instructions alone on all multiprocessors.

    Args:
        demand: what the kernel takes.
        device: where it runs.
        batch:  number of states.
    """
    warps = batch * demand.threads_per_block / demand.states_per_block / WARP
    arithmetic = max(
        demand.pipes.get(pipe, 0) * warps * WARP / device.lanes[pipe] for pipe in _ARITHMETIC
    )
    seconds = arithmetic / (device.sms * device.clock)
    return max(seconds, batch * demand.traffic.bytes / device.bandwidth)


_ARITHMETIC: tuple[Pipe, ...] = ("fp32", "fp64", "xu")
