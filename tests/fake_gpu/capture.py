"""Stream capture and graphs."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, NoReturn

from fake_gpu.errors import CUDARuntimeError, MisuseError
from fake_gpu.machine import machine
from fake_gpu.work import Operation, with_all_before

if TYPE_CHECKING:
    from fake_gpu.streams import Queue, Stream


class Capture:
    """A stream capture in progress: the operations of all streams that take part.

    Args:
        mode: ``relaxed``, CuPy's default; or ``global``, PyTorch's, which refuses allocations.
    """

    def __init__(self, mode: str = "relaxed") -> None:
        self.mode = mode
        self.seconds = 0.0
        self._nodes: list[Operation] = []
        self._tails: dict[Queue, list[Operation]] = {}
        self._is_valid = True
        self._has_ended = False

    def add(self, operation: Operation) -> None:
        """Record an operation."""
        self._nodes.append(operation)

    def join(self, queue: Queue) -> None:
        """Add a stream; the first one began the capture."""
        if self._has_ended:
            raise CUDARuntimeError("cudaErrorCapturedEvent")
        self._tails[queue] = queue.tail
        queue.capture, queue.tail = self, []

    def invalidate(self) -> None:
        """Mark the capture as invalid."""
        self._is_valid = False

    def refuse(self, name: str) -> NoReturn:
        """Invalidate the capture and raise an error for an operation that cannot be captured."""
        self.invalidate()
        raise CUDARuntimeError(name)

    def abandon(self) -> None:
        """End the capture without a graph, as a test that fails inside one must."""
        self._has_ended = True
        for member, before in self._tails.items():
            member.capture, member.tail = None, before

    def end(self, queue: Queue) -> Graph:
        """End the capture in the stream that began it; return the graph.

        Raises:
            CUDARuntimeError: the capture is invalid, or a stream is not joined.
        """
        origin = next(iter(self._tails))
        joined = with_all_before(queue.tail)
        self.abandon()
        if not self._is_valid or queue is not origin:
            raise CUDARuntimeError("cudaErrorStreamCaptureInvalidated")
        if any(node not in joined for node in self._nodes):
            raise CUDARuntimeError("cudaErrorStreamCaptureUnjoined")
        return Graph(self._nodes, origin.lane, self.seconds)


class Graph:
    """Captured work: `cupy.cuda.Graph`.

    Args:
        nodes: operations in topological order.
        lane:  lane of the stream that began the capture.
        seconds: duration of its launches, for events.
    """

    def __init__(self, nodes: list[Operation], lane: int, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._nodes = nodes
        self._lane = lane
        self._blocks = {block: block.times for node in nodes for block in node.blocks()}

    def launch(self, stream: Stream | None = None) -> None:
        """Launch the graph in a stream, by default the current one.

        Raises:
            MisuseError: memory of the graph has been freed since the capture.
        """
        from fake_gpu.streams import current_queue

        for block, times in self._blocks.items():
            if not block.owner or block.times != times:
                raise MisuseError(
                    f"a graph uses {block}, which was another array during the capture"
                )
        queue = stream.queue if stream else current_queue()
        (queue.capture or queue).seconds += self._seconds
        first = list(queue.frontier())
        # Branches in other streams run concurrently with the first again.
        lanes = {self._lane: queue.lane}
        done: dict[Operation, Operation] = {}
        for node in self._nodes:
            done[node] = operation = copy(node)
            operation.lane = lanes.setdefault(node.lane, machine().handle())
            operation.reads, operation.writes = list(node.reads), list(node.writes)
            operation.before = [done[other] for other in node.before] or first
            if queue.capture:
                queue.capture.add(operation)
            else:
                machine().work.add(operation)
        if done:
            followed = {other for node in self._nodes for other in node.before}
            queue.tail = [done[node] for node in self._nodes if node not in followed]
