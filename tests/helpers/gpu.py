"""A robot on a fake GPU; the ``emulated`` backend runs the launches synchronously."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from fake_driver import FakeDriver, Launched

import gridgen
from gridgen.backends import Sources, backend
from gridgen.backends.cuda import backend as cuda
from gridgen.backends.cuda.compiler import CompiledKernel
from gridgen.backends.interface import AnyLaunch, launch_of
from gridgen.runtime.calls import compiled as calls

#: States of random arrays.
COUNT = 200


class Gpu(NamedTuple):
    """A fake driver and a robot on it.

    Attributes:
        driver:   the driver.
        robot:    the robot two_link.
        launches: launches so far.
    """

    driver: FakeDriver
    robot: gridgen.Robot
    launches: list[Launched]

    def arrays(self, count: int = 3, device: int | None = None, seed: int = 0) -> list[Any]:
        """Return random arrays on a device."""
        drawn = np.random.default_rng(seed).uniform(-2, 2, (count, COUNT, 2))
        return [self.driver.asarray(x, device=device) for x in drawn]


def pretended(monkeypatch: pytest.MonkeyPatch, urdf: Path) -> Gpu:
    """Replace CuPy and NVRTC with a fake GPU; skip the test without CuPy."""
    cupy = pytest.importorskip("cupy")
    texts: dict[str, tuple[tuple[Sources, str, Any], AnyLaunch]] = {}
    launches: list[Launched] = []

    def compiled(
        sources: Sources, function: str, dtype: Any, arch: str, *_: object, rows: bool = False
    ) -> CompiledKernel:
        launch = launch_of(sources, function, dtype, rows=rows, arch=arch)
        entry = f"{function}{'_rows' if rows else ''} {dtype}"
        texts[entry] = (sources, function, dtype), launch
        return CompiledKernel(b"", entry, None)

    def launched(launch: Launched) -> None:
        launches.append(launch)
        text, laid = texts[launch.entry]
        *arguments, states = launch.numbers
        expected = laid.of(states)
        assert (launch.block, launch.shared) == (expected.threads_per_block, expected.shared_bytes)
        assert launch.grid == expected.blocks(states)
        kernel = backend("emulated").kernel(*text)
        kernel((ctypes.c_int64 * len(arguments))(*arguments), states)

    driver = FakeDriver(cupy, launched)
    monkeypatch.setitem(sys.modules, "cupy", driver.module())
    monkeypatch.setattr(cuda, "compile_kernel", compiled)
    monkeypatch.setattr(cuda, "supported_capabilities", lambda: (80, 90))
    with_driver = cuda.CudaBackend()
    monkeypatch.setattr(
        calls, "backend", lambda name: with_driver if name == "cuda" else backend(name)
    )
    return Gpu(driver, gridgen.load(urdf), launches)


def on_host(array: Any) -> np.ndarray:
    """Return the contents of an array of the fake device."""
    memory = (ctypes.c_char * array.nbytes).from_address(array.data.ptr)
    return np.frombuffer(memory, array.dtype).reshape(array.shape)


def expected(two_link: gridgen.Robot, arrays: list[Any]) -> np.ndarray:
    return two_link.inverse_dynamics(*map(on_host, arrays))
