"""Records of soft constraints, with MuJoCo's parameters and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridgen.model.pose import NO_DISPLACEMENT, ZERO, Pose, Vector3

CONDIMS = (1, 3, 4, 6)
CONES = ("pyramidal", "elliptic")
#: MuJoCo's least coefficient of friction (mjMINMU).
LEAST_FRICTION = 1e-5


@dataclass(frozen=True)
class Softness:
    """How a constraint yields: MuJoCo's ``solref`` and ``solimp``.

    Attributes:
        solref: time constant [s] and damping ratio; or, if the first is not positive, the negative
                stiffness and damping of a unit of inverse inertia [1/s^2, 1/s].
        solimp: impedance at distance zero, and at ``width`` and beyond; ``width`` [m or rad],
                midpoint and power of the curve between them.
    """

    solref: tuple[float, float] = (0.02, 1.0)
    solimp: tuple[float, float, float, float, float] = (0.9, 0.95, 0.001, 0.5, 2.0)


DEFAULT_SOFTNESS = Softness()


@dataclass(frozen=True)
class Solid:
    """A shape of a link: the Minkowski sum of a box and an ellipsoid, as ``description.Shape``.

    A sphere has no half lengths, a capsule one; a cylinder is a segment plus a disk.

    Attributes:
        link:         the link.
        pose:         of the shape in the link's frame, in a tree in the frame of the body's link.
        half_lengths: of the box [m].
        radii:        of the ellipsoid along the same axes [m].
        body:         index of the body in a tree; -1 is the base.
    """

    link: str
    pose: Pose = NO_DISPLACEMENT
    half_lengths: Vector3 = ZERO
    radii: Vector3 = ZERO
    body: int = -1

    @property
    def edges(self) -> int:
        """Number of positive half lengths."""
        return sum(length > 0.0 for length in self.half_lengths)

    @property
    def is_round(self) -> bool:
        """Whether it is a sphere or a capsule, or a box with round edges."""
        return len(set(self.radii)) == 1

    @property
    def is_cylinder(self) -> bool:
        """Whether it is a cylinder along its third axis."""
        first, second, third = self.radii
        return third == 0.0 < first == second and not any(self.half_lengths[:2])

    @property
    def count(self) -> int:
        """Number of points that may touch a plane at a time."""
        return 4 if self.is_cylinder else (1, 2, 2, 4)[self.edges]


@dataclass(frozen=True)
class Plane:
    """A plane that is fixed to the base.

    Attributes:
        normal: in the base.
        height: along the normal [m].
    """

    normal: Vector3 = (0.0, 0.0, 1.0)
    height: float = 0.0


@dataclass(frozen=True)
class HeightField:
    """A height field that is fixed to the base; its heights are the input ``terrain``.

    Attributes:
        pose: in the base; heights are along its third axis.
    """

    pose: Pose = NO_DISPLACEMENT


@dataclass(frozen=True)
class Contact:
    """A shape of a link, and a plane, a height field or a shape of another link to touch.

    Attributes:
        name:     name in messages.
        solid:    the shape, on which the force acts; the opposite force acts on ``other``.
        other:    what it may touch: a plane; a height field; a sphere or capsule for a sphere or
                  capsule; a sphere for a box.
        condim:   dimensions of the contact force: 1 normal; 3 tangential too; 4 a moment about
                  the normal too; 6 moments about the tangents too.
        friction: coefficients of two tangents, the normal's moment, the tangents' moments
                  [1, 1, m, m, m].
        softness: of the contact.
        friction_solref: ``solref`` of friction with an elliptic cone; (0, 0) for that of the
                  contact.
        margin:   distance at which the contact begins [m].
        is_parallel: whether two capsules have a second point where they are parallel.
    """

    name: str
    solid: Solid
    other: Plane | HeightField | Solid = Plane()
    condim: int = 3
    friction: tuple[float, float, float, float, float] = (1.0, 1.0, 0.005, 1e-4, 1e-4)
    softness: Softness = DEFAULT_SOFTNESS
    friction_solref: tuple[float, float] = (0.0, 0.0)
    margin: float = 0.0
    is_parallel: bool = False

    @property
    def solids(self) -> tuple[Solid, ...]:
        """The shapes of links."""
        return (self.solid, self.other) if isinstance(self.other, Solid) else (self.solid,)

    @property
    def ratio(self) -> float:
        """Friction of the second tangent relative to that of the first."""
        first, second = self.friction[:2]
        return second / first if first else 1.0

    @property
    def count(self) -> int:
        """Number of points that may touch at a time."""
        return 1 + self.is_parallel if isinstance(self.other, Solid) else self.solid.count


@dataclass(frozen=True)
class JointSoftness:
    """Softness of a joint.

    Attributes:
        limit:     of its limits.
        margin:    distance from a limit at which it begins to act [rad or m].
        friction:  of its dry friction.
        reference: its position in the configuration that weights are computed for [rad or m].
    """

    limit: Softness = DEFAULT_SOFTNESS
    margin: float = 0.0
    friction: Softness = DEFAULT_SOFTNESS
    reference: float = 0.0


@dataclass(frozen=True)
class ContactModel:
    """The soft constraints of a robot.

    Attributes:
        contacts:   contacts of links.
        joints:     softness of joints by name; others have the defaults.
        centers:    centers of mass that the weights of links refer to, in the frames of the links,
                    in a tree in those of the bodies' links. Others have that of the body with all
                    links that are fixed to it.
        cone:       ``pyramidal`` or ``elliptic``.
        impratio:   ratio of the impedances of friction and normal forces with an elliptic cone.
        timestep:   half of the least time constant of ``solref`` [s]; 0 for none.
        iterations: most iterations of Newton's method.
        max_pairs:  most pairs of shapes with equal ``condim``, softness and margin that act at a
                    time, the nearest ones; 0 for all.
        terrain:    default of the height fields' ``terrain``; empty for none.
    """

    contacts: tuple[Contact, ...] = ()
    joints: Mapping[str, JointSoftness] = field(default_factory=dict, hash=False)
    centers: Mapping[str, Vector3] = field(default_factory=dict, hash=False)
    cone: str = "pyramidal"
    impratio: float = 1.0
    timestep: float = 0.002
    iterations: int = 100
    max_pairs: int = 0
    terrain: tuple[float, ...] = field(default=(), hash=False)


#: The soft constraints of a file without contacts.
NO_CONTACTS = ContactModel()
