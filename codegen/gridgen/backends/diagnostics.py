"""What a user reads when a compiler refuses generated code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePath

from gridgen.errors import CompileError

# "file:12:5: error: text" of the host compilers, "file(12): error #20-D: text" of NVRTC.
_ERROR = re.compile(
    r"^(?P<file>[^\n]+?)(?::(?P<colon>\d+)(?::\d+)?|\((?P<parenthesis>\d+)\)):"
    r" (?:[a-z]+ )?error(?: #[\w-]+)?: (?P<text>.+)$",
    re.MULTILINE,
)


def compile_error(
    *, robot: str, function: str, compiler: str, log: str, files: Mapping[str, str], kept: Path
) -> CompileError:
    """Return the error for a failed compilation.

    Args:
        robot:    the robot's identifier.
        function: the function asked for, with its element type.
        compiler: what refused the text.
        log:      everything the compiler said.
        files:    the compiled text: file name -> content.
        kept:     folder in which those files have been kept.
    """
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
    return CompileError(
        f'robot "{robot}", function {function}: {compiler} refused the generated code: {message}\n'
        f"{excerpt}"
        f"The source is kept in {kept}. This is a bug in gridgen, please report it."
    )


def numbered_lines(text: str, number: int) -> str:
    """Return line ``number`` (counted from one) with its neighbours, the line itself marked."""
    lines = text.splitlines()
    if not 1 <= number <= len(lines):
        return ""
    first = max(1, number - 1)
    return "".join(
        f"{'>' if i == number else ' '} {i:5d} | {line}\n"
        for i, line in enumerate(lines[first - 1 : number + 1], first)
    )
