"""A machine for each test, with kernels that are written in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType

import numpy as np
import pytest

from fake_gpu.errors import MisuseError
from fake_gpu.face import modules
from fake_gpu.kernels import Module
from fake_gpu.machine import Machine, Settings, start
from fake_gpu.ptx.executable import READ, WRITTEN, Watched

#: The head of a module with two kernels; what they do, `PythonLibrary` knows.
PTX = b"""
.version 7.0
.target sm_75
.visible .entry twice(.param .u64 x, .param .u64 y, .param .s64 n) { ret; }
.visible .entry beyond(.param .align 8 .b8 x[24], .param .s64 n) { ret; }
"""


def _floats(parameter: bytes, count: int, watched: Watched, mark: int) -> np.ndarray:
    address = int.from_bytes(parameter[:8], "little")
    begin = (address - watched.begin) // 4
    watched.marks[begin : begin + count] |= mark
    return np.frombuffer((ctypes.c_float * count).from_address(address), np.float32)


class PythonLibrary:
    """Executes the kernels of `PTX`."""

    def __init__(self, text: str) -> None:
        self.entries = {"twice": [8, 8, 8], "beyond": [24, 8]}

    def layout(self, entry: str) -> list[tuple[int, int]]:
        return [(size, 8) for size in self.entries[entry]]

    def launch(
        self,
        entry: str,
        grid: int,
        block: int,
        shared_bytes: int,
        parameters: Sequence[bytes],
        watched: Watched,
    ) -> None:
        if (sizes := [len(parameter) for parameter in parameters]) != self.entries[entry]:
            raise ValueError(f"parameters of {sizes} bytes")
        count = int.from_bytes(parameters[-1], "little")
        if entry == "twice":
            x = _floats(parameters[0], count, watched, READ)
            _floats(parameters[1], count, watched, WRITTEN)[:] = 2 * x
        else:
            _floats(parameters[0], count, watched, WRITTEN)[:] = 1


@pytest.fixture
def begin() -> Iterator[Callable[..., ModuleType]]:
    """Return what starts a machine with given settings, and returns its CuPy."""
    machines: list[Machine] = []

    def begin_with(**settings: object) -> ModuleType:
        machines.append(Machine(Settings(executable=PythonLibrary, **settings)))
        start(machines[-1])
        return modules()["cupy"]

    yield begin_with
    for machine in machines:
        machine.settle()


@pytest.fixture
def cupy(begin: Callable[..., ModuleType]) -> ModuleType:
    return begin()


@pytest.fixture
def module(cupy: ModuleType) -> Module:
    """Return the loaded kernels."""
    module = cupy.cuda.function.Module()
    module.load(PTX)
    return module


@pytest.fixture
def twice(module: Module) -> Callable[..., None]:
    """Return what enqueues the kernel y = 2 x."""
    function = module.get_function("twice")

    def launch(x: object, y: object, stream: object = None) -> None:
        function((1,), (x.size,), (x.data.ptr, y.data.ptr, np.int64(x.size)), stream=stream)

    return launch


@pytest.fixture
def misused() -> Callable[[], str]:
    """Return what runs all that is left, and says what is wrong with it."""
    from fake_gpu.machine import machine

    def settle() -> str:
        with pytest.raises(MisuseError) as caught:
            machine().settle()
        return str(caught.value)

    return settle
