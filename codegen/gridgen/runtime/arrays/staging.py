"""Arrays that a kernel cannot use directly: copies, one chunk of the batch at a time.

A kernel accesses arrays with nearly any strides. The exceptions are unaligned elements, matrices
with uneven spacing, quaternions to normalize, and results that overlap an argument. The memory for
copies does not grow with the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from gridgen.errors import ShapeError
from gridgen.functions.types import Array
from gridgen.runtime.arrays.layout import extent, meet, seen_in_place
from gridgen.runtime.arrays.libraries import check_no_capture, namespace, on_gpu

#: Bytes of copies per chunk: they stay in the cache between write and read.
PART_BYTES = 1 << 22
#: The same for rollouts, whose states have all their steps.
ROLLOUT_PART_BYTES = 1 << 27
#: The same on a GPU, where each chunk needs launches, and small batches are slow.
GPU_PART_BYTES = 1 << 30
#: Bytes of copies if the batch cannot be divided.
MAX_BYTES = 1 << 26
# Chunks are multiples of SIMD packs and cache lines.
_MULTIPLE = 64


class Operand(NamedTuple):
    """An array of a call."""

    #: (B, ...), or (...) for one state or a shared argument; in rollouts also (B, T, ...) or (T,
    #: ...).
    array: Array
    axes: int  #: number of axes of one state, including time.
    #: the kernel's address and strides, see ``seen_in_place``; ``None`` for a copy.
    seen: tuple[int, ...] | None
    adjust: Callable[[Array], None] | None = None  #: changes the copy before the kernel reads it.
    time: int | None = None  #: as of ``seen_in_place``.
    is_read: bool = True  #: whether a kernel reads it, or it replaces an array that is not given.

    @property
    def copied(self) -> bool:
        """Whether the kernel gets a copy."""
        return self.seen is None

    @property
    def has_batch(self) -> bool:
        """Whether the array has an axis of states."""
        return bool(self.array.ndim > self.axes)

    def part(self, begin: int, end: int) -> Array:
        """Return the part of the array for some states."""
        return self.array[begin:end] if self.has_batch else self.array

    def bytes_per_state(self, batch: int) -> int:
        """Return the bytes to copy one state."""
        return -(-self.array.nbytes // batch) if self.copied else 0

    def like(self, array: Array) -> Operand:
        """Return an array with the same axes."""
        seen = seen_in_place(array, self.axes, self.time)
        return self._replace(array=array, seen=seen, adjust=None)


#: Computes a number of states of arrays that a kernel can use.
Run: TypeAlias = Callable[[list[Operand], int], None]


def operand(array: Array, axes: int, time: int | None = None) -> Operand:
    """Return an operand with its address and strides for a kernel."""
    return Operand(array, axes, seen_in_place(array, axes, time), None, time)


def apart(outputs: Sequence[Operand], inputs: Sequence[Operand]) -> list[Operand]:
    """Return the caller's arrays for results; those that overlap an input are copied."""
    extents = [extent(item.array) for item in inputs if item.is_read]
    places = [extent(item.array) for item in outputs]
    return [
        item._replace(seen=None) if any(meet(place, other) for other in extents) else item
        for item, place in zip(outputs, places, strict=True)
    ]


class Batch(NamedTuple):
    """States to compute."""

    names: Sequence[str]  #: names of the inputs, for errors.
    inputs: Sequence[Operand]  #: the arguments.
    outputs: Sequence[Operand]  #: arrays for the results.
    states: int  #: number of states.
    part_bytes: int | None = None  #: bytes of the copies of a chunk, if not the usual ones.


def run_in_place(run: Run, batch: Batch) -> None:
    """Compute arrays of the kernel's device, with copies of those that the kernel cannot use.

    Raises:
        ShapeError:  a result overlaps an argument so that the copy would be too large.
        DeviceError: a copy is needed, and a stream is being captured.
    """
    operands = [*batch.inputs, *batch.outputs]
    if not any(item.copied for item in operands):
        run(operands, batch.states)
        return
    q = batch.inputs[0].array
    check_no_capture(
        q,
        "an array takes a copy, which a graph would not keep; give contiguous arrays, and results "
        "that overlap no argument",
    )
    sizes = part_sizes(batch, GPU_PART_BYTES if on_gpu(q) else batch.part_bytes or PART_BYTES)
    in_parts(partial(_run_part, run, batch), batch.states, sizes)


