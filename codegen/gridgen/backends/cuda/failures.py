"""What goes wrong on a GPU: said clearly; and what was made there before is made anew."""

from __future__ import annotations

import sys
from typing import Any

from gridgen.errors import CompileError, DeviceError
from gridgen.naming import one_line

#: What CuPy raises where CUDA fails, among other things.
ERRORS = (MemoryError, RuntimeError)

INSTALL_DRIVER = 'install or update the NVIDIA driver, or use backend="cpu"'

# CUDA's numbers of errors, which its driver and its runtime have in common.
_NO_MEMORY = 2
_NO_ROOM_FOR_A_LAUNCH = 701
_DRIVER_TOO_OLD = frozenset({35, 803})
# Not while a stream is captured, and what is captured is of no use any more.
_CAPTURED = frozenset(range(900, 909))
_IMAGE_REFUSED = frozenset({200, 209, 218, 221, 222, 223})
# Unavailable, no context, hardware errors, handles of a context that is gone, errors of a kernel
# after which the context is of no use, not ready, unknown.
_LOST = frozenset({46, 201, 214, 220, 226, 400, 700, 702, 709, 710, *range(714, 720), 802, 999})

_FAILURES: dict[int, int] = {}


def failures(device: int) -> int:
    """Return how often a device has failed: what was made on it before is of no use since."""
    return _FAILURES.get(device, 0)


def raise_device_error(error: BaseException, device: int | None = None) -> None:
    """Raise a ``DeviceError`` if an error tells that a GPU fails or lacks something; else return.

    Args:
        error:  what has been raised.
        device: where; by default the current device.

    Raises:
        DeviceError: what has happened, and what to do.
    """
    cupy: Any = sys.modules.get("cupy")
    if cupy is None or isinstance(error, DeviceError):
        return
    if isinstance(error, cupy.cuda.memory.OutOfMemoryError):
        status = _NO_MEMORY
    else:
        status = getattr(error, "status", 0)  # as CUDARuntimeError and CUDADriverError have it
    if explanation := _explanation(status, cupy):
        number = cupy.cuda.runtime.getDevice() if device is None else device
        if status in _LOST:
            _FAILURES[number] = failures(number) + 1
        raise DeviceError(f"GPU {number}: {one_line(error)}; {explanation}") from error


def _explanation(status: int, cupy: Any) -> str:
    """Return what an error means and what to do, or nothing for one that tells of no device."""
    if status == _NO_MEMORY:
        return (
            "compute fewer states at a time, free memory "
            "(cupy.get_default_memory_pool().free_all_blocks()), or give NumPy arrays, also for "
            "out: these are brought there and back a part at a time"
        )
    if status == _NO_ROOM_FOR_A_LAUNCH:
        return "there is no room for what the kernel's threads keep; free memory, or use the CPU"
    if status in _DRIVER_TOO_OLD:
        return INSTALL_DRIVER
    if status in _CAPTURED:
        return (
            "while a stream is captured no kernel can be loaded and nothing be waited for: make a "
            "call with arrays like these, or bind one (robot.bind), before the capture begins"
        )
    if status in _IMAGE_REFUSED:
        return _versions(cupy)
    if status in _LOST:
        return (
            "what lies on it is lost. Go on with arrays on another GPU or the CPU, or in a new "
            "process; bind calls again"
        )
    return ""


def _versions(cupy: Any) -> str:
    """Return why a driver may refuse what NVRTC makes, and what to do."""
    from gridgen.backends.cuda.compiler import version  # modules start without

    known = cupy.cuda.runtime.driverGetVersion()
    driver = f"{known // 1000}.{known % 1000 // 10}"
    package = "nvidia-cuda-nvrtc-cu12" if known // 1000 == 12 else "nvidia-cuda-nvrtc"
    try:
        maker = f"NVRTC {version()}"
    except CompileError:  # what is in the cache has been loaded
        maker = "the NVRTC that compiled it"
    return (
        f"the driver, made for CUDA {driver}, is too old for what {maker} makes: update it, or "
        f"install an NVRTC that it knows (pip install '{package}=={driver}.*'), or use the CPU"
    )
