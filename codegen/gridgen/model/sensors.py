"""Sensors that a robot is compiled with: what options and files say of them, as records."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gridgen.errors import OptionError
from gridgen.model.description import RobotDescription, suggestion
from gridgen.model.diagnostics import Diagnostic
from gridgen.model.kinematic_tree import Actuator, Body, Constraint, Frame, Sensor
from gridgen.model.lump import NO_MASS, Lump
from gridgen.model.pose import IDENTITY, Pose, from_rpy, transpose
from gridgen.model.soft import ContactModel
from gridgen.naming import show, show_value
from gridgen.option_values import numbers_of
from gridgen.options import RobotOptions

MAGNETIC = (0.0, -0.5, 0.0)
"""MuJoCo's default of the magnetic field in the world."""


@dataclass(frozen=True)
class SensorKind:
    """A kind of sensor.

    Attributes:
        size: count of its numbers.
        of:   what it observes: ``link``, ``subtree`` (of a link), ``joint`` (with one velocity),
              ``ball`` (a ball joint), ``limit`` (of a joint of either),
              ``actuator``, ``contact``, or nothing.
        has_reference: whether ``to`` names the frame in which it is expressed.
        is_cut: whether ``cutoff`` limits its numbers; not those of rotations and directions.
        accelerates: whether it depends on accelerations.
        touches: whether it requires soft constraints.
        is_positive: whether ``cutoff`` has no lower bound.
    """

    size: int
    of: str = ""
    has_reference: bool = False
    is_cut: bool = True
    accelerates: bool = False
    touches: bool = False
    is_positive: bool = False


_FRAME = SensorKind(3, "link", has_reference=True)
_AXIS = replace(_FRAME, is_cut=False)
_OF_LINK, _OF_SUBTREE = SensorKind(3, "link"), SensorKind(3, "subtree")
_OF_JOINT, _OF_ACTUATOR = SensorKind(1, "joint"), SensorKind(1, "actuator")
_ACCELERATION = SensorKind(3, "link", accelerates=True)
_WRENCH = SensorKind(3, "subtree", accelerates=True)
_LIMIT = SensorKind(1, "limit", accelerates=True, touches=True)
#: Every kind, by MuJoCo's name of its MJCF element.
KINDS: Mapping[str, SensorKind] = {
    "gyro": _OF_LINK,
    "velocimeter": _OF_LINK,
    "accelerometer": _ACCELERATION,
    "magnetometer": _OF_LINK,
    "framepos": _FRAME,
    "framequat": SensorKind(4, "link", has_reference=True, is_cut=False),
    "framexaxis": _AXIS,
    "frameyaxis": _AXIS,
    "framezaxis": _AXIS,
    "framelinvel": _FRAME,
    "frameangvel": _FRAME,
    "framelinacc": _ACCELERATION,
    "frameangacc": _ACCELERATION,
    "jointpos": _OF_JOINT,
    "jointvel": _OF_JOINT,
    "jointactuatorfrc": _OF_JOINT,
    "ballquat": SensorKind(4, "ball", is_cut=False),
    "ballangvel": SensorKind(3, "ball"),
    "actuatorpos": _OF_ACTUATOR,
    "actuatorvel": _OF_ACTUATOR,
    "actuatorfrc": _OF_ACTUATOR,
    "subtreecom": _OF_SUBTREE,
    "subtreelinvel": _OF_SUBTREE,
    "subtreeangmom": _OF_SUBTREE,
    "touch": SensorKind(1, "link", accelerates=True, touches=True, is_positive=True),
    "contact": SensorKind(1, "contact", touches=True, is_cut=False),
    "force": _WRENCH,
    "torque": _WRENCH,
    "jointlimitpos": _LIMIT,
    "jointlimitvel": _LIMIT,
    "jointlimitfrc": _LIMIT,
    "e_potential": SensorKind(1),
    "e_kinetic": SensorKind(1),
}
#: Kinds that stand for several sensors.
_GROUPS = {"imu": ("gyro", "accelerometer")}
_SHARED = ("kind", "name", "cutoff")
_POSE = ("offset", "rpy")
#: Fields of an entry by what its sensor observes.
_FIELDS = {
    "link": ("link", *_POSE),
    "subtree": ("link",),
    "joint": ("joint",),
    "ball": ("joint",),
    "limit": ("joint",),
    "actuator": ("actuator",),
    "contact": ("contact",),
    "": (),
}
_REFERENCE = ("to", "to_offset", "to_rpy")
#: Further fields of kinds.
_OWN = {
    "magnetometer": ("magnetic",),
    "touch": ("shape", "size"),
    "force": _POSE,
    "torque": _POSE,
}
#: Shapes of touch sensors, and counts of their sizes: those of MuJoCo's sites.
SHAPES = {"sphere": 1, "capsule": 2, "ellipsoid": 3, "cylinder": 2, "box": 3}


