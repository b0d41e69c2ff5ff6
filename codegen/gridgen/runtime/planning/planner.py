"""Selection of kernels: candidates with their times, and the explanation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gridgen.backends.interface import DEFAULT_BLOCKS, ITEM_BYTES, LARGEST_BLOCK, ThreadLaunch
from gridgen.cost.devices import Device
from gridgen.cost.gpu import Prediction, demand_of, predicted
from gridgen.cost.profile import DeviceIdentity, Profile, TimedKernel, find_profile
from gridgen.functions.arrays import ARRAYS
from gridgen.functions.record import Function
from gridgen.functions.types import Dtype
from gridgen.kernel import WARP, Kernel, KernelKey
from gridgen.runtime.module.description import Module

#: The schedules that ``auto`` selects from, in order of preference at equal times.
CHOSEN = ("thread", "scan", "warp")
#: Block sizes that ``tune`` measures, of kernels with one thread per state.
BLOCKS = (WARP, 2 * WARP, LARGEST_BLOCK)
#: Share of time that another than the default block size or method must save: less is within the
#: error of predictions and measurements.
MIN_SAVED = 0.05
#: Batches up to this power of two have their own block sizes; larger ones share them.
_MAX_ROUNDS = 24
# Columns of an explanation.
_WIDTH = 88
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
        block:   threads of a block on a GPU; 0 on a CPU.
        seconds: time of a call [s]; ``None`` on a CPU without a measurement.
        bound:   the predicted bottleneck.
        detail:  explanation of the predicted time.
        is_usual: whether it has the default block size.
        is_measured: whether the time was measured; otherwise it is predicted.
    """

    kernel: str
    method: str
    schedule: str
    block: int
    seconds: float | None
    bound: str
    detail: str
    is_usual: bool = True
    is_measured: bool = False


@dataclass(frozen=True)
class Plan:
    """The selection of ``auto`` for a call, with an explanation.

    Times are predicted, or measured if ``grid-gen tune`` was run on the device.

    Attributes:
        title:      robot, function, batch, element type and device.
        candidates: every candidate of the robot, the fastest first.
        chosen:     the selection of ``auto``.
        reason:     the explanation.
    """

    title: str
    candidates: tuple[Candidate, ...]
    chosen: Candidate
    reason: str

    def __str__(self) -> str:
        """Return a table and the explanation."""
        wide = max(len(candidate.kernel) for candidate in self.candidates)
        lines = [self.title, f"  {'kernel':<{wide}}  schedule  threads          time  bound by"]
        for one in self.candidates:
            time = "" if one.seconds is None else f"{1e6 * one.seconds:,.1f} us"
            lines.append(
                f"{'*' if one == self.chosen else ' '} {one.kernel:<{wide}}  {one.schedule:<8}  "
                f"{one.block or '':>7}  {time:>12}  "
                f"{'measured' if one.is_measured else one.bound}".rstrip()
            )
        return "\n".join([*lines, *textwrap.wrap(self.reason, _WIDTH)])


