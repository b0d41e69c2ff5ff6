"""URDF's element and attribute names, and hints for misspelled or misplaced ones.

A parser that ignores unknown elements can change a robot silently: ``<Axis>`` is not ``<axis>``.
Most unknown elements belong to other tools. Warnings cover only names that resemble, misplace or
extend the elements that affect the dynamics.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree

from gridgen.model.description import listing
from gridgen.naming import show


@dataclass(frozen=True)
class Element:
    """Attributes and direct children of a URDF element that the reader parses."""

    attributes: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


READ = {
    "robot": Element(("name",), ("link", "joint")),
    "link": Element(("name",), ("inertial",)),
    "inertial": Element((), ("origin", "mass", "inertia")),
    "joint": Element(
        ("name", "type"), ("origin", "parent", "child", "axis", "limit", "mimic", "dynamics")
    ),
    "origin": Element(("xyz", "rpy", "quat_xyzw")),
    "mass": Element(("value",)),
    "inertia": Element(("ixx", "ixy", "ixz", "iyy", "iyz", "izz")),
    "parent": Element(("link",)),
    "child": Element(("link",)),
    "axis": Element(("xyz",)),
    "limit": Element(("lower", "upper", "effort", "velocity")),
    "mimic": Element(("joint", "multiplier", "offset")),
    "dynamics": Element(("damping", "friction")),
}

FIXED_JOINT = ("origin", "parent", "child")
"""Children of a fixed joint that the reader parses."""

_MEANT_FOR_OTHERS = {
    *("gazebo", "transmission", "ros2_control", "sensor", "material", "visual", "collision"),
    *("calibration", "safety_controller", "contact"),
}
"""Elements of other tools; only ``_MEANT_INSIDE`` in them affects the dynamics."""

_LOST_LOOP = "the closed loop is missing from the robot, which is a tree of links"

_MEANT_INSIDE = {
    "visual": ("inertial", "it belongs inside <link>"),
    "collision": ("inertial", "it belongs inside <link>"),
    "gazebo": ("joint", _LOST_LOOP),
}
"""Elements that affect the dynamics inside elements of other tools, with advice."""

_FOR_CONTROLLERS = {
    "limit": re.compile("current|(command|gear|max)_.+|acceleration|deceleration|jerk"),
    "dynamics": re.compile("D|K|mu_coulomb|mu_viscous"),
}
"""Attributes that other tools add to URDF elements and that do not affect the dynamics.

