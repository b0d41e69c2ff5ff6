"""Which kernel serves a call best: candidates with predicted times, and the reason in words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gridgen.backends.interface import Dtype
from gridgen.cost.demand import ITEM_BYTES, demand_of
from gridgen.cost.devices import Device, device_of
from gridgen.cost.gpu import Prediction, predicted
from gridgen.cost.host import LEAST_SHARE, Host, HostPrediction, predicted_on, this_host
from gridgen.functions.record import Function
from gridgen.kernel import Kernel, KernelKey
from gridgen.runtime.description import Module

#: The schedules that ``auto`` chooses from, the one that is kept when both are as fast first.
CHOSEN = ("thread", "scan")
#: The device that stands for a GPU that nothing is known of.
UNKNOWN = "sm_90"

# Columns of a reason.
_WIDTH = 88
_WORDS = {
    "issue": "its instructions keep the multiprocessors busy",
    "latency": "there are too few warps to hide what each waits for",
    "L2": "its accesses keep L2 busy",
    "memory": "its arrays keep the memory busy",
    "launch": "the launch takes longer than the kernel",
}


@dataclass(frozen=True)
class Candidate:
    """One way to compute a function.

    Attributes:
        kernel:  name of the kernel in the C++ files.
        method:  the algorithm, where there are several.
        schedule: how a state is laid over threads.
        block:   threads of a block on a GPU, of the call on a CPU.
        seconds: the time of a call, predicted.
        bound:   what it is bound by.
        detail:  where the time comes from, in words.
    """

    kernel: str
    method: str
    schedule: str
    block: int
    seconds: float
    bound: str
    detail: str


@dataclass(frozen=True)
class Plan:
    """What ``auto`` means for a call, and why. Times are predictions: nothing has been run.

    Attributes:
        title:      robot, function, batch, element type and device.
        candidates: every way to compute it that the robot has, the fastest first.
        chosen:     what ``auto`` takes.
        reason:     why, in words.
    """

    title: str
    candidates: tuple[Candidate, ...]
    chosen: Candidate
    reason: str

    def __str__(self) -> str:
        """Return a table and the reason."""
        wide = max(len(candidate.kernel) for candidate in self.candidates)
        head = f"  {'kernel':<{wide}}  {'schedule':<8}  {'threads':>7}  {'predicted':>12}  bound by"
        lines = [
            f"{'*' if candidate is self.chosen else ' '} {candidate.kernel:<{wide}}  "
            f"{candidate.schedule:<8}  {candidate.block:>7}  "
            f"{1e6 * candidate.seconds:>9,.1f} us  {candidate.bound}"
            for candidate in self.candidates
        ]
        return "\n".join((self.title, head, *lines, *textwrap.wrap(self.reason, _WIDTH)))


class Planner:
    """Chooses kernels of one module by their predicted times.

    Args:
        module: the robot's description, kernels, and their work.
    """

    def __init__(self, module: Module) -> None:
        self._module = module

    def schedule(self, key: KernelKey, row: Function, batch: int, arch: str, dtype: Dtype) -> str:
        """Return the schedule that ``auto`` means on a GPU.

        Args:
            key:   the kernel of the thread schedule, without optional inputs.
            row:   the function.
            batch: number of states, at least one.
            arch:  architecture of the GPU.
            dtype: element type.
        """
        device = device_of(arch)
        kernels = [*self._kernels(key, row)]
        if len(kernels) < 2:
            return "auto"
        return _fastest([self._on_gpu(k, device, batch, dtype) for k in kernels]).schedule

    def plan(self, key: KernelKey, row: Function, batch: int, device: str, dtype: Dtype) -> Plan:
        """Return the candidates of a call, and what ``auto`` takes.

        Args:
            key:    the kernel of the thread schedule of the method that ``auto`` means.
            row:    the function.
            batch:  number of states, at least one.
            device: ``cpu``, or an architecture of GPUs.
            dtype:  element type.

        Raises:
            OptionError: nothing is known of the device.
            ModelError:  the robot has no kernel for it.
        """
        on_host = device == "cpu"
        host = this_host()
        gpu = None if on_host else device_of(device)
        methods = [replace(key, method=method) for method in row.methods]
        kernels = [k for one in methods for k in self._kernels(one, row, every=not on_host)]
        if not kernels:
            self._module.kernels.find(key)  # says why
        candidates = [
            self._on_host(kernel, host, batch, dtype)
            if gpu is None
            else self._on_gpu(kernel, gpu, batch, dtype)
            for kernel in kernels
        ]
        mine = [candidate for candidate in candidates if candidate.method == key.method]
        chosen = _fastest(mine)
        where = (
            f"{device}, like {gpu.title}" if gpu else f"this CPU, {host.threads} threads at most"
        )
        robot = self._module.description.name
        return Plan(
            title=f"{robot}, {row.name}: {_counted(batch, 'state')} of {dtype} on {where}",
            candidates=tuple(sorted(candidates, key=lambda candidate: candidate.seconds)),
            chosen=chosen,
            reason=_reason(chosen, candidates),
        )

    def _kernels(self, key: KernelKey, row: Function, every: bool = True) -> Iterator[Kernel]:
        """Yield the kernels of a method that the module has, those that ``auto`` chooses from."""
        there = self._module.kernels.by_name
        for schedule in CHOSEN if every else CHOSEN[:1]:
            if schedule in row.methods[key.method].schedules:
                name = replace(key, schedule=schedule).name
                if name in there:
                    yield there[name]

    def _on_gpu(self, kernel: Kernel, device: Device, batch: int, dtype: Dtype) -> Candidate:
        demand = demand_of(kernel, self._module.work(kernel), ITEM_BYTES[dtype], batch=batch)
        found = predicted(demand, device, batch)
        return Candidate(
            kernel=kernel.name,
            method=kernel.key.method,
            schedule=kernel.key.schedule,
            block=demand.threads_per_block,
            seconds=found.seconds,
            bound=found.bound,
            detail=_gpu_detail(found, device),
        )

    def _on_host(self, kernel: Kernel, host: Host, batch: int, dtype: Dtype) -> Candidate:
        work = self._module.work(kernel)
        found = predicted_on(host, kernel, work, ITEM_BYTES[dtype], batch)
        return Candidate(
            kernel=kernel.name,
            method=kernel.key.method,
            schedule=kernel.key.schedule,
            block=found.threads,
            seconds=found.seconds,
            bound=found.bound,
            detail=_host_detail(found, dtype),
        )


def _fastest(candidates: list[Candidate]) -> Candidate:
    """Return the fastest candidate; the first of those that are equally fast."""
    return min(candidates, key=lambda candidate: candidate.seconds)


def _reason(chosen: Candidate, candidates: list[Candidate]) -> str:
    """Say why a candidate is chosen."""
    parts = [f"{chosen.kernel}: {chosen.detail}"]
    for other in candidates:
        if other.method == chosen.method and other is not chosen:
            ratio = other.seconds / chosen.seconds
            parts.append(f"{other.kernel} is predicted to take {ratio:.1f} times as long")
    if any(other.seconds < chosen.seconds for other in candidates):
        parts.append("auto keeps to the most accurate method: a faster one is chosen by its name")
    return "; ".join(parts) + "."


def _gpu_detail(found: Prediction, device: Device) -> str:
    """Say how a launch fills a GPU, and what its time is bound by."""
    return (
        f"{_counted(found.blocks, 'block')} on {min(found.blocks, device.sms)} of {device.sms} "
        f"multiprocessors in {_counted(found.waves, 'wave')} of up to {found.at_once} warps each; "
        f"{_WORDS[found.bound]}"
    )


def _host_detail(found: HostPrediction, dtype: Dtype) -> str:
    """Say how the ``cpu`` backend goes about a batch."""
    threads = _counted(found.threads, "thread")
    if found.threads == 1:
        threads += f", as another one is woken for {1e6 * LEAST_SHARE:.0f} us of work"
    how = "past the caches, which they outgrow" if found.is_streamed else "by way of the caches"
    return (
        f"{threads}; packs of {found.lanes} states ({dtype}); results of "
        f"{found.out_bytes / 1e6:,.2f} MB are written {how}; bound by {found.bound}"
    )


def _counted(count: int, thing: str) -> str:
    """Return a number of things: ``1 block``, ``2 blocks``."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")
