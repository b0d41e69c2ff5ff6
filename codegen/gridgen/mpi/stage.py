"""What a process of the pipeline computes: a stage of a chain, for a block of samples at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridgen.dynamics.chains import frontier, stage, velocities_of
from gridgen.functions.arrays import MOTION_NUMBERS
from gridgen.functions.steps import BACKWARD, FORWARD
from gridgen.kernel import Kernel
from gridgen.model.tree import KinematicTree
from gridgen.mpi.layout import Layout
from gridgen.mpi.trajectory import Trajectory
from gridgen.runtime.calls.evaluation import Evaluator
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.module.description import Module

Block = NDArray[Any]
_WRENCH = 6


class Links(Protocol):
    """Messages between the processes of a pipeline, in order between any two."""

    def send(self, message: Block, to: int) -> None:
        """Send a block of numbers; it may be changed when this returns.

        What was sent a few messages ago has arrived: nobody runs far ahead.
        """

    def receive(self, shape: tuple[int, ...], dtype: Any, source: int) -> Block:
        """Wait for the next block from a process, and return it."""

    def finish(self) -> None:
        """Wait until all that was sent has arrived."""


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
            kernel:  of the stage.
            samples: of which the block is a part.
            rows:    the samples of the block.
            given:   what earlier stages have found, by name; further entries are ignored.

        Returns:
            the results of the kernel, in its order, a row for each sample.
        """
        own = {"q": samples.q[rows], "qd": samples.qd[rows], "qdd": samples.qdd[rows]}
        inputs: dict[str, Any] = {}
        for name, shape in kernel.inputs.items():
            array = own.get(name, given.get(name))
            inputs[name] = None if array is None else array.reshape(len(own["q"]), *shape)
        results = self._evaluator.evaluate(Resolved(kernel, inputs))
        return list(results) if isinstance(results, tuple) else [results]


class ForwardStage:
    """A process of the forward chain.

    Args:
        stages: of the robot.
        layout: of the pipeline.
        place:  which stage of the chain it is.
    """

    def __init__(self, stages: Stages, layout: Layout, place: int) -> None:
        tree, self._bodies = stages.tree, layout.forward[place]
        self._stages, self._place = stages, place
        self._arriving = MOTION_NUMBERS * len(frontier(tree, self._bodies.start))
        self._hands_on = bool(frontier(tree, self._bodies.stop))
        self._kernel = stages.kernel(FORWARD, self._bodies)
        self._to = [
            (len(layout.forward) + other, shared)
            for other in range(len(layout.backward))
            if (shared := layout.shared(place, other))
        ]

    def __call__(self, samples: Trajectory, rows: slice, links: Links) -> None:
        """Compute a block, and hand it on."""
        motions = None
        if self._arriving:
            shape = (rows.stop - rows.start, self._arriving)
            motions = links.receive(shape, samples.q.dtype, self._place - 1)
        *motions_on, wrenches = self._stages.run(self._kernel, samples, rows, motions=motions)
        if self._hands_on:
            links.send(motions_on[0], self._place + 1)
        for process, bodies in self._to:
            first = bodies.start - self._bodies.start
            links.send(wrenches[:, first : first + len(bodies)], process)


class BackwardStage:
    """A process of the backward chain; the last one of them has the efforts of all bodies.

    Args:
        stages: of the robot.
        layout: of the pipeline.
        place:  which stage of the chain it is.
    """

    def __init__(self, stages: Stages, layout: Layout, place: int) -> None:
        tree, bodies = stages.tree, layout.backward[place]
        self._stages, self._nv = stages, tree.nv
        self._process = len(layout.forward) + place
        self._is_last = self._process == layout.collector
        self._carried = _WRENCH * len(frontier(tree, bodies.stop))
        self._is_first = place == 0
        self._kernel = stages.kernel(BACKWARD, bodies)
        self._velocities = list(velocities_of(tree, bodies))
        self._from = [
            (other, shared)
            for other in range(len(layout.forward))
            if (shared := layout.shared(other, place))
        ]

    def __call__(self, samples: Trajectory, rows: slice, links: Links) -> None:
        """Compute a block, and hand on what is known of its efforts."""
        count, dtype = rows.stop - rows.start, samples.q.dtype
        parts = [
            links.receive((count, _WRENCH * len(bodies)), dtype, process)
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
    """Return what a process computes."""
    forward = len(layout.forward)
    if process < forward:
        return ForwardStage(stages, layout, process)
    return BackwardStage(stages, layout, process - forward)


def run_blocks(stage: Stage, samples: Trajectory, blocks: Sequence[slice], links: Links) -> None:
    """Compute blocks one after the other."""
    for rows in blocks:
        stage(samples, rows, links)
    links.finish()
