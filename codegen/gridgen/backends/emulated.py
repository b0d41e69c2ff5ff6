"""The ``emulated`` backend: CUDA kernels on the host, each CUDA thread a fiber.

The ``.cu`` text that NVRTC gets is compiled by the host's C++ compiler against
``emulated_cuda.h``, and linked with ``emulated_runtime.cpp``, which is compiled once. It is made
for correctness, not for speed: for machines without a GPU, for debuggers (the sources stay beside
the library, which carries debug information), and for sanitizers, under which a kernel runs as a
program of its own.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gridgen.backends.cache import BuildCache, cache_key
from gridgen.backends.compiler import Compiler, host_compiler, host_entry
from gridgen.backends.diagnostics import compile_error
from gridgen.backends.interface import (
    SCALARS,
    THREAD_SCHEDULE,
    AnyLaunch,
    Arguments,
    Backend,
    Dtype,
    Kernel,
    Sources,
    kernel_name,
    only,
)
from gridgen.backends.layouts import in_any_layout
from gridgen.backends.process import run
from gridgen.errors import DeviceError, InternalError
from gridgen.template_root import static_text

#: What stands for CUDA; a module's own files do not need it.
HEADERS = (
    "emulated_cuda.h",
    "emulated_kernel.h",
    "emulated_team.h",
    "emulated_fiber.h",
    "emulated_memory.h",
)
#: What every kernel is linked with.
RUNTIME = "emulated_runtime.cpp"

Sanitizer = Literal["thread", "address,undefined"]

FLAGS = (
    "-std=c++17",
    "-g",
    "-O1",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fvisibility=hidden",  # static shared variables of two libraries must not become one
    "-fPIC",
)
_RUNTIME_FLAGS = ("-std=c++20", "-O1", "-fvisibility=hidden", "-fPIC", "-c")
_LIBRARY = ("-shared",)
# A report names lines, not variables. Optimizing what checks addresses takes a compiler long.
_SANITIZED = {
    "thread": ("-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"),
    "address,undefined": ("-g1", "-O0", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"),
}
# The runtime is not instrumented: it tells the sanitizer what it shall know.
_SANITIZED_RUNTIME = {
    "thread": ("-DGRIDGEN_THREAD_SANITIZER",),
    "address,undefined": ("-DGRIDGEN_ADDRESS_SANITIZER",),
}
_SANITIZER_OPTIONS = {
    "TSAN_OPTIONS": "exitcode=66:halt_on_error=0",
    "ASAN_OPTIONS": "detect_leaks=0:exitcode=66",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
# The emulation needs a C++ standard library, which other generated code does without.
_UNWANTED = "-nostdlib++"
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
    ) -> Kernel:
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
        sources: files that the unit includes, but for those of :data:`HEADERS`.
        name:    what it is, for messages.
        text:    its text, which defines ``gridgen::emulated::kernel``.
        flags:   of the compiler.
        cache:   where libraries are kept.

    Raises:
        CompileError: there is no compiler, or it refused the text.
    """
    path = _build(sources, name, text, (*flags, *_LIBRARY), None, cache)
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
        """Compute ``batch`` states; see :class:`gridgen.backends.interface.Kernel`.

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
        """Return what computes the same states whenever it is called; see ``Kernel``."""
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
    flags = (*FLAGS, f"-fsanitize={sanitize}", *_SANITIZED[sanitize]) if sanitize else FLAGS
    unit = translation_unit(sources.robot, function, dtype, rows=rows)
    program = _build(sources, f"{function} ({dtype})", unit, flags, sanitize, cache or BuildCache())
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
        result = _run(command)
        if "unexpected memory mapping" in result.stderr and (tool := shutil.which("setarch")):
            # ThreadSanitizer needs address ranges that a strongly randomized layout may take.
            result = _run((tool, "-R", *command))
        content = outputs.read_bytes() if outputs.exists() else b""
    computed = []
    begin = 0
    for array in states if content else ():
        computed.append(np.frombuffer(content, array.dtype, array.size, begin).reshape(array.shape))
        begin += array.nbytes
    return StandaloneRun(tuple(computed), result.stderr, result.returncode)


def translation_unit(robot: str, function: str, dtype: Dtype, *, rows: bool = False) -> str:
    """Return the text that instantiates one kernel of a module and makes it a program too."""
    name = kernel_name(robot, function, rows=rows)
    kernel = f"gridgen::emulated::Called<::{name}<{SCALARS[dtype]}>>"
    return (
        "".join(f"#define {macro}\n" for macro in only(function)) + '#include "emulated_cuda.h"\n'
        "\n"
        f'#include "{robot}.cu"\n'
        "\n"
        f"const gridgen::emulated::Entry gridgen::emulated::kernel = {{\n"
        f"    {kernel}::arrays,\n"
        f"    {kernel}::run,\n"
        "};\n"
    )


@dataclass(frozen=True)
class _Unit:
    """A translation unit.

    Attributes:
        name:    what it is, for messages.
        text:    its text.
        sources: files that it may include.
        flags:   compiler flags.
        output:  name of the file that the compiler makes of it.
        linked:  another one that is linked with it.
    """

    name: str
    text: str
    sources: Sources
    flags: tuple[str, ...]
    output: str
    linked: _Unit | None = None

    def digest(self) -> str:
        """Return the digest of all that decides what becomes of it, the compiler apart."""
        return cache_key(
            text=self.text,
            files=self.sources.included_by(self.text).digest,
            flags=self.flags,
            linked=self.linked.digest() if self.linked else "",
        )


def _build(
    sources: Sources,
    name: str,
    text: str,
    flags: tuple[str, ...],
    sanitize: Sanitizer | None,
    cache: BuildCache,
) -> Path:
    """Return a library or program, compiled now or found in the cache with its sources."""
    headers = {name: static_text(name) for name in HEADERS}
    all_files = Sources(sources.robot, {**sources.files, **headers})
    told = _SANITIZED_RUNTIME[sanitize] if sanitize else ()
    runtime = _Unit(RUNTIME, static_text(RUNTIME), all_files, (*_RUNTIME_FLAGS, *told), "runtime.o")
    flags = ("-march=native", *flags)
    unit = _Unit(name, text, all_files, flags, "kernel", runtime)
    return _compiled(unit, cache)


def _compiled(unit: _Unit, cache: BuildCache) -> Path:
    files = {**unit.sources.included_by(unit.text).files, "unit.cpp": unit.text}

    def build(compiler: Compiler, key: str, entry: Path) -> None:
        linked = (str(_compiled(unit.linked, cache)),) if unit.linked else ()
        for name, text in files.items():
            (entry / name).write_text(text, encoding="utf-8")
        # The folder is renamed when it is complete; debuggers shall look under the lasting name.
        renamed = f"-ffile-prefix-map={entry}={entry.parent / key}"
        own = (flag for flag in compiler.flags if flag != _UNWANTED)
        command = (*compiler.command, *own, *unit.flags, renamed, str(entry / "unit.cpp"))
        result = _run((*command, *linked, "-o", str(entry / unit.output)))
        if result.returncode != 0:
            raise compile_error(
                robot=unit.sources.robot,
                function=unit.name,
                compiler=compiler.label,
                log=result.stderr,
                files=files,
                keep=partial(cache.keep_failure, key),
            )

    return host_entry(build, cache, kind="emulated", unit=unit.digest()) / unit.output


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return run(command, dict(os.environ, LC_ALL="C", **_SANITIZER_OPTIONS))
