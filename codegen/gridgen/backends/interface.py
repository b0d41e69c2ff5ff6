"""Interface of the backends: sources, launches and runnable kernels."""

from __future__ import annotations

import ctypes
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from gridgen.backends.built import Built
from gridgen.errors import OptionError
from gridgen.functions.types import BackendName, Dtype
from gridgen.kernel import WARP

#: Memory of arrays: NumPy's on the host, CuPy's on a device.
Memory = Literal["host", "device"]

# The C++ name of each element type.
SCALARS: Mapping[Dtype, str] = {"float32": "float", "float64": "double"}
#: Bytes per element.
ITEM_BYTES: Mapping[Dtype, int] = {"float32": 4, "float64": 8}

# Element size of values parked in shared memory, and the compute capabilities that do so: those
# with 227 kB per multiprocessor. See gridgen::Parked.
_PARKED_ITEMSIZE = 4
_PARKING = range(90, 120)
# The compute capabilities with packed instructions for two floats. See gridgen_pairs.cuh.
PAIRING = (100, 103)
# Bytes that a thread moves at once.
_ROW_ALIGNMENT = 16
# Dynamic shared memory of a block that needs no function attribute [bytes].
DEFAULT_SHARED_BYTES = 48 * 1024

Arguments: TypeAlias = ctypes.Array[ctypes.c_int64]

# Includes in conditions and comments too: an extra file only costs a compilation.
_INCLUDE = re.compile(r'#[ \t]*include[ \t]*"([^"\n]+)"')


@dataclass(frozen=True)
class Target:
    """Properties of a backend that are available before it is imported."""

    name: BackendName  #: name of the backend.
    arrays: Memory  #: memory of its arrays.
    teams: bool  #: whether it runs kernels with one team of threads per state (scan schedule).
    backend: str  #: its class, ``module:name``.

    @property
    def prefers_teams(self) -> bool:
        """Whether long traced programs run in teams: a GPU thread has few registers."""
        return self.teams and self.arrays == "device"


@dataclass(frozen=True)
class Rows:
    """Shared-memory layout of a kernel that stages rows of its arrays in shared memory."""

    #: elements of a state in each array, inputs first; 0 for an array that is not staged: states
    #: may share it, the robot does not use it, or it does not fit. Empty without a row form.
    lengths: tuple[int, ...]
    numbers: int  #: elements of shared memory per state.
    parked: int = 0  #: elements for long-lived values, for any strides (``gridgen::Parked``).
    #: elements for the results of a rollout, for any strides (``gridgen::RowsOverTime``).
    over_time: int = 0
    pairs: bool = False  #: whether a thread computes two states of some GPUs (float32).

    @classmethod
    def from_data(cls, record: Mapping[str, Any]) -> Rows:
        """Return the record of a JSON object."""
        return cls(**{**record, "lengths": tuple(record["lengths"])})

    def are(self, arguments: Arguments) -> bool:
        """Return whether arrays have contiguous rows and 16-byte alignment.

        Args:
            arguments: address, batch stride and component stride of each array.
        """
        return self.are_contiguous(arguments) and self.are_aligned(arguments[::3])

    def are_contiguous(self, arguments: Arguments) -> bool:
        """Return whether arrays have contiguous rows; see ``are``."""
        for length, batch, component in zip(
            self.lengths, arguments[1::3], arguments[2::3], strict=True
        ):
            if component != 1 or (length and batch != length):
                return False
        return True

    def are_aligned(self, addresses: Sequence[int]) -> bool:
        """Return whether the addresses of staged arrays are 16-byte aligned; see ``are``."""
        for i in self._staged:
            if addresses[i] % _ROW_ALIGNMENT:
                return False
        return True

    @cached_property
    def _staged(self) -> tuple[int, ...]:
        """Indices of the staged arrays."""
        return tuple(i for i, length in enumerate(self.lengths) if length)


