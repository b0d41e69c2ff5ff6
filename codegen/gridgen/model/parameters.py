"""Robot parameters that are inputs of functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gridgen.errors import OptionError
from gridgen.functions.arrays import ACTUATOR_INPUTS, PROXIMAL, TOLERANCE
from gridgen.model.description import Link, RobotDescription
from gridgen.model.kinematic_tree import (
    Actuator,
    Body,
    Constraint,
    MassInput,
    Spring,
    armatures,
    losses,
)
from gridgen.model.lump import NO_MASS
from gridgen.model.pose import NO_DISPLACEMENT, ZERO, apply, multiply, snapped, transpose
from gridgen.model.soft import ContactModel
from gridgen.model.walk import Parts
from gridgen.naming import show, show_value, similar

#: Possible inputs in addition to the inertias of links.
JOINT_PARAMETERS = ("armature", "damping", "joint_friction")
#: The keyword for every body.
ALL = "all"
#: The keyword for the places of constraints in their links.
OFFSETS = "offsets"
# Keywords, and what they select.
_WORDS = {
    ALL: "all bodies",
    "armature": "the joints' armatures",
    "damping": "the joints' damping",
    "joint_friction": "the joints' friction",
    OFFSETS: "the places of constraints",
    "actuator_gains": "the gains of actuators",
    "gear": "the gears of actuators",
    "stiffness": "the stiffness of springs",
}


@dataclass(frozen=True)
class ParameterChoice:
    """Parameters that the user selects as inputs.

    Attributes:
        links:  links whose inertias are inputs, in order.
        bodies: whether the inertia of every moving body, fixed links included, is an input.
        joints: subset of ``JOINT_PARAMETERS``.
        offsets: whether the places of constraints in their links are inputs.
        drives: subset of ``ACTUATOR_INPUTS``: of actuators and springs.
    """

    links: tuple[str, ...] = ()
    bodies: bool = False
    joints: tuple[str, ...] = ()
    offsets: bool = False
    drives: tuple[str, ...] = ()


def choose_parameters(
    description: RobotDescription, parameters: str | Sequence[str]
) -> ParameterChoice:
    """Parse the option ``parameters``.

    Args:
        description: robot.
        parameters:  name of a link, ``all``, one of ``JOINT_PARAMETERS``, or a list of these.

    Raises:
        OptionError: a name is unknown, duplicate or ambiguous.
    """
    names = as_names(parameters)
    links = dict.fromkeys(link.name for link in description.links)
    counts = Counter(names)
    robot = f"{description.source}: robot {show(description.name)}"
    for name in names:
        if name in _WORDS and name in links:
            raise OptionError(
                f"{robot}: parameters has {show(name)}, which is both a link and the keyword for "
                f"{_WORDS[name]}: rename the link in the URDF"
            )
        if name not in _WORDS and name not in links:
            near = similar(name, (*links, *_WORDS)) or tuple(links)[:3]
            raise OptionError(
                f"{robot}: parameters has {show(name)}, which is not a link; the nearest are "
                f"{', '.join(map(show, near))} (or: {', '.join(_WORDS)})"
            )
        if counts[name] > 1:
            raise OptionError(f"{robot}: parameters has {show(name)} twice; leave one out")
    chosen = tuple(name for name in names if name not in _WORDS)
    if ALL in names and chosen:
        raise OptionError(
            f'{robot}: parameters has "all" and {show(chosen[0])}: "all" has one row for every '
            "moving body with the links fixed to it; give it alone, or a list of links"
        )
    joints = tuple(name for name in JOINT_PARAMETERS if name in names)
    drives = tuple(name for name in ACTUATOR_INPUTS if name in names)
    return ParameterChoice(chosen, ALL in names, joints, OFFSETS in names, drives)


def as_names(parameters: object) -> tuple[str, ...]:
    """Return names from a string or a list of strings.

    Raises:
        OptionError: the value is neither.
    """
    names = (parameters,) if isinstance(parameters, str) else parameters
    if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
        raise OptionError(
            f"parameters is {show_value(parameters)}; give the name of a link, a list of names, or "
            f"one of {', '.join(_WORDS)}"
        )
    return tuple(names)


def place_parts(
    description: RobotDescription, parts: Parts, choice: ParameterChoice
) -> list[tuple[MassInput, ...]]:
    """Return the mass inputs of each moving body.

    Raises:
        OptionError: a selected link does not move.
    """
    placed: list[tuple[MassInput, ...]] = [() for _ in parts.moving]
    if choice.bodies:
        for index, moving in enumerate(parts.moving):
            placed[index] = (MassInput(index, transpose(moving.alignment), ZERO),)
    rows = {name: row for row, name in enumerate(choice.links)}
    for frame in parts.frames:
        if frame.name not in rows:
            continue
        if frame.body < 0:
            raise OptionError(
                f"{description.source}: robot {show(description.name)}: parameters has "
                f"{show(frame.name)}, which is fixed to the base and does not move, so its "
                "inertia has no effect; leave it out"
            )
        to_canonical = transpose(parts.moving[frame.body].alignment)
        part = MassInput(
            rows[frame.name],
            snapped(multiply(to_canonical, frame.rotation)),
            apply(to_canonical, frame.translation),
        )
        placed[frame.body] = (*placed[frame.body], part)
    return placed


def own_parameters(
    description: RobotDescription, parts: Parts, bodies: Sequence[Body], choice: ParameterChoice
) -> dict[str, tuple[Any, ...]]:
    """Return the parameters that are inputs, with the file's values."""
    own: dict[str, tuple[Any, ...]] = {}
    if choice.bodies:
        own["params"] = tuple(moving.total.parameters for moving in parts.moving)
    elif choice.links:
        links = {link.name: link for link in description.links}
        own["params"] = tuple(_of_link(links[name]) for name in choice.links)
    joints = {
        "armature": armatures(bodies),
        "damping": losses(bodies, "damping"),
        "joint_friction": losses(bodies, "friction"),
    }
    return own | {name: joints[name] for name in choice.joints}


