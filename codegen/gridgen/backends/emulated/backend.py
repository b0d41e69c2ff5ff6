"""The ``emulated`` backend: CUDA kernels on the host, each CUDA thread a fiber.

The ``.cu`` text that NVRTC gets is compiled by the host's C++ compiler against
``emulated_cuda.h``, and linked with ``emulated_runtime.cpp``, which is compiled once. It is made
for correctness, not for speed: for machines without a GPU, for debuggers (the sources stay beside
the library, which carries debug information), and for sanitizers, under which a kernel runs as a
program of its own.
"""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.compiler import host_compiler
from gridgen.backends.emulated.compiler import (
    FLAGS,
    Sanitizer,
    build,
    run_program,
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

        def made(launch: AnyLaunch, are_rows: bool) -> EmulatedKernel:
            unit = translation_unit(sources.robot, function, dtype, rows=are_rows)
            entry = load_unit(sources, f"{function} ({dtype})", unit, FLAGS, self._cache)
            name = kernel_name(sources.robot, function, rows=are_rows)
            return EmulatedKernel(entry, launch, f"{name} ({dtype})")

        return in_any_layout(sources, function, np.dtype(dtype).itemsize, launch, made)


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


@dataclass(frozen=True)
class StandaloneRun:
    """What a kernel did as a program of its own.

    Attributes:
        arrays: every array after the run, in the order given; empty if the program failed.
        report: what the program and its sanitizer wrote.
        status: exit status: 0 for a run with nothing to report.
    """

    arrays: tuple[NDArray[Any], ...]
    report: str
    status: int


def run_standalone(
    sources: Sources,
    function: str,
    dtype: Dtype,
    arrays: Sequence[NDArray[Any]],
    launch: AnyLaunch = THREAD_SCHEDULE,
    *,
    rows: bool = False,
    batch: int | None = None,
    sanitize: Sanitizer | None = None,
    leave_out: tuple[str, int] | None = None,
    cache: BuildCache | None = None,
    words: tuple[int, int] | None = None,
) -> StandaloneRun:
    """Compile a kernel to a program, run it in a process of its own, and return what it did.

    Args:
        sources:  the robot's module.
        function: name of the function.
        dtype:    element type.
        arrays:   inputs, then outputs with what they hold before: (states, components) each. An
                  array broadcast over the states is handed over as one row.
        launch:   threads, states and shared memory of a block.
        rows:     whether it is the kernel's form for rows that runs.
        batch:    number of states; by default the rows of the last array.
        sanitize: the checks to compile in.
        leave_out: file and line of a barrier that is passed without waiting.
        cache:    where programs are kept; by default the user's cache folder.
        words:    an argument after the arrays that is none, where it has strides.

    Raises:
        CompileError: there is no compiler, or it refused the text.
    """
    unit = translation_unit(sources.robot, function, dtype, rows=rows)
    program = build(sources, f"{function} ({dtype})", unit, FLAGS, cache or BuildCache(), sanitize)
    batch = len(arrays[-1]) if batch is None else batch
    grid = launch.of(batch)
    states = [
        np.ascontiguousarray(array[:1] if array.strides[0] == 0 else array, dtype)
        for array in arrays
    ]
    count = len(states) + (words is not None)
    header = [batch, grid.threads_per_block, grid.blocks(batch), grid.shared_bytes, count]
    for array, given in zip(states, arrays, strict=True):
        header += [array.nbytes, 0 if given.strides[0] == 0 else array.shape[1], 1]
    header += [0, *words] if words is not None else []
    with tempfile.TemporaryDirectory(prefix="grid-gen-") as folder:
        inputs, outputs = Path(folder, "inputs"), Path(folder, "outputs")
        inputs.write_bytes(
            np.array(header, np.int64).tobytes() + b"".join(array.tobytes() for array in states)
        )
        command = (str(program), str(inputs), str(outputs), *map(str, leave_out or ()))
        result = run_program(command)
        if "unexpected memory mapping" in result.stderr and (tool := shutil.which("setarch")):
            # ThreadSanitizer needs address ranges that a strongly randomised layout may take.
            result = run_program((tool, "-R", *command))
        content = outputs.read_bytes() if outputs.exists() else b""
    computed = []
    begin = 0
    for array in states if content else ():
        computed.append(np.frombuffer(content, array.dtype, array.size, begin).reshape(array.shape))
        begin += array.nbytes
    return StandaloneRun(tuple(computed), result.stderr, result.returncode)
