"""Timers of calls on a CPU or a GPU."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Mapping
from time import perf_counter
from typing import Any, Protocol, TypeVar

from gridgen.functions.types import Array
from gridgen.runtime.arrays.streams import captured

Call = Callable[[], object]
#: Calls of a graph, enough to make its own launch time negligible.
CAPTURED = 16
_Key = TypeVar("_Key", bound=Hashable)

# Seconds of a sample, and its most calls: enough for the timer's resolution.
_SAMPLE, _MAX_CALLS = 0.5e-3, 512
# Samples of each candidate; candidates alternate, and the minimum counts.
_SAMPLES = 7


class Clock(Protocol):
    """Times calls on a device."""

    def placed(self, array: Array) -> Array:
        """Return an array with the same content on the device."""

    def free_bytes(self) -> float:
        """Return the free memory [bytes]."""

    def repeated(self, call: Call) -> tuple[Call, int]:
        """Return a call that repeats ``call``, and the count, to reduce host overhead."""

    def elapsed(self, call: Call, calls: int) -> float:
        """Return the seconds of several calls in sequence."""


class HostClock:
    """The clock of the host."""

    def placed(self, array: Array) -> Array:
        """Return the array itself."""
        return array

    def free_bytes(self) -> float:
        """Return the free memory [bytes]; infinity if the system does not report it."""
        try:
            return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
        except (AttributeError, OSError, ValueError):
            return math.inf

    def repeated(self, call: Call) -> tuple[Call, int]:
        """Return the call itself: host time is the measured time."""
        return call, 1

    def elapsed(self, call: Call, calls: int) -> float:
        """Return the seconds of several calls."""
        start = perf_counter()
        for _ in range(calls):
            call()
        return perf_counter() - start


class GpuClock:
    """Timer with events on a stream of the current GPU."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._stream = cupy.cuda.Stream(non_blocking=True)

    def placed(self, array: Array) -> Array:
        """Return a copy on the GPU."""
        return self._cupy.asarray(array)

    def free_bytes(self) -> float:
        """Return the free memory [bytes]."""
        return float(self._cupy.cuda.runtime.memGetInfo()[0])

    def repeated(self, call: Call) -> tuple[Call, int]:
        """Return the launch of a CUDA graph of several calls, if a call is short."""
        self._cupy.cuda.get_current_stream().synchronize()  # it allocates the arrays
        self.elapsed(call, 1)  # the first one loads kernels
        if self.elapsed(call, 1) > _SAMPLE:
            return call, 1
        with self._stream:
            graph = captured(self._stream, [call] * CAPTURED)
        return (call, 1) if graph is None else (graph.launch, CAPTURED)

    def elapsed(self, call: Call, calls: int) -> float:
        """Return the seconds between two events, before and after several calls."""
        cuda = self._cupy.cuda
        first, last = cuda.Event(), cuda.Event()
        with self._stream:
            first.record()
            for _ in range(calls):
                call()
            last.record()
        last.synchronize()
        return 1e-3 * float(cuda.get_elapsed_time(first, last))


def least(clock: Clock, calls: Mapping[_Key, Call]) -> dict[_Key, float]:
    """Return the minimum time of each call, from samples in alternation."""
    repeated = {way: clock.repeated(call) for way, call in calls.items()}
    counts = {way: _count(clock, call) for way, (call, _) in repeated.items()}
    found = dict.fromkeys(calls, math.inf)
    for _ in range(_SAMPLES):
        for way, (call, times) in repeated.items():
            took = clock.elapsed(call, counts[way]) / (counts[way] * times)
            # A timer may not advance between two events.
            found[way] = min(found[way], max(took, 1e-9))
    return found


def _count(clock: Clock, call: Call) -> int:
    """Return the number of calls of a sample; the first call is not counted."""
    clock.elapsed(call, 1)
    count = 1
    while count < _MAX_CALLS and clock.elapsed(call, count) < _SAMPLE:
        count *= 2
    return count
