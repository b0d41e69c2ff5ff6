"""What a kernel takes of a GPU, estimated from its record and its work: no compiler is asked.

The estimates are fitted to what NVRTC makes of kernels for sm_90 in float32, as
``benchmarks/static_gpu.py`` counts it, and to a simulated GPU; how well is told in docs/plans.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gridgen.backends.interface import USUAL_BLOCKS, Blocks, Dtype, ThreadLaunch
from gridgen.cost.devices import MOST_REGISTERS, Pipe
from gridgen.cost.gpu import Demand, code_bytes
from gridgen.cost.traffic import Layout, traffic_of
from gridgen.kernel import MOST_STAGED, Kernel, Work

#: Bytes of a number.
ITEM_BYTES: Mapping[Dtype, int] = {"float32": 4, "float64": 8}

# Instructions of a thread: for each operation; for the sine and cosine of each position; for each
# number moved, with its address; and those of every kernel.
_OPERATION, _ANGLE, _MOVE, _KERNEL = 1.1, 30.0, 1.5, 50.0
# Floating-point instructions among those of an angle.
_SINE_COSINE = 18.0
# Registers of a thread: some for addresses, and what is alive.
_LEAST_REGISTERS, _ALIVE = 40, 0.085
# Longer programs are cut into parts, which keep values for each other in local memory: numbers for
# each operation, and how often they are written or read.
_UNCUT, _KEPT, _KEPT_MOVES = 4000, 0.07, 0.35
# Instructions of a lane: for each operation, and for each time that lanes wait for each other.
_LANE_OPERATION, _STEP = 1.5, 10.0
_LANE_REGISTERS = 120
# Clocks that a warp alone takes for an instruction. Operands are there after four, but many do not
# need those of the instruction before; what other lanes hand over takes longer. A simulated GV100,
# which executes code that has not been optimized, takes twice as many; the proportion is fitted to
# it.
_PACE, _LANE_PACE = 2.5, 5.0
# Answers of memory that a team waits for, at each step: of tables that its multiprocessor has not
# read yet.
_STEP_TRIPS = 0.2


def demand_of(
    kernel: Kernel,
    work: Work,
    itemsize: int,
    *,
    layout: Layout = "rows",
    batch: int = 1 << 20,
    blocks: Blocks = USUAL_BLOCKS,
) -> Demand:
    """Estimate what a kernel takes of a GPU.

    A thread asks for all its arguments before it waits for the first. Rows go through shared
    memory; that programs with loops write theirs number by number is not known here.

    Args:
        kernel:   the record.
        work:     of a state.
        itemsize: bytes of a number.
        layout:   that of all arrays.
        batch:    number of states.
        blocks:   threads of a block by the batch, if each state has one thread.
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
    kept = words * _KEPT * work.lane if work.lane > _UNCUT else registers - MOST_REGISTERS
    kept = max(0.0, kept)
    staged = min(numbers, MOST_STAGED) * itemsize if layout == "rows" else 0
    launch = ThreadLaunch(staged, blocks=blocks).of(batch)
    return Demand(
        threads_per_block=launch.threads_per_block,
        states_per_block=launch.states_per_block,
        registers=min(MOST_REGISTERS, registers),
        shared_bytes=launch.shared_bytes,
        instructions=instructions,
        pipes=_pipes(instructions, work.lane + _SINE_COSINE * angles, itemsize),
        pace=_PACE,
        trips=1,
        traffic=traffic,
        code_bytes=code_bytes(instructions),
        local_bytes=4 * kept,
        local_moves=kept * _KEPT_MOVES / _KEPT,
    )


def _pipes(instructions: float, operations: float, itemsize: int) -> dict[Pipe, float]:
    """Return what each pipe executes: the operations, and what they need beside them."""
    pipe: Pipe = "fp32" if itemsize == 4 else "fp64"
    return {pipe: operations, "int": max(0.0, instructions - operations)}
