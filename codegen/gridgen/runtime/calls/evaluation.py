"""From arguments to results: validation, memory, dispatch to a compiled kernel."""

from __future__ import annotations

import ctypes
import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple, get_args

import numpy as np

from gridgen.backends import (
    TARGETS,
    THREAD_SCHEDULE,
    Launch,
    RunnableKernel,
    Target,
    backend,
    target_for,
)
from gridgen.backends.cpu.direct import DirectCall, DirectKernel, as_arguments
from gridgen.backends.cuda.failures import ERRORS, raise_device_error
from gridgen.backends.interface import Arguments
from gridgen.errors import DeviceError, DtypeError, OptionError, warn
from gridgen.functions.arrays import OPEN, configurations
from gridgen.functions.calls import Request, RolloutSettings
from gridgen.functions.types import Array, BackendChoice
from gridgen.kernel import Kernel as KernelRecord
from gridgen.naming import show
from gridgen.progress import announced
from gridgen.runtime.arrays import staging
from gridgen.runtime.arrays.arguments import Call, checked_call, results_given
from gridgen.runtime.arrays.defaults import TEMPERATURE, default, no_temperatures, number
from gridgen.runtime.arrays.layout import DTYPES, on_device, result_arrays
from gridgen.runtime.arrays.libraries import (
    adopt,
    check_no_capture,
    gpu_of,
    is_native,
    is_traced,
    memory_of,
    on_gpu,
)
from gridgen.runtime.arrays.staging import Batch, Operand, Run, run_in_place
from gridgen.runtime.arrays.streaming import run_streamed
from gridgen.runtime.arrays.streams import caller_streams, first_adopted
from gridgen.runtime.calls.chunks import Scratch, arguments_of, chunks, loop_room, workspace
from gridgen.runtime.calls.launch_cache import LaunchCache, layout_key
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.configurations import needs_normalizing, normalize
from gridgen.runtime.module.description import Module
from gridgen.runtime.parameters import RANGES, out_of_range
from gridgen.runtime.planning.devices import place_of
from gridgen.runtime.planning.planner import Planner
from gridgen.runtime.poses import POSES, no_poses

BACKENDS: tuple[str, ...] = get_args(BackendChoice)
#: Bytes of the widest pack: one number for each of several states.
PACK_BYTES = 64


# The fields of a request that select its kernel, in addition to its options.
_words_of = attrgetter("function", "schedule", "method", "frame", "reference")

#: Evaluates calls with arguments that JAX traces, from the module and the call.
Traced = Callable[[Module, Resolved], Any]


def refuse_traced(module: Module, resolved: Resolved) -> Any:
    """Raise for arguments that JAX traces."""
    raise DtypeError(f"JAX traces an argument of {resolved.kernel.name}; give arrays with numbers")


class _Direct(NamedTuple):
    """A compiled function that reads NumPy arrays itself."""

    call: DirectCall
    kernel: DirectKernel
    result_shapes: tuple[tuple[int, ...], ...]
    defaults: dict[str, Array]