@dataclass(frozen=True)
class Sources:
    """Source text of one robot's module."""

    robot: str  #: the robot's identifier and C++ namespace.
    #: file name -> text: ``<robot>.cuh``, ``<robot>.cu``, ``<robot>_simd.h`` and all headers that
    #: they include.
    files: Mapping[str, str]
    #: workspace elements per state of kernels with loops, by name; a GPU kernel receives the
    #: workspace after its outputs.
    scratch: Mapping[str, int] = field(default_factory=dict)
    #: shared-memory layout of the row form of kernels, by name.
    rows: Mapping[str, Rows] = field(default_factory=dict)
    #: code compiled ahead of time.
    built: Built | None = field(default=None, repr=False, compare=False)
    _parts: dict[tuple[str, ...], Sources] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def forms(self, function: str) -> tuple[bool, ...]:
        """Return the forms of a kernel: whether each is for arrays in rows."""
        has_rows = function in self.rows and self.rows[function].lengths
        return (False, True) if has_rows else (False,)

    def included_by(self, text: str) -> Sources:
        """Return the files that a text includes directly or indirectly.

        Only a change of these files requires recompilation of the text.
        """
        direct = tuple(self._includes(text))
        if direct not in self._parts:
            found = dict.fromkeys(direct)
            waiting = [*direct]
            while waiting:
                new = [n for n in self._includes(self.files[waiting.pop()]) if n not in found]
                found.update(dict.fromkeys(new))
                waiting += new
            self._parts[direct] = Sources(self.robot, {name: self.files[name] for name in found})
        return self._parts[direct]

    def _includes(self, text: str) -> Iterator[str]:
        # Match at each "#": a regular-expression search takes fifty times as long.
        at = text.find("#")
        while at >= 0:
            if (found := _INCLUDE.match(text, at)) and found[1] in self.files:
                yield found[1]
            at = text.find("#", at + 1)

    @cached_property
    def digest(self) -> str:
        """Digest of names and texts, cached for the keys of all units."""
        digest = hashlib.sha256()
        for name in sorted(self.files):
            digest.update(hashlib.sha256(name.encode()).digest())
            digest.update(hashlib.sha256(self.files[name].encode()).digest())
        return digest.hexdigest()


