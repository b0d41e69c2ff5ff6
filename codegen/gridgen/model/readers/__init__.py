"""Everything that a robot can be given as -> RobotDescription: files, texts, loaded objects.

A reader for each: ``urdf`` (over ``document``, ``values`` and ``vocabulary``), ``xacro``,
``objects``, ``pinocchio``, ``mujoco`` (over ``mujoco_fields``), and ``catalog`` for names. The
libraries behind them are imported when they are needed, never before; xacro and MuJoCo's compiler,
which a file could crash or keep busy, run in a child process (``limited``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridgen.errors import OptionError, UrdfError
from gridgen.model.description import RobotDescription
from gridgen.model.readers import catalog, mujoco, objects, pinocchio, urdf, xacro
from gridgen.model.readers.document import is_text, open_document
from gridgen.naming import show_value

__all__ = ["read_robot"]

OBJECTS = (
    (mujoco.is_model, mujoco.from_model),
    (pinocchio.is_model, pinocchio.from_model),
    (objects.is_robot_object, objects.from_object),
)
"""How an object is known, and who reads it."""


def read_robot(
    robot: Any, most_bodies: float, mappings: Mapping[str, str] | None = None
) -> RobotDescription:
    """Return what a robot is said to be, whatever says it.

    Args:
        robot:       a path of a URDF, xacro or MJCF file; URDF or MJCF as text; an object as
                     urdfpy, urchin, yourdfpy, Pinocchio or MuJoCo load it; or a name of the package
                     robot_descriptions.
        most_bodies: a robot that surely has more moving bodies is refused before it is read.
        mappings:    the arguments of a xacro file.

    Raises:
        UrdfError:   it is none of these, or not one sound robot.
        ModelError:  it has what dynamics here does not know, or more than ``most_bodies``.
        OptionError: there are ``mappings``, but the robot is no xacro file.
    """
    if isinstance(robot, str) and catalog.is_name(robot):
        robot, defaults = catalog.find(robot)
        mappings = defaults if mappings is None else {**(defaults or {}), **mappings}
    if isinstance(robot, (str, os.PathLike)) and xacro.is_path(robot):
        return urdf.read_urdf(xacro.expand(Path(os.fsdecode(robot)), mappings or {}), most_bodies)
    if mappings:
        raise OptionError(
            f"mappings is {show_value(dict(mappings))}, but the robot is no xacro file, whose "
            "arguments they are; leave them out, or give the path of one (robot.urdf.xacro)"
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
        "give the path of a URDF, xacro or MJCF file, its text, or a robot as urdfpy, urchin, "
        "yourdfpy, Pinocchio or MuJoCo load it"
    )
    if hasattr(robot, "read"):
        what, advice = "an open file", "give its path, or what its read() returns"
    raise UrdfError(f"the robot is {what}; {advice}", "urdf")
