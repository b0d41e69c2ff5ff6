"""What a user reads when a compiler refuses generated code."""

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

# What compilers say when there is no room for what they write.
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
    """Return the error for a failed compilation: an ``OSError`` if it had no room.

    Args:
        robot:    the robot's identifier.
        function: the function asked for, with its element type.
        compiler: what refused the text.
        log:      everything the compiler said.
        files:    the compiled text: file name -> content.
        keep:     keeps those files in a folder and returns it, if that is possible.
    """
    if any(reason in log for reason in _DISK_FULL):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    found = _ERROR.search(log)
    if found is None:
        said = [line.strip() for line in log.splitlines() if line.strip()]
        erring = [line for line in said if "error" in line.lower()]
        message, excerpt = (erring or said or ["it gave no reason"])[0], ""
    else:
        name = PurePath(found["file"]).name
        number = int(found["colon"] or found["parenthesis"])
        message = f"{name}:{number}: {found['text'].strip()}"
        excerpt = numbered_lines(files.get(name, ""), number)
    kept = keep(files)
    place = f"kept in {kept}" if kept else "lost, as there is no room to keep it"
    return CompileError(
        f'robot "{robot}", function {function}: {compiler} refused the generated code: {message}\n'
        f"{excerpt}"
        f"The source is {place}. This is a bug in gridgen, please report it."
    )


def numbered_lines(text: str, number: int) -> str:
    """Return line ``number`` (counted from one) with its neighbors, the line itself marked."""
    lines = text.splitlines()
    if not 1 <= number <= len(lines):
        return ""
    first = max(1, number - 1)
    return "".join(
        f"{'>' if i == number else ' '} {i:5d} | {line}\n"
        for i, line in enumerate(lines[first - 1 : number + 1], first)
    )
