"""What URDF calls things, and what somebody meant who called them otherwise.

A parser that skips what it does not know changes a robot in silence: ``<Axis>`` is no axis. Most of
what it skips is meant for others, though. So only that is told of which resembles, misplaces or
extends what dynamics reads.
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
    """What dynamics reads of one URDF element: its attributes and the elements directly in it."""

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
"""What is read of a joint that does not move."""

_MEANT_FOR_OTHERS = {
    *("gazebo", "transmission", "ros2_control", "sensor", "material", "visual", "collision"),
    *("calibration", "safety_controller", "contact"),
}
"""Elements that have nothing to do with dynamics, but for a few in them."""

_LOST_LOOP = "this robot lacks that closed loop: a robot is a tree of links"

_MEANT_INSIDE = {
    "visual": ("inertial", "it belongs inside <link>"),
    "collision": ("inertial", "it belongs inside <link>"),
    "gazebo": ("joint", _LOST_LOOP),
}
"""What is meant for dynamics inside an element that is meant for others, and what to do here."""

_FOR_CONTROLLERS = {
    "limit": re.compile("current|(command|gear|max)_.+|acceleration|deceleration|jerk"),
    "dynamics": re.compile("D|K|mu_coulomb|mu_viscous"),
}
"""Attributes that programs add to an element of URDF and that change no dynamics here.

Any other attribute of an element without children is meant to say where, how much or which.
"""

_ABOUT_DYNAMICS = ("joint", "inertial", "mass", "inertia", "axis", "limit", "mimic", "dynamics")
"""Elements that an extension with a namespace of its own (Drake's) offers in other kinds."""

MOST_UNKNOWN = 10_000
"""Unknown names that are looked at: no robot has as many, and a hostile file shall cost no more."""

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
        "this robot lacks that force: give it in tau",
    ),
    (
        ("joint", "dynamics"),
        re.compile("armature|(rotor|motor)_?inertia|gear_?ratio", re.IGNORECASE),
        "give the inertia of motors by the option armature",
    ),
    (
        ("robot",),
        re.compile("include", re.IGNORECASE),
        "put what that file holds into this one",
    ),
)
"""Where programs put what dynamics of their own needs, how they call it, and what to do here."""


@dataclass(frozen=True)
class Unread:
    """An element, an attribute or a text that is skipped though it may be meant for dynamics."""

    what: str
    advice: str
    element: etree._Element


def split(name: str) -> tuple[str, str]:
    """Return the namespace of a tag or attribute, or its undeclared prefix, and its local name."""
    if name.startswith("{"):
        namespace, _, local = name[1:].rpartition("}")
    else:
        namespace, _, local = name.rpartition(":")
    return namespace, local


def is_xacro(element: etree._Element) -> bool:
    """Return whether an element is one of xacro's, which expanding the file replaces."""
    return isinstance(element.tag, str) and "xacro" in split(element.tag)[0]


def label(element: etree._Element) -> str:
    """Return how an element is written: <tag>, with its prefix."""
    namespace, local = split(element.tag)
    prefix = element.prefix or ("" if element.tag.startswith("{") else namespace)
    return f"<{show(f'{prefix}:{local}' if prefix else local)[1:-1]}>"


class Search:
    """Finds what is skipped though it may be meant; gives up after ``MOST_UNKNOWN`` names."""

    def __init__(self) -> None:
        self.left = MOST_UNKNOWN

    def children(
        self, element: etree._Element, kind: str, read: tuple[str, ...]
    ) -> Iterator[Unread]:
        """Find the children of an element that dynamics may need and that are not read.

        Args:
            element: where to look.
            kind:    what it is, a key of ``READ``.
            read:    the children that are read: ``READ[kind].children``, or fewer.
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
        """Find attributes that dynamics may need and nothing reads, and what should be attributes.

        Args:
            element: where to look.
            kind:    what it is, a key of ``READ``.
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
    """Find what dynamics may need inside an element that is meant for others."""
    tag, advice = _MEANT_INSIDE.get(local, ("", ""))
    for inner in element.iterchildren(etree.Element) if tag else ():
        if split(inner.tag)[1] == tag and len(inner):
            yield Unread(f"{label(inner)} inside <{local}>", advice, inner)


def _extension(name: str, kind: str) -> str:
    """Return what to do about an extension of URDF that changes the dynamics."""
    for kinds, pattern, advice in _EXTENSIONS:
        if kind in kinds and pattern.search(name):
            return advice
    return ""


def _advice_on_foreign_child(local: str, read: tuple[str, ...]) -> str:
    """Return what to do about an element of another namespace; nothing if it is no concern."""
    meant = local.lower()
    return f"did you mean <{meant}>?" if meant in _ABOUT_DYNAMICS and meant in read else ""


def _advice_on_child(child: etree._Element, local: str, kind: str, read: tuple[str, ...]) -> str:
    """Return what to do about an element that URDF does not have there; nothing if harmless."""
    if local.lower() in read:
        return f"did you mean <{local.lower()}>?"
    if homes := _homes(local):
        # A fixed joint needs no axis, however it is written.
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
    """Return what to do about an unknown element that holds numbers of one that is read.

    Old URDF has ``<joint_properties damping="1"/>``. Only names that are a sign of dynamics count:
    a link may have frames of any kind, each with an origin.
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
"""Attributes that elements of all kinds have: they are no sign of the one that is read."""


def _texts(element: etree._Element) -> Iterator[str | None]:
    """Yield the text in an element, which stands before and behind its children."""
    yield element.text
    for child in element:
        yield child.tail


def _advice_on_attribute(name: str, kind: str) -> str:
    """Return what to do about an attribute that URDF does not have there; nothing if harmless."""
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
    """Return the one of these names that somebody meant, or nothing."""
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
    # At 0.8 "limits" and "dampng" resemble, "collision" and "current" do not; "point" is no joint.
    alike = [known for known in names if known[0] == plain[0]]
    return next(iter(difflib.get_close_matches(plain, alike, n=1, cutoff=0.8)), "")


def _homes(local: str) -> tuple[str, ...]:
    """Return the elements that have a child of this name."""
    return tuple(kind for kind, element in READ.items() if local.lower() in element.children)


def _homes_below(name: str, kind: str) -> tuple[str, ...]:
    """Return the elements inside one in which a name stands, that of an attribute or an element."""
    homes: dict[str, None] = {}
    for child in READ[kind].children:
        if name == child or name in READ[child].attributes:
            homes[child] = None
        homes |= dict.fromkeys(_homes_below(name, child))
    return tuple(homes)


def _attributes_are(kind: str) -> str:
    return f"what <{kind}> may have is {', '.join(READ[kind].attributes)}"


def _belongs(homes: tuple[str, ...]) -> str:
    return f"it belongs inside {' or '.join(f'<{home}>' for home in homes)}" if homes else ""


def _displaces_nothing(origin: etree._Element) -> bool:
    """Return whether all numbers of an <origin>, or of what stands for one, are zero."""
    words = " ".join(map(str, (*origin.attrib.values(), origin.text or ""))).split()
    return all(re.fullmatch(r"[-+]?0*\.?0*", word) for word in words)


def _holds_joint(element: etree._Element) -> bool:
    """Return whether there is a whole joint somewhere in an element."""
    own = split(element.tag)[0]
    tag, child = (f"{{{own}}}{name}" if own else name for name in ("joint", "child"))
    return any(joint.find(child) is not None for joint in element.iter(tag))
