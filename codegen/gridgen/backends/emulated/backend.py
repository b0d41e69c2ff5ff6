"""The ``emulated`` backend: CUDA kernels on the host, each CUDA thread a fiber.

The ``.cu`` text that NVRTC gets is compiled by the host's C++ compiler against
``emulated_cuda.h``, and linked with ``emulated_runtime.cpp``, which is compiled once. It is made
for correctness, not for speed: for machines without a GPU, for debuggers (the sources stay beside
the library, which carries debug information), and for sanitizers, under which a kernel runs as a
program of its own.
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

#: What runs a grid: arrays, their number, states, grid, room for a message and its size.
Entry = Callable[[Arguments, int, int, Arguments, Any, int], int]


class EmulatedBackend(Backend):
    """Compiles kernels with the host's compiler and runs them on fibers.

    Args:
        cache: where libraries are kept; by default the user's cache folder.
    """

    def __init__(self, *, cache: BuildCache | None = None) -> None:
        self._cache = cache or BuildCache()

    @staticmethod
    def require() -> None:
        """Raise ``CompileError`` unless there is a C++ compiler."""
        host_compiler()

    def kernel(
        self,
        sources: Sources,
        function: str,
        dtype: Dtype,
        launch: AnyLaunch = THREAD_SCHEDULE,
    ) -> RunnableKernel:
        """Return ``function`` of the module, compiled for ``dtype``, to be launched as told.

        One that has a form for arrays in rows is compiled when it is called.
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
    """Return what runs the kernel of a translation unit, compiled now or found in the cache.

    Args:
        sources: files that the unit includes, but for ``compiler.HEADERS``.
        name:    what it is, for messages.
        text:    its text, which defines ``gridgen::emulated::kernel``.
        flags:   of the compiler.
        cache:   where libraries are kept.

    Raises:
        CompileError: there is no compiler, or it refused the text.
    """
    path = build(sources, name, text, (*flags, "-shared"), cache)
    entry: Any = ctypes.CDLL(str(path)).gridgen_entry
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    entry.argtypes = (pointer, integer, integer, pointer, pointer, integer)
    entry.restype = ctypes.c_int
    found: Entry = entry
    return found


class EmulatedKernel:
    """A kernel compiled for the host.

    Args:
        entry:  runs the grid, with the interpreter lock released.
        launch: threads, states and shared memory of a block.
        label:  the kernel's name, for messages.
    """

    def __init__(self, entry: Entry, launch: AnyLaunch, label: str) -> None:
        self._entry = entry
        self._launch = launch
        self._label = label

    def __call__(self, arguments: Arguments, batch: int) -> None:
        """Compute ``batch`` states; see :class:`gridgen.backends.interface.RunnableKernel`.

        Raises:
            DeviceError:   the machine does not grant the stacks of a block's threads.
            InternalError: threads wait for each other for ever, or meet in different operations.
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
            "use a smaller block, or raise the limit on memory (ulimit -v)"
        )

    def prepare(self, arguments: Arguments, batch: int) -> Callable[[], None]:
        """Return what computes the same states whenever it is called; see ``RunnableKernel``."""
        return partial(self, arguments, batch)
