"""The robot as dynamics sees it: moving bodies in order, each in its canonical frame."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from gridgen.model.description import Shape
from gridgen.model.lump import NO_MASS, Lump
from gridgen.model.pose import Matrix3, Vector3, euler_zxz, is_sparse
from gridgen.options import RobotOptions
from gridgen.symbolic.branches import Branches
from gridgen.symbolic.joints import JointType


@dataclass(frozen=True)
class MassInput:
    """What of a body's mass is an input: a link, or the body with all that it carries.

    Attributes:
        row:         of ``params``; its numbers are about the link's frame.
        rotation:    with ``translation``, the placement of that frame in the body's canonical
                     frame: ``x_body = rotation @ x_link + translation``.
        translation: see ``rotation``.
    """

    row: int
    rotation: Matrix3
    translation: Vector3

    @cached_property
    def euler_sin_cos(self) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
        """``rotation`` as turns about z, x and z: sine and cosine of each."""
        return euler_zxz(self.rotation)


@dataclass(frozen=True)
class Body:
    """One moving body and the joint above it; all numbers in SI units.

    The body's *canonical* frame has its origin at the joint, at that of the link's frame, and the
    joint's axis as +z. A free joint has no axis: both frames are one.

    Attributes:
        name: the link that moves with the joint, as in the URDF.
        joint: the joint's name, as in the URDF; ``root_joint`` for the free base.
        joint_type: how the joint moves.
        parent: index of the body that carries the joint; -1 is the base, which does not move.
        level: number of moving bodies between this one and the base.
        rotation: with ``translation``, the placement of this canonical frame in the parent's
            canonical frame at q = 0: ``x_parent = rotation @ x_body + translation``.
        translation: see ``rotation``.
        link_rotation: canonical frame to link frame: ``x_link = link_rotation @ x_canonical``.
        q_index: first coordinate, of the leader for a joint that mimics.
        v_index: first velocity, of the leader for a joint that mimics.
        multiplier: the joint's position is ``multiplier * q[q_index] + offset``.
        offset: see ``multiplier``.
        mimics: whether the joint follows another one.
        mass: of the link and all that is fixed to it.
        first_moment: mass times center of mass, canonical frame.
        inertia: about the canonical frame's origin, in its axes; symmetric.
        damping: viscous coefficient; 0 unless joint dynamics were asked for.
        friction: Coulomb friction; 0 unless joint dynamics were asked for.
        armature: what is added to the diagonal of the mass matrix, one number per velocity of the
            joint; zeros for a joint that mimics, since its leader's entry holds the sum.
        parts: what of its mass is an input; ``mass``, ``first_moment`` and ``inertia`` are those
            of the file nevertheless.
        rest: mass without these parts, canonical frame.
    """

    name: str
    joint: str
    joint_type: JointType
    parent: int
    level: int
    rotation: Matrix3
    translation: Vector3
    link_rotation: Matrix3
    q_index: int
    v_index: int
    multiplier: float
    offset: float
    mimics: bool
    mass: float
    first_moment: Vector3
    inertia: Matrix3
    damping: float
    friction: float
    armature: tuple[float, ...]
    parts: tuple[MassInput, ...] = ()
    rest: Lump = NO_MASS

    @cached_property
    def is_axis_aligned(self) -> bool:
        """Whether ``rotation`` is one about a coordinate axis, up to a permutation."""
        return is_sparse(self.rotation)

    @cached_property
    def euler_sin_cos(self) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
        """``rotation`` as turns about z, x and z: sine and cosine of each."""
        return euler_zxz(self.rotation)

    @property
    def kind(self) -> str:
        """The name of the joint's type."""
        return self.joint_type.kind

    @property
    def nq(self) -> int:
        """Number of coordinates that the joint reads."""
        return self.joint_type.nq

    @property
    def nv(self) -> int:
        """Number of velocities that the joint reads."""
        return self.joint_type.nv


