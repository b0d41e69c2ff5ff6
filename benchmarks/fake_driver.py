"""A driver of GPUs that are not there, in CuPy's place: what calls cost and what they ask for.

Arrays are CuPy's own, in the host's memory. Streams only note what they are told, and a launch goes
to a function of whoever started the driver. Nothing is ever late: what follows from a missing order
is not shown here, only that the order is asked for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np


class Launched(NamedTuple):
    """A launch, as the driver is asked for it.

    Attributes:
        entry:   name of the kernel.
        device:  the current device.
        stream:  the stream.
        grid:    blocks.
        block:   threads of a block.
        shared:  bytes of dynamic shared memory.
        numbers: the parameters: three of each array, then the states.
    """

    entry: str
    device: int
    stream: int
    grid: int
    block: int
    shared: int
    numbers: tuple[int, ...]


class Stream:
    """A stream that notes what it is told.

    Args:
        driver:  where it is noted.
        pointer: its handle.
    """

    def __init__(self, driver: FakeDriver, pointer: int) -> None:
        self.ptr = pointer
        self._driver = driver

    def __enter__(self) -> Stream:
        self._driver.entered.append(self)
        self._driver.entered_on.append(self._driver.device)
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.entered.pop()

    def is_capturing(self) -> bool:
        """Tell whether the stream is among those that are captured."""
        return self.ptr in self._driver.captured

    def synchronize(self) -> None:
        """Note that somebody waits."""
        if self.is_capturing():
            raise RuntimeError("cudaErrorStreamCaptureUnsupported")
        self._driver.told.append(("synchronize", self.ptr))

    def record(self) -> Stream:
        """Return an event, which is known by its stream."""
        return self

    def wait_event(self, event: Stream) -> None:
        """Note that the stream waits for another one."""
        self._driver.told.append((f"wait for {event.ptr}", self.ptr))


class FakeDriver:
    """GPUs of compute capability 9.0, with the host's memory.

    Args:
        cupy:     the library, whose arrays are used.
        launched: is told of launches.

    Attributes:
        device:   the current device.
        entered:  the streams that are current, the last one now.
        entered_on: the devices that were current when a stream was entered.
        captured: handles of the streams that are captured.
        told:     what was asked for, in order: words, and the stream.
        taken:    bytes of the arrays that were made.
    """

    def __init__(self, cupy: Any, launched: Callable[[Launched], object] | None = None) -> None:
        self.device = 0
        self.entered = [Stream(self, 0)]
        self.entered_on: list[int] = []
        self.captured: set[int] = set()
        self.told: list[tuple[str, int]] = []
        self.taken = 0
        self._cupy = cupy
        self._launched = launched
        self._entries: list[str] = []
        self._handles = 1 << 20

    def module(self) -> ModuleType:
        """Return what goes in the place of the module ``cupy``."""
        module: Any = ModuleType("cupy")
        module._environment = self._cupy._environment  # by which its other modules find NVRTC
        module.ndarray = self._cupy.ndarray
        module.asarray, module.empty = self.asarray, self.empty
        module.__version__ = self._cupy.__version__

        def made(non_blocking: bool) -> Stream:
            return Stream(self, self._handle())

        made.from_external = lambda foreign: Stream(self, foreign.__cuda_stream__()[1])
        launch = self._nothing if self._launched is None else self._launch
        module.cuda = SimpleNamespace(
            Device=lambda number: _Device(self, number),
            Stream=made,
            get_current_stream=lambda: self.entered[-1],
            memory=self._cupy.cuda.memory,
            driver=SimpleNamespace(launchKernel=launch),
            function=SimpleNamespace(Module=self._module),
            runtime=SimpleNamespace(
                getDevice=lambda: self.device, setDevice=self._set, getDeviceCount=lambda: 2
            ),
        )
        return module

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int | None = None) -> Any:
        """Return an array on a device, by default the current one."""
        return self.asarray(np.empty(shape, dtype), device=device)

    def asarray(self, array: Any, dtype: Any = None, device: int | None = None) -> Any:
        """Return an array on a device that shares the memory of one of the host."""
        array = np.asarray(array, dtype)
        place = self.device if device is None else device
        self.taken += array.nbytes
        cuda = self._cupy.cuda
        memory = cuda.UnownedMemory(array.ctypes.data, max(array.nbytes, 1), array, device_id=place)
        return self._cupy.ndarray(
            array.shape, array.dtype, memptr=cuda.MemoryPointer(memory, 0), strides=array.strides
        )

    def _handle(self) -> int:
        self._handles += 1
        return self._handles

    def _set(self, device: int) -> None:
        self.device = device

    def _module(self) -> Any:
        return SimpleNamespace(load=lambda image: None, get_function=self._function)

    def _function(self, entry: str) -> Any:
        self._entries.append(entry)
        return SimpleNamespace(ptr=len(self._entries) - 1)

    def _nothing(self, *_: int) -> None:
        """Launch nothing."""

    def _launch(self, function: int, grid: int, *rest: int) -> None:
        _, _, block, _, _, shared, stream, _, words = rest
        given = (ctypes.c_void_p * 5).from_address(words)
        size = ctypes.c_size_t.from_address(given[3] or 0).value
        numbers = (ctypes.c_int64 * (size // 8)).from_address(given[1] or 0)
        entry = self._entries[function]
        self.told.append((f"launch {entry}", stream))
        assert self._launched is not None
        self._launched(Launched(entry, self.device, stream, grid, block, shared, tuple(numbers)))


class _Device:
    """A device, current while its context lasts."""

    def __init__(self, driver: FakeDriver, number: int) -> None:
        self.id = number
        self.compute_capability = "90"
        self._driver = driver
        self._before: list[int] = []

    def __enter__(self) -> _Device:
        self._before.append(self._driver.device)
        self._driver.device = self.id
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.device = self._before.pop()
