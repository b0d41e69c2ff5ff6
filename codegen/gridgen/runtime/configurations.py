"""Initial configurations, validation of their quaternions, and collision tests of paths.

Generated code computes steps between configurations (``gridgen.dynamics.configurations``).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridgen.errors import OptionError, QuaternionError, ShapeError
from gridgen.functions.types import Array
from gridgen.naming import one_line, show_value
from gridgen.runtime.arrays.libraries import is_immutable, is_torch_generator

FloatArray = npt.NDArray[np.float64]

#: Largest error of a quaternion's norm from rounding or from a few steps; more is a mistake.
NORM_TOLERANCE = 1e-3

#: Quaternions with a smaller error of the squared norm are used unchanged: they were normalized in
#: their own type. In float32 the error is up to 4e-7, from the rounding of four components and of
#: the norm. In float64 it is 1e-15; the rest allows some thousand products of unit quaternions, and
#: changes no result by more than its accuracy of 1e-12. As in gridgen_call.h.
ROUNDING = {np.dtype("float32"): 1e-6, np.dtype("float64"): 1e-12}

# States validated in one pass, which bounds the memory.
_STATES = 1 << 16


@dataclass(frozen=True)
class QuaternionJoint:
    """A free or ball joint."""

    name: str  #: name of the joint.
    q_index: int  #: index of its first coordinate.
    v_index: int  #: index of its first velocity.
    quaternion: slice  #: indices of its quaternion in q.
    nv: int  #: number of velocities.
    order: str = "xyzw"  #: of the quaternion.
    max_angle: float = math.inf  #: limit of the angle of its rotation [rad].


@dataclass(frozen=True)
class ConfigurationSpace:
    """The configuration space of a robot."""

    robot: str  #: the robot's name, for messages.
    nq: int  #: number of positions.
    nv: int  #: number of velocities.
    turning: tuple[QuaternionJoint, ...]  #: the free and ball joints.
    #: (position, velocity, whether it is an angle) of every other joint.
    scalar: tuple[tuple[int, int, bool], ...]
    lower: tuple[float, ...]  #: (nq) lower limits, -inf without a limit.
    upper: tuple[float, ...]  #: (nq) upper limits, inf without a limit.

    @property
    def free(self) -> tuple[QuaternionJoint, ...]:
        """The free joints."""
        return tuple(joint for joint in self.turning if joint.nv == 6)


def configuration_space(robot: Any) -> ConfigurationSpace:
    """Return the configuration space of a ``RobotRecord``, without joints that mimic others."""
    joints = zip(
        robot.joint_names,
        robot.angles,
        robot.quaternions,
        robot.q_indices,
        robot.v_indices,
        robot.mimics,
        robot.max_angles,
        strict=True,
    )
    turning: list[QuaternionJoint] = []
    scalar: list[tuple[int, int, bool]] = []
    for name, is_angle, quaternion, q_index, v_index, mimics, max_angle in joints:
        if quaternion is not None:
            start = q_index + quaternion
            order = "wxyz" if robot.options["convention"] == "mujoco" else "xyzw"
            place, nv = slice(start, start + 4), 3 + quaternion
            turning.append(QuaternionJoint(name, q_index, v_index, place, nv, order, max_angle))
        elif not mimics:
            scalar.append((q_index, v_index, is_angle))
    limits = robot.lower_limits, robot.upper_limits
    return ConfigurationSpace(
        robot.name, robot.nq, robot.nv, tuple(turning), tuple(scalar), *limits
    )


# -- the functions ----------------------------------------------------------------------------


def neutral(space: ConfigurationSpace) -> FloatArray:
    """Return the configuration (nq,) of zeros and unit quaternions; limits are ignored."""
    q = np.zeros(space.nq)
    for joint in space.turning:
        q[joint.quaternion.start + joint.order.index("w")] = 1.0
    return q


def random_configuration(space: ConfigurationSpace, rng: Any, n: int | None) -> FloatArray:
    """Return random configurations (n, nq), or one (nq,).

    Joints are uniform between their limits; without limits, within pi [rad] or 1 [m] of zero, or of
    the limit on the other side. Orientations are uniform over all rotations; those of a ball joint
    with a limit have uniform axes and angles.

    Args:
        space: the robot's configuration space.
        rng:   random generator, ``numpy.random.Generator`` or ``torch.Generator``.
        n:     number of configurations; None for one without a batch axis.

    Raises:
        OptionError: ``rng`` is not a generator, or ``n`` not a count.
    """
    draw = _TorchDraws(rng) if is_torch_generator(rng) else rng
    if not isinstance(draw, (np.random.Generator, _TorchDraws)):
        raise OptionError(
            f"rng is of type {type(rng).__name__}; give a generator: "
            "numpy.random.default_rng(seed), or torch.Generator().manual_seed(seed)"
        )
    if n is not None and (not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 0):
        raise OptionError(
            f"n is {show_value(n)}; give the number of configurations, an integer >= 0"
        )
    reach = np.ones(space.nq)
    for q_index, _, angular in space.scalar:
        reach[q_index] = math.pi if angular else 1.0
    lower, upper = np.array(space.lower), np.array(space.upper)
    low = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper, 0.0) - reach)
    high = np.where(np.isfinite(upper), upper, np.where(np.isfinite(lower), lower, 0.0) + reach)
    q: FloatArray = draw.uniform(low, high, (1 if n is None else n, space.nq))
    for joint in space.turning:
        turn = draw.normal(size=(len(q), 4))  # the direction of a normal vector is uniform
        turn /= np.linalg.norm(turn, axis=1, keepdims=True)
        if joint.max_angle < math.pi:
            w = joint.order.index("w")
            axis = np.delete(turn, w, axis=1)
            axis /= np.linalg.norm(axis, axis=1, keepdims=True)
            half = 0.5 * draw.uniform(np.zeros(1), np.full(1, joint.max_angle), (len(q), 1))
            turn = np.insert(np.sin(half) * axis, w, np.cos(half)[:, 0], axis=1)
        q[:, joint.quaternion] = turn
    return q[0] if n is None else q


class _TorchDraws:
    """Random numbers of a PyTorch generator, with the methods of NumPy's generators."""

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
    """Return whether a quaternion's norm has an error above rounding.

    Args:
        space: the robot's configuration space.
        q:     (..., nq) configurations, float32 or float64, validated in their type.
        name:  the caller's name for the argument.

    Raises:
        QuaternionError: a norm differs from 1 by more than 1e-3.
    """
    states = q if q.ndim == 2 else q.reshape(-1, space.nq)
    found = False
    for begin in range(0, len(states), _STATES):
        for joint in space.turning:
            turn = states[begin : begin + _STATES, joint.quaternion]
            off = _is_off(turn)
            if off.any():
                _norms(space, joint, turn, begin, name)
                found = True
    return found


