"""Compiled kernels of a robot, the memory that they need, and their launches."""

from __future__ import annotations

import ctypes
import math
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, get_args

from numpy.typing import NDArray

from gridgen.backends import (
    TARGETS,
    THREAD_SCHEDULE,
    Launch,
    RunnableKernel,
    Target,
    backend,
    target_for,
)
from gridgen.backends.cpu.direct import DirectKernel, as_arguments
from gridgen.backends.interface import Arguments, FormKernel
from gridgen.errors import DeviceError, OptionError, warn
from gridgen.functions.types import Array, BackendChoice
from gridgen.kernel import WARP, Kernel, Shape, TeamLaunch
from gridgen.naming import check_choice, show_value
from gridgen.progress import announced
from gridgen.runtime.arrays.layout import DTYPES, address
from gridgen.runtime.arrays.libraries import adopt, empty, memory_of, on_gpu
from gridgen.runtime.module.description import Module
from gridgen.runtime.planning.devices import place_of
from gridgen.runtime.planning.planner import Planner

# Most scratch memory of a launch, and the least states of teams, which may exceed it: smaller
# launches would leave a GPU idle. For the same reason, loops have memory for the threads that fill
# it.
_SCRATCH_BYTES = 1 << 30
_TEAMS = 1024


class Scratch(NamedTuple):
    """Scratch memory of a kernel; successive launches share it."""

    states: int  #: number of states of a launch.
    #: address, batch stride and component stride, as of any other array.
    numbers: tuple[int, int, int]
    array: Array | None  #: the memory, if any.


