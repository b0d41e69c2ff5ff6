"""What a backend receives and what it gives back: the one contract of this stage."""

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

#: Where arrays lie: NumPy's on the host, CuPy's on a device.
Memory = Literal["host", "device"]

# The spelling of each element type in C++.
SCALARS: Mapping[Dtype, str] = {"float32": "float", "float64": "double"}
#: Bytes of a number.
ITEM_BYTES: Mapping[Dtype, int] = {"float32": 4, "float64": 8}

# Of values that a kernel parks in shared memory, and where it does: on multiprocessors that have
# 227 kB of it. See gridgen::Parked.
_PARKED_ITEMSIZE = 4
_PARKING = range(90, 120)
# A thread moves so many bytes at once.
_ROW_ALIGNMENT = 16
# Dynamic shared memory that any device grants a block without being asked.
DEFAULT_SHARED_BYTES = 48 * 1024

Arguments: TypeAlias = ctypes.Array[ctypes.c_int64]

# Under a condition or in a comment too: a file too many costs a compilation, one too few a result.
_INCLUDE = re.compile(r'#[ \t]*include[ \t]*"([^"\n]+)"')


@dataclass(frozen=True)
class Target:
    """What is known of a backend before it is loaded.

    Attributes:
        name:    the word a user chooses it by.
        arrays:  where the arrays lie that it computes with.
        teams:   whether it runs kernels of teams of threads, those of the scan schedule.
        backend: its class, ``module:name``.
    """

    name: BackendName
    arrays: Memory
    teams: bool
    backend: str

    @property
    def prefers_teams(self) -> bool:
        """Whether long programs are for teams: a thread of a GPU has few registers."""
        return self.teams and self.arrays == "device"


@dataclass(frozen=True)
class Rows:
    """What a kernel takes that moves the rows of its arrays through shared memory.

    Attributes:
        lengths: numbers of a state in each array, inputs first; 0 for one that is read in place:
                 states may share it, the robot needs none of it, or there is no room.
        numbers: of shared memory for a state.
        parked:  values that wait long, whatever the strides (``gridgen::Parked``).
    """

    lengths: tuple[int, ...]
    numbers: int
    parked: int = 0

    @classmethod
    def from_data(cls, record: Mapping[str, Any]) -> Rows:
        """Return what JSON has of its fields."""
        return cls(tuple(record["lengths"]), record["numbers"], record["parked"])

    def are(self, arguments: Arguments) -> bool:
        """Tell whether arrays are rows, one behind the other, that 16 bytes can be taken of.

        Args:
            arguments: address, batch stride and component stride of each array.
        """
        return self.are_contiguous(arguments) and self.are_aligned(arguments[::3])

    def are_contiguous(self, arguments: Arguments) -> bool:
        """Tell whether arrays have the strides of rows; see ``are``."""
        for length, batch, component in zip(
            self.lengths, arguments[1::3], arguments[2::3], strict=True
        ):
            if component != 1 or (length and batch != length):
                return False
        return True

    def are_aligned(self, addresses: Sequence[int]) -> bool:
        """Tell whether 16 bytes can be taken of arrays at these addresses; see ``are``."""
        for i in self._places:
            if addresses[i] % _ROW_ALIGNMENT:
                return False
        return True

    @cached_property
    def _places(self) -> tuple[int, ...]:
        """Which of the arrays are moved."""
        return tuple(i for i, length in enumerate(self.lengths) if length)


@dataclass(frozen=True)
class Sources:
    """The text of one robot's module.

    Attributes:
        robot: the robot's identifier, which is also its C++ namespace.
        files: file name -> text: ``<robot>.cuh``, ``<robot>.cu``, ``<robot>_simd.h`` and every
               header they include.
        room:  the numbers that a kernel's loops keep of a state, by name; a kernel of a GPU is
               given memory for them, after its results.
        rows:  what the second form of a kernel takes, for arrays in rows, by its name.
        built: code of it that has been compiled ahead.
    """

    robot: str
    files: Mapping[str, str]
    room: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, Rows] = field(default_factory=dict)
    built: Built | None = field(default=None, repr=False, compare=False)
    _parts: dict[tuple[str, ...], Sources] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def included_by(self, text: str) -> Sources:
        """Return the part of the module that a text includes, itself or through other files.

        What a unit is made of decides whether it must be compiled anew, nothing else does.
        """
        wanted = tuple(self._includes(text))
        if wanted not in self._parts:
            found = dict.fromkeys(wanted)
            waiting = [*wanted]
            while waiting:
                new = [n for n in self._includes(self.files[waiting.pop()]) if n not in found]
                found.update(dict.fromkeys(new))
                waiting += new
            self._parts[wanted] = Sources(self.robot, {name: self.files[name] for name in found})
        return self._parts[wanted]

    def _includes(self, text: str) -> Iterator[str]:
        # At every start; to search for the pattern would take fifty times as long.
        at = text.find("#")
        while at >= 0:
            if (found := _INCLUDE.match(text, at)) and found[1] in self.files:
                yield found[1]
            at = text.find("#", at + 1)

    @cached_property
    def digest(self) -> str:
        """Digest of names and texts: computed once, for the keys of all units made of them."""
        digest = hashlib.sha256()
        for name in sorted(self.files):
            digest.update(hashlib.sha256(name.encode()).digest())
            digest.update(hashlib.sha256(self.files[name].encode()).digest())
        return digest.hexdigest()