@dataclass(frozen=True)
class Frame:
    """A link, placed in the *link* frame of the body that it moves with (-1: the base).

    ``shapes`` are the link's collision shapes, in its own frame; only pictures use them.
    """

    name: str
    body: int
    rotation: Matrix3
    translation: Vector3
    shapes: tuple[Shape | None, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Constraint:
    """A condition on the motion of a robot, which forces fulfill.

    Of a point or a frame, its rows are the velocity of ``link`` as seen from ``to``: the derivative
    of the position of its origin in the frame ``to``, and for a frame its angular velocity, in the
    axes of ``to``. That of a joint is its velocity less ``multiplier`` times that of the other.

    Attributes:
        name:          what messages call it.
        kind:          ``point``, ``frame`` or ``joint``.
        rows:          3, 6 or 1.
        stabilization: gains of the position [1/s^2] and of the velocity [1/s].
        compliance:    added to the diagonal of the Delassus matrix [as that].
        has_target:    whether there is a position that it is to return to.
        link:          the frame that is held.
        to:            what it is held by; body -1 is the world.
        joints:        indices of the bodies whose joints are tied; -1 for none.
        multiplier:    the first joint's position is ``multiplier`` times the second's + ``offset``.
        offset:        see ``multiplier`` [rad or m].
    """

    name: str
    kind: str
    rows: int
    stabilization: tuple[float, float]
    compliance: float
    has_target: bool
    link: Frame | None = None
    to: Frame | None = None
    joints: tuple[int, int] = (-1, -1)
    multiplier: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class KinematicTree(Branches):
    """A robot as dynamics sees it: ``bodies`` and ``frames`` in depth-first order.

    Bodies come in Pinocchio's order of joints (depth first, siblings by name), so that a parent
    precedes its children and a subtree is one range of indices.

    Attributes:
        name: the robot's name, as in the URDF.
        source: the file, as messages call it.
        digest: SHA-256 of the file.
        options: what it is compiled with.
        bodies: one per joint that moves.
        frames: one per link, the merged ones included.
        nq: number of coordinates: one per joint that moves by itself, seven per free joint.
        nv: number of velocities: one per joint that moves by itself, six per free joint.
        lower_limits: (nq) positions; infinite where there is no limit.
        upper_limits: (nq)
        effort_limits: (nv)
        velocity_limits: (nv)
        singular_joint: a joint that moves in a direction without inertia: the mass matrix is
            singular and forward dynamics impossible. None for an ordinary robot, or if armature
            makes up for it.
        parameters: numbers that are inputs of functions, with those of the file: ``params``
            (n, 10), ``armature`` (nv), ``damping`` (nv); those of ``constraints``.
        parameter_names: the link of each row of ``params``.
        constraints: conditions on its motion.
        remarks: what was warned of when it was read; nothing of a robot by itself.
        given: what a state has in place of these; nothing of a robot by itself.
    """

    name: str
    source: str
    digest: str
    options: RobotOptions
    bodies: tuple[Body, ...]
    frames: tuple[Frame, ...]
    nq: int
    nv: int
    lower_limits: tuple[float, ...]
    upper_limits: tuple[float, ...]
    effort_limits: tuple[float, ...]
    velocity_limits: tuple[float, ...]
    singular_joint: str | None
    parameters: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, hash=False)
    parameter_names: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    remarks: tuple[str, ...] = field(default=(), compare=False)

    given: ClassVar[Mapping[str, Sequence[Any]]] = {}

    @property
    def floating_base(self) -> bool:
        """Whether body 0 is the root link on a free joint."""
        return self.options.floating_base

    @cached_property
    def velocities(self) -> Branches:
        """The velocities: each after the one before it on the way to the root.

        With mimic joints the branches of a tree couple, so every velocity follows the one before.
        """
        if self.has_mimic:
            return Branches(range(-1, self.nv - 1))
        parents = [-1] * self.nv
        for body in self.bodies:
            if body.parent >= 0:
                above = self.bodies[body.parent]
                parents[body.v_index] = above.v_index + above.nv - 1
            for k in range(1, body.nv):
                parents[body.v_index + k] = body.v_index + k - 1
        return Branches(parents)

    @cached_property
    def quaternions(self) -> tuple[int, ...]:
        """First coordinate of each quaternion."""
        starts = [(body.q_index, body.joint_type.quaternion) for body in self.bodies]
        return tuple(q_index + start for q_index, start in starts if start is not None)

    def each_frame(self) -> Iterator[int]:
        """Walk over the frames."""
        return iter(range(len(self.frames)))

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Joints that move, followers included, in the order of ``bodies``."""
        return tuple(body.joint for body in self.bodies)

    @cached_property
    def body_names(self) -> tuple[str, ...]:
        """Links that joints move, in the order of ``bodies``."""
        return tuple(body.name for body in self.bodies)

    @cached_property
    def frame_names(self) -> tuple[str, ...]:
        """All links, depth first."""
        return tuple(frame.name for frame in self.frames)

    @cached_property
    def frame_of(self) -> Mapping[str, Frame]:
        """The frame of each link, by its name."""
        return {frame.name: frame for frame in self.frames}

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """Index of each body's parent; -1 is the base."""
        return tuple(body.parent for body in self.bodies)

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the bodies at each depth, the children of the base first."""
        levels: list[list[int]] = [[] for _ in range(1 + max(body.level for body in self.bodies))]
        for index, body in enumerate(self.bodies):
            levels[body.level].append(index)
        return tuple(tuple(level) for level in levels)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Indices of each body's children."""
        children: list[list[int]] = [[] for _ in self.bodies]
        for index, body in enumerate(self.bodies):
            if body.parent >= 0:
                children[body.parent].append(index)
        return tuple(tuple(indices) for indices in children)

    @cached_property
    def subtree_sizes(self) -> tuple[int, ...]:
        """Number of bodies in each body's subtree, itself included."""
        sizes = [1] * len(self.bodies)
        for index in reversed(range(len(self.bodies))):
            if self.parents[index] >= 0:
                sizes[self.parents[index]] += sizes[index]
        return tuple(sizes)

    @cached_property
    def armature(self) -> tuple[float, ...]:
        """What is added to the diagonal of the mass matrix (nv)."""
        return tuple(value for body in self.bodies if not body.mimics for value in body.armature)

    @property
    def total_mass(self) -> float:
        """Mass of everything that moves; the base, which does not, is left out (Pinocchio)."""
        return math.fsum(body.mass for body in self.bodies)

    @property
    def is_serial(self) -> bool:
        """Whether each body is the parent of the next: one chain from the base to its tip."""
        return all(body.parent == index - 1 for index, body in enumerate(self.bodies))

    @property
    def couples_all(self) -> bool:
        """Whether every entry of a matrix between joints is that of one pair of them."""
        return self.is_serial and not self.has_mimic

    @property
    def has_mimic(self) -> bool:
        """Whether a joint follows another one."""
        return any(body.mimics for body in self.bodies)

    def ancestors(self, index: int) -> tuple[int, ...]:
        """Return the bodies that carry a body, its parent first, the base (-1) left out."""
        path = []
        index = self.parents[index]
        while index >= 0:
            path.append(index)
            index = self.parents[index]
        return tuple(path)

    def subtree(self, index: int) -> range:
        """Return the bodies that move with a body, itself first."""
        return range(index, index + self.subtree_sizes[index])
