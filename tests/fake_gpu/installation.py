"""The stand-in in the place of CuPy."""

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
from gridgen.backends.cpu import stream_task
from gridgen.runtime.arrays import defaults, streaming


@contextmanager
def installed(schedule: Schedule = late, capability: int = 91) -> Iterator[Machine]:
    """Let ``import cupy`` find the stand-in, and grid-gen's ``cuda`` backend its devices.

    All work that was enqueued is done at the end. The machine is the same one each time: grid-gen
    may keep arrays on its devices for good.

    Args:
        schedule:   chooses which operation runs next.
        capability: compute capability of its devices; see ``Settings``.

    Raises:
        ImportError: NVRTC is missing, which comes with CuPy.
        MisuseError: something that was enqueued is not in order.
    """
    # CuPy proper finds NVRTC's library, before it is hidden.
    import cupy  # noqa: F401
    from cupy_backends.cuda.libs import nvrtc

    nvrtc.getVersion()
    hidden = {name: None for name in sys.modules if name.split(".")[0] in ("cupy", "cupyx")}
    own_modules = mock.patch.dict(sys.modules, hidden | modules())
    # What is kept for other stand-ins' devices is none of this one's, nor the other way round.
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
            machine.settle()


@functools.cache
def _machine() -> Machine:
    """Return the machine of this process."""
    return Machine(Settings(PtxLibrary))
