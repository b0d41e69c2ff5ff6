"""Base parameters: combinations of inertial parameters that are identifiable from joint torques.

Some columns of a regressor are linear combinations of others for all states. No motion separates
the parameters of these columns; only combinations of them, the base parameters, are identifiable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.errors import OptionError, ShapeError
from gridgen.functions.arrays import BODY_PARAMETERS
from gridgen.functions.types import ArrayLike
from gridgen.naming import show_value
from gridgen.robot import Robot

#: A body's inertial parameters, in order.
PARAMETER_NAMES = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
# Equations for each unknown: with random states, slightly more than one is well conditioned.
_EQUATIONS = 4
# Spread of random positions [rad or m], velocities and accelerations: the full circle.
_SPREAD = 2.0

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """The identifiable combinations of a robot's inertial parameters.

    With ``Y`` the regressor and ``params`` the parameters, (10 n,) in the order of its columns:

        base = found.combinations @ params
        tau = Y[..., found.columns] @ base

    Attributes:
        names:        names of all 10 n parameters, such as ``hand.mx``.
        columns:      indices of the parameters that represent a combination, r of them, ascending.
        combinations: (r, 10 n); the identity in ``columns``.
    """

    names: tuple[str, ...]
    columns: NDArray[np.int64]
    combinations: Array

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Names of the parameters that no joint torque depends on."""
        used = np.abs(self.combinations).max(axis=0, initial=0.0) > 0.0
        return tuple(name for name, is_used in zip(self.names, used, strict=True) if not is_used)

    def of(self, params: ArrayLike) -> Array:
        """Return the base parameters for inertial parameters.

        Args:
            params: inertial parameters of one robot, (10 n,) or (n, 10).

        Raises:
            ShapeError: ``params`` has another size.
        """
        given = np.asarray(params, np.float64)
        if given.size != len(self.names):
            raise ShapeError(
                f"params has shape {given.shape}; give {len(self.names)} numbers, "
                f"{BODY_PARAMETERS} for each body"
            )
        base: Array = self.combinations @ given.reshape(-1)
        return base

    def __str__(self) -> str:
        """Return a line for each combination: ``arm.Izz + hand.Izz + 0.2 hand.m``."""
        return "\n".join(map(self._line, self.combinations))

    def _line(self, factors: Array) -> str:
        line = ""
        for factor, name in zip(factors, self.names, strict=True):
            if factor != 0.0:
                sign = "- " if factor < 0 else "+ " if line else ""
                is_one = math.isclose(abs(factor), 1.0, rel_tol=1e-9)
                term = name if is_one else f"{abs(factor):.6g} {name}"
                line += f"{' ' if line else ''}{sign}{term}"
        return line


def base_parameters(
    robot: Robot,
    *,
    gravity: ArrayLike | None = None,
    tolerance: float = 1e-8,
    seed: int = 0,
) -> BaseParameters:
    """Return the combinations of inertial parameters that are identifiable from joint torques.

    Gram-Schmidt orthogonalization, twice, of the regressor's columns over random states (position
    limits are ignored), from the base to the tips. A column with no remainder is a combination of
    the columns before it. Parameters of outer links are thus added to those of the links that carry
    them, as is usual (Gautier 1991, Khalil and Dombre 2002).

    Args:
        robot:     the robot; a generated module needs ``joint_torque_regressor``.
        gravity:   free-fall acceleration in the world (3,) [m/s^2]; default as in calls. The
                   result depends on it: use zeros for an arm in a horizontal plane.
        tolerance: smallest remainder of an independent column, relative to its norm.
        seed:      seed of the random states.

    Returns:
        the identifiable combinations and their columns of the regressor.

    Raises:
        OptionError: an argument is invalid.
        ModelError:  the module was generated without the regressor.

    Source: Gautier 1991; Khalil and Dombre 2002.
    """
    if not isinstance(robot, Robot):
        raise OptionError(f"robot is {show_value(robot)}; give what gridgen.load returns")
    if not isinstance(tolerance, Real) or not 0.0 < tolerance < 1.0:
        raise OptionError(f"tolerance is {show_value(tolerance)}; give a number between 0 and 1")
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise OptionError(f"seed is {show_value(seed)}; give a whole number >= 0")
    W = _stacked(robot, gravity, np.random.default_rng(seed))
    lengths = np.linalg.norm(W, axis=0)
    columns = _independent(W, lengths, tolerance)
    retained = W[:, columns]
    combinations: Array = np.linalg.lstsq(retained, W, rcond=None)[0].astype(np.float64)
    # Rounding errors of zeros, measured by their effect.
    share = np.abs(combinations) * lengths[columns][:, None]
    combinations[share <= tolerance * np.maximum(lengths, tolerance * lengths.max())] = 0.0
    combinations[:, columns] = np.eye(len(columns))
    names = tuple(f"{body}.{name}" for body in robot.body_names for name in PARAMETER_NAMES)
    return BaseParameters(names, columns, combinations)


def _stacked(robot: Robot, gravity: Any, rng: np.random.Generator) -> Array:
    """Return a square matrix with the same column dependencies as the regressor."""
    unknowns = BODY_PARAMETERS * len(robot.body_names)
    count = math.ceil(_EQUATIONS * unknowns / robot.nv)
    v, qd, qdd = rng.normal(scale=_SPREAD, size=(3, count, robot.nv))
    q = robot.integrate(np.tile(robot.neutral(), (count, 1)), v)
    Y = robot.joint_torque_regressor(q, qd, qdd, gravity=gravity)
    triangle: Array = np.linalg.qr(Y.reshape(-1, unknowns))[1]
    return triangle


def _independent(W: Array, lengths: Array, tolerance: float) -> NDArray[np.int64]:
    """Return the columns that are not combinations of columns before them."""
    columns: list[int] = []
    basis = np.zeros((len(W), 0))
    for column in np.flatnonzero(lengths > tolerance * lengths.max()):
        rest = W[:, column] / lengths[column]
        for _ in range(2):  # once leaves rounding errors
            rest = rest - basis @ (basis.T @ rest)
        left = np.linalg.norm(rest)
        if left > tolerance:
            columns.append(int(column))
            basis = np.column_stack([basis, rest / left])
    return np.array(columns, np.int64)
