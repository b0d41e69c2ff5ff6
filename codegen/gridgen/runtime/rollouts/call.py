"""A rollout whose arguments have been checked: what its kernel and copies then go by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from gridgen.functions.calls import Course, CourseWords
from gridgen.functions.types import Array
from gridgen.kernel import Kernel
from gridgen.runtime.arrays.arguments import with_one_axis
from gridgen.runtime.arrays.libraries import restored
from gridgen.runtime.rollouts.arguments import Argument


class Given(NamedTuple):
    """What a caller gave for the inputs of a rollout, checked.

    Attributes:
        inputs: the kernel's, in order, with at most one axis for states.
        lead:   the axes of states: none, one, or several, for which that axis stands.
        steps:  number of steps.
        copied: names of the inputs that are copies, as their axes of states are not one in memory.
    """

    inputs: tuple[Argument, ...]
    lead: tuple[int, ...]
    steps: int
    copied: tuple[str, ...] = ()

    def result(
        self, name: str, array: Array, moments: int | None, shape: tuple[int, ...]
    ) -> Argument:
        """Return a result, or an array like one.

        Args:
            name:    of the array.
            array:   (*lead, moments, ...), without moments where they are ``None``; written, if
                     it is a result.
            moments: its extent along time.
            shape:   of one state at a time.
        """
        if len(self.lead) > 1:
            array = with_one_axis(array, len(self.lead))
        axis = 0 if self.lead else None
        lead = array.ndim - len(shape)
        time = None if moments is None else lead - 1
        return Argument(name, array, lead, axis, time, shape)

    def shape(self, moments: int | None, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a result; arguments as there."""
        return (*self.lead, *(() if moments is None else (moments,)), *shape)


@dataclass(frozen=True)
class RolloutCall:
    """A rollout whose arguments have been checked, and memory for its results.

    Attributes:
        kernel:  computes it.
        inputs:  its arrays in the kernel's order.
        outputs: arrays for the results, the caller's own where there are such.
        course:  how far it goes.
        lead:    the axes of states, which are one in its arrays.
        like:    the argument whose library the results shall have.
        out:     what the caller gave for the results.
        copied:  names of the inputs that are copies of what was given.
    """

    kernel: Kernel
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    course: CourseWords
    lead: tuple[int, ...]
    like: Any
    out: Any
    copied: tuple[str, ...] = ()

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
        states: int = math.prod(self.lead)
        return states

    @property
    def answer(self) -> Any:
        """What the caller gets, when the results have been computed."""
        if self.out is not None:
            return self.out
        arrays = (item.array for item in self.outputs)
        if len(self.lead) > 1:
            arrays = (array.reshape(*self.lead, *array.shape[1:]) for array in arrays)
        results = tuple(restored(array, self.like) for array in arrays)
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
