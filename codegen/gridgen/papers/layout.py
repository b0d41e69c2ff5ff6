"""Layout of a pipeline of processes: the bodies in stages of equal work, one per process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from gridgen.errors import OptionError
from gridgen.functions.arrays import MOTION_NUMBERS
from gridgen.model.tree import KinematicTree
from gridgen.papers.chains import BACKWARD, FORWARD, WRENCH_NUMBERS, frontier, stage
from gridgen.papers.model import Chain, Machine, Pipeline, Split, splits
from gridgen.schedules.thread.plan import count_operations

# Bisection steps of the search for the least work of the busiest stage.
_HALVINGS = 50


@dataclass(frozen=True)
class Weights:
    """Operations per sample and body."""

    forward: tuple[int, ...]  #: operations of each body in the forward chain.
    backward: tuple[int, ...]  #: operations of each body in the backward chain.


@dataclass(frozen=True)
class Layout:
    """The stages of both chains, one process each."""

    #: bodies of each stage, from the base to the tips: processes 0, 1, ...
    forward: tuple[range, ...]
    #: bodies of each stage, from the tips to the base: the following processes.
    backward: tuple[range, ...]

    @property
    def split(self) -> Split:
        """Number of processes of each chain."""
        return Split(len(self.forward), len(self.backward))

    @property
    def collector(self) -> int:
        """The process that collects the joint torques of all bodies."""
        return len(self.forward) + len(self.backward) - 1

    def shared(self, forward: int, backward: int) -> range:
        """Return the bodies that a forward stage and a backward stage share."""
        one, other = self.forward[forward], self.backward[backward]
        return range(max(one.start, other.start), min(one.stop, other.stop))


def weights_of(tree: KinematicTree) -> Weights:
    """Return the operations of each body in each chain."""

    def counted(step: str) -> tuple[int, ...]:
        bodies = range(len(tree.bodies))
        return tuple(count_operations(tree, stage(step, range(i, i + 1))) for i in bodies)

    return Weights(counted(FORWARD), counted(BACKWARD))


def cut(weights: Sequence[float], parts: int) -> tuple[range, ...]:
    """Divide consecutive items into nonempty parts with the least possible maximum weight."""
    low, high = max(weights), float(sum(weights))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if len(_filled(weights, middle)) <= parts else (middle, high)
    ends = _filled(weights, high)
    while len(ends) < parts:  # fewer parts suffice: divide the longest again
        starts = (0, *ends)
        longest = max(range(len(ends)), key=lambda i: starts[i + 1] - starts[i])
        ends.insert(longest, (starts[longest] + starts[longest + 1]) // 2)
    return tuple(range(begin, end) for begin, end in zip((0, *ends), ends, strict=False))


def _filled(weights: Sequence[float], most: float) -> list[int]:
    """Return the ends of parts that are filled up to a maximum weight."""
    ends, total = [], 0.0
    for index, weight in enumerate(weights):
        if total and total + weight > most:
            ends.append(index)
            total = 0.0
        total += weight
    return [*ends, len(weights)]


def laid_out(weights: Weights, split: Split) -> Layout:
    """Return the stages of both chains.

    Raises:
        OptionError: a chain would have more stages than the robot has bodies.
    """
    bodies = len(weights.forward)
    if max(split.forward, split.backward) > bodies:
        raise OptionError(
            f"{split.forward}+{split.backward} processes are too many: a chain of {bodies} bodies "
            f"has at most {bodies} stages; start at most {2 * bodies} processes"
        )
    backward = cut(weights.backward[::-1], split.backward)
    return Layout(
        cut(weights.forward, split.forward),
        tuple(range(bodies - part.stop, bodies - part.start) for part in backward),
    )


def modeled(layout: Layout, weights: Weights, block: int) -> Pipeline:
    """Return the model of the pipeline; its cycle is one block of samples.

    All stages of a chain count as much work as the busiest one.
    """

    def chain(parts: Sequence[range], of: Sequence[int]) -> Chain:
        starts = (0, *accumulate(of))
        most = max(starts[part.stop] - starts[part.start] for part in parts)
        return Chain(block * len(parts) * most, 1, len(parts))

    forward = chain(layout.forward, weights.forward)
    return Pipeline(forward, chain(layout.backward, weights.backward))


def best_layout(weights: Weights, processes: int, block: int, machine: Machine) -> Layout:
    """Return the layout of all processes with the highest rate of samples.

    Raises:
        OptionError: there are too few processes, or too many.
    """
    if processes < 2:
        raise OptionError(
            "a pipeline requires at least 2 processes: mpirun -n 2 python -m gridgen.papers ..."
        )
    bodies = len(weights.forward)
    fit = [
        split
        for split in splits(processes)
        if split.forward + split.backward == processes
        and max(split.forward, split.backward) <= bodies
    ]
    if not fit:
        laid_out(weights, Split(processes - 1, 1))  # raises the error
    found = [laid_out(weights, split) for split in fit]

    def cost(layout: Layout) -> tuple[float, float]:
        pipeline = modeled(layout, weights, block)
        return pipeline.interval(machine), pipeline.latency(machine)

    return min(found, key=cost)


def message_numbers(tree: KinematicTree, layout: Layout) -> int:
    """Return the largest count of numbers per sample that a stage sends."""
    forward = [
        MOTION_NUMBERS * len(frontier(tree, part.stop)) + WRENCH_NUMBERS * len(part)
        for part in layout.forward
    ]
    backward = [
        WRENCH_NUMBERS * len(frontier(tree, part.start)) + tree.nv for part in layout.backward
    ]
    return max(*forward, *backward)
