"""The types of arguments and results, as type checkers see them."""

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
        """``typing.Unpack``, which Python has since 3.11."""

        def __class_getitem__(cls, keywords: type) -> type:
            """Return the keyword arguments that a ``TypedDict`` names."""
            return keywords


class HasShape(Protocol):
    """An array of some library: NumPy, CuPy, PyTorch, JAX."""

    @property
    def shape(self) -> Any:
        """Its extents."""


#: An array for results, which its library lets others write into.
Writable: TypeAlias = HasShape
#: An argument: an array, or nested sequences of numbers. No alias of itself, for a string is a
#: sequence of strings without end.
ArrayLike: TypeAlias = (
    HasShape
    | Sequence[SupportsFloat]
    | Sequence[Sequence[SupportsFloat]]
    | Sequence[Sequence[Sequence[SupportsFloat]]]
)
#: An argument that may be one number for all states.
NumberLike: TypeAlias = SupportsFloat | HasShape | Sequence[SupportsFloat]
#: A result: numpy.ndarray, cupy.ndarray, torch.Tensor or jax.Array, as ``q`` was.
Array: TypeAlias = Any

Method = Literal["auto", "aba", "crba", "jsiia", "cfa"]
#: How the state moves over a step, declared in ``gridgen.functions.motion``.
Integrator = Literal["semi_implicit", "euler", "rk4", "implicit"]
#: The states of a rollout that are kept, or every so many steps one.
Keep: TypeAlias = Literal["all", "last"] | int
Schedule = Literal["auto", "thread", "scan"]
InverseDynamicsSchedule = Literal["auto", "thread", "scan", "pipeline"]
#: Of functions that follow a state from step to step, which is one thread's work.
ThreadSchedule = Literal["auto", "thread"]
ForwardDynamicsSchedule = Literal["auto", "thread", "scan", "hybrid"]
#: What the rows of a Jacobian are seen from.
#:
#: ``local``:               the frame: velocity of its origin and angular velocity, in its axes.
#: ``world``:               the base: velocity of the frame's point at the base's origin, and
#:                          angular velocity, in the base's axes.
#: ``local_world_aligned``: velocity of the frame's origin and angular velocity in the base's axes.
Reference = Literal["local", "world", "local_world_aligned"]
REFERENCES: tuple[Reference, ...] = get_args(Reference)
Dtype = Literal["float32", "float64"]
BackendName = Literal["cpu", "cuda", "emulated"]
BackendChoice = Literal["auto", BackendName]


class Options(TypedDict, total=False):
    """Keyword arguments of every compiled function, beside ``out``.

    Attributes:
        backend: ``auto``, ``cpu``, ``cuda`` or ``emulated``; overrides the robot's.
    """

    backend: BackendChoice | None


class Weighted(Options, total=False):
    """Those of a function that depends on inertias.

    Attributes:
        params: of a robot that was loaded with links in ``parameters``, a row for each:
                (m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz) about its frame, (n, 10) or (B, n, 10)
                [kg, kg m, kg m^2]; those of the URDF.
    """

    params: ArrayLike | None


class Inertial(Weighted, total=False):
    """Those of a function that depends on what motors add to inertias.

    Attributes:
        armature: of a robot that was loaded with it in ``parameters``: added to the diagonal of
                  the mass matrix, (nv,) or (B, nv) [kg m^2 or kg].
    """

    armature: ArrayLike | None


class InGravity(Options, total=False):
    """Those of a function that knows gravity.

    Attributes:
        gravity: free fall in the base frame (3,) or (B, 3) [m/s^2]; (0, 0, -9.81).
    """

    gravity: ArrayLike | None


class Heavy(InGravity, Weighted, total=False):
    """Those of a function of weights."""


class OnBase(InGravity, total=False):
    """Those of a function that knows the motion of the base.

    Attributes:
        base_velocity:     twist (v, w) of the base (6,) or (B, 6) [m/s, rad/s].
        base_acceleration: its derivative (6,) or (B, 6) [m/s^2, rad/s^2].
    """

    base_velocity: ArrayLike | None
    base_acceleration: ArrayLike | None


class Loaded(OnBase, Weighted, total=False):
    """Those of the dynamics with loads.

    Attributes:
        f_ext: wrench (f, n) on each body at its link frame, in its axes (B, n_bodies, 6) [N, N m].
    """

    f_ext: ArrayLike | None


class Damped(Loaded, total=False):
    """Those of the dynamics with losses.

    Attributes:
        damping: of a robot that was loaded with it in ``parameters``: viscous damping that each
                 velocity meets, (nv,) or (B, nv) [N m s or N s/m].
    """

    damping: ArrayLike | None


class Driven(Damped, total=False):
    """Those of the dynamics with motors.

    Attributes:
        armature: as in ``Inertial``.
    """

    armature: ArrayLike | None


class Operational(InGravity, Inertial, total=False):
    """Those of the dynamics as a link feels them.

    Attributes:
        damping: as in ``Damped``.
    """

    damping: ArrayLike | None


class Held(Options, total=False):
    """Those of a function of constraints.

    Attributes:
        active:   1 for each constraint that holds, 0 for one without a force (k,) or (B, k).
        proximal: proximal term (k,) or (B, k), in mean entries of the diagonal of the matrix that
                  is solved with.
    """

    active: ArrayLike | None
    proximal: ArrayLike | None


class Constrained(Driven, Held, total=False):
    """Those of the dynamics with constraints.

    Attributes:
        stabilization: gains of position and velocity (k, 2) or (B, k, 2) [1/s^2, 1/s].
        compliance:    added to the diagonal of the Delassus matrix (k,) or (B, k).
    """

    stabilization: ArrayLike | None
    compliance: ArrayLike | None


class Impulsive(Inertial, Held, total=False):
    """Those of impacts.

    Attributes:
        restitution: share of the velocity that an impact turns back (k,) or (B, k).
        compliance:  as in ``Constrained``.
    """

    restitution: ArrayLike | None
    compliance: ArrayLike | None


class Supported(Driven, Held, total=False):
    """Those of inverse dynamics with constraints.

    Attributes:
        weights: what the squares of each constraint's forces count (k,) or (B, k), positive.
    """

    weights: ArrayLike | None
