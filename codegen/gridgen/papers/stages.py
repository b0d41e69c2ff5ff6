"""Stages of the pipeline: each process computes one for a block of samples at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridgen.errors import GridGenError
from gridgen.functions.arrays import MOTION_NUMBERS
from gridgen.kernel import Kernel
from gridgen.model.tree import KinematicTree
from gridgen.papers.chains import (
    BACKWARD,
    FORWARD,
    WRENCH_NUMBERS,
    frontier,
    stage,
    velocities_of,
)
from gridgen.papers.layout import Layout
from gridgen.papers.trajectory import Trajectory
from gridgen.runtime.calls.evaluation import Evaluator
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.module.description import Module

Block = NDArray[Any]


#: Messages in flight between two processes: one is filled while the other is sent.
BUFFERS = 2
INSTALL = "pip install 'grid-gen[mpi]', or install mpi4py for the MPI of this machine"


def require_mpi() -> Any:
    """Return MPI, initialized.

    Raises:
        GridGenError: mpi4py is not installed, or does not find MPI.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        why = str(error).splitlines()[0]
        raise GridGenError(
            f"a pipeline of processes requires MPI and mpi4py ({why}): {INSTALL}"
        ) from error
    return MPI


class Links(Protocol):
    """Messages between the processes of a pipeline, ordered between any two."""

    def send(self, message: Block, to: int) -> None:
        """Send a block; the caller may change it when this returns.

        Blocks while too many earlier messages to the process have not arrived.
        """

    def receive(self, shape: tuple[int, ...], dtype: Any, source: int) -> Block:
        """Wait for the next block from a process, and return it."""

    def finish(self) -> None:
        """Wait until all messages have arrived."""


class MpiLinks:
    """Messages to and from the other processes; see ``Links``."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._sent: dict[int, deque[tuple[Any, Block]]] = {}
        self._expected: list[Any] = []

    def send(self, message: Block, to: int) -> None:
        """Send a block of numbers; see ``Links``."""
        waiting = self._sent.setdefault(to, deque())
        if len(waiting) == BUFFERS:
            waiting.popleft()[0].Wait()
        copy = np.array(message, order="C")
        # A synchronous send completes when the receiver accepts it: the sender cannot run ahead.
        waiting.append((self._comm.Issend(copy, to), copy))

    def receive(self, shape: tuple[int, ...], dtype: Any, source: int) -> Block:
        """Wait for the next block from a process; see ``Links``."""
        found = np.empty(shape, dtype)
        self._comm.Recv(found, source)
        return found

    def expect(self, out: Block, source: int) -> None:
        """Receive a later block from a process into an array; complete after ``finish``."""
        self._expected.append(self._comm.Irecv(out, source))

    def finish(self) -> None:
        """Wait for all sent and expected messages."""
        for waiting in self._sent.values():
            while waiting:
                waiting.popleft()[0].Wait()
        while self._expected:
            self._expected.pop().Wait()


class Stages:
    """Compiles and runs stages of a robot's chains."""

    def __init__(self, tree: KinematicTree, module: Module) -> None:
        self.tree, self._module = tree, module
        self._evaluator = Evaluator(module, "cpu")

    def kernel(self, step: str, bodies: range) -> Kernel:
        """Return the kernel of a stage."""
        return self._module.kernels.find(stage(step, bodies))

    def run(self, kernel: Kernel, samples: Trajectory, rows: slice, **given: Any) -> list[Block]:
        """Compute a block of samples.

        Args:
            kernel:  kernel of the stage.
            samples: the trajectory.
            rows:    samples of the block.
            given:   results of earlier stages by name; unused entries are ignored.

        Returns:
            results of the kernel, in its order, one row per sample.
        """
        own = {"q": samples.q[rows], "qd": samples.qd[rows], "qdd": samples.qdd[rows]}
        inputs: dict[str, Any] = {}
        for name, shape in kernel.inputs.items():
            array = own.get(name, given.get(name))
            inputs[name] = None if array is None else array.reshape(len(own["q"]), *shape)
        results = self._evaluator.evaluate(Resolved(kernel, inputs))
        return list(results) if isinstance(results, tuple) else [results]


class ForwardStage:
    """A process of the forward chain."""

    def __init__(self, stages: Stages, layout: Layout, number: int) -> None:
        tree, self._bodies = stages.tree, layout.forward[number]
        self._stages, self._number = stages, number
        self._arriving = MOTION_NUMBERS * len(frontier(tree, self._bodies.start))
        self._has_next = bool(frontier(tree, self._bodies.stop))
        self._kernel = stages.kernel(FORWARD, self._bodies)
        self._to = [
            (len(layout.forward) + other, shared)
            for other in range(len(layout.backward))
            if (shared := layout.shared(number, other))
        ]

    def __call__(self, samples: Trajectory, rows: slice, links: Links) -> None:
        """Compute a block and send it to the next stage."""
        motions = None
        if self._arriving:
            shape = (rows.stop - rows.start, self._arriving)
            motions = links.receive(shape, samples.q.dtype, self._number - 1)
        *motions_on, wrenches = self._stages.run(self._kernel, samples, rows, motions=motions)
        if self._has_next:
            links.send(motions_on[0], self._number + 1)
        for process, bodies in self._to:
            first = bodies.start - self._bodies.start
            links.send(wrenches[:, first : first + len(bodies)], process)


class BackwardStage:
    """A process of the backward chain; the last one collects the joint torques of all bodies."""

    def __init__(self, stages: Stages, layout: Layout, number: int) -> None:
        tree, bodies = stages.tree, layout.backward[number]
        self._stages, self._nv = stages, tree.nv
        self._process = len(layout.forward) + number
        self._is_last = self._process == layout.collector
        self._carried = WRENCH_NUMBERS * len(frontier(tree, bodies.stop))
        self._is_first = number == 0
        self._kernel = stages.kernel(BACKWARD, bodies)
        self._velocities = list(velocities_of(tree, bodies))
        self._from = [
            (other, shared)
            for other in range(len(layout.forward))
            if (shared := layout.shared(other, number))
        ]

    def __call__(self, samples: Trajectory, rows: slice, links: Links) -> None:
        """Compute a block and send the joint torques so far to the next stage."""
        count, dtype = rows.stop - rows.start, samples.q.dtype
        parts = [
            links.receive((count, WRENCH_NUMBERS * len(bodies)), dtype, process)
            for process, bodies in self._from
        ]
        given = {"wrenches": parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)}
        efforts = np.zeros((count, self._nv), dtype)
        if not self._is_first:
            known = links.receive((count, self._carried + self._nv), dtype, self._process - 1)
            given["carried"], efforts = known[:, : self._carried], known[:, self._carried :]
        *carried_on, own = self._stages.run(self._kernel, samples, rows, **given)
        efforts[:, self._velocities] += own
        if self._is_last:
            links.send(efforts, 0)
        else:
            carried = [array.reshape(count, -1) for array in carried_on]
            links.send(np.concatenate([*carried, efforts], axis=1), self._process + 1)


Stage = ForwardStage | BackwardStage


def stage_of(stages: Stages, layout: Layout, process: int) -> Stage:
    """Return the stage of a process."""
    forward = len(layout.forward)
    if process < forward:
        return ForwardStage(stages, layout, process)
    return BackwardStage(stages, layout, process - forward)


def run_blocks(stage: Stage, samples: Trajectory, blocks: Sequence[slice], links: Links) -> None:
    """Compute blocks in sequence."""
    for rows in blocks:
        stage(samples, rows, links)
    links.finish()
