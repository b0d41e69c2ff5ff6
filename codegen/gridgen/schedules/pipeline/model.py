"""How fast a pipeline of the two chains of Newton-Euler is (Iannello, Siciliano eq. 1 to 3).

The forward chain goes from the base to the tips and finds motions, the backward chain comes back
and finds efforts. Each is a pipeline of processors of its own; while the backward chain works on
a sample, the forward chain works on the next one. docs/pipeline_model.md has the derivation and
compares the model with the paper's tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gridgen.errors import OptionError
from gridgen.naming import show_value

#: What a split is chosen for: samples in a second, or the time from a sample to its efforts.
Goal = Literal["rate", "latency"]


@dataclass(frozen=True)
class Machine:
    """The times of one kind of processor and its links [s].

    Attributes:
        operation: of one operation, t_e.
        start:     that it takes to start an input and an output, T_c.
        message:   until what a stage has found is with the next one, k l.
    """

    operation: float
    start: float
    message: float


@dataclass(frozen=True)
class Operations:
    """What a joint costs.

    Attributes:
        forward:  operations of a joint in the forward chain.
        backward: in the backward chain.
    """

    forward: float
    backward: float


@dataclass(frozen=True)
class Split:
    """How many processors each chain has."""

    forward: int
    backward: int


@dataclass(frozen=True)
class Chain:
    """A pipeline of equal stages.

    Attributes:
        operations: of all stages in one cycle, C.
        cycles:     that each stage makes for a sample: joints.
        stages:     number of processors, N.
    """

    operations: float
    cycles: int
    stages: int

    def cycle(self, machine: Machine) -> float:
        """Return how long a stage takes for a joint: D t_e + T_c with D = C / N (eq. 3) [s].

        A chain of one stage starts one transfer for a joint, to or from the other chain, not two.
        """
        started = machine.start if self.stages > 1 else machine.start / 2
        return self.operations / self.stages * machine.operation + started

    def interval(self, machine: Machine) -> float:
        """Return the time between two samples, of which eq. 2 is about [s]."""
        return self.cycles * self.cycle(machine)

    def completion(self, machine: Machine, ahead: int = 0) -> float:
        """Return the time from the first input to the last output of a sample (eq. 1) [s].

        Args:
            machine: times of a processor and its links.
            ahead:   stages that have done their first cycle before.
        """
        filled = max(self.stages - 1 - ahead, 0) * (self.cycle(machine) + machine.message)
        return filled + self.interval(machine)


@dataclass(frozen=True)
class Pipeline:
    """The two chains of a robot.

    Attributes:
        forward:  from the base to the tips.
        backward: from the tips to the base.
    """

    forward: Chain
    backward: Chain

    def interval(self, machine: Machine) -> float:
        """Return the time between two samples: that of the slower chain [s]."""
        return max(self.forward.interval(machine), self.backward.interval(machine))

    def rate(self, machine: Machine) -> float:
        """Return the samples in a second [Hz]."""
        return 1 / self.interval(machine)

    def latency(self, machine: Machine) -> float:
        """Return the time from a sample to its efforts [s].

        What the first stage of the backward chain does for a joint needs that joint's motion alone:
        it is done while the forward chain still works.
        """
        forward, backward = self.forward.completion(machine), self.backward
        return forward + machine.message + backward.completion(machine, ahead=1)


def pipeline(joints: int, split: Split, operations: Operations) -> Pipeline:
    """Return the pipeline of a serial arm.

    The first joint moves on a base at rest, which leaves nothing to wait for: the forward chain
    starts at joint 2.

    Args:
        joints:     number of joints, n.
        split:      processors of each chain.
        operations: of a joint.
    """
    return Pipeline(
        Chain(operations.forward, max(joints - 1, 1), split.forward),
        Chain(operations.backward, joints, split.backward),
    )


def splits(workers: int) -> Iterator[Split]:
    """Yield the ways to give up to so many processors to two chains."""
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
    """Return how to divide processors between the chains.

    Args:
        workers:    processors that there are, at least 2; no more are used than are of use.
        joints:     number of joints, n.
        operations: of a joint.
        machine:    times of a processor and its links.
        goal:       ``rate``, most samples in a second, and of splits with the same rate the one
                    with the shortest latency; ``latency``, the other way about.

    Raises:
        OptionError: there are fewer than two processors, no joints, or no such goal.
    """
    if workers < 2:
        raise OptionError(f"workers is {workers}; a chain each takes 2 or more")
    if joints < 1:
        raise OptionError(f"joints is {joints}; give a number of joints, 1 or more")
    if goal not in ("rate", "latency"):
        raise OptionError(f"goal is {show_value(goal)}; choose one of rate, latency")

    def cost(split: Split) -> tuple[float, float]:
        found = pipeline(joints, split, operations)
        costs = found.interval(machine), found.latency(machine)
        return costs if goal == "rate" else (costs[1], costs[0])

    return min(splits(workers), key=cost)
