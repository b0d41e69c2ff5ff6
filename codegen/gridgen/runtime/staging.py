"""Arrays that a kernel cannot work on in place: copied, a part of the batch at a time.

A kernel reads and writes arrays of nearly any strides where they lie. The exceptions are few:
elements that are not aligned, matrices that are not evenly spaced, quaternions to be normalised,
results that overlap an argument. What copies take of memory does not grow with the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gridgen.errors import ShapeError
from gridgen.functions.types import Array
from gridgen.runtime.arrays import extent, meet, seen_in_place
from gridgen.runtime.libraries import check_no_capture, namespace

#: Bytes of copies made at a time: they stay in the cache between being written and being read.
PART_BYTES = 1 << 22
#: Bytes of copies where the batch cannot be taken in parts.
MOST_BYTES = 1 << 26
# Parts are whole SIMD packs and cache lines.
_MULTIPLE = 64


class Operand(NamedTuple):
    """An array of a call.

    Attributes:
        array:  (B, ...), or (...) for one state or an argument that all states share.
        axes:   axes of one state.
        seen:   address, batch stride and component stride, as a kernel sees them; ``None`` where
                it gets a copy.
        adjust: changes the copy before the kernel reads it.
    """

    array: Array
    axes: int
    seen: tuple[int, int, int] | None
    adjust: Callable[[Array], None] | None = None

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


def operand(array: Array, axes: int) -> Operand:
    """Return an array of a call with what a kernel sees of it."""
    return Operand(array, axes, seen_in_place(array, axes))


def result_operands(
    arrays: Sequence[Array], axes: Sequence[int], inputs: Sequence[Operand]
) -> list[Operand]:
    """Return the caller's arrays for results, those copied too that overlap an input."""
    extents = [extent(item.array) for item in inputs]
    results = []
    for array, count in zip(arrays, axes, strict=True):
        place = extent(array)
        overlaps = any(meet(place, other) for other in extents)
        results.append(Operand(array, count, None) if overlaps else operand(array, count))
    return results


def run_in_parts(
    run: Callable[[list[Operand], int], None],
    names: Sequence[str],
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    batch: int,
) -> None:
    """Compute a batch whose arrays need copies.

    Args:
        run:     computes so many states of arrays that a kernel can work on.
        names:   of the inputs, for an error.
        inputs:  the arguments.
        outputs: the results.
        batch:   the number of states.

    Raises:
        ShapeError:  a result overlaps an argument in a way that takes too large a copy.
        DeviceError: a stream is being captured.
    """
    check_no_capture(
        inputs[0].array,
        "an array takes a copy, which a graph would not keep; give contiguous arrays, and results "
        "that overlap no argument",
    )
    per_state = sum(item.bytes_per_state(batch) for item in (*inputs, *outputs))
    rows = _rows(per_state, batch)
    for output in outputs:
        for i in overlapping(output, inputs):
            if rows < batch and not _is_state_by_state(output, inputs[i]):
                if per_state * batch > MOST_BYTES:
                    raise ShapeError(
                        f"out overlaps {names[i]}, state i the memory of another state, and is too "
                        f"large for a copy ({per_state * batch >> 20} MB, the limit is "
                        f"{MOST_BYTES >> 20} MB): give an array of its own, or {names[i]}'s very "
                        "memory"
                    )
                rows = batch
    for begin in range(0, batch, rows):
        _run_part(run, inputs, outputs, begin, min(begin + rows, batch))


def _run_part(
    run: Callable[[list[Operand], int], None],
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
    run([operand(array, item.axes) for array, item in part], end - begin)
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


def _rows(per_state: int, batch: int) -> int:
    """Return the number of states of a part."""
    rows = PART_BYTES // max(per_state, 1)
    if rows >= _MULTIPLE:
        rows -= rows % _MULTIPLE
    return min(max(rows, 1), batch)


def overlapping(output: Operand, inputs: Sequence[Operand]) -> list[int]:
    """Return which inputs lie where an output does, by their places."""
    place = extent(output.array)
    return [i for i, item in enumerate(inputs) if meet(place, extent(item.array))]


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


def numbers_of(operands: Sequence[Operand]) -> list[int]:
    """Return what a kernel sees of arrays that it can work on, one after the other."""
    return [number for item in operands for number in item.seen or ()]
