"""A xacro file -> the URDF that it expands to, by the package of that name."""

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
    """Return whether this is the path of a xacro file, by its end."""
    return os.fsdecode(source).endswith(".xacro")


def expand(path: Path, mappings: Mapping[str, str]) -> Document:
    """Return the document that a xacro file expands to.

    Lines in messages about it are those of the expanded text, and its source says so. xacro reads
    other files and evaluates expressions: unlike a URDF, such a file is a program. It runs in a
    child process, within limits of time and memory.

    Args:
        path:     the file.
        mappings: values of its arguments (``<xacro:arg>``).

    Raises:
        UrdfError:   it cannot be read or expanded, or the package is missing.
        OptionError: ``mappings`` are not texts by name.
    """
    source = str(path)
    for name, value in mappings.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise OptionError(
                f"mappings has {show_value(name)}: {show_value(value)}; give names of arguments "
                'and their values as text: mappings={"prefix": "left_"}'
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


_NEEDS = "a xacro file is expanded by"


def _expanded(source: str, mappings: dict[str, str]) -> str:
    """Return the text that a file expands to, cut where it is too long for a URDF."""
    xacro = library("xacro", source, _NEEDS)
    try:
        text: str = xacro.process_file(source, mappings=mappings).toxml()
    except (Exception, SystemExit) as error:  # whatever expressions of a file raise
        if isinstance(getattr(error, "exc", error), MemoryError):  # xacro's has its cause in it
            raise MemoryError from error
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UrdfError(f"xacro cannot expand it: {show(reason, 300)}", source) from error
    return text[: MAX_BYTES + 1]
