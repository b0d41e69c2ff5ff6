"""The machine: what it is, and what it can do at most."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from time import perf_counter

import numpy as np
from native import compiled

from gridgen.backends.cpu.compiler import host_compiler

_PACKAGES = ("numpy", "pin", "cmeel-eigen", "mujoco", "jax", "frax")
_SECONDS = 0.02  # of one measurement
_WRITTEN = 1 << 26  # bytes for each thread, beyond any cache


def description() -> dict[str, object]:
    """Return what the machine is, with the versions of what runs on it."""
    import gridgen

    versions = {"gridgen": gridgen.__version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_gib": round(_memory() / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "virtual": "hypervisor" in _cpuinfo(),
        "compiler": _compiler(),
        "load_at_the_start": os.getloadavg()[0],
        "versions": versions,
    }


class Limits:
    """Loops that do nothing but what a core does best."""

    def __init__(self) -> None:
        self._library = compiled(Path(__file__).with_name("limits.cpp"), ("-ffp-contract=fast",))
        for name in ("multiply_add_float32", "multiply_add_float64", "integer_steps",
                     "integer_chain"):  # fmt: skip
            getattr(self._library, name).restype = ctypes.c_double
            getattr(self._library, name).argtypes = (ctypes.c_long,)
        self._library.write_bytes.argtypes = (ctypes.c_void_p, ctypes.c_long)

    def peak(self, dtype: str, threads: int) -> float:
        """Return multiplications and additions per second, from registers, of all threads."""
        run = getattr(self._library, f"multiply_add_{dtype}")
        return self._steps(run, threads) * getattr(self._library, f"operations_{dtype}")()

    def integer_throughput(self, threads: int) -> float:
        """Return steps of eight independent integer chains per second, of all threads."""
        return self._steps(self._library.integer_steps, threads)

    def integer_latency(self, threads: int) -> float:
        """Return steps of one dependent integer chain per second, of all threads."""
        return self._steps(self._library.integer_chain, threads)

    def write_bandwidth(self, threads: int) -> float:
        """Return bytes per second that plain stores write to memory, of all threads."""
        memory = [np.zeros(_WRITTEN, np.uint8) for _ in range(threads)]
        write = self._library.write_bytes
        seconds = _together([lambda m=m: write(m.ctypes.data, _WRITTEN) for m in memory])
        return threads * _WRITTEN / seconds

    @staticmethod
    def _steps(run: Callable[[int], float], threads: int) -> float:
        steps = 1000
        while (seconds := _together([lambda: run(steps)])) < _SECONDS:  # noqa: B023
            steps = int(steps * max(2.0, min(100.0, 1.1 * _SECONDS / seconds)))
        return threads * steps / _together([lambda: run(steps)] * threads)


def measured_limits(threads: int) -> dict[str, float]:
    """Return every limit, the best of several measurements taken in turn."""
    limits = Limits()
    measures: dict[str, Callable[[], float]] = {
        "peak_float32": lambda: limits.peak("float32", threads),
        "peak_float64": lambda: limits.peak("float64", threads),
        "integer_throughput": lambda: limits.integer_throughput(threads),
        "integer_latency": lambda: limits.integer_latency(threads),
        "write_bandwidth": lambda: limits.write_bandwidth(threads),
    }
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(5):
        for name, measure in measures.items():
            found[name].append(measure())
    return {name: max(values) for name, values in found.items()}


def _together(calls: list[Callable[[], object]]) -> float:
    """Return the seconds that calls take which run at the same time, a thread each."""
    with ThreadPoolExecutor(len(calls)) as executor:
        list(executor.map(lambda call: None, calls))  # the threads are running
        start = perf_counter()
        for done in [executor.submit(call) for call in calls]:
            done.result()
        return perf_counter() - start


def _cpuinfo() -> str:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _processor() -> str:
    """Return the processor's name; family and model tell a virtual machine's generic name apart."""
    info = _cpuinfo()
    found = {key: re.search(rf"^{key}\s*: (.*)$", info, re.MULTILINE)
             for key in ("model name", "cpu family", "model")}  # fmt: skip
    if not all(found.values()):
        return platform.processor() or platform.machine()
    name, family, model = (match[1] for match in found.values() if match)
    return f"{name} (family {family}, model {model})"


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _compiler() -> str:
    command = (*host_compiler().command, "--version")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0]
