"""A ROS 2 package: a module's library, and a controller for ros2_control."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import PurePath
from textwrap import wrap

from gridgen.errors import ModelError, OptionError
from gridgen.model.kinematic_tree import KinematicTree
from gridgen.naming import comment, robot_ident, show, string_literal
from gridgen.rendering import render
from gridgen.schedules.views import robot_view
from gridgen.version import __version__

#: Kinds of a module's files that its library consists of.
_LIBRARY = {".h", ".hpp", ".cpp", ".cuh", ".cu", ".txt"}
#: Packages of ROS that the controller includes.
_DEPENDS = (
    *("controller_interface", "hardware_interface", "pluginlib", "rclcpp", "rclcpp_lifecycle"),
    "trajectory_msgs",
)


def check_package(package: str) -> None:
    """Raise unless a word is the name of a ROS package and of a C++ namespace."""
    if not re.fullmatch(r"[a-z](_?[a-z0-9])+", package) or robot_ident(package) != package:
        raise OptionError(
            f"--ros2 is {show(package)}, which is not a package's name; give lowercase letters, "
            "digits and single underscores, a letter first: my_dynamics"
        )


def ros2_package(
    package: str, ident: str, tree: KinematicTree, files: Mapping[str, str]
) -> dict[str, str]:
    """Return the files of a package, by path.

    Args:
        package: its name.
        ident:   the name of the module.
        tree:    the robot.
        files:   those of its module, which has ``inverse_dynamics``.

    Raises:
        OptionError: the module has the package's name, or no inverse dynamics.
        ModelError: a joint has several coordinates, so that ros2_control cannot command it.
    """
    check_package(package)
    if package == ident:
        raise OptionError(f"--ros2 {package} is the module's name too; choose another name")
    if f"{ident}_inverse_dynamics_f64(" not in files[f"{ident}.h"]:
        raise OptionError("--ros2 needs inverse_dynamics; add it to --functions")
    moving = sorted((b for b in tree.bodies if not b.mimics), key=lambda body: body.v_index)
    for body in moving:
        if body.nv != 1:
            raise ModelError(
                f"{tree.source}: --ros2: joint {show(body.joint)} has {body.nv} velocities, and "
                "ros2_control commands joints with one; fix it with --lock"
            )
    endless = [
        str(b.joint_type.kind == "revolute" and tree.upper_limits[b.q_index] == math.inf).lower()
        for b in moving
    ]
    view = {
        "package": package,
        "robot": robot_view(tree, ident, __version__),
        "depends": _DEPENDS,
        "joints": [comment(body.joint) for body in moving],
        "names": [string_literal(body.joint) for body in moving],
        "endless": wrap(", ".join(endless), 100),
    }
    places = {
        "computed_torque.hpp": f"include/{package}/computed_torque.hpp",
        "controller.cpp": "src/controller.cpp",
    }
    names = ("package.xml", "CMakeLists.txt", "plugin.xml", "README.md", *places)
    own = {places.get(name, name): render(f"ros2/{name}.jinja", view) for name in names}
    return own | {
        f"{ident}/{n}": text for n, text in files.items() if PurePath(n).suffix in _LIBRARY
    }
