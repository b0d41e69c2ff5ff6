"""The machine: devices, their pending work, and the current device and streams."""

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

#: Duration of a launch [s], a function of the kernel's name, blocks and threads per block.
Duration = Callable[[str, int, int], float]

_ADDRESSES = 64 << 30  # bytes of address space of a device


class Library(Protocol):
    """Kernels of one module, on the host.

    Attributes:
        entries: names of the kernels.
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
        """Run a grid of threads to completion.

        Args:
            entry:        name of the kernel.
            grid:         number of blocks.
            block:        threads of a block.
            shared_bytes: dynamic shared memory of a block.
            parameters:   the bytes of each parameter.
            watched:      record of accesses.

        Raises:
            ValueError: the launch is invalid for the kernel.
        """


@dataclass(frozen=True)
class Settings:
    """Properties of a machine.

    Attributes:
        devices:    number of devices.
        memory:     memory of a device [bytes].
        capability: compute capability of the devices. NVRTC has no machine code for 9.1 and 7.6;
                    hence callers compile PTX for 9.0 or 7.5, which the fake can run.
        attributes: attributes that the driver reports; those of an H200.
        schedule:   selects the next operation.
        executable: makes PTX text executable.
    """

    executable: Callable[[str], Library]
    devices: int = 2
    memory: int = 4 << 30
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
        number:   index of the device.
        machine:  the machine.
        pool:     memory pool.
        queues:   streams by pointer.
        failures: number of failures.
    """

    def __init__(self, number: int, machine: Machine) -> None:
        self.number = number
        self.machine = machine
        self.failures = 0
        self._error = ""
        self._begin()

    def fail(self, error: str) -> None:
        """Fail: drop pending work, and raise an error of CUDA for every request."""
        self._error = error
        self.failures += 1
        left = [operation for queue in self.queues.values() for operation in queue.tail]
        self.machine.work.drop(with_all_before(left))

    def recover(self) -> None:
        """Reset the device."""
        self._error = ""
        self._begin()

    def check(self) -> None:
        """Raise the error of a failed device.

        Raises:
            CUDARuntimeError: the device has failed.
        """
        if self._error:
            raise CUDARuntimeError(self._error)

    def _begin(self) -> None:
        self.pool = Pool(Region(_ADDRESSES), self.machine.settings.memory)
        self.queues: dict[int, Queue] = {}


@dataclass
class _Current(threading.local):
    """Current device and streams of a thread."""

    device: int = 0
    streams: dict[int, list[Queue]] = field(default_factory=dict)


class Machine:
    """Devices and their pending work.

    Args:
        settings: properties of the machine.

    Attributes:
        duration:   simulated duration of launches, for events.
        driver:     newest version of CUDA that the driver supports.
        newest_ptx: newest version of PTX that the driver supports.
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
        """Return a unique number."""
        self._handles += 1
        return self._handles

    def end_captures(self) -> None:
        """Abandon the captures in progress."""
        for device in self.devices:
            for queue in device.queues.values():
                if queue.capture:
                    queue.capture.abandon()

    def settle(self) -> None:
        """Run all pending work.

        Raises:
            MisuseError: an operation misuses a device.
        """
        self.work.wait(self.work.pending)

    def of_number(self, number: int) -> Device:
        """Return a device by index.

        Raises:
            CUDARuntimeError: there is no such device.
        """
        if not 0 <= number < len(self.devices):
            raise CUDARuntimeError("cudaErrorInvalidDevice", f"device {number}")
        return self.devices[number]


def _a_millisecond(name: str, blocks: int, threads: int) -> float:
    """Return the default duration of a launch [s]."""
    return 1e-3


_running: list[Machine] = []


def start(started: Machine) -> None:
    """Make a machine current; arrays of other machines are unusable meanwhile."""
    _running[:] = [started]


def machine() -> Machine:
    """Return the current machine.

    Raises:
        LookupError: no machine has been started.
    """
    if not _running:
        raise LookupError("no machine has been started: call fake_gpu.machine.start first")
    return _running[0]
