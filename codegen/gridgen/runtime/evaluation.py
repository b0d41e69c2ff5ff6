"""From arguments to results: checks, memory, dispatch to a compiled kernel."""

from __future__ import annotations

import ctypes
import functools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np

from gridgen.backends import TARGETS, THREAD_SCHEDULE, Kernel, Launch, Target, backend, target_for
from gridgen.backends.direct import DirectCall, DirectKernel, as_arguments
from gridgen.backends.interface import Arguments
from gridgen.errors import DeviceError, OptionError, ShapeError
from gridgen.functions.arrays import ARRAYS, DEFAULTED
from gridgen.functions.types import Array, BackendChoice
from gridgen.kernel import Kernel as KernelRecord
from gridgen.kernel import TeamLaunch
from gridgen.naming import show
from gridgen.runtime.arrays import (
    DTYPES,
    address,
    check_dtype,
    check_like,
    in_place_strides,
    on_device,
    result_arrays,
)
from gridgen.runtime.description import Module
from gridgen.runtime.libraries import adopt, memory_of, namespace, on_gpu, restored
from gridgen.runtime.lie import needs_normalising, normalise
from gridgen.runtime.progress import announced
from gridgen.runtime.staging import operand, result_operand, run_in_parts

STANDARD_GRAVITY = (0.0, 0.0, -9.81)
BACKENDS: tuple[str, ...] = get_args(BackendChoice)
# States of one launch of a kernel that needs scratch memory for each.
_STATES_WITH_WORKSPACE = 1024
# Memory that a launch of a kernel with loops may take for what they keep, and the states that it
# has in any case: a warp of them.
_ROOM_BYTES = 1 << 30
_LEAST_STATES = 32
# Bytes of the widest pack of numbers, one for each of several states.
_PACK_BYTES = 64


class _Direct(NamedTuple):
    """A compiled function that reads NumPy arrays itself."""

    call: DirectCall
    kernel: DirectKernel
    result_shapes: tuple[tuple[int, ...], ...]
    gravity: Array


@dataclass(frozen=True)
class Call:
    """One evaluation: arguments that have been checked, and memory for the results.

    Attributes:
        kernel:  what computes it.
        inputs:  NumPy or CuPy arrays by name, defaults filled in.
        results: arrays for the results, the caller's own where there are such.
        batch:   number of states; ``None`` for one without a batch axis.
        like:    the argument whose library the results shall have.
        out:     what the caller gave for the results.
    """

    kernel: KernelRecord
    inputs: dict[str, Array]
    results: list[Array]
    batch: int | None
    like: Any
    out: Any

    @property
    def answer(self) -> Any:
        """What the caller gets, when the results have been computed."""
        if self.out is not None:
            return self.out
        results = [restored(result, self.like) for result in self.results]
        return results[0] if len(results) == 1 else tuple(results)


