"""Error messages for generated code that a compiler rejects."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath

from gridgen.errors import CompileError

# "file:12:5: error: text" of the host compilers, "file(12): error #20-D: text" of NVRTC.
_ERROR = re.compile(
    r"^(?P<file>[^\n]+?)(?::(?P<colon>\d+)(?::\d+)?|\((?P<parenthesis>\d+)\)):"
    r" (?:[a-z]+ )?error(?: #[\w-]+)?: (?P<text>.+)$",
    re.MULTILINE,
)

# Messages of compilers for a full disk.
_DISK_FULL = ("No space left on device", "Disk quota exceeded", "NoSpaceLeft")

# Exit statuses of a program that SIGKILL ended, its own and of a shell: the system sends it when
# memory runs out.
_KILLED = (-9, 128 + 9)
# Messages of compilers without memory, and of drivers whose compiler was killed.
_NO_MEMORY = re.compile(
    "out of memory|virtual memory exhausted|cannot allocate memory|bad_alloc|"
    r"[Kk]illed signal terminated|\(killed\)|^\s*killed\s*$",
    re.IGNORECASE | re.MULTILINE,
)


def compile_error(
    *,
    robot: str,
    function: str,
    compiler: str,
    log: str,
    files: Mapping[str, str],
    keep: Callable[[Mapping[str, str]], Path | None],
    status: int = 1,
) -> CompileError | OSError:
    """Return the error for a failed compilation, an ``OSError`` if the disk is full.

    Args:
        robot:    identifier of the robot.
        function: function and element type.
        compiler: name of the compiler.
        log:      output of the compiler.
        files:    source text: file name -> content.
        keep:     saves the files in a folder and returns it, or None if that fails.
        status:   exit status of the compiler; a negative one is the signal that ended it.
    """
    where = f'robot "{robot}", function {function}: {compiler}'
    if any(reason in log for reason in _DISK_FULL):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if status in _KILLED or _NO_MEMORY.search(log):
        size = sum(map(len, files.values()))
        return CompileError(
            f"{where} ended because memory ran out ({_memory()}): the source has {size >> 10} kB. "
            "Compile fewer functions at a time (by default as many as there are cores), or "
            "load the robot, or generate a module, with a smaller longest_program: longer programs "
            "loop over bodies"
        )
    if status < 0:
        return CompileError(
            f"{where} ended by signal {signal.Signals(-status).name}: it does not say why; try "
            "again, or another compiler ($CXX)"
        )
    found = _ERROR.search(log)
    if found is None:
        lines = [line.strip() for line in log.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        message, excerpt = (errors or lines or ["no reason given"])[0], ""
    else:
        name = PurePath(found["file"]).name
        number = int(found["colon"] or found["parenthesis"])
        message = f"{name}:{number}: {found['text'].strip()}"
        excerpt = numbered_lines(files.get(name, ""), number)
    folder = keep(files)
    source = f"saved in {folder}" if folder else "lost, because the disk is full"
    return CompileError(
        f"{where} rejected the generated code: {message}\n"
        f"{excerpt}"
        f"The source is {source}. This is a bug in gridgen, please report it."
    )


def _memory() -> str:
    """Return the memory of this machine, and of the largest program that this process has run."""
    try:
        import resource

        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ImportError, AttributeError, OSError, ValueError):  # the system does not report it
        return "the system does not report how much"
    largest = peak * (1 if sys.platform == "darwin" else 1024)
    return f"the largest compilation so far used {largest / 1e9:.1f} of {there / 1e9:.1f} GB"


def numbered_lines(text: str, number: int) -> str:
    """Return line ``number`` (from 1), marked, with its neighbors."""
    lines = text.splitlines()
    if not 1 <= number <= len(lines):
        return ""
    first = max(1, number - 1)
    return "".join(
        f"{'>' if i == number else ' '} {i:5d} | {line}\n"
        for i, line in enumerate(lines[first - 1 : number + 1], first)
    )