def normalize(space: ConfigurationSpace, q: npt.NDArray[Any]) -> None:
    """Normalize quaternions whose norm has an error above rounding, in place."""
    states = q if q.ndim == 2 else q.reshape(-1, space.nq)  # a copy, in C order
    for joint in space.turning:
        turn = states[:, joint.quaternion]
        off = _is_off(turn)
        with np.errstate(invalid="ignore"):  # infinity becomes NaN
            turn[off] /= np.linalg.norm(turn[off].astype(np.float64), axis=1, keepdims=True)


def _norms(
    space: ConfigurationSpace,
    joint: QuaternionJoint,
    turn: npt.NDArray[Any],
    begin: int = 0,
    name: str = "q",
) -> FloatArray:
    """Return the norms of quaternions (B, 4); raise if one is too far from 1.

    NaN and infinity are accepted, as in any other coordinate: they propagate to the results.
    """
    with np.errstate(over="ignore"):
        norm: FloatArray = np.linalg.norm(turn.astype(np.float64), axis=1)
        wrong = np.isfinite(turn).all(axis=1) & ~(np.abs(norm - 1.0) <= NORM_TOLERANCE)
    if wrong.any():
        state = int(np.argmax(wrong))
        first = joint.quaternion.start
        raise QuaternionError(
            f"{space.robot}: state {begin + state}: the quaternion of joint {joint.name!a} has "
            f"norm {norm[state]:.6g}, which is not within {NORM_TOLERANCE:g} of 1. Its order is "
            f"({', '.join(joint.order)}), at {name}[{first}:{first + 4}]: divide it by its norm if "
            "it is a rotation"
        )
    return norm


