"""Time on a GPU, and what the device can do at most."""

from __future__ import annotations

import platform
import statistics
import timeit
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib import metadata
from time import perf_counter
from typing import Any

from gridgen.runtime.arrays.streams import captured
from gridgen.runtime.planning.clocks import CAPTURED, Call

_PACKAGES = ("numpy", "sympy", "torch", "jax", "grid-rbd", "mujoco-warp", "warp-lang", "frax")
_SAMPLE_MS = 0.5  # of the device, so that the clock of its events does not show
_MAX_CALLS = 512  # of one sample
_FEWEST, _MAX = 5, 51  # samples
_BYTES = 1 << 28  # of the array whose copy tells the bandwidth: beyond every cache
_STEPS, _CHAINS = 4096, 8  # multiply-adds of a thread: enough chains to hide their latency

# Each thread computes independent sums; the comparison keeps the compiler from leaving them out.
_MULTIPLY_ADD = """
extern "C" __global__ void __launch_bounds__(256) multiply_add(T* result, T x, T y, int steps)
{
    T a[CHAINS];
    for (int k = 0; k < CHAINS; ++k) a[k] = T(threadIdx.x + k);
    for (int i = 0; i < steps; ++i)
#pragma unroll
        for (int k = 0; k < CHAINS; ++k) a[k] = a[k] * x + y;
    T total = 0;
    for (int k = 0; k < CHAINS; ++k) total += a[k];
    if (total == y) result[threadIdx.x] = total;
}
"""


class Refused(Exception):
    """Something cannot be measured here, for the reason given."""


class Clock:
    """Times what is enqueued on a stream of its own.

    Args:
        cupy:   drives the device.
        budget: seconds for each figure.
    """

    def __init__(self, cupy: Any, budget: float) -> None:
        self.cupy, self._budget = cupy, budget
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def figures(self, call: Call) -> dict[str, Any]:
        """Return what one call takes [us].

        ``us`` is the median of calls from Python one after the other, which is the host's time
        where that is longer than the device's; ``graph_us`` that of the same calls in a CUDA graph,
        the device's alone, or ``None`` where a graph does not take the call; ``host_us`` what a
        call keeps the host busy; ``resident_us`` what it takes until the results are there.
        """
        with self.stream:
            call()
            self.stream.synchronize()
            samples = self._samples(call)
            host, resident = self._host(call)
            graph = self._graph(call)
        lower, median, upper = statistics.quantiles(samples, n=4, method="inclusive")
        return {
            "us": 1e6 * median,
            "quartiles_us": [1e6 * lower, 1e6 * upper],
            "host_us": 1e6 * host,
            "resident_us": 1e6 * resident,
            "graph_us": None if graph is None else 1e6 * graph,
            "samples": len(samples),
        }

    def free_bytes(self) -> int:
        """Return the memory of the device that is free."""
        return int(self.cupy.cuda.runtime.memGetInfo()[0])

    def _samples(self, call: Call) -> list[float]:
        """Return seconds of a call, one figure for each sample of several calls."""
        calls = 1
        while calls < _MAX_CALLS and calls * self._elapsed(call, calls) < 1e-3 * _SAMPLE_MS:
            calls *= 2
        samples: list[float] = []
        begin = perf_counter()
        while len(samples) < _MAX:
            if len(samples) >= _FEWEST and perf_counter() - begin > self._budget:
                break
            samples.append(self._elapsed(call, calls))
        return samples

    def _elapsed(self, call: Call, calls: int) -> float:
        """Return the seconds of a call between two events, the mean of several."""
        first, last = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        first.record(self.stream)
        for _ in range(calls):
            call()
        last.record(self.stream)
        last.synchronize()
        return 1e-3 * self.cupy.cuda.get_elapsed_time(first, last) / calls

    def _host(self, call: Call) -> tuple[float, float]:
        """Return the seconds that a call keeps the host busy, and those until it is done."""
        busy, done = [], []
        for _ in range(_MAX):
            start = perf_counter()
            call()
            busy.append(perf_counter() - start)
            self.stream.synchronize()
            done.append(perf_counter() - start)
        return statistics.median(busy), statistics.median(done)

    def whole(self, call: Call) -> float:
        """Return what a call takes by the host's clock, copies included [us], of a few samples."""
        call()
        return 1e6 * statistics.median(timeit.repeat(call, number=1, repeat=_FEWEST))

    def _graph(self, call: Call) -> float | None:
        """Return the seconds of a call that a graph repeats, or ``None`` if it takes none."""
        if (graph := captured(self.stream, [call] * CAPTURED)) is None:
            return None
        graph.launch(self.stream)
        return statistics.median(self._samples(lambda: graph.launch(self.stream))) / CAPTURED


@contextmanager
def on_stream_of_torch(clock: Clock) -> Iterator[None]:
    """Let PyTorch enqueue on the clock's stream."""
    import torch

    with torch.cuda.stream(torch.cuda.ExternalStream(clock.stream.ptr)):
        yield


def measured_limits(clock: Clock) -> dict[str, float]:
    """Return bytes, and fused multiply-adds of either type, a second: by medians of calls."""
    cupy = clock.cupy
    source, target = (cupy.zeros(_BYTES // 4, cupy.float32) for _ in range(2))
    copy = clock.figures(lambda: cupy.copyto(target, source))
    fill = clock.figures(lambda: target.fill(1.0))
    limits = {
        "copied_bytes": 2 * _BYTES / (1e-6 * copy["us"]),
        "written_bytes": _BYTES / (1e-6 * fill["us"]),
    }
    blocks = 8 * cupy.cuda.Device().attributes["MultiProcessorCount"]
    for dtype, scalar in (("float32", "float"), ("float64", "double")):
        options = (f"-DT={scalar}", f"-DCHAINS={_CHAINS}")
        kernel = cupy.RawKernel(_MULTIPLY_ADD, "multiply_add", options)
        kind = cupy.dtype(dtype).type
        arguments = (cupy.zeros(256, dtype), kind(0.999), kind(-1.0), cupy.int32(_STEPS))
        took = clock.figures(lambda k=kernel, a=arguments: k((blocks,), (256,), a))
        limits[f"multiply_adds_{dtype}"] = blocks * 256 * _STEPS * _CHAINS / (1e-6 * took["us"])
    return limits


def device_description(cupy: Any) -> dict[str, Any]:
    """Return what the device is, with the versions of what drives it."""
    import gridgen

    device = cupy.cuda.Device()
    properties = cupy.cuda.runtime.getDeviceProperties(device.id)
    versions = {"gridgen": gridgen.__version__, "Python": platform.python_version()}
    nvrtc = ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
    versions |= {"cupy": cupy.__version__, "NVRTC": nvrtc}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "name": properties["name"].decode(),
        "capability": int(device.compute_capability),
        "multiprocessors": properties["multiProcessorCount"],
        "memory_gib": round(properties["totalGlobalMem"] / 2**30),
        "l2_mib": round(properties["l2CacheSize"] / 2**20),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "versions": versions,
    }
