"""Arguments of rollouts: arrays that may have an axis of time, and what is kept of the way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gridgen.errors import OptionError, ShapeError
from gridgen.functions.arrays import CONSTANT_IN_TIME, FEEDBACK
from gridgen.functions.calls import Course
from gridgen.functions.types import Array
from gridgen.naming import show_value
from gridgen.runtime.arrays.arguments import are_one
from gridgen.runtime.arrays.layout import extent, seen_in_place
from gridgen.runtime.arrays.libraries import namespace

# The most that anything is counted to: far more than is ever computed.
_MOST = 2**31 - 1


@dataclass(frozen=True)
class Argument:
    """An array of a rollout.

    Attributes:
        name:  of the array.
        array: (B, T, ...), or without B, T or both.
        lead:  axes before those of one state at a time.
        batch: axis of the states; ``None`` where all have the same.
        time:  axis of time; ``None`` where it stays what it is.
        axes:  shape of one state at a time.
        is_read: whether a kernel reads it; otherwise it has another array's place.
    """

    name: str
    array: Array
    lead: int
    batch: int | None
    time: int | None
    axes: tuple[int, ...]
    is_read: bool = True

    @cached_property
    def place(self) -> tuple[int, int]:
        """The addresses between which the array lies."""
        return extent(self.array)

    @cached_property
    def seen(self) -> tuple[int, ...] | None:
        """Address and strides in elements: state, component, time; ``None`` if it takes a copy."""
        array, itemsize = self.array, self.array.dtype.itemsize
        if not array.size:
            return 0, 0, 0, 0
        one = seen_in_place(array[(*(0,) * self.lead, ...)], len(self.axes))
        batch, time = (
            0 if axis is None else array.strides[axis] for axis in (self.batch, self.time)
        )
        if one is None or batch % itemsize or time % itemsize:
            return None
        address, _, component = one
        return address, batch // itemsize, component, time // itemsize

    def copy(self) -> Argument:
        """Return it with a copy of its array."""
        return replace(self, array=namespace(self.array).array(self.array, order="C"))

    def words(self) -> list[int]:
        """Return what a kernel is given of an array that it can work on."""
        seen = self.seen
        assert seen is not None
        address, batch, component, time = seen
        own = [address, batch, component]
        return own if self.name in CONSTANT_IN_TIME else [*own, time, 0, 0]


def feedback_of(course: Course) -> dict[str, Array | None]:
    """Return what a controller follows, by the names of arrays."""
    if course.feedback is None:
        return dict.fromkeys(FEEDBACK)
    if not isinstance(course.feedback, (tuple, list)) or len(course.feedback) != len(FEEDBACK):
        raise OptionError(
            f"feedback is {show_value(course.feedback)}; give gains, and positions and velocities "
            "to be followed: (K, q_ref, qd_ref)"
        )
    followed = dict(zip(FEEDBACK, course.feedback, strict=True))
    for name, array in followed.items():
        if array is None:
            raise OptionError(f"feedback lacks {name}: give all of (K, q_ref, qd_ref), or none")
    return followed


def kept_of(course: Course, steps: int) -> tuple[int, int | None]:
    """Return every how many steps a state is kept, and how many are; ``None`` for one alone."""
    _check_switch("effort_limits", course.effort_limits)
    check_substeps(course.substeps)
    keep: Any = course.keep
    if isinstance(keep, str) and keep in ("all", "last"):
        return (1, steps + 1) if keep == "all" else (steps, None)
    if not _is_count(keep) or steps % keep:
        raise OptionError(
            f"keep is {show_value(keep)}; give all, last, or a number of steps that divides {steps}"
        )
    return int(keep), steps // int(keep) + 1


def check_efforts(course: Course) -> bool:
    """Tell whether a rollout shall return efforts; raise unless that is said."""
    _check_switch("return_efforts", course.return_efforts)
    return course.return_efforts


def _check_switch(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {show_value(value)}; give True or False")


def check_substeps(substeps: Any) -> None:
    """Raise unless it is a number of steps."""
    if not _is_count(substeps):
        given = show_value(substeps)
        raise OptionError(f"substeps is {given}; give a whole number from 1 to {_MOST}")


def _is_count(value: Any) -> bool:
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return is_number and 1 <= value <= _MOST


def nothing(name: str, shape: tuple[int, ...], q: Array) -> Argument:
    """Return what stands for an array that is not read."""
    return Argument(name, q, q.ndim - 1, None, None, q.shape[-1:], is_read=False)


def batch_of(shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, Array]) -> int | None:
    """Return the number of states of a rollout; ``None`` where no array has an axis of states.

    A single axis in front of what may differ from step to step is that of states if there are
    states at all; that of efforts, and of what a controller follows, is time.

    Args:
        shapes: of one state at a time, by name.
        arrays: those that are given.
    """
    leads = {n: array.shape[: max(array.ndim - len(shapes[n]), 0)] for n, array in arrays.items()}
    always = {n: 1 if n in CONSTANT_IN_TIME else 2 for n in leads}
    if not any(len(lead) >= always[name] for name, lead in leads.items()):
        return None
    timed = ("tau", *FEEDBACK)
    extents = [lead[0] for name, lead in leads.items() if len(lead) > (name in timed)]
    return next((extent for extent in extents if extent != 1), 1)


class Flat(NamedTuple):
    """Arrays with one axis for states, in place of several.

    Attributes:
        arrays: by name.
        lead:   the axes of states, which that axis stands for; ``None`` if there is one at most.
        copied: names of those that are copies, because these axes are not one in memory.
    """

    arrays: dict[str, Array]
    lead: tuple[int, ...] | None
    copied: tuple[str, ...]


def flattened(
    robot: str, shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, Array], xp: Any
) -> Flat:
    """Return the arrays of a rollout with at most one axis for states, and one of time.

    Several axes of states are broadcast as NumPy does. An array that need not have time has it if
    it has an axis more than there are axes of states.

    Args:
        robot:  its name.
        shapes: of one state at a time, by name.
        arrays: those that are given.
        xp:     their library.

    Raises:
        ShapeError: the axes of states do not fit.
    """
    counts = {name: max(array.ndim - len(shapes[name]), 0) for name, array in arrays.items()}
    timed = {name: name == "tau" or name in FEEDBACK for name in arrays}
    known = (n for n in arrays if timed[n] or n in CONSTANT_IN_TIME)
    most = max(counts[name] - timed[name] for name in known)
    if most < 2:
        return Flat(dict(arrays), None, ())
    lead: tuple[int, ...] = ()
    states: dict[str, int] = {}
    for name, count in counts.items():
        has_time = timed[name] or (name not in CONSTANT_IN_TIME and count > most)
        states[name] = max(count - has_time, 0)
        own = arrays[name].shape[: states[name]]
        try:
            lead = np.broadcast_shapes(lead, own)
        except ValueError:
            raise ShapeError(
                f"{name} has shape {arrays[name].shape}; {robot} needs {lead} or what NumPy "
                "broadcasts to it for its states, as the others have"
            ) from None
    flat, copied = {}, []
    for name, array in arrays.items():
        if states[name]:
            rest = array.shape[states[name] :]
            array = xp.broadcast_to(array, (*lead, *rest))
            if hasattr(array, "strides") and not are_one(array, len(lead)):
                copied.append(name)
            array = array.reshape(math.prod(lead), *rest)
        flat[name] = array
    return Flat(flat, lead, tuple(copied))


def argument(
    robot: str,
    name: str,
    shape: tuple[int, ...],
    array: Array,
    batch: int | None,
    steps: int,
) -> Argument:
    """Return an input whose axes are known.

    Raises:
        ShapeError: it has others than it may have.
    """
    count = max(array.ndim - len(shape), 0)
    lead = array.shape[:count]
    batched = batch is not None
    axis: int | None
    time: int | None
    if name == "tau" or name in FEEDBACK:  # as NumPy broadcasts them to (B, T, ...)
        time, axis = (count - 1 if count else None), (0 if count == 2 else None)
        fits = count <= 1 + batched
    else:
        axis, time = (0 if batched and count else None), (count - 1 if count > batched else None)
        fits = count <= batched + (name not in CONSTANT_IN_TIME)
    extents = [
        (lead[place], most) for place, most in ((axis, batch), (time, steps)) if place is not None
    ]
    fits &= array.shape[count:] == shape
    fits &= all(given in (most, 1) for given, most in extents)
    if not fits:
        raise ShapeError(
            f"{name} has shape {array.shape}; {robot} needs {wanted(name, shape, batch, steps)}"
        )
    axis = None if axis is None or lead[axis] == 1 else axis
    time = None if time is None or lead[time] == 1 else time
    return Argument(name, array, count, axis, time, shape)


def wanted(name: str, shape: tuple[int, ...], batch: int | None, steps: int | str) -> str:
    """Say which shapes an input may have."""
    heads: list[tuple[int | str, ...]] = []
    of_states: tuple[int | str, ...] = () if batch is None else (batch or "B",)
    if name == "tau":
        heads = [(*of_states, steps), (steps,)]
    elif name in FEEDBACK:
        heads = [(), (steps,), (*of_states, steps)]
    else:
        heads = [(), of_states]
        heads += [] if name in CONSTANT_IN_TIME else [(*of_states, steps)]
    shapes = [(*head, *shape) for head in dict.fromkeys(heads)]
    commas = ("," if len(one) == 1 else "" for one in shapes)
    return " or ".join(
        f"({', '.join(map(str, one))}{comma})" for one, comma in zip(shapes, commas, strict=True)
    )
