"""Configurations that are not vectors: steps, differences and samples where nq != nv.

A free joint's position is a point of SE(3), seven numbers x y z qx qy qz qw; its velocity is the
body's own twist, six numbers (v, w). ``integrate`` moves along a constant twist for one unit of
time (the exponential map), ``difference`` is its inverse. Conventions are Pinocchio's, but for a
``continuous`` joint, which is one angle here, neither wrapped nor split into cosine and sine.

NumPy, over any number of states at once, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridgen.errors import OptionError, QuaternionError, ShapeError
from gridgen.naming import show_value
from gridgen.runtime import rotations

FloatArray = npt.NDArray[np.float64]

#: A quaternion whose norm is off by more is a mistake, not rounding of float32 or of a few steps.
NORM_TOLERANCE = 1e-3

# A quaternion whose squared norm is off by no more is used as it is: it has been normalised in its
# own type. In float32 that leaves up to 4e-7, from the rounding of four components and of the norm.
# In float64 it leaves 1e-15; the rest is room for some thousand products of unit quaternions, and
# changes no result by more than the 1e-12 that results are good for. As in gridgen_call.h.
_ROUNDING = {np.dtype("float32"): 1e-6, np.dtype("float64"): 1e-12}

# States examined at once: what that takes of memory does not grow with the batch.
_STATES = 1 << 16


@dataclass(frozen=True)
class FreeJoint:
    """A joint that moves freely: its name, its first coordinate, its first velocity."""

    name: str
    q_index: int
    v_index: int

    @property
    def quaternion(self) -> slice:
        """Where its quaternion is in q."""
        return slice(self.q_index + 3, self.q_index + 7)


@dataclass(frozen=True)
class ConfigurationSpace:
    """What the group of a robot's configurations is made of.

    Attributes:
        robot:  the robot's name, for messages.
        nq:     number of positions.
        nv:     number of velocities.
        free:   the free joints.
        scalar: (position, velocity, whether it is an angle) of every other joint.
        lower:  (nq) lower limits, -inf where there is none.
        upper:  (nq) upper limits, inf where there is none.
    """

    robot: str
    nq: int
    nv: int
    free: tuple[FreeJoint, ...]
    scalar: tuple[tuple[int, int, bool], ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]


def configuration_space(model: Mapping[str, Any]) -> ConfigurationSpace:
    """Return the configuration space that ``model.json`` describes; followers are no part of it."""
    joints = zip(
        model["joint_names"],
        model["joint_kinds"],
        model["q_indices"],
        model["v_indices"],
        model["mimics"],
        strict=True,
    )
    free: list[FreeJoint] = []
    scalar: list[tuple[int, int, bool]] = []
    for name, kind, q_index, v_index, mimics in joints:
        if kind == "free":
            free.append(FreeJoint(name, q_index, v_index))
        elif not mimics:
            scalar.append((q_index, v_index, kind == "revolute"))
    lower, upper = (
        tuple(sign * math.inf if value is None else float(value) for value in model[key])
        for key, sign in (("lower_limits", -1.0), ("upper_limits", 1.0))
    )
    return ConfigurationSpace(
        model["name"], model["nq"], model["nv"], tuple(free), tuple(scalar), lower, upper
    )


# -- the functions ----------------------------------------------------------------------------


def integrate(space: ConfigurationSpace, q: npt.ArrayLike, v: npt.ArrayLike) -> FloatArray:
    """Return the configurations reached from ``q`` with the velocities ``v`` in unit time.

    Args:
        space: the robot's.
        q: (B, nq) or (nq,) configurations; a quaternion within 1e-3 of unit norm is normalised.
        v: (B, nv) or (nv,) velocities times the time step [rad or m].

    Returns:
        (B, nq) or (nq,); a quaternion keeps to the half of the sphere that it starts in.

    Raises:
        ShapeError: if a shape is wrong.
        QuaternionError: if a quaternion is not a unit quaternion.
    """
    start, step, single = _pair(space, ("q", q, space.nq), ("v", v, space.nv))
    result = start.copy()
    for q_index, v_index, _ in space.scalar:
        result[:, q_index] += step[:, v_index]
    for joint in space.free:
        point, turn = _position(space, joint, start)
        slide = step[:, joint.v_index : joint.v_index + 3]
        spin = step[:, joint.v_index + 3 : joint.v_index + 6]
        end = rotations.multiply(turn, rotations.exponential(spin))
        # Both signs are the same rotation; the nearer one keeps trajectories continuous.
        end *= np.where(np.sum(end * turn, axis=1, keepdims=True) < 0.0, -1.0, 1.0)
        first = joint.q_index
        result[:, first : first + 3] = point + rotations.rotate(
            turn, rotations.translation(spin, slide)
        )
        result[:, joint.quaternion] = end / np.linalg.norm(end, axis=1, keepdims=True)
    return result[0] if single else result


def difference(space: ConfigurationSpace, q0: npt.ArrayLike, q1: npt.ArrayLike) -> FloatArray:
    """Return the velocities that lead from ``q0`` to ``q1`` in unit time.

    Args:
        space: the robot's.
        q0: (B, nq) or (nq,) configurations.
        q1: the same.

    Returns:
        (B, nv) or (nv,), with turns of free joints of at most pi; ``integrate(q0, result)`` is
        ``q1`` up to the sign of quaternions.

    Raises:
        ShapeError: if a shape is wrong.
        QuaternionError: if a quaternion is not a unit quaternion.
    """
    start, end, single = _pair(space, ("q0", q0, space.nq), ("q1", q1, space.nq))
    result = np.zeros((len(start), space.nv))
    for q_index, v_index, _ in space.scalar:
        result[:, v_index] = end[:, q_index] - start[:, q_index]
    for joint in space.free:
        point, turn = _position(space, joint, start)
        target, end_turn = _position(space, joint, end)
        back = turn * (-1.0, -1.0, -1.0, 1.0)
        spin = rotations.logarithm(rotations.multiply(back, end_turn))
        slide = rotations.twist(spin, rotations.rotate(back, target - point))
        result[:, joint.v_index : joint.v_index + 6] = np.concatenate((slide, spin), axis=1)
    return result[0] if single else result


def neutral(space: ConfigurationSpace) -> FloatArray:
    """Return the configuration (nq,) of zeros and unit quaternions; limits do not count."""
    q = np.zeros(space.nq)
    for joint in space.free:
        q[joint.q_index + 6] = 1.0
    return q


def random_configuration(space: ConfigurationSpace, rng: np.random.Generator, n: int) -> FloatArray:
    """Return ``n`` random configurations (n, nq).

    Joints are uniform between their limits; where there is none, within pi [rad] or 1 [m] of zero,
    or of the limit on the other side. Orientations of free joints are uniform over all rotations.

    Args:
        space: the robot's.
        rng:   the source of randomness.
        n:     how many.

    Raises:
        OptionError: ``rng`` is no generator, or ``n`` no count.
    """
    if not isinstance(rng, np.random.Generator):
        raise OptionError(
            f"rng is of type {type(rng).__name__}; give a generator: numpy.random.default_rng(seed)"
        )
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 0:
        raise OptionError(
            f"n is {show_value(n)}; give the number of configurations, an integer >= 0"
        )
    reach = np.ones(space.nq)
    for q_index, _, angular in space.scalar:
        reach[q_index] = math.pi if angular else 1.0
    lower, upper = np.array(space.lower), np.array(space.upper)
    low = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper, 0.0) - reach)
    high = np.where(np.isfinite(upper), upper, np.where(np.isfinite(lower), lower, 0.0) + reach)
    q: FloatArray = rng.uniform(low, high, (n, space.nq))
    for joint in space.free:
        turn = rng.normal(size=(n, 4))  # the direction of a normal vector is uniform
        turn /= np.linalg.norm(turn, axis=1, keepdims=True)
        q[:, joint.quaternion] = turn
    return q


def needs_normalising(space: ConfigurationSpace, q: npt.NDArray[Any], name: str = "q") -> bool:
    """Tell whether a quaternion is off unit norm by more than rounding.

    Args:
        space: the robot's.
        q: (B, nq) or (nq,) configurations, float32 or float64, which are examined as such.
        name: what the caller knows them as.

    Raises:
        QuaternionError: if a norm is off by more than 1e-3.
    """
    states = q[None] if q.ndim == 1 else q
    found = False
    for begin in range(0, len(states), _STATES):
        for joint in space.free:
            turn = states[begin : begin + _STATES, joint.quaternion]
            off = _is_off(turn)
            if off.any():
                _norms(space, joint, turn, begin, name)
                found = True
    return found


def normalise(space: ConfigurationSpace, q: npt.NDArray[Any]) -> None:
    """Bring quaternions that are off unit norm by more than rounding to it, in place."""
    states = q[None] if q.ndim == 1 else q
    for joint in space.free:
        turn = states[:, joint.quaternion]
        off = _is_off(turn)
        with np.errstate(invalid="ignore"):  # infinity becomes NaN
            turn[off] /= np.linalg.norm(turn[off].astype(np.float64), axis=1, keepdims=True)


# -- arguments --------------------------------------------------------------------------------


def _pair(
    space: ConfigurationSpace,
    a: tuple[str, npt.ArrayLike, int],
    b: tuple[str, npt.ArrayLike, int],
) -> tuple[FloatArray, FloatArray, bool]:
    """Return two arguments over the same states, and whether both are a single state."""
    (first, one), (second, other) = _states(space, *a), _states(space, *b)
    if len(first) != len(second) and not (one or other):
        raise ShapeError(
            f"{a[0]} holds {len(first)} states, {b[0]} {len(second)}: give as many of both"
        )
    count = len(second) if one else len(first)
    return (
        np.broadcast_to(first, (count, first.shape[1])),
        np.broadcast_to(second, (count, second.shape[1])),
        one and other,
    )


def _states(
    space: ConfigurationSpace, name: str, value: npt.ArrayLike, width: int
) -> tuple[FloatArray, bool]:
    """Return an argument as (B, width), and whether it is a single state."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim not in (1, 2) or array.shape[-1] != width:
        raise ShapeError(
            f"{name} has shape {array.shape}; {space.robot} needs (B, {width}) or ({width},)"
        )
    return array.reshape(-1, width), array.ndim == 1