Any other unknown attribute of an element without children causes a warning.
"""

_ABOUT_DYNAMICS = ("joint", "inertial", "mass", "inertia", "axis", "limit", "mimic", "dynamics")
"""Elements that extensions in their own namespace (Drake's) redefine."""

MAX_UNKNOWN = 10_000
"""Maximum number of unknown names to check, which bounds the time for a hostile file."""

_SYNONYMS = {
    **dict.fromkeys(("position", "pos", "translation", "vector", "direction"), "xyz"),
    **dict.fromkeys(("orientation", "rotation", "euler", "rot"), "rpy"),
    **dict.fromkeys(("quaternion", "quat", "quat_wxyz", "wxyz", "xyzw"), "quat_xyzw"),
    **dict.fromkeys(("min", "lower_limit", "min_position"), "lower"),
    **dict.fromkeys(("max", "upper_limit", "max_position"), "upper"),
    **dict.fromkeys(("max_effort", "force", "torque"), "effort"),
    **dict.fromkeys(("max_velocity", "speed"), "velocity"),
    **dict.fromkeys(("ratio", "scale", "factor", "gear"), "multiplier"),
    **dict.fromkeys(("pose", "com", "center_of_mass", "center_of_mass"), "origin"),
    **dict.fromkeys(("frictionloss", "friction_loss"), "friction"),
    "axes": "axis",
}

_EXTENSIONS = (
    (
        ("robot", "joint"),
        re.compile("loop|closure|constraint|cut_?joint|equality", re.IGNORECASE),
        _LOST_LOOP,
    ),
    (
        ("robot", "joint", "dynamics"),
        re.compile("spring|bushing|damper|stiffness", re.IGNORECASE),
        "the force is missing from the robot: give it in tau",
    ),
    (
        ("joint", "dynamics"),
        re.compile("armature|(rotor|motor)_?inertia|gear_?ratio", re.IGNORECASE),
        "give motor inertia by the option armature, or rotors",
    ),
    (
        ("robot",),
        re.compile("include", re.IGNORECASE),
        "copy the content of that file into this one",
    ),
)
"""Extensions of other tools that affect the dynamics: parent elements, name pattern, advice."""


@dataclass(frozen=True)
class Unread:
    """An ignored element, attribute or text that may affect the dynamics."""

    what: str
    advice: str
    element: etree._Element


def split(name: str) -> tuple[str, str]:
    """Return the namespace (or undeclared prefix) and the local name of a tag or attribute."""
    if name.startswith("{"):
        namespace, _, local = name[1:].rpartition("}")
    else:
        namespace, _, local = name.rpartition(":")
    return namespace, local


def is_xacro(element: etree._Element) -> bool:
    """Return whether an element belongs to xacro."""
    return isinstance(element.tag, str) and "xacro" in split(element.tag)[0]


def label(element: etree._Element) -> str:
    """Return an element's tag as written, in angle brackets, with its prefix."""
    namespace, local = split(element.tag)
    prefix = element.prefix or ("" if element.tag.startswith("{") else namespace)
    return f"<{show(f'{prefix}:{local}' if prefix else local)[1:-1]}>"


class Search:
    """Search for ignored content that may affect the dynamics, up to ``MAX_UNKNOWN`` names."""

    def __init__(self) -> None:
        self.left = MAX_UNKNOWN

    def children(
        self, element: etree._Element, kind: str, read: tuple[str, ...]
    ) -> Iterator[Unread]:
        """Find ignored children of an element that may affect the dynamics.

        Args:
            element: element to search.
            kind:    its kind, a key of ``READ``.
            read:    parsed children: a subset of ``READ[kind].children``.
        """
        own = split(element.tag)[0]
        for child in element:
            if not isinstance(child.tag, str) or is_xacro(child):
                continue
            namespace, local = split(child.tag)
            is_known = local in READ[kind].children or local in _MEANT_FOR_OTHERS
            if is_known and namespace == own:
                yield from _inside_others(child, local)
                continue
            if self._is_over():
                continue
            advice = _extension(local, kind) or (
                _advice_on_child(child, local, kind, read)
                if namespace == own
                else _advice_on_foreign_child(local, read)
            )
            if advice:
                yield Unread(label(child), advice, child)

    def content(self, element: etree._Element, kind: str) -> Iterator[Unread]:
        """Find ignored attributes, and text or children that should be attributes.

        Args:
            element: element to search.
            kind:    its kind, a key of ``READ``.
        """
        known = READ[kind]
        own = split(element.tag)[0]
        by_advice: dict[str, list[str]] = {}
        for name in map(str, element.attrib):
            if name in known.attributes or self._is_over():
                continue
            if advice := _advice_on_attribute(name, kind):
                by_advice.setdefault(advice, []).append(split(name)[1])
        for advice, names in by_advice.items():
            yield Unread(f"{listing(names)} in <{kind}>", advice, element)
        if known.children:
            if any((text or "").strip() for text in _texts(element)):
                yield Unread(f"the text in <{kind}>", "remove it, or make it an element", element)
            return
        has = _attributes_are(kind)
        if (element.text or "").strip():
            yield Unread(f"the text in <{kind}>", has, element)
        for child in element:
            if not isinstance(child.tag, str) or self._is_over():
                continue
            namespace, local = split(child.tag)
            homes = _homes(local)
            if namespace == own or homes or _meant(local, known.attributes):
                yield Unread(f"{label(child)} inside <{kind}>", _belongs(homes) or has, child)

    def _is_over(self) -> bool:
        self.left -= 1
        return self.left < 0


def _inside_others(element: etree._Element, local: str) -> Iterator[Unread]:
    """Find content that affects the dynamics inside an element of another tool."""
    tag, advice = _MEANT_INSIDE.get(local, ("", ""))
    for inner in element.iterchildren(etree.Element) if tag else ():
        if split(inner.tag)[1] == tag and len(inner):
            yield Unread(f"{label(inner)} inside <{local}>", advice, inner)


def _extension(name: str, kind: str) -> str:
    """Return advice on an extension of URDF that affects the dynamics."""
    for kinds, pattern, advice in _EXTENSIONS:
        if kind in kinds and pattern.search(name):
            return advice
    return ""


def _advice_on_foreign_child(local: str, read: tuple[str, ...]) -> str:
    """Return advice on an element of another namespace, empty if harmless."""
    meant = local.lower()
    return f"did you mean <{meant}>?" if meant in _ABOUT_DYNAMICS and meant in read else ""


def _advice_on_child(child: etree._Element, local: str, kind: str, read: tuple[str, ...]) -> str:
    """Return advice on an element that URDF does not define there, empty if harmless."""
    if local.lower() in read:
        return f"did you mean <{local.lower()}>?"
    if homes := _homes(local):
        # A fixed joint needs no axis.
        is_harmless = kind in homes or (local == "origin" and _displaces_nothing(child))
        inside = tuple(home for home in homes if home in READ[kind].children)
        return "" if is_harmless else _belongs(inside if kind == "link" and inside else homes)
    if kind == "robot" and _holds_joint(child):
        return "put its links and joints directly inside <robot>"
    if meant := _meant(local, read):
        return f"did you mean <{meant}>?"
    if kind == "link" and _SYNONYMS.get(local.lower()) == "origin":  # of the mass: <com>
        return "" if _displaces_nothing(child) else "did you mean <origin> inside <inertial>?"
    if kind in ("joint", "inertial"):
        for owner in read:
            if local.lower() in READ[owner].attributes:
                return f"did you mean an attribute of <{owner}>?"
    return _advice_on_contents(child, kind, read)


def _advice_on_contents(child: etree._Element, kind: str, read: tuple[str, ...]) -> str:
    """Return advice on an unknown element with the attributes of a known one.

    Old URDF has ``<joint_properties damping="1"/>``. Only names specific to dynamics count: a link
    may have frames of any kind, each with an origin.
    """
    names = {split(str(name))[1].lower() for name in child.attrib}
    names |= {split(inner.tag)[1].lower() for inner in child.iterchildren(etree.Element)}
    for owner in read if kind in ("joint", "inertial") else ():
        if names & {*READ[owner].attributes} - _ANYWHERE:
            return f"did you mean <{owner}>?"
    if kind == "link" and names & {"mass", *READ["inertia"].attributes}:
        return "did you mean <inertial>?"
    return ""


_ANYWHERE = {"joint", "link", "value"}
"""Attributes common to elements of all kinds, which identify none."""


def _texts(element: etree._Element) -> Iterator[str | None]:
    """Yield the text in an element, before and after its children."""
    yield element.text
    for child in element:
        yield child.tail


def _advice_on_attribute(name: str, kind: str) -> str:
    """Return advice on an attribute that URDF does not define there, empty if harmless."""
    namespace, local = split(name)
    attributes = READ[kind].attributes
    if namespace:
        return f"did you mean {local}?" if local in attributes else ""
    if advice := _extension(local, kind):
        return advice
    if READ[kind].children:
        homes = _homes_below(local.lower(), kind)
        return _belongs(homes) if homes else ""
    if meant := _meant(local, attributes):
        return f"did you mean {meant}?"
    harmless = _FOR_CONTROLLERS.get(kind)
    return "" if harmless and harmless.fullmatch(local) else _attributes_are(kind)


def _meant(name: str, names: tuple[str, ...]) -> str:
    """Return the most similar of these names, or an empty string."""
    if len(name) > 20:
        return ""
    plain = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).replace("-", "_").lower()
    if _SYNONYMS.get(plain) in names:
        return _SYNONYMS[plain]
    for known in names:
        if sorted(known) == sorted(plain):  # xzy
            return known
        if len(plain) > 2 and known.startswith(plain):  # damp
            return known
    # At 0.8 "limits" and "dampng" match, "collision" and "current" do not; "point" is not "joint".
    alike = [known for known in names if known[0] == plain[0]]
    return next(iter(difflib.get_close_matches(plain, alike, n=1, cutoff=0.8)), "")


