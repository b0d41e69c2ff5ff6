"""What a robot file says, as data: links, joints and their references, checked for consistency.

Every reader (``urdf``, ``objects``) ends with ``validate``, so that a ``RobotDescription`` is one
tree of links with known names, whatever it was read from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gridgen.errors import ModelError, UrdfError
from gridgen.model.oddities import Oddity, at_line, warn_of
from gridgen.model.plausible import odd_values
from gridgen.model.pose import NO_DISPLACEMENT, Matrix3, Pose, Vector3
from gridgen.naming import show, similar

JOINT_KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
MIMIC_KINDS = ("revolute", "continuous", "prismatic")

XACRO_ADVICE = "expand xacro first: xacro robot.urdf.xacro > robot.urdf"


@dataclass(frozen=True)
class Inertial:
    """Mass, and inertia about the center of mass in the axes of ``origin`` (kg, kg m^2)."""

    origin: Pose
    mass: float
    inertia: Matrix3
    line: int | None = None


@dataclass(frozen=True)
class Link:
    """A rigid body; without ``inertial`` it has no mass."""

    name: str
    inertial: Inertial | None = None
    line: int | None = None


@dataclass(frozen=True)
class Limits:
    """Bounds of a joint (rad or m, N m or N, rad/s or m/s); infinite where the file gives none."""

    lower: float
    upper: float
    effort: float
    velocity: float
    line: int | None = None


@dataclass(frozen=True)
class Mimic:
    """This joint's position is ``multiplier * position of joint + offset``."""

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0
    line: int | None = None


@dataclass(frozen=True)
class Joint:
    """A connection of two links; ``axis`` is a unit vector in the child link's frame."""

    name: str
    kind: str
    parent: str
    child: str
    origin: Pose = NO_DISPLACEMENT
    axis: Vector3 = (1.0, 0.0, 0.0)
    limits: Limits | None = None
    mimic: Mimic | None = None
    damping: float = 0.0
    friction: float = 0.0
    line: int | None = None
    armature: tuple[float, ...] = ()
    """What the diagonal of the mass matrix has beside the links, one number per velocity."""


@dataclass(frozen=True)
class RobotDescription:
    """One robot as its file describes it, links and joints in the order of the file.

    Attributes:
        name:     the robot's.
        links:    all of them.
        joints:   all of them.
        source:   the file, as messages call it.
        digest:   SHA-256 of what was read.
        in_order: joints below one link are numbered as they are listed, not by their names.
    """

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    source: str
    digest: str
    in_order: bool = False

    def error(self, message: str, line: int | None = None) -> UrdfError:
        """Return an error that says where in this robot's file something is wrong."""
        return UrdfError(message, self.source, line)

    def warn(self, oddities: Iterable[Oddity]) -> None:
        """Warn, saying where in this robot's file: one line for each kind of oddity."""
        warn_of(oddities, self.source)


