"""Contents of a robot file: links, joints and mimic relations.

Every reader calls ``validation.validate``, so a ``RobotDescription`` is always a single tree of
links with unique names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridgen.errors import UrdfError
from gridgen.model.diagnostics import Diagnostic, warn_of
from gridgen.model.pose import NO_DISPLACEMENT, ZERO, Matrix3, Pose, Vector3
from gridgen.model.soft import NO_CONTACTS, ContactModel
from gridgen.naming import show, similar
from gridgen.symbolic.joints import PRISMATIC, REVOLUTE, Helical, JointType

JOINT_KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")

XACRO_ADVICE = "expand xacro first: xacro robot.urdf.xacro > robot.urdf"


@dataclass(frozen=True)
class Inertial:
    """Mass [kg], and inertia about the center of mass in the axes of ``origin`` [kg m^2]."""

    origin: Pose
    mass: float
    inertia: Matrix3
    line: int | None = None


@dataclass(frozen=True)
class Shape:
    """A collision shape: the Minkowski sum of a box and an ellipsoid; only drawings use it.

    A cylinder is a segment plus a disk, a capsule a segment plus a ball.

    Attributes:
        pose:         pose of the shape in its link's frame.
        half_lengths: half lengths of the box along the shape's axes [m].
        radii:        radii of the ellipsoid along the same axes [m].
    """

    pose: Pose
    half_lengths: Vector3 = ZERO
    radii: Vector3 = ZERO


@dataclass(frozen=True)
class Mesh:
    """A collision mesh.

    Attributes:
        pose:      pose of the mesh in its link's frame.
        file:      name of its file, as in the robot's.
        scale:     factors of its coordinates.
        triangles: vertices and faces, if the reader of the robot has read them.
    """

    pose: Pose
    file: str
    scale: Vector3 = (1.0, 1.0, 1.0)
    triangles: tuple[Any, Any] | None = field(default=None, compare=False, repr=False)


SOLIDS: Mapping[str, Mapping[str, int]] = {
    "box": {"size": 3},
    "sphere": {"radius": 1},
    "cylinder": {"radius": 1, "length": 1},
    "capsule": {"radius": 1, "length": 1},
}
"""Attributes of URDF's solids, and the number of values of each."""

LARGEST_SHAPE = 1e9
"""Bound of the dimensions of a shape [m]."""


def collision_shape(kind: str, pose: Pose, size: Sequence[float]) -> Shape | None:
    """Return the shape of a kind with URDF's dimensions, None for an unknown kind."""
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
        name:     name of the link.
        inertial: mass and inertia.
        line:     line in the file.
        shapes:   collision shapes; None for a mesh or another unsupported shape.
        meshes:   collision meshes, which only ``grid-gen spheres`` opens.
    """

    name: str
    inertial: Inertial | None = None
    line: int | None = None
    shapes: tuple[Shape | None, ...] = field(default=(), compare=False, repr=False)
    meshes: tuple[Mesh, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Limits:
    """Limits of a joint [rad or m, N m or N, rad/s or m/s], infinite if not specified."""

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
    """A connection of two links; ``axis`` is a unit vector in the child link's frame.

    The upper limit of a ball joint is that of the angle of its rotation.
    """

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
    """Inertia added to the diagonal of the mass matrix, one number per velocity."""
    pitch: float = 0.0
    """Translation of a helical joint along its axis [m/rad]."""

    @property
    def joint_type(self) -> JointType | None:
        """Type of a joint with one coordinate, None for other joints."""
        return ONE_COORDINATE[self.kind](self) if self.kind in ONE_COORDINATE else None


#: Types of the joints with one coordinate, by kind.
ONE_COORDINATE: Mapping[str, Callable[[Joint], JointType]] = {
    "revolute": lambda joint: REVOLUTE,
    "continuous": lambda joint: REVOLUTE,
    "prismatic": lambda joint: PRISMATIC,
    "helical": lambda joint: Helical(joint.pitch),
}


@dataclass(frozen=True)
class KeyValues:
    """A state of a file, by the names of joints and actuators, in gridgen's coordinates."""

    positions: Mapping[str, tuple[float, ...]]
    velocities: Mapping[str, tuple[float, ...]]
    controls: Mapping[str, float]