def workspace(team: TeamLaunch, batch: int, like: Any) -> Scratch:
    """Return scratch memory for a kernel of teams: a row for each state of a launch.

    ``like`` is an array of the caller's library on the device that computes, see ``empty``.
    """
    numbers, block = team.workspace_numbers, team.states_per_block
    if not numbers:
        return Scratch(max(batch, 1), (0, 0, 0), None)
    count = min(max(batch, 1), max(_SCRATCH_BYTES // (numbers * like.dtype.itemsize), _TEAMS))

    def rows(blocks: int) -> Array:
        return _made((blocks * block, numbers), like)

    array = _largest_that_fits(rows, -(-count // block), 1)
    return Scratch(len(array), (address(array), numbers, 1), array)


def launched_states(numbers: int, batch: int, itemsize: int, filling: int = WARP) -> int:
    """Return the states of a launch of a kernel with loops: whole warps, or all.

    Args:
        numbers:  scratch numbers per state.
        batch:    states of a call.
        itemsize: bytes of a number.
        filling:  threads that fill the device.
    """
    most = max(_SCRATCH_BYTES // (numbers * itemsize), filling)
    return min(max(batch, 1), most // WARP * WARP)


def loop_scratch(numbers: int, batch: int, like: Any, filling: int = WARP) -> Scratch:
    """Return scratch memory for a kernel's loops: numbers of neighboring states are adjacent."""
    count = launched_states(numbers, batch, like.dtype.itemsize, filling)

    def columns(states: int) -> Array:
        return _made((numbers, states), like)

    array = _largest_that_fits(columns, count, WARP)
    states = array.shape[1]
    return Scratch(states, (address(array), 1, states), array)


def _made(shape: Shape, like: Any) -> Array:
    return adopt(empty(shape, like), "scratch memory")


def _largest_that_fits(make: Callable[[int], Array], count: int, least: int) -> Array:
    """Allocate memory for a number of states or blocks, or fewer if memory is short.

    Raises:
        MemoryError: the minimum cannot be allocated.
    """
    while True:
        try:
            return make(count)
        except MemoryError:
            if count <= least:
                raise
            count = max(count // 2, least)


def chunks(
    numbers: Sequence[int], batch: int, itemsize: int, scratch: Scratch | None
) -> Iterator[tuple[Arguments, int]]:
    """Yield the arguments of a kernel, and the number of states, for each launch.

    Args:
        numbers:  address, batch stride and component stride of each array.
        batch:    number of states.
        itemsize: bytes of one array element.
        scratch:  scratch memory of the kernel, or ``None``.
    """
    if scratch is None:
        yield arguments_of(numbers), batch
        return
    for begin in range(0, batch, scratch.states):
        part = [*numbers, *scratch.numbers]
        for i in range(0, len(numbers), 3):
            part[i] += begin * part[i + 1] * itemsize
        yield arguments_of(part), min(batch - begin, scratch.states)


def arguments_of(numbers: Sequence[int]) -> Arguments:
    """Return the arguments of a kernel."""
    return as_arguments(array("q", numbers).tobytes())  # faster than a loop over the numbers


BACKENDS: tuple[str, ...] = get_args(BackendChoice)
#: Bytes of the widest pack: one number for each of several states.
PACK_BYTES = 64


class Compiled(NamedTuple):
    """A compiled kernel with its memory requirements."""

    kernel: RunnableKernel  #: the compiled function.
    record: Kernel  #: record of the kernel.
    numbers: int  #: scratch numbers per state of its loops; 0 if it needs none.
    is_given_scratch: bool  #: whether the caller allocates its scratch memory.
    filling: int = WARP  #: threads that fill the device.

    def scratch(self, states: int, like: Any, further: int = 0) -> Scratch | None:
        """Return scratch memory for a call.

        Args:
            states:  number of states.
            like:    an array of the caller's library on the device that computes.
            further: further scratch numbers per state of this call, in addition to the loops'.
        """
        team = self.record.team
        if team is not None and team.workspace_numbers is not None:
            return workspace(team, states, like)
        numbers = self.numbers + further if self.is_given_scratch else 0
        return loop_scratch(numbers, states, like, self.filling) if numbers else None

    def launch(self, states: int, like: Any, further: int, numbers: list[int]) -> None:
        """Compute a number of states.

        Args: as of ``scratch``, and
            numbers: addresses and strides of the arrays.
        """
        scratch = self.scratch(states, like, further)
        for arguments, count in chunks(numbers, states, like.dtype.itemsize, scratch):
            self.kernel(arguments, count)

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


class CompiledKernels:
    """The kernels of one module, each compiled at its first call.

    Args:
        module:  the robot's description and source text.
        backend: ``auto``, ``cpu``, ``cuda`` or ``emulated``.
        planner: selects launches.

    Attributes:
        not_converged: the flags of kernels, set if their iterations ended early; none after a
                       warning.
    """

    def __init__(self, module: Module, backend: str, planner: Planner) -> None:
        check_choice("backend", backend, BACKENDS)
        self._module, self._backend, self._planner = module, backend, planner
        self._found: dict[tuple[str, Any, str], Compiled] = {}
        self.not_converged: list[list[ctypes.c_int]] = []
        self._has_warned = False

    def forget(self) -> None:
        """Discard loaded kernels: other launches may be faster."""
        self._found.clear()

    def target(self, q: Array, backend_name: str | None) -> Target:
        """Return the selected target, or the one for ``q``, an adopted array."""
        chosen = self._backend if backend_name is None else backend_name
        check_choice("backend", chosen, BACKENDS)
        return target_for(memory_of(q)) if chosen == "auto" else TARGETS[chosen]

    def find(self, record: Kernel, q: Array, backend_name: str | None, batch: int = 0) -> Compiled:
        """Return the kernel for ``q``, an adopted array, compiled when necessary.

        ``batch`` is the number of states of the call, 0 if unknown.

        Raises:
            OptionError: the backend does not exist.
            DeviceError: the backend does not support the device of ``q``.
        """
        target = self.target(q, backend_name)
        check_memory(q, target)
        key = record.name, q.dtype, target.name
        found = self._found.get(key)
        if found is None:
            kernel = self._compile(record, q, target, batch)
            flags: list[ctypes.c_int] | None = getattr(kernel, "not_converged", None)
            if "tolerance" in record.inputs and flags is not None and not self._has_warned:
                self.not_converged.append(flags)
            has_scratch = record.team is None and target.teams
            numbers = self._module.sources(record).scratch.get(record.name, 0) if has_scratch else 0
            filling = place_of(q).device.filling if target.prefers_teams and numbers else WARP
            found = self._found[key] = Compiled(kernel, record, numbers, has_scratch, filling)
        return found

    def warn_if_not_converged(self) -> None:
        """Warn, once, if the iterations of a kernel ended before all states had converged."""
        if any(flag.value for flags in self.not_converged for flag in flags):
            self.not_converged, self._has_warned = [], True
            warn(
                f"{self._module.description.name}: the contact solver has not converged in every "
                "state; contact_residual returns the errors: load with "
                'contact={"iterations": ...}, more than now, or give a larger tolerance'
            )

    def _compile(self, record: Kernel, q: Array, target: Target, batch: int) -> RunnableKernel:
        launch = THREAD_SCHEDULE
        if (team := record.team) is not None:
            shared = team.shared_numbers * q.dtype.itemsize
            launch = Launch(team.threads_per_block, team.states_per_block, shared)
        elif target.prefers_teams:
            launch = self._planner.launch(record, place_of(q), DTYPES[q.dtype])
        robot = self._module.description.name
        with announced(f"compiling {record.name} of {robot} for {target.name}"):
            sources = self._module.sources(record)
            if not target.teams:
                _check_size(robot, record, sources.scratch.get(record.name, 0))
            dtype = DTYPES[q.dtype]
            return backend(target.name).kernel(sources, record.name, dtype, launch, batch)


def _check_size(robot: str, record: Kernel, scratch: int) -> None:
    """Raise unless the scratch memory of one pack of states fits into the machine's memory."""
    shapes = (*record.inputs.values(), *record.outputs.values())
    needed = (sum(map(math.prod, shapes)) + scratch) * PACK_BYTES
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # the system does not report its memory
        return
    if needed > there:
        raise DeviceError(
            f"{robot}: {record.name} takes {needed / 1e9:.0f} GB for the states that are computed "
            f"side by side, and this machine has {there / 1e9:.0f} GB: its results are too many"
        )


def check_memory(q: Array, target: Target) -> None:
    """Raise unless a target supports the device of ``q``."""
    if target.arrays == "host" and on_gpu(q):
        raise DeviceError(
            f'backend "{target.name}" needs arrays on the CPU: cupy.asnumpy(q), ...; q is on GPU '
            f"{q.device.id}"
        )


def check_batch(batch: object) -> None:
    """Raise unless a value is a number of states."""
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise OptionError(f"batch is {show_value(batch)}; give a number of states, 1 or more")


def warm_up(
    kernels: CompiledKernels,
    launches: Sequence[tuple[Kernel, NDArray[Any]]],
    batch: int,
    backend: str | None,
    progress: Callable[[str], None] | None,
) -> None:
    """Compile kernels, in both forms where there are two.

    Args:
        kernels:  caches the kernels.
        launches: each kernel with an array like the first one of its calls.
        batch:    number of states of the calls, 0 if unknown.
        backend:  overrides the robot's backend.
        progress: called with a text for each kernel; by default the standard error shows them if
                  they take long.
    """
    # A process that finds all kernels in the cache starts no thread.
    from gridgen.backends.process import side_by_side

    tasks = {
        f"{kernel.name} ({like.dtype})": partial(_make, kernels, kernel, like, batch, backend)
        for kernel, like in launches
    }
    with announced("compiling", progress=progress, names_steps=True) as shown:
        for _ in side_by_side(tasks, shown):
            pass


def _make(
    kernels: CompiledKernels, kernel: Kernel, like: NDArray[Any], batch: int, backend: str | None
) -> None:
    made = kernels.find(kernel, like, backend, batch).kernel
    if isinstance(made, FormKernel):
        made.make(batch)
