"""Rotors of motors behind gears: their inertia at the joint, and their gyroscopic moment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gridgen.errors import OptionError
from gridgen.model.description import (
    ONE_COORDINATE,
    Inertial,
    Joint,
    Link,
    Mimic,
    RobotDescription,
    suggestion,
)
from gridgen.model.pose import NO_DISPLACEMENT, apply, transpose
from gridgen.naming import show, show_value


def add_rotors(
    description: RobotDescription, rotors: Mapping[str, Any], *, gyroscopic: bool
) -> RobotDescription:
    """Add the rotors of motors to a robot.

    The mass and the inertia of a rotor that does not spin belong to the joint's parent link. At
    the speed ``ratio * qd`` about the joint's axis it adds ``inertia * ratio**2`` to the armature.
    Its angular momentum also couples the joint with rotations of the parent. A gyroscopic rotor is
    therefore a body of its own, on a joint that mimics the motor's.

    Args:
        description: robot.
        rotors:      inertia about the axis [kg m^2] and gear ratio of the motor of each joint.
        gyroscopic:  whether the rotors are bodies.

    Raises:
        OptionError: a joint has several coordinates or mimics another, or a number is invalid.
    """
    joints = {joint.name: joint for joint in description.joints}
    links = {link.name: link for link in description.links}
    moving = {joint.child for joint in description.joints}
    for name in rotors:
        inertia, ratio = _numbers(description, joints, name, rotors[name])
        joint = joints[name]
        if not gyroscopic or joint.kind not in ("revolute", "continuous"):
            own = sum(joint.armature) + inertia * ratio * ratio
            joints[name] = replace(joint, armature=(own,))
            continue
        rotor, parent = f"{name}_rotor", links[joint.parent]
        if taken := {rotor} & (joints.keys() | links.keys()):
            raise OptionError(
                f"{description.source}: {show(taken.pop())} is the name of a rotor: rename the "
                "link or the joint of this name"
            )
        mimic = Mimic(name, ratio)
        joints[rotor] = replace(
            joint, name=rotor, kind="continuous", child=rotor, limits=None, mimic=mimic,
            damping=0.0, friction=0.0, armature=(),
        )  # fmt: skip
        moment = tuple(tuple(inertia * a * b for b in joint.axis) for a in joint.axis)
        links[rotor] = Link(rotor, Inertial(NO_DISPLACEMENT, 0.0, moment))  # type: ignore[arg-type]
        if parent.inertial is not None:
            links[parent.name] = replace(parent, inertial=_less(parent.inertial, joint, inertia))
        elif parent.name in moving:
            raise OptionError(
                f"{description.source}: link {show(parent.name)} carries the rotor of joint "
                f"{show(name)} and has no inertia: give it that of its parts, the rotor included"
            )
    return replace(description, joints=tuple(joints.values()), links=tuple(links.values()))


def _less(inertial: Inertial, joint: Joint, inertia: float) -> Inertial:
    """Return an inertia without that of a rotor about its axis."""
    to_center = transpose(inertial.origin.rotation)
    axis = apply(to_center, apply(joint.origin.rotation, joint.axis))
    rows = zip(inertial.inertia, axis, strict=True)
    less = tuple(
        tuple(entry - inertia * a * b for entry, b in zip(row, axis, strict=True))
        for row, a in rows
    )
    return replace(inertial, inertia=less)  # type: ignore[arg-type]


def _numbers(
    robot: RobotDescription, joints: Mapping[str, Joint], name: str, value: object
) -> tuple[float, float]:
    """Return the validated inertia and gear ratio of a joint's rotor."""
    where = f"{robot.source}: rotors has {show(name)}"
    joint = joints.get(name)
    if joint is None:
        raise OptionError(f"{where}, which is not a joint{suggestion(name, joints)}")
    if joint.kind not in ONE_COORDINATE or joint.mimic is not None:
        kind = "mimic" if joint.mimic is not None else joint.kind
        raise OptionError(f"{where}, a {kind} joint; name joints with one coordinate of their own")
    numbers = tuple(value) if isinstance(value, (tuple, list)) else ()
    is_number = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in numbers)
    inertia, ratio = map(float, numbers) if is_number and len(numbers) == 2 else (-1.0, 0.0)
    if inertia < 0.0 or not math.isfinite(inertia * ratio * ratio):
        raise OptionError(
            f"{where} with {show_value(value)}; give (inertia, gear ratio), the inertia >= 0, and "
            "inertia * ratio**2 finite"
        )
    return inertia, ratio
