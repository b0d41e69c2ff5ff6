"""The candidates for a function of a module, each with its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gridgen.backends.interface import DEFAULT_BLOCKS, ITEM_BYTES, LARGEST_BLOCK
from gridgen.cost.demand import demand_of
from gridgen.cost.devices import Device
from gridgen.cost.gpu import Prediction, predicted
from gridgen.cost.host import LEAST_SHARE, HostPrediction, predicted_on, this_host
from gridgen.cost.profile import DeviceIdentity, Profile, TimedKernel
from gridgen.functions.record import Function
from gridgen.functions.types import Dtype
from gridgen.kernel import WARP, Kernel, KernelKey, Work
from gridgen.runtime.module.description import Module

#: The schedules that ``auto`` selects from, in order of preference at equal times.
CHOSEN = ("thread", "scan", "warp")
#: Block sizes of candidates with one thread per state.
BLOCKS = (WARP, 2 * WARP, LARGEST_BLOCK)

_WORDS = {
    "issue": "bound by instruction issue",
    "latency": "there are too few warps to hide latency",
    "L2": "bound by L2 bandwidth",
    "memory": "bound by memory bandwidth",
    "launch": "the launch takes longer than the kernel",
}


@dataclass(frozen=True)
class Candidate:
    """One candidate for a function: kernel, block size and time.

    Attributes:
        kernel:  name of the kernel in the C++ files.
        method:  the algorithm, for a function with several.
        schedule: distribution of a state over threads.
        block:   threads of a block on a GPU, of the call on a CPU.
        seconds: time of a call [s].
        bound:   the predicted bottleneck.
        detail:  explanation of the predicted time.
        is_usual: whether it has the default block size.
        is_measured: whether the time was measured; otherwise it is predicted.
    """

    kernel: str
    method: str
    schedule: str
    block: int
    seconds: float
    bound: str
    detail: str
    is_usual: bool = True
    is_measured: bool = False


class Candidates:
    """Finds the candidates for the functions of a module."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def kernels(self, key: KernelKey, row: Function, *, on_gpu: bool = True) -> Iterator[Kernel]:
        """Yield a method's kernels that the module has and ``auto`` selects from."""
        if key.parts or key.frame:
            yield self._module.kernels.find(key)
            return
        there = self._module.kernels.by_name
        for schedule in CHOSEN if on_gpu else CHOSEN[:1]:
            if schedule in row.methods[key.method].schedules:
                name = replace(key, schedule=schedule).name
                if name in there:
                    yield there[name]

    def of(
        self,
        kernel: Kernel,
        place: DeviceIdentity,
        batch: int,
        dtype: Dtype,
        profile: Profile | None,
    ) -> list[Candidate]:
        """Return the launch candidates of a kernel, the default one first."""
        if place.arch == "cpu":
            return [_timed(self._on_host(kernel, batch, dtype), dtype, batch, profile)]
        device = place.device
        usual = self._on_gpu(kernel, device, batch, dtype, None)
        found = {usual.block: usual}
        for block in BLOCKS if kernel.team is None else ():
            other = self._on_gpu(kernel, device, batch, dtype, block)
            found.setdefault(other.block, other)
        return [_timed(candidate, dtype, batch, profile) for candidate in found.values()]

    def _on_gpu(
        self, kernel: Kernel, device: Device, batch: int, dtype: Dtype, block: int | None
    ) -> Candidate:
        work, itemsize = self._module.work(kernel), ITEM_BYTES[dtype]
        blocks = DEFAULT_BLOCKS if block is None else ((0, block),)
        demand = demand_of(kernel, work, itemsize, batch=batch, blocks=blocks, device=device)
        found, threads = predicted(demand, device, batch), demand.threads_per_block
        detail = _gpu_detail(found, device)
        made = _candidate(kernel, threads, found.seconds, found.bound, detail)
        return replace(made, is_usual=block is None)

    def _on_host(self, kernel: Kernel, batch: int, dtype: Dtype) -> Candidate:
        work: Work = self._module.work(kernel)
        found = predicted_on(this_host(), kernel, work, ITEM_BYTES[dtype], batch)
        detail = _host_detail(found, dtype)
        return _candidate(kernel, found.threads, found.seconds, found.bound, detail)


def _candidate(kernel: Kernel, block: int, seconds: float, bound: str, detail: str) -> Candidate:
    key = kernel.key
    return Candidate(kernel.name, key.method, key.schedule, block, seconds, bound, detail)


def timed_kernel(candidate: Candidate, place: DeviceIdentity, dtype: Dtype) -> TimedKernel:
    """Return a profile's key of a candidate."""
    return TimedKernel(candidate.kernel, dtype, 0 if place.arch == "cpu" else candidate.block)


def _timed(candidate: Candidate, dtype: Dtype, batch: int, profile: Profile | None) -> Candidate:
    """Return a candidate with its measured time, if known."""
    if profile is None:
        return candidate
    seconds = profile.seconds(timed_kernel(candidate, profile.place, dtype), batch)
    if seconds is None:
        return candidate
    return replace(candidate, seconds=seconds, is_measured=True)


def _gpu_detail(found: Prediction, device: Device) -> str:
    """Return a description of a launch's occupancy and bottleneck."""
    return (
        f"{counted(found.blocks, 'block')} on {min(found.blocks, device.sms)} of {device.sms} "
        f"multiprocessors in {counted(found.waves, 'wave')} of up to {found.at_once} warps each; "
        f"{_WORDS[found.bound]}"
    )


def _host_detail(found: HostPrediction, dtype: Dtype) -> str:
    """Return a description of a batch on the ``cpu`` backend."""
    threads = counted(found.threads, "thread")
    if found.threads == 1:
        threads += f", as each further one needs {1e6 * LEAST_SHARE:.0f} us of work"
    how = "past the caches, which they exceed" if found.is_streamed else "through the caches"
    return (
        f"{threads}; packs of {found.lanes} states ({dtype}); results of "
        f"{found.out_bytes / 1e6:,.2f} MB are written {how}; bound by {found.bound}"
    )


def counted(count: int, thing: str) -> str:
    """Return a count with its noun: ``1 block``, ``2 blocks``."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")
