"""Emulated kernels as standalone programs, optionally with sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gridgen.backends.cache import BuildCache
from gridgen.backends.emulated.compiler import FLAGS, build, translation_unit
from gridgen.backends.interface import THREAD_SCHEDULE, AnyLaunch, Sources, launch_of
from gridgen.backends.process import run
from gridgen.functions.types import Dtype

Sanitizer = Literal["thread", "address,undefined"]

# Reports need lines, not variables. Optimizing address checks takes long compile times.
_SANITIZED = {
    "thread": ("-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"),
    "address,undefined": ("-g1", "-O0", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"),
}
# The runtime is not instrumented: it calls the sanitizer's interface.
_SANITIZED_RUNTIME = {
    "thread": ("-DGRIDGEN_THREAD_SANITIZER",),
    "address,undefined": ("-DGRIDGEN_ADDRESS_SANITIZER",),
}
_SANITIZER_OPTIONS = {
    "TSAN_OPTIONS": "exitcode=66:halt_on_error=0",
    "ASAN_OPTIONS": "detect_leaks=0:exitcode=66",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@dataclass(frozen=True)
class StandaloneRun:
    """Result of a kernel that ran as a standalone program.

    Attributes:
        arrays: every array after the run, in the order given; empty if the program failed.
        report: output of the program and its sanitizer.
        status: exit status; 0 without findings.
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
    """Compile a kernel to a program, run it in a separate process, and return the result.

    Args:
        sources:  the robot's module.
        function: name of the function.
        dtype:    element type.
        arrays:   inputs, then outputs with their initial values: (states, components) each. An
                  array that is broadcast over the states is passed as one row.
        launch:   threads, states and shared memory of a block.
        rows:     whether to run the variant for rows.
        batch:    number of states; by default the rows of the last array.
        sanitize: sanitizers to compile with.
        leave_out: file and line of a barrier to skip.
        cache:    cache of programs; by default the user's cache folder.
        words:    two integers that follow the arrays in place of strides.

    Raises:
        CompileError: there is no compiler, or compilation fails.
    """
    unit = translation_unit(sources.robot, function, dtype, rows=rows)
    flags, runtime_flags = FLAGS, ()
    if sanitize:
        flags = (*FLAGS, f"-fsanitize={sanitize}", *_SANITIZED[sanitize])
        runtime_flags = _SANITIZED_RUNTIME[sanitize]
    name = f"{function} ({dtype})"
    program = build(sources, name, unit, flags, cache or BuildCache(), runtime_flags)
    batch = len(arrays[-1]) if batch is None else batch
    grid = launch_of(sources, function, dtype, launch, rows=rows).of(batch)
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
            # ThreadSanitizer needs address ranges that strong randomization may occupy.
            result = _run((tool, "-R", *command))
        content = outputs.read_bytes() if outputs.exists() else b""
    computed = []
    begin = 0
    for array in states if content else ():
        computed.append(np.frombuffer(content, array.dtype, array.size, begin).reshape(array.shape))
        begin += array.nbytes
    return StandaloneRun(tuple(computed), result.stderr, result.returncode)


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return run(command, dict(os.environ, LC_ALL="C", **_SANITIZER_OPTIONS))
