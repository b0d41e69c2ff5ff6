"""Configurations to begin with, and whether their quaternions are of unit norm.

Steps between them are generated code (``gridgen.dynamics.configurations``).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridgen.errors import OptionError, QuaternionError
from gridgen.naming import show_value
from gridgen.runtime.arrays.libraries import is_torch_generator

FloatArray = npt.NDArray[np.float64]

#: A quaternion whose norm is off by more is a mistake, not rounding of float32 or of a few steps.
NORM_TOLERANCE = 1e-3

#: A quaternion whose squared norm is off by no more is used as it is: it has been normalized in
#: its own type. In float32 that leaves up to 4e-7, from the rounding of four components and of the
#: norm. In float64 it leaves 1e-15; the rest is room for some thousand products of unit
#: quaternions, and changes no result by more than the 1e-12 that results are good for. As in
#: gridgen_call.h.
ROUNDING = {np.dtype("float32"): 1e-6, np.dtype("float64"): 1e-12}

# States examined at once: what that takes of memory does not grow with the batch.
_STATES = 1 << 16


@dataclass(frozen=True)
class FreeJoint:
    """A joint that moves freely.

    Attributes:
        name:       its name.
        q_index:    its first coordinate.
        v_index:    its first velocity.
        quaternion: where its quaternion is in q.
    """

    name: str
    q_index: int
    v_index: int
    quaternion: slice


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


def configuration_space(robot: Any) -> ConfigurationSpace:
    """Return the configuration space of a ``RobotRecord``; followers are no part of it."""
    joints = zip(
        robot.joint_names,
        robot.angles,
        robot.quaternions,
        robot.q_indices,
        robot.v_indices,
        robot.mimics,
        strict=True,
    )
    free: list[FreeJoint] = []
    scalar: list[tuple[int, int, bool]] = []
    for name, is_angle, quaternion, q_index, v_index, mimics in joints:
        if quaternion is not None:
            start = q_index + quaternion
            free.append(FreeJoint(name, q_index, v_index, slice(start, start + 4)))
        elif not mimics:
            scalar.append((q_index, v_index, is_angle))
    limits = robot.lower_limits, robot.upper_limits
    return ConfigurationSpace(robot.name, robot.nq, robot.nv, tuple(free), tuple(scalar), *limits)


# -- the functions ----------------------------------------------------------------------------


def neutral(space: ConfigurationSpace) -> FloatArray:
    """Return the configuration (nq,) of zeros and unit quaternions; limits do not count."""
    q = np.zeros(space.nq)
    for joint in space.free:
        q[joint.quaternion.stop - 1] = 1.0
    return q


def random_configuration(space: ConfigurationSpace, rng: Any, n: int) -> FloatArray:
    """Return ``n`` random configurations (n, nq).

    Joints are uniform between their limits; where there is none, within pi [rad] or 1 [m] of zero,
    or of the limit on the other side. Orientations of free joints are uniform over all rotations.

    Args:
        space: the robot's.
        rng:   the source of randomness, ``numpy.random.Generator`` or ``torch.Generator``.
        n:     how many.

    Raises:
        OptionError: ``rng`` is no generator, or ``n`` no count.
    """
    draw = _TorchDraws(rng) if is_torch_generator(rng) else rng
    if not isinstance(draw, (np.random.Generator, _TorchDraws)):
        raise OptionError(
            f"rng is of type {type(rng).__name__}; give a generator: "
            "numpy.random.default_rng(seed), or torch.Generator().manual_seed(seed)"
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
    q: FloatArray = draw.uniform(low, high, (n, space.nq))
    for joint in space.free:
        turn = draw.normal(size=(n, 4))  # the direction of a normal vector is uniform
        turn /= np.linalg.norm(turn, axis=1, keepdims=True)
        q[:, joint.quaternion] = turn
    return q


class _TorchDraws:
    """Numbers drawn from a generator of PyTorch as NumPy's generators draw them."""

    def __init__(self, rng: Any) -> None:
        torch: Any = sys.modules["torch"]
        self._kind = {"generator": rng, "device": rng.device, "dtype": torch.float64}
        self._torch = torch

    def uniform(self, low: FloatArray, high: FloatArray, size: tuple[int, ...]) -> FloatArray:
        """Return numbers between limits."""
        share: FloatArray = self._torch.rand(size, **self._kind).cpu().numpy()
        return low + (high - low) * share

    def normal(self, size: tuple[int, ...]) -> FloatArray:
        """Return numbers of zero mean and unit variance."""
        found: FloatArray = self._torch.randn(size, **self._kind).cpu().numpy()
        return found


def needs_normalizing(space: ConfigurationSpace, q: npt.NDArray[Any], name: str = "q") -> bool:
    """Tell whether a quaternion is off unit norm by more than rounding.

    Args:
        space: the robot's.
        q: (..., nq) configurations, float32 or float64, which are examined as such.
        name: what the caller knows them as.

    Raises:
        QuaternionError: if a norm is off by more than 1e-3.
    """
    states = q if q.ndim == 2 else q.reshape(-1, space.nq)
    found = False
    for begin in range(0, len(states), _STATES):
        for joint in space.free:
            turn = states[begin : begin + _STATES, joint.quaternion]
            off = _is_off(turn)
            if off.any():
                _norms(space, joint, turn, begin, name)
                found = True
    return found


def normalize(space: ConfigurationSpace, q: npt.NDArray[Any]) -> None:
    """Bring quaternions that are off unit norm by more than rounding to it, in place."""
    states = q if q.ndim == 2 else q.reshape(-1, space.nq)  # of a copy, which lies in rows
    for joint in space.free:
        turn = states[:, joint.quaternion]
        off = _is_off(turn)
        with np.errstate(invalid="ignore"):  # infinity becomes NaN
            turn[off] /= np.linalg.norm(turn[off].astype(np.float64), axis=1, keepdims=True)


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
        first = joint.quaternion.start
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
        off: npt.NDArray[np.bool_] = np.abs(square - 1.0) > ROUNDING[turn.dtype]
    return off
