"""The device of a call, as the key of profiles."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridgen.cost.devices import device_reported
from gridgen.cost.profile import DeviceIdentity
from gridgen.errors import DeviceError
from gridgen.functions.types import Array
from gridgen.runtime.arrays.libraries import on_gpu

#: The architecture assumed for an unknown GPU.
UNKNOWN = "sm_90"


def place_of(q: Array) -> DeviceIdentity:
    """Return the GPU of an adopted array, else the current one.

    Without a GPU, return an unknown one.
    """
    if on_gpu(q):
        return gpu_place(sys.modules["cupy"], q.device.id)
    try:
        return place_named("cuda")
    except DeviceError:
        return DeviceIdentity("", UNKNOWN, "")


def gpu_place(cupy: Any, number: int) -> DeviceIdentity:
    """Return the identity of a GPU."""
    try:
        arch = f"sm_{cupy.cuda.Device(number).compute_capability}"
    except (AttributeError, RuntimeError):  # the driver does not report it
        return DeviceIdentity("", UNKNOWN, "")
    runtime = cupy.cuda.runtime
    try:
        name = runtime.getDeviceProperties(number)["name"].decode(errors="replace")
        reported = device_reported(arch, name, _attributes(cupy, number))
        return DeviceIdentity(name, arch, str(runtime.driverGetVersion()), reported)
    except (AttributeError, RuntimeError):
        return DeviceIdentity("", arch, "")


@functools.cache
def _attributes(cupy: Any, number: int) -> Mapping[str, int]:
    """Return the driver's attributes of a GPU, cached."""
    reported: Mapping[str, int] = cupy.cuda.Device(number).attributes
    return reported


@functools.cache
def _processor() -> str:
    """Return the name of this machine's processor."""
    import platform

    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def host_place() -> DeviceIdentity:
    """Return this CPU with its number of worker threads."""
    from gridgen.backends.cpu.backend import thread_count  # modules start without backends

    threads = thread_count()
    return DeviceIdentity(_processor(), "cpu", f"{threads} thread" + ("" if threads == 1 else "s"))


def place_named(device: str) -> DeviceIdentity:
    """Return the device of a name: ``cpu``, ``cuda`` for the current GPU, or an architecture.

    Raises:
        DeviceError: ``device`` is ``cuda`` and no GPU is available.
    """
    if device == "cpu":
        return host_place()
    if device != "cuda":
        return DeviceIdentity("", device, "")
    from gridgen.backends.cuda.backend import require_device  # modules start without backends

    cupy = require_device()
    return gpu_place(cupy, cupy.cuda.runtime.getDevice())
