"""Xacro file -> URDF document, expanded by the package xacro."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridgen.errors import OptionError, UrdfError
from gridgen.model.readers.document import MAX_BYTES, Document, open_document
from gridgen.model.readers.limited import run_limited
from gridgen.model.readers.optional import library, require
from gridgen.naming import show, show_value


def is_path(source: str | os.PathLike[Any]) -> bool:
    """Return whether a path ends in ``.xacro``."""
    return os.fsdecode(source).endswith(".xacro")


def expand(path: Path, mappings: Mapping[str, str]) -> Document:
    """Expand a xacro file to a URDF document.

    Messages refer to lines of the expanded text and mark the source as expanded. A xacro file can
    include other files and evaluate expressions, so it is expanded in a child process with time
    and memory limits.

    Args:
        path:     path of the file.
        mappings: values of its arguments (``<xacro:arg>``).

    Raises:
        UrdfError:   the file cannot be read or expanded, or the package is missing.
        OptionError: a name or value in ``mappings`` is not a string.
    """
    source = str(path)
    for name, value in mappings.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise OptionError(
                f"mappings has {show_value(name)}: {show_value(value)}; give argument names "
                'and values as strings: mappings={"prefix": "left_"}'
            )
    if not path.is_file():
        raise UrdfError("cannot be read (there is no such file); give the path of a file", source)
    require("xacro", source, _NEEDS)
    text = run_limited(
        _expanded,
        source,
        dict(mappings),
        source=source,
        what="xacro",
        advice="correct its expressions, or expand it yourself: xacro FILE > robot.urdf",
    )
    return open_document(text, f"{source} (expanded)")


_NEEDS = "a xacro file requires"


def _expanded(source: str, mappings: dict[str, str]) -> str:
    """Return the expanded text of a file, truncated beyond the size limit of a URDF."""
    xacro = library("xacro", source, _NEEDS)
    try:
        text: str = xacro.process_file(source, mappings=mappings).toxml()
    except (Exception, SystemExit) as error:  # expressions may raise any exception
        if isinstance(getattr(error, "exc", error), MemoryError):  # xacro wraps the cause
            raise MemoryError from error
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UrdfError(f"xacro cannot expand it: {show(reason, 300)}", source) from error
    return text[: MAX_BYTES + 1]
