"""Host computations in the order of a GPU's stream, by compiled code only.

A stream calls a host function in a thread of the driver. A Python function would acquire the
interpreter lock and could deadlock with a thread that holds the lock and waits for a full launch
queue. The stream therefore calls ``gridgen_run_task`` (``stream_task.cpp``), which is compiled once
for all robots.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from dataclasses import dataclass
from typing import Any

from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.backend import MIN_SHARE, CpuKernel
from gridgen.backends.cpu.compiler import shared_library
from gridgen.backends.interface import Arguments, Sources
from gridgen.template_root import static_text

_TEXT = "stream_task.cpp"
_HEADERS = ("gridgen_share.h", "gridgen_simd.h", "gridgen_math.cuh", "gridgen.h")
_FLAGS = ("-std=c++17", "-O1", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-pthread")


class Task(ctypes.Structure):
    """A batch and its division among threads; see ``stream_task.cpp``."""

    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("arrays", ctypes.c_void_p),
        ("batch", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("block", ctypes.c_int64),
        ("least_share", ctypes.c_double),
    )


@dataclass(frozen=True)
class StreamTask:
    """A batch for a stream; the object must outlive the computation."""

    task: Task  #: parameters of ``gridgen_run_task``.
    arguments: Arguments  #: arrays of the task.

    def enqueue(self, stream: int) -> None:
        """Enqueue the batch on a stream.

        Args:
            stream: CUDA handle of a stream of the current device.

        Raises:
            RuntimeError: CUDA reports an error (CuPy's exception).
        """
        if status := launch(stream, runner(), ctypes.addressof(self.task)):
            raise sys.modules["cupy"].cuda.driver.CUDADriverError(status)


def task_of(kernel: CpuKernel, arguments: Arguments, batch: int) -> StreamTask:
    """Return the task of a batch, with the arguments of a call."""
    entry = kernel._code(batch).entry
    function = ctypes.cast(entry, ctypes.c_void_p)  # type: ignore[arg-type]  # is ctypes'
    arrays = ctypes.cast(arguments, ctypes.c_void_p)
    threads, block = kernel._workers.threads, kernel.at_once
    return StreamTask(Task(function, arrays, batch, threads, block, MIN_SHARE), arguments)


def launch(stream: int, function: int, argument: int) -> int:
    """Enqueue a call of ``void function(void* argument)``; return CUDA's status, 0 for success.

    Args: stream handle, address of the function, and its argument.
    """
    status: int = _driver().cuLaunchHostFunc(stream, function, argument)
    return status


@functools.cache
def runner() -> int:
    """Return the address of ``gridgen_run_task``."""
    files = {name: static_text(name) for name in _HEADERS}
    path = shared_library(
        Sources("gridgen", files), "gridgen_run_task", static_text(_TEXT), _FLAGS, BuildCache()
    )
    address = ctypes.cast(ctypes.CDLL(str(path)).gridgen_run_task, ctypes.c_void_p).value
    assert address is not None, "a function has an address"
    return address


@functools.cache
def _driver() -> Any:
    """Return CUDA's driver library, which CuPy has already loaded."""
    library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    library.cuLaunchHostFunc.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return library
