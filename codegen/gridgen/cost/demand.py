"""What a kernel takes of a GPU, estimated from its record and its work: no compiler is asked.

The estimates are fitted to what NVRTC makes of the kernels of arm7, quadruped and humanoid for
sm_90 in float32, as ``benchmarks/static_gpu.py`` counts it: instructions within a fifth, registers
within a quarter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gridgen.backends.interface import THREAD_SCHEDULE, Dtype
from gridgen.cost.devices import MOST_REGISTERS, Pipe
from gridgen.cost.gpu import Demand, code_bytes
from gridgen.cost.traffic import Layout, traffic_of
from gridgen.kernel import Kernel, Work

#: Bytes of a number.
ITEM_BYTES: Mapping[Dtype, int] = {"float32": 4, "float64": 8}

# Machine code of a thread: for each operation; for each number moved, with its address; sines and
# cosines are longer than the two operations that they are counted as.
_THREAD_CODE, _MOVE_CODE = 1.5, 5.0
# Registers of a thread: some for addresses, and what is alive.
_LEAST_REGISTERS, _ALIVE = 40, 0.15
# What does not fit is written to local memory and read back.
_SPILLED = 0.2
# Machine code of a lane: for each operation, and for each time that lanes wait for each other.
_LANE_CODE, _STEP_CODE = 1.6, 40.0
_LANE_REGISTERS = 128
# Answers of memory that a team waits for, one after the other: its inputs and its tables.
_TEAM_TRIPS = 3


def demand_of(kernel: Kernel, work: Work, itemsize: int, layout: Layout = "rows") -> Demand:
    """Estimate what a kernel takes of a GPU.

    Args:
        kernel:   the record.
        work:     of a state.
        itemsize: bytes of a number.
        layout:   that of all arrays.
    """
    numbers = sum(map(math.prod, (*kernel.inputs.values(), *kernel.outputs.values())))
    words = itemsize // 4
    traffic = traffic_of(kernel, itemsize, layout)
    if (team := kernel.team) is not None:
        instructions = _LANE_CODE * work.lane + _STEP_CODE * words * work.steps
        return Demand(
            threads_per_block=team.threads_per_block,
            states_per_block=team.states_per_block,
            registers=_LANE_REGISTERS,
            shared_bytes=team.shared_numbers * itemsize,
            instructions=instructions,
            pipes=_pipes(instructions, work.lane, itemsize),
            trips=_TEAM_TRIPS,
            traffic=traffic,
            # Loops over rounds are short.
            code_bytes=0.0,
        )
    instructions = _THREAD_CODE * work.lane + _MOVE_CODE * numbers
    wanted = words * (_LEAST_REGISTERS + _ALIVE * work.lane)
    spilled = max(0.0, wanted - MOST_REGISTERS)
    return Demand(
        threads_per_block=THREAD_SCHEDULE.threads_per_block,
        states_per_block=THREAD_SCHEDULE.states_per_block,
        registers=min(MOST_REGISTERS, round(wanted)),
        shared_bytes=0,
        instructions=instructions,
        pipes=_pipes(instructions, work.lane, itemsize),
        # Each joint's angle is looked at before the next one is asked for.
        trips=1 + math.prod(kernel.inputs["q"]),
        traffic=traffic,
        code_bytes=code_bytes(instructions),
        local_bytes=4 * spilled,
        local_moves=_SPILLED * spilled,
    )


def _pipes(instructions: float, operations: float, itemsize: int) -> dict[Pipe, float]:
    """Return what each pipe executes: the operations, and what they need beside them."""
    pipe: Pipe = "fp32" if itemsize == 4 else "fp64"
    return {pipe: operations, "int": max(0.0, instructions - operations)}
