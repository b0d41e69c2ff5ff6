"""Installation of the fake in place of CuPy."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from fake_gpu.face import modules
from fake_gpu.functions import launch_host_function
from fake_gpu.machine import Machine, Settings, start
from fake_gpu.ptx.executable import PtxLibrary
from fake_gpu.schedules import Schedule, late
from gridgen import backends
from gridgen.papers import stream_task
from gridgen.runtime.arrays import defaults, streaming


@contextmanager
def installed(schedule: Schedule = late, capability: int = 91) -> Iterator[Machine]:
    """Replace CuPy with the fake, also for the ``cuda`` backend of grid-gen.

    All pending work runs at the end. The machine is the same each time, because grid-gen may cache
    arrays on its devices.

    Args:
        schedule:   selects the next operation.
        capability: compute capability of the devices; see ``Settings``.

    Raises:
        ImportError: CuPy, which provides NVRTC, is missing.
        MisuseError: pending work misuses the device.
    """
    # The real CuPy loads NVRTC before the fake hides it.
    import cupy  # noqa: F401
    from cupy_backends.cuda.libs import nvrtc

    nvrtc.getVersion()
    hidden = {name: None for name in sys.modules if name.split(".")[0] in ("cupy", "cupyx")}
    own_modules = mock.patch.dict(sys.modules, hidden | modules())
    # Separate the caches for these devices from those for other fakes.
    own_defaults = mock.patch.dict(defaults._MADE, clear=True)
    own_numbers = mock.patch.dict(defaults._NUMBERS, clear=True)
    own_streams = mock.patch.dict(streaming._IDLE, clear=True)
    own_driver = mock.patch.object(stream_task, "launch", launch_host_function)
    with own_modules, own_defaults, own_numbers, own_streams, own_driver:
        backends._create.cache_clear()
        machine = _machine()
        machine.settings = replace(machine.settings, capability=capability)
        start(machine)
        machine.work.schedule = schedule
        try:
            yield machine
        finally:
            backends._create.cache_clear()
            machine.end_captures()
            machine.settle()


@functools.cache
def _machine() -> Machine:
    """Return the machine of this process."""
    return Machine(Settings(PtxLibrary))
