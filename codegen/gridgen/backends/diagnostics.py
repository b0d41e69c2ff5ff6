"""Error messages for generated code that a compiler rejects."""

from __future__ import annotations

import errno
import os
import re
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


def compile_error(
    *,
    robot: str,
    function: str,
    compiler: str,
    log: str,
    files: Mapping[str, str],
    keep: Callable[[Mapping[str, str]], Path | None],
) -> CompileError | OSError:
    """Return the error for a failed compilation, an ``OSError`` if the disk is full.

    Args:
        robot:    identifier of the robot.
        function: function and element type.
        compiler: name of the compiler.
        log:      output of the compiler.
        files:    source text: file name -> content.
        keep:     saves the files in a folder and returns it, or None if that fails.
    """
    if any(reason in log for reason in _DISK_FULL):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
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
        f'robot "{robot}", function {function}: {compiler} rejected the generated code: {message}\n'
        f"{excerpt}"
        f"The source is {source}. This is a bug in gridgen, please report it."
    )


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
