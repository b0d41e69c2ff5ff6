"""Selection of kernels: candidates with their times, and the explanation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gridgen.backends.interface import DEFAULT_BLOCKS, ThreadLaunch
from gridgen.cost.host import this_host
from gridgen.cost.profile import DeviceIdentity, Profile, find_profile
from gridgen.functions.arrays import ARRAYS
from gridgen.functions.record import Function
from gridgen.functions.types import Dtype
from gridgen.kernel import Kernel, KernelKey
from gridgen.runtime.module.description import Module
from gridgen.runtime.planning.candidates import Candidate, Candidates, counted

#: Share of time that another than the default block size or method must save: less is within the
#: error of predictions and measurements.
LEAST_SAVED = 0.05
#: Batches up to this power of two have their own block sizes; larger ones share them.
_MOST_ROUNDS = 24
# Columns of an explanation.
_WIDTH = 88


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
        """Return a table and the explanation; blocks with equal times share a line."""
        wide = max(len(candidate.kernel) for candidate in self.candidates)
        lines: dict[str, list[Candidate]] = {}
        for candidate in self.candidates:
            how = "measured" if candidate.is_measured else candidate.bound
            words = (
                f"{candidate.kernel:<{wide}}  {candidate.schedule:<8}  {{:>11}}  "
                f"{1e6 * candidate.seconds:>9,.1f} us  {how}"
            )
            lines.setdefault(words, []).append(candidate)
        head = f"  {'kernel':<{wide}}  {'schedule':<8}  {'threads':>11}  {'time':>12}  bound by"
        table = [
            f"{'*' if self.chosen in those else ' '} "
            + words.format(" ".join(str(candidate.block) for candidate in those))
            for words, those in lines.items()
        ]
        return "\n".join((self.title, head, *table, *textwrap.wrap(self.reason, _WIDTH)))


class Planner:
    """Selects kernels of one module by their times.

    Args:
        module:       the robot's description, kernels, and their work.
        use_profiles: whether to use measured times; otherwise only predicted times.
    """

    def __init__(self, module: Module, *, use_profiles: bool = True) -> None:
        self._module = module
        self._use_profiles = use_profiles
        self._candidates = Candidates(module)
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
        keys = self._keys(key, row) if is_open and profile and profile.any_method else [key]
        kernels = list(self._kernels(keys, row, place))
        if len(kernels) < 2:
            return None
        return _best(
            candidate
            for kernel in kernels
            for candidate in self._candidates.of(kernel, place, batch, dtype, profile)
        )

    def launch(self, kernel: Kernel, place: DeviceIdentity, dtype: Dtype) -> ThreadLaunch:
        """Return the launch configuration of a kernel with one thread per state on a GPU."""
        plain = self._module.kernels.by_name.get(kernel.key.plain.name, kernel)
        profile = self.profile(place)
        blocks: list[tuple[int, int]] = []
        is_usual = True
        for rounds in range(_MOST_ROUNDS + 1):
            batch = 1 << rounds
            best = _best(self._candidates.of(plain, place, batch, dtype, profile))
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
        candidates = self.candidates(key, row, batch, place, dtype)
        if not candidates:
            self._module.kernels.find(key)  # raises the error
        is_open = profile is not None and profile.any_method
        chosen = _best(
            candidate for candidate in candidates if is_open or candidate.method == key.method
        )
        robot = self._module.description.name
        reason = _reason(chosen, candidates, place, remark)
        if any(ARRAYS[name].path for name in row.results):
            reason += " This is the time of one step."
        return Plan(
            title=f"{robot}, {row.name}: {counted(batch, 'state')} of {dtype} on {_where(place)}",
            candidates=tuple(sorted(candidates, key=lambda candidate: candidate.seconds)),
            chosen=chosen,
            reason=reason,
        )

    def candidates(
        self, key: KernelKey, row: Function, batch: int, place: DeviceIdentity, dtype: Dtype
    ) -> list[Candidate]:
        """Return every candidate for a function; arguments as of ``plan``."""
        profile = self.profile(place)
        return [
            candidate
            for kernel in self._kernels(self._keys(key, row), row, place)
            for candidate in self._candidates.of(kernel, place, batch, dtype, profile)
        ]

    def _keys(self, key: KernelKey, row: Function) -> list[KernelKey]:
        """Return the kernel of every method, that of ``key`` first.

        Integrators compute different results: they do not replace each other.
        """
        if row.method_word != "method":
            return [key]
        others = [replace(key, method=method) for method in row.methods if method != key.method]
        return [key, *others]

    def _kernels(
        self, keys: Iterable[KernelKey], row: Function, place: DeviceIdentity
    ) -> list[Kernel]:
        on_gpu = place.arch != "cpu"
        return [k for key in keys for k in self._candidates.kernels(key, row, on_gpu=on_gpu)]


def _best(candidates: Iterable[Candidate]) -> Candidate:
    """Return the fastest candidate: of the measured ones, if any.

    Another block size than the default, and another method than the first, must save a minimum of
    time.
    """
    every = list(candidates)
    method = every[0].method
    every = [candidate for candidate in every if candidate.is_measured] or every
    usual = [one for one in every if one.is_usual and one.method == method] or every
    fastest, kept = (min(some, key=lambda one: one.seconds) for some in (every, usual))
    return fastest if fastest.seconds < (1 - LEAST_SAVED) * kept.seconds else kept


def _where(place: DeviceIdentity) -> str:
    """Return the description of a device."""
    if place.arch == "cpu":
        return f"this CPU, {counted(this_host().threads, 'thread')} at most"
    like = place.device.title
    return f"{place.name}, {place.arch}" if place.name else f"{place.arch}, like {like}"


def _reason(
    chosen: Candidate, candidates: list[Candidate], place: DeviceIdentity, remark: str
) -> str:
    """Return the explanation of a selection."""
    known = f"measured on {place} by grid-gen tune; " if chosen.is_measured else ""
    parts = [f"{chosen.kernel}: {known}{chosen.detail}"]
    rivals = [other for other in candidates if other.is_measured == chosen.is_measured]
    how = "was measured" if chosen.is_measured else "is predicted"
    same = [other for other in rivals if other.kernel == chosen.kernel and other is not chosen]
    if same:
        blocks = " and ".join(str(other.block) for other in same)
        ratios = " and ".join(f"{other.seconds / chosen.seconds:.2f}" for other in same)
        parts.append(f"blocks of {blocks} threads take {ratios} times as long")
    for name in dict.fromkeys(other.kernel for other in rivals):
        other = min((one for one in rivals if one.kernel == name), key=lambda one: one.seconds)
        if name != chosen.kernel and other.method == chosen.method:
            ratio = other.seconds / chosen.seconds
            parts.append(f"{name} {how} to take {ratio:.1f} times as long")
    faster = [other for other in rivals if other.seconds < chosen.seconds]
    if any(other.method != chosen.method for other in faster):
        parts.append("auto selects the most accurate method: request a faster one by name")
    if any(other.kernel == chosen.kernel for other in faster):
        parts.append(f"another block size must save {100 * LEAST_SAVED:.0f} % or more")
    return "; ".join([*parts, *filter(None, [remark])]) + "."
