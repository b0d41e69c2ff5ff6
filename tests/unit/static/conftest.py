"""Compiles driver.cpp once per build of interest and hands it to the tests as a ctypes library."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gridgen.backends.cache import BuildCache, cache_key
from gridgen.backends.cpu.processor import processor

HERE = Path(__file__).parent
HEADERS = HERE.parents[2] / "templates" / "static"
WARNINGS = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]

# The flags that could change a rounding: optimization, contraction, the instruction set.
BUILDS = {
    "fast": ["-O3", "-march=native", "-ffp-contract=fast"],
    "uncontracted": ["-O2", "-march=native", "-ffp-contract=off"],
    "unoptimized": ["-O0", "-march=native", "-ffp-contract=fast"],
    "baseline": ["-O2"],
    "clang": ["-O3", "-march=native", "-ffp-contract=fast"],
}


def find_compiler(build: str) -> list[str] | None:
    """The command of the compiler for a build, if it is there."""
    if build == "clang":
        if importlib.util.find_spec("ziglang"):
            # Zig would build its own C++ library, which these headers need not, for a minute.
            return [sys.executable, "-m", "ziglang", "c++", "-nostdlib++"]
        found = shutil.which("clang++")
    else:
        found = shutil.which(os.environ.get("CXX", "c++"))
    return [found] if found else None


class Driver:
    """The functions of driver.cpp, on NumPy arrays."""

    def __init__(self, path: Path) -> None:
        self.loaded = ctypes.CDLL(str(path))
        self.fuses = bool(self.loaded.fuses())

    def width(self, dtype: type) -> int:
        return int(self.loaded[f"width_{np.dtype(dtype).name}"]())

    def evaluate(self, x: np.ndarray, kind: str = "pack") -> tuple[np.ndarray, ...]:
        """Sine, cosine and sign of each number of x, one by one or in packs."""
        x = np.ascontiguousarray(x)
        results = tuple(np.full_like(x, 7) for _ in range(3))
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, *results)]
        self.loaded[f"{kind}_{x.dtype.name}"](*pointers, ctypes.c_longlong(x.size))
        return results

    def choose(self, x: np.ndarray, y: np.ndarray, kind: str = "pack") -> tuple[np.ndarray, ...]:
        """Square root of |x|, angle of (x, y), and x where y < 0, else 2; a multiple of packs."""
        results = tuple(np.full_like(x, 7) for _ in range(3))
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, y, *results)]
        self.loaded[f"choose_{kind}_{x.dtype.name}"](*pointers, ctypes.c_longlong(x.size))
        return results

    def power(self, x: np.ndarray, kind: str = "pack") -> tuple[np.ndarray, ...]:
        """Exponential and logarithm of each number of x; a multiple of packs."""
        results = tuple(np.full_like(x, 7) for _ in range(2))
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, *results)]
        self.loaded[f"power_{kind}_{x.dtype.name}"](*pointers, ctypes.c_longlong(x.size))
        return results

    def constants(self, dtype: type) -> np.ndarray:
        values = np.empty((2, self.width(dtype)), dtype)
        self.loaded[f"constants_{values.dtype.name}"](ctypes.c_void_p(values.ctypes.data))
        return values

    def call(self, name: str, n: int, arrays: list[np.ndarray], *range_: int) -> None:
        """Calls copy or load on arrays of shape (B, n), whose strides are passed on."""

        class Array(ctypes.Structure):
            _fields_ = [
                ("data", ctypes.c_void_p),
                ("batch", ctypes.c_longlong),
                ("component", ctypes.c_longlong),
            ]

        passed = (Array * len(arrays))(
            *(
                Array(array.ctypes.data, *(stride // array.itemsize for stride in array.strides))
                for array in arrays
            )
        )
        function = self.loaded[f"{name}_{arrays[0].dtype.name}_{n}"]
        function(passed, *(ctypes.c_longlong(bound) for bound in range_))


@pytest.fixture(scope="session")
def headers() -> Path:
    """The folder of the static headers."""
    return HEADERS


@pytest.fixture(scope="session")
def compiler():
    """A function from the name of a build to the command of its compiler."""

    def command(build: str) -> list[str]:
        which = "clang" if build == "clang" else "C++ compiler"
        return find_compiler(build) or pytest.skip(f"no {which}")

    return command


@pytest.fixture(scope="session")
def build_driver(compiler):
    """A function from the name of a build to its Driver, compiled once for all workers."""
    files = sorted(HEADERS.iterdir())
    text = {path.name: path.read_text(encoding="utf-8") for path in [HERE / "driver.cpp", *files]}

    @cache
    def build(name: str) -> Driver:
        command = [*compiler(name), *WARNINGS, *BUILDS[name], "-fPIC", "-shared"]
        command += ["-I", str(HEADERS), str(HERE / "driver.cpp")]

        def compiled(folder: Path) -> None:
            words = [*command, "-o", str(folder / "driver.so")]
            result = subprocess.run(words, capture_output=True, text=True, check=False)
            assert result.returncode == 0, result.stderr

        version = subprocess.check_output([*compiler(name), "--version"], text=True)
        key = cache_key(text=text, command=command, version=version, processor=processor())
        return Driver(BuildCache().entry(key, compiled) / "driver.so")

    return build


# Where there is no clang, test_no_header_of_the_host_is_needed says so.
@pytest.fixture(params=[name for name in BUILDS if name != "clang" or find_compiler(name)])
def driver(request: pytest.FixtureRequest, build_driver) -> Driver:
    return build_driver(request.param)
