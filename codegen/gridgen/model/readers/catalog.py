"""Names of robots that the package robot_descriptions knows -> their files."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from gridgen.errors import UrdfError
from gridgen.model.readers.optional import library
from gridgen.naming import show, similar

NAME = re.compile(r"[A-Za-z]\w*_description")


def is_name(source: str) -> bool:
    """Return whether a text is such a name, and no file or folder is called like that."""
    return NAME.fullmatch(source) is not None and not os.path.exists(source)


def find(name: str) -> tuple[Path, Mapping[str, str] | None]:
    """Return the file of a robot, which the package downloads when it is first asked for.

    Returns:
        The path of a URDF, xacro or MJCF file, and the arguments of a xacro file.

    Raises:
        UrdfError: the package is missing, or knows no such robot, or cannot get it.
    """
    package = library("robot_descriptions", name, "no such file; and names of robots are known to")
    known = tuple(package.DESCRIPTIONS)
    if name not in known:
        close = ", ".join(show(other) for other in similar(name, known))
        raise UrdfError(
            "there is no such file, and robot_descriptions has no robot of that name"
            + (f"; did you mean {close}?" if close else "; its DESCRIPTIONS list what it has"),
            name,
        )
    try:
        module = importlib.import_module(f"robot_descriptions.{name}")
    except Exception as error:  # the network, git, the disk
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UrdfError(f"robot_descriptions cannot get it: {show(reason, 300)}", name) from error
    for attribute in ("URDF_PATH", "XACRO_PATH", "MJCF_PATH"):
        if path := getattr(module, attribute, None):
            return Path(path), getattr(module, "XACRO_ARGS", None)
    raise UrdfError("robot_descriptions has neither a URDF nor an MJCF file of it", name)
