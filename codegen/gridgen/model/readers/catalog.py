"""Names of robots in the package robot_descriptions -> their files."""

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
    """Return whether a text is such a name, and not the path of a file or folder."""
    return NAME.fullmatch(source) is not None and not os.path.exists(source)


def find(name: str) -> tuple[Path, Mapping[str, str] | None]:
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
