"""Predict the time of a kernel on a GPU: from its work, or from what its machine code takes.

A multiprocessor issues the instructions of its resident warps, L2 and memory move their data, and
each warp waits for its own operands. The time is the longest of these, plus the launch. Resources
are estimated from counts of NVRTC's code for sm_90 in float32 (``benchmarks/static_gpu.py``, which
predicts from the code itself). Figures that have been measured on a device are in its row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gridgen.backends.interface import ThreadLaunch
from gridgen.cost.devices import (
    INSTRUCTION_BYTES,
    LINE,
    MAX_REGISTERS,
    SCHEDULERS,
    SECTOR,
    Device,
    Pipe,
)
from gridgen.functions.arrays import ARRAYS
from gridgen.kernel import MAX_STAGED, WARP, Kernel, Work

#: The limiting resource: instruction issue, latency (too few warps), L2, memory or the launch.
Bound = Literal["issue", "latency", "L2", "memory", "launch"]
#: Layout of a batch: one state after the other, (B, n), or one component after the other.
Layout = Literal["rows", "components"]

_ARITHMETIC: tuple[Pipe, ...] = ("fp32", "fp64", "xu")
# Instructions of a thread: per operation, per sine and cosine of a position, and per number moved.
# Two thirds of the instructions of loops compute addresses.
_OPERATION, _LOOP_OPERATION, _ANGLE, _MOVE = 1.1, 3.0, 30.0, 1.5
# Floating-point instructions of a sine and cosine.
_SINE_COSINE = 18.0
# Registers of a thread: for addresses, and per operation for values that are still needed.
_MIN_REGISTERS, _ALIVE = 40, 0.085
# Programs from this number of operations on pass values through local memory: values, and reads and
# writes, per operation. Loops store more, and their code has about as many instructions.
_UNCUT, _SPILLED, _SPILL_MOVES = 4000, 0.03, 0.2
_LOOP_SPILLED, _LOOP_MOVES, _LOOP_CODE = 0.16, 0.6, 4000.0
# Instructions of a lane: per operation, and per synchronization of the team. Registers of a lane.
_LANE_OPERATION, _STEP, _LANE_REGISTERS = 1.5, 10.0, 120
# Clocks per instruction of a warp that runs alone, of a thread's program and of a team's, whose
# lanes wait for each other. Memory latencies that a team waits for at a synchronization: for tables
# that its multiprocessor has not read yet. The order of kernels is that of a simulated GPU.
_PACE, _LANE_PACE, _STEP_TRIPS = 2.5, 5.0, 0.2
# Reads of local memory that a warp waits for at once, about the numbers of a body; the latency of
# the first cache [clocks]. L2 answers after half of the latency of memory.
_READS_AT_ONCE, _L1_LATENCY, _L2_LATENCY = 8, 35, 0.5


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
    #: bytes of a state's inputs and results, each once, without arrays that the batch shares.
    bytes: int
    sectors: float  #: sectors of 32 bytes of a state that L2 moves for them.
    code_bytes: float = 0.0  #: size of the machine code.
    local_bytes: float = 0.0  #: local memory, or scratch memory, per thread.
    local_moves: float = 0.0  #: instructions of a warp that access it.

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


def demand_of(
    kernel: Kernel, work: Work, itemsize: int, *, layout: Layout = "rows", batch: int = 1 << 20
) -> Demand:
    """Estimate the resources that a kernel needs on a GPU, without compiling it.

    A thread issues the loads of all its arguments before it waits for the first. Rows go through
    shared memory; the estimate ignores that programs with loops write theirs number by number. The
    code of teams fits in the instruction caches.
    """
    words = itemsize // 4
    bytes_, sectors = traffic_of(kernel, itemsize, layout)
    if (team := kernel.team) is not None:
        instructions = _LANE_OPERATION * work.lane + _STEP * words * work.steps
        return Demand(
            threads_per_block=team.threads_per_block,
            states_per_block=team.states_per_block,
            registers=_LANE_REGISTERS,
            shared_bytes=team.shared_numbers * itemsize,
            instructions=instructions,
            pipes=_pipes(instructions, work.lane, itemsize),
            pace=_LANE_PACE,
            trips=1 + _STEP_TRIPS * work.steps,
            bytes=bytes_,
            sectors=sectors,
        )
    numbers = sum(map(math.prod, (*kernel.inputs.values(), *kernel.outputs.values())))
    angles = math.prod(kernel.inputs[kernel.first])
    registers = round(words * (_MIN_REGISTERS + _ALIVE * work.lane))
    per_operation, spilled, moves = _OPERATION, max(0.0, registers - MAX_REGISTERS), 0.0
    if work.has_loops:
        per_operation = _LOOP_OPERATION
        spilled, moves = words * _LOOP_SPILLED * work.lane, words * _LOOP_MOVES * work.lane
    elif work.lane > _UNCUT:
        spilled, moves = words * _SPILLED * work.lane, words * _SPILL_MOVES * work.lane
    else:
        moves = spilled * _SPILL_MOVES / _SPILLED
    instructions = per_operation * work.lane + _ANGLE * angles + _MOVE * numbers
    instructions += 0.0 if work.has_loops else moves
    staged = min(numbers, MAX_STAGED) * itemsize if layout == "rows" else 0
    launch = ThreadLaunch(staged).of(batch)
    return Demand(
        threads_per_block=launch.threads_per_block,
        states_per_block=launch.states_per_block,
        registers=min(MAX_REGISTERS, registers),
        shared_bytes=launch.shared_bytes,
        instructions=instructions,
        pipes=_pipes(instructions, work.lane + _SINE_COSINE * angles, itemsize),
        pace=_PACE,
        trips=1,
        bytes=bytes_,
        sectors=sectors,
        code_bytes=INSTRUCTION_BYTES * (_LOOP_CODE if work.has_loops else instructions),
        local_bytes=4 * spilled,
        local_moves=moves,
    )


def traffic_of(kernel: Kernel, itemsize: int, layout: Layout = "rows") -> tuple[int, float]:
    """Return the bytes of a state's arrays, and the sectors that L2 moves for them.

    The threads of a warp move their rows together through shared memory, and adjacent components
    directly. The lanes of a team write a row together.
    """
    read = sum(math.prod(s) for name, s in kernel.inputs.items() if not ARRAYS[name].shared)
    written = sum(map(math.prod, kernel.outputs.values()))
    together, extra = WARP, 0
    if (team := kernel.team) is not None:
        states = max(1, team.states_per_block * WARP // team.threads_per_block)
        together = WARP // states if layout == "rows" else states
        extra = 2 * (team.workspace_numbers or 0)
    sectors = (read + extra) * itemsize / SECTOR + written / min(together, SECTOR // itemsize)
    return (read + written) * itemsize, sectors


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
    is_cached = demand.code_bytes <= device.code_bytes
    pace = demand.pace if is_cached else max(demand.pace, device.fetched_pace)
    local = _local_memory(demand, device, min(at_once, most))
    alone = pace * demand.instructions + device.latency * demand.trips + local.latency
    # Every warp fetches straight-line code that exceeds the instruction caches.
    fetched = local.l2_bytes + (0.0 if is_cached else demand.code_bytes)
    in_memory = batch * demand.bytes + blocks * warps * local.memory_bytes
    terms: dict[Bound, float] = {
        "issue": max(issued, pipes * most * warps * WARP) / device.clock,
        "latency": waves * alone / device.clock,
        "L2": (batch * demand.sectors * SECTOR + blocks * warps * fetched)
        / (device.l2_reached * device.l2_clock * device.clock),
        "memory": in_memory / (device.memory_reached * device.bandwidth),
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
    return max(arithmetic, batch * demand.bytes / device.bandwidth)


@dataclass(frozen=True)
class _Local:
    """Traffic of a warp's local memory."""

    latency: float  #: clocks that a warp waits for its reads.
    l2_bytes: float  #: bytes from and to L2.
    memory_bytes: float  #: bytes from and to memory.


def _local_memory(demand: Demand, device: Device, blocks: int) -> _Local:
    """Return the traffic of local memory for a number of blocks on a multiprocessor.

    It stays in L1, which shares its memory with the blocks' shared memory, unless the resident
    blocks together need more. L2 holds a part of that of all multiprocessors.
    """
    rounds = demand.local_moves / 2 / _READS_AT_ONCE
    block_bytes = demand.threads_per_block * demand.local_bytes
    if not block_bytes or blocks * (block_bytes + demand.shared_bytes) <= device.shared:
        return _Local(rounds * _L1_LATENCY, 0.0, 0.0)
    moved = demand.local_moves * LINE
    beyond = max(0.0, 1.0 - device.l2_bytes / (device.sms * blocks * block_bytes))
    return _Local(rounds * _L2_LATENCY * device.latency, moved, beyond * moved)


def _pipes(instructions: float, operations: float, itemsize: int) -> dict[Pipe, float]:
    """Return the instructions per pipe: floating-point operations, and all others as integer."""
    pipe: Pipe = "fp32" if itemsize == 4 else "fp64"
    return {pipe: operations, "int": max(0.0, instructions - operations)}
