"""Operations of the devices, which run lazily."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fake_gpu.errors import MisuseError
from fake_gpu.order import Clock, Place, disorder, joined

if TYPE_CHECKING:
    from fake_gpu.pool import Block

_HERE = str(Path(__file__).parent)

#: Selects the next of the operations that are ready, or none. The second argument contains the
#: operations that the host waits for.
Schedule = Callable[["list[Operation]", "Collection[Operation]"], "Operation | None"]


@dataclass(eq=False)
class Operation:
    """An operation of a device: a kernel or a copy.

    Attributes:
        label:  description.
        run:    runs it while the device's memory is open; may add reads and writes.
        opened: context that opens the memory.
        lane:   lane of its stream.
        reads:  memory that it reads.
        writes: memory that it writes.
        before: pending operations that must run before it.
        uses:   blocks that it may access, if reads and writes are known only after it has run.
        origin: file and line that enqueued it.
        number: number of the operation, from 1.
        clock:  vector clock.
    """

    label: str
    run: Callable[[Operation], None]
    opened: Callable[[], AbstractContextManager[None]]
    lane: int
    reads: list[Place]
    writes: list[Place]
    before: list[Operation]
    uses: list[Block] = field(default_factory=list)
    origin: str = field(default_factory=lambda: caller())
    number: int = 0
    clock: Clock = field(default_factory=dict)
    done: bool = False

    def __str__(self) -> str:
        return f"{self.label} ({self.origin}, stream {self.lane})"

    def blocks(self) -> set[Block]:
        """Return the blocks that it may access."""
        return {*self.uses, *(place.block for place in (*self.reads, *self.writes))}

    def comes_after(self, other: Operation) -> bool:
        """Return whether the operation is ordered after the other."""
        return self.clock.get(other.lane, 0) >= other.clock[other.lane]


class Work:
    """All operations, and the order in which they run.

    Args:
        schedule: selects the next operation.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.pending: list[Operation] = []
        self._known: list[Operation] = []
        self._host: Clock = {}
        self._ticks: Clock = {}
        self._problems: list[str] = []
        self._lock = threading.RLock()

    def add(self, operation: Operation) -> None:
        """Enqueue an operation; it may run immediately."""
        with self._lock:
            self._known.append(operation)
            operation.number = len(self._known)
            clock = joined([self._host, *(other.clock for other in operation.before)])
            self._ticks[operation.lane] = self._ticks.get(operation.lane, 0) + 1
            operation.clock = clock | {operation.lane: self._ticks[operation.lane]}
            operation.before = [other for other in operation.before if not other.done]
            self.pending.append(operation)
            self._advance(())

    def wait(self, operations: Iterable[Operation]) -> None:
        """Run operations until the given ones are done; order the host after them.

        Raises:
            MisuseError: an operation since the last call misused a device.
        """
        with self._lock:
            awaited = list(operations)
            needed = with_all_before(awaited)
            while not all(operation.done for operation in awaited):
                self._advance(needed)
            self._host = joined([self._host, *(operation.clock for operation in awaited)])
            if self._problems:
                problem = self._problems[0]
                self._problems.clear()
                raise MisuseError(problem)

    def drop(self, operations: Collection[Operation]) -> None:
        """Discard pending operations."""
        with self._lock:
            for operation in operations:
                operation.done, operation.before = True, []
                operation.run, operation.reads, operation.writes = _nothing, [], []
            self.pending = [operation for operation in self.pending if not operation.done]

    def report(self, problem: str) -> None:
        """Report a misuse at the next synchronization, as a GPU does."""
        self._problems.append(problem)

    def _advance(self, needed: Collection[Operation]) -> None:
        """Run operations until the schedule selects none, or the needed ones are done."""
        while True:
            ready = [op for op in self.pending if all(other.done for other in op.before)]
            chosen = self.schedule(ready, needed) if ready else None
            if chosen is None:
                return
            self._run(chosen)
            if needed and all(operation.done for operation in needed):
                return

    def _run(self, operation: Operation) -> None:
        self.pending.remove(operation)
        operation.done, operation.before = True, []
        try:
            with operation.opened():
                operation.run(operation)
        except MisuseError as error:
            self.report(str(error))
        if problem := disorder(operation, self._known):
            self.report(problem)
        # Release references.
        operation.run, operation.reads, operation.writes = _nothing, [], []


def caller() -> str:
    """Return file and line of the innermost call that is not in this package."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith((_HERE, "<")):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def with_all_before(operations: list[Operation]) -> set[Operation]:
    """Return pending operations and all pending operations before them."""
    found: set[Operation] = set()
    left = [operation for operation in operations if not operation.done]
    while left:
        operation = left.pop()
        if operation not in found:
            found.add(operation)
            left.extend(other for other in operation.before if not other.done)
    return found


def _nothing(operation: Operation) -> None:
    """Do nothing: replaces ``run`` after the operation has run."""