def own_inputs(
    constraints: Sequence[Constraint],
    model: ContactModel,
    actuators: Sequence[Actuator],
    springs: Sequence[Spring],
    choice: ParameterChoice,
) -> dict[str, tuple[Any, ...]]:
    """Return the inputs of constraints, contacts and actuators, with their defaults in float64.

    Raises:
        OptionError: places of constraints are inputs, and no constraint has one; those of
            actuators or springs likewise.
    """
    own: dict[str, tuple[Any, ...]] = {"ctrl": (0.0,) * len(actuators)} if actuators else {}
    if model.contacts:
        own["friction"] = tuple(contact.friction[0] for contact in model.contacts)
        own["radii"] = tuple(contact.solid.radii[0] for contact in model.contacts)
    if model.acts:
        own["tolerance"] = (TOLERANCE["float64"],)
    if model.terrain:
        own["terrain"] = model.terrain
    drives = {
        "actuator_gains": tuple((*one.gain, *one.bias) for one in actuators),
        "gear": tuple(one.gear for one in actuators),
        "stiffness": tuple(one.stiffness for one in springs),
    }
    for name in choice.drives:
        if not drives[name]:
            what = "springs that act" if name == "stiffness" else "actuators"
            raise OptionError(
                f"parameters has {name}, and the robot has no {what}: set actuators=True and "
                "joint_dynamics=True (--actuators true --joint-dynamics), or leave it out"
            )
        own[name] = drives[name]
    if choice.offsets:
        if not any(one.link for one in constraints):
            raise OptionError(
                "parameters has offsets, and no constraint holds a link: give constraints "
                "(--constraint), or leave it out"
            )
        own[OFFSETS] = tuple(one.at.homogeneous for one in constraints)
    if not constraints:
        return own
    return own | {
        "active": tuple(float(one.active) for one in constraints),
        "stabilization": tuple(one.stabilization for one in constraints),
        "compliance": tuple(one.compliance for one in constraints),
        "proximal": (PROXIMAL["float64"],) * len(constraints),
        "restitution": (0.0,) * len(constraints),
        "weights": (1.0,) * len(constraints),
    }


def _of_link(link: Link) -> tuple[float, ...]:
    """Return a link's ten inertial parameters in its own frame."""
    lump = NO_MASS.plus(link.inertial, NO_DISPLACEMENT) if link.inertial else NO_MASS
    return lump.parameters