class PartSizes(NamedTuple):
    """The division of a batch into chunks."""

    states: int  #: states of a chunk.
    least: int  #: minimum when memory is short.


def part_sizes(batch: Batch, part_bytes: int) -> PartSizes:
    """Return the states of a chunk, which is copied, computed and written before the next.

    Raises:
        ShapeError: a result overlaps an argument so that the copy would be too large.
    """
    names, inputs, outputs, states, _ = batch
    per_state = sum(item.bytes_per_state(states) for item in (*inputs, *outputs))
    most = max(MAX_BYTES, part_bytes)
    for output in outputs:
        for i in overlapping(output, inputs):
            if _is_state_by_state(output, inputs[i]):
                continue
            if per_state * states > most:
                raise ShapeError(
                    f"out overlaps {names[i]}, state i the memory of another state, and is too "
                    f"large for a copy ({per_state * states >> 20} MB, the limit is {most >> 20} "
                    f"MB): give an array of its own, or {names[i]}'s very memory"
                )
            return PartSizes(states, states)
    return PartSizes(_rows(per_state, states, part_bytes), 1)


def in_parts(
    run: Callable[[int, int], object],
    batch: int,
    sizes: PartSizes,
    free_memory: Callable[[], object] = lambda: None,
) -> None:
    """Compute a batch in chunks, in smaller ones if memory is short.

    Args:
        run:       computes states [begin, end); if it raises ``MemoryError``, arguments and results
                   have not changed.
        batch:     number of states.
        sizes:     sizes of chunks.
        free_memory: frees memory before a smaller chunk is tried.

    Raises:
        MemoryError: there is not enough memory for the smallest chunk.
    """
    begin, rows = 0, sizes.states
    while begin < batch:
        end = min(begin + rows, batch)
        try:
            run(begin, end)
        except MemoryError:
            if end - begin <= sizes.least:
                raise
            free_memory()
            rows = max((end - begin) // 2, sizes.least)
        else:
            begin = end


def _run_part(run: Run, batch: Batch, begin: int, end: int) -> None:
    """Compute states [begin, end); the copies are freed before the next chunk."""
    inputs, outputs = batch.inputs, batch.outputs
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
    """Return the kernel's form of a part of an input."""
    if not item.copied:
        return part
    copy = xp.array(part, order="C")
    if item.adjust is not None:
        item.adjust(copy)
    return copy


def _rows(per_state: int, batch: int, part_bytes: int) -> int:
    """Return the number of states of a chunk."""
    rows = part_bytes // max(per_state, 1)
    if rows >= _MULTIPLE:
        rows -= rows % _MULTIPLE
    return min(max(rows, 1), batch)


def overlapping(output: Operand, inputs: Sequence[Operand]) -> list[int]:
    """Return the indices of the inputs that overlap an output."""
    place = extent(output.array)
    return [i for i, item in enumerate(inputs) if item.is_read and meet(place, extent(item.array))]


def _is_state_by_state(output: Operand, given: Operand) -> bool:
    """Return whether no state of an output overlaps another state of an input.

    This holds if both have the same step between states, and one state of both together fits into
    a step: the same array, or columns of one table.
    """
    if not (output.has_batch and given.has_batch):
        return False
    step = output.array.strides[0]
    begins, ends = zip(extent(output.array[0]), extent(given.array[0]), strict=True)
    return bool(step == given.array.strides[0] and max(ends) - min(begins) <= abs(step))


def numbers_of(operands: Iterable[Operand]) -> list[int]:
    """Return addresses and strides of arrays for a kernel, as one list."""
    return [number for item in operands for number in item.seen or ()]
