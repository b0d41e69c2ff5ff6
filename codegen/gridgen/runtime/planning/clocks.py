"""What calls take on a CPU or a GPU."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Mapping
from time import perf_counter
from typing import Any, Protocol, TypeVar

from gridgen.functions.types import Array
from gridgen.runtime.arrays.streams import captured

Call = Callable[[], object]
#: Calls of a graph, so many that its own launch does not show.
CAPTURED = 16
_Key = TypeVar("_Key", bound=Hashable)

# Seconds of a sample, and the most calls of one: enough for the clock not to show.
_SAMPLE, _MOST_CALLS = 0.5e-3, 512
# Samples of each way; the ways take turns, and the least counts.
_SAMPLES = 7


class Clock(Protocol):
    """Times calls on a device."""

    def placed(self, array: Array) -> Array:
        """Return an array with the same content on the device."""

    def free_bytes(self) -> float:
        """Return the memory that is free."""

    def repeated(self, call: Call) -> tuple[Call, int]:
        """Return what makes a call several times, and how often: the host's time counts least."""

    def elapsed(self, call: Call, calls: int) -> float:
        """Return the seconds of several calls, one after the other."""


class HostClock:
    """The clock of the host."""

    def placed(self, array: Array) -> Array:
        """Return the array itself."""
        return array

    def free_bytes(self) -> float:
        """Return the memory that is free; all of it where the system does not tell."""
        try:
            return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
        except (AttributeError, OSError, ValueError):
            return math.inf

    def repeated(self, call: Call) -> tuple[Call, int]:
        """Return the call itself: the host's time is what is measured."""
        return call, 1

    def elapsed(self, call: Call, calls: int) -> float:
        """Return the seconds of several calls."""
        start = perf_counter()
        for _ in range(calls):
            call()
        return perf_counter() - start


class GpuClock:
    """Events on a stream of the current GPU.

    Args:
        cupy: drives it.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._stream = cupy.cuda.Stream(non_blocking=True)

    def placed(self, array: Array) -> Array:
        """Return a copy on the GPU."""
        return self._cupy.asarray(array)

    def free_bytes(self) -> float:
        """Return the memory that is free."""
        return float(self._cupy.cuda.runtime.memGetInfo()[0])

    def repeated(self, call: Call) -> tuple[Call, int]:
        """Return the launch of a CUDA graph of several calls, where one takes calls so short."""
        self._cupy.cuda.get_current_stream().synchronize()  # which has made the arrays
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
    """Return the least time of each call, of samples in which they take turns."""
    repeated = {way: clock.repeated(call) for way, call in calls.items()}
    counts = {way: _count(clock, call) for way, (call, _) in repeated.items()}
    found = dict.fromkeys(calls, math.inf)
    for _ in range(_SAMPLES):
        for way, (call, times) in repeated.items():
            took = clock.elapsed(call, counts[way]) / (counts[way] * times)
            # A clock may not have moved between two events.
            found[way] = min(found[way], max(took, 1e-9))
    return found


def _count(clock: Clock, call: Call) -> int:
    """Return how many calls make a sample; the first one is not counted."""
    clock.elapsed(call, 1)
    count = 1
    while count < _MOST_CALLS and clock.elapsed(call, count) < _SAMPLE:
        count *= 2
    return count