class Planner:
    """Selects kernels of one module by their times.

    Args:
        module:       the robot's description, kernels, and their work.
        use_profiles: whether to use measured times; otherwise only predicted times.
    """

    def __init__(self, module: Module, *, use_profiles: bool = True) -> None:
        self._module = module
        self._use_profiles = use_profiles
        self._profiles: dict[DeviceIdentity, tuple[Profile | None, str]] = {}

    def profile(self, place: DeviceIdentity) -> Profile | None:
        """Return the measured times of a device, cached."""
        return self._found(place)[0]

    def _found(self, place: DeviceIdentity) -> tuple[Profile | None, str]:
        if not self._use_profiles:
            return None, ""
        if place not in self._profiles:
            self._profiles[place] = find_profile(self._module.description.digest, place)
        return self._profiles[place]

    def forget(self) -> None:
        """Discard cached profiles: new ones may have been saved."""
        self._profiles.clear()

    def choice(
        self,
        key: KernelKey,
        row: Function,
        batch: int,
        place: DeviceIdentity,
        dtype: Dtype,
        is_open: bool,
    ) -> Candidate | None:
        """Return the selection of ``auto``; ``None`` without a choice."""
        profile = self.profile(place)
        keys = _keys(key, row) if is_open and profile and profile.any_method else [key]
        kernels = [kernel for one in keys for kernel in self._kernels(one, row, place)]
        if len(kernels) < 2:
            return None
        return _best(
            candidate
            for kernel in kernels
            for candidate in self._timed(kernel, place, batch, dtype)
        )

    def launch(self, kernel: Kernel, place: DeviceIdentity, dtype: Dtype) -> ThreadLaunch:
        """Return the launch configuration of a kernel with one thread per state on a GPU.

        Other blocks than the default ones are those that were measured to be faster.
        """
        if self.profile(place) is None:
            return ThreadLaunch()
        plain = self._module.kernels.by_name.get(kernel.key.plain.name, kernel)
        blocks: list[tuple[int, int]] = []
        is_usual = True
        for rounds in range(_MAX_ROUNDS + 1):
            batch = 1 << rounds
            best = _best(self._timed(plain, place, batch, dtype))
            is_usual &= best.is_usual
            if not blocks or blocks[-1][1] != best.block:
                blocks.append(((batch >> 1) + 1 if blocks else 0, best.block))
        return ThreadLaunch(blocks=DEFAULT_BLOCKS if is_usual else tuple(blocks))

    def plan(
        self, key: KernelKey, row: Function, batch: int, place: DeviceIdentity, dtype: Dtype
    ) -> Plan:
        """Return the candidates of a call, and the selection of ``auto``.

        Raises:
            OptionError: the device is unknown.
            ModelError:  the robot has no kernel for it.
        """
        profile, remark = self._found(place)
        every = self.candidates(key, row, batch, place, dtype)
        found = [one for one in every if one.is_usual or one.is_measured]
        if not found:
            self._module.kernels.find(key)  # raises the error
        is_open = profile is not None and profile.any_method
        chosen = _best(one for one in found if is_open or one.method == key.method)
        reason = _reason(chosen, found, place, remark)
        if any(ARRAYS[name].path for name in row.results):
            reason += " This is the time of one step."
        robot = self._module.description.name
        return Plan(
            title=f"{robot}, {row.name}: {counted(batch, 'state')} of {dtype} on {_where(place)}",
            candidates=tuple(sorted(found, key=_order)),
            chosen=chosen,
            reason=reason,
        )

    def candidates(
        self, key: KernelKey, row: Function, batch: int, place: DeviceIdentity, dtype: Dtype
    ) -> list[Candidate]:
        """Return every candidate for a function; arguments as of ``plan``."""
        return [
            candidate
            for one in _keys(key, row)
            for kernel in self._kernels(one, row, place)
            for candidate in self._timed(kernel, place, batch, dtype)
        ]

    def _kernels(self, key: KernelKey, row: Function, place: DeviceIdentity) -> Iterator[Kernel]:
        """Yield a method's kernels that the module has and ``auto`` selects from."""
        if key.parts or key.frame:
            yield self._module.kernels.find(key)
            return
        for schedule in CHOSEN if place.arch != "cpu" else CHOSEN[:1]:
            name = replace(key, schedule=schedule).name
            if schedule in row.methods[key.method].schedules and (
                kernel := self._module.kernels.by_name.get(name)
            ):
                yield kernel

    def _timed(
        self, kernel: Kernel, place: DeviceIdentity, batch: int, dtype: Dtype
    ) -> Iterator[Candidate]:
        """Yield the launches of a kernel, the default one first, with their times if known."""
        names = (kernel.name, kernel.key.method, kernel.key.schedule)
        if place.arch == "cpu":
            how = "not measured on this CPU: grid-gen tune --device cpu measures methods"
            found = [Candidate(*names, 0, None, "", how)]
        else:
            demand = demand_of(kernel, self._module.work(kernel), ITEM_BYTES[dtype], batch=batch)
            time, block = predicted(demand, place.device, batch), demand.threads_per_block
            usual = Candidate(*names, block, time.seconds, time.bound, _detail(time, place.device))
            others = [one for one in BLOCKS if one != block and kernel.team is None]
            found = [usual, *(replace(usual, block=one, is_usual=False) for one in others)]
        profile = self.profile(place)
        for one in found:
            seconds = profile and profile.seconds(timed_kernel(one, place, dtype), batch)
            yield replace(one, seconds=seconds, is_measured=True) if seconds else one


