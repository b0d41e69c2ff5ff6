"""The time of a program on the CPU, predicted, and how the ``cpu`` backend goes about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from gridgen.kernel import Kernel, Work

#: The least work that another thread is woken for [s], as the backend has it.
LEAST_SHARE = 80e-6
#: Bytes of results from which they are written past the caches, by one thread and by several, and
#: those of a pack's results that must be near; as ``gridgen_simd.h`` has them.
STREAMED_BY_ONE, STREAMED_BY_SEVERAL, NEAR = 8 << 20, 12 << 20, 64 << 10

# What an operation on a pack takes, and what a core moves in a second: some 1.7 clocks at 3.5 GHz,
# and a share of a server's memory. Guesses for a machine that nobody has measured.
_OPERATION = 0.5e-9
_BANDWIDTH = 10e9


@dataclass(frozen=True)
class Host:
    """A processor.

    Attributes:
        threads:    that may share a batch.
        pack_bytes: bytes of a pack of numbers, one for each of several states.
    """

    threads: int
    pack_bytes: int


@dataclass(frozen=True)
class HostPrediction:
    """How a batch is computed on the CPU.

    Attributes:
        seconds:     the time, predicted.
        bound:       ``arithmetic`` or ``memory``.
        threads:     that share the batch.
        lanes:       states of a pack.
        is_streamed: whether results are written past the caches.
        out_bytes:   bytes of the results.
    """

    seconds: float
    bound: str
    threads: int
    lanes: int
    is_streamed: bool
    out_bytes: int


def this_host() -> Host:
    """Return the processor that this runs on."""
    from gridgen.backends.cpu.backend import thread_count  # a module starts without any backend

    return Host(thread_count(), _pack_bytes())


def predicted_on(
    host: Host, kernel: Kernel, work: Work, itemsize: int, batch: int
) -> HostPrediction:
    """Predict the time of a call on the CPU."""
    from gridgen.backends.cpu.units import BLOCK

    lanes = host.pack_bytes // itemsize
    arithmetic = -(-batch // lanes) * work.operations * _OPERATION
    numbers_out = sum(map(math.prod, kernel.outputs.values()))
    numbers_in = sum(map(math.prod, kernel.inputs.values()))
    threads = max(1, min(host.threads, -(-batch // BLOCK), int(arithmetic / LEAST_SHARE)))
    out_bytes = batch * numbers_out * itemsize
    if threads > 1:
        is_streamed = out_bytes > STREAMED_BY_SEVERAL
    else:
        is_streamed = out_bytes > STREAMED_BY_ONE and numbers_out * host.pack_bytes <= NEAR
    # A line that is written in part is read before.
    moved = batch * numbers_in * itemsize + out_bytes * (1 if is_streamed else 2)
    seconds = {"arithmetic": arithmetic / threads, "memory": moved / _BANDWIDTH / threads}
    bound = max(seconds, key=seconds.__getitem__)
    return HostPrediction(seconds[bound], bound, threads, lanes, is_streamed, out_bytes)


def _pack_bytes() -> int:
    """Return the bytes of a pack for the vector instructions that this processor has."""
    try:
        features = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return 16
    return 64 if "avx512f" in features else 32 if "avx" in features else 16
