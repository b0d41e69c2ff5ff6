"""Actuators and springs that a robot is compiled with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from gridgen.errors import OptionError
from gridgen.model.description import RobotDescription, suggestion
from gridgen.model.diagnostics import Diagnostic
from gridgen.model.kinematic_tree import Actuator, Body, Spring
from gridgen.naming import show, show_value
from gridgen.option_values import numbers_of
from gridgen.options import RobotOptions

#: Gain and bias of each kind, by its entries; their terms are constant, of length, of velocity.
_KINDS: Mapping[str, Mapping[str, float]] = {
    "motor": {},
    "position": {"kp": 1.0, "kv": 0.0},
    "velocity": {"kv": 1.0},
    "damper": {"kv": 1.0},
    "general": {},
}
_TERMS = {"gainprm": (1.0, 0.0, 0.0), "biasprm": (0.0, 0.0, 0.0)}
_RANGES = ("ctrlrange", "forcerange", "actuatorfrcrange")
_SHARED = ("kind", "joint", "name", "gear", "implicit", *_RANGES)


def place_actuators(
    description: RobotDescription, options: RobotOptions, bodies: Sequence[Body]
) -> tuple[Actuator, ...]:
    """Return the actuators of a robot.

    Args:
        description: the robot; a warning names actuators that are not supported.
        options:     of the robot; a list in ``actuators`` replaces those of the file.
        bodies:      of its tree.

    Raises:
        OptionError: an entry is invalid.
    """
    given, source = options.actuators, description.source
    if given is False:
        return ()
    if given is not True:
        listed: Any = given  # read by the options
        return tuple(
            _actuator(where, entry, bodies) for where, entry in _expanded(source, listed, bodies)
        )
    advice = "gridgen leaves it out: pass its force as tau; ctrl has those of actuator_names"
    description.warn(
        Diagnostic(
            f"actuator: {entry['problem']}",
            f"actuator {show(entry['name'])}",
            entry["problem"],
            advice,
        )
        for entry in description.actuators
        if "problem" in entry
    )
    return tuple(
        _actuator(f"{source}: actuator {show(entry['name'])}", entry, bodies)
        for entry in description.actuators
        if "problem" not in entry
    )


def place_springs(description: RobotDescription, bodies: Sequence[Body]) -> tuple[Spring, ...]:
    """Return the springs of the joints that move."""
    return tuple(
        Spring(index, *description.springs[body.joint])
        for index, body in enumerate(bodies)
        if body.joint in description.springs
    )


def _expanded(
    source: str, listed: Sequence[Mapping[str, Any]], bodies: Sequence[Body]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield entries with the joints of their patterns, each where it is in the list."""
    joints = {body.joint for body in bodies}
    taken = joints & {str(entry.get("joint")) for entry in listed}
    for index, entry in enumerate(listed):
        where, pattern = f"{source}: actuators[{index}]", entry.get("joint")
        if not isinstance(pattern, str) or pattern in joints or not set(pattern) & set("*?["):
            yield where, entry
            continue
        can_move = [body.joint for body in bodies if body.nv == 1 and not body.mimics]
        matched = [joint for joint in can_move if fnmatchcase(joint, pattern)]
        found = [joint for joint in matched if joint not in taken]
        if not found:
            why = (
                "only joints of other entries"
                if matched
                else "none of the joints that can have one"
            )
            names = ", ".join(map(show, can_move))
            raise OptionError(f"{where} has joint {show(pattern)}, which matches {why}: {names}")
        if "name" in entry and len(found) > 1:
            raise OptionError(
                f"{where} has name {show_value(entry['name'])}, and its joint "
                f"{show_value(pattern)} matches {len(found)} joints; omit the name"
            )
        taken.update(found)
        yield from ((where, {**entry, "joint": joint}) for joint in found)


def _actuator(where: str, entry: Mapping[str, Any], bodies: Sequence[Body]) -> Actuator:
    kind = entry.get("kind", "motor")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise OptionError(f"{where} has kind {show_value(kind)}; choose one of {', '.join(_KINDS)}")
    known = (*_SHARED, *_KINDS[kind], *(_TERMS if kind == "general" else ()))
    if unknown := sorted(entry.keys() - set(known)):
        raise OptionError(f"{where} has {show(unknown[0])}; a {kind} has {', '.join(known)}")
    joint = entry.get("joint")
    joints = {body.joint: index for index, body in enumerate(bodies)}
    if not isinstance(joint, str) or joint not in joints:
        hint = suggestion(str(joint), joints)
        raise OptionError(f"{where} has joint {show_value(joint)}: no joint that moves{hint}")
    body = bodies[joints[joint]]
    if body.nv != 1 or body.mimics:
        why = "mimics another joint" if body.mimics else "has several velocities"
        raise OptionError(f"{where} acts on joint {show(joint)}, which {why}; name another joint")
    name, implicit = entry.get("name", joint), entry.get("implicit", True)
    if not isinstance(name, str) or not isinstance(implicit, bool):
        bad = "implicit" if isinstance(name, str) else "name"
        advice = "give True or False" if bad == "implicit" else "give a string"
        raise OptionError(f"{where} has {bad} {show_value(entry[bad])}; {advice}")
    kp, kv = (
        numbers_of(where, key, entry.get(key, _KINDS[kind].get(key, 0.0)), 1, least=0.0)[0]
        for key in ("kp", "kv")
    )
    gain, bias = {
        "motor": _TERMS.values(),
        "position": ((kp, 0.0, 0.0), (0.0, -kp, -kv)),
        "velocity": ((kv, 0.0, 0.0), (0.0, 0.0, -kv)),
        "damper": ((0.0, 0.0, -kv), (0.0, 0.0, 0.0)),
        "general": (numbers_of(where, key, entry.get(key, _TERMS[key]), 3) for key in _TERMS),
    }[kind]
    ranges: list[tuple[float, ...]] = [
        numbers_of(where, key, entry[key], 2) if key in entry else (-math.inf, math.inf)
        for key in _RANGES
    ]
    for key, (low, high) in zip(_RANGES, ranges, strict=True):
        if low > high:
            raise OptionError(f"{where} has {key} {show_value(entry[key])}; give (least, most)")
    (gear,) = numbers_of(where, "gear", entry.get("gear", 1.0), 1)
    of_ctrl, of_force, of_joint = ranges
    return Actuator(name, joints[joint], gear, gain, bias, of_ctrl, of_force, of_joint, implicit)
