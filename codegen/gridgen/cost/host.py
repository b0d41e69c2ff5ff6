"""Predict the time of a program on the CPU, and how the ``cpu`` backend computes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from gridgen.kernel import Kernel, Work

#: Least work for which the backend wakes another thread [s].
LEAST_SHARE = 80e-6
#: Bytes of results from which stores bypass the caches, for one thread and for several, and most
#: bytes of one pack's results for that; as in ``gridgen_simd.h``.
STREAMED_BY_ONE, STREAMED_BY_SEVERAL, NEAR = 8 << 20, 12 << 20, 64 << 10

# Seconds per operation on a pack (1.7 clocks at 3.5 GHz), and memory bandwidth of a core (a share
# of a server's) [bytes/s]. Guesses for machines without measured times.
_OPERATION = 0.5e-9
_BANDWIDTH = 10e9


@dataclass(frozen=True)
class Host:
    """A processor."""

    threads: int  #: threads that may share a batch.
    pack_bytes: int  #: bytes of a SIMD pack, which has one number per state.


@dataclass(frozen=True)
class HostPrediction:
    """How the CPU computes a batch."""

    seconds: float  #: predicted time.
    bound: str  #: the limiting resource: ``arithmetic`` or ``memory``.
    threads: int  #: threads that share the batch.
    lanes: int  #: states per pack.
    is_streamed: bool  #: whether stores of results bypass the caches.
    out_bytes: int  #: bytes of the results.


def this_host() -> Host:
    """Return the processor of this machine."""
    from gridgen.backends.cpu.backend import thread_count  # importing a module loads no backend

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
    # A partly written cache line is read first.
    moved = batch * numbers_in * itemsize + out_bytes * (1 if is_streamed else 2)
    seconds = {"arithmetic": arithmetic / threads, "memory": moved / _BANDWIDTH / threads}
    bound = max(seconds, key=seconds.__getitem__)
    return HostPrediction(seconds[bound], bound, threads, lanes, is_streamed, out_bytes)


def _pack_bytes() -> int:
    """Return the bytes of a pack for this processor's vector instructions."""
    try:
        features = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return 16
    return 64 if "avx512f" in features else 32 if "avx" in features else 16
