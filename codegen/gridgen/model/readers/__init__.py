"""File, text, or loaded object -> RobotDescription.

Readers: ``urdf`` (with ``document``, ``values`` and ``vocabulary``), ``objects``, ``pinocchio``,
``mujoco`` (with ``mujoco_fields``), and ``packages`` for names and xacro files. Third-party
libraries are imported lazily. xacro and MuJoCo's compiler run in a child process (``limited``),
since a malformed file can crash or hang them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridgen.errors import OptionError, UrdfError
from gridgen.model.description import RobotDescription
from gridgen.model.readers import mujoco, objects, packages, pinocchio, urdf
from gridgen.model.readers.document import is_text, open_document
from gridgen.naming import show_value

__all__ = ["read_robot"]

OBJECTS = (
    (mujoco.is_model, mujoco.from_model),
    (pinocchio.is_model, pinocchio.from_model),
    (objects.is_robot_object, objects.from_object),
)
"""Predicate and reader of each type of object."""


def read_robot(
    robot: Any, most_bodies: float, mappings: Mapping[str, str] | None = None
) -> RobotDescription:
    """Read the description of a robot.

    Args:
        robot:       path of a URDF, xacro or MJCF file; URDF or MJCF text; robot object loaded by
                     urdfpy, urchin, yourdfpy, Pinocchio or MuJoCo; or a name in the package
                     robot_descriptions.
        most_bodies: maximum number of moving bodies, checked before the file is read.
        mappings:    arguments of a xacro file.

    Raises:
        UrdfError:   the input is none of these, or is not a valid robot.
        ModelError:  the robot has unsupported features, or more than ``most_bodies``.
        OptionError: ``mappings`` are given for a robot that is not a xacro file.
    """
    if isinstance(robot, str) and packages.is_robot_name(robot):
        robot, defaults = packages.file_of(robot)
        mappings = defaults if mappings is None else {**(defaults or {}), **mappings}
    if isinstance(robot, (str, os.PathLike)) and packages.is_xacro(robot):
        return urdf.read_urdf(
            packages.expand_xacro(Path(os.fsdecode(robot)), mappings or {}), most_bodies
        )
    if mappings:
        raise OptionError(
            f"mappings is {show_value(dict(mappings))}, but the robot is not a xacro file; leave "
            "out mappings, or give the path of a xacro file (robot.urdf.xacro)"
        )
    if isinstance(robot, (str, bytes, bytearray, memoryview, os.PathLike)):
        document = open_document(robot)
        if document.tag == "mujoco":
            is_path = isinstance(robot, os.PathLike) or (
                isinstance(robot, str) and not is_text(robot)
            )
            path = os.fsdecode(robot) if is_path else None  # type: ignore[arg-type]
            return mujoco.from_file(document, path, most_bodies)
        return urdf.read_urdf(document, most_bodies)
    for is_one, read in OBJECTS:
        if is_one(robot):
            return read(robot)
    kind = type(robot)
    what = "None" if robot is None else f"a {kind.__module__}.{kind.__qualname__}"
    advice = (
        "give the path of a URDF, xacro or MJCF file, its text, or a robot loaded by urdfpy, "
        "urchin, yourdfpy, Pinocchio or MuJoCo"
    )
    if hasattr(robot, "read"):
        what, advice = "an open file", "give its path, or the result of its read()"
    raise UrdfError(f"the robot is {what}; {advice}", "urdf")
