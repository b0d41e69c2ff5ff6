"""Kinematic tree: moving bodies in depth-first order, each in its canonical frame."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

from gridgen.functions.arrays import STANDARD_GRAVITY
from gridgen.model.description import Mesh, Shape
from gridgen.model.lump import NO_MASS, Lump
from gridgen.model.pose import NO_DISPLACEMENT, Matrix3, Pose, Vector3, euler_zxz, is_sparse
from gridgen.model.soft import (
    DEFAULT_SOFTNESS,
    NO_CONTACTS,
    ContactModel,
    JointSoftness,
    Softness,
)
from gridgen.options import RobotOptions
from gridgen.symbolic.branches import Branches
from gridgen.symbolic.joints import JointType

#: Center and radius [m].
Sphere = tuple[float, float, float, float]
#: Both ends of the axis, and radius [m]; and their count.
Capsule = tuple[float, float, float, float, float, float, float]
CAPSULE = 7


@dataclass(frozen=True)
class MassInput:
    """Inertia input of a body: one link, or the body with the links fixed to it.

    Attributes:
        row:         row of ``params``, expressed in the link's frame.
        rotation:    rotation of the link's frame in the body's canonical frame:
                     ``x_body = rotation @ x_link + translation``.
        translation: translation of the link's frame [m].
    """

    row: int
    rotation: Matrix3
    translation: Vector3

    @cached_property
    def euler_sin_cos(self) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
        """Sine and cosine of the z-x-z Euler angles of ``rotation``."""
        return euler_zxz(self.rotation)


@dataclass(frozen=True)
class Body:
    """One moving body and the joint above it; all numbers in SI units.

    The origin of the *canonical* frame is the origin of the link's frame, and its +z axis is the
    joint's axis. For a free or ball joint, the canonical frame is the link's frame.

    Attributes:
        name: name of the link, as in the URDF.
        joint: name of the joint, as in the URDF; ``root_joint`` for the floating base.
        joint_type: type of the joint.
        parent: index of the parent body; -1 is the fixed base.
        level: number of moving bodies between this body and the base.
        rotation: rotation of this canonical frame in the parent's canonical frame at q = 0:
            ``x_parent = rotation @ x_body + translation``.
        translation: translation of this canonical frame in the parent's, at q = 0 [m].
        link_rotation: canonical frame to link frame: ``x_link = link_rotation @ x_canonical``.
        q_index: index of the first coordinate; the leader's for a mimic joint.
        v_index: index of the first velocity; the leader's for a mimic joint.
        multiplier: the joint's position is ``multiplier * q[q_index] + offset``.
        offset: see ``multiplier``.
        mimics: whether the joint mimics another joint.
        mass: mass of the link and the links fixed to it [kg].
        first_moment: mass times center of mass, canonical frame [kg m].
        inertia: inertia about the canonical frame's origin, in its axes; symmetric [kg m^2].
        damping: viscous coefficient; 0 unless the option ``joint_dynamics`` is set.
        friction: Coulomb friction; 0 unless the option ``joint_dynamics`` is set.
        armature: inertia added to the diagonal of the mass matrix, one number per velocity of the
            joint; zeros for a mimic joint, since its leader's entry contains the sum.
        parts: inertia inputs; ``mass``, ``first_moment`` and ``inertia`` contain the file's
            values.
        rest: mass without ``parts``, canonical frame.
        max_angle: limit of the angle of a ball joint's rotation [rad].
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
    max_angle: float = math.inf

    @cached_property
    def is_axis_aligned(self) -> bool:
        """Whether ``rotation`` is about a coordinate axis, up to a permutation."""
        return is_sparse(self.rotation)

    @cached_property
    def euler_sin_cos(self) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
        """Sine and cosine of the z-x-z Euler angles of ``rotation``."""
        return euler_zxz(self.rotation)

    @property
    def kind(self) -> str:
        """Name of the joint's type."""
        return self.joint_type.kind

    @property
    def nq(self) -> int:
        """Number of the joint's coordinates."""
        return self.joint_type.nq

    @property
    def nv(self) -> int:
        """Number of the joint's velocities."""
        return self.joint_type.nv


