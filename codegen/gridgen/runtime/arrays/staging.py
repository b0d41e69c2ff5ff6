"""Arrays that a kernel cannot work on in place: copied, a part of the batch at a time.

A kernel reads and writes arrays of nearly any strides where they lie. The exceptions are few:
elements that are not aligned, matrices that are not evenly spaced, quaternions to be normalized,
results that overlap an argument. What copies take of memory does not grow with the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from gridgen.errors import ShapeError
from gridgen.functions.types import Array
from gridgen.runtime.arrays.layout import extent, meet, seen_in_place
from gridgen.runtime.arrays.libraries import check_no_capture, namespace, on_gpu

#: Bytes of copies made at a time: they stay in the cache between being written and being read.
PART_BYTES = 1 << 22
#: In rollouts, whose states have all their steps.
ROLLOUT_PART_BYTES = 1 << 27
#: On a GPU, where each part takes launches, and few states are slow.
GPU_PART_BYTES = 1 << 30
#: Bytes of copies where the batch cannot be taken in parts.
MOST_BYTES = 1 << 26
# Parts are whole SIMD packs and cache lines.
_MULTIPLE = 64


class Operand(NamedTuple):
    """An array of a call.

    Attributes:
        array:  (B, ...), or (...) for one state or an argument that all states share; of a rollout
                (B, T, ...) or (T, ...), too.
        axes:   axes of one state, that of time included.
        seen:   what a kernel sees of it, see ``seen_in_place``; ``None`` where it gets a copy.
        adjust: changes the copy before the kernel reads it.
        time:   as of ``seen_in_place``.
        is_read: whether a kernel reads it, or it stands for an array that is not given.
    """

    array: Array
    axes: int
    seen: tuple[int, ...] | None
    adjust: Callable[[Array], None] | None = None
    time: int | None = None
    is_read: bool = True

    @property
    def copied(self) -> bool:
        """Whether the kernel gets a copy."""
        return self.seen is None

    @property
    def has_batch(self) -> bool:
        """Whether the array has an axis of states."""
        return bool(self.array.ndim > self.axes)

    def part(self, begin: int, end: int) -> Array:
        """Return the array's share of some states."""
        return self.array[begin:end] if self.has_batch else self.array

    def bytes_per_state(self, batch: int) -> int:
        """Return what copying one state takes."""
        return -(-self.array.nbytes // batch) if self.copied else 0

    def like(self, array: Array) -> Operand:
        """Return an array with the same axes."""
        seen = seen_in_place(array, self.axes, self.time)
        return self._replace(array=array, seen=seen, adjust=None)


#: Computes so many states of arrays that a kernel can work on.
Run: TypeAlias = Callable[[list[Operand], int], None]


def operand(array: Array, axes: int, time: int | None = None) -> Operand:
    """Return an array of a call with what a kernel sees of it."""
    return Operand(array, axes, seen_in_place(array, axes, time), None, time)


def apart(outputs: Sequence[Operand], inputs: Sequence[Operand]) -> list[Operand]:
    """Return the caller's arrays for results, those copied too that overlap an input."""
    extents = [extent(item.array) for item in inputs if item.is_read]
    places = [extent(item.array) for item in outputs]
    return [
        item._replace(seen=None) if any(meet(place, other) for other in extents) else item
        for item, place in zip(outputs, places, strict=True)
    ]


def run_in_place(
    run: Run,
    names: Sequence[str],
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    batch: int,
    part_bytes: int | None = None,
) -> None:
    """Compute a batch, in place or with copies of those arrays that a kernel cannot work on.

    Args:
        run:        computes so many states of arrays that a kernel can work on.
        names:      of the inputs, for an error.
        inputs:     the arguments, which lie where the kernel computes.
        outputs:    the results, likewise.
        batch:      the number of states.
        part_bytes: bytes of the copies of a part on the CPU; by default ``PART_BYTES``.

    Raises:
        ShapeError:  a result overlaps an argument in a way that takes too large a copy.
        DeviceError: a copy is needed, and a stream is being captured.
    """
    operands = [*inputs, *outputs]
    if not any(item.copied for item in operands):
        run(operands, batch)
        return
    check_no_capture(
        inputs[0].array,
        "an array takes a copy, which a graph would not keep; give contiguous arrays, and results "
        "that overlap no argument",
    )
    part_bytes = GPU_PART_BYTES if on_gpu(inputs[0].array) else part_bytes or PART_BYTES
    sizes = part_sizes(names, inputs, outputs, batch, part_bytes)
    in_parts(partial(_run_part, run, inputs, outputs), batch, sizes)


class PartSizes(NamedTuple):
    """How a batch is divided.

    Attributes:
        wanted: states of a part.
        least:  the fewest that a part may have where there is little memory.
    """

    wanted: int
    least: int


def part_sizes(
    names: Sequence[str],
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    batch: int,
    part_bytes: int,
) -> PartSizes:
    """Return how many states can be copied, computed and written before the next ones are read.

    Args:
        names:      of the inputs, for an error.
        inputs:     the arguments.
        outputs:    the results.
        batch:      the number of states.
        part_bytes: bytes that the copies of a part may take.

    Raises:
        ShapeError: a result overlaps an argument in a way that takes too large a copy.
    """
    per_state = sum(item.bytes_per_state(batch) for item in (*inputs, *outputs))
    most = max(MOST_BYTES, part_bytes)
    for output in outputs:
        for i in overlapping(output, inputs):
            if _is_state_by_state(output, inputs[i]):
                continue
            if per_state * batch > most:
                raise ShapeError(
                    f"out overlaps {names[i]}, state i the memory of another state, and is too "
                    f"large for a copy ({per_state * batch >> 20} MB, the limit is {most >> 20} "
                    f"MB): give an array of its own, or {names[i]}'s very memory"
                )
            return PartSizes(batch, batch)
    return PartSizes(_rows(per_state, batch, part_bytes), 1)


def in_parts(
    run: Callable[[int, int], object],
    batch: int,
    sizes: PartSizes,
    make_room: Callable[[], object] = lambda: None,
) -> None:
    """Compute a batch a part at a time, in smaller ones where there is no memory for them.

    Args:
        run:       computes states [begin, end); if it raises ``MemoryError``, it has changed
                   neither arguments nor results.
        batch:     the number of states.
        sizes:     those of parts.
        make_room: frees what it can before a smaller part is tried.

    Raises:
        MemoryError: there is no room for the least part.
    """
    begin, rows = 0, sizes.wanted
    while begin < batch:
        end = min(begin + rows, batch)
        try:
            run(begin, end)
        except MemoryError:
            if end - begin <= sizes.least:
                raise
            make_room()
            rows = max((end - begin) // 2, sizes.least)
        else:
            begin = end


def _run_part(
    run: Run,
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    begin: int,
    end: int,
) -> None:
    """Compute states [begin, end); the copies are gone when the next part begins."""
    xp = namespace(inputs[0].array)
    arrays = [_loaded(xp, item, item.part(begin, end)) for item in inputs]
    targets = [item.part(begin, end) for item in outputs]
    results = [
        xp.empty(target.shape, dtype=target.dtype) if item.copied else target
        for item, target in zip(outputs, targets, strict=True)
    ]
    part = zip((*arrays, *results), (*inputs, *outputs), strict=True)
    run([item.like(array) for array, item in part], end - begin)
    for item, target, result in zip(outputs, targets, results, strict=True):
        if item.copied:
            target[...] = result


def _loaded(xp: Any, item: Operand, part: Array) -> Array:
    """Return a part of an input as the kernel reads it."""
    if not item.copied:
        return part
    copy = xp.array(part, order="C")
    if item.adjust is not None:
        item.adjust(copy)
    return copy


def _rows(per_state: int, batch: int, part_bytes: int) -> int:
    """Return the number of states of a part."""
    rows = part_bytes // max(per_state, 1)
    if rows >= _MULTIPLE:
        rows -= rows % _MULTIPLE
    return min(max(rows, 1), batch)


def overlapping(output: Operand, inputs: Sequence[Operand]) -> list[int]:
    """Return which inputs lie where an output does, by their places."""
    place = extent(output.array)
    return [i for i, item in enumerate(inputs) if item.is_read and meet(place, extent(item.array))]


def _is_state_by_state(output: Operand, given: Operand) -> bool:
    """Tell whether no state of an output touches the memory of another state of an input.

    So it is if both go from state to state by the same step, and one state of both together fits
    into a step: the same array, or columns of one table.
    """
    if not (output.has_batch and given.has_batch):
        return False
    step = output.array.strides[0]
    begins, ends = zip(extent(output.array[0]), extent(given.array[0]), strict=True)
    return bool(step == given.array.strides[0] and max(ends) - min(begins) <= abs(step))


def numbers_of(operands: Iterable[Operand]) -> list[int]:
    """Return what a kernel sees of arrays that it can work on, one after the other."""
    return [number for item in operands for number in item.seen or ()]
