"""Constraints that a robot is compiled with: what options say of them, as records of the tree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gridgen.errors import OptionError
from gridgen.model.description import RobotDescription, suggestion
from gridgen.model.kinematic_tree import Body, Constraint, Frame
from gridgen.model.pose import Pose, from_rpy
from gridgen.model.soft import DEFAULT_SOFTNESS, Softness
from gridgen.naming import show, show_value
from gridgen.option_values import numbers_of

_SHARED = {"kind", "name", "to", "stabilization", "compliance", "active", "solref", "solimp"}
_PLACED = _SHARED | {"link", "offset", "to_offset", "to_rpy"}
#: The fields of each kind of constraint.
FIELDS: Mapping[str, set[str]] = {
    "point": _PLACED,
    "frame": _PLACED | {"rpy", "torquescale"},
    "joint": _SHARED | {"joint", "multiplier", "offset"},
}
_ROWS = {"point": 3, "frame": 6, "joint": 1}


def place_constraints(
    description: RobotDescription,
    given: Any,
    bodies: Sequence[Body],
    frames: Sequence[Frame],
) -> tuple[Constraint, ...]:
    """Return the constraints of a robot.

    Args:
        description: the robot.
        given:       as the option has them; those of the robot's file precede them.
        bodies:      of its tree.
        frames:      of its tree.

    Raises:
        OptionError: one names what the robot does not have, constrains nothing, or has a value
            that makes no sense.
    """
    found: list[Constraint] = []
    named = [(entry, f"constraint {show(entry['name'])}") for entry in description.constraints]
    named += [(entry, f"constraints[{index}]") for index, entry in enumerate(given)]
    for entry, where in named:
        made = _Reader(description, entry, where).constraint(bodies, frames)
        if any(made.name == other.name for other in found):
            raise OptionError(
                f"{description.source}: constraints has {show(made.name)} twice: give each "
                'constraint a "name" of its own'
            )
        found.append(made)
    return tuple(found)


class _Reader:
    """Reads one constraint, and says what is wrong with it."""

    def __init__(self, description: RobotDescription, entry: Mapping[str, Any], where: str) -> None:
        self._description, self._entry = description, entry
        self._where = f"{description.source}: {where}"

    def constraint(self, bodies: Sequence[Body], frames: Sequence[Frame]) -> Constraint:
        """Return the constraint."""
        kind = self._entry.get("kind")
        if not isinstance(kind, str) or kind not in FIELDS:
            raise self._error(f"kind {show_value(kind)}", f"choose one of {', '.join(FIELDS)}")
        if unknown := self._entry.keys() - FIELDS[kind]:
            raise self._error(show(min(unknown)), f"a {kind} has {', '.join(sorted(FIELDS[kind]))}")
        position, velocity = self._numbers("stabilization", 2, least=0.0)
        (compliance,) = self._numbers("compliance", 1, least=0.0)
        first, second = self._numbers("solref", 2, default=DEFAULT_SOFTNESS.solref)
        solimp = self._numbers("solimp", 5, default=DEFAULT_SOFTNESS.solimp, least=0.0)
        (scale,) = self._numbers("torquescale", 1, default=(1.0,), least=0.0)
        if (active := self._entry.get("active", True)) not in (0, 1):
            raise self._error(f"active {show_value(active)}", "give True or False")
        shared: dict[str, Any] = {
            "kind": kind,
            "rows": _ROWS[kind],
            "stabilization": (position, velocity),
            "compliance": compliance,
            "active": bool(active),
            "softness": Softness((first, second), solimp),  # type: ignore[arg-type]
            "torquescale": scale,
        }
        if kind == "joint":
            return self._joint(bodies, shared)
        rpy = "rpy" if kind == "frame" else ""
        link = self._frame("link", frames, "offset", rpy)
        has_target = "to" in self._entry or "to_offset" in self._entry or "to_rpy" in self._entry
        to = self._frame("to", frames, "to_offset", "to_rpy")
        if link.body == to.body:
            what = f"{show(link.name)}, which is fixed to the base and does not move"
            if "to" in self._entry:
                what = f"{show(link.name)} and {show(to.name)}, which do not move apart"
            raise self._error(what, "name links that joints move apart")
        if position and not has_target:
            raise self._error(
                "a position gain and no target in the world",
                'give "to_offset", or "stabilization" with a position gain of 0',
            )
        name = link.name if "to" not in self._entry else f"{link.name}:{to.name}"
        at = self._pose("offset", rpy)
        ends: dict[str, Any] = {"link": link, "to": to, "at": at, "has_target": has_target}
        return Constraint(name=self._name(name), **ends, **shared)

    def _joint(self, bodies: Sequence[Body], shared: dict[str, Any]) -> Constraint:
        joints = {body.joint: index for index, body in enumerate(bodies) if body.nv == 1}
        joint = self._named("joint", joints, "joint with one velocity")
        name, to = joint, -1
        if "to" in self._entry:
            other = self._named("to", joints, "joint with one velocity")
            name, to = f"{joint}:{other}", joints[other]
            if bodies[to].v_index == bodies[joints[joint]].v_index:
                raise self._error(
                    f"{show(joint)} and {show(other)}, which move as one", "name two joints"
                )
        (offset,) = self._numbers("offset", 1)
        (multiplier,) = self._numbers("multiplier", 1, default=(1.0,))
        return Constraint(
            name=self._name(name),
            joints=(joints[joint], to),
            multiplier=multiplier,
            offset=offset,
            has_target=True,
            **shared,
        )

    def _name(self, default: str) -> str:
        name = self._entry.get("name", default)
        if not isinstance(name, str) or not name:
            raise self._error(f"name {show_value(name)}", "give a string, or leave it out")
        return name

    def _frame(self, key: str, frames: Sequence[Frame], offset: str, rpy: str) -> Frame:
        """Return where a constraint holds a link; the world where ``to`` is not given."""
        at = self._pose(offset, rpy)
        if key == "to" and key not in self._entry:
            return Frame("", -1, at.rotation, at.translation)
        named = {frame.name: frame for frame in frames}
        frame = named[self._named(key, named, "link")]
        at = Pose(frame.rotation, frame.translation) @ at
        return Frame(frame.name, frame.body, at.rotation, at.translation)

    def _pose(self, offset: str, rpy: str) -> Pose:
        x, y, z = self._numbers(offset, 3)
        turn = from_rpy(*self._numbers(rpy, 3)) if rpy else from_rpy(0.0, 0.0, 0.0)
        return Pose(turn, (x, y, z))

    def _named(self, key: str, names: Mapping[str, Any], what: str) -> str:
        name = self._entry.get(key)
        if not isinstance(name, str):
            raise self._error(f"{key} {show_value(name)}", f"give the name of a {what}")
        if name not in names:
            raise self._error(f"{key} {show(name)}", f"no {what}{suggestion(name, names)}")
        return name

    def _numbers(
        self,
        key: str,
        count: int,
        *,
        default: tuple[float, ...] = (),
        least: float = -math.inf,
    ) -> tuple[float, ...]:
        given = self._entry.get(key, default or (0.0,) * count)
        return numbers_of(self._where, key, given, count, least)

    def _error(self, what: str, remedy: str) -> OptionError:
        return OptionError(f"{self._where} has {what}: {remedy}")