def _homes(local: str) -> tuple[str, ...]:
    """Return the elements that have a child of this name."""
    return tuple(kind for kind, element in READ.items() if local.lower() in element.children)


def _homes_below(name: str, kind: str) -> tuple[str, ...]:
    """Return the descendants of an element that define this child or attribute."""
    homes: dict[str, None] = {}
    for child in READ[kind].children:
        if name == child or name in READ[child].attributes:
            homes[child] = None
        homes |= dict.fromkeys(_homes_below(name, child))
    return tuple(homes)


def _attributes_are(kind: str) -> str:
    return f"the attributes of <{kind}> are {', '.join(READ[kind].attributes)}"


def _belongs(homes: tuple[str, ...]) -> str:
    return f"it belongs inside {' or '.join(f'<{home}>' for home in homes)}" if homes else ""


def _displaces_nothing(origin: etree._Element) -> bool:
    """Return whether all numbers of an <origin> or its equivalent are zero."""
    words = " ".join(map(str, (*origin.attrib.values(), origin.text or ""))).split()
    return all(re.fullmatch(r"[-+]?0*\.?0*", word) for word in words)


def _holds_joint(element: etree._Element) -> bool:
    """Return whether an element contains a complete joint."""
    own = split(element.tag)[0]
    tag, child = (f"{{{own}}}{name}" if own else name for name in ("joint", "child"))
    return any(joint.find(child) is not None for joint in element.iter(tag))
