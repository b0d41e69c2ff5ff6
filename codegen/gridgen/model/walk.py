"""Traversal of the links: moving bodies, merged links, and the placement of every link."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from gridgen.errors import OptionError
from gridgen.model.description import (
    Coupling,
    Joint,
    Limits,
    RobotDescription,
    flatten_mimics,
    listing,
)
from gridgen.model.diagnostics import Diagnostic
from gridgen.model.kinematic_tree import Frame
from gridgen.model.locked import displacement
from gridgen.model.lump import NO_MASS, Lump
from gridgen.model.pose import (
    IDENTITY,
    NO_DISPLACEMENT,
    Matrix3,
    Pose,
    frame_along,
    transpose,
)
from gridgen.naming import show
from gridgen.options import RobotOptions
from gridgen.symbolic.joints import BALL, FREE, PRISMATIC, REVOLUTE, JointType

ROOT_JOINT = "root_joint"
"""Name of the free joint that ``floating_base=True`` adds above the root link, as in Pinocchio."""


@dataclass
class Moving:
    """A body under construction; everything in link frames."""

    joint: str
    link: str
    joint_type: JointType
    parent: int
    line: int | None  # of the joint in the file
    placement: Pose  # in the parent's link frame, at q = 0
    alignment: Matrix3 = IDENTITY  # canonical frame -> link frame
    limits: Limits | None = None
    coupling: Coupling | None = None
    damping: float = 0.0
    friction: float = 0.0
    armature: tuple[float, ...] = ()
    total: Lump = NO_MASS
    rest: Lump = NO_MASS  # without links whose inertias are inputs
    place: int = -1  # of the joint in a file whose order counts

    @property
    def max_angle(self) -> float:
        """Limit of the angle of a ball joint's rotation [rad]."""
        return self.limits.upper if self.limits and self.joint_type == BALL else math.inf

    @property
    def nq(self) -> int:
        """Number of independent coordinates."""
        return 0 if self.coupling else self.joint_type.nq

    @property
    def nv(self) -> int:
        """Number of independent velocities."""
        return 0 if self.coupling else self.joint_type.nv


@dataclass
class Parts:
    """Result of the traversal."""

    moving: list[Moving] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def count_bodies(description: RobotDescription, options: RobotOptions) -> int:
    """Return the number of moving bodies, without building the tree."""
    constant = {name for name, c in flatten_mimics(description).items() if c.leader is None}
    return int(options.floating_base) + sum(
        3 if joint.kind == "planar" else 1
        for joint in description.joints
        if joint.kind != "fixed" and joint.name not in constant
    )


