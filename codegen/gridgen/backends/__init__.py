"""Backends: each compiles a robot's module for one kind of device, and runs it there."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from gridgen.backends.interface import (
    SCALARS,
    THREAD_SCHEDULE,
    Backend,
    Launch,
    Memory,
    Rows,
    RunnableKernel,
    Sources,
    Target,
)
from gridgen.errors import CompileError, DeviceError, OptionError
from gridgen.functions.types import BackendName

__all__ = [
    "SCALARS",
    "TARGETS",
    "THREAD_SCHEDULE",
    "Backend",
    "BackendName",
    "Launch",
    "Memory",
    "Rows",
    "RunnableKernel",
    "Sources",
    "Target",
    "available_backends",
    "backend",
    "target_for",
]

#: Backends by name, fastest first: ``auto`` selects the first for the memory of the arrays.
TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target("cuda", "device", True, "gridgen.backends.cuda.backend:CudaBackend"),
        Target("cpu", "host", False, "gridgen.backends.cpu.backend:CpuBackend"),
        Target("emulated", "host", True, "gridgen.backends.emulated.backend:EmulatedBackend"),
    )
}


@functools.cache
def target_for(arrays: Memory, teams: bool = False) -> Target:
    """Return the first target for arrays in this memory, with support for teams if required."""
    return next(t for t in TARGETS.values() if t.arrays == arrays and t.teams >= teams)


def backend(name: str = "auto") -> Backend:
    """Return a backend by name; ``auto`` is ``cuda`` if a GPU is available, else ``cpu``.

    Raises:
        OptionError: the backend does not exist.
        DeviceError: ``cuda`` is requested, and CuPy or the GPU is missing.
    """
    if name == "auto":
        return _create(target_for("device" if _works(target_for("device")) else "host"))
    for target in TARGETS.values():
        if name == target.name:
            return _create(target)
    raise OptionError(f'backend is "{name}"; choose one of auto, {", ".join(TARGETS)}')


def available_backends() -> tuple[BackendName, ...]:
    """Return the names of the backends that work on this machine, fastest first."""
    return tuple(target.name for target in TARGETS.values() if _works(target))


def _works(target: Target) -> bool:
    try:
        _loaded(target).require()
    except (CompileError, DeviceError):
        return False
    return True


@functools.cache
def _create(target: Target) -> Backend:
    """Create a backend once: all robots share its threads and loaded modules."""
    created: Backend = _loaded(target)()
    return created


def _loaded(target: Target) -> Any:
    """Import the class of a backend, which generated modules do lazily."""
    import pkgutil

    return pkgutil.resolve_name(target.backend)
