"""Performance model of a pipeline of the two Newton-Euler chains (Iannello, Siciliano eq. 1 to 3).

The forward chain computes motions from the root to the tips. The backward chain computes joint
torques from the tips to the root. Each is a pipeline of its own processors: while the backward
chain processes a sample, the forward chain processes the next one. docs/papers.md derives
the model and compares it with the paper's tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gridgen.errors import OptionError
from gridgen.naming import show_value

#: Objective of a split: samples per second, or the time from a sample to its joint torques.
Goal = Literal["rate", "latency"]


@dataclass(frozen=True)
class Machine:
    """The times of one kind of processor and its links [s]."""

    operation: float  #: of one operation, t_e.
    start: float  #: of starting an input and an output, T_c.
    message: float  #: of passing a result to the next stage, k l.


@dataclass(frozen=True)
class Operations:
    """Operation counts of a joint."""

    forward: float  #: operations of a joint in the forward chain.
    backward: float  #: operations of a joint in the backward chain.


@dataclass(frozen=True)
class Split:
    """The number of processors of each chain."""

    forward: int
    backward: int


@dataclass(frozen=True)
class Chain:
    """A pipeline of equal stages."""

    operations: float  #: of all stages in one cycle, C.
    cycles: int  #: of each stage per sample: one per joint.
    stages: int  #: number of processors, N.

    def cycle(self, machine: Machine) -> float:
        """Return the time of a stage per joint: D t_e + T_c with D = C / N (eq. 3) [s].

        A chain of one stage starts one transfer per joint, to or from the other chain, not two.
        """
        started = machine.start if self.stages > 1 else machine.start / 2
        return self.operations / self.stages * machine.operation + started

    def interval(self, machine: Machine) -> float:
        """Return the time between two samples (eq. 2) [s]."""
        return self.cycles * self.cycle(machine)

    def completion(self, machine: Machine, ahead: int = 0) -> float:
        """Return the time from the first input to the last output of a sample (eq. 1) [s].

        Args:
            machine: times of a processor and its links.
            ahead:   stages whose first cycle is already complete.
        """
        filled = max(self.stages - 1 - ahead, 0) * (self.cycle(machine) + machine.message)
        return filled + self.interval(machine)


@dataclass(frozen=True)
class Pipeline:
    """The two chains of a robot."""

    forward: Chain  #: from the base to the tips.
    backward: Chain  #: from the tips to the base.

    def interval(self, machine: Machine) -> float:
        """Return the time between two samples: that of the slower chain [s]."""
        return max(self.forward.interval(machine), self.backward.interval(machine))

    def rate(self, machine: Machine) -> float:
        """Return the samples per second [Hz]."""
        return 1 / self.interval(machine)

    def latency(self, machine: Machine) -> float:
        """Return the time from a sample to its joint torques [s].

        For each joint, the first stage of the backward chain needs the motion of that joint only.
        It therefore runs while the forward chain still computes.
        """
        forward, backward = self.forward.completion(machine), self.backward
        return forward + machine.message + backward.completion(machine, ahead=1)


def pipeline(joints: int, split: Split, operations: Operations) -> Pipeline:
    """Return the pipeline of a serial arm.

    The first joint moves on a base at rest and needs no input: the forward chain starts at joint 2.
    """
    return Pipeline(
        Chain(operations.forward, max(joints - 1, 1), split.forward),
        Chain(operations.backward, joints, split.backward),
    )


def splits(workers: int) -> Iterator[Split]:
    """Yield every division of up to ``workers`` processors between two chains."""
    for used in range(2, workers + 1):
        for forward in range(1, used):
            yield Split(forward, used - forward)


def best_split(
    workers: int,
    joints: int,
    operations: Operations,
    machine: Machine,
    goal: Goal = "rate",
) -> Split:
    """Return the best division of processors between the chains.

    Args:
        workers:    available processors, at least 2; the split uses fewer if more do not help.
        joints:     number of joints, n.
        operations: of a joint.
        machine:    times of a processor and its links.
        goal:       ``rate``, most samples per second, then shortest latency; ``latency``, shortest
                    latency, then most samples per second.

    Raises:
        OptionError: ``workers`` is below 2, ``joints`` below 1, or ``goal`` unknown.
    """
    if workers < 2:
        raise OptionError(f"workers is {workers}; use 2 or more, at least one for each chain")
    if joints < 1:
        raise OptionError(f"joints is {joints}; give a number of joints, 1 or more")
    if goal not in ("rate", "latency"):
        raise OptionError(f"goal is {show_value(goal)}; choose one of rate, latency")

    def cost(split: Split) -> tuple[float, float]:
        found = pipeline(joints, split, operations)
        costs = found.interval(machine), found.latency(machine)
        return costs if goal == "rate" else (costs[1], costs[0])

    return min(splits(workers), key=cost)
