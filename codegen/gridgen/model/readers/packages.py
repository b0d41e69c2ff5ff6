"""Robots of other packages: names of robot_descriptions, xacro files; imports of such packages."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridgen.errors import OptionError, UrdfError
from gridgen.model.readers.document import MAX_BYTES, Document, open_document
from gridgen.model.readers.limited import run_limited
from gridgen.naming import one_line, show, show_value, similar

NAME = re.compile(r"[A-Za-z]\w*_description")


def is_robot_name(source: str) -> bool:
    """Return whether a text is a name of robot_descriptions, not the path of a file or folder."""
    return NAME.fullmatch(source) is not None and not os.path.exists(source)


def file_of(name: str) -> tuple[Path, Mapping[str, str] | None]:
    """Return the file of a robot, which the package downloads on first use.

    Returns:
        Path of a URDF, xacro or MJCF file, and the arguments of a xacro file.

    Raises:
        UrdfError: the package is missing, has no such robot, or cannot download it.
    """
    package = library("robot_descriptions", name, "there is no such file; a robot's name requires")
    known = tuple(package.DESCRIPTIONS)
    if name not in known:
        close = ", ".join(show(other) for other in similar(name, known))
        raise UrdfError(
            "there is no such file, and robot_descriptions has no robot of that name"
            + (f"; did you mean {close}?" if close else "; its DESCRIPTIONS list all names"),
            name,
        )
    try:
        module = importlib.import_module(f"robot_descriptions.{name}")
    except Exception as error:  # the network, git, the disk
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UrdfError(f"robot_descriptions cannot load it: {show(reason, 300)}", name) from error
    for attribute in ("URDF_PATH", "XACRO_PATH", "MJCF_PATH"):
        if path := getattr(module, attribute, None):
            return Path(path), getattr(module, "XACRO_ARGS", None)
    raise UrdfError("robot_descriptions has no URDF, xacro or MJCF file for it", name)


def is_xacro(source: str | os.PathLike[Any]) -> bool:
    """Return whether a path ends in ``.xacro``."""
    return os.fsdecode(source).endswith(".xacro")


def expand_xacro(path: Path, mappings: Mapping[str, str]) -> Document:
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


def library(name: str, source: str, what: str) -> Any:
    """Import a library.

    Args:
        name:   name of the module and its package.
        source: name of the robot in messages.
        what:   beginning of the message: ``a xacro file requires``.

    Raises:
        UrdfError: the library is not installed, or its import fails.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            raise _missing(name, source, what) from error
        raise UrdfError(
            f"{what} the package {name}, whose import fails: {one_line(error)}", source
        ) from error


def require(name: str, source: str, what: str) -> None:
    """Raise if a library is not installed, without an import; see ``library``."""
    if importlib.util.find_spec(name) is None:
        raise _missing(name, source, what)


def _missing(name: str, source: str, what: str) -> UrdfError:
    trouble = f"the package {name}, which is not installed: pip install {name}"
    return UrdfError(f"{what} {trouble}", source)
