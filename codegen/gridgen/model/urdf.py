"""URDF -> RobotDescription: strict, with line numbers.

Only what dynamics needs is read: links, inertials, joints and what stands in them. Visuals, meshes,
materials, transmissions and simulator extensions are skipped unopened. Names are kept as they are
written, surrounding blanks included.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

from lxml import etree

from gridgen.model.description import (
    JOINT_KINDS,
    Inertial,
    Joint,
    Limits,
    Link,
    Mimic,
    RobotDescription,
    validate,
    warn_at,
)
from gridgen.model.document import BLANKS, TEXT_SOURCE, Document, open_document
from gridgen.model.pose import (
    IDENTITY,
    NO_DISPLACEMENT,
    ZERO,
    Matrix3,
    Pose,
    Vector3,
    from_quaternion,
    from_rpy,
    symmetric,
    unit,
)
from gridgen.naming import show

__all__ = ["Inertial", "Joint", "Limits", "Link", "Mimic", "RobotDescription", "parse_urdf"]

_XACRO_ADVICE = "; expand xacro first: xacro robot.urdf.xacro > robot.urdf"
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)


def parse_urdf(source: str | bytes | os.PathLike[str]) -> RobotDescription:
    """Read one robot.

    Args:
        source: a path, or the URDF itself: ``bytes``, or a ``str`` whose first character after
            blanks and a byte-order mark is ``<`` (any other ``str`` is a path).

    Returns:
        The robot as the file describes it: one tree of links, references and numbers checked.

    Raises:
        UrdfError: if the file cannot be read, or is not one robot; see ``validate`` as well.
    """
    document = open_document(source)
    robot = _Reader(document).robot()
    validate(robot)
    return robot


class _Reader:
    """Reads the elements of one document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.namespace = etree.QName(document.root).namespace

    def robot(self) -> RobotDescription:
        """Return the whole robot, not yet validated."""
        root = self.document.root
        name = root.get("name") or self.default_name(root)
        links: list[Link] = []
        joints: list[Joint] = []
        for element in root:
            tag = self.tag(element)
            if tag == "link":
                links.append(self.link(element))
            elif tag == "joint":
                joints.append(self.joint(element))
        return RobotDescription(
            name, tuple(links), tuple(joints), self.document.source, self.document.digest
        )

    def default_name(self, root: etree._Element) -> str:
        """Return a name for a robot that has none: that of its file."""
        source = self.document.source
        name = "robot" if source == TEXT_SOURCE else Path(source).stem
        warn_at(
            f'<robot> has no name; called {show(name)} here: add name="..."',
            source,
            self.document.line(root),
        )
        return name

    def link(self, element: etree._Element) -> Link:
        """Return one link."""
        name = self.attribute(element, "name", "a <link>")
        where = f"link {show(name)}"
        found = self.children(element, where, ("inertial",))
        inertial = found.get("inertial")
        return Link(
            name,
            None if inertial is None else self.inertial(inertial, where),
            self.document.line(element),
        )

    def inertial(self, element: etree._Element, where: str) -> Inertial:
        """Return the mass properties of a link."""
        found = self.children(element, where, ("origin", "mass", "inertia"))
        for tag in ("mass", "inertia"):
            if tag not in found:
                raise self.document.error(
                    f"{where}: <inertial> has no <{tag}>; add it, or remove <inertial> for a link "
                    "without mass",
                    element,
                )
        mass = self.number(found["mass"], "value", f"{where}: mass")
        names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        missing = [name for name in names if name not in found["inertia"].attrib]
        if missing:
            raise self.document.error(
                f"{where}: <inertia> lacks {', '.join(missing)}; write 0 for what is zero",
                found["inertia"],
            )
        entries = [self.number(found["inertia"], name, f"{where}: inertia") for name in names]
        return Inertial(
            self.origin(found.get("origin"), f"{where}: inertial origin"),
            mass,
            symmetric(*entries),
            self.document.line(element),
        )

    def joint(self, element: etree._Element) -> Joint:
        """Return one joint; what a fixed joint does not need is not read."""
        name = self.attribute(element, "name", "a <joint>")
        where = f"joint {show(name)}"
        kind = self.attribute(element, "type", where)
        if kind not in JOINT_KINDS:
            raise self.document.error(
                f"{where}: type is {show(kind)}, which is not supported"
                f"{_xacro_hint(kind)}; use one of {', '.join(JOINT_KINDS)}",
                element,
            )
        found = self.children(
            element, where, ("origin", "parent", "child", "axis", "limit", "mimic", "dynamics")
        )
        ends = []
        for role in ("parent", "child"):
            if role not in found:
                raise self.document.error(
                    f'{where}: has no {role} link; add <{role} link="..."/>', element
                )
            ends.append(self.attribute(found[role], "link", f"{where}: <{role}>"))
        origin = self.origin(found.get("origin"), f"{where}: origin")
        line = self.document.line(element)
        if kind == "fixed":
            return Joint(name, kind, ends[0], ends[1], origin, line=line)
        dynamics = found.get("dynamics")
        return Joint(
            name,
            kind,
            ends[0],
            ends[1],
            origin,
            (0.0, 0.0, 1.0) if kind == "floating" else self.axis(found.get("axis"), where),
            self.limits(found.get("limit"), where),
            self.mimic(found.get("mimic"), where),
            self.optional(dynamics, "damping", f"{where}: damping", 0.0),
            self.optional(dynamics, "friction", f"{where}: friction", 0.0),
            line,
        )

    def origin(self, element: etree._Element | None, where: str) -> Pose:
        """Return the pose that an <origin> describes, no displacement where there is none."""
        if element is None:
            return NO_DISPLACEMENT
        translation = self.triple(element, "xyz", where, ZERO)
        if "quat_xyzw" in element.attrib:
            return Pose(self.quaternion(element, where), translation)
        rpy = self.triple(element, "rpy", where, ZERO)
        return Pose(IDENTITY if rpy == ZERO else from_rpy(*rpy), translation)

    def quaternion(self, element: etree._Element, where: str) -> Matrix3:
        """Return the rotation of a ``quat_xyzw`` (URDF 1.1)."""
        if "rpy" in element.attrib:
            raise self.document.error(f"{where}: has both rpy and quat_xyzw; keep one", element)
        x, y, z, w = self.numbers(element, "quat_xyzw", where, 4)
        if x == y == z == w == 0.0:
            raise self.document.error(f"{where}: quat_xyzw is zero, which is no rotation", element)
        return from_quaternion(x, y, z, w)

    def axis(self, element: etree._Element | None, where: str) -> Vector3:
        """Return the unit vector of an <axis>: 1 0 0 where there is none."""
        if element is None:
            return (1.0, 0.0, 0.0)
        axis = self.triple(element, "xyz", f"{where}: axis", (1.0, 0.0, 0.0))
        if axis == ZERO:
            raise self.document.error(f"{where}: axis is 0 0 0; an axis needs a direction", element)
        return unit(axis)

    def limits(self, element: etree._Element | None, where: str) -> Limits | None:
        """Return the limits of a joint; in a <limit>, an absent bound of position is 0 (URDF)."""
        if element is None:
            return None
        lower, upper, effort, velocity = (
            self.optional(element, name, f"{where}: {name} limit", default, infinite=True)
            for name, default in (
                ("lower", 0.0),
                ("upper", 0.0),
                ("effort", math.inf),
                ("velocity", math.inf),
            )
        )
        return Limits(lower, upper, effort, velocity, self.document.line(element))

    def mimic(self, element: etree._Element | None, where: str) -> Mimic | None:
        """Return what a joint follows."""
        if element is None:
            return None
        return Mimic(
            self.attribute(element, "joint", f"{where}: <mimic>"),
            self.optional(element, "multiplier", f"{where}: mimic multiplier", 1.0),
            self.optional(element, "offset", f"{where}: mimic offset", 0.0),
            self.document.line(element),
        )

    # Elements and attributes ------------------------------------------------------------------

    def children(
        self, element: etree._Element, where: str, tags: Sequence[str]
    ) -> dict[str, etree._Element]:
        """Return the first child of each of these tags; a second one is warned of."""
        found: dict[str, etree._Element] = {}
        for child in element:
            tag = self.tag(child)
            if tag not in tags:
                continue
            if tag in found:
                warn_at(
                    f"{where}: has more than one <{tag}>; the first one is used: remove the others",
                    self.document.source,
                    self.document.line(child),
                )
            else:
                found[tag] = child
        return found

    def tag(self, element: etree._Element) -> str:
        """Return the name of a URDF element, or nothing for one of another vocabulary."""
        if not isinstance(element.tag, str):  # an entity reference
            return ""
        name = etree.QName(element)
        if "xacro" in (name.namespace or ""):
            raise self.document.error(
                f"<xacro:{name.localname}> is not expanded{_XACRO_ADVICE}",
                element,
            )
        return name.localname if name.namespace == self.namespace else ""

    def attribute(self, element: etree._Element, name: str, where: str) -> str:
        """Return an attribute that must be there."""
        value = element.get(name)
        if value is None:
            raise self.document.error(f'{where} has no attribute {name}; add {name}="..."', element)
        return value

    def number(self, element: etree._Element, name: str, what: str) -> float:
        """Return one number that must be there."""
        self.attribute(element, name, what)
        return self.numbers(element, name, what, 1)[0]

    def optional(
        self,
        element: etree._Element | None,
        name: str,
        what: str,
        default: float,
        infinite: bool = False,
    ) -> float:
        """Return one number, or the default where there is none."""
        if element is None or name not in element.attrib:
            return default
        return self.numbers(element, name, what, 1, infinite)[0]

    def triple(self, element: etree._Element, name: str, what: str, default: Vector3) -> Vector3:
        """Return three numbers, or the default where the attribute is absent."""
        if name not in element.attrib:
            return default
        x, y, z = self.numbers(element, name, f"{what} {name}", 3)
        return (x, y, z)

    def numbers(
        self, element: etree._Element, name: str, what: str, count: int, infinite: bool = False
    ) -> list[float]:
        """Return the numbers of an attribute: exactly ``count``, finite, in plain ASCII."""
        text = self.attribute(element, name, what)
        if len(text) > 1000:
            raise self.document.error(
                f"{what} is {show(text)}; write {_plural(count)} in fewer digits", element
            )
        words = re.findall(f"[^{BLANKS}]+", text)
        values = []
        for word in words:
            if infinite and _INFINITE.fullmatch(word):
                values.append(-math.inf if word.startswith("-") else math.inf)
                continue
            if not _NUMBER.fullmatch(word):
                raise self.document.error(
                    f"{what} is {show(text)}: {show(word)} is not a number"
                    f"{_xacro_hint(text) or '; write it like 1.5 or -2e-3'}",
                    element,
                )
            value = float(word)
            if not math.isfinite(value):
                raise self.document.error(
                    f"{what} is {show(text)}: {show(word)} is not finite in float64", element
                )
            values.append(value + 0.0)  # no negative zeros: they would print as -0.0
        if len(values) != count:
            raise self.document.error(
                f"{what} is {show(text)}: expected {_plural(count)}, got {len(values)}", element
            )
        return values


def _xacro_hint(text: str) -> str:
    """Return what to do if a value is an expression of xacro."""
    return _XACRO_ADVICE if "${" in text or "$(" in text else ""


def _plural(count: int) -> str:
    return "one number" if count == 1 else f"{count} numbers"
