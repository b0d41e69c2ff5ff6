"""The array arguments of a robot's functions: contents, units, shapes."""

from __future__ import annotations

import math

from gridgen.dynamics.hybrid import INERTIA_NUMBERS
from gridgen.model.tree import KinematicTree

#: Inputs of which one state may serve a whole batch.
SHARED = ("gravity", "base_velocity", "base_acceleration")

#: Every array argument: what it holds, and its unit. Spatial vectors have the linear part first.
ARRAYS: dict[str, tuple[str, str]] = {
    "q": ("joint positions", "rad or m"),
    "qd": ("joint velocities", "rad/s or m/s"),
    "qdd": ("joint accelerations", "rad/s^2 or m/s^2"),
    "tau": ("joint efforts", "N m or N"),
    "h": ("bias efforts, those of zero joint accelerations", "N m or N"),
    "articulated": (
        "articulated inertias in canonical frames: M (xx xy xz yy yz zz), H by rows, I",
        "kg, kg m, kg m^2",
    ),
    "M": ("joint-space inertia", "kg m^2, kg m or kg"),
    "Minv": ("inverse of the joint-space inertia", "its inverse"),
    "dtau_dq": ("derivative of the efforts by the positions", "N m, N per rad or m"),
    "dtau_dqd": ("derivative of the efforts by the velocities", "N m, N per rad/s or m/s"),
    "dqdd_dq": ("derivative of the accelerations by the positions", "1/s^2, per m or rad"),
    "dqdd_dqd": ("derivative of the accelerations by the velocities", "1/s, per m or rad"),
    "dqdd_dtau": ("derivative of the accelerations by the efforts", "as Minv"),
    "d2tau_dqdq": ("second derivative of the efforts, [effort, q, q]", "per square"),
    "d2tau_dqddqd": ("second derivative of the efforts, [effort, qd, qd]", "per square"),
    "d2tau_dqdqd": ("second derivative of the efforts, [effort, q, qd]", "per product"),
    "dM_dq": ("derivative of the joint-space inertia, [row, column, q]", "as M, per rad or m"),
    "poses": ("pose of every frame in the base, homogeneous", "1 and m"),
    "J": ("Jacobian of a frame, rows (v, w)", "m or 1"),
    "drift": (
        "acceleration (a, wd) of a frame for zero qdd: derivative of J times qd",
        "m/s^2, rad/s^2",
    ),
    "com": ("centre of mass in the base frame", "m"),
    "Jcom": ("Jacobian of the centre of mass", "m or 1"),
    "energy": ("energy", "J"),
    "gravity": ("acceleration of free fall in the base frame", "m/s^2"),
    "f_ext": ("wrench on each body at its link frame, in its axes", "N, N m"),
    "base_velocity": ("spatial velocity of the base", "m/s, rad/s"),
    "base_acceleration": ("derivative of the base velocity", "m/s^2, rad/s^2"),
}


_CUBES = ("d2tau_dqdq", "d2tau_dqddqd", "d2tau_dqdqd", "dM_dq")
_SQUARE = ("M", "Minv", "dtau_dq", "dtau_dqd", "dqdd_dq", "dqdd_dqd", "dqdd_dtau")


def array_shape(name: str, tree: KinematicTree) -> tuple[int, ...]:
    """Return the shape of an array argument for one state."""
    nv, bodies = tree.nv, len(tree.bodies)
    shapes: dict[str, tuple[int, ...]] = {
        "q": (tree.nq,),
        **dict.fromkeys(_SQUARE, (nv, nv)),
        **dict.fromkeys(_CUBES, (nv, nv, nv)),
        "poses": (len(tree.frames), 4, 4),
        "J": (6, nv),
        "drift": (6,),
        "com": (3,),
        "Jcom": (3, nv),
        "energy": (),
        "articulated": (bodies, INERTIA_NUMBERS),
        "f_ext": (bodies, 6),
        "gravity": (3,),
        "base_velocity": (6,),
        "base_acceleration": (6,),
    }
    return shapes.get(name, (nv,))


def array_size(name: str, tree: KinematicTree) -> int:
    """Return the number of elements of an array argument for one state."""
    return math.prod(array_shape(name, tree))