class Evaluator:
    """Evaluates the functions of one module, each compiled when first called.

    Args:
        module:  the robot's description and source text.
        backend: ``auto``, ``cpu``, ``cuda`` or ``emulated``.
    """

    def __init__(self, module: Module, backend: str) -> None:
        check_choice("backend", backend, BACKENDS)
        self._module = module
        self._backend = backend
        self._description = module.description
        self._kernels: dict[tuple[str, str, str], Kernel] = {}
        self._constants: dict[tuple[str, str], Array] = {}
        self._direct: dict[tuple[str, Any], _Direct] = {}

    def evaluate(
        self,
        kernel: KernelRecord,
        inputs: dict[str, Array | None],
        backend_name: str | None = None,
        out: Any = None,
    ) -> Any:
        """Check the arguments, compile the kernel if need be, and run it.

        Args:
            kernel:       what to run.
            inputs:       arguments by name, in the kernel's order; ``None`` for the default.
            backend_name: overrides the module's.
            out:          array for the result; a tuple for a kernel with several.

        Returns:
            the result; a tuple for a kernel with several.
        """
        if backend_name is None:
            results = self._evaluate_directly(kernel, inputs, out)
            if results is not None:
                return results
        # Memory is allocated, and kernels are launched, on the device where q lies.
        q = adopt(inputs["q"], "q")
        with on_device(q):
            call = self.prepare(kernel, inputs, q, out)

            def run(part: list[Array], states: int) -> None:
                self._run(call, part, backend_name, states)

            return self.computed(call, run)

    def prepare(
        self, kernel: KernelRecord, inputs: dict[str, Array | None], q: Array, out: Any
    ) -> Call:
        """Check the arguments of a kernel, its adopted ``q`` too, and make room for results."""
        check_dtype(q, "q")
        batch = q.shape[0] if q.ndim == len(kernel.inputs["q"]) + 1 else None
        arrays = {
            name: self._argument(name, shape, q if name == "q" else inputs[name], q, batch)
            for name, shape in kernel.inputs.items()
        }
        lead = () if batch is None else (batch,)
        outputs = {name: (*lead, *shape) for name, shape in kernel.outputs.items()}
        results = result_arrays(out, outputs, q)
        return Call(kernel, arrays, results, batch, inputs["q"], out)

    def _evaluate_directly(
        self, kernel: KernelRecord, inputs: dict[str, Array | None], out: Any
    ) -> Any | None:
        """Run a compiled function on NumPy arrays that need no adaptation, or return ``None``.

        The compiled code checks types, shapes and strides itself; what it declines, the general
        way examines and explains.
        """
        q = inputs["q"]
        if type(q) is not np.ndarray:
            return None
        entry = self._direct.get((kernel.name, q.dtype))
        if entry is None:
            return None
        if inputs.get("gravity", entry) is None:
            inputs["gravity"] = entry.gravity
        if len(entry.result_shapes) == 1:
            shape = q.shape[:-1] + entry.result_shapes[0]
            results = np.empty(shape, q.dtype) if out is None else out
            arrays = (*inputs.values(), results)
        elif out is None:
            lead = q.shape[:-1]
            results = tuple(np.empty(lead + s, q.dtype) for s in entry.result_shapes)
            arrays = (*inputs.values(), *results)
        elif isinstance(out, (tuple, list)):
            results = out
            arrays = (*inputs.values(), *results)
        else:
            return None
        arguments = entry.call(*arrays)
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

    def _argument(
        self, name: str, shape: tuple[int, ...], value: Array | None, q: Array, batch: int | None
    ) -> Array:
        """Return one input as an array that a kernel can read, checked against ``q``."""
        if value is None and name in DEFAULTED:
            return self._constant(name, shape, q)
        array = adopt(value, name, q)
        check_dtype(array, name)
        check_like(array, name, q)
        wanted = shape if batch is None else (batch, *shape)
        is_shared = ARRAYS[name].shared
        if array.shape != wanted and not (is_shared and array.shape == shape):
            needed = _wanted(name, shape, batch, is_shared)
            raise ShapeError(
                f"{name} has shape {array.shape}; {self._description.name} needs {needed}"
            )
        return array

    def _constant(self, name: str, shape: tuple[int, ...], q: Array) -> Array:
        """Return the default of an input: one state, read by the whole batch."""
        device = q.device.id if on_gpu(q) else "cpu"
        key = (name, f"{device} {DTYPES[q.dtype]}")
        if key not in self._constants:
            default = STANDARD_GRAVITY if name == "gravity" else np.zeros(shape)
            self._constants[key] = namespace(q).asarray(default, dtype=q.dtype)
        return self._constants[key]

    def computed(self, call: Call, run: Callable[[list[Array], int], None]) -> Any:
        """Return the results of a call on arrays of any layout.

        Args:
            call: its arguments; quaternions may be nearly normalised.
            run:  computes so many states of inputs and outputs that a kernel can work on.
        """
        record, q = call.kernel, call.inputs["q"]
        batch = 1 if call.batch is None else call.batch
        if not batch:
            return call.answer
        space = self._description.space
        # Looking at numbers on a GPU would make every call wait for it.
        is_off = bool(space.free) and not on_gpu(q) and needs_normalising(space, q)
        adjust = functools.partial(normalise, space) if is_off else None
        inputs = [
            operand(array, len(record.inputs[name]), adjust if name == "q" else None)
            for name, array in call.inputs.items()
        ]
        xp = namespace(q)
        outputs = [
            result_operand(xp, array, len(shape), inputs)
            for array, shape in zip(call.results, record.outputs.values(), strict=True)
        ]
        if any(item.copied for item in (*inputs, *outputs)):
            run_in_parts(run, xp, tuple(record.inputs), inputs, outputs, batch)
        else:
            run([*call.inputs.values(), *call.results], batch)
        return call.answer

    def _run(
        self,
        call: Call,
        arrays: list[Array],
        backend_name: str | None,
        batch: int,
    ) -> None:
        record, q = call.kernel, call.inputs["q"]
        arguments = (ctypes.c_int64 * (3 * len(arrays)))()
        axes = [len(shape) for shape in (*record.inputs.values(), *record.outputs.values())]
        for i, array in enumerate(arrays):
            strides = in_place_strides(array, axes[i])
            assert strides is not None
            arguments[3 * i : 3 * i + 3] = [address(array), *strides]
        kernel = self._kernel(call.kernel, q, backend_name)
        team, room = record.team, 0
        if team is None and self.target(q, backend_name).teams:
            room = self._module.sources(record).room.get(record.name, 0)
        if team is not None and team.workspace_numbers is not None:
            _run_with_workspace(kernel, arguments, batch, team, q)
        elif room:
            _run_with_room(kernel, arguments, batch, room, q)
        else:
            kernel(arguments, batch)

    def target(self, q: Array, backend_name: str | None) -> Target:
        """Return the target that computes with ``q``, an adopted array, or is asked to."""
        chosen = self._backend if backend_name is None else backend_name
        check_choice("backend", chosen, BACKENDS)
        return target_for(memory_of(q)) if chosen == "auto" else TARGETS[chosen]

    def _kernel(self, record: KernelRecord, q: Array, backend_name: str | None) -> Kernel:
        target = self.target(q, backend_name)
        check_memory(q, target)
        key = (record.name, DTYPES[q.dtype], target.name)
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._compile(record, q, target)
            self._kernels[key] = kernel
            if target is self.target(q, None):
                self._offer_directly(record, q, kernel)
        return kernel

    def _offer_directly(self, record: KernelRecord, q: Array, kernel: Kernel) -> None:
        """Note a function that can be called without the general way's checks."""
        if isinstance(kernel, DirectKernel) and kernel.direct is not None:
            results = tuple(record.outputs.values())
            gravity = self._constant("gravity", (3,), q)
            self._direct[record.name, q.dtype] = _Direct(kernel.direct, kernel, results, gravity)

    def _compile(self, record: KernelRecord, q: Array, target: Target) -> Kernel:
        launch = THREAD_SCHEDULE
        if (team := record.team) is not None:
            shared = team.shared_numbers * q.dtype.itemsize
            launch = Launch(team.threads_per_block, team.states_per_block, shared)
        task = f"compiling {record.name} of {self._description.name} for {target.name}"
        with announced(task):
            sources = self._module.sources(record)
            if not target.teams:
                _check_size(self._description.name, record, sources.room.get(record.name, 0))
            return backend(target.name).kernel(sources, record.name, DTYPES[q.dtype], launch)


