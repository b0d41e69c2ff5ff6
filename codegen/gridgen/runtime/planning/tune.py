"""Benchmarks of a robot's kernels on the current device, for ``auto`` to select from."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gridgen.backends.interface import ThreadLaunch
from gridgen.cost.profile import DeviceIdentity, Profile, TimedKernel, find_profile
from gridgen.errors import DeviceError, OptionError
from gridgen.functions import FUNCTIONS, GENERATED
from gridgen.functions.arrays import ARRAYS, configurations
from gridgen.functions.record import Function
from gridgen.functions.types import Array, Dtype
from gridgen.kernel import Kernel, KernelKey
from gridgen.naming import check_choice, show_value
from gridgen.progress import Progress, Step, announced
from gridgen.runtime.arrays.layout import DTYPES
from gridgen.runtime.calls.bound import Binder
from gridgen.runtime.calls.evaluation import Evaluator
from gridgen.runtime.calls.resolver import Resolver
from gridgen.runtime.configurations import random_configuration
from gridgen.runtime.module.description import Module
from gridgen.runtime.planning.clocks import Call, Clock, GpuClock, HostClock, least
from gridgen.runtime.planning.devices import place_named
from gridgen.runtime.planning.planner import Candidate, Planner, timed_kernel

#: Devices to measure: the current GPU, or this CPU.
TunedDevice = Literal["cuda", "cpu"]
#: Numbers of states to measure by default.
BATCHES = (32, 256, 1024, 4096, 16_384, 65_536, 262_144, 1 << 20)
#: Functions to measure. Functions of a frame have kernels for each frame; the time of a rollout is
#: proportional to its steps.
MEASURED = tuple(
    name
    for name in GENERATED
    if not FUNCTIONS[name].of_frame
    and not any(ARRAYS[result].path for result in FUNCTIONS[name].results)
)

# Largest share of free memory for the arrays of a call.
_SHARE_OF_MEMORY = 0.4
_SEED = 0
# Most distinct states of a batch.
_DRAWN = 4096
# Candidates slower than the fastest by this factor are not measured with more states than this.
_TOO_SLOW, _FEW = 8.0, 1024


@dataclass(frozen=True)
class TuneSelection:
    """Options of a measurement."""

    device: TunedDevice = "cuda"  #: ``cuda``, the current GPU, or ``cpu``.
    functions: tuple[str, ...] = ()  #: names of functions; empty means all with several candidates.
    batches: tuple[int, ...] = BATCHES  #: numbers of states.
    dtypes: tuple[Dtype, ...] = ("float32", "float64")  #: element types.
    any_method: bool = False  #: whether ``auto`` may select a method that is not the most accurate.

    def __post_init__(self) -> None:
        check_choice("device", self.device, ("cuda", "cpu"))
        for option, choices in (("functions", MEASURED), ("dtypes", tuple(DTYPES.values()))):
            for name in getattr(self, option):
                check_choice(option, name, choices)
        for batch in self.batches:
            if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
                raise OptionError(
                    f"batches has {show_value(batch)}; give numbers of states, 1 or more"
                )
        if not self.batches or not self.dtypes:
            raise OptionError("there is nothing to measure: batches and dtypes must not be empty")


@dataclass(frozen=True)
class Outcome:
    """The selection of ``auto`` for a batch after a measurement.

    Attributes:
        function: the function.
        dtype:    element type.
        batch:    number of states.
        chosen:   the selection.
        seconds:  its measured time [s].
        before:   measured time of the selection by prediction alone [s].
    """

    function: str
    dtype: Dtype
    batch: int
    chosen: Candidate
    seconds: float
    before: float


@dataclass(frozen=True)
class Tuned:
    """Results of a measurement.

    Attributes:
        profile:  the times.
        outcomes: the selections of ``auto`` with these times.
    """

    profile: Profile
    outcomes: tuple[Outcome, ...]

    def __str__(self) -> str:
        """Return a table."""
        lines = [f"{self.profile.robot} on {self.profile.place}"]
        if self.profile.place.arch == "cpu":
            lines.append(_ON_CPU)
        if not self.outcomes:
            return "\n".join(
                [*lines, "Each function has one candidate: there is nothing to choose."]
            )
        wide = max(len(outcome.chosen.kernel) for outcome in self.outcomes)
        lines.append(
            f"{'auto selects':<{wide}}  {'type':<7}  {'states':>9}  {'threads':>7}  {'time':>12}  "
            "to before"
        )
        lines += [
            f"{one.chosen.kernel:<{wide}}  {one.dtype:<7}  {one.batch:>9,}  "
            f"{one.chosen.block or '':>7}  {1e6 * one.seconds:>9,.1f} us  "
            f"{one.seconds / one.before:.2f}"
            for one in self.outcomes
        ]
        return "\n".join(lines)


_ON_CPU = """\
On a CPU, auto only selects the method of forward dynamics. Each process chooses its threads by the
time of the first block of states; a pack is as wide as the processor's registers; large results
bypass the caches."""


def _place(device: TunedDevice) -> DeviceIdentity:
    """Return the device to measure.

    Raises:
        DeviceError: no GPU is available.
    """
    try:
        return place_named(device)
    except DeviceError as error:
        raise DeviceError(
            f"{error}. tune measures this machine's GPU: run it on a machine with a GPU, or "
            'measure this CPU (--device cpu; in Python device="cpu")'
        ) from error


class _Pinned(Planner):
    """A planner that launches all kernels with blocks of one size."""

    def __init__(self, module: Module, block: int) -> None:
        super().__init__(module)
        self._block = block

    def launch(self, kernel: Kernel, place: DeviceIdentity, dtype: Dtype) -> ThreadLaunch:
        return ThreadLaunch(blocks=((0, self._block),))


class _Measurement:
    """Measures functions of a module on one device."""

    def __init__(self, module: Module, selection: TuneSelection) -> None:
        self._module = module
        self._selection = selection
        self.place = _place(selection.device)
        self._planner = Planner(module)
        self._clock: Clock = HostClock()
        if selection.device == "cuda":
            from gridgen.backends.cuda.backend import require_device

            self._clock = GpuClock(require_device())
        self._pinned: dict[int, tuple[Resolver, Binder]] = {}

    def keys(self) -> Iterator[KernelKey]:
        """Yield the first kernel of each function that is to be measured, of each integrator."""
        kernels = self._module.kernels
        for name in self._selection.functions or MEASURED:
            row = FUNCTIONS[name]
            keys = [KernelKey(name, method) for method in row.methods]
            there = [key for key in keys if self._candidates(key, row, 1, "float32")]
            if self._selection.functions and not there:
                kernels.find(keys[0])  # raises the error
            is_requested = bool(self._selection.functions) or row.is_default
            if there and is_requested and self._has_choice(there[0], row):
                yield from there[:1] if row.method_word == "method" else there

    def _has_choice(self, key: KernelKey, row: Function) -> bool:
        return bool(self._selection.functions) or len(self._candidates(key, row, 1, "float32")) > 1

    def _candidates(
        self, key: KernelKey, row: Function, batch: int, dtype: Dtype
    ) -> list[Candidate]:
        return self._planner.candidates(key, row, batch, self.place, dtype)

    def times(
        self, key: KernelKey, dtype: Dtype, batch: int, too_slow: Collection[TimedKernel]
    ) -> dict[TimedKernel, float]:
        """Return the seconds of each candidate of a function; empty if memory is short."""
        candidates = self._candidates(key, FUNCTIONS[key.function], batch, dtype)
        record = self._module.kernels.by_name[candidates[0].kernel]
        shapes = (*record.inputs.values(), *record.outputs.values())
        size = batch * np.dtype(dtype).itemsize * sum(map(math.prod, shapes))
        if size > _SHARE_OF_MEMORY * self._clock.free_bytes():
            return {}
        inputs = self._drawn(record, dtype, batch)
        outs = tuple(
            self._clock.placed(np.zeros((batch, *shape), dtype))
            for shape in record.outputs.values()
        )
        out = outs if len(outs) > 1 else outs[0]
        named = {timed_kernel(one, self.place, dtype): one for one in candidates}
        calls = {key: self._call(named[key], inputs, out) for key in named if key not in too_slow}
        return least(self._clock, calls)

    def _drawn(self, record: Kernel, dtype: Dtype, batch: int) -> dict[str, Array]:
        """Return arguments of random states; large batches repeat states."""
        rng = np.random.default_rng(_SEED)
        space = self._module.description.space
        few = min(batch, _DRAWN)
        arguments = FUNCTIONS[record.key.function].arguments
        drawn: dict[str, Array] = {}
        for name in arguments:
            shape = record.inputs[name]
            if name in configurations(arguments):
                numbers = random_configuration(space, rng, few)
            else:
                numbers = rng.normal(size=(few, *shape))
            # Repeat the first states.
            drawn[name] = self._clock.placed(np.resize(numbers.astype(dtype), (batch, *shape)))
        return drawn

    def _call(self, candidate: Candidate, inputs: dict[str, Array], out: Any) -> Call:
        """Return a call of one candidate."""
        record = self._module.kernels.by_name[candidate.kernel]
        function, device = record.key.function, self._selection.device
        if candidate.block not in self._pinned:
            evaluator = Evaluator(self._module, device, _Pinned(self._module, candidate.block))
            resolver = Resolver(self._module, evaluator)
            self._pinned[candidate.block] = resolver, Binder(self._module, evaluator)
        row = FUNCTIONS[function]
        options = {"schedule": candidate.schedule, row.method_word: candidate.method}
        chosen = {
            option: word for option, word in options.items() if option in row.options and word
        }
        resolver, binder = self._pinned[candidate.block]
        return binder.bind(resolver.resolve_named(function, *inputs.values(), out=out, **chosen))


def tune(module: Module, selection: TuneSelection, progress: Progress | None = None) -> Tuned:
    """Measure the candidates of ``auto``, and cache the times.

    Cached times of other functions and types remain valid.

    Raises:
        DeviceError:  the device is not available.
        ModelError:   the robot does not support a function.
        GridGenError: the times cannot be cached.
    """
    measurement = _Measurement(module, selection)
    times: dict[TimedKernel, dict[int, float]] = {}
    keys = [*measurement.keys()]
    every_form = [(key, dtype) for key in keys for dtype in selection.dtypes]
    with announced("measuring", progress=progress, names_steps=True) as shown:
        for number, (key, dtype) in enumerate(every_form, 1):
            name = f"{key.function} in {dtype} on {selection.device}"
            shown(Step.of("measuring", name, number, len(every_form)))
            too_slow: set[TimedKernel] = set()
            for batch in sorted(set(selection.batches)):
                found = measurement.times(key, dtype, batch, too_slow)
                for candidate, seconds in found.items():
                    times.setdefault(candidate, {})[batch] = seconds
                    if batch >= _FEW and seconds > _TOO_SLOW * min(found.values()):
                        too_slow.add(candidate)
    description, place = module.description, measurement.place
    known = find_profile(description.digest, place)[0]
    every = {**known.times, **times} if known else times
    profile = Profile(description.name, description.digest, place, selection.any_method, every)
    if times:
        profile.keep()
    return Tuned(profile, tuple(_outcomes(module, profile, keys, selection)))


def _outcomes(
    module: Module, profile: Profile, keys: Sequence[KernelKey], selection: TuneSelection
) -> Iterator[Outcome]:
    """Yield the selection of ``auto`` for each function and batch."""
    after = Planner(module)
    before = Planner(module, use_profiles=False)
    for key in keys:
        row = FUNCTIONS[key.function]
        for dtype in selection.dtypes:
            for batch in sorted(set(selection.batches)):
                found = after.plan(key, row, batch, profile.place, dtype).chosen
                by_default = before.plan(key, row, batch, profile.place, dtype).chosen
                took = profile.seconds(timed_kernel(by_default, profile.place, dtype), batch)
                if found.is_measured and found.seconds is not None and took is not None:
                    yield Outcome(key.function, dtype, batch, found, found.seconds, took)
