"""GPU errors: explain them, and mark loaded modules of a failed device as invalid."""

from __future__ import annotations

import sys
from typing import Any

from gridgen.errors import CompileError, DeviceError
from gridgen.naming import one_line

#: Exceptions that CuPy raises for CUDA errors, among others.
ERRORS = (MemoryError, RuntimeError)

INSTALL_DRIVER = 'install or update the NVIDIA driver, or use backend="cpu"'

# CUDA error numbers, common to its driver and its runtime.
_NO_MEMORY = 2
_OUT_OF_LAUNCH_MEMORY = 701
_DRIVER_TOO_OLD = frozenset({35, 803})
# Operations not permitted during stream capture; they invalidate the capture.
_CAPTURED = frozenset(range(900, 909))
_IMAGE_REFUSED = frozenset({200, 209, 218, 221, 222, 223})
# Unavailable, no context, hardware errors, handles of a destroyed context, kernel errors that
# corrupt the context, not ready, unknown.
_LOST = frozenset({46, 201, 214, 220, 226, 400, 700, 702, 709, 710, *range(714, 720), 802, 999})

_FAILURES: dict[int, int] = {}


def failures(device: int) -> int:
    """Return the number of failures of a device; a failure invalidates its loaded modules."""
    return _FAILURES.get(device, 0)


def raise_device_error(error: BaseException, device: int | None = None) -> None:
    """Raise a ``DeviceError`` for an error of a GPU or its driver; return for other errors.

    Args:
        error:  exception from CuPy.
        device: number of the device; by default the current device.

    Raises:
        DeviceError: the cause and the remedy.
    """
    cupy: Any = sys.modules.get("cupy")
    if cupy is None or isinstance(error, DeviceError):
        return
    if isinstance(error, cupy.cuda.memory.OutOfMemoryError):
        status = _NO_MEMORY
    else:
        status = getattr(error, "status", 0)  # of CUDARuntimeError and CUDADriverError
    if explanation := _explanation(status, cupy):
        number = cupy.cuda.runtime.getDevice() if device is None else device
        if status in _LOST:
            _FAILURES[number] = failures(number) + 1
        raise DeviceError(f"GPU {number}: {one_line(error)}; {explanation}") from error


def _explanation(status: int, cupy: Any) -> str:
    """Return the cause and remedy of a CUDA error, empty for errors unrelated to the device."""
    if status == _NO_MEMORY:
        return (
            "compute fewer states at a time, free memory "
            "(cupy.get_default_memory_pool().free_all_blocks()), or give NumPy arrays, also for "
            "out: they are transferred in chunks"
        )
    if status == _OUT_OF_LAUNCH_MEMORY:
        return "no memory for local variables of the threads; free memory, or use the CPU"
    if status in _DRIVER_TOO_OLD:
        return INSTALL_DRIVER
    if status in _CAPTURED:
        return (
            "stream capture does not allow loading a kernel or synchronizing, nor allocating from "
            'CuPy\'s pool in mode "global": before the capture, make a call with arrays of the '
            "same layout, and give out=, or bind it (robot.bind)"
        )
    if status in _IMAGE_REFUSED:
        return _versions(cupy)
    if status in _LOST:
        return (
            "all data on this GPU are lost. Use arrays on another GPU or the CPU, or start a new "
            "process; bind calls again"
        )
    return ""


def _versions(cupy: Any) -> str:
    """Return the cause and remedy of an image that the driver rejects."""
    from gridgen.backends.cuda.compiler import version  # imported lazily

    known = cupy.cuda.runtime.driverGetVersion()
    driver = f"{known // 1000}.{known % 1000 // 10}"
    package = "nvidia-cuda-nvrtc-cu12" if known // 1000 == 12 else "nvidia-cuda-nvrtc"
    try:
        maker = f"NVRTC {version()}"
    except CompileError:  # the image is from the cache
        maker = "the NVRTC that compiled it"
    return (
        f"the driver supports CUDA {driver} and is too old for code from {maker}: update it, or "
        f"install an older NVRTC (pip install '{package}=={driver}.*'), or use the CPU"
    )