def armatures(bodies: Iterable[Body]) -> tuple[float, ...]:
    """Return the armature of each velocity (nv)."""
    own = sorted((body for body in bodies if not body.mimics), key=lambda body: body.v_index)
    return tuple(value for body in own for value in body.armature)


def losses(bodies: Iterable[Body], name: str) -> tuple[float, ...]:
    """Return the ``damping`` or the ``friction`` of each velocity (nv), mimic joints included."""
    total: dict[int, float] = {}
    for body in bodies:
        factor = abs(body.multiplier) ** (2 if name == "damping" else 1)
        for j in range(body.v_index, body.v_index + body.nv):
            total[j] = total.get(j, 0.0) + factor * float(getattr(body, name))
    return tuple(total[j] for j in range(len(total)))


@dataclass(frozen=True)
class Frame:
    """A link, placed in the *link* frame of its body (-1: the base).

    ``shapes`` and ``meshes`` are the link's for collisions in its own frame; only drawings use
    them.
    """

    name: str
    body: int
    rotation: Matrix3
    translation: Vector3
    shapes: tuple[Shape | None, ...] = field(default=(), compare=False, repr=False)
    meshes: tuple[Mesh, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Actuator:
    """An actuator: its force is gain times control plus bias, with MuJoCo's parameters.

    Attributes:
        name:        name of the actuator.
        terms:       of its length: indices of bodies, and a factor of the position of each joint.
        gear:        factor of the length, or of ``wrench``, and of the force.
        gain:        constant, per length, per velocity.
        bias:        likewise.
        ctrl_range:  of the control.
        force_range: of the force.
        joint_ranges: of the sum of the forces of all actuators on each joint of ``terms``.
        is_implicit: whether the integrator ``implicit`` includes its damping.
        offset:      added to the sum of ``terms``.
        pushed:      index of the body that it pushes; -1 for one on joints.
        wrench:      force and moment on that body for the force 1, in its canonical frame.
    """

    name: str
    terms: tuple[tuple[int, float], ...]
    gear: float
    gain: tuple[float, ...]
    bias: tuple[float, ...]
    ctrl_range: tuple[float, ...]
    force_range: tuple[float, ...]
    joint_ranges: tuple[tuple[float, ...], ...]
    is_implicit: bool
    offset: float = 0.0
    pushed: int = -1
    wrench: tuple[float, float, float, float, float, float] = (0.0,) * 6


@dataclass(frozen=True)
class Tendon:
    """A linear combination of joint positions that has a spring, a damper, friction or limits.

    Attributes:
        name:      name of the tendon.
        terms:     of its length: indices of bodies, and a factor of the position of each joint.
        offset:    added to the sum of ``terms``.
        lower:     limit of the length; -infinity for none.
        upper:     likewise.
        softness:  of the limits, with their margin, and of the dry friction.
        friction:  dry friction.
        stiffness: of its spring.
        rest:      least and largest length without a force of the spring.
        damping:   force per rate of the length.
        is_implicit: whether the integrator ``implicit`` includes the damping.
    """

    name: str
    terms: tuple[tuple[int, float], ...]
    offset: float = 0.0
    lower: float = -math.inf
    upper: float = math.inf
    softness: JointSoftness = field(default_factory=JointSoftness)
    friction: float = 0.0
    stiffness: float = 0.0
    rest: tuple[float, float] = (0.0, 0.0)
    damping: float = 0.0
    is_implicit: bool = True


@dataclass(frozen=True)
class Spring:
    """A spring of a joint: body, stiffness [N m/rad or N/m], coordinates without force."""

    body: int
    stiffness: float
    rest: tuple[float, ...]


@dataclass(frozen=True)
class Sensor:
    """A sensor, with MuJoCo's name of its kind and MuJoCo's numbers.

    Attributes:
        name:     name of the sensor.
        kind:     of ``gridgen.model.sensors.KINDS``.
        size:     count of its numbers.
        cutoff:   largest absolute value of its numbers; 0 for none.
        frame:    frame that it observes.
        to:       frame in whose axes, and relative to which, its numbers are; the base if None.
        body:     index of the body of its joint.
        actuator: index of its actuator.
        contact:  index of its contact.
        pieces:   bodies of a subtree, with a mass in the canonical frame where it is not that of
                  the whole body; of a potential energy, the mass that does not move.
        links:    whose contacts it measures: those of a subtree, or the link of a touch sensor.
        zone:     kind and size of the shape of a touch sensor about ``frame``; none for all points.
        field:    magnetic field in the world.
        signs:    of the quaternions of ``frame`` and ``to``: those that its file's simulator has at
                  the positions ``at``, (x, y, z, w) each; none for a file without signs.
        at:       joint positions (nq).
    """

    name: str
    kind: str
    size: int = 1
    cutoff: float = 0.0
    frame: Frame | None = None
    to: Frame | None = None
    body: int = -1
    actuator: int = -1
    contact: int = -1
    pieces: tuple[tuple[int, Lump | None], ...] = ()
    links: tuple[str, ...] = ()
    zone: tuple[str, tuple[float, ...]] | None = None
    field: Vector3 = (0.0, 0.0, 0.0)
    signs: tuple[tuple[float, ...], ...] = ()
    at: tuple[float, ...] = ()


@dataclass(frozen=True)
class Constraint:
    """A condition on the motion of a robot, which constraint forces enforce.

    The rows of a point are the derivative of its position in the frame ``to``. A frame adds its
    angular velocity relative to ``to``, in the axes of ``to``. The row of a joint is its velocity
    minus ``multiplier`` times the velocity of the other joint.

    Attributes:
        name:          name in messages.
        kind:          ``point``, ``frame`` or ``joint``.
        rows:          3, 6 or 1.
        stabilization: gains of the position [1/s^2] and of the velocity [1/s].
        compliance:    added to the diagonal of the Delassus matrix [as that].
        has_target:    whether stabilization has a target position.
        active:        whether it holds by default.
        link:          the frame that is held.
        to:            what it is held by; body -1 is the world.
        at:            pose of ``link`` in the link that it is named after.
        joints:        indices of the bodies whose joints are tied; -1 for none.
        multiplier:    the first joint's position is ``multiplier`` times the second's + ``offset``.
        offset:        see ``multiplier`` [rad or m].
        softness:      of the constraint in dynamics with soft constraints.
        torquescale:   factor of the angles of a frame there.
    """

    name: str
    kind: str
    rows: int
    stabilization: tuple[float, float]
    compliance: float
    has_target: bool
    active: bool = True
    link: Frame | None = None
    to: Frame | None = None
    at: Pose = NO_DISPLACEMENT
    joints: tuple[int, int] = (-1, -1)
    multiplier: float = 1.0
    offset: float = 0.0
    softness: Softness = DEFAULT_SOFTNESS
    torquescale: float = 1.0


@dataclass(frozen=True)
class LinkSpheres:
    """The spheres of one link.

    Attributes:
        name:    name of the link.
        body:    body that carries it; -1 is the base.
        spheres: centers in the canonical frame of the body, and radii [m]; of a capsule both ends
                 of its axis, and its radius.
        bound:   a sphere around all of them.
    """

    name: str
    body: int
    spheres: tuple[Sphere | Capsule, ...]
    bound: Sphere


@dataclass(frozen=True)
class SphereModel:
    """The spheres of a robot.

    Attributes:
        links: those that move first.
        pairs: indices of links whose spheres may touch, the most frequent ones first.
    """

    links: tuple[LinkSpheres, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def moving(self) -> int:
        """The number of links that move."""
        return sum(link.body >= 0 for link in self.links)

    @property
    def firsts(self) -> tuple[int, ...]:
        """Index of the first sphere of each link, and the number of spheres."""
        return tuple(accumulate((len(link.spheres) for link in self.links), initial=0))

    @property
    def capsules(self) -> tuple[int, ...]:
        """Indices of the capsules among the spheres."""
        every = [sphere for link in self.links for sphere in link.spheres]
        return tuple(k for k, sphere in enumerate(every) if len(sphere) == CAPSULE)

    @property
    def names(self) -> tuple[str, ...]:
        """The link of each sphere."""
        return tuple(link.name for link in self.links for _ in link.spheres)

    @property
    def pair_names(self) -> tuple[tuple[str, str], ...]:
        """Names of the links of each pair."""
        return tuple((self.links[a].name, self.links[b].name) for a, b in self.pairs)


@dataclass(frozen=True)
class KinematicTree(Branches):
    """Bodies and frames of a robot in depth-first order.

    Bodies have Pinocchio's joint order (depth first, siblings by name), so that a parent precedes
    its children and a subtree is one range of indices.

    Attributes:
        name: name of the robot, as in the URDF.
        source: name of the file in messages.
        digest: SHA-256 of the file.
        options: options of the robot.
        bodies: one body per moving joint.
        frames: one frame per link, merged links included.
        nq: number of coordinates: one per independent joint, seven per free joint.
        nv: number of velocities: one per independent joint, six per free joint.
        lower_limits: lower position limits (nq) [rad or m]; infinite where unlimited.
        upper_limits: upper position limits (nq) [rad or m].
        effort_limits: joint torque or force limits (nv) [N m or N].
        velocity_limits: velocity limits (nv) [rad/s or m/s].
        singular_joint: a joint with zero articulated inertia, which makes the mass matrix
            singular and forward dynamics undefined; None for an ordinary robot.
        parameters: parameters that are inputs of functions, with the file's values: ``params``
            (n, 10), ``armature`` (nv), ``damping`` (nv), and those of ``constraints``, contacts and
            actuators.
        parameter_names: link of each row of ``params``.
        constraints: conditions on the motion.
        contact_model: soft constraints, contacts with the ground among them.
        actuators: actuators, in the order of ``ctrl``.
        springs: springs of joints, if they act: with contacts or actuators.
        tendons: tendons, if they act: with contacts or actuators.
        lifts: mass of each body whose weight is compensated, in its canonical frame, if that acts.
        sensors: sensors, in the order of their numbers.
        spheres: spheres that stand for links in queries of distance.
        remarks: warnings of the reader.
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
    contact_model: ContactModel = NO_CONTACTS
    actuators: tuple[Actuator, ...] = ()
    springs: tuple[Spring, ...] = ()
    tendons: tuple[Tendon, ...] = ()
    lifts: tuple[Lump, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    spheres: SphereModel = field(default_factory=SphereModel)
    remarks: tuple[str, ...] = field(default=(), compare=False)
    keyframes: Mapping[str, Mapping[str, tuple[float, ...]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __hash__(self) -> int:
        return hash((self.digest, self.options))  # caches look robots up often

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the robot with its options, the same in every process."""
        return hashlib.sha256(f"{self.options.as_data()}{self!r}".encode()).hexdigest()

    @property
    def has_forces(self) -> bool:
        """Whether actuators, springs, tendons or compensated weights act in steps."""
        return bool(self.actuators or self.springs or self.tendons or self.lifts)

    @property
    def floating_base(self) -> bool:
        """Whether body 0 is on a free joint, of the file or of the option of that name."""
        return self.bodies[0].joint_type.is_free

    @cached_property
    def free(self) -> tuple[Body, ...]:
        """Bodies on free joints."""
        return tuple(body for body in self.bodies if body.joint_type.is_free)

    @cached_property
    def turning(self) -> tuple[Body, ...]:
        """Bodies on joints with a quaternion."""
        return tuple(body for body in self.bodies if body.joint_type.quaternion is not None)

    @property
    def base(self) -> int | None:
        """Index of the floating base: body 0, or else the one other body on a free joint."""
        free = [index for index, body in enumerate(self.bodies) if body.joint_type.is_free]
        return free[0] if len(free) == 1 or free[:1] == [0] else None

    @property
    def has_mujoco_quaternions(self) -> bool:
        """Whether free and ball joints have MuJoCo's coordinates."""
        return self.options.convention == "mujoco" and bool(self.quaternions)

    @cached_property
    def mujoco_base(self) -> int | None:
        """Index of the body whose free joint has MuJoCo's coordinates."""
        if self.options.convention != "mujoco":
            return None
        return next((i for i, body in enumerate(self.bodies) if body.joint_type.is_free), None)

    @cached_property
    def velocities(self) -> Branches:
        """Branches of the velocities: the parent of a velocity is the next towards the root.

        Mimic joints couple the branches of a tree; the velocities then form one chain.
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
        return tuple(body.q_index + (body.joint_type.quaternion or 0) for body in self.turning)

    def each_frame(self) -> Iterator[int]:
        """Return an iterator over the frame indices."""
        return iter(range(len(self.frames)))

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Moving joints, mimic joints included, in the order of ``bodies``."""
        return tuple(body.joint for body in self.bodies)

    @cached_property
    def body_names(self) -> tuple[str, ...]:
        """Moving links, in the order of ``bodies``."""
        return tuple(body.name for body in self.bodies)

    @cached_property
    def frame_names(self) -> tuple[str, ...]:
        """All links, depth first."""
        return tuple(frame.name for frame in self.frames)

    @cached_property
    def frame_of(self) -> Mapping[str, Frame]:
        """Frame of each link, by name."""
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
        """Armature, added to the diagonal of the mass matrix (nv)."""
        return armatures(self.bodies)

    @cached_property
    def damping(self) -> tuple[float, ...]:
        """Viscous damping of each velocity (nv)."""
        return losses(self.bodies, "damping")

    @cached_property
    def joint_friction(self) -> tuple[float, ...]:
        """Coulomb friction of each velocity (nv)."""
        return losses(self.bodies, "friction")

    @property
    def gravity(self) -> tuple[float, ...]:
        """Default of ``gravity`` [m/s^2]."""
        return self.parameters.get("gravity", STANDARD_GRAVITY)

    @property
    def total_mass(self) -> float:
        """Mass of the moving bodies, without a fixed base, as in Pinocchio [kg]."""
        return math.fsum(body.mass for body in self.bodies)

    @property
    def is_serial(self) -> bool:
        """Whether each body is the parent of the next: one chain from the base to its tip."""
        return all(body.parent == index - 1 for index, body in enumerate(self.bodies))

    @cached_property
    def is_depth_first(self) -> bool:
        """Whether the velocities have the order of the bodies."""
        starts = [body.v_index for body in self.bodies if not body.mimics]
        return starts == sorted(starts)

    @property
    def couples_all(self) -> bool:
        """Whether every entry of a matrix between joints belongs to one pair of joints."""
        return self.is_serial and not self.has_mimic

    @property
    def has_mimic(self) -> bool:
        """Whether the robot has a mimic joint."""
        return any(body.mimics for body in self.bodies)

    def ancestors(self, index: int) -> tuple[int, ...]:
        """Return the ancestors of a body, its parent first, without the base (-1)."""
        path = []
        index = self.parents[index]
        while index >= 0:
            path.append(index)
            index = self.parents[index]
        return tuple(path)

    def subtree(self, index: int) -> range:
        """Return the bodies of a subtree, its root first."""
        return range(index, index + self.subtree_sizes[index])
