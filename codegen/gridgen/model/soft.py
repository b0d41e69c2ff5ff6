"""Records of soft constraints, with MuJoCo's parameters and defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from gridgen.model.hulls import Hull
from gridgen.model.pose import NO_DISPLACEMENT, ZERO, Pose, Vector3

CONDIMS = (1, 3, 4, 6)
CONES = ("pyramidal", "elliptic")
#: MuJoCo's least coefficient of friction (mjMINMU).
MIN_FRICTION = 1e-5


class ShapeKind(Enum):
    """Kind of what may touch."""

    SPHERE = "sphere"
    CAPSULE = "capsule"
    BOX = "box"
    CYLINDER = "cylinder"
    ELLIPSOID = "ellipsoid"
    HULL = "convex hull"
    PLANE = "plane"
    HEIGHT_FIELD = "height field"


#: Number of points of a contact, by the kinds of its shape and of what it may touch; pairs that are
#: missing are not covered. ``dynamics.contacts.touching`` has the function of each.
POINTS: Mapping[tuple[ShapeKind, ShapeKind], int] = {
    (ShapeKind.SPHERE, ShapeKind.SPHERE): 1,
    (ShapeKind.SPHERE, ShapeKind.CAPSULE): 1,
    (ShapeKind.CAPSULE, ShapeKind.SPHERE): 1,
    (ShapeKind.CAPSULE, ShapeKind.CAPSULE): 1,
    (ShapeKind.BOX, ShapeKind.SPHERE): 1,
    (ShapeKind.CYLINDER, ShapeKind.SPHERE): 1,
    **{
        (shape, ground): count
        for shape, count in (
            (ShapeKind.SPHERE, 1),
            (ShapeKind.CAPSULE, 2),
            (ShapeKind.BOX, 4),
            (ShapeKind.CYLINDER, 4),
            (ShapeKind.ELLIPSOID, 1),
            (ShapeKind.HULL, 4),
        )
        for ground in (ShapeKind.PLANE, ShapeKind.HEIGHT_FIELD)
    },
}


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

    A sphere has no half lengths, a capsule one; a cylinder is a segment plus a disk. A convex hull
    has its corners in place of both.

    Attributes:
        link:         the link.
        pose:         of the shape in the link's frame, in a tree in the body's canonical frame.
        half_lengths: of the box [m].
        radii:        of the ellipsoid along the same axes [m].
        hull:         a convex hull.
        body:         index of the body in a tree; -1 is the base.
        place:        number of the shape among those of a tree's contacts.
    """

    link: str
    pose: Pose = NO_DISPLACEMENT
    half_lengths: Vector3 = ZERO
    radii: Vector3 = ZERO
    hull: Hull | None = None
    body: int = -1
    place: int = 0

    @cached_property
    def kind(self) -> ShapeKind | None:
        """The kind of shape; ``None`` for one without contacts."""
        if self.hull is not None:
            return ShapeKind.HULL
        first, second, third = self.radii
        edges = [length > 0.0 for length in self.half_lengths]
        if first == second == third and sum(edges) != 2:
            kinds = {0: ShapeKind.SPHERE, 1: ShapeKind.CAPSULE, 3: ShapeKind.BOX}
            return kinds[sum(edges)]
        if third == 0.0 < first == second and not any(edges[:2]):
            return ShapeKind.CYLINDER
        return ShapeKind.ELLIPSOID if not any(edges) and min(self.radii) > 0.0 else None

    @property
    def reach(self) -> float:
        """Half the diagonal of the box, or the largest distance of a hull's corner [m]."""
        return self.hull.reach if self.hull else math.hypot(*self.half_lengths)

    @property
    def spread(self) -> float:
        """The largest radius relative to the first one."""
        return max(self.radii) / self.radii[0] if self.radii[0] else 1.0


@dataclass(frozen=True)
class Plane:
    """A plane that is fixed to the base.

    Attributes:
        normal: in the world.
        height: along the normal [m].
    """

    normal: Vector3 = (0.0, 0.0, 1.0)
    height: float = 0.0
    kind = ShapeKind.PLANE


@dataclass(frozen=True)
class HeightField:
    """A height field that is fixed to the base; its heights are the input ``terrain``.

    Attributes:
        pose: in the world; heights are along its third axis.
    """

    pose: Pose = NO_DISPLACEMENT
    kind = ShapeKind.HEIGHT_FIELD


@dataclass(frozen=True)
class Contact:
    """A shape of a link, and a plane, a height field or a shape of another link to touch.

    Attributes:
        name:     name in messages.
        solid:    the shape, on which the force acts; the opposite force acts on ``other``.
        other:    what it may touch: a plane; a height field; a sphere or capsule for a sphere or
                  capsule; a sphere for a box or a cylinder.
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
    def kinds(self) -> tuple[ShapeKind, ShapeKind]:
        """The kinds of the shape and of what it may touch."""
        return self.solid.kind, self.other.kind  # type: ignore[return-value]

    @property
    def count(self) -> int:
        """Number of points that may touch at a time."""
        return POINTS[self.kinds] + self.is_parallel


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
        acts:       whether the robot's dynamics has soft constraints, by its options.
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
    acts: bool = False

    @cached_property
    def hulls(self) -> tuple[Hull, ...]:
        """The convex hulls of the contacts, each once."""
        every = (solid.hull for contact in self.contacts for solid in contact.solids)
        return tuple(dict.fromkeys(hull for hull in every if hull))


#: The soft constraints of a file without contacts.
NO_CONTACTS = ContactModel()