def _is_off(turn: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which quaternions (B, 4) have a norm with an error above rounding; NaN does not."""
    limit = ROUNDING[turn.dtype]
    if len(turn) == 1:  # far from the limit, Python's numbers decide in a quarter of the time
        x, y, z, w = turn[0].tolist()
        if abs(x * x + y * y + z * z + w * w - 1.0) < 0.5 * limit:
            return np.zeros(1, bool)
    with np.errstate(over="ignore", invalid="ignore"):
        x, y, z, w = turn.T  # the operations of gridgen_call.h
        off: npt.NDArray[np.bool_] = abs(x * x + y * y + z * z + w * w - turn.dtype.type(1)) > limit
    return off


# Configurations that cost less to test in one call than in several.
_FEW = 512
# Remaining points are tested at once if more of the paths than this were free so far.
_MOSTLY = 0.75

_AXES = 3


def path_free(test: Callable[..., Array], paths: Any, world: Any, margin: Any) -> Array:
    """Return whether paths are free by a robot's ``collision_free``; see ``Robot.path_free``."""
    paths = paths if hasattr(paths, "shape") else np.asarray(paths)
    paths = paths.detach() if getattr(paths, "requires_grad", False) else paths
    if len(paths.shape) != _AXES or not paths.shape[1]:
        raise ShapeError(f"paths has shape {tuple(paths.shape)}; give (B, T, nq)")
    count, points = paths.shape[:2]
    shared = [_shared(*one, count) for one in (("world", world, 1), ("margin", margin, 0))]

    def tested(chosen: Any, some: Any = slice(None)) -> Array:
        own = [each if is_shared else each[some][:, None] for each, is_shared in shared]
        given = paths[:, chosen][some]
        if not at_once:  # one copy here costs less than chunks of a strided array in the call
            given = given.contiguous() if hasattr(given, "contiguous") else given.copy()
        free: Any = test(given, *own)
        return free.all(-1)

    at_once = is_immutable(paths) or math.prod(paths.shape[:2]) <= _FEW
    step = 1 if at_once else 1 << (points.bit_length() - 1)
    result: Any = tested(slice(None, None, step))
    before = len(result)
    while step > 1 and (count := int(result.sum())):
        chosen: Any = slice(step // 2, None, step)
        if count * points <= _FEW or count > _MOSTLY * before:
            chosen, step = [k for k in range(points) if k % step], 2
        alive = result.clone() if hasattr(result, "clone") else result.copy()
        result[alive] = tested(chosen, alive)
        before, step = count, step // 2
    return result


def _shared(name: str, given: Any, axes: int, count: int) -> tuple[Any, bool]:
    """Return an argument, and whether it is that of all paths rather than one for each."""
    if isinstance(given, (list, tuple)):
        try:
            given = np.asarray(given, float)
        except (TypeError, ValueError) as error:
            raise ShapeError(f"{name} is {show_value(given)}: {one_line(error)}") from error
    shape = tuple(getattr(given, "shape", ()))
    lead = shape[: len(shape) - axes]
    if len(shape) < axes or lead not in ((), (1,), (count,)):
        needed = "one number or (B,)" if not axes else "(n,) or (B, n)"
        raise ShapeError(f"{name} has shape {shape}; give {needed} for paths with B = {count}")
    return (given[0], True) if lead == (1,) else (given, not lead)