class _Unusable(Exception):
    """A sensor that the robot cannot have: a problem, and its remedy."""


def place_sensors(
    description: RobotDescription,
    options: RobotOptions,
    bodies: Sequence[Body],
    frames: Sequence[Frame],
    actuators: Sequence[Actuator],
    constraints: tuple[ContactModel, Sequence[Constraint]],
    inputs: Collection[str],
) -> tuple[Sensor, ...]:
    """Return the sensors of a robot, in the order of their numbers.

    Args:
        description: the robot; a warning names sensors that are left out.
        options:     of the robot; a list in ``sensors`` replaces those of the file.
        bodies:      of its tree.
        frames:      of its tree.
        actuators:   of its tree.
        constraints: of its tree: soft ones, and those of links and joints.
        inputs:      parameters that are inputs.

    Raises:
        OptionError: an entry of the option is invalid.
    """
    given, source = options.sensors, description.source
    if given is False:
        return ()
    reader = _Reader(description, bodies, frames, actuators, constraints, inputs)
    found: list[Sensor] = []
    if given is True:
        left_out = []
        for entry in description.sensors:
            try:
                if "problem" in entry:
                    raise _Unusable(entry["problem"], "gridgen leaves it out")
                found.append(reader.sensor(f"{source}: sensor {show(entry['name'])}", entry))
            except _Unusable as error:
                problem, advice = error.args
                where = f"sensor {show(entry['name'])}"
                left_out.append(Diagnostic(f"sensor: {problem}", where, problem, advice))
        description.warn(left_out)
        return tuple(found)
    listed: Any = given  # read by the options
    for where, entry in _expanded(source, listed):
        try:
            made = reader.sensor(where, entry)
        except _Unusable as error:
            raise OptionError(f"{where}: {'; '.join(error.args)}") from None
        if any(made.name == other.name for other in found):
            raise OptionError(
                f'{where} has the name {show(made.name)} of another sensor; give it a "name"'
            )
        found.append(made)
    return tuple(found)


