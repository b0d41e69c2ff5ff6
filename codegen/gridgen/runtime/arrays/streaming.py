"""NumPy arrays on a GPU: copied there, computed and copied back in chunks.

Chunks alternate between lanes. Each lane is a stream with memory on the GPU and pinned memory on
the host for asynchronous copies. One lane computes while another one copies, and the host fills and
empties pinned memory meanwhile. Arrays in pinned memory are copied directly. The memory does not
grow with the batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Any

from gridgen.backends.cuda.failures import failures
from gridgen.errors import DeviceError
from gridgen.functions.types import Array
from gridgen.runtime.arrays.layout import address
from gridgen.runtime.arrays.libraries import on_gpu, require_cupy
from gridgen.runtime.arrays.staging import Batch, Operand, Run, in_parts, part_sizes, run_in_place

#: Bytes of the copies of a chunk, which take longer than their launches.
PART_BYTES = 1 << 24
#: Number of chunks in progress.
LANES = 2

_PINNED = 1  # cudaMemoryTypeHost
# Idle streams, by device and its number of failures. List operations are atomic across threads.
_IDLE: dict[tuple[int, int], list[Any]] = {}


def run_streamed(run: Run, batch: Batch) -> None:
    """Compute a batch with host arrays on the current GPU; return when it is complete.

    Raises:
        ShapeError:  a result overlaps an argument so that the copy would be too large.
        DeviceError: CuPy or a GPU is not available; a stream is being captured.
    """
    cupy = require_cupy()
    now = cupy.cuda.get_current_stream()
    if now.is_capturing():
        raise DeviceError(
            "a stream is being captured: a call with NumPy arrays synchronizes, which a graph "
            "does not support; give arrays on the GPU"
        )
    inputs, outputs = _as_copied(batch.inputs), _as_copied(batch.outputs)
    batch = batch._replace(inputs=inputs, outputs=outputs)
    sizes = part_sizes(batch, batch.part_bytes or PART_BYTES)
    device = cupy.cuda.runtime.getDevice()
    idle = _IDLE.setdefault((device, failures(device)), [])
    count = min(LANES, -(-batch.states // sizes.states))
    lanes = [_Lane(cupy, idle.pop() if idle else None) for _ in range(count)]
    order, streams = cycle(lanes), [lane.stream for lane in lanes]
    wait = type(streams[0]).synchronize

    def run_part(begin: int, end: int) -> None:
        lane = next(order)
        lane.finish()
        lane.begin(run, batch, slice(begin, end))

    try:
        arguments_are_there = now.record()
        for lane in lanes:
            lane.stream.wait_event(arguments_are_there)
        in_parts(run_part, batch.states, sizes, partial(_clear, lanes))
        _clear(lanes)
    except BaseException:
        # Also after an exception: no copy may use freed memory or the caller's memory.
        # One call of CuPy: Python handles no signal before it returns.
        try:
            deque(map(wait, streams), 0)
        except RuntimeError:  # the device has failed
            pass
        raise
    idle.extend(streams)


def _as_copied(items: Sequence[Operand]) -> list[Operand]:
    """Return arrays; those of the host are marked as copied."""
    return [item if on_gpu(item.array) else item._replace(seen=None) for item in items]


def _clear(lanes: Sequence[_Lane]) -> None:
    """Finish pending work, and free its memory."""
    for lane in lanes:
        lane.finish()
        lane.buffers.clear()


class _Lane:
    """A stream, and the chunk that it computes.

    Attributes:
        stream: the stream.
        buffers:  memory for the chunk, by index of its array among arguments and results.
    """

    def __init__(self, cupy: Any, stream: Any) -> None:
        self.stream = stream or cupy.cuda.Stream(non_blocking=True)
        self.buffers: dict[int, _Buffer] = {}
        self._cupy = cupy
        self._arriving: list[tuple[Array, Array]] = []

    def begin(self, run: Run, batch: Batch, part: slice) -> None:
        """Enqueue the copies and the computation of some states."""
        names, inputs, outputs, *_ = batch
        with self.stream:
            operands = [
                self._operand(i, item, part, is_input=i < len(inputs))
                for i, item in enumerate((*inputs, *outputs))
            ]
            given, found = operands[: len(inputs)], operands[len(inputs) :]
            run_in_place(run, Batch(names, given, found, part.stop - part.start))
            for i, item in enumerate(outputs, len(inputs)):
                if i in self.buffers:
                    buffer, target = self.buffers[i], item.part(part.start, part.stop)
                    copy = buffer.fetch(operands[i].array, target, self.stream)
                    if buffer.is_pinned:
                        self._arriving.append((copy, target))

    def finish(self) -> None:
        """Wait for pending work, and copy the results to the caller's arrays."""
        self.stream.synchronize()
        for found, target in self._arriving:
            target[...] = found
        self._arriving.clear()

    def _operand(self, i: int, item: Operand, part: slice, *, is_input: bool) -> Operand:
        """Return some states of an array on the GPU."""
        there = item.part(part.start, part.stop)
        if on_gpu(there):
            found = item.like(there)
            return found._replace(seen=None) if item.copied else found
        if i not in self.buffers:
            self.buffers[i] = _Buffer(self._cupy, item, there)
        buffer = self.buffers[i]
        return item.like(
            buffer.bring(there, item.adjust, self.stream) if is_input else buffer.of(there)
        )


class _Buffer:
    """Memory of a lane for the chunks of a host array.

    Args:
        cupy: the library, whose current stream is the lane's.
        item: the array.
        part: the largest of its chunks.
    """

    def __init__(self, cupy: Any, item: Operand, part: Array) -> None:
        import cupyx

        self._device = cupy.empty(part.shape, part.dtype)
        # Adjusted arrays are copies, not the caller's.
        is_sent = item.adjust is None and _is_pinned(cupy, item.array)
        self._pinned = None if is_sent else cupyx.empty_pinned(part.shape, part.dtype)
        self.is_pinned = not is_sent
        self._has_batch = item.has_batch

    def of(self, part: Array) -> Array:
        """Return the memory on the GPU for a chunk."""
        return self._device[: len(part)] if self._has_batch else self._device

    def bring(self, part: Array, adjust: Callable[[Array], None] | None, stream: Any) -> Array:
        """Copy a chunk to the GPU, and return its GPU array."""
        target, source = self.of(part), part
        if self._pinned is not None:
            source = self._pinned_for(part)
            source[...] = part
            if adjust is not None:
                adjust(source)
        target.data.copy_from_host_async(address(source), source.nbytes, stream)
        return target

    def fetch(self, source: Array, part: Array, stream: Any) -> Array:
        """Copy a chunk from the GPU, and return its host array."""
        target = part if self._pinned is None else self._pinned_for(part)
        source.data.copy_to_host_async(address(target), target.nbytes, stream)
        return target

    def _pinned_for(self, part: Array) -> Array:
        assert self._pinned is not None
        return self._pinned[: len(part)] if self._has_batch else self._pinned


def _is_pinned(cupy: Any, array: Array) -> bool:
    """Return whether an array of the host is contiguous in pinned memory."""
    if not array.flags.c_contiguous or not array.nbytes:
        return False
    attributes = cupy.cuda.runtime.pointerGetAttributes
    ends = address(array), address(array) + array.nbytes - 1
    return all(attributes(place).type == _PINNED for place in ends)
