"""Work that is kept as a graph instead of being done."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, NoReturn

from fake_gpu.errors import CUDARuntimeError, MisuseError
from fake_gpu.machine import machine
from fake_gpu.work import Operation, with_all_before

if TYPE_CHECKING:
    from fake_gpu.streams import Queue, Stream


class Capture:
    """What streams would have done since a capture began in one of them."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._nodes: list[Operation] = []
        self._tails: dict[Queue, list[Operation]] = {}
        self._is_valid = True
        self._has_ended = False

    def add(self, operation: Operation) -> None:
        """Keep an operation."""
        self._nodes.append(operation)

    def join(self, queue: Queue) -> None:
        """Let another stream take part; the first one began the capture."""
        if self._has_ended:
            raise CUDARuntimeError("cudaErrorCapturedEvent")
        self._tails[queue] = queue.tail
        queue.capture, queue.tail = self, []

    def invalidate(self) -> None:
        """Let the capture end in an error."""
        self._is_valid = False

    def refuse(self, name: str) -> NoReturn:
        """Raise for what cannot be captured, which makes the capture invalid."""
        self.invalidate()
        raise CUDARuntimeError(name)

    def end(self, queue: Queue) -> Graph:
        """Return the graph, in the stream that began the capture.

        Raises:
            CUDARuntimeError: something went wrong since it began, or a stream did not come back.
        """
        self._has_ended = True
        tail = queue.tail
        origin = next(iter(self._tails))
        joined = with_all_before(tail)
        for member, before in self._tails.items():
            member.capture, member.tail = None, before
        if not self._is_valid or queue is not origin:
            raise CUDARuntimeError("cudaErrorStreamCaptureInvalidated")
        if any(node not in joined for node in self._nodes):
            raise CUDARuntimeError("cudaErrorStreamCaptureUnjoined")
        return Graph(self._nodes, origin.lane, self.seconds)


class Graph:
    """Captured work: `cupy.cuda.Graph`.

    Args:
        nodes: the operations, each after those that it comes after.
        lane:  of the stream that the capture began in.
        seconds: what its launches take, by the clock of events.
    """

    def __init__(self, nodes: list[Operation], lane: int, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._nodes = nodes
        self._lane = lane
        self._blocks = {block: block.times for node in nodes for block in node.blocks()}

    def launch(self, stream: Stream | None = None) -> None:
        """Do the work, in a stream; by default in the current one.

        Raises:
            MisuseError: it uses memory that has been freed since it was captured.
        """
        from fake_gpu.streams import current_queue

        for block, times in self._blocks.items():
            if not block.owner or block.times != times:
                raise MisuseError(
                    f"a graph uses {block}, which was something else's when it was captured"
                )
        queue = stream.queue if stream else current_queue()
        (queue.capture or queue).seconds += self._seconds
        first = list(queue.frontier())
        # What other streams did beside the first is beside it again.
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