def _expanded(
    source: str, listed: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield entries, and those that an entry stands for."""
    for index, entry in enumerate(listed):
        where, kind = f"{source}: sensors[{index}]", entry.get("kind")
        if not isinstance(kind, str) or kind not in _GROUPS:
            yield where, entry
            continue
        name = entry.get("name", f"{entry.get('link')}_{kind}")
        for one in _GROUPS[kind]:
            yield where, {**entry, "kind": one, "name": f"{name}_{one}"}


class _Reader:
    """Reads entries of sensors."""

    def __init__(
        self,
        description: RobotDescription,
        bodies: Sequence[Body],
        frames: Sequence[Frame],
        actuators: Sequence[Actuator],
        constraints: tuple[ContactModel, Sequence[Constraint]],
        inputs: Collection[str],
    ) -> None:
        self._contact_model, held = constraints
        self._is_constrained = any(one.kind != "joint" for one in held)
        self._description, self._bodies, self._inputs = description, bodies, inputs
        self._frames = {frame.name: frame for frame in frames}
        self._joints = {body.joint: index for index, body in enumerate(bodies)}
        self._actuators = {one.name: index for index, one in enumerate(actuators)}
        own = [body for body in bodies if not body.mimics]
        at = [0.0] * sum(body.nq for body in own)
        for body in own:
            place = description.qpos0.get(body.joint, body.joint_type.neutral)
            at[body.q_index : body.q_index + body.nq] = place
        self._at = tuple(at)

    def sensor(self, where: str, entry: Mapping[str, Any]) -> Sensor:
        """Return a sensor.

        Raises:
            OptionError: the entry is invalid.
            _Unusable:   the robot cannot have it.
        """
        kind = entry.get("kind")
        if not isinstance(kind, str) or kind not in KINDS:
            choices = ", ".join((*_GROUPS, *KINDS))
            raise OptionError(f"{where} has kind {show_value(kind)}; choose one of {choices}")
        row = KINDS[kind]
        known = _SHARED + _FIELDS[row.of] + (_REFERENCE if row.has_reference else ())
        known += _OWN.get(kind, ())
        given = {key: value for key, value in entry.items() if not key.startswith("_")}
        if unknown := sorted(given.keys() - set(known)):
            raise OptionError(f"{where} has {show(unknown[0])}; a {kind} has {', '.join(known)}")
        (cutoff,) = numbers_of(where, "cutoff", entry.get("cutoff", 0.0), 1, least=0.0)
        if cutoff and not row.is_cut:
            raise OptionError(f"{where} has cutoff {cutoff:g}; a {kind} has none: leave it out")
        made = Sensor(f"{entry.get(row.of.replace('subtree', 'link'), '')}_{kind}".strip("_"), kind)
        if row.of in ("link", "subtree"):
            made = replace(made, frame=self._frame(where, entry, "link", *_POSE))
        if row.of == "subtree":
            pieces, links = self._subtree(where, kind, str(entry["link"]))
            made = replace(made, pieces=pieces, links=links if row.accelerates else ())
        if row.touches or kind in ("force", "torque"):
            self._check_constraints(kind, is_required=row.touches)
        if kind == "touch":
            assert made.frame is not None
            links = (made.frame.name,)
            if made.frame.body < 0:
                raise _Unusable(f"its link {show(links[0])} does not move", _OTHER)
            made = replace(made, links=links, zone=self._zone(where, entry))
        if kind == "e_potential":
            made = replace(made, pieces=((-1, self._lump(self._links_of(-1), -1)),))
        if row.has_reference and any(key in entry for key in _REFERENCE):
            made = replace(made, to=self._frame(where, entry, "to", "to_offset", "to_rpy"))
        if row.of in ("joint", "ball", "limit"):
            made = replace(made, body=self._joint(where, entry, kind))
        if row.of == "contact":
            names = [one.name for one in self._contact_model.contacts]
            made = replace(made, contact=names.index(self._named(where, entry, "contact", names)))
        if row.of == "actuator":
            made = replace(made, actuator=self._actuator(where, entry))
        x, y, z = numbers_of(where, "magnetic", entry.get("magnetic", MAGNETIC), 3)
        name = entry.get("name", made.name)
        if not isinstance(name, str) or not name:
            raise OptionError(f"{where} has name {show_value(name)}; give a string")
        signs = tuple(map(tuple, entry.get("_signs", ())))
        made = replace(made, name=name, size=row.size, cutoff=cutoff, signs=signs)
        if signs:
            made = replace(made, at=self._at)
        return replace(made, field=(x, y, z)) if kind == "magnetometer" else made

    def _named(self, where: str, entry: Mapping[str, Any], key: str, names: Collection[str]) -> str:
        name = entry.get(key)
        if not isinstance(name, str) or name not in names:
            hint = suggestion(str(name), names).removesuffix("?")
            raise _Unusable(f"its {key} is {show_value(name)}, which the robot lacks{hint}", _OTHER)
        return name

    def _frame(
        self, where: str, entry: Mapping[str, Any], key: str, offset: str, rpy: str
    ) -> Frame:
        """Return a link's frame, or one in it; of the world where ``to`` is not given."""
        x, y, z = numbers_of(where, offset, entry.get(offset, (0.0, 0.0, 0.0)), 3)
        at = Pose(from_rpy(*numbers_of(where, rpy, entry.get(rpy, (0.0,) * 3), 3)), (x, y, z))
        if key == "to" and key not in entry:
            return Frame("", -1, at.rotation, at.translation)
        link = self._frames[self._named(where, entry, key, self._frames)]
        at = Pose(link.rotation, link.translation) @ at
        return Frame(link.name, link.body, at.rotation, at.translation)

    def _joint(self, where: str, entry: Mapping[str, Any], kind: str) -> int:
        index = self._joints[self._named(where, entry, "joint", self._joints)]
        body, of = self._bodies[index], KINDS[kind].of
        fits = {"ball": body.kind == "ball", "joint": body.nv == 1}
        if not fits.get(of, any(fits.values())):
            what = "no ball joint" if of == "ball" else f"{body.kind}, with several velocities"
            raise _Unusable(f"its joint {show(body.joint)} is {what}", _OTHER)
        if (kind == "jointactuatorfrc" or of == "limit") and body.mimics:
            raise _Unusable(f"its joint {show(body.joint)} mimics another joint", _OTHER)
        if kind == "jointactuatorfrc" and not self._actuators:
            raise _Unusable("it is of actuators, and the robot has none", _ACTUATORS)
        return index

    def _actuator(self, where: str, entry: Mapping[str, Any]) -> int:
        name = entry.get("actuator")
        if name not in self._actuators and not self._actuators:
            raise _Unusable("it is of an actuator, and the robot has none", _ACTUATORS)
        return self._actuators[self._named(where, entry, "actuator", self._actuators)]

    def _check_constraints(self, kind: str, *, is_required: bool) -> None:
        """Raise where the forces of constraints are not known."""
        if is_required and not self._contact_model.acts:
            raise _Unusable("it is of soft constraints", "load it with contact=True")
        if self._contact_model.max_pairs and not kind.startswith("jointlimit"):
            raise _Unusable("max_pairs sums the forces of pairs", "leave max_pairs out of contact=")
        if kind in ("force", "torque") and self._is_constrained:
            raise _Unusable("it contains the forces of constraints of links", "leave it out")

    def _zone(self, where: str, entry: Mapping[str, Any]) -> tuple[str, tuple[float, ...]] | None:
        """Return the shape of a touch sensor."""
        shape = entry.get("shape")
        if shape is None and "size" not in entry:
            return None
        if not isinstance(shape, str) or shape not in SHAPES:
            raise OptionError(
                f"{where} has shape {show_value(shape)}; choose one of {', '.join(SHAPES)}"
            )
        return shape, numbers_of(where, "size", entry.get("size"), SHAPES[shape], least=0.0)

    def _subtree(
        self, where: str, kind: str, link: str
    ) -> tuple[tuple[tuple[int, Lump | None], ...], tuple[str, ...]]:
        """Return the bodies of a subtree, and its links.

        The first body has the mass of a part of its links, unless all are in the subtree.
        """
        below: dict[str, list[str]] = {}
        for joint in self._description.joints:
            below.setdefault(joint.parent, []).append(joint.child)
        links = [link]
        for one in links:
            links += below.get(one, ())
        root = self._frames[link].body
        own = [one for one in links if self._frames[one].body == root]
        others = sorted({self._frames[one].body for one in links} - {root})
        is_whole = root >= 0 and len(own) == len(self._links_of(root))
        if not is_whole and root >= 0 and "params" in self._inputs:
            problem = f"its link {show(link)} is a part of body {show(self._bodies[root].name)}"
            raise _Unusable(f"{problem}, whose inertia is an input", _OTHER)
        lump = None if is_whole else self._lump(own, root)
        mass = sum(self._bodies[one].mass for one in others)
        mass += self._bodies[root].mass if lump is None else lump.mass
        if mass <= 0.0 and kind.startswith("subtree"):
            raise _Unusable(f"the subtree of {show(link)} has no mass", _OTHER)
        if kind in ("force", "torque") and root < 0:
            raise _Unusable(f"its link {show(link)} does not move", _OTHER)
        return ((root, lump), *((one, None) for one in others)), tuple(links)

    def _links_of(self, body: int) -> list[str]:
        return [frame.name for frame in self._frames.values() if frame.body == body]

    def _lump(self, links: Sequence[str], body: int) -> Lump:
        """Return the mass of links in the canonical frame of their body."""
        inertials = {link.name: link.inertial for link in self._description.links}
        total = NO_MASS
        for name in links:
            frame, inertial = self._frames[name], inertials[name]
            if inertial is not None:
                total = total.plus(inertial, Pose(frame.rotation, frame.translation))
        alignment = self._bodies[body].link_rotation if body >= 0 else IDENTITY
        return total.turned(transpose(alignment))


_OTHER = "name another, or leave it out"
_ACTUATORS = "load it with actuators= (grid-gen: --actuators)"
