"""URDF -> RobotDescription: a strict reader that reports line numbers.

The reader parses links, inertials, joints and their elements. It also parses collision shapes that
are simple solids, for drawings; invalid shapes are skipped. Visuals, meshes, materials,
transmissions and simulator extensions are ignored. An ignored element that may affect the dynamics
causes a warning. Names are used as written, including surrounding whitespace.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lxml import etree

from gridgen.errors import GridGenWarning, UrdfError
from gridgen.model.description import (
    JOINT_KINDS,
    SOLIDS,
    XACRO_ADVICE,
    Inertial,
    Joint,
    Limits,
    Link,
    Mesh,
    Mimic,
    RobotDescription,
    Shape,
    collision_shape,
    xacro_hint,
)
from gridgen.model.diagnostics import Diagnostic, warn_of
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
    vector3,
)
from gridgen.model.readers.document import (
    TEXT_SOURCE,
    Document,
    Source,
    Values,
    check_is_urdf,
    open_document,
)
from gridgen.model.readers.vocabulary import (
    FIXED_JOINT,
    READ,
    Search,
    Unread,
    is_xacro,
    label,
    split,
)
from gridgen.model.validation import check_body_count, validate
from gridgen.naming import show

__all__ = ["Inertial", "Joint", "Limits", "Link", "Mimic", "RobotDescription", "parse_urdf"]


def parse_urdf(source: Source, most_bodies: float = math.inf) -> RobotDescription:
    """Parse and validate the URDF of one robot.

    Args:
        source: path, or URDF text: ``bytes``, or a ``str`` whose first character after
            whitespace and a byte-order mark is ``<`` (any other ``str`` is a path).
        most_bodies: maximum number of moving bodies, checked before the file is parsed.

    Raises:
        UrdfError: if the file cannot be read or is not a valid robot; see ``validate``.
        ModelError: if the robot has more than ``most_bodies``.
    """
    return read_urdf(open_document(source), most_bodies)


def read_urdf(document: Document, most_bodies: float = math.inf) -> RobotDescription:
    """Parse the robot in an open document; see ``parse_urdf``."""
    check_is_urdf(document)
    reader = _Reader(document)
    check_body_count(reader.document.source, reader.least_bodies(), most_bodies)
    try:
        robot = reader.robot()
        validate(robot)
    except UrdfError:
        # Ignored elements may explain the error. Raise the error even if warnings are errors.
        with suppress(GridGenWarning):
            warn_of(reader.diagnostics, reader.document.source)
        raise
    warn_of(reader.diagnostics, reader.document.source)
    return robot


class _Reader(Values):
    """Parser of one document's elements."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self.namespace = split(document.root.tag)[0]
        self.diagnostics: list[Diagnostic] = []
        self.search = Search()

    def least_bodies(self) -> int:
        """Return a lower bound of the moving joints: a mimic joint may be constant."""
        return sum(
            element.get("type") in JOINT_KINDS
            and element.get("type") != "fixed"
            and element.find(self.full("mimic")) is None
            for element in self.document.root.iterchildren(self.full("joint"))
        )

    def robot(self) -> RobotDescription:
        """Return the robot, not yet validated."""
        root = self.document.root
        name = root.get("name") or self.default_name(root)
        self.note_expression(name, "robot", root)
        self.note_unread(self.search.content(root, "robot"), "<robot>")
        self.note_unread(self.search.children(root, "robot", READ["robot"].children), "")
        self.check_xacro(root)
        links = [self.link(element) for element in root.iterchildren(self.full("link"))]
        joints = [self.joint(element) for element in root.iterchildren(self.full("joint"))]
        return RobotDescription(
            name, tuple(links), tuple(joints), self.document.source, self.document.digest
        )

    def default_name(self, root: etree._Element) -> str:
        """Return the file's stem as the name of a robot without a name."""
        source = self.document.source
        name = "robot" if source == TEXT_SOURCE else Path(source).stem
        self.note("<robot>", "has no name", f'using {show(name)}: add name="..."', root)
        return name

    def check_xacro(self, root: etree._Element) -> None:
        """Raise for an unexpanded xacro file, and note leftover calls in an expanded one."""
        is_expanded = all(root.find(self.full(tag)) is not None for tag in ("link", "joint"))
        for child in root.iterchildren(etree.Element):
            if not is_xacro(child):
                continue
            # An undeclared prefix is an XML error, not a leftover.
            if not is_expanded or not child.prefix or _holds_robot(child):
                raise self.not_expanded(child)
            problem = "is left over from xacro, and gridgen ignores it"
            self.note(label(child), problem, XACRO_ADVICE, child)

    def link(self, element: etree._Element) -> Link:
        """Return one link."""
        name = self.attribute(element, "name", "a <link>")
        where = f"link {show(name)}"
        self.note_expression(name, where, element)
        inertial = self.children(element, "link", where).get("inertial")
        return Link(
            name,
            None if inertial is None else self.inertial(inertial, where),
            self.document.line(element),
            tuple(self.shape(one) for one in element.iterchildren(self.full("collision"))),
            tuple(filter(None, map(self.mesh, element.iterchildren(self.full("collision"))))),
        )

    def shape(self, element: etree._Element) -> Shape | None:
        """Return one collision shape, None for a mesh or an invalid shape."""
        solid = next(element.iterchildren(self.full("geometry")), element).find("*")
        origin = element.find(self.full("origin"))
        if solid is None:
            return None
        kind = split(solid.tag)[1]
        names = SOLIDS.get(kind, {})
        try:
            size = [x for name, n in names.items() for x in self.numbers(solid, name, kind, n)]
            pose = NO_DISPLACEMENT if origin is None else self.pose(origin, kind)
        except UrdfError:
            return None
        return collision_shape(kind, pose, size)

    def mesh(self, element: etree._Element) -> Mesh | None:
        """Return a collision mesh, None for another shape."""
        geometry = next(element.iterchildren(self.full("geometry")), element)
        mesh, origin = geometry.find(self.full("mesh")), element.find(self.full("origin"))
        if mesh is None or not (file := mesh.get("filename")):
            return None
        try:
            pose = NO_DISPLACEMENT if origin is None else self.pose(origin, "mesh")
            scale = self.numbers(mesh, "scale", "mesh", 3) if mesh.get("scale") else (1.0,) * 3
        except UrdfError:
            return None
        return Mesh(pose, file, vector3(scale))

    def inertial(self, element: etree._Element, where: str) -> Inertial:
        """Return the mass properties of a link."""
        found = self.children(element, "inertial", where)
        for tag in ("mass", "inertia"):
            if tag not in found:
                raise self.document.error(
                    f"{where}: <inertial> has no <{tag}>; add it, or remove <inertial> for a link "
                    "without mass",
                    element,
                )
        for tag in ("mass", "inertia"):
            self.note_unread(self.search.content(found[tag], tag), where)
        mass = self.number(found["mass"], "value", f"{where}: mass")
        names = READ["inertia"].attributes
        missing = [name for name in names if name not in found["inertia"].attrib]
        if missing:
            raise self.document.error(
                f"{where}: <inertia> lacks {', '.join(missing)}; write 0 for a zero entry",
                found["inertia"],
            )
        entries = [self.number(found["inertia"], name, f"{where}: inertia") for name in names]
        return Inertial(
            self.origin(found.get("origin"), where, "inertial origin"),
            mass,
            symmetric(*entries),
            self.document.line(element),
        )

    def joint(self, element: etree._Element) -> Joint:
        """Return one joint; a fixed joint's axis, limits and dynamics are not read."""
        name = self.attribute(element, "name", "a <joint>")
        where = f"joint {show(name)}"
        self.note_expression(name, where, element)
        kind = self.attribute(element, "type", where)
        if kind not in JOINT_KINDS:
            raise self.document.error(
                f"{where}: type is {show(kind)}, which is not supported"
                f"{xacro_hint(kind)}; use one of {', '.join(JOINT_KINDS)}",
                element,
            )
        read = FIXED_JOINT if kind == "fixed" else READ["joint"].children
        found = self.children(element, "joint", where, read)
        ends = []
        for role in ("parent", "child"):
            if role not in found:
                raise self.document.error(
                    f'{where}: has no {role} link; add <{role} link="..."/>', element
                )
            ends.append(self.attribute(found[role], "link", f"{where}: <{role}>"))
            self.note_unread(self.search.content(found[role], role), where)
        origin = self.origin(found.get("origin"), where, "origin")
        line = self.document.line(element)
        if kind == "fixed":
            return Joint(name, kind, ends[0], ends[1], origin, line=line)
        dynamics = found.get("dynamics")
        if dynamics is not None:
            self.note_unread(self.search.content(dynamics, "dynamics"), where)
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

    def origin(self, element: etree._Element | None, where: str, what: str) -> Pose:
        """Return the pose of an <origin>, the identity where there is none."""
        if element is None:
            return NO_DISPLACEMENT
        self.note_unread(self.search.content(element, "origin"), where)
        return self.pose(element, f"{where}: {what}")

    def pose(self, element: etree._Element, where: str) -> Pose:
        """Return the pose of an <origin>'s attributes."""
        translation = self.triple(element, "xyz", where, ZERO)
        if "quat_xyzw" in element.attrib:
            return Pose(self.quaternion(element, where), translation)
        rpy = self.triple(element, "rpy", where, ZERO)
        return Pose(IDENTITY if rpy == ZERO else from_rpy(*rpy), translation)

    def quaternion(self, element: etree._Element, where: str) -> Matrix3:
        """Return the rotation of a ``quat_xyzw`` (URDF 1.1)."""
        if "rpy" in element.attrib:
            raise self.document.error(f"{where}: has both rpy and quat_xyzw; remove one", element)
        x, y, z, w = self.numbers(element, "quat_xyzw", where, 4)
        if x == y == z == w == 0.0:
            raise self.document.error(
                f"{where}: quat_xyzw is zero; a rotation needs a nonzero norm", element
            )
        return from_quaternion(x, y, z, w)

    def axis(self, element: etree._Element | None, where: str) -> Vector3:
        """Return the unit vector of an <axis>; the default is 1 0 0."""
        if element is None:
            return (1.0, 0.0, 0.0)
        unread = list(self.search.content(element, "axis"))
        self.note_unread(unread, where)
        if "xyz" not in element.attrib and not unread:
            advice = 'add xyz="1 0 0", or another direction'
            self.note(where, "<axis> has no xyz; the default is 1 0 0", advice, element)
        axis = self.triple(element, "xyz", f"{where}: axis", (1.0, 0.0, 0.0))
        if axis == ZERO:
            raise self.document.error(f"{where}: axis is 0 0 0; an axis needs a direction", element)
        return unit(axis)

    def limits(self, element: etree._Element | None, where: str) -> Limits | None:
        """Return a joint's limits; a missing position bound in <limit> is 0 (URDF)."""
        if element is None:
            return None
        self.note_unread(self.search.content(element, "limit"), where)
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
        """Return the mimic relation of a joint."""
        if element is None:
            return None
        self.note_unread(self.search.content(element, "mimic"), where)
        return Mimic(
            self.attribute(element, "joint", f"{where}: <mimic>"),
            self.optional(element, "multiplier", f"{where}: mimic multiplier", 1.0),
            self.optional(element, "offset", f"{where}: mimic offset", 0.0),
            self.document.line(element),
        )

    # Elements and attributes ------------------------------------------------------------------

    def children(
        self, element: etree._Element, kind: str, where: str, read: tuple[str, ...] = ()
    ) -> dict[str, etree._Element]:
        """Return the first child of each known tag; note suspicious others."""
        read = read or READ[kind].children
        found: dict[str, etree._Element] = {}
        for child in element:
            tag = self.tag(child)
            if tag not in read:
                continue
            if tag in found:
                advice = "the first one is used: remove the others"
                self.note(where, f"has more than one <{tag}>", advice, child)
            else:
                found[tag] = child
        self.note_unread(self.search.content(element, kind), where)
        self.note_unread(self.search.children(element, kind, read), where)
        return found

    def tag(self, element: etree._Element) -> str:
        """Return the tag of a URDF element, empty for another namespace."""
        if not isinstance(element.tag, str):  # an entity reference
            return ""
        if is_xacro(element):
            raise self.not_expanded(element)
        namespace, local = split(element.tag)
        return local if namespace == self.namespace else ""

    def full(self, tag: str) -> str:
        """Return a tag with this file's namespace, if any."""
        return f"{{{self.namespace}}}{tag}" if self.namespace else tag

    def not_expanded(self, element: etree._Element) -> UrdfError:
        """Return the error for an unexpanded xacro element."""
        local = split(element.tag)[1]
        return self.document.error(f"<xacro:{local}> is not expanded; {XACRO_ADVICE}", element)

    def note(self, where: str, problem: str, advice: str, element: etree._Element) -> None:
        """Record a diagnostic; those with the same problem and advice are reported together."""
        line = self.document.line(element)
        self.diagnostics.append(Diagnostic(f"{problem}; {advice}", where, problem, advice, line))

    def note_expression(self, name: str, where: str, element: etree._Element) -> None:
        """Record a name that is an unexpanded xacro expression."""
        if xacro_hint(name):
            self.note(where, "its name is a xacro expression", XACRO_ADVICE, element)

    def note_unread(self, found: Iterable[Unread], where: str) -> None:
        """Record ignored elements that may affect the dynamics."""
        for unread in found:
            name = unread.element.get("name")
            problem = f"gridgen ignores {unread.what if where else 'it'}"
            self.note(
                where or (unread.what if name is None else f"{unread.what} {show(name)}"),
                problem,
                unread.advice,
                unread.element,
            )


def _holds_robot(element: etree._Element) -> bool:
    """Return whether an element contains a link or a joint, in any namespace."""
    tags = (split(inner.tag)[1] for inner in element.iterdescendants(etree.Element))
    return not {"link", "joint"}.isdisjoint(tags)
