"""Contacts that a robot is compiled with: what its file or its options say of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gridgen.errors import OptionError
from gridgen.model.description import RobotDescription, Shape, suggestion
from gridgen.model.kinematic_tree import Frame
from gridgen.model.pose import Pose
from gridgen.model.soft import CONDIMS, CONES, NO_CONTACTS, Contact, ContactModel, Softness
from gridgen.naming import show, show_value
from gridgen.options import RobotOptions

#: Entries of ``ground``, with the number of values of each; of ``contact`` likewise.
OF_GROUND: Mapping[str, int] = {
    **{"link": 0, "radius": 1, "friction": 1, "condim": 1, "margin": 1, "solref": 2, "solimp": 5}
}
#: The powers of ``solimp`` that are covered: multiples of 1 / POWER.
POWER, MOST_POWER = 64, 10
OF_MODEL: Mapping[str, int] = {"cone": 0, "impratio": 1, "timestep": 1, "iterations": 1}


def place_contacts(
    description: RobotDescription, options: RobotOptions, frames: Sequence[Frame]
) -> ContactModel:
    """Return the soft constraints of a robot, with contacts relative to bodies.

    Args:
        description: the robot.
        options:     of the robot; ``ground`` replaces the contacts of the file.
        frames:      of the robot's tree.

    Raises:
        OptionError: a link is unknown or has no shape that can touch the ground, or a value is
            invalid.
    """
    named = {frame.name: frame for frame in frames}
    is_given = bool(options.ground) or options.contact is not False
    if not is_given:
        return NO_CONTACTS
    settings = {} if isinstance(options.contact, bool) else options.contact
    model = replace(description.contact_model, **_settings(description, settings))
    contacts = model.contacts
    if options.ground:
        contacts = tuple(
            contact
            for index, entry in enumerate(options.ground)
            for contact in _of_ground(f"{description.source}: ground[{index}]", entry, named)
        )
    springs = [contact.softness for contact in contacts]
    springs += [one for joint in model.joints.values() for one in (joint.limit, joint.friction)]
    for softness in springs:
        power = softness.solimp[-1]
        if not (POWER * power).is_integer() or power > MOST_POWER:
            raise OptionError(
                f"{description.source}: solimp has the power {power:g}; give a multiple of "
                f"1/{POWER} up to {MOST_POWER}"
            )
    placed = []
    for contact in contacts:
        frame = named[contact.link]
        if frame.body >= 0:
            at = Pose(frame.rotation, frame.translation)
            center = contact.center and (at @ Pose(translation=contact.center)).translation
            pose = at @ contact.pose
            placed.append(replace(contact, pose=pose, body=frame.body, center=center))
    if not placed:
        raise OptionError(
            f"{description.source}: contact is given, and no link touches a plane: name links in "
            "ground"
        )
    return replace(model, contacts=tuple(placed))


def covered(shape: Shape | None) -> bool:
    """Return whether contacts of a shape with a plane are covered: a box with round edges."""
    if shape is None or len(set(shape.radii)) > 1:
        return False
    return sum(length > 0.0 for length in shape.half_lengths) != 2


def _settings(description: RobotDescription, given: Mapping[str, Any]) -> dict[str, Any]:
    where = f"{description.source}: contact"
    values = _numbers(where, given, OF_MODEL)
    if "cone" in values and values["cone"] not in CONES:
        raise OptionError(
            f"{where} has cone {show_value(given['cone'])}; give {' or '.join(CONES)}"
        )
    if "iterations" in values:
        values["iterations"] = _whole(where, "iterations", given, range(1, 1001))
    return values


def _of_ground(where: str, entry: Any, named: Mapping[str, Frame]) -> list[Contact]:
    """Return the contacts of one entry of ``ground``."""
    given = {"link": entry} if isinstance(entry, str) else entry
    values = _numbers(where, given, OF_GROUND)
    link = values.pop("link", None)
    if link not in named:
        raise OptionError(
            f"{where} has link {show_value(link)}: no link{suggestion(str(link), named)}"
        )
    if "condim" in values:
        values["condim"] = _whole(where, "condim", given, CONDIMS)
    if "friction" in values:
        values["friction"] = (values["friction"],) * 2 + Contact.friction[2:]
    shapes = [shape for shape in named[link].shapes if covered(shape)]
    if "radius" in values:
        shapes = [Shape(Pose(), radii=(values.pop("radius"),) * 3)]
    if not shapes:
        raise OptionError(
            f"{where}: link {show(link)} has no sphere, capsule or box as its collision shape: "
            'give "radius" for a sphere at its origin'
        )
    softness = Softness(
        **{name: values.pop(name) for name in ("solref", "solimp") if name in values}
    )
    return [
        Contact(
            link if len(shapes) == 1 else f"{link}:{number}",
            link,
            shape.pose,
            shape.half_lengths,
            shape.radii[0],
            softness=softness,
            **values,
        )
        for number, shape in enumerate(shapes)
        if shape is not None
    ]


def _whole(where: str, key: str, given: Mapping[str, Any], choices: Sequence[int]) -> int:
    value = given[key]
    if isinstance(value, bool) or value not in choices:
        span = f"{choices[0]} to {choices[-1]}" if isinstance(choices, range) else "1, 3, 4 or 6"
        raise OptionError(f"{where} has {key} {show_value(value)}; give {span}")
    return int(value)


def _numbers(where: str, given: Any, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the values of a dictionary: words, or numbers of the right count."""
    if not isinstance(given, Mapping):
        raise OptionError(f"{where} is {show_value(given)}; give a dictionary")
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key not in counts:
            raise OptionError(f"{where} has {show_value(key)}; choose {', '.join(counts)}")
        count = counts[key]
        numbers = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        if not count:
            found[key] = value
            continue
        is_signed = key == "solref"
        if len(numbers) != count or not all(
            isinstance(x, (int, float))
            and not isinstance(x, bool)
            and math.isfinite(x)
            and (x >= 0.0 or is_signed)
            for x in numbers
        ):
            form = "a number, 0 or more" if count == 1 else f"{count} numbers"
            raise OptionError(f"{where} has {key} {show_value(value)}; give {form}")
        numbers = tuple(map(float, numbers))
        found[key] = numbers[0] if count == 1 else numbers
    return found