class Compiled(NamedTuple):
    """A compiled kernel with its memory requirements."""

    kernel: RunnableKernel  #: the compiled function.
    record: KernelRecord  #: record of the kernel.
    numbers: int  #: scratch numbers per state of its loops; 0 if it needs none.
    is_given_room: bool  #: whether the caller allocates its scratch memory.

    def scratch(self, states: int, q: Array, further: int = 0) -> Scratch | None:
        """Return scratch memory for a call.

        Args:
            states:  number of states.
            q:       an array on the device that computes.
            further: further scratch numbers per state of this call, in addition to the loops'.
        """
        team = self.record.team
        if team is not None and team.workspace_numbers is not None:
            return workspace(team, states, q)
        numbers = self.numbers + further if self.is_given_room else 0
        return loop_room(numbers, states, q) if numbers else None

    def launch(self, states: int, q: Array, further: int, numbers: list[int]) -> None:
        """Compute a number of states.

        Args: as of ``scratch``, and
            numbers: addresses and strides of the arrays.
        """
        scratch = self.scratch(states, q, further)
        for arguments, count in self.chunks(numbers, states, q, scratch):
            self.kernel(arguments, count)

    def chunks(
        self, numbers: list[int], states: int, q: Array, scratch: Scratch | None
    ) -> Iterator[tuple[Arguments, int]]:
        """Yield arguments and size of each launch: states, or trajectories of many samples."""
        if self.record.along:
            yield arguments_of(numbers), -(-states // numbers[-2])
        else:
            yield from chunks(numbers, states, q.dtype.itemsize, scratch)

    @property
    def direct(self) -> DirectKernel | None:
        """The kernel if NumPy arrays can be passed to it; a rollout's arrays have other axes."""
        kernel = self.kernel
        return kernel if isinstance(kernel, DirectKernel) and not self.record.is_over_time else None

    @property
    def takes_memory(self) -> bool:
        """Whether it needs scratch memory."""
        team = self.record.team
        return bool(self.numbers) or (team is not None and bool(team.workspace_numbers))

    @property
    def takes_scratch(self) -> bool:
        """Whether it has an argument for scratch memory, which may be unused."""
        team = self.record.team
        return bool(self.numbers) or (team is not None and team.workspace_numbers is not None)


class Evaluator:
    """Evaluates the functions of one module, each compiled at its first call.

    Args:
        module:  the robot's description and source text.
        backend: ``auto``, ``cpu``, ``cuda`` or ``emulated``.
        planner: selects launches; by default from its times.
        traced:  evaluates calls with arguments that JAX traces.

    Attributes:
        planner: the planner.
        traced:  evaluates calls with arguments that JAX traces.
    """

    def __init__(
        self,
        module: Module,
        backend: str,
        planner: Planner | None = None,
        traced: Traced = refuse_traced,
    ) -> None:
        check_choice("backend", backend, BACKENDS)
        self._module = module
        self._backend = backend
        self._description = module.description
        self.planner, self.traced = planner or Planner(module), traced
        self._kernels: dict[tuple[str, str, str], RunnableKernel] = {}
        self._compiled: dict[tuple[str, Any, bool, str | None], Compiled] = {}
        self._direct: dict[tuple[str, Any], _Direct] = {}
        self._at_once: dict[tuple[Any, ...], tuple[_Direct, list[Any], tuple[str, ...], Any]] = {}
        self._launches = LaunchCache()
        # Set by kernels whose iterations ended early; none after a warning.
        self._not_converged: list[ctypes.c_int] = []
        self._has_warned = False

    def forget(self) -> None:
        """Discard plans and loaded kernels: new times may have been measured."""
        self.planner.forget()
        self._kernels.clear()
        self._compiled.clear()
        self._direct.clear()
        self._at_once.clear()
        self._launches = LaunchCache()

    def evaluate(self, resolved: Resolved) -> Any:
        """Validate the arguments, compile the kernel when necessary, and run it.

        Returns:
            the result; a tuple for a kernel with several results.
        """
        kernel, inputs, out = resolved.kernel, resolved.inputs, resolved.out
        first = inputs[kernel.first]
        try:
            along = resolved.settings is not None and type(first) is np.ndarray
            if kernel.numbers and not along and is_native(first):
                with on_device(first):
                    for name in kernel.numbers:
                        if type(value := inputs[name]) is float:
                            inputs[name] = number(value, name, first)
            results = None
            if resolved.backend is None and resolved.settings is None:
                results = self._evaluate_directly(kernel, inputs, out)
            if results is None:
                results = self._evaluate(resolved)
        except ERRORS as error:
            raise_device_error(error, gpu_of(first))
            raise
        if self._not_converged:
            self._warn_if_not_converged()
        return results

    def _warn_if_not_converged(self) -> None:
        """Warn, once, if the iterations of a kernel ended before all states had converged."""
        if any(flag.value for flag in self._not_converged):
            self._not_converged, self._has_warned = [], True
            warn(
                f"{self._description.name}: the contact solver has not converged in every state; "
                'contact_residual returns the errors: load with contact={"iterations": ...}, more '
                "than now, or give a larger tolerance"
            )

    def evaluate_fused(self, resolved: Resolved) -> Any:
        """Return the results of fused functions, which one kernel computes."""
        assert resolved.fused is not None
        return resolved.fused.answer(self.evaluate(resolved))

    def evaluate_frames(self, resolved: Resolved) -> Any:
        """Return the results of some frames from the kernel of all frames."""
        kernel, inputs, out = resolved.kernel, resolved.inputs, resolved.out
        chosen = (..., resolved.frames, slice(None), slice(None))
        if out is None:
            return self.evaluate(resolved)[chosen]
        first, (result,) = kernel.first, kernel.outputs
        with first_adopted(inputs[first], first, (*inputs.values(), out)) as q:
            every = replace(resolved, inputs={**inputs, first: q}, out=None)
            found = self.evaluate(every)[chosen]
            (room,) = result_arrays(out, {result: found.shape}, q)
            room[...] = found.get() if on_gpu(found) and not on_gpu(room) else found
        return out

    def _evaluate(self, resolved: Resolved) -> Any:
        """Evaluate with arrays that need full validation."""
        kernel, inputs, out = resolved.kernel, resolved.inputs, resolved.out
        backend_name, settings = resolved.backend, resolved.settings
        values = tuple(inputs.values())
        is_cached = backend_name is None and not kernel.along
        key = layout_key(kernel.name, values, out, settings) if is_cached else None
        if key is not None and (layout := self._launches.get(key)) is not None:
            if not layout.on_host or self._are_usual(kernel, inputs):
                results = layout.computed(values, out)
                if results is not None:
                    return results
        if any(map(is_traced, values)):
            return self.traced(self._module, resolved)
        # Memory is allocated, and kernels are launched, on the caller's stream of q's device.
        with caller_streams((*values, *results_given(out)))():
            q = adopt(inputs[kernel.first], kernel.first)
            with on_device(q):
                call = self.checked(kernel, inputs, q, out, settings)
                results = self.evaluate_checked(call, backend_name)
        if key is not None and call.states and not is_streamed(call.arrays, self.target(q, None)):
            compiled = self.compiled(kernel, q, None)
            if not (on_gpu(q) and compiled.takes_scratch):
                like = np.empty(0, q.dtype)
                launch = functools.partial(compiled.launch, call.states, like, call.trail)
                self._launches.note(key, values, call, compiled.kernel, launch)
        return results

    def _are_accepted(self, inputs: Mapping[str, Any]) -> bool:
        """Return whether compiled code may read these inputs without a message."""
        params = inputs.get("params")
        if params is not None and not self._description.parameters.are_accepted(params):
            return False
        soft = inputs.get(TEMPERATURE)
        if type(soft) is np.ndarray and (soft.dtype.kind != "f" or no_temperatures(soft).any()):
            return False
        for name in POSES:
            pose = inputs.get(name)
            if pose is not None and (type(pose) is not np.ndarray or no_poses(pose).any()):
                return False
        for name in RANGES:
            given = inputs.get(name)
            if given is not None and (
                type(given) is not np.ndarray or out_of_range(name, given).any()
            ):
                return False
        return True

    def _are_usual(self, kernel: KernelRecord, inputs: dict[str, Array | None]) -> bool:
        """Return whether NumPy arrays can be launched without adaptation."""
        space = self._description.space
        if not self._are_accepted(inputs):
            return False
        return not space.free or not any(
            (q := inputs[name]) is not None and needs_normalizing(space, q, name)
            for name in configurations(kernel.inputs)
        )

    def checked(
        self,
        kernel: KernelRecord,
        inputs: dict[str, Array | None],
        q: Array,
        out: Any,
        settings: RolloutSettings | None = None,
    ) -> Call:
        """Validate the arguments of a kernel; see ``checked_call``."""
        return checked_call(self._description, kernel, inputs, q, out, settings)

    def evaluate_checked(self, call: Call, backend_name: str | None = None) -> Any:
        """Run the kernel of a validated call; as ``evaluate``."""
        target = self.target(call.q, backend_name)
        return self.computed(call, target, functools.partial(self._run, call, backend_name))

    def offer(self, request: Request, kernel: KernelRecord) -> None:
        """Compute later calls with NumPy arrays without resolving them, if possible."""
        dtype, options = request.arrays[0].dtype, request.options
        entry = self._direct.get((kernel.name, dtype))
        names = [*kernel.inputs]
        rest = tuple(names[len(request.arrays) :])
        if entry is None or not all(name in options or name in entry.defaults for name in rest):
            return
        defaults = tuple([entry.defaults.get(name) for name in rest])
        numbers = [(names.index(name), name) for name in kernel.numbers]
        self._at_once[(_words_of(request), dtype, *options)] = entry, numbers, rest, defaults

    def at_once(self, request: Request) -> Any | None:
        """Return the results of an offered call with NumPy arrays, else ``None``; see ``offer``."""
        arrays, options = request.arrays, request.options
        q = arrays[0]
        words = _words_of(request), q.dtype
        try:
            known = self._at_once.get((*words, *options) if options else words)
        except TypeError:  # a list of frames
            return None
        if known is None:
            return None
        entry, numbers, names, rest = known
        if options:
            if any([value is None for value in options.values()]):
                return None
            if not self._are_accepted(options):
                return None
            rest = tuple(map(options.get, names, rest))
        for i, name in numbers:
            if type(value := arrays[i]) is float:
                arrays = (*arrays[:i], number(value, name, q), *arrays[i + 1 :])
            elif not self._are_accepted({name: value}):
                return None
        results = self._computed_directly(entry, arrays + rest, q, request.out)
        if self._not_converged:
            self._warn_if_not_converged()
        return results

    def _evaluate_directly(
        self, kernel: KernelRecord, inputs: dict[str, Array | None], out: Any
    ) -> Any | None:
        """Run a compiled function on NumPy arrays without adaptation, or return ``None``."""
        q = inputs[kernel.first]
        if type(q) is not np.ndarray:
            return None
        entry = self._direct.get((kernel.name, q.dtype))
        if entry is None:
            return None
        if not self._are_accepted(inputs):
            return None
        for name, numbers in entry.defaults.items():
            if inputs[name] is None:
                inputs[name] = numbers
        return self._computed_directly(entry, tuple(inputs.values()), q, out)

    def _computed_directly(
        self, entry: _Direct, inputs: tuple[Any, ...], q: Array, out: Any
    ) -> Any | None:
        """Return the results of a compiled function, or ``None``.

        The compiled code validates types, shapes and strides; if it rejects them, the general
        path validates the arguments and raises the error.
        """
        if len(entry.result_shapes) == 1:
            shape = q.shape[:-1] + entry.result_shapes[0]
            results = np.empty(shape, q.dtype) if out is None else out
            arguments = entry.call(*inputs, results)
        elif out is None:
            lead, dtype = q.shape[:-1], q.dtype
            results = tuple([np.empty(lead + shape, dtype) for shape in entry.result_shapes])
            arguments = entry.call(*inputs, *results)
        elif isinstance(out, (tuple, list)):
            results = out
            arguments = entry.call(*inputs, *results)
        else:
            return None
        if arguments is None:
            return None
        if arguments is not True:
            packed = as_arguments(arguments)
            if self._description.space.free and not entry.kernel.has_unit_quaternions(
                packed, len(q)
            ):
                return None
            entry.kernel(packed, len(q))
        return results

    def computed(self, call: Call, target: Target, run: Run) -> Any:
        """Return the results of a call on arrays of any layout, on any device.

        Args:
            call:   its arguments; quaternions may be nearly normalized.
            target: the target that computes it.
            run:    computes states of inputs and outputs on the target's device.
        """
        if not call.states:
            return call.answer
        inputs, space = call.inputs, self._description.space
        # Validating numbers on a GPU would synchronize every call.
        if space.free and not on_gpu(call.q):
            inputs = [*inputs]
            for i, name in call.configurations:
                if needs_normalizing(space, inputs[i].array, name):
                    adjust = functools.partial(normalize, space)
                    inputs[i] = inputs[i]._replace(seen=None, adjust=adjust)
        compute = run_streamed if is_streamed(call.arrays, target) else run_in_place
        part_bytes = None if call.settings is None else staging.ROLLOUT_PART_BYTES
        names = tuple(call.kernel.inputs)
        compute(run, Batch(names, inputs, call.outputs, call.states, part_bytes))
        return call.answer

    def _run(
        self, call: Call, backend_name: str | None, operands: list[Operand], batch: int
    ) -> None:
        """Compute some states of arrays on the kernel's device."""
        q = operands[0].array
        compiled = self.compiled(call.kernel, q, backend_name)
        if compiled.takes_memory or (call.trail and compiled.is_given_room):
            refusal = f"{call.kernel.name} takes memory that a graph would not keep; bind the call"
            check_no_capture(q, refusal)
        compiled.launch(batch, q, call.trail, call.numbers(operands, batch))

    def target(self, q: Array, backend_name: str | None) -> Target:
        """Return the selected target, or the one for ``q``, an adopted array."""
        chosen = self._backend if backend_name is None else backend_name
        check_choice("backend", chosen, BACKENDS)
        return target_for(memory_of(q)) if chosen == "auto" else TARGETS[chosen]

    def compiled(self, record: KernelRecord, q: Array, backend_name: str | None) -> Compiled:
        """Return the kernel for ``q``, an adopted array, compiled when necessary.

        Raises:
            OptionError: the backend does not exist.
            DeviceError: the backend does not support the device of ``q``.
        """
        if backend_name is not None:
            check_choice("backend", backend_name, BACKENDS)
        key = record.name, q.dtype, on_gpu(q), backend_name
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._find(record, q, backend_name)
        return found

    def _find(self, record: KernelRecord, q: Array, backend_name: str | None) -> Compiled:
        target = self.target(q, backend_name)
        check_memory(q, target)
        key = (record.name, DTYPES[q.dtype], target.name)
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._compile(record, q, target)
            self._kernels[key] = kernel
            flag: ctypes.c_int | None = getattr(kernel, "not_converged", None)
            if "tolerance" in record.inputs and flag is not None and not self._has_warned:
                flag.value = 0
                self._not_converged.append(flag)
            if target is self.target(q, None) and not record.is_over_time:
                self._offer_directly(record, q, kernel)
        has_room = record.team is None and target.teams
        numbers = self._module.sources(record).room.get(record.name, 0) if has_room else 0
        return Compiled(kernel, record, numbers, has_room)

    def _offer_directly(self, record: KernelRecord, q: Array, kernel: RunnableKernel) -> None:
        """Store a function that can be called without general validation."""
        is_open = any(OPEN in shape for shape in record.inputs.values())
        if isinstance(kernel, DirectKernel) and kernel.direct is not None and not is_open:
            results = tuple(record.outputs.values())
            own = self._description.parameters.own
            defaults = {
                name: default(name, shape, q, own.get(name))
                for name, shape in record.inputs.items()
                if name == "gravity" or name in own
            }
            self._direct[record.name, q.dtype] = _Direct(kernel.direct, kernel, results, defaults)

    def _compile(self, record: KernelRecord, q: Array, target: Target) -> RunnableKernel:
        launch = THREAD_SCHEDULE
        if (team := record.team) is not None:
            shared = team.shared_numbers * q.dtype.itemsize
            launch = Launch(team.threads_per_block, team.states_per_block, shared)
        elif target.prefers_teams:
            launch = self.planner.launch(record, place_of(q), DTYPES[q.dtype])
        task = f"compiling {record.name} of {self._description.name} for {target.name}"
        with announced(task):
            sources = self._module.sources(record)
            if not target.teams:
                _check_size(self._description.name, record, sources.room.get(record.name, 0))
            return backend(target.name).kernel(sources, record.name, DTYPES[q.dtype], launch)


def _check_size(robot: str, record: KernelRecord, room: int) -> None:
    """Raise unless the scratch memory of one pack of states fits into the machine's memory."""
    shapes = (*record.inputs.values(), *record.outputs.values())
    needed = (sum(map(math.prod, shapes)) + room) * PACK_BYTES
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # the system does not report its memory
        return
    if needed > there:
        raise DeviceError(
            f"{robot}: {record.name} takes {needed / 1e9:.0f} GB for the states that are computed "
            f"side by side, and this machine has {there / 1e9:.0f} GB: its results are too many"
        )


def is_streamed(arrays: Iterable[Array], target: Target) -> bool:
    """Return whether a GPU computes with arrays that are partly on the host."""
    return target.arrays == "device" and not all(map(on_gpu, arrays))


def check_memory(q: Array, target: Target) -> None:
    """Raise unless a target supports the device of ``q``."""
    if target.arrays == "host" and on_gpu(q):
        raise DeviceError(
            f'backend "{target.name}" needs arrays on the CPU: cupy.asnumpy(q), ...; q is on GPU '
            f"{q.device.id}"
        )


def check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless an option has one of the valid values."""
    if not isinstance(value, str) or value not in choices:
        raise OptionError(f"{option} is {show(str(value))}; choose one of {', '.join(choices)}")
