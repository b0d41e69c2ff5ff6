"""Types of arguments and results, for type checkers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    SupportsFloat,
    TypeAlias,
    TypedDict,
    get_args,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack
else:

    class Unpack:
        """``typing.Unpack`` of Python 3.11 and later."""

        def __class_getitem__(cls, keywords: type) -> type:
            """Return the ``TypedDict`` itself."""
            return keywords


class HasShape(Protocol):
    """An array of NumPy, CuPy, PyTorch or JAX."""

    @property
    def shape(self) -> Any:
        """Extents of the array."""


#: An output array; its library must permit writes.
Writable: TypeAlias = HasShape
#: An argument: an array, or nested sequences of numbers. Not a recursive alias: that would accept
#: strings, which are sequences of strings.
ArrayLike: TypeAlias = (
    HasShape
    | Sequence[SupportsFloat]
    | Sequence[Sequence[SupportsFloat]]
    | Sequence[Sequence[Sequence[SupportsFloat]]]
)
#: An argument that may be a single number for all states.
NumberLike: TypeAlias = SupportsFloat | HasShape | Sequence[SupportsFloat]
#: A result: numpy.ndarray, cupy.ndarray, torch.Tensor or jax.Array, of the type of ``q``.
Array: TypeAlias = Any

if TYPE_CHECKING:

    class Results(tuple[Array, ...]):
        """Several results, a named tuple; the record of a function has the names."""

        def __new__(cls, *results: Array) -> Results:
            """Return results by their order."""

        def __getattr__(self, name: str) -> Array:
            """Return a result by its name."""
else:
    #: Several results; their type is made from the record of the function.
    Results = tuple

Method = Literal["auto", "aba", "crba", "jsiia", "cfa"]
#: Integrators, defined in ``gridgen.functions.motion``.
Integrator = Literal[
    "semi_implicit",
    "euler",
    "rk4",
    "implicit",
    "midpoint",
    "trapezoidal",
    "constant_acceleration",
    "variational",
]
#: Those with Hessians of steps.
ExplicitIntegrator = Literal[
    "semi_implicit",
    "euler",
    "rk4",
    "implicit",
    "midpoint",
    "trapezoidal",
    "constant_acceleration",
]
#: States that a rollout returns: the initial one and every k-th, or the last one only.
StoreEvery: TypeAlias = int | Literal["last"]
Schedule = Literal["auto", "thread", "scan"]
WarpSchedule = Literal["auto", "thread", "warp"]
DynamicsSchedule = Literal["auto", "thread", "scan", "warp"]
#: Schedules of time integration: one thread follows a state from step to step.
ThreadSchedule = Literal["auto", "thread"]
#: Reference frame of the rows of a Jacobian.
#:
#: ``local``:               velocity of the frame origin and angular velocity, in the frame's axes.
#: ``world``:               velocity of the frame's point at the world origin and angular velocity,
#:                          in world axes.
#: ``local_world_aligned``: velocity of the frame origin and angular velocity, in the axes of the
#:                          world.
Reference = Literal["local", "world", "local_world_aligned"]
REFERENCES: tuple[Reference, ...] = get_args(Reference)
Dtype = Literal["float32", "float64"]
BackendName = Literal["cpu", "cuda", "emulated"]
BackendChoice = Literal["auto", BackendName]


class Options(TypedDict, total=False):
    """Keyword arguments of every compiled function, in addition to ``out``.

    Attributes:
        backend: ``auto``, ``cpu``, ``cuda`` or ``emulated``; overrides the robot's.
    """

    backend: BackendChoice | None


class Weighted(Options, total=False):
    """Keyword arguments of functions that depend on inertial parameters.

    Attributes:
        params: inertial parameters, one row for each link that the robot has as an input, (n, 10)
                or (B, n, 10) [kg, kg m, kg m^2]. A row is (m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz)
                about the origin of the link frame. Default: the values of the URDF.
    """

    params: ArrayLike | None


class Inertial(Weighted, total=False):
    """Keyword arguments of functions that depend on armatures.

    Attributes:
        armature: values added to the diagonal of the mass matrix, (nv,) or (B, nv)
                  [kg m^2 or kg]. The robot must be loaded with ``armature`` in ``parameters``.
    """

    armature: ArrayLike | None


class InGravity(Options, total=False):
    """Keyword arguments of functions that depend on gravity.

    Attributes:
        gravity: acceleration of free fall in the world, (3,) or (B, 3) [m/s^2]. Default:
                 that of the robot's file, of MJCF or Pinocchio; otherwise (0, 0, -9.81).
    """

    gravity: ArrayLike | None


class Heavy(InGravity, Weighted, total=False):
    """Keyword arguments of functions that depend on gravity and inertial parameters."""


class OnBase(InGravity, total=False):
    """Keyword arguments of functions that depend on the base motion.

    Attributes:
        base_velocity:     twist (v, w) of the base in the base frame, (6,) or (B, 6)
                           [m/s, rad/s].
        base_acceleration: derivative of this twist, component by component, (6,) or (B, 6)
                           [m/s^2, rad/s^2].
    """

    base_velocity: ArrayLike | None
    base_acceleration: ArrayLike | None


class Loaded(OnBase, Weighted, total=False):
    """Keyword arguments of dynamics with external wrenches and base motion.

    Attributes:
        f_ext: wrench (f, n) on each body at its link frame, in its axes, (B, n_bodies, 6)
               [N, N m].
    """

    f_ext: ArrayLike | None


class Damped(Loaded, total=False):
    """Keyword arguments of dynamics with joint damping.

    Attributes:
        damping: viscous damping of each joint velocity, (nv,) or (B, nv) [N m s or N s/m]. The
                 robot must be loaded with ``damping`` in ``parameters``.
        joint_friction: dry friction of each joint velocity, as ``damping`` [N m or N].
    """

    damping: ArrayLike | None
    joint_friction: ArrayLike | None


class Driven(Damped, total=False):
    """Keyword arguments of dynamics with damping and armatures.

    Attributes:
        armature: as in ``Inertial``.
    """

    armature: ArrayLike | None


class AtFrame(Options, total=False):
    """Keyword arguments of functions of a frame.

    Attributes:
        offset: pose of a tool in the frame, which replaces the frame, homogeneous, (4, 4) or
                (B, 4, 4) [1 and m].
    """

    offset: ArrayLike | None


class InertialAtFrame(Inertial, AtFrame, total=False):
    """Keyword arguments of inertias at a frame."""


class Operational(InGravity, Inertial, AtFrame, total=False):
    """Options of functions in operational space.

    Attributes:
        damping: as in ``Damped``.
        joint_friction: as in ``Damped``.
    """

    damping: ArrayLike | None
    joint_friction: ArrayLike | None


class Placed(Options, total=False):
    """Those of functions of constraints.

    Attributes:
        offsets: pose of each constraint's point or frame in its link, homogeneous, (k, 4, 4) or
                 (B, k, 4, 4) [1 and m]; that of a joint has no effect. The robot must be loaded
                 with ``offsets`` in ``parameters``.
    """

    offsets: ArrayLike | None


class InertialPlaced(Inertial, Placed, total=False):
    """Those of the inertia of constraints."""


class Activated(Placed, total=False):
    """Those of a function of constraints that may be inactive.

    Attributes:
        active:   1 for each constraint that holds, 0 for one without a force (k,) or (B, k).
        proximal: proximal term (k,) or (B, k), in mean entries of the diagonal of the matrix that
                  is solved with.
    """

    active: ArrayLike | None
    proximal: ArrayLike | None


class Constrained(Driven, Activated, total=False):
    """Those of the dynamics with constraints.

    Attributes:
        stabilization: gains of position and velocity (k, 2) or (B, k, 2) [1/s^2, 1/s].
        compliance:    added to the diagonal of the Delassus matrix (k,) or (B, k).
    """

    stabilization: ArrayLike | None
    compliance: ArrayLike | None


class Controlled(Options, total=False):
    """Those of actuators.

    Attributes:
        ctrl: control of each actuator (nu,) or (B, nu). Default: 0.
        actuator_gains: gain and bias of each actuator, three terms each (nu, 6) or (B, nu, 6),
                 that are constant, of length, and of its rate. The robot must be loaded with
                 ``actuator_gains`` in ``parameters``; ``gear`` and ``stiffness`` likewise.
        gear:    length of each actuator per position of its joint (nu,) or (B, nu).
        stiffness: that of each spring of a joint, in the order of the joints
                 (n,) or (B, n) [N m/rad or N/m].
    """

    ctrl: ArrayLike | None
    actuator_gains: ArrayLike | None
    gear: ArrayLike | None
    stiffness: ArrayLike | None


class Soft(InGravity, Inertial, Controlled, Placed, total=False):
    """Those of the dynamics with soft contacts.

    Attributes:
        f_ext:     as in ``Loaded``.
        damping:   as in ``Damped``.
        joint_friction: as in ``Damped``.
        friction:  coefficient of each contact's tangents (k,) or (B, k).
        radii:     radius of each contact's shape (k,) or (B, k) [m].
        tolerance: relative error of the torques at which iterations end (1,) or (B, 1).
        terrain:   height field, a result of ``gridgen.terrain`` (n,) or (B, n).
        active:    as in ``Activated``; offsets as in ``Placed``.
    """

    f_ext: ArrayLike | None
    damping: ArrayLike | None
    joint_friction: ArrayLike | None
    friction: ArrayLike | None
    radii: ArrayLike | None
    tolerance: ArrayLike | None
    terrain: ArrayLike | None
    active: ArrayLike | None


class Sensed(Soft, Activated, total=False):
    """Those of sensors and of the accelerations that they measure.

    Attributes:
        joint_friction: as in ``Damped``.
        stabilization:  as in ``Constrained``; compliance likewise.
    """

    joint_friction: ArrayLike | None
    stabilization: ArrayLike | None
    compliance: ArrayLike | None


class Moving(Constrained, Controlled, total=False):
    """Those of steps.

    Attributes:
        friction:  as in ``Soft``; radii, tolerance and terrain likewise.
    """

    friction: ArrayLike | None
    radii: ArrayLike | None
    tolerance: ArrayLike | None
    terrain: ArrayLike | None


class Impulsive(Inertial, Activated, total=False):
    """Those of impacts.

    Attributes:
        restitution: share of the velocity that an impact turns back (k,) or (B, k).
        compliance:  as in ``Constrained``.
    """

    restitution: ArrayLike | None
    compliance: ArrayLike | None


class Supported(Driven, Activated, total=False):
    """Those of inverse dynamics with constraints.

    Attributes:
        weights: what the squares of each constraint's forces count (k,) or (B, k), positive.
    """

    weights: ArrayLike | None
