"""Locked joints: replace joints by fixed ones at a position."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

from gridgen.errors import OptionError
from gridgen.model.description import Joint, RobotDescription, flatten_mimics, suggestion
from gridgen.model.diagnostics import Diagnostic
from gridgen.model.pose import (
    IDENTITY,
    ZERO,
    Pose,
    about_axis,
    add,
    frame_along,
    from_quaternion,
    scale,
    transpose,
)
from gridgen.naming import show, show_value
from gridgen.symbolic.joints import BALL, FREE

#: The coordinates of joints with more than one.
COORDINATES = {"planar": ("x", "y", "angle"), "floating": FREE.symbols, "ball": BALL.symbols}


def lock_joints(description: RobotDescription, lock: Mapping[str, Any]) -> RobotDescription:
    """Fix the locked joints of a robot, and the joints that mimic them.

    Args:
        description: robot.
        lock:        position of each joint by name [rad or m]: (x, y, angle) for a planar joint,
                     (x, y, z, qx, qy, qz, qw) for a floating joint, (qx, qy, qz, qw) for a ball
                     joint.

    Raises:
        OptionError: a joint does not exist, is fixed or mimics another joint, or a position does
                     not have one finite number per coordinate.
    """
    if not lock:
        return description
    joints = {joint.name: joint for joint in description.joints}
    positions = {name: _position(description, joints, name, lock[name]) for name in lock}
    for name, coupling in flatten_mimics(description).items():
        if coupling.leader in positions:
            (leader,) = positions[coupling.leader]
            positions[name] = (coupling.multiplier * leader + coupling.offset,)
    odd = (_beyond_limits(joints[name], positions[name]) for name in lock)
    description.warn(diagnostic for diagnostic in odd if diagnostic is not None)
    fixed = {
        name: replace(
            joints[name],
            kind="fixed",
            origin=joints[name].origin @ displacement(joints[name], position),
            mimic=None,
        )
        for name, position in positions.items()
    }
    held = (_of_the_others(entry, positions) for entry in description.constraints)
    tendons = {
        name: {
            **entry,
            "joints": {k: x for k, x in entry["joints"].items() if k not in positions},
            "offset": entry.get("offset", 0.0)
            + sum(x * positions[k][0] for k, x in entry["joints"].items() if k in positions),
        }
        for name, entry in description.tendons.items()
    }
    return replace(
        description,
        joints=tuple(fixed.get(joint.name, joint) for joint in description.joints),
        constraints=tuple(entry for entry in held if entry is not None),
        tendons=tendons,
    )


def _of_the_others(
    entry: Mapping[str, Any], positions: Mapping[str, tuple[float, ...]]
) -> Mapping[str, Any] | None:
    """Return a constraint of the file without locked joints; None if it relates no others."""
    joint, to = entry.get("joint", ""), entry.get("to", "")
    if entry["kind"] != "joint" or not positions.keys() & {joint, to}:
        return entry
    factor, offset = entry["multiplier"], entry["offset"]
    rest = {key: value for key, value in entry.items() if key not in ("to", "multiplier")}
    if joint not in positions:
        return {**rest, "offset": factor * positions[to][0] + offset}
    if not to or to in positions or factor == 0.0:
        return None
    return {**rest, "joint": to, "offset": (positions[joint][0] - offset) / factor}


def displacement(joint: Joint, position: tuple[float, ...]) -> Pose:
    """Return the displacement of a joint's link at a position, in the axes of its origin."""
    if joint.kind in ("floating", "ball"):
        return Pose(from_quaternion(*position[-4:]), (*position[:-4], *ZERO)[:3])  # type: ignore[arg-type]
    if joint.kind == "planar":
        x, y, angle = position
        x_axis, y_axis, _ = transpose(frame_along(joint.axis))
        return Pose(about_axis(joint.axis, angle), add(scale(x, x_axis), scale(y, y_axis)))
    joint_type = joint.joint_type
    assert joint_type is not None, joint.kind
    turn = about_axis(joint.axis, position[0]) if joint_type.turns else IDENTITY
    distance = joint_type.travel * position[0]
    return Pose(turn, scale(distance, joint.axis) if joint_type.slides else ZERO)


def _position(
    robot: RobotDescription, joints: Mapping[str, Joint], name: str, value: object
) -> tuple[float, ...]:
    """Return the validated coordinates of a locked joint."""
    where = f"{robot.source}: lock has {show(name)}"
    joint = joints.get(name)
    if joint is None:
        raise OptionError(f"{where}, which is not a joint{suggestion(name, joints)}")
    if joint.kind == "fixed":
        raise OptionError(f"{where}, a joint that is already fixed; leave it out")
    if joint.mimic is not None:
        raise OptionError(
            f"{where}, a joint that mimics {show(joint.mimic.joint)}; lock that joint instead"
        )
    needed = COORDINATES.get(joint.kind, ("a number",))
    numbers = value if isinstance(value, (tuple, list)) else (value,)
    is_number = all(isinstance(x, Real) and not isinstance(x, bool) for x in numbers)
    if not (is_number and len(numbers) == len(needed) and all(map(math.isfinite, numbers))):
        form = needed[0] if len(needed) == 1 else f"({', '.join(needed)})"
        raise OptionError(
            f"{where} at {show_value(value)}; lock a {joint.kind} joint at {form}, finite"
        )
    if joint.kind in ("floating", "ball") and not math.hypot(*numbers[-4:]) > 0.0:
        raise OptionError(f"{where} at a quaternion of norm 0; give one of norm 1")
    return tuple(map(float, numbers))


def _beyond_limits(joint: Joint, position: tuple[float, ...]) -> Diagnostic | None:
    limits = joint.limits
    if limits is None or joint.kind == "continuous" or len(position) > 1:
        return None
    if limits.lower <= position[0] <= limits.upper:
        return None
    return Diagnostic(
        "locked",
        f"joint {show(joint.name)}",
        f"is locked at {position[0]!r}, beyond its limits {limits.lower!r} to {limits.upper!r}",
        "give its position in rad or m",
        joint.line,
    )
