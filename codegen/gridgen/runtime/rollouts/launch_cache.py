"""Rollouts of NumPy arrays on the CPU: skip validation for argument layouts seen before.

Validating the arrays of a rollout, which have an axis of time, takes longer than a short rollout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gridgen.functions.arrays import FEEDBACK
from gridgen.functions.calls import Course
from gridgen.functions.types import Array
from gridgen.kernel import Kernel
from gridgen.runtime.arrays.arguments import results_given
from gridgen.runtime.arrays.layout import address, extent, is_same_place, meet

if TYPE_CHECKING:
    from gridgen.runtime.rollouts.call import RolloutCall

# Layouts that are kept for a robot; beyond, it begins anew.
_MOST = 256
# Numbers for all states; what else is no array has its own way.
_NUMBERS = (float, int)

_Key = tuple[Any, ...]


class _Layout(NamedTuple):
    """What is known of a rollout.

    Attributes:
        numbers: what the kernel is given.
        places:  where among them the address of each array is that a caller gives; those of
                 results last.
        spans:   from the address of each of these arrays to its begin and its end [bytes].
        shapes:  of the results.
        states:  number of states.
        kept:    the other arrays, whose addresses stay.
    """

    numbers: list[int]
    places: list[int]
    spans: list[tuple[int, int]]
    shapes: list[tuple[int, ...]]
    states: int
    kept: list[Array]


class Again(NamedTuple):
    """A rollout like an earlier one.

    Attributes:
        numbers: what the kernel is given.
        states:  number of states.
        results: arrays for the results.
    """

    numbers: list[int]
    states: int
    results: Sequence[Array]


class FamiliarRollouts:
    """The layouts of earlier rollouts of a robot."""

    def __init__(self) -> None:
        self._layouts: dict[_Key, _Layout] = {}

    def found(self, key: _Key, values: Sequence[Any], out: Any) -> Again | None:
        """Return how to compute a rollout, or ``None`` if there was none like it.

        Args:
            key:    as ``rollout_key`` gives it.
            values: the inputs, those of a controller last.
            out:    what the caller gave for the results.
        """
        layout = self._layouts.get(key)
        if layout is None:
            return None
        arrays = [value for value in values if type(value) is np.ndarray]
        inputs = len(arrays)
        if out is None:
            results: Sequence[Array] = [np.empty(s, arrays[0].dtype) for s in layout.shapes]
        else:
            results = out
        arrays += results
        numbers = layout.numbers.copy()
        addresses = [address(array) for array in arrays]
        for place, begin in zip(layout.places, addresses, strict=True):
            numbers[place] = begin
        if out is not None and _overlap(addresses, layout.spans, inputs):
            return None
        return Again(numbers, layout.states, results)

    def note(self, key: _Key, values: Mapping[str, Any], call: RolloutCall) -> None:
        """Remember a rollout whose arrays a kernel works on where they lie.

        Args:
            key:    as ``rollout_key`` gives it.
            values: the inputs by name.
            call:   the rollout, which has been computed.
        """
        numbers: list[int] = []
        places: list[int] = []
        spans: list[tuple[int, int]] = []
        kept: list[Array] = []
        for item in (*call.inputs, *call.outputs):
            if item.seen is None:
                return
            given = values.get(item.name)
            if item.name not in values or type(given) is np.ndarray:
                if given is not None and not is_same_place(item.array, given):
                    return
                begin, end = extent(item.array)
                places.append(len(numbers))
                spans.append((begin - item.seen[0], end - item.seen[0]))
                numbers += item.words()
            elif item.name in FEEDBACK:  # there is none, and nothing is read
                numbers += [0] * len(item.words())
            else:
                kept.append(item.array)
                numbers += item.words()
        if len(self._layouts) >= _MOST:
            self._layouts.clear()
        shapes = [item.array.shape for item in call.outputs]
        numbers += call.course_numbers
        self._layouts[key] = _Layout(numbers, places, spans, shapes, call.states, kept)


def rollout_key(kernel: Kernel, values: Sequence[Any], course: Course, out: Any) -> _Key | None:
    """Return what rollouts have in common that are alike; ``None`` for one that has its own way.

    Args:
        kernel: computes it.
        values: the inputs, those of a controller last.
        course: how far it goes.
        out:    what the caller gave for the results.
    """
    if type(values[0]) is not np.ndarray or not values[0].size:
        return None
    said = course.substeps, course.keep, course.effort_limits
    parts: list[Any] = [kernel.name, *said, *map(type, said), type(out)]
    for value in (*values, *results_given(out)):
        kind = type(value)
        if kind is np.ndarray:
            if not value.size:
                return None
            parts += value.shape, value.strides, value.dtype, value.flags.num
        elif value is None or kind in _NUMBERS:
            parts += kind, value
        else:
            return None
    key = tuple(parts)
    try:
        hash(key)
    except TypeError:  # a list in place of a number
        return None
    return key


def _overlap(addresses: Sequence[int], spans: Sequence[tuple[int, int]], inputs: int) -> bool:
    """Tell whether a result may share memory with another array."""
    places = [(a + begin, a + end) for a, (begin, end) in zip(addresses, spans, strict=True)]
    return any(meet(places[i], places[j]) for i in range(inputs, len(places)) for j in range(i))
