"""Resources that a kernel needs on a GPU, estimated from its record and work without compiling.

The estimates are fitted to machine code of NVRTC for sm_90 in float32, as counted by
``benchmarks/static_gpu.py``, and to a simulated GPU; docs/results/gpu.md
reports the accuracy.
"""

from __future__ import annotations

import math

from gridgen.backends.interface import DEFAULT_BLOCKS, PAIRING, Blocks, ThreadLaunch
from gridgen.cost.devices import MOST_REGISTERS, Device, Pipe
from gridgen.cost.gpu import Demand, code_bytes
from gridgen.cost.traffic import Layout, traffic_of
from gridgen.kernel import LONGEST_PAIRED, MOST_STAGED, Kernel, Work

# Instructions of a thread: per operation, per sine and cosine of a position, per number moved
# (address included), and a constant per kernel. Two thirds of the instructions of loops compute
# addresses.
_OPERATION, _ANGLE, _MOVE, _KERNEL = 1.1, 30.0, 1.5, 50.0
_LOOP_OPERATION = 3.0
# Floating-point instructions of a sine and cosine.
_SINE_COSINE = 18.0
# Registers of a thread: a constant for addresses, and per operation for live values.
_LEAST_REGISTERS, _ALIVE = 40, 0.085
# Programs longer than this are split into parts that pass values through local memory: values per
# operation, and reads and writes per operation, each an instruction. Loops store more, and their
# code is short: the humanoid's have 2,300 to 6,400 instructions.
_UNCUT, _SPILLED, _SPILL_MOVES = 4000, 0.03, 0.2
_LOOP_SPILLED, _LOOP_MOVES, _LOOP_CODE = 0.16, 0.6, 4000.0
# Instructions of a thread for two states, in proportion to one. Packed operations take as many
# clocks of their pipe as those of two threads.
_PAIR = 1.2
# Instructions of a lane: per operation, and per synchronization of the team.
_LANE_OPERATION, _STEP = 1.5, 10.0
_LANE_REGISTERS = 120
# Clocks per instruction of a warp that runs alone. Results are ready after four, but many
# instructions do not depend on the previous one; values from other lanes take longer. A simulated
# GV100, which executes unoptimized code, takes twice as many; the ratio is fitted to it.
_PACE, _LANE_PACE = 2.5, 5.0
# Memory latencies that a team waits for per step: for tables that its multiprocessor has not read
# yet.
_STEP_TRIPS = 0.2


def demand_of(
    kernel: Kernel,
    work: Work,
    itemsize: int,
    *,
    layout: Layout = "rows",
    batch: int = 1 << 20,
    blocks: Blocks = DEFAULT_BLOCKS,
    device: Device | None = None,
) -> Demand:
    """Estimate the resources that a kernel needs on a GPU.

    A thread issues the loads of all its arguments before it waits for the first. Rows go through
    shared memory; the estimate ignores that programs with loops write theirs number by number. If a
    thread of the device may compute two states, it assumes that the program has no branches.
    """
    words = itemsize // 4
    traffic = traffic_of(kernel, itemsize, layout)
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
            traffic=traffic,
        )
    numbers = sum(map(math.prod, (*kernel.inputs.values(), *kernel.outputs.values())))
    angles = math.prod(kernel.inputs[kernel.first])
    instructions = _OPERATION * work.lane + _ANGLE * angles + _MOVE * numbers + _KERNEL
    registers = round(words * (_LEAST_REGISTERS + _ALIVE * work.lane))
    if work.has_loops:
        spilled, moves = words * _LOOP_SPILLED * work.lane, words * _LOOP_MOVES * work.lane
        instructions += (_LOOP_OPERATION - _OPERATION) * work.lane
    elif work.lane > _UNCUT:
        spilled, moves = words * _SPILLED * work.lane, words * _SPILL_MOVES * work.lane
        instructions += moves
    else:
        spilled = max(0.0, registers - MOST_REGISTERS)
        moves = spilled * _SPILL_MOVES / _SPILLED
    staged = min(numbers, MOST_STAGED) * itemsize if layout == "rows" else 0
    has_pairs = device is not None and device.capability in PAIRING and itemsize == 4
    states = 1 + (has_pairs and not work.has_loops and work.lane <= LONGEST_PAIRED)
    if states == 2:
        instructions, registers = _PAIR * instructions, 2 * registers
    pipes = _pipes(instructions, work.lane + _SINE_COSINE * angles, itemsize)
    launch = ThreadLaunch(staged, blocks=blocks, states=states).of(batch)
    return Demand(
        threads_per_block=launch.threads_per_block,
        states_per_block=launch.states_per_block,
        registers=min(MOST_REGISTERS, registers),
        shared_bytes=launch.shared_bytes,
        instructions=instructions,
        pipes=pipes if states == 1 else pipes | {"fp32": 2 * pipes["fp32"]},
        pace=_PACE,
        trips=1,
        traffic=traffic,
        code_bytes=code_bytes(_LOOP_CODE if work.has_loops else instructions),
        local_bytes=4 * spilled,
        local_moves=moves,
    )


def _pipes(instructions: float, operations: float, itemsize: int) -> dict[Pipe, float]:
    """Return the instructions per pipe: floating-point operations, and all others as integer."""
    pipe: Pipe = "fp32" if itemsize == 4 else "fp64"
    return {pipe: operations, "int": max(0.0, instructions - operations)}