def timed_kernel(candidate: Candidate, place: DeviceIdentity, dtype: Dtype) -> TimedKernel:
    """Return a profile's key of a candidate."""
    return TimedKernel(candidate.kernel, dtype, 0 if place.arch == "cpu" else candidate.block)


def counted(count: int, thing: str) -> str:
    """Return a count with its noun: ``1 block``, ``2 blocks``."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def _keys(key: KernelKey, row: Function) -> list[KernelKey]:
    """Return the kernel of every method, that of ``key`` first.

    Integrators compute different results: they do not replace each other.
    """
    if row.method_word != "method":
        return [key]
    others = [replace(key, method=method) for method in row.methods if method != key.method]
    return [key, *others]


def _order(candidate: Candidate) -> float:
    return float("inf") if candidate.seconds is None else candidate.seconds


def _best(candidates: Iterable[Candidate]) -> Candidate:
    """Return the fastest candidate: of the measured ones, if any.

    Another block size than the default, and another method than the first, must save a minimum of
    time.
    """
    every = list(candidates)
    method = every[0].method
    every = [one for one in every if one.is_measured] or [one for one in every if one.is_usual]
    usual = [one for one in every if one.is_usual and one.method == method] or every
    fastest, first = (min(some, key=_order) for some in (every, usual))
    return fastest if _order(fastest) < (1 - MIN_SAVED) * _order(first) else first


def _where(place: DeviceIdentity) -> str:
    """Return the description of a device."""
    if place.arch == "cpu":
        return f"this CPU, {place.driver}"
    like = place.device.title
    return f"{place.name}, {place.arch}" if place.name else f"{place.arch}, like {like}"


def _detail(found: Prediction, device: Device) -> str:
    """Return a description of a launch's occupancy and bottleneck."""
    return (
        f"{counted(found.blocks, 'block')} on {min(found.blocks, device.sms)} of {device.sms} "
        f"multiprocessors in {counted(found.waves, 'wave')} of up to {found.at_once} warps each; "
        f"{_WORDS[found.bound]}"
    )


def _reason(
    chosen: Candidate, candidates: list[Candidate], place: DeviceIdentity, remark: str
) -> str:
    """Return the explanation of a selection."""
    how, known = "is predicted", chosen.detail
    if chosen.is_measured:
        how, known = "was measured", f"measured on {place} by grid-gen tune"
    parts = [f"{chosen.kernel}: {known}"]
    rivals = [one for one in candidates if one.is_measured == chosen.is_measured and one.seconds]
    for other in rivals:
        if other is not chosen and other.method == chosen.method and chosen.seconds:
            name = other.kernel if other.kernel != chosen.kernel else f"a block of {other.block}"
            parts.append(f"{name} {how} to take {_order(other) / chosen.seconds:.1f} times as long")
    faster = [other for other in rivals if _order(other) < _order(chosen)]
    if any(other.method != chosen.method for other in faster):
        parts.append("auto selects the most accurate method: request a faster one by name")
    if any(other.kernel == chosen.kernel for other in faster):
        parts.append(f"another block size must save {100 * MIN_SAVED:.0f} % or more")
    return "; ".join([*parts, *filter(None, [remark])]) + "."
