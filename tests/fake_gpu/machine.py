"""The machine: devices, the work that they have, and what is current."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from fake_gpu import schedules
from fake_gpu.errors import CUDARuntimeError
from fake_gpu.pinned import PinnedPool
from fake_gpu.pool import Pool
from fake_gpu.ptx.executable import Watched
from fake_gpu.region import Region
from fake_gpu.work import Schedule, Work, with_all_before

if TYPE_CHECKING:
    from fake_gpu.streams import Queue

#: Seconds that a launch takes, of the kernel's name, the number of blocks, and the threads of each.
Duration = Callable[[str, int, int], float]

_ADDRESSES = 64 << 30  # bytes of address space of a device; they take no memory


class Library(Protocol):
    """Kernels of one module, on the host.

    Attributes:
        entries: their names.
    """

    entries: Sequence[str]

    def layout(self, entry: str) -> list[tuple[int, int]]:
        """Return bytes and alignment of each parameter of a kernel."""

    def launch(
        self,
        entry: str,
        grid: int,
        block: int,
        shared_bytes: int,
        parameters: Sequence[bytes],
        watched: Watched,
    ) -> None:
        """Run a grid of threads, and return when all are done.

        Args:
            entry:        name of the kernel.
            grid:         number of blocks.
            block:        threads of a block.
            shared_bytes: dynamic shared memory of a block.
            parameters:   the bytes of each parameter.
            watched:      memory of which it tells what the threads touch.

        Raises:
            ValueError: the kernel takes no such launch.
        """


@dataclass(frozen=True)
class Settings:
    """What a machine is like.

    Attributes:
        devices:    how many there are.
        room:       bytes of memory of each.
        capability: compute capability of each. No device has 9.1 or 7.6, and NVRTC makes no machine
                    code for them, so that callers compile PTX, which can be executed here: that for
                    9.0 or 7.5.
        attributes: what the driver reports of each: an H200's.
        schedule:   chooses which operation runs next.
        executable: makes PTX text executable.
    """

    executable: Callable[[str], Library]
    devices: int = 2
    room: int = 4 << 30
    capability: int = 91
    attributes: Mapping[str, int] = field(
        default_factory=lambda: {
            "MultiProcessorCount": 132,
            "ClockRate": 1_980_000,
            "MemoryClockRate": 3_201_000,
            "GlobalMemoryBusWidth": 6144,
            "MaxSharedMemoryPerMultiprocessor": 228 * 1024,
            "MaxThreadsPerMultiProcessor": 2048,
            "MaxBlocksPerMultiprocessor": 32,
        }
    )
    schedule: Schedule = schedules.late


class Device:
    """A device: memory and streams.

    Attributes:
        number:   its number.
        machine:  the machine.
        pool:     its memory.
        queues:   its streams, by their pointers.
        failures: how often it has failed.
    """

    def __init__(self, number: int, machine: Machine) -> None:
        self.number = number
        self.machine = machine
        self.failures = 0
        self._error = ""
        self._begin()

    def fail(self, error: str) -> None:
        """Do nothing more, but tell all who ask for something of an error of CUDA's."""
        self._error = error
        self.failures += 1
        left = [operation for queue in self.queues.values() for operation in queue.tail]
        self.machine.work.drop(with_all_before(left))

    def recover(self) -> None:
        """Work again, without anything that was there before."""
        self._error = ""
        self._begin()

    def check(self) -> None:
        """Raise what the device has to say.

        Raises:
            CUDARuntimeError: it has failed.
        """
        if self._error:
            raise CUDARuntimeError(self._error)

    def _begin(self) -> None:
        self.pool = Pool(Region(_ADDRESSES), self.machine.settings.room)
        self.queues: dict[int, Queue] = {}


@dataclass
class _Current(threading.local):
    """What is current in a thread."""

    device: int = 0
    streams: dict[int, list[Queue]] = field(default_factory=dict)


class Machine:
    """Devices, and the work that they have.

    Args:
        settings: what it is like.

    Attributes:
        duration: what launches take by the clock of events, made up: time does not pass otherwise.
        driver:     the newest version of CUDA that its driver knows.
        newest_ptx: of PTX, likewise.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.driver = (99, 0)
        self.newest_ptx = (99, 0)
        self.work = Work(settings.schedule)
        self.pinned = PinnedPool(self.work.report)
        self.current = _Current()
        self.duration: Duration = _a_millisecond
        self._handles = 1000
        self.devices = [Device(number, self) for number in range(settings.devices)]

    @property
    def device(self) -> Device:
        """The current device of this thread."""
        return self.devices[self.current.device]

    def handle(self) -> int:
        """Return a number that nothing else has."""
        self._handles += 1
        return self._handles

    def settle(self) -> None:
        """Run all that there is to do.

        Raises:
            MisuseError: something is wrong with it, or with what was done before.
        """
        self.work.wait(self.work.pending)

    def of_number(self, number: int) -> Device:
        """Return a device by its number.

        Raises:
            CUDARuntimeError: there is none.
        """
        if not 0 <= number < len(self.devices):
            raise CUDARuntimeError("cudaErrorInvalidDevice", f"device {number}")
        return self.devices[number]


def _a_millisecond(name: str, blocks: int, threads: int) -> float:
    """Return the same time for every launch."""
    return 1e-3


_running: list[Machine] = []


def start(started: Machine) -> None:
    """Let all that follows use a machine; arrays of others are of no use meanwhile."""
    _running[:] = [started]


def machine() -> Machine:
    """Return the machine that has been started.

    Raises:
        LookupError: there is none.
    """
    if not _running:
        raise LookupError("no machine has been started: call fake_gpu.machine.start first")
    return _running[0]