def _position(
    space: ConfigurationSpace, joint: FreeJoint, q: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the points and the unit quaternions of a free joint."""
    turn = q[:, joint.quaternion]
    norm = _norms(space, joint, turn)
    return q[:, joint.q_index : joint.q_index + 3], turn / norm[:, None]


def _norms(
    space: ConfigurationSpace,
    joint: FreeJoint,
    turn: npt.NDArray[Any],
    begin: int = 0,
    name: str = "q",
) -> FloatArray:
    """Return the norms of quaternions (B, 4), none of which is too far from 1.

    NaN and infinity are let pass, as in any other coordinate: they reach the results.
    """
    with np.errstate(over="ignore"):
        norm: FloatArray = np.linalg.norm(turn.astype(np.float64), axis=1)
        wrong = np.isfinite(turn).all(axis=1) & ~(np.abs(norm - 1.0) <= NORM_TOLERANCE)
    if wrong.any():
        state = int(np.argmax(wrong))
        first = joint.q_index + 3
        raise QuaternionError(
            f"{space.robot}: state {begin + state}: the quaternion of joint {joint.name!a} has "
            f"norm {norm[state]:.6g}, which is not within {NORM_TOLERANCE:g} of 1; its order is "
            f"(x, y, z, w), at {name}[{first}:{first + 4}]: divide it by its norm if that is what "
            "is meant"
        )
    return norm


def _is_off(turn: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell which quaternions (B, 4) are off unit norm by more than rounding; NaN is not."""
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.einsum("ij,ij->i", turn, turn)
        off: npt.NDArray[np.bool_] = np.abs(square - 1.0) > _ROUNDING[turn.dtype]
    return off
