"""Parameters of the pipeline model, measured on the processes that run the pipeline."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from gridgen.functions.steps import BACKWARD, FORWARD
from gridgen.mpi.stage import Stages
from gridgen.mpi.trajectory import Trajectory
from gridgen.schedules.pipeline.model import Machine
from gridgen.schedules.pipeline.plan import Weights

_TIMES = 20
#: Bytes of the message that measures the bandwidth of a link.
_LONG = 1 << 18


def operation_seconds(stages: Stages, weights: Weights, samples: Trajectory, block: int) -> float:
    """Return the time per operation of both chains on this process [s], the least of several."""
    bodies = range(len(stages.tree.bodies))
    rows = slice(0, min(block, samples.samples))
    forward, backward = (stages.kernel(step, bodies) for step in (FORWARD, BACKWARD))
    least = float("inf")
    for _ in range(_TIMES):
        start = perf_counter()
        (wrenches,) = stages.run(forward, samples, rows)
        stages.run(backward, samples, rows, wrenches=wrenches)
        least = min(least, perf_counter() - start)
    return least / (rows.stop * (sum(weights.forward) + sum(weights.backward)))


def link_times(comm: Any) -> tuple[float, float]:
    """Return the start-up time of a message and the time per byte, processes 0 and 1 [s].

    All processes call this; the result is the same on all.
    """
    empty, long = _one_way(comm, 0), _one_way(comm, _LONG)
    found: tuple[float, float] = comm.bcast((empty, max(long - empty, 0.0) / _LONG), 0)
    return found


def _one_way(comm: Any, size: int) -> float:
    """Return the least time of a message: half of a round trip [s]."""
    message, least = np.zeros(size, np.uint8), float("inf")
    comm.Barrier()
    for _ in range(_TIMES if comm.rank < 2 else 0):
        start = perf_counter()
        if comm.rank == 0:
            comm.Send(message, 1)
            comm.Recv(message, 1)
        else:
            comm.Recv(message, 0)
            comm.Send(message, 0)
        least = min(least, (perf_counter() - start) / 2)
    return least


def measured(
    comm: Any, stages: Stages, weights: Weights, samples: Trajectory, block: int
) -> tuple[Machine, float]:
    """Return the measured parameters and the time per byte [s], the same on all processes.

    ``Machine.message`` is 0 here: the size of a message depends on the layout.
    """
    operation = operation_seconds(stages, weights, samples, block) if comm.rank == 0 else 0.0
    start, byte = link_times(comm)
    return Machine(comm.bcast(operation, 0), start, 0.0), byte
