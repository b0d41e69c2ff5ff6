"""A rollout whose arguments have been checked: what its kernel and copies then go by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from gridgen.functions.calls import Course, CourseWords
from gridgen.functions.types import Array
from gridgen.kernel import Kernel
from gridgen.runtime.libraries import restored
from gridgen.runtime.over_time import Argument


class Given(NamedTuple):
    """What a caller gave for the inputs of a rollout, checked.

    Attributes:
        inputs: the kernel's, in order.
        batch:  number of states; ``None`` for one without a batch axis.
        steps:  number of steps.
    """

    inputs: tuple[Argument, ...]
    batch: int | None
    steps: int

    def result(
        self, name: str, array: Array, moments: int | None, shape: tuple[int, ...]
    ) -> Argument:
        """Return a result, or an array like one.

        Args:
            name:    of the array.
            array:   (B, moments, ...), or without one of them where it is ``None``.
            moments: its extent along time.
            shape:   of one state at a time.
        """
        axis = None if self.batch is None else 0
        lead = array.ndim - len(shape)
        time = None if moments is None else lead - 1
        return Argument(name, array, lead, axis, time, shape)

    def shape(self, moments: int | None, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a result; arguments as there."""
        lead = (extent for extent in (self.batch, moments) if extent is not None)
        return (*lead, *shape)


@dataclass(frozen=True)
class RolloutCall:
    """A rollout whose arguments have been checked, and memory for its results.

    Attributes:
        kernel:  computes it.
        inputs:  its arrays in the kernel's order.
        outputs: arrays for the results, the caller's own where there are such.
        course:  how far it goes.
        batch:   number of states; ``None`` for one without a batch axis.
        like:    the argument whose library the results shall have.
        out:     what the caller gave for the results.
    """

    kernel: Kernel
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    course: CourseWords
    batch: int | None
    like: Any
    out: Any

    @property
    def q(self) -> Array:
        """The adopted first argument."""
        return self.inputs[0].array

    @property
    def arrays(self) -> list[Array]:
        """All arrays: of the inputs, and for the results."""
        return [item.array for item in (*self.inputs, *self.outputs)]

    @property
    def states(self) -> int:
        """The number of states."""
        return 1 if self.batch is None else self.batch

    @property
    def answer(self) -> Any:
        """What the caller gets, when the results have been computed."""
        if self.out is not None:
            return self.out
        results = tuple(restored(item.array, self.like) for item in self.outputs)
        return results if len(results) > 1 else results[0]

    @property
    def course_numbers(self) -> list[int]:
        """How far it goes, as its kernel is told."""
        pairs = zip(self.course[::2], self.course[1::2], strict=True)
        return [number for first, second in pairs for number in (first, 0, second)]

    @property
    def trail(self) -> int:
        """The numbers that a way back keeps of a state between two checkpoints."""
        if not self.kernel.key.wrt:
            return 0
        size = sum(math.prod(self.kernel.inputs[name]) for name in ("q_path", "qd_path"))
        return self.course.between * self.course.substeps * size


def course_words(course: Course, steps: int, every: int, moments: int | None) -> CourseWords:
    """Return what a kernel is told of a rollout.

    Args:
        course:  as the caller gave it.
        steps:   how many there are.
        every:   how many steps from one state that is kept to the next.
        moments: how many are kept; ``None`` for the last one alone.
    """
    return CourseWords(
        steps,
        course.substeps,
        every,
        begins=moments is not None or not steps,
        follows=course.feedback is not None,
        limits=course.effort_limits,
    )
