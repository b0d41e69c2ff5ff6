"""Actuators, springs and tendons that a robot is compiled with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from gridgen.errors import OptionError
from gridgen.model.description import RobotDescription, suggestion
from gridgen.model.diagnostics import Diagnostic
from gridgen.model.kinematic_tree import Actuator, Body, Frame, Spring, Tendon
from gridgen.model.pose import add, apply, cross, multiply, transpose, vector3
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
_SHARED = ("kind", "joint", "tendon", "link", "name", "gear", "implicit", *_RANGES)
_STILL = "it acts on joints that are locked"
#: Keys of the transmission; an actuator has one of them.
_ENDS = ("joint", "tendon", "link")


def place_actuators(
    description: RobotDescription,
    options: RobotOptions,
    bodies: Sequence[Body],
    frames: Sequence[Frame],
) -> tuple[Actuator, ...]:
    """Return the actuators of a robot.

    Args:
        description: the robot; a warning names actuators that are not supported.
        options:     of the robot; a list in ``actuators`` replaces those of the file.
        bodies:      of its tree.
        frames:      of its tree.

    Raises:
        OptionError: an entry is invalid.
    """
    given, source = options.actuators, description.source
    if given is False:
        return ()
    reader = _Reader(description, bodies, frames)
    if given is not True:
        listed: Any = given  # read by the options
        return tuple(
            reader.actuator(where, entry) for where, entry in _expanded(source, listed, bodies)
        )
    entries = [
        entry if "problem" in entry or reader.can_move(entry) else {**entry, "problem": _STILL}
        for entry in description.actuators
    ]
    advice = "gridgen leaves it out: pass its force as tau; ctrl has those of actuator_names"
    description.warn(
        Diagnostic(
            f"actuator: {entry['problem']}",
            f"actuator {show(entry['name'])}",
            entry["problem"],
            advice,
        )
        for entry in entries
        if "problem" in entry
    )
    return tuple(
        reader.actuator(f"{source}: actuator {show(entry['name'])}", entry)
        for entry in entries
        if "problem" not in entry
    )


def place_springs(description: RobotDescription, bodies: Sequence[Body]) -> tuple[Spring, ...]:
    """Return the springs of the joints that move."""
    return tuple(
        Spring(index, *description.springs[body.joint])
        for index, body in enumerate(bodies)
        if body.joint in description.springs
    )


def place_tendons(description: RobotDescription, bodies: Sequence[Body]) -> tuple[Tendon, ...]:
    """Return the tendons with forces, or limits, of the joints that move."""
    found = []
    for name, entry in description.tendons.items():
        own = {key: value for key, value in entry.items() if key != "joints"}
        one = Tendon(name, _terms(entry["joints"], bodies), **own)
        is_free = -one.lower == one.upper == math.inf
        if one.terms and not (is_free and not (one.friction or one.stiffness or one.damping)):
            found.append(one)
    return tuple(found)


def _terms(joints: Mapping[str, float], bodies: Sequence[Body]) -> tuple[tuple[int, float], ...]:
    """Return the indices of the bodies of joints, with factors."""
    index = {body.joint: number for number, body in enumerate(bodies)}
    return tuple((index[joint], factor) for joint, factor in joints.items() if factor)


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


class _Reader:
    """Reads entries of actuators."""

    def __init__(
        self, description: RobotDescription, bodies: Sequence[Body], frames: Sequence[Frame]
    ) -> None:
        self._tendons, self._bodies = description.tendons, bodies
        self._joints = {body.joint: index for index, body in enumerate(bodies)}
        self._frames = {frame.name: frame for frame in frames}

    def can_move(self, entry: Mapping[str, Any]) -> bool:
        """Return whether an actuator of the file acts on a joint that is not locked."""
        if "link" in entry:
            return self._frames[entry["link"]].body >= 0
        if "tendon" in entry:
            return bool(_terms(self._tendons[entry["tendon"]]["joints"], self._bodies))
        return entry["joint"] in self._joints

    def actuator(self, where: str, entry: Mapping[str, Any]) -> Actuator:
        """Return an actuator.

        Raises:
            OptionError: the entry is invalid.
        """
        kind = entry.get("kind", "motor")
        if not isinstance(kind, str) or kind not in _KINDS:
            choices = ", ".join(_KINDS)
            raise OptionError(f"{where} has kind {show_value(kind)}; choose one of {choices}")
        known = (*_SHARED, *_KINDS[kind], *(_TERMS if kind == "general" else ()))
        if unknown := sorted(entry.keys() - set(known)):
            raise OptionError(f"{where} has {show(unknown[0])}; a {kind} has {', '.join(known)}")
        ends = [key for key in _ENDS if key in entry] or ["joint"]
        if len(ends) > 1:
            raise OptionError(f"{where} has {' and '.join(ends)}; give one of them")
        (end,) = ends
        name, implicit = entry.get("name", entry.get(end)), entry.get("implicit", True)
        placed = self._placed(where, entry, end)
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
        of_ctrl, of_force, of_joint = ranges
        return Actuator(
            name=name,
            gain=gain,
            bias=bias,
            ctrl_range=of_ctrl,
            force_range=of_force,
            joint_ranges=(of_joint,) * len(placed["terms"]),
            is_implicit=implicit,
            **placed,
        )

    def _placed(self, where: str, entry: Mapping[str, Any], end: str) -> dict[str, Any]:
        """Return the transmission of an actuator."""
        given = entry.get(end)
        if end == "link":
            if not isinstance(given, str) or given not in self._frames:
                hint = suggestion(str(given), self._frames)
                raise OptionError(f"{where} has link {show_value(given)}: no link{hint}")
            frame = self._frames[given]
            if frame.body < 0:
                raise OptionError(f"{where} pushes link {show(given)}, which does not move")
            if "actuatorfrcrange" in entry:
                raise OptionError(f"{where} has actuatorfrcrange, and acts on no joint")
            if "gear" not in entry:
                advice = "give a force and a moment in the axes of the link"
                raise OptionError(f"{where} pushes link {show(given)}, and has no gear; {advice}")
            x, y, z, *turn = numbers_of(where, "gear", entry["gear"], 6)
            back = transpose(self._bodies[frame.body].link_rotation)
            R, at = multiply(back, frame.rotation), apply(back, frame.translation)
            force, moment = apply(R, (x, y, z)), apply(R, vector3(turn))
            wrench = (*force, *add(moment, cross(at, force)))
            return {"terms": (), "gear": 1.0, "pushed": frame.body, "wrench": wrench}
        (gear,) = numbers_of(where, "gear", entry.get("gear", 1.0), 1)
        if end == "tendon":
            if not isinstance(given, str) or given not in self._tendons:
                hint = suggestion(str(given), self._tendons)
                what = f"tendon {show_value(given)}: no tendon of joints in the file{hint}"
                raise OptionError(f"{where} has {what}")
            tendon = self._tendons[given]
            terms = _terms(tendon["joints"], self._bodies)
            if not terms:
                raise OptionError(f"{where} has tendon {show(given)}, whose joints do not move")
            return {"terms": terms, "gear": gear, "offset": tendon.get("offset", 0.0)}
        if not isinstance(given, str) or given not in self._joints:
            hint = suggestion(str(given), self._joints)
            raise OptionError(f"{where} has joint {show_value(given)}: no joint that moves{hint}")
        body = self._bodies[self._joints[given]]
        if body.nv != 1 or body.mimics:
            why = "mimics another joint" if body.mimics else "has several velocities"
            raise OptionError(
                f"{where} acts on joint {show(given)}, which {why}; name another joint"
            )
        return {"terms": ((self._joints[given], 1.0),), "gear": gear}
