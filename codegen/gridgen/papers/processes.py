"""Run of a pipeline: joint torques of all samples, rate and latency."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from gridgen.papers.chains import BACKWARD, FORWARD
from gridgen.papers.layout import (
    Layout,
    Weights,
    best_layout,
    laid_out,
    message_numbers,
    modeled,
    weights_of,
)
from gridgen.papers.model import Machine, Split
from gridgen.papers.stages import Block, MpiLinks, Stages, run_blocks, stage_of
from gridgen.papers.trajectory import Trajectory

# Blocks that pass the empty pipeline one by one; the least time is the latency.
_PROBES = 10
_TIMES = 20
#: Bytes of the message that measures the bandwidth of a link.
_LONG = 1 << 18


@dataclass(frozen=True)
class PipelineResult:
    """Result and speed of a run."""

    tau: Block  #: joint torques of every sample (samples, nv) [N m or N].
    layout: Layout  #: layout of the pipeline.
    machine: Machine  #: measured parameters of the model.
    alone: float  #: predicted rate of a single process [samples/s].
    predicted: tuple[float, float]  #: predicted rate [samples/s] and latency of a block [s].
    measured: tuple[float, float]  #: measured rate [samples/s] and latency of a block [s].


def run(
    comm: Any, stages: Stages, samples: Trajectory, block: int, split: Split | None
) -> PipelineResult | None:
    """Compute the joint torques of all samples; every process of a communicator calls this.

    Args:
        comm:    mpi4py's communicator.
        stages:  stages of the robot.
        samples: the trajectory, the same on each process.
        block:   samples per message.
        split:   processes of each chain; ``None`` for the fastest according to the model.

    Returns:
        the result on process 0; ``None`` on the others.
    """
    weights = weights_of(stages.tree)
    if split is None:  # raises for a wrong number of processes
        best_layout(weights, comm.size, block, Machine(1.0, 0.0, 0.0))
    machine, byte = measured(comm, stages, weights, samples, block)
    if split is None:
        layout = best_layout(weights, comm.size, block, machine)
    else:
        layout = laid_out(weights, split)
    numbers = message_numbers(stages.tree, layout)
    message = machine.start + byte * block * numbers * samples.q.itemsize
    machine = replace(machine, message=message)
    tau, found = _computed(comm, stages, layout, samples, block)
    if tau is None:
        return None
    pipeline = modeled(layout, weights, block)
    predicted = block / pipeline.interval(machine), pipeline.latency(machine)
    alone = 1 / (machine.operation * _sum(weights))
    return PipelineResult(tau, layout, machine, alone, predicted, found)


def _computed(
    comm: Any, stages: Stages, layout: Layout, samples: Trajectory, block: int
) -> tuple[Block | None, tuple[float, float]]:
    """Return the joint torques (on process 0), the rate and the latency."""
    links, stage = MpiLinks(comm), stage_of(stages, layout, comm.rank)
    blocks = samples.blocks(block)
    tau = np.empty((samples.samples, stages.tree.nv), samples.q.dtype) if comm.rank == 0 else None

    def passed(some: list[slice]) -> float:
        """Pass blocks through the pipeline; return the time [s]."""
        comm.Barrier()
        start = perf_counter()
        if tau is not None:
            for rows in some:
                links.expect(tau[rows], layout.collector)
        run_blocks(stage, samples, some, links)
        return perf_counter() - start

    latency = min((passed(blocks[:1]) for _ in range(_PROBES)), default=0.0)
    took = passed(blocks)
    return tau, (samples.samples / took, latency)


def _sum(weights: Weights) -> int:
    return sum(weights.forward) + sum(weights.backward)


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
