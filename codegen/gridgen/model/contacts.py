"""Contacts that a robot is compiled with: what its file or its options say of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gridgen.errors import OptionError
from gridgen.functions.worlds import check_layout
from gridgen.model.description import RobotDescription, Shape, suggestion
from gridgen.model.hulls import Hull
from gridgen.model.kinematic_tree import Body, Frame
from gridgen.model.pose import Pose, transpose
from gridgen.model.soft import (
    CONDIMS,
    CONES,
    NO_CONTACTS,
    POINTS,
    Contact,
    ContactModel,
    HeightField,
    Plane,
    ShapeKind,
    Softness,
    Solid,
)
from gridgen.naming import show, show_value
from gridgen.option_values import numbers_of
from gridgen.options import RobotOptions

#: Entries of ``ground``, with the number of values of each; of ``contact`` likewise.
OF_GROUND: Mapping[str, int] = {
    **{"link": 0, "radius": 1, "friction": 1, "condim": 1, "margin": 1, "solref": 2, "solimp": 5}
}
OF_PAIR: Mapping[str, int] = {
    **{"links": 0, "friction": 1, "condim": 1, "margin": 1, "solref": 2, "solimp": 5}
}
#: The powers of ``solimp`` that are covered: multiples of 1 / POWER.
POWER, MAX_POWER = 64, 10
OF_MODEL: Mapping[str, int] = {
    **{"cone": 0, "impratio": 1, "timestep": 1, "iterations": 1, "pairs": 0, "smooth": 1},
    **{"max_pairs": 1, "terrain": 0, "parallel": 0},
}


def place_contacts(
    description: RobotDescription,
    options: RobotOptions,
    frames: Sequence[Frame],
    bodies: Sequence[Body],
) -> ContactModel:
    """Return the soft constraints of a robot, with contacts relative to bodies.

    Args:
        description: the robot.
        options:     of the robot; ``ground`` replaces the contacts of the file.
        frames:      of the robot's tree.
        bodies:      of the robot's tree.

    Raises:
        OptionError: a link is unknown or has no shape that can touch the ground, or a value is
            invalid.
    """
    named = {frame.name: frame for frame in frames}
    if not options.ground and options.contact is False:
        return NO_CONTACTS
    settings = {} if isinstance(options.contact, bool) else options.contact
    chosen = _settings(description, settings)
    pairs, smooth = chosen.pop("pairs", None), chosen.pop("smooth", 0.0)
    has_two = chosen.pop("parallel", False)
    model = replace(description.contact_model, **chosen)
    if model.impratio <= 0.0:
        raise OptionError(
            f"{description.source}: impratio is {model.impratio:g}; give a positive number, in the "
            "file or in contact"
        )
    contacts = model.contacts
    if options.ground:
        contacts = tuple(
            contact
            for index, entry in enumerate(options.ground)
            for contact in _of_ground(f"{description.source}: ground[{index}]", entry, named)
        )
    if pairs is not None:
        contacts = tuple(one for one in contacts if not isinstance(one.other, Solid))
        where = f"{description.source}: contact: pairs"
        if not isinstance(pairs, (list, tuple)):
            raise OptionError(f"{where} is {show_value(pairs)}; give a list of pairs of links")
        for index, entry in enumerate(pairs):
            contacts += _of_pair(f"{where}[{index}]", entry, named, description.contact_model)
    if "terrain" in chosen:
        contacts = _on_field(description, contacts)
    springs = [contact.softness for contact in contacts]
    joints = [*model.joints.values()]
    joints += [one["softness"] for one in description.tendons.values() if "softness" in one]
    springs += [one for joint in joints for one in (joint.limit, joint.friction)]
    for softness in springs:
        power = softness.solimp[-1]
        if not (POWER * power).is_integer() or power > MAX_POWER:
            raise OptionError(
                f"{description.source}: solimp has the power {power:g}; give a multiple of "
                f"1/{POWER} up to {MAX_POWER}"
            )
    placed, places, hulls = [], dict[Solid, int](), dict[Hull, Hull]()
    for contact in (_widened(one, smooth) for one in contacts) if smooth else contacts:
        own = [_placed(one, named[one.link], bodies) for one in contact.solids]
        for k, hull in enumerate(solid.hull for solid in own):
            if hull:
                serial = float(len(hulls))
                own[k] = replace(own[k], hull=hulls.setdefault(hull, replace(hull, serial=serial)))
        solid, *others = (replace(s, place=places.setdefault(s, len(places))) for s in own)
        if solid.body != (others[0].body if others else -1):
            is_parallel = has_two and contact.kinds == (ShapeKind.CAPSULE, ShapeKind.CAPSULE)
            other = (*others, contact.other)[0]
            placed.append(replace(contact, solid=solid, other=other, is_parallel=is_parallel))
    if not placed and (options.ground or pairs is not None or not model.centers):
        raise OptionError(
            f"{description.source}: contact is given, and no link touches a plane or another link: "
            "name links in ground"
        )
    centers = {}
    for link, center in model.centers.items():
        at = Pose(named[link].rotation, named[link].translation)
        centers[link] = (at @ Pose(translation=center)).translation
    has_field = any(isinstance(contact.other, HeightField) for contact in placed)
    terrain = model.terrain if has_field else ()
    return replace(model, contacts=tuple(placed), centers=centers, terrain=terrain, acts=True)


def _on_field(description: RobotDescription, contacts: Sequence[Contact]) -> tuple[Contact, ...]:
    """Return contacts with a height field in place of the plane z = 0."""
    found = tuple(
        replace(one, other=HeightField()) if one.other == Plane() else one for one in contacts
    )
    if not any(isinstance(one.other, HeightField) for one in found):
        raise OptionError(
            f"{description.source}: contact has a terrain, and no link touches a height field or "
            "the plane z = 0: name links in ground"
        )
    return found


def _widened(contact: Contact, width: float) -> Contact:
    """Return a contact whose impedance rises from zero over a width about the touch."""
    most = contact.softness.solimp[1]
    softness = replace(contact.softness, solimp=(0.0, most, width, 0.5, 2.0))
    return replace(contact, softness=softness, margin=contact.margin + 0.5 * width)


def _placed(solid: Solid, frame: Frame, bodies: Sequence[Body]) -> Solid:
    """Return a shape relative to the body that carries its link, in its canonical frame."""
    pose = Pose(frame.rotation, frame.translation) @ solid.pose
    if frame.body >= 0:
        pose = Pose(transpose(bodies[frame.body].link_rotation)) @ pose
    return replace(solid, pose=pose, body=frame.body)


def solid_of(link: str, shape: Shape | None) -> Solid | None:
    """Return a collision shape in contact with a plane; ``None`` if that is not covered."""
    if shape is None:
        return None
    solid = Solid(link, shape.pose, shape.half_lengths, shape.radii)
    return solid if solid.kind is not None else None


def pair_of(first: Solid | None, second: Solid | None) -> tuple[Solid, Solid] | None:
    """Return two shapes in the order of their contact; ``None`` if that is not covered."""
    for pair in ((first, second), (second, first)):
        if first and second and tuple(one.kind for one in pair if one) in POINTS:
            return pair  # type: ignore[return-value]
    return None


def _settings(description: RobotDescription, given: Mapping[str, Any]) -> dict[str, Any]:
    where = f"{description.source}: contact"
    values = _numbers(where, given, OF_MODEL)
    if "cone" in values and values["cone"] not in CONES:
        raise OptionError(
            f"{where} has cone {show_value(given['cone'])}; give {' or '.join(CONES)}"
        )
    for name in {"iterations", "max_pairs"} & values.keys():
        values[name] = _whole(where, name, given, range(1, 1001))
    if not isinstance(values.get("parallel", False), bool):
        raise OptionError(
            f"{where} has parallel {show_value(given['parallel'])}; give True or False"
        )
    if values.get("parallel") and "max_pairs" in values:
        raise OptionError(f"{where} has parallel and max_pairs; give one of them")
    if "terrain" in values:
        try:
            field = np.asarray(values["terrain"], float)
        except (TypeError, ValueError):
            field = np.zeros(())
        if field.ndim != 1:
            raise OptionError(
                f"{where} has terrain {show_value(values['terrain'])}; give one height field, a "
                "result (n,) of gridgen.terrain"
            )
        check_layout("terrain", field)
        values["terrain"] = tuple(field.tolist())
    return values


def _of_ground(where: str, entry: Any, named: Mapping[str, Frame]) -> list[Contact]:
    """Return the contacts of one entry of ``ground``."""
    given = {"link": entry} if isinstance(entry, str) else entry
    values = _values(where, given, OF_GROUND)
    radius = values.pop("radius", None)
    solids = _solids(where, values.pop("link", None), named, radius=radius)
    return [Contact(name, solid, **values) for name, solid in solids]


def _of_pair(
    where: str, entry: Any, named: Mapping[str, Frame], model: ContactModel
) -> tuple[Contact, ...]:
    """Return the contacts of one entry of ``pairs``: those of the file, if it has some."""
    given = entry if isinstance(entry, Mapping) else {"links": entry}
    values = _values(where, given, OF_PAIR)
    links = values.pop("links", None)
    if not isinstance(links, (list, tuple)) or len(links) != 2:
        raise OptionError(f"{where} has links {show_value(links)}; give two names of links")
    if (
        all(isinstance(link, str) and link in named for link in links)
        and named[links[0]].body == named[links[1]].body
    ):
        raise OptionError(f"{where}: links {show(links[0])} and {show(links[1])} do not move apart")
    first, second = (_solids(where, link, named) for link in links)
    listed = tuple(
        one for one in model.contacts if sorted(s.link for s in one.solids) == sorted(links)
    )
    if listed and not values:
        return listed
    found = []
    for a, other in first:
        for b, solid in second:
            if both := pair_of(solid, other):
                found.append(Contact(f"{a}:{b}", *both, **values))
    if not found:
        raise OptionError(
            f"{where}: the shapes of {show(links[0])} and {show(links[1])} are neither spheres or "
            "capsules, nor a sphere and a box or cylinder; choose other links"
        )
    return tuple(found)


def _values(where: str, given: Any, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the values of an entry, as arguments of ``Contact``."""
    values = _numbers(where, given, counts)
    if "condim" in values:
        values["condim"] = _whole(where, "condim", given, CONDIMS)
    if "friction" in values:
        values["friction"] = (values["friction"],) * 2 + Contact.friction[2:]
    springs = {name: values.pop(name) for name in ("solref", "solimp") if name in values}
    return {**values, "softness": Softness(**springs)} if springs else values


def _solids(
    where: str, link: Any, named: Mapping[str, Frame], radius: float | None = None
) -> list[tuple[str, Solid]]:
    """Return the shapes of a link that are covered, and their names; or a sphere of a radius."""
    if not isinstance(link, str) or link not in named:
        raise OptionError(
            f"{where} has link {show_value(link)}: no link{suggestion(str(link), named)}"
        )
    shapes = [Shape(Pose(), radii=(radius,) * 3)] if radius is not None else named[link].shapes
    solids = [solid for shape in shapes if (solid := solid_of(link, shape)) is not None]
    if not solids:
        raise OptionError(
            f"{where}: link {show(link)} has no sphere, capsule, ellipsoid, cylinder or box as its "
            'collision shape: give "radius" for a sphere at its origin'
        )
    count = len(solids)
    return [(link if count == 1 else f"{link}:{n}", solid) for n, solid in enumerate(solids)]


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
        found[key] = value
        if count := counts[key]:
            numbers = numbers_of(where, key, value, count, -math.inf if key == "solref" else 0.0)
            found[key] = numbers[0] if count == 1 else numbers
    return found
