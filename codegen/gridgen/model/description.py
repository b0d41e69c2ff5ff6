"""What a robot file says, as data: links, joints and their references, checked for consistency.

Every reader ends with ``validation.validate``, so that a ``RobotDescription`` is one
tree of links with known names, whatever it was read from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gridgen.errors import UrdfError
from gridgen.model.oddities import Oddity, warn_of
from gridgen.model.pose import NO_DISPLACEMENT, ZERO, Matrix3, Pose, Vector3
from gridgen.naming import show, similar
from gridgen.symbolic.joints import PRISMATIC, REVOLUTE, Helical, JointType

JOINT_KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")

XACRO_ADVICE = "expand xacro first: xacro robot.urdf.xacro > robot.urdf"


@dataclass(frozen=True)
class Inertial:
    """Mass, and inertia about the center of mass in the axes of ``origin`` (kg, kg m^2)."""

    origin: Pose
    mass: float
    inertia: Matrix3
    line: int | None = None


@dataclass(frozen=True)
class Shape:
    """A collision shape: every sum of a point of a box and a point of an ellipsoid.

    A cylinder is a segment plus a disk, a capsule a segment plus a ball. Only pictures use it.

    Attributes:
        pose:         of the shape in its link's frame.
        half_lengths: of the box along the shape's axes [m].
        radii:        of the ellipsoid along the same axes [m].
    """

    pose: Pose
    half_lengths: Vector3 = ZERO
    radii: Vector3 = ZERO


SOLIDS: Mapping[str, Mapping[str, int]] = {
    "box": {"size": 3},
    "sphere": {"radius": 1},
    "cylinder": {"radius": 1, "length": 1},
    "capsule": {"radius": 1, "length": 1},
}
"""Attributes of URDF's solids and how many numbers each has."""

LARGEST_SHAPE = 1e9
"""Bound of the numbers of a shape [m]: pictures compute with them."""


def collision_shape(kind: str, pose: Pose, size: Sequence[float]) -> Shape | None:
    """Return the shape with the sizes that URDF gives its kind, None for any other kind."""
    if (
        not all(abs(x) <= LARGEST_SHAPE for x in (*pose.translation, *size))
        or min(size, default=0.0) < 0.0
    ):
        return None
    a, b, c = (*size, 0.0, 0.0, 0.0)[:3]
    forms = {
        "box": ((a / 2, b / 2, c / 2), ZERO),
        "sphere": (ZERO, (a, a, a)),
        "ellipsoid": (ZERO, (a, b, c)),
        "cylinder": ((0.0, 0.0, b / 2), (a, a, 0.0)),
        "capsule": ((0.0, 0.0, b / 2), (a, a, a)),
    }
    return Shape(pose, *forms[kind]) if kind in forms else None


@dataclass(frozen=True)
class Link:
    """A rigid body; without ``inertial`` it has no mass.

    Attributes:
        name:     the link's.
        inertial: its mass and inertia.
        line:     its line in the file.
        shapes:   its collision shapes; None for each that is no simple solid, such as a mesh.
    """

    name: str
    inertial: Inertial | None = None
    line: int | None = None
    shapes: tuple[Shape | None, ...] = field(default=(), compare=False, repr=False)


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
    pitch: float = 0.0
    """How far a helical joint slides along its axis for each radian [m]."""

    @property
    def joint_type(self) -> JointType | None:
        """How its one coordinate moves the child; nothing if it has none, or several."""
        return ONE_COORDINATE[self.kind](self) if self.kind in ONE_COORDINATE else None


#: The types of joints of one coordinate, by kind.
ONE_COORDINATE: Mapping[str, Callable[[Joint], JointType]] = {
    "revolute": lambda joint: REVOLUTE,
    "continuous": lambda joint: REVOLUTE,
    "prismatic": lambda joint: PRISMATIC,
    "helical": lambda joint: Helical(joint.pitch),
}


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
    if joint.joint_type is None:
        kinds = ", ".join(ONE_COORDINATE)
        raise robot.error(
            f"{where}: a {joint.kind} joint cannot mimic; only {kinds} joints can",
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
    if leader.joint_type is None and leader.kind != "fixed":
        raise robot.error(
            f"{where}: mimics joint {show(leader.name)}, a {leader.kind} joint, which has more "
            "than one coordinate; mimic a joint with one",
            mimic.line,
        )
    return leader


def _can_lead(joint: Joint, follower: Joint) -> bool:
    """Return whether a hint may name a joint: not the follower, nor one that follows it."""
    follows_it = joint.mimic is not None and joint.mimic.joint == follower.name
    return joint.joint_type is not None and joint is not follower and not follows_it


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