@dataclass(frozen=True)
class RobotDescription:
    """A robot as its file describes it, links and joints in the order of the file.

    Attributes:
        name:     name of the robot.
        links:    links.
        joints:   joints.
        source:   name of the file in messages.
        digest:   SHA-256 of the input.
        in_order: whether coordinates are in the order of the joints, not depth first with siblings
                  by name.
        contact_model: soft constraints of the file.
        constraints: constraints of the file, in the form of the option; ``actuators`` likewise.
        springs:  stiffness of joints by name, and their coordinates without force.
        tendons:  by name: ``joints`` with their factors, and attributes of the tree's ``Tendon``.
        gravcomp: share of the weight of links that is compensated, by name.
        mocap:    links that the file's simulator moves relative to the root.
        keyframes: states by name.
        sensors:  sensors of the file, in the form of the option.
        gravity:  acceleration of free fall in the file [m/s^2], if it has one.
        qpos0:    positions of the file's joints to which its sensors refer, by name.
    """

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    source: str
    digest: str
    in_order: bool = False
    contact_model: ContactModel = NO_CONTACTS
    constraints: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    actuators: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    springs: Mapping[str, tuple[float, tuple[float, ...]]] = field(default_factory=dict, hash=False)
    tendons: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    gravcomp: Mapping[str, float] = field(default_factory=dict, hash=False)
    mocap: tuple[str, ...] = ()
    keyframes: Mapping[str, KeyValues] = field(default_factory=dict, hash=False)
    sensors: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    qpos0: Mapping[str, tuple[float, ...]] = field(default_factory=dict, hash=False)
    gravity: Vector3 | None = None

    def error(self, message: str, line: int | None = None) -> UrdfError:
        """Return an error with the location in this robot's file."""
        return UrdfError(message, self.source, line)

    def warn(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Issue one warning for each kind of diagnostic, with its location in the file."""
        warn_of(diagnostics, self.source)


def listing(names: Iterable[str], limit: int = 5) -> str:
    """Return the first ``limit`` names, quoted, for a message."""
    names = tuple(names)
    shown = ", ".join(show(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def xacro_hint(text: str) -> str:
    """Return a hint for a value that is a xacro expression, else an empty string."""
    return f"; {XACRO_ADVICE}" if "${" in text or "$(" in text else ""


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return a hint with similar names, or an empty string."""
    if hint := xacro_hint(name):
        return hint
    matches = similar(name, names)
    return f"; did you mean {listing(matches)}?" if matches else ""


@dataclass(frozen=True)
class Coupling:
    """A mimic relation to an independent joint; ``leader`` None means a constant position."""

    leader: str | None
    multiplier: float
    offset: float


def flatten_mimics(robot: RobotDescription) -> dict[str, Coupling]:
    """Resolve each mimic joint to an independent joint.

    Chains are multiplied out. A joint that mimics a fixed joint, or has multiplier 0, is constant.

    Raises:
        UrdfError: if a mimic refers to an unknown or unsuitable joint, or to itself.
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
                    f"{' -> '.join(show(name) for name in (*loop[:5], loop[0]))}; remove one "
                    "<mimic> of this cycle",
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
    """Return the joint that ``joint`` mimics, or raise."""
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
    """Return whether ``follower`` can mimic a joint, for hints."""
    follows_it = joint.mimic is not None and joint.mimic.joint == follower.name
    return joint.joint_type is not None and joint is not follower and not follows_it


def _compose(
    joint: Joint, joints: Mapping[str, Joint], couplings: Mapping[str, Coupling]
) -> Coupling:
    """Return the coupling of a joint whose leader is already resolved."""
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
