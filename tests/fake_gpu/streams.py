"""Streams and events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from fake_gpu.capture import Capture, Graph
from fake_gpu.errors import CUDARuntimeError
from fake_gpu.machine import Device, machine
from fake_gpu.order import Place
from fake_gpu.pool import Block
from fake_gpu.work import Operation


class Queue:
    """A stream of a device.

    Args:
        device:  the device.
        ptr:     pointer of the stream; 0 is the legacy default stream.
        waits:   whether it synchronizes with the default stream.

    Attributes:
        seconds: simulated duration of all enqueued kernels.
    """

    def __init__(self, device: Device, ptr: int, waits: bool = True) -> None:
        self.device = device
        self.ptr = ptr
        self.waits = waits
        # Default streams of different devices have the same pointer.
        self.lane = ptr or -1 - device.number
        self.tail: list[Operation] = []
        self.capture: Capture | None = None
        self.seconds = 0.0
        self._failures = device.failures
        device.queues[ptr] = self

    def frontier(self) -> list[Operation]:
        """Return the operations that precede the next one."""
        if self.capture:
            return self.tail
        if self.ptr == 0:
            others = [queue for queue in self.device.queues.values() if queue.waits]
            for queue in others:
                if queue.capture:
                    queue.capture.refuse("cudaErrorStreamCaptureImplicit")
            return [operation for queue in others for operation in queue.tail]
        return self.tail + (default_queue(self.device).tail if self.waits else [])

    def enqueue(
        self,
        label: str,
        run: Callable[[Operation], None],
        reads: Sequence[Place] = (),
        writes: Sequence[Place] = (),
        uses: Sequence[Block] = (),
        *,
        on_host: bool = False,
    ) -> Operation:
        """Enqueue an operation and return it.

        Args:
            label:  description for reports.
            run:    runs the operation while the device's memory is open.
            reads:  memory that it reads.
            writes: memory that it writes.
            uses:   blocks whose reads and writes it reports while it runs.
            on_host: whether the host runs it, without access to the device's memory.

        Raises:
            CUDARuntimeError: the device has failed since the stream was created.
        """
        self.check()
        opened = nullcontext if on_host else self.device.pool.region.open
        places, before = (list(reads), list(writes)), list(self.frontier())
        operation = Operation(label, run, opened, self.lane, *places, before, list(uses))
        self.tail = [operation]
        if self.capture:
            self.capture.add(operation)
        else:
            self.device.machine.work.add(operation)
        return operation

    def check(self) -> None:
        """Raise if the device has failed since the stream was created.

        Raises:
            CUDARuntimeError: it has failed.
        """
        self.device.check()
        if self.device.failures != self._failures:
            raise CUDARuntimeError("cudaErrorContextIsDestroyed")

    def wait_for(self, event: Event) -> None:
        """Order later operations after an event."""
        self.check()
        if event.capture and not self.capture:
            event.capture.join(self)
        elif self.capture and event.capture is not self.capture and event.operations:
            self.capture.refuse("cudaErrorStreamCaptureIsolation")
        self.tail = list(dict.fromkeys([*self.tail, *event.operations]))

    def synchronize(self) -> None:
        """Wait for all operations in the stream."""
        self.check()
        if self.capture:
            self.capture.refuse("cudaErrorStreamCaptureUnsupported")
        machine().work.wait(self.tail)


def default_queue(device: Device) -> Queue:
    """Return the legacy default stream of a device."""
    return device.queues.get(0) or Queue(device, 0)


def current_queue() -> Queue:
    """Return the current stream of the current device."""
    here = machine()
    stack = here.current.streams.get(here.current.device)
    return stack[-1] if stack else default_queue(here.device)


def synchronize(device: Device) -> None:
    """Wait for all operations of a device."""
    device.check()
    for queue in device.queues.values():
        if queue.capture:
            queue.capture.refuse("cudaErrorStreamCaptureUnsupported")
    device.machine.work.wait(op for queue in device.queues.values() for op in queue.tail)


class Event:
    """A point in the work of a stream: `cupy.cuda.Event`."""

    def __init__(
        self, block: bool = False, disable_timing: bool = False, interprocess: bool = False
    ) -> None:
        self.ptr = machine().handle()
        self.operations: list[Operation] = []
        self.capture: Capture | None = None
        self.seconds: float | None = None
        self._is_timed = not disable_timing

    @property
    def done(self) -> bool:
        """Whether the operations before the event are done."""
        self._check()
        return all(operation.done for operation in self.operations)

    def record(self, stream: Stream | None = None) -> None:
        """Record the event in a stream; by default in the current one."""
        queue = stream.queue if stream else current_queue()
        self.operations, self.capture = list(queue.frontier()), queue.capture
        self.seconds = queue.seconds if self._is_timed else None

    def synchronize(self) -> None:
        """Wait for the operations before the event."""
        self._check()
        machine().work.wait(self.operations)

    def _check(self) -> None:
        if self.capture:
            self.capture.refuse("cudaErrorCapturedEvent")


def get_elapsed_time(start: Event, end: Event) -> float:
    """Return the milliseconds between events of a stream: `cupy.cuda.get_elapsed_time`.

    Raises:
        CUDARuntimeError: an event is not recorded or not done.
    """
    if start.seconds is None or end.seconds is None:
        raise CUDARuntimeError("cudaErrorInvalidResourceHandle", "an event without a time")
    if not (start.done and end.done):
        raise CUDARuntimeError("cudaErrorNotReady", "the work before an event is not done")
    return 1e3 * (end.seconds - start.seconds)


class Stream:
    """A stream: `cupy.cuda.Stream`."""

    null: Stream

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: Any = 0
    ) -> None:
        self._queue: Queue | None = None
        if ptds:
            raise NotImplementedError("the fake does not support per-thread default streams")
        if not null:
            here = machine()
            self._queue = Queue(here.device, here.handle(), not non_blocking)

    @property
    def queue(self) -> Queue:
        """The queue of the stream; the null stream is that of the current device."""
        return self._queue or default_queue(machine().device)

    @property
    def ptr(self) -> int:
        """The stream's pointer."""
        return self._queue.ptr if self._queue else 0

    @property
    def device_id(self) -> int:
        """Index of the stream's device; -1 for the null stream."""
        return self._queue.device.number if self._queue else -1

    @property
    def done(self) -> bool:
        """Whether all operations in the stream are done."""
        return all(operation.done for operation in self.queue.tail)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.ptr == other.ptr

    def __hash__(self) -> int:
        return self.ptr

    def __enter__(self) -> Stream:
        here = machine()
        device = here.current.device
        if self._queue and self._queue.device.number != device:
            raise RuntimeError(
                f"The device that the stream is created on ({self.device_id}) does not match with "
                f"the current device ({device})"
            )
        here.current.streams.setdefault(device, []).append(self.queue)
        self._entered = device
        return self

    def __exit__(self, *error: object) -> None:
        machine().current.streams[self._entered].pop()

    def synchronize(self) -> None:
        """Wait for all operations in the stream."""
        self.queue.synchronize()

    def record(self, event: Event | None = None) -> Event:
        """Record an event, by default a new one; return it."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Order later operations of the stream after an event."""
        self.queue.wait_for(event)

    @classmethod
    def from_external(cls, foreign: Any) -> Stream:
        """Return the stream of an object with CUDA's stream protocol."""
        _, pointer = foreign.__cuda_stream__()
        return ExternalStream(pointer)

    def begin_capture(self, mode: str | None = None) -> None:
        """Begin a capture."""
        if self.ptr == 0:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        if self.queue.capture:
            raise CUDARuntimeError("cudaErrorIllegalState")
        Capture(mode or "relaxed").join(self.queue)

    def end_capture(self) -> Graph:
        """End the capture and return its graph."""
        if not self.queue.capture:
            raise CUDARuntimeError("cudaErrorIllegalState")
        return self.queue.capture.end(self.queue)

    def is_capturing(self) -> bool:
        """Return whether the stream is capturing."""
        return self.queue.capture is not None


Stream.null = Stream(null=True)


class ExternalStream(Stream):
    """An existing stream, by pointer."""

    def __init__(self, ptr: int, device_id: int = -1) -> None:
        super().__init__(null=True)
        here = machine()
        device = here.device if device_id < 0 else here.of_number(device_id)
        if ptr not in device.queues and ptr:
            raise CUDARuntimeError("cudaErrorInvalidValue", f"{ptr:#x} is not a stream")
        self._queue = device.queues[ptr] if ptr else None


def get_current_stream(device_id: int = -1) -> Stream:
    """Return the current stream of a device; by default of the current one."""
    here = machine()
    device = here.current.device if device_id < 0 else device_id
    stack = here.current.streams.get(device)
    if not stack or stack[-1].ptr == 0:
        return Stream.null
    return ExternalStream(stack[-1].ptr, device)