def _check_size(robot: str, record: KernelRecord, room: int) -> None:
    """Raise unless what a kernel keeps of the states of one pack fits into the machine's memory."""
    shapes = (*record.inputs.values(), *record.outputs.values())
    needed = (sum(map(math.prod, shapes)) + room) * _PACK_BYTES
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # a system that does not tell
        return
    if needed > there:
        raise DeviceError(
            f"{robot}: {record.name} takes {needed / 1e9:.0f} GB for the states that are computed "
            f"side by side, and this machine has {there / 1e9:.0f} GB: its results are too many"
        )


def _run_with_workspace(
    kernel: Kernel, arguments: Arguments, batch: int, team: TeamLaunch, q: Array
) -> None:
    """Run a kernel that takes scratch memory, a row for each state of a launch."""
    numbers = team.workspace_numbers or 0
    most = _STATES_WITH_WORKSPACE if numbers else batch
    rows = -(-min(batch, most) // team.states_per_block) * team.states_per_block
    workspace = namespace(q).empty((rows, numbers), dtype=q.dtype)
    scratch = (address(workspace), numbers, 1) if numbers else (0, 0, 0)
    _run_in_turns(kernel, arguments, batch, most, scratch, q.dtype.itemsize)


def _run_with_room(
    kernel: Kernel, arguments: Arguments, batch: int, numbers: int, q: Array
) -> None:
    """Run a kernel whose loops keep numbers of each state: neighbours side by side."""
    states = max(_ROOM_BYTES // (numbers * q.dtype.itemsize), _LEAST_STATES)
    states = min(batch, states)
    room = namespace(q).empty((numbers, states), dtype=q.dtype)
    _run_in_turns(kernel, arguments, batch, states, (address(room), 1, states), q.dtype.itemsize)


def _run_in_turns(
    kernel: Kernel,
    arguments: Arguments,
    batch: int,
    most: int,
    scratch: tuple[int, int, int],
    itemsize: int,
) -> None:
    """Run a kernel on so many states at a time, all with the same scratch memory."""
    for begin in range(0, batch, max(most, 1)):
        part = (ctypes.c_int64 * (len(arguments) + 3))(*arguments, *scratch)
        for i in range(0, len(arguments), 3):
            part[i] += begin * part[i + 1] * itemsize
        kernel(part, min(batch - begin, most))


def _wanted(name: str, shape: tuple[int, ...], batch: int | None, is_shared: bool) -> str:
    if name == "q":
        return f"(B, {', '.join(map(str, shape))}) or {shape}"
    if batch is None:
        return f"{shape} for one state, as q has no batch axis"
    shared = f" or {shape}" if is_shared else ""
    return f"{(batch, *shape)}{shared}, as q has {batch} states"


def check_memory(q: Array, target: Target) -> None:
    """Raise unless a target computes with arrays that lie where ``q`` does."""
    if target.arrays != memory_of(q):
        wanted = {
            "device": "arrays on the GPU: cupy.asarray(q), ...",
            "host": "arrays on the CPU: cupy.asnumpy(q), ...",
        }
        raise DeviceError(f'backend "{target.name}" needs {wanted[target.arrays]}')


def check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless an option has one of the values offered."""
    if not isinstance(value, str) or value not in choices:
        raise OptionError(f"{option} is {show(str(value))}; choose one of {', '.join(choices)}")