def listing(names: Iterable[str], limit: int = 5) -> str:
    """Return names for a message, quoted, the first few of them."""
    names = tuple(names)
    shown = ", ".join(show(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def xacro_hint(text: str) -> str:
    """Return what to do if a value is an expression of xacro, or nothing."""
    return f"; {XACRO_ADVICE}" if "${" in text or "$(" in text else ""


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return a hint at similar names, or nothing."""
    if hint := xacro_hint(name):
        return hint
    matches = similar(name, names)
    return f"; did you mean {listing(matches)}?" if matches else ""


def refuse_many(source: str, bodies: int, most: float) -> None:
    """Refuse a robot of more moving bodies than ``most``.

    Raises:
        ModelError: the robot is that large.
    """
    if bodies > most:
        raise ModelError(
            f"{source}: the robot has {bodies} moving bodies; grid-gen takes at most {most}: make "
            "joints that need not move fixed"
        )


def validate(robot: RobotDescription) -> None:
    """Check that the links and joints form one tree, and warn of what is physically impossible.

    Raises:
        UrdfError: if a name is missing, odd or used twice, a reference leads nowhere, or the links
            are not one tree.
    """
    _check_names(robot)
    parents = _check_references(robot)
    _check_tree(robot, parents)
    flatten_mimics(robot)
    _check_masses(robot)
    robot.warn(odd_values(robot.links, robot.joints))


def _check_names(robot: RobotDescription) -> None:
    """Refuse names that are blank, used twice, or would break the line they are printed on."""
    check_name(robot, "robot", robot.name, None)
    for kind, elements in (("link", robot.links), ("joint", robot.joints)):
        first: dict[str, int | None] = {}
        for element in elements:
            check_name(robot, kind, element.name, element.line)
            if element.name in first:
                raise robot.error(
                    f"{kind} {show(element.name)}: there is another {kind} of this name"
                    f"{at_line(first[element.name])}; names must be distinct",
                    element.line,
                )
            first[element.name] = element.line


def check_name(robot: RobotDescription, kind: str, name: str, line: int | None) -> None:
    """Refuse a name without a visible character, or with a control character.

    Any other text is a name. Control characters, line separators and lone surrogates are in no
    name that anyone wants, and in many that break a terminal, a log or a generated file.
    """
    if not name.strip():
        raise robot.error(f"a {kind} is called {show(name)}; give it a name", line)
    for character in name:
        if not character.isprintable() and _breaks_lines(character):
            raise robot.error(
                f"{kind} {show(name)}: the control character U+{ord(character):04X} is in the name;"
                " remove it",
                line,
            )


def _breaks_lines(character: str) -> bool:
    code = ord(character)
    return code < 0x20 or 0x7F <= code < 0xA0 or code in (0x2028, 0x2029) or 0xD800 <= code < 0xE000


def _check_references(robot: RobotDescription) -> dict[str, Joint]:
    """Return the joint above each link, once every reference is known to be good."""
    if not robot.links:
        raise robot.error(
            "there is no <link> directly inside <robot>; a robot needs links (tags are lower case)"
        )
    links = {link.name: link for link in robot.links}
    above: dict[str, Joint] = {}
    for joint in robot.joints:
        where = f"joint {show(joint.name)}"
        ends = (("parent", joint.parent, joint.child), ("child", joint.child, joint.parent))
        for role, name, other_end in ends:
            if name not in links:
                hint = suggestion(name, (link for link in links if link != other_end))
                raise robot.error(
                    f"{where}: {role} link {show(name)} does not exist{hint}", joint.line
                )
        if joint.parent == joint.child:
            raise robot.error(
                f"{where}: parent and child are the same link {show(joint.child)}; a joint "
                "connects two links",
                joint.line,
            )
        if joint.child in above:
            other = above[joint.child]
            raise robot.error(
                f"link {show(joint.child)} is the child of two joints, {show(other.name)}"
                f"{at_line(other.line)} and {show(joint.name)}; closed loops are not supported: "
                "remove one of the joints",
                joint.line,
            )
        above[joint.child] = joint
    return above


def _check_tree(robot: RobotDescription, above: Mapping[str, Joint]) -> None:
    """Refuse anything but one root from which every link is reached."""
    roots = [link for link in robot.links if link.name not in above]
    if len(roots) > 1:
        raise robot.error(
            f"{len(roots)} links have no parent joint: {listing(link.name for link in roots)}; "
            "a robot has one root: connect the others to it by joints",
            roots[1].line,
        )
    reached: set[str] = {link.name for link in roots}
    for link in robot.links:
        path: list[str] = []
        on_path: set[str] = set()
        name = link.name
        while name not in reached:
            if name in on_path:
                loop = path[path.index(name) :]
                joints = [above[member] for member in reversed(loop)]
                raise robot.error(
                    f"joints {listing(joint.name for joint in joints)} form a loop that the root "
                    "link does not reach; a robot is a tree of links: remove one of these joints",
                    joints[0].line,
                )
            path.append(name)
            on_path.add(name)
            name = above[name].parent
        reached.update(path)


@dataclass(frozen=True)
class Coupling:
    """A mimic resolved to the joint that moves by itself; ``leader`` None means a constant."""

    leader: str | None
    multiplier: float
    offset: float


def flatten_mimics(robot: RobotDescription) -> dict[str, Coupling]:
    """Return, for each joint that mimics, what it follows in the end.

    Chains are multiplied out. A joint that follows a fixed joint, or follows with multiplier 0,
    is a constant.

    Raises:
        UrdfError: if a mimic names an unknown or unsuitable joint, or follows itself.
    """
    joints = {joint.name: joint for joint in robot.joints}
    couplings: dict[str, Coupling] = {}
    for start in robot.joints:
        path: list[Joint] = []
        on_path: dict[str, int] = {}
        joint = start
        while joint.mimic is not None and joint.name not in couplings:
            if joint.name in on_path:
                loop = [member.name for member in path[on_path[joint.name] :]]
                raise robot.error(
                    f"joint {show(loop[0])}: mimics itself, through "
                    f"{' -> '.join(show(name) for name in (*loop[:5], loop[0]))}; one joint of the "
                    "ring must move by itself",
                    joint.mimic.line,
                )
            on_path[joint.name] = len(path)
            path.append(joint)
            joint = _leader_of(robot, joint, joint.mimic, joints)
        for follower in reversed(path):
            couplings[follower.name] = _compose(follower, joints, couplings)
    return couplings


def _leader_of(
    robot: RobotDescription, joint: Joint, mimic: Mimic, joints: Mapping[str, Joint]
) -> Joint:
    """Return the joint that ``joint`` mimics, if it can be mimicked."""
    where = f"joint {show(joint.name)}"
    if joint.kind not in MIMIC_KINDS:
        raise robot.error(
            f"{where}: a {joint.kind} joint cannot mimic; only {', '.join(MIMIC_KINDS)} joints can",
            mimic.line,
        )
    leader = joints.get(mimic.joint)
    if leader is None:
        able = (name for name, other in joints.items() if _can_lead(other, joint))
        raise robot.error(
            f"{where}: mimics joint {show(mimic.joint)}, which does not exist"
            f"{suggestion(mimic.joint, able)}",
            mimic.line,
        )
    if leader.kind not in (*MIMIC_KINDS, "fixed"):
        raise robot.error(
            f"{where}: mimics joint {show(leader.name)}, a {leader.kind} joint, which has more "
            "than one coordinate; mimic a joint with one",
            mimic.line,
        )
    return leader


def _can_lead(joint: Joint, follower: Joint) -> bool:
    """Return whether a hint may name a joint: not the follower, nor one that follows it."""
    follows_it = joint.mimic is not None and joint.mimic.joint == follower.name
    return joint.kind in MIMIC_KINDS and joint is not follower and not follows_it


def _compose(
    joint: Joint, joints: Mapping[str, Joint], couplings: Mapping[str, Coupling]
) -> Coupling:
    """Return the coupling of a joint whose leader is resolved already."""
    mimic = joint.mimic
    assert mimic is not None
    leader = joints[mimic.joint]
    if leader.kind == "fixed" or mimic.multiplier == 0.0:
        return Coupling(None, 0.0, mimic.offset)
    inner = couplings.get(leader.name, Coupling(leader.name, 1.0, 0.0))
    return Coupling(
        inner.leader,
        mimic.multiplier * inner.multiplier,
        mimic.multiplier * inner.offset + mimic.offset,
    )


def _check_masses(robot: RobotDescription) -> None:
    """Refuse negative masses."""
    for link in robot.links:
        if link.inertial is not None and link.inertial.mass < 0.0:
            raise robot.error(
                f"link {show(link.name)}: mass is {link.inertial.mass!r}; a mass must be >= 0",
                link.inertial.line,
            )