@dataclass(frozen=True)
class Launch:
    """Launch configuration of a kernel on a GPU, real or emulated."""

    threads_per_block: int  #: threads per block, 1 to 1024.
    states_per_block: int  #: states per block.
    shared_bytes: int = 0  #: dynamic shared memory per block [bytes].

    def __post_init__(self) -> None:
        if not 1 <= self.threads_per_block <= 1024:
            raise OptionError(
                f"threads per block is {self.threads_per_block}; CUDA allows 1 to 1024"
            )

    def of(self, batch: int) -> Launch:
        """Return the launch for a batch: the same for every batch."""
        return self

    def blocks(self, batch: int) -> int:
        """Return the number of blocks for a batch."""
        return -(-batch // self.states_per_block)


#: Threads per block by batch: ``(states, threads)``, for batches of at least ``states``, from 0.
Blocks: TypeAlias = tuple[tuple[int, int], ...]

#: Threads of the largest block, as in ``__launch_bounds__`` of the kernels; it leaves each thread
#: the maximum number of registers.
LARGEST_BLOCK = 128
#: Default blocks for an unknown kernel and device. Large blocks from one per multiprocessor of a
#: large GPU; for smaller batches, blocks of a warp occupy more multiprocessors.
DEFAULT_BLOCKS: Blocks = ((0, WARP), (132 * LARGEST_BLOCK, LARGEST_BLOCK))


@dataclass(frozen=True)
class ThreadLaunch:
    """Launch configuration for one thread per state, with a block size that depends on the batch.

    These kernels use registers more than shared memory. A small block gives the scheduler finer
    granularity and wastes fewer threads in the last block.
    """

    state_bytes: int = 0  #: dynamic shared memory per state [bytes].
    #: threads per block; halved where they exceed the default shared memory.
    blocks: Blocks = DEFAULT_BLOCKS
    states: int = 1  #: states per thread.

    def of(self, batch: int) -> Launch:
        """Return the launch for a batch."""
        threads = next(threads for states, threads in reversed(self.blocks) if states <= batch)
        shared = self.states * self.state_bytes
        while threads > WARP and threads * shared > DEFAULT_SHARED_BYTES:
            threads //= 2
        return Launch(threads, threads * self.states, threads * shared)


AnyLaunch: TypeAlias = Launch | ThreadLaunch
THREAD_SCHEDULE: AnyLaunch = ThreadLaunch()


def launch_of(
    sources: Sources,
    function: str,
    dtype: Dtype,
    launch: AnyLaunch = THREAD_SCHEDULE,
    *,
    rows: bool = False,
    arch: str | None = None,
) -> AnyLaunch:
    """Return the launch configuration of a kernel compiled for an architecture.

    The shared memory depends on the architecture.

    Args:
        sources:  the robot's module.
        function: name of the function.
        dtype:    element type.
        launch:   threads and states per block.
        rows:     whether the kernel is the row form.
        arch:     ``sm_90`` or ``compute_90``; ``None`` for the emulated backend.
    """
    taken = sources.rows.get(function)
    if taken is None:
        return launch
    assert isinstance(launch, ThreadLaunch)
    numbers, itemsize = taken.over_time + rows * taken.numbers, ITEM_BYTES[dtype]
    capability = None if arch is None else int(arch.partition("_")[2])
    can_park = capability is None or capability in _PARKING
    if can_park and itemsize == _PARKED_ITEMSIZE:
        numbers += taken.parked
    is_paired = taken.pairs and dtype == "float32" and capability in PAIRING
    return replace(launch, state_bytes=numbers * itemsize, states=1 + is_paired)


def optin_shared_bytes(launch: AnyLaunch) -> int:
    """Return the dynamic shared memory that needs a function attribute, 0 if none does [bytes]."""
    most = launch.of(1).shared_bytes  # blocks above a warp never exceed the default
    return most if most > DEFAULT_SHARED_BYTES else 0


def only(function: str) -> tuple[str, str]:
    """Return the macros that exclude the text of all other functions from a unit."""
    return "GRIDGEN_ONLY", f"GRIDGEN_ONLY_{function}"


class RunnableKernel(Protocol):
    """One compiled function for one element type."""

    def __call__(self, arguments: Arguments, batch: int) -> None:
        """Compute ``batch`` states.

        Args:
            arguments: three integers for each array, inputs first, then outputs: address, batch
                       stride and component stride (strides in elements). The caller validates
                       them and owns the memory.
            batch:     number of states, including zero.
        """

    def prepare(self, arguments: Arguments, batch: int) -> Callable[[], object]:
        """Return a function that computes the same states with minimal overhead.

        Args: as those of a call. The memory must outlive the returned function.
        """


@runtime_checkable
class FormKernel(RunnableKernel, Protocol):
    """A kernel with several forms, each compiled when a call needs it."""

    def make(self, batch: int) -> None:
        """Compile the forms for calls of this number of states, 0 if unknown."""


#: Enqueues a computation: the address of each array, and the handle of the stream.
Enqueue: TypeAlias = Callable[[Sequence[int], int], object]


@runtime_checkable
class StreamKernel(RunnableKernel, Protocol):
    """A kernel that enqueues work on streams of a GPU."""

    def prepare_anywhere(self, arguments: Arguments, batch: int) -> Enqueue:
        """Return a function that enqueues a batch for arrays with the same strides at any address.

        Args: as those of a call; addresses are ignored. Arrays and stream belong to the current
        device, which must also be current when the returned function is called.
        """


def kernel_name(robot: str, function: str, *, rows: bool) -> str:
    """Return the C++ name of a kernel, for any strides or for arrays in rows."""
    return f"{robot}::{function}{'_rows' if rows else ''}_kernel"


class Backend(Protocol):
    """A compiler and runtime for the functions of a robot's module on one kind of device."""

    @staticmethod
    def require() -> None:
        """Raise unless this machine can compile and run functions.

        Raises:
            CompileError: the compiler is missing.
            DeviceError:  the GPU, its driver or CuPy is missing.
        """

    def kernel(
        self,
        sources: Sources,
        function: str,
        dtype: Dtype,
        launch: AnyLaunch = THREAD_SCHEDULE,
        batch: int = 0,
    ) -> RunnableKernel:
        """Return ``function`` of the module, compiled for ``dtype``.

        ``batch`` is the number of states of the first call, 0 if unknown. Of a function with
        several forms, the backend may compile the form for that call alone.

        Raises:
            CompileError: the compiler is missing or rejects the source.
            DeviceError:  the backend does not work on this machine.
        """
