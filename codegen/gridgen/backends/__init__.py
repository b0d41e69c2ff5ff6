"""Backends: each compiles a robot's module for one kind of machine, and runs it there."""

from __future__ import annotations

import functools
from typing import get_args

from gridgen.backends.interface import (
    SCALARS,
    THREAD_SCHEDULE,
    Backend,
    BackendName,
    Dtype,
    Kernel,
    Launch,
    Sources,
)
from gridgen.errors import CompileError, DeviceError, OptionError

__all__ = [
    "SCALARS",
    "THREAD_SCHEDULE",
    "Backend",
    "BackendName",
    "Dtype",
    "Kernel",
    "Launch",
    "Sources",
    "available_backends",
    "backend",
]

_NAMES: tuple[BackendName, ...] = get_args(BackendName)


def backend(name: str = "auto") -> Backend:
    """Return a backend by its name; ``auto`` is ``cuda`` where there is a GPU, else ``cpu``.

    Raises:
        OptionError: there is no such backend.
        DeviceError: ``cuda`` is asked for, and CuPy or the GPU is missing.
    """
    if name == "auto":
        return _create("cuda" if _gpu_is_usable() else "cpu")
    for known in _NAMES:
        if name == known:
            return _create(known)
    raise OptionError(f'backend is "{name}"; choose one of auto, {", ".join(_NAMES)}')


def available_backends() -> tuple[BackendName, ...]:
    """Return the names of the backends that work on this machine, the fastest first."""
    return tuple(name for name in _NAMES if _is_available(name))


def _is_available(name: BackendName) -> bool:
    if name == "cuda":
        return _gpu_is_usable()
    from gridgen.backends.compiler import host_compiler

    try:
        host_compiler()
    except CompileError:
        return False
    return True


def _gpu_is_usable() -> bool:
    from gridgen.backends.cuda import require_device

    try:
        require_device()
    except DeviceError:
        return False
    return True


@functools.cache
def _create(name: BackendName) -> Backend:
    """Create a backend, once: its threads and loaded modules are shared by all robots."""
    if name == "cuda":
        from gridgen.backends.cuda import CudaBackend

        return CudaBackend()
    if name == "cpu":
        from gridgen.backends.cpu import CpuBackend

        return CpuBackend()
    from gridgen.backends.emulated import EmulatedBackend

    return EmulatedBackend()
