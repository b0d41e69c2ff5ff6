"""Arrays that functions read and write: shapes, units and optional inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

#: Size of one articulated-body inertia: M by xx, xy, xz, yy, yz, zz; H by rows; I like M.
INERTIA_NUMBERS = 21
#: Inertial parameters of one body: mass, first moment, rotational inertia (xx xy yy xz yz zz).
BODY_PARAMETERS = 10
#: Size of one body motion: angular velocity, angular acceleration, linear acceleration - gravity.
MOTION_NUMBERS = 9


#: Numbers before the obstacles of a world; of a sphere, capsule, box and half-space; and before the
#: values of a grid.
WORLD_HEAD, WORLD_SIZES, GRID_HEAD = 8, (4, 7, 10, 4), 4
#: Numbers before the heights of a terrain.
TERRAIN_HEAD = 6
#: Extent of an axis whose length varies from call to call.
OPEN = -1


@dataclass(frozen=True)
class ArrayKind:
    """One argument or result, independent of the robot.

    Attributes:
        shape:  shape for one state: numbers and the robot's ``nq``, ``nv``, ``bodies``,
                ``frames``, ``parameters``, ``rows`` (of ``params``), ``constraints``,
                ``constraint_rows``, ``contacts``, ``contact_points``, ``actuators``,
                ``springs`` and ``sensor_numbers``; ``OPEN`` for an axis of any length.
        text:   description.
        unit:   unit of the elements. Spatial vectors have the linear part first.
        shared: whether one value may apply to the whole batch.
        path:   whether it has a time axis: the initial state and each stored step.
        is_change: whether it is a tangent or a cotangent of another array.
        is_fixed: whether functions are not differentiated by it.
        numbers: kind of its valid numbers (``runtime/arrays/validation.py``); empty for any.
    """

    shape: tuple[str | int, ...]
    text: str
    unit: str
    shared: bool = False
    path: bool = False
    is_change: bool = False
    is_fixed: bool = False
    numbers: str = ""

    @property
    def is_configuration(self) -> bool:
        """Whether it is a configuration, whose quaternions must have unit norm."""
        return self.shape == ("nq",) and not self.is_change


_NV = ("nv",)
_SQUARE = ("nv", "nv")
_CUBE = ("nv", "nv", "nv")
_REGRESSED = ("nv", "parameters", "nv")

#: Every array by its name.
ARRAYS: dict[str, ArrayKind] = {
    "q": ArrayKind(("nq",), "joint positions", "rad or m"),
    "qd": ArrayKind(_NV, "joint velocities", "rad/s or m/s"),
    "qdd": ArrayKind(_NV, "joint accelerations", "rad/s^2 or m/s^2"),
    "tau": ArrayKind(_NV, "joint torques", "N m or N"),
    "dt": ArrayKind((), "length of a time step", "s", True),
    "q_next": ArrayKind(("nq",), "joint positions at the end of the step", "rad or m"),
    "qd_next": ArrayKind(_NV, "joint velocities at the end of the step", "rad/s or m/s"),
    "v": ArrayKind(_NV, "joint velocities over unit time", "rad or m"),
    "q0": ArrayKind(("nq",), "joint positions at the beginning", "rad or m"),
    "q1": ArrayKind(("nq",), "joint positions at the end", "rad or m"),
    "u": ArrayKind((), "interpolation parameter, from 0 at q0 to 1 at q1", "1"),
    "length": ArrayKind((), "distance", "rad, m"),
    "dq1_dq": ArrayKind(_SQUARE, "derivative of the end by the positions", "1, m/rad"),
    "dq1_dv": ArrayKind(_SQUARE, "derivative of the end by the velocities", "1, m/rad"),
    "dv_dq0": ArrayKind(_SQUARE, "derivative of the velocities by the beginning", "1, m/rad"),
    "dv_dq1": ArrayKind(_SQUARE, "derivative of the velocities by the end", "1, m/rad"),
    "qd0": ArrayKind(_NV, "joint velocities at the beginning", "rad/s or m/s"),
    "gains": ArrayKind(
        ("nv", "2 nv"),
        "joint torques per unit of deviation from the reference",
        "per rad, rad/s",
    ),
    "q_ref": ArrayKind(("nq",), "reference joint positions", "rad or m"),
    "qd_ref": ArrayKind(_NV, "reference joint velocities", "rad/s or m/s"),
    "A": ArrayKind(("2 nv", "2 nv"), "derivative of the state at the end by the state", "mixed"),
    "B": ArrayKind(("2 nv", "nv"), "derivative of the state at the end by the torques", "mixed"),
    "q_path": ArrayKind(("nq",), "joint positions of the trajectory", "rad or m", path=True),
    "qd_path": ArrayKind(_NV, "joint velocities of the trajectory", "rad/s or m/s", path=True),
    "tau_path": ArrayKind(_NV, "joint torques applied in each step", "N m or N"),
    "q_range": ArrayKind(
        ("nq", 2), "least and largest positions before a state ends", "rad or m", is_fixed=True
    ),
    "base_range": ArrayKind(
        (3,),
        "least and largest height, least cosine of the tilt of the base",
        "mixed",
        is_fixed=True,
    ),
    "cost_terms": ArrayKind((OPEN,), "weights, target and width of each term of a cost", "mixed"),
    "cost": ArrayKind((), "cost of a state", "1"),
    "l_x": ArrayKind(("2 nv",), "derivative of a cost by the state", "mixed"),
    "l_u": ArrayKind(_NV, "derivative of a cost by the torques", "mixed"),
    "l_uu": ArrayKind(_NV, "diagonal of the Hessian of a cost by the torques", "mixed"),
    "l_xx": ArrayKind((OPEN,), "Hessian of a cost by the state: a diagonal, first rows", "mixed"),
    "excess": ArrayKind((), "sum of how far a state is beyond its bounds", "mixed"),
    "ends": ArrayKind((), "steps until a state ended; one more than all if it did not", "1"),
    "h": ArrayKind(_NV, "bias forces, the joint torques of zero accelerations", "N m or N"),
    "articulated": ArrayKind(
        ("bodies", INERTIA_NUMBERS),
        "articulated-body inertias in canonical frames: M (xx xy xz yy yz zz), H by rows, I",
        "kg, kg m, kg m^2",
    ),
    "motions": ArrayKind(
        ("bodies", MOTION_NUMBERS),
        "motions of bodies in canonical frames: w, its derivative, acceleration less gravity",
        "rad/s, rad/s^2, m/s^2",
    ),
    "wrenches": ArrayKind(("bodies", 6), "wrenches that produce the motions of bodies", "N, N m"),
    "carried": ArrayKind(("bodies", 6), "wrenches of the bodies below each body", "N, N m"),
    "C": ArrayKind(_SQUARE, "Coriolis matrix", "N m or N per rad/s or m/s"),
    "M": ArrayKind(_SQUARE, "joint-space inertia", "kg m^2, kg m or kg"),
    "Minv": ArrayKind(_SQUARE, "inverse of the joint-space inertia", "its inverse"),
    "dtau_dq": ArrayKind(
        _SQUARE, "derivative of the torques by the positions", "N m, N per rad or m"
    ),
    "dtau_dqd": ArrayKind(
        _SQUARE, "derivative of the torques by the velocities", "N m, N per rad/s or m/s"
    ),
    "dqdd_dq": ArrayKind(
        _SQUARE, "derivative of the accelerations by the positions", "1/s^2, per m or rad"
    ),
    "dqdd_dqd": ArrayKind(
        _SQUARE, "derivative of the accelerations by the velocities", "1/s, per m or rad"
    ),
    "dqdd_dtau": ArrayKind(_SQUARE, "derivative of the accelerations by the torques", "as Minv"),
    "d2tau_dqdq": ArrayKind(
        _CUBE, "second derivative of the torques, [torque, q, q]", "per square"
    ),
    "d2tau_dqddqd": ArrayKind(
        _CUBE, "second derivative of the torques, [torque, qd, qd]", "per square"
    ),
    "d2tau_dqdqd": ArrayKind(
        _CUBE, "second derivative of the torques, [torque, q, qd]", "per product"
    ),
    "dM_dq": ArrayKind(
        _CUBE, "derivative of the joint-space inertia, [row, column, q]", "as M, per rad or m"
    ),
    "d2qdd_dqdq": ArrayKind(
        _CUBE, "second derivative of the accelerations, [acceleration, q, q]", "per square"
    ),
    "d2qdd_dqddqd": ArrayKind(
        _CUBE, "second derivative of the accelerations, [acceleration, qd, qd]", "per square"
    ),
    "d2qdd_dqdqd": ArrayKind(
        _CUBE, "second derivative of the accelerations, [acceleration, q, qd]", "per product"
    ),
    "d2qdd_dqdtau": ArrayKind(
        _CUBE, "second derivative of the accelerations, [acceleration, q, tau]", "per product"
    ),
    "multipliers": ArrayKind(_NV, "weights of the accelerations", "any"),
    "costate": ArrayKind(("2 nv",), "weights of the state at the end of a step", "any"),
    "H": ArrayKind(
        ("3 nv", "3 nv"), "second derivatives of a weighted sum by (q, qd, tau)", "mixed"
    ),
    "poses": ArrayKind(
        ("frames", 4, 4), "pose of every frame in the world, homogeneous", "1 and m"
    ),
    "pose": ArrayKind((4, 4), "pose of a frame in the world, homogeneous", "1 and m"),
    "J": ArrayKind((6, "nv"), "Jacobian of a frame, rows (v, w)", "m or 1"),
    "dJ_dq": ArrayKind(
        (6, "nv", "nv"), "derivative of J by the positions, [row, column, q]", "as J, per rad or m"
    ),
    "drift": ArrayKind(
        (6,),
        "acceleration (a, wd) of a frame for zero qdd: derivative of J times qd",
        "m/s^2, rad/s^2",
    ),
    "com": ArrayKind((3,), "center of mass in the world", "m"),
    "Jcom": ArrayKind((3, "nv"), "Jacobian of the center of mass", "m or 1"),
    "Ag": ArrayKind((6, "nv"), "centroidal momentum matrix, rows (linear, angular)", "kg m or kg"),
    "dAg": ArrayKind((6, "nv"), "time derivative of Ag", "kg m/s or kg/s"),
    "Ig": ArrayKind((3, 3), "rotational inertia about the center of mass", "kg m^2"),
    "dhg_dq": ArrayKind((6, "nv"), "derivative of hg by the positions", "mixed"),
    "dhgdot_dq": ArrayKind((6, "nv"), "derivative of the rate of hg by the positions", "mixed"),
    "dhgdot_dqd": ArrayKind((6, "nv"), "derivative of the rate of hg by the velocities", "mixed"),
    "hg": ArrayKind((6,), "centroidal momentum, (linear, angular)", "kg m/s, kg m^2/s"),
    "energy": ArrayKind((), "energy", "J"),
    "Y": ArrayKind(
        ("nv", "parameters"), "regressor: tau = Y params", "N m or N per unit of the parameter"
    ),
    "Yp": ArrayKind(("nv", "parameters"), "regressor: M qd = Yp params", "as Y, times s"),
    "Yr": ArrayKind(
        ("nv", "parameters"), "regressor: derivative of M qd = tau + Yr params", "as Y"
    ),
    "dY_dq": ArrayKind(_REGRESSED, "derivative of Y by the positions", "as Y, per rad or m"),
    "dY_dqd": ArrayKind(_REGRESSED, "derivative of Y by the velocities", "as Y, per rad/s, m/s"),
    "dY_dqdd": ArrayKind(
        _REGRESSED, "derivative of Y by the accelerations", "as Y, per rad/s^2, m/s^2"
    ),
    "y": ArrayKind(("parameters",), "regressor: energy = y params", "J per unit of the parameter"),
    "gravity": ArrayKind((3,), "acceleration of free fall in the world", "m/s^2", True),
    "params": ArrayKind(
        ("rows", BODY_PARAMETERS),
        "m, m c, I (xx xy yy xz yz zz) of each link that has a row, about its frame",
        "kg, kg m, kg m^2",
        True,
        numbers="bodies",
    ),
    "armature": ArrayKind(_NV, "added to the diagonal of M", "kg m^2 or kg", True),
    "damping": ArrayKind(_NV, "viscous damping of each velocity", "N m s or N s/m", True),
    "joint_friction": ArrayKind(_NV, "dry friction of each velocity", "N m or N", True),
    "active": ArrayKind(
        ("constraints",), "1 where a constraint holds, 0 elsewhere", "1", True, numbers="0 or 1"
    ),
    "stabilization": ArrayKind(
        ("constraints", 2),
        "gains of each constraint's position and velocity",
        "1/s^2, 1/s",
        True,
        numbers="0 or more",
    ),
    "compliance": ArrayKind(
        ("constraints",),
        "added to the diagonal of the Delassus matrix",
        "as that",
        True,
        numbers="0 or more",
    ),
    "proximal": ArrayKind(
        ("constraints",),
        "proximal term, in mean entries of the Delassus diagonal",
        "1",
        True,
        numbers="0 or more",
    ),
    "restitution": ArrayKind(
        ("constraints",),
        "share of the velocity that an impact turns back",
        "1",
        True,
        numbers="0 to 1",
    ),
    "weights": ArrayKind(
        ("constraints",), "what the squares of forces count", "1", True, numbers="positive"
    ),
    "offsets": ArrayKind(
        ("constraints", 4, 4),
        "pose of each constraint's frame in its link",
        "1 and m",
        True,
        numbers="poses",
    ),
    "friction": ArrayKind(
        ("contacts",), "coefficient of friction of each contact's tangents", "1", True
    ),
    "radii": ArrayKind(("contacts",), "radius of each contact's shape", "m", True),
    "terrain": ArrayKind(
        (OPEN,), "height field, of gridgen.terrain", "m", True, is_fixed=True, numbers="obstacles"
    ),
    "tolerance": ArrayKind(
        (1,), "relative error of the forces at the end", "1", True, numbers="0 or more"
    ),
    "ctrl": ArrayKind(("actuators",), "control of each actuator", "as the actuator's", True),
    "actuator_gains": ArrayKind(
        ("actuators", 6),
        "gain and bias of each actuator, three terms each: constant, of length, of its rate",
        "as the actuator's",
        True,
    ),
    "gear": ArrayKind(
        ("actuators",), "length of each actuator per position of its joint", "any", True
    ),
    "stiffness": ArrayKind(
        ("springs",), "stiffness of each spring of a joint", "N m/rad or N/m", True
    ),
    "G": ArrayKind(
        ("constraint_rows", "constraint_rows"),
        "Delassus matrix, J Minv J^T of all constraints",
        "1/kg, 1/(kg m^2)",
    ),
    "c": ArrayKind(("constraint_rows",), "distance of the constraints' rows from 0", "m, rad"),
    "Jc": ArrayKind(("constraint_rows", "nv"), "Jacobian of the constraints", "m or 1"),
    "Lambda": ArrayKind((6, 6), "operational-space inertia, rows (f, n)", "kg, kg m, kg m^2"),
    "Lambda_point": ArrayKind((3, 3), "operational-space inertia of a point", "kg"),
    "Jbar": ArrayKind(("nv", 6), "dynamically consistent inverse of J", "1/m or 1"),
    "bias": ArrayKind((6,), "wrench (f, n) that holds a frame at zero acceleration", "N, N m"),
    "forces": ArrayKind(
        ("constraint_rows",), "forces of the constraints in their rows' order", "N, N m"
    ),
    "contact_forces": ArrayKind(
        ("contact_points", 3), "force on each point that may touch the ground, in world axes", "N"
    ),
    "sensordata": ArrayKind(("sensor_numbers",), "numbers of the sensors, in their order", "mixed"),
    "torque_error": ArrayKind((), "error of the joint torques, relative", "1"),
    "impulses": ArrayKind(
        ("constraint_rows",), "impulses of the constraints in their rows' order", "N s, N m s"
    ),
    "dforces_dq": ArrayKind(
        ("constraint_rows", "nv"), "derivative of the forces by the positions", "per rad or m"
    ),
    "dforces_dqd": ArrayKind(
        ("constraint_rows", "nv"), "derivative of the forces by the velocities", "per rad/s or m/s"
    ),
    "dforces_dtau": ArrayKind(
        ("constraint_rows", "nv"), "derivative of the forces by the torques", "1/m or 1"
    ),
    "f_ext": ArrayKind(
        ("bodies", 6), "wrench on each body at its link frame, in its axes", "N, N m"
    ),
    "offset": ArrayKind(
        (4, 4), "pose of a tool in the frame, homogeneous", "1 and m", True, numbers="poses"
    ),
    "rest": ArrayKind(("nq",), "rest posture", "rad or m"),
    "targets": ArrayKind(
        (4, 4), "target pose of each frame in the world, homogeneous", "1 and m", numbers="poses"
    ),
    "pose_weights": ArrayKind(
        (2,), "factors of the errors of each frame's pose", "1", True, numbers="factors"
    ),
    "settings": ArrayKind((7,), "tolerances, counts, gain and damping of a search", "mixed", True),
    "progress": ArrayKind((3,), "costs of the last two iterations, and their number", "1"),
    "progress_next": ArrayKind((3,), "progress after the iteration", "1"),
    "residual": ArrayKind((2,), "largest position and orientation error of a frame", "m, rad"),
    "outcome": ArrayKind((), "1 for a solution, -1 for the end of a search, otherwise 0", "1"),
    "success": ArrayKind((), "1 for a solution, otherwise 0", "1"),
    "world": ArrayKind(
        (OPEN,), "obstacles, of gridgen.world", "m", True, is_fixed=True, numbers="obstacles"
    ),
    "margin": ArrayKind((), "least distance", "m", True, is_fixed=True),
    "temperature": ArrayKind(
        (), "softness of a soft minimum", "m", True, is_fixed=True, numbers="softness"
    ),
    "clearance": ArrayKind((), "smallest signed distance", "m"),
    "pair": ArrayKind((), "index of the nearest pair of links", "1"),
    "sphere": ArrayKind((), "index of the nearest sphere", "1"),
    "free": ArrayKind((), "1 without a collision, otherwise 0", "1"),
    "base_velocity": ArrayKind((6,), "spatial velocity of the base", "m/s, rad/s", True),
    "base_acceleration": ArrayKind((6,), "derivative of the base velocity", "m/s^2, rad/s^2", True),
}


def cotangent(name: str) -> str:
    """Return the name of the cotangent of an array."""
    return f"{name}_bar"


def tangent(name: str) -> str:
    """Return the name of the tangent of an array."""
    return f"{name}_tangent"


def _changes(arrays: Mapping[str, ArrayKind]) -> dict[str, ArrayKind]:
    """Return the cotangents and the tangents of arrays."""
    words = (cotangent, "derivatives of a number by {}"), (tangent, "derivatives of {} by a number")
    return {
        called(name): replace(
            kind, text=text.format(name), unit="", shared=False, is_change=True, numbers=""
        )
        for called, text in words
        for name, kind in arrays.items()
    }


_FIRST = _changes(ARRAYS)
# Functions of first-order changes have derivatives too: hence changes of second order.
ARRAYS |= {**_FIRST, **_changes(_FIRST)}


@dataclass(frozen=True)
class OptionalInput:
    """An input that only some variants of a kernel read.

    A kernel with more inputs than a call reads their defaults.

    Attributes:
        arrays: arguments that it adds; each defaults to zero, ``offset`` to the identity.
        text:   description in titles of functions.
    """

    arrays: tuple[str, ...]
    text: str


#: All optional inputs, in the order of arguments.
OPTIONAL_INPUTS: dict[str, OptionalInput] = {
    "f_ext": OptionalInput(("f_ext",), "external wrenches"),
    "base_motion": OptionalInput(("base_velocity", "base_acceleration"), "a moving base"),
    "offset": OptionalInput(("offset",), "an offset of the frame"),
}

#: Arrays of the feedback controller of a rollout: gains, reference positions and velocities.
FEEDBACK = ("gains", "q_ref", "qd_ref")
#: Bounds at which the states of a rollout end.
BOUNDS = ("q_range", "base_range", "margin")
#: Arrays of a rollout with time as the single leading axis, as NumPy broadcasts to (B, T, ...).
TIME_FIRST = ("tau", "ctrl", *FEEDBACK)
#: Parameters of a robot that may be inputs: kernels that depend on them then read them.
OWN_PARAMETERS = ("params", "armature", "damping", "joint_friction")
#: Parameters that kernels with constraints read.
CONSTRAINT_INPUTS = (
    *("active", "stabilization", "compliance", "proximal", "restitution", "weights", "offsets"),
)
#: Parameters that kernels with contacts read.
CONTACT_INPUTS = ("friction", "radii", "tolerance", "terrain")
#: Parameters that kernels with actuators read.
ACTUATOR_INPUTS = ("ctrl", "actuator_gains", "gear", "stiffness")
#: Inputs whose defaults depend on the robot.
PARAMETERS = (*OWN_PARAMETERS, *CONSTRAINT_INPUTS, *CONTACT_INPUTS, *ACTUATOR_INPUTS)
#: Default of ``proximal``: the square root of the unit roundoff. A smaller one amplifies the
#: rounding errors of redundant constraints, a larger one needs more iterations.
PROXIMAL = {"float32": 2.0**-11.5, "float64": 2.0**-26}
#: Default of ``tolerance``.
TOLERANCE = {"float32": 1e-4, "float64": 1e-10}
#: Defaults that depend on the type of numbers.
BY_PRECISION = {"proximal": PROXIMAL, "tolerance": TOLERANCE}

#: Default arrays that a rollout is differentiated with respect to.
BEGINNING_AND_TORQUES = ("q0", "qd0", "tau")
#: Parameters that are constant along a rollout.
CONSTANT_PARAMETERS = (*OWN_PARAMETERS, *CONTACT_INPUTS, "offsets", *ACTUATOR_INPUTS[1:])
_CONSTANT = ("q0", "qd0", "dt", *BOUNDS, "ends", *CONSTANT_PARAMETERS)
#: Arrays of a rollout that are constant in time; all others may have a time axis.
CONSTANT_IN_TIME = (*_CONSTANT, *map(cotangent, _CONSTANT))

#: Default of ``gravity`` [m/s^2].
STANDARD_GRAVITY = (0.0, 0.0, -9.81)
#: Inputs with a default; optional inputs except ``offset`` default to zero.
DEFAULTED = {
    "gravity",
    *PARAMETERS,
    *(name for one in OPTIONAL_INPUTS.values() for name in one.arrays),
}


def configurations(names: Iterable[str]) -> list[str]:
    """Return the names of configurations; their quaternions must have unit norm."""
    return [name for name in names if ARRAYS[name].is_configuration]


def shape_of(name: str, robot: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of an array for one state.

    Args:
        name:  name of the array.
        robot: extents of the robot by name: ``nq``, ``nv``, and those that the shape requires of
               ``bodies``, ``frames``, ``parameters``, ``rows``, ``constraints``,
               ``constraint_rows``, ``contacts``, ``contact_points``, ``actuators`` and
               ``sensor_numbers``.
    """
    shape = ARRAYS[name].shape
    robot = {**robot, "2 nv": 2 * robot["nv"], "3 nv": 3 * robot["nv"]}
    return tuple(robot[extent] if isinstance(extent, str) else extent for extent in shape)


def extents_of(robot: Any) -> dict[str, int]:
    """Return the extents of a ``Robot``, or of its record, that shapes of arguments require."""
    names = {"bodies": robot.body_names, "rows": robot.parameter_names}
    names |= {"constraints": robot.constraint_names, "contacts": robot.contact_names}
    names["actuators"] = robot.actuator_names
    return {"nq": robot.nq, "nv": robot.nv, **{name: len(own) for name, own in names.items()}}


def closed(shape: tuple[int, ...], there: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of one state with the extents of an array in place of ``OPEN``."""
    if OPEN not in shape or len(there) < len(shape):
        return shape
    own = there[len(there) - len(shape) :]
    return tuple(n if extent == OPEN else extent for extent, n in zip(shape, own, strict=True))
