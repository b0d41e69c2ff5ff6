"""Records of soft constraints, with MuJoCo's parameters and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridgen.model.pose import NO_DISPLACEMENT, ZERO, Pose, Vector3

CONDIMS = (1, 3, 4, 6)
CONES = ("pyramidal", "elliptic")


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


@dataclass(frozen=True)
class Contact:
    """A shape of a link, and a plane that it may touch.

    The shape is a box with rounded edges. A sphere has no half lengths, a capsule one.

    Attributes:
        name:         name in messages.
        link:         the link.
        pose:         of the shape in the link's frame, in a tree in the frame of the body's link.
        half_lengths: of the box [m].
        radius:       of its edges [m].
        body:         index of the body in a tree.
        center:       center of mass in the link's frame that the weight of the contact refers to;
                      ``None`` for that of the body with all links that are fixed to it.
        normal:       of the plane, in the base.
        height:       of the plane along the normal [m].
        condim:       dimensions of the contact force: 1 normal; 3 tangential too; 4 a moment about
                      the normal too; 6 moments about the tangents too.
        friction:     coefficients of two tangents, the normal's moment, the tangents' moments
                      [1, 1, m, m, m].
        softness:     of the contact.
        friction_solref: ``solref`` of friction with an elliptic cone; (0, 0) for that of the
                      contact.
        margin:       distance at which the contact begins [m].
    """

    name: str
    link: str
    pose: Pose = NO_DISPLACEMENT
    half_lengths: Vector3 = ZERO
    radius: float = 0.0
    body: int = -1
    center: Vector3 | None = None
    normal: Vector3 = (0.0, 0.0, 1.0)
    height: float = 0.0
    condim: int = 3
    friction: tuple[float, float, float, float, float] = (1.0, 1.0, 0.005, 1e-4, 1e-4)
    softness: Softness = Softness()
    friction_solref: tuple[float, float] = (0.0, 0.0)
    margin: float = 0.0

    @property
    def count(self) -> int:
        """Number of points that may touch the plane at a time."""
        return (1, 2, 2, 4)[sum(length > 0.0 for length in self.half_lengths)]


@dataclass(frozen=True)
class JointSoftness:
    """Softness of a joint.

    Attributes:
        limit:     of its limits.
        margin:    distance from a limit at which it begins to act [rad or m].
        friction:  of its dry friction.
        reference: its position in the configuration that weights are computed for [rad or m].
    """

    limit: Softness = Softness()
    margin: float = 0.0
    friction: Softness = Softness()
    reference: float = 0.0


@dataclass(frozen=True)
class ContactModel:
    """The soft constraints of a robot.

    Attributes:
        contacts:   contacts with planes.
        joints:     softness of joints by name; others have the defaults.
        cone:       ``pyramidal`` or ``elliptic``.
        impratio:   ratio of the impedances of friction and normal forces with an elliptic cone.
        timestep:   half of the least time constant of ``solref`` [s]; 0 for none.
        iterations: most iterations of Newton's method.
    """

    contacts: tuple[Contact, ...] = ()
    joints: Mapping[str, JointSoftness] = field(default_factory=dict, hash=False)
    cone: str = "pyramidal"
    impratio: float = 1.0
    timestep: float = 0.002
    iterations: int = 20


#: The soft constraints of a file without contacts.
NO_CONTACTS = ContactModel()