@dataclass(frozen=True)
class Launch:
    """How states are laid over the threads of a GPU, real or emulated.

    Attributes:
        threads_per_block: threads of a block, 1 to 1024.
        states_per_block:  states that a block computes.
        shared_bytes:      dynamic shared memory of a block.
    """

    threads_per_block: int
    states_per_block: int
    shared_bytes: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.threads_per_block <= 1024:
            raise OptionError(
                f"threads per block is {self.threads_per_block}; CUDA allows 1 to 1024"
            )

    def of(self, batch: int) -> Launch:
        """Return how so many states are launched: as any."""
        return self

    def blocks(self, batch: int) -> int:
        """Return the number of blocks that a batch takes."""
        return -(-batch // self.states_per_block)


#: Threads of a block by the batch: ``(states, threads)``, from so many states on, from 0.
Blocks: TypeAlias = tuple[tuple[int, int], ...]

#: Threads of the largest block, as ``__launch_bounds__`` of the kernels has it: each may then take
#: as many registers as a thread can have.
LARGEST_BLOCK = 128
#: Blocks where nothing is known of kernel and device. A large block for each of the multiprocessors
#: of a large GPU; of fewer states, blocks of a warp keep more of them busy.
DEFAULT_BLOCKS: Blocks = ((0, WARP), (132 * LARGEST_BLOCK, LARGEST_BLOCK))


@dataclass(frozen=True)
class ThreadLaunch:
    """One state for each thread: blocks are as large as the batch asks for.

    Kernels of this kind live on registers more than on shared memory: a small block gives the
    scheduler the finest grain, and its last, partly filled block the least waste.

    Attributes:
        state_bytes: dynamic shared memory for each state.
        blocks:      threads of a block; fewer where they would take more shared memory than every
                     device has.
    """

    state_bytes: int = 0
    blocks: Blocks = DEFAULT_BLOCKS

    def of(self, batch: int) -> Launch:
        """Return how so many states are launched."""
        threads = next(threads for states, threads in reversed(self.blocks) if states <= batch)
        while threads > WARP and threads * self.state_bytes > DEFAULT_SHARED_BYTES:
            threads //= 2
        return Launch(threads, threads, threads * self.state_bytes)


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
    """Return how a kernel is launched where it has been compiled for an architecture.

    Every launch of a kernel is made from this one: shared memory depends on the architecture.

    Args:
        sources:  the robot's module.
        function: name of the function.
        dtype:    element type.
        launch:   threads and states of a block.
        rows:     whether the kernel is the form for arrays in rows.
        arch:     ``sm_90`` or ``compute_90``; ``None`` for the emulated text.
    """
    taken = sources.rows.get(function)
    if taken is None:
        return launch
    assert isinstance(launch, ThreadLaunch)
    numbers, itemsize = taken.numbers if rows else 0, ITEM_BYTES[dtype]
    can_park = arch is None or int(arch.partition("_")[2]) in _PARKING
    if can_park and itemsize == _PARKED_ITEMSIZE:
        numbers += taken.parked
    return replace(launch, state_bytes=numbers * itemsize)


def optin_shared_bytes(launch: AnyLaunch) -> int:
    """Return the dynamic shared memory that the driver must be asked to grant; 0 for the usual."""
    most = launch.of(1).shared_bytes  # more than a warp takes is never more than the usual
    return most if most > DEFAULT_SHARED_BYTES else 0


def only(function: str) -> tuple[str, str]:
    """Return the macros by which a unit is spared the text of all functions but one."""
    return "GRIDGEN_ONLY", f"GRIDGEN_ONLY_{function}"


class RunnableKernel(Protocol):
    """One compiled function for one element type."""

    def __call__(self, arguments: Arguments, batch: int) -> None:
        """Compute ``batch`` states.

        Args:
            arguments: three integers for each array, inputs first, then outputs: address, batch
                       stride and component stride (strides counted in elements). The caller has
                       checked them, and keeps the memory alive.
            batch:     number of states; any number, zero included.
        """

    def prepare(self, arguments: Arguments, batch: int) -> Callable[[], object]:
        """Return what computes the same states whenever it is called, and then does nothing else.

        Args: as those of a call. The caller keeps the memory alive as long as what is returned.
        """


#: Enqueues states of arrays at these addresses, one for each, on the stream of this handle.
Enqueue: TypeAlias = Callable[[Sequence[int], int], object]


@runtime_checkable
class StreamKernel(RunnableKernel, Protocol):
    """A kernel whose work goes to streams of a GPU."""

    def prepare_anywhere(self, arguments: Arguments, batch: int) -> Enqueue:
        """Return what enqueues as many states of arrays with the same strides, wherever they lie.

        Args: as those of a call, whose addresses do not matter. The device that is current now is
        that of the arrays and of the stream, and current when what is returned is called.
        """


def kernel_name(robot: str, function: str, *, rows: bool) -> str:
    """Return what C++ calls a kernel, for any strides or for arrays in rows."""
    return f"{robot}::{function}{'_rows' if rows else ''}_kernel"


class Backend(Protocol):
    """Compiles functions of a robot's module for one kind of machine."""

    @staticmethod
    def require() -> None:
        """Raise unless new functions can be compiled and run on this machine.

        Raises:
            CompileError: the compiler is missing.
            DeviceError:  the GPU, or what drives it, is missing.
        """

    def kernel(
        self,
        sources: Sources,
        function: str,
        dtype: Dtype,
        launch: AnyLaunch = THREAD_SCHEDULE,
    ) -> RunnableKernel:
        """Return ``function`` of the module, compiled for ``dtype``, to be launched as told.

        Raises:
            CompileError: the compiler is missing or refused the text.
            DeviceError:  the backend cannot work on this machine.
        """