def walk(
    description: RobotDescription, options: RobotOptions, varied: Collection[str] = ()
) -> Parts:
    """Visit the links depth first, and merge links on fixed joints into their parent bodies.

    Args:
        description: robot.
        options:     options of the robot.
        varied:      links whose inertias are inputs.
    """
    parts = Parts()
    couplings = flatten_mimics(description)
    inertials = {link.name: link.inertial for link in description.links}
    links = {link.name: link for link in description.links}
    below: dict[str, list[Joint]] = {link.name: [] for link in description.links}
    joints = description.joints
    for joint in joints if description.in_order else sorted(joints, key=lambda joint: joint.name):
        below[joint.parent].append(joint)
    in_order = joints if description.in_order else ()
    places = {joint.name: place for place, joint in enumerate(in_order)}
    children = {joint.child for joint in description.joints}
    root = next(link for link in description.links if link.name not in children)
    fresh = _fresh_names({joint.name for joint in description.joints} | set(below))

    def visit(link: str, body: int, pose: Pose) -> None:
        drawn = links[link].shapes, links[link].meshes
        parts.frames.append(Frame(link, body, pose.rotation, pose.translation, *drawn))
        inertial = inertials[link]
        if inertial is not None and body >= 0:
            moving = parts.moving[body]
            moving.total = moving.total.plus(inertial, pose)
            if link not in varied:
                moving.rest = moving.rest.plus(inertial, pose)
        # A stack instead of recursion: a chain can exceed Python's recursion limit.
        pending.extend((joint, body, pose) for joint in reversed(below[link]))

    pending: list[tuple[Joint, int, Pose]] = []
    if options.floating_base:
        if description.mocap:
            names = listing(description.mocap)
            raise _twice(description, f"the file moves {names} (mocap) relative to it")
        parts.moving.append(
            Moving(fresh(ROOT_JOINT), root.name, FREE, -1, root.line, NO_DISPLACEMENT)
        )
    visit(root.name, len(parts.moving) - 1, NO_DISPLACEMENT)
    while pending:
        joint, parent, pose = pending.pop()
        if joint.kind == "floating" and options.floating_base and parent == 0:
            raise _twice(description, f"joint {show(joint.name)} is already a free joint on it")
        coupling = couplings.get(joint.name)
        placement = pose @ joint.origin
        if joint.kind == "fixed":
            visit(joint.child, parent, placement)
        elif coupling is not None and coupling.leader is None:
            diagnostic = Diagnostic(
                "constant mimic",
                f"joint {show(joint.name)}",
                f"mimics a joint that does not move, so it is constant at {coupling.offset!r}",
                "make it a fixed joint",
                joint.line,
            )
            parts.diagnostics.append(diagnostic)
            visit(joint.child, parent, placement @ displacement(joint, (coupling.offset,)))
        else:
            made = _moving_bodies(joint, coupling, parent, placement, len(parts.moving), fresh)
            for one in made:
                one.place = places.get(joint.name, -1)
            parts.moving.extend(made)
            visit(joint.child, len(parts.moving) - 1, NO_DISPLACEMENT)
    return parts


def _twice(description: RobotDescription, problem: str) -> OptionError:
    """Return the error for a file whose root is the world."""
    return OptionError(
        f"{description.source}: floating_base=True puts a free joint above the root link, and "
        f"{problem}: omit floating_base"
    )


def _fresh_names(taken: set[str]) -> Callable[[str], str]:
    """Return a function that makes a name unique among joints and links."""

    def fresh(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    return fresh


def _moving_bodies(
    joint: Joint,
    coupling: Coupling | None,
    parent: int,
    placement: Pose,
    index: int,
    fresh: Callable[[str], str],
) -> list[Moving]:
    """Return the bodies of one joint: three for a planar joint, else one."""
    if joint.kind == "floating":
        free = Moving(joint.name, joint.child, FREE, parent, joint.line, placement)
        free.armature = joint.armature
        return [free]
    alignment = IDENTITY if joint.kind == "ball" else frame_along(joint.axis)

    def one(
        kind: JointType, placement: Pose, parent: int, alignment: Matrix3, name: str = ""
    ) -> Moving:
        return Moving(
            joint=name or joint.name,
            link=name or joint.child,
            joint_type=kind,
            parent=parent,
            line=joint.line,
            placement=placement,
            alignment=alignment,
            damping=joint.damping,
            friction=joint.friction,
        )

    if joint.kind == "planar":
        x_axis, y_axis, _ = transpose(alignment)
        return [
            one(PRISMATIC, placement, parent, frame_along(x_axis), fresh(f"{joint.name}_x")),
            one(PRISMATIC, NO_DISPLACEMENT, index, frame_along(y_axis), fresh(f"{joint.name}_y")),
            one(REVOLUTE, NO_DISPLACEMENT, index + 1, alignment),
        ]
    limits = joint.limits
    if joint.kind == "continuous" and limits is not None:
        limits = Limits(-math.inf, math.inf, limits.effort, limits.velocity)
    kind = BALL if joint.kind == "ball" else joint.joint_type
    assert kind is not None, joint.kind
    body = one(kind, placement, parent, alignment)
    body.limits, body.coupling, body.armature = limits, coupling, joint.armature
    return [body]
