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

from gridgen.errors import GridGenError, ShapeError

FloatArray = npt.NDArray[np.float64]

#: A quaternion whose norm is off by more is a mistake, not rounding of float32 or of a few steps.
NORM_TOLERANCE = 1e-3

# Below this angle [rad] the closed forms lose digits to cancellation; five terms of a series serve.
_SMALL_ANGLE = 0.25


class QuaternionError(GridGenError, ValueError):
    """A free joint's quaternion is not a unit quaternion."""


@dataclass(frozen=True)
class FreeJoint:
    """A joint that moves freely: its name, its first coordinate, its first velocity."""

    name: str
    q_index: int
    v_index: int


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
        end = _multiply(turn, _exponential(spin))
        # Both signs are the same rotation; the nearer one keeps trajectories continuous.
        end *= np.where(np.sum(end * turn, axis=1, keepdims=True) < 0.0, -1.0, 1.0)
        first = joint.q_index
        result[:, first : first + 3] = point + _rotate(turn, _translation(spin, slide))
        result[:, first + 3 : first + 7] = end / np.linalg.norm(end, axis=1, keepdims=True)
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
        spin = _logarithm(_multiply(back, end_turn))
        slide = _twist(spin, _rotate(back, target - point))
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
    """
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
        q[:, joint.q_index + 3 : joint.q_index + 7] = turn
    return q


def normalised(space: ConfigurationSpace, q: npt.ArrayLike) -> FloatArray:
    """Return ``q`` with every quaternion at unit norm.

    Args:
        space: the robot's.
        q: (B, nq) or (nq,) configurations.

    Raises:
        ShapeError: if the shape is wrong.
        QuaternionError: if a norm is off by more than 1e-3.
    """
    states, single = _states(space, "q", q, space.nq)
    result = states.copy()
    for joint in space.free:
        result[:, joint.q_index + 3 : joint.q_index + 7] = _position(space, joint, states)[1]
    return result[0] if single else result


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
    turn = q[:, joint.q_index + 3 : joint.q_index + 7]
    norm = np.linalg.norm(turn, axis=1)
    wrong = np.flatnonzero(~(np.abs(norm - 1.0) <= NORM_TOLERANCE))
    if wrong.size:
        state = int(wrong[0])
        raise QuaternionError(
            f"{space.robot}: state {state}: the quaternion of joint {joint.name!a} has norm "
            f"{norm[state]:.6g}, which is not within {NORM_TOLERANCE:g} of 1; its order is "
            f"(x, y, z, w), at q[{joint.q_index + 3}:{joint.q_index + 7}]"
        )
    return q[:, joint.q_index : joint.q_index + 3], turn / norm[:, None]


# -- rotations --------------------------------------------------------------------------------


def _multiply(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the products of quaternions (B, 4)."""
    (u, s), (v, t) = (a[:, :3], a[:, 3:]), (b[:, :3], b[:, 3:])
    vector = s * v + t * u + np.cross(u, v)
    return np.concatenate((vector, s * t - np.sum(u * v, axis=1, keepdims=True)), axis=1)


def _rotate(turn: FloatArray, a: FloatArray) -> FloatArray:
    """Return vectors (B, 3) turned by unit quaternions."""
    across = 2.0 * np.cross(turn[:, :3], a)
    turned: FloatArray = a + turn[:, 3:] * across + np.cross(turn[:, :3], across)
    return turned


def _exponential(w: FloatArray) -> FloatArray:
    """Return the unit quaternions of rotation vectors (B, 3)."""
    half = 0.5 * np.linalg.norm(w, axis=1, keepdims=True)
    return np.concatenate((0.5 * np.sinc(half / np.pi) * w, np.cos(half)), axis=1)


def _logarithm(turn: FloatArray) -> FloatArray:
    """Return the rotation vectors, of at most pi, of unit quaternions (B, 4)."""
    turn = np.where(turn[:, 3:] < 0.0, -turn, turn)
    sine = np.linalg.norm(turn[:, :3], axis=1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, turn[:, 3:])
    # Where the sine vanishes, angle / sine is 2.
    return np.where(sine > 0.0, angle / np.where(sine > 0.0, sine, 1.0), 2.0) * turn[:, :3]


def _translation(w: FloatArray, v: FloatArray) -> FloatArray:
    """Return the displacement of a body that moves with the constant twist (v, w) of its own."""
    angle = np.linalg.norm(w, axis=1, keepdims=True)
    b = 0.5 * np.sinc(0.5 * angle / np.pi) ** 2  # (1 - cos) / angle^2
    large = np.where(angle > _SMALL_ANGLE, angle, 1.0)
    c = np.where(
        angle > _SMALL_ANGLE,
        (large - np.sin(large)) / large**3,
        _polynomial(angle**2, (1 / 6, -1 / 120, 1 / 5040, -1 / 362880, 1 / 39916800)),
    )
    turned = np.cross(w, v)
    displacement: FloatArray = v + b * turned + c * np.cross(w, turned)
    return displacement


def _twist(w: FloatArray, p: FloatArray) -> FloatArray:
    """Return the linear velocity v with ``_translation(w, v) = p``."""
    angle = np.linalg.norm(w, axis=1, keepdims=True)
    half = 0.5 * np.where(angle > _SMALL_ANGLE, angle, 1.0)
    c = np.where(
        angle > _SMALL_ANGLE,
        (1.0 - half * np.cos(half) / np.sin(half)) / (4.0 * half**2),
        _polynomial(angle**2, (1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160)),
    )
    turned = np.cross(w, p)
    velocity: FloatArray = p - 0.5 * turned + c * np.cross(w, turned)
    return velocity


def _polynomial(x: FloatArray, coefficients: tuple[float, ...]) -> FloatArray:
    """Return the sum of coefficients times powers of ``x``, the constant first."""
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total
