"""The ``emulated`` backend: CUDA kernels on the host, with a fiber for each CUDA thread.

The host's C++ compiler compiles the same ``.cu`` source as NVRTC, with ``emulated_cuda.h``. The
library is linked with ``emulated_runtime.cpp``, which is compiled once. The backend is slow. Its
uses are tests without a GPU, debuggers (the cache contains sources and debug information), and
sanitizers, for which a kernel is a stand-alone program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.compiler import host_compiler
from gridgen.backends.emulated.compiler import (
    FLAGS,
    build,
    translation_unit,
)
from gridgen.backends.interface import (
    THREAD_SCHEDULE,
    AnyLaunch,
    Arguments,
    Backend,
    RunnableKernel,
    Sources,
    kernel_name,
    launch_of,
)
from gridgen.backends.layouts import in_any_layout
from gridgen.errors import DeviceError, InternalError
from gridgen.functions.types import Dtype

_MESSAGE_BYTES = 1 << 16

#: Runs a grid: arrays, number of arrays, states, grid, buffer for a message and its size.
Entry = Callable[[Arguments, int, int, Arguments, Any, int], int]


class EmulatedBackend(Backend):
    """Backend that compiles kernels with the host's compiler and runs them on fibers.

    Args:
        cache: cache of compiled libraries; by default in the user's cache folder.
    """

    def __init__(self, *, cache: BuildCache | None = None) -> None:
        self._cache = cache or BuildCache()

    @staticmethod
    def require() -> None:
        """Raise ``CompileError`` unless a C++ compiler is available."""
        host_compiler()

    def kernel(
        self,
        sources: Sources,
        function: str,
        dtype: Dtype,
        launch: AnyLaunch = THREAD_SCHEDULE,
        batch: int = 0,
    ) -> RunnableKernel:
        """Return ``function`` of the module, compiled for ``dtype``.

        A function with a row form is compiled on its first call.
        """

        def made(are_rows: bool) -> EmulatedKernel:
            unit = translation_unit(sources.robot, function, dtype, rows=are_rows)
            entry = load_unit(sources, f"{function} ({dtype})", unit, FLAGS, self._cache)
            name = kernel_name(sources.robot, function, rows=are_rows)
            laid = launch_of(sources, function, dtype, launch, rows=are_rows)
            return EmulatedKernel(entry, laid, f"{name} ({dtype})")

        return in_any_layout(sources, function, made)


def load_unit(
    sources: Sources, name: str, text: str, flags: tuple[str, ...], cache: BuildCache
) -> Entry:
    """Return the entry point of a translation unit from the cache; compile it if absent.

    Raises:
        CompileError: no compiler is available, or it rejects the source.
    """
    path = build(sources, name, text, (*flags, "-shared"), cache)
    entry: Any = ctypes.CDLL(str(path)).gridgen_entry
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    entry.argtypes = (pointer, integer, integer, pointer, pointer, integer)
    entry.restype = ctypes.c_int
    found: Entry = entry
    return found


class EmulatedKernel:
    """A kernel compiled for the host."""

    def __init__(self, entry: Entry, launch: AnyLaunch, label: str) -> None:
        self._entry = entry
        self._launch = launch
        self._label = label

    def __call__(self, arguments: Arguments, batch: int) -> None:
        """Compute ``batch`` states; see :class:`gridgen.backends.interface.RunnableKernel`.

        Raises:
            DeviceError:   the stacks of a block's threads cannot be allocated.
            InternalError: threads deadlock, or execute different collective operations.
        """
        if batch == 0:
            return
        launch = self._launch.of(batch)
        grid = (ctypes.c_int64 * 3)(
            launch.threads_per_block, launch.blocks(batch), launch.shared_bytes
        )
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        status = self._entry(arguments, len(arguments) // 3, batch, grid, message, _MESSAGE_BYTES)
        if status == 0:
            return
        reason = message.value.decode(errors="replace")
        if status == 1:
            raise InternalError(f"{self._label}: {reason}")
        raise DeviceError(
            f'backend "emulated" has no memory for {launch.threads_per_block} threads ({reason}): '
            "use a smaller block, or raise the memory limit (ulimit -v)"
        )

    def prepare(self, arguments: Arguments, batch: int) -> Callable[[], None]:
        """Return a function that computes the same states; see ``RunnableKernel``."""
        return partial(self, arguments, batch)
