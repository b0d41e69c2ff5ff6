"""Which combinations of a robot's inertial parameters its efforts tell apart.

A regressor has columns that are combinations of others whatever the state: the parameters behind
them cannot be told apart by any motion, only their combinations can, the base parameters.
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
# Equations for each unknown: with random states a few more than one make them well conditioned.
_EQUATIONS = 4
# Spread of the random positions [rad or m], velocities and accelerations: all of the circle.
_SPREAD = 2.0

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """The identifiable combinations of a robot's inertial parameters.

    With ``Y`` the regressor and ``params`` the parameters, (10 n,) in the order of its columns:

        base = found.combinations @ params
        tau = Y[..., found.columns] @ base

    Attributes:
        names:        of all parameters, ``hand.mx``, 10 n of them.
        columns:      which parameters stand for a combination, r of them, ascending.
        combinations: (r, 10 n); the identity in ``columns``.
    """

    names: tuple[str, ...]
    columns: NDArray[np.int64]
    combinations: Array

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Names of the parameters that no effort depends on."""
        used = np.abs(self.combinations).max(axis=0, initial=0.0) > 0.0
        return tuple(name for name, is_used in zip(self.names, used, strict=True) if not is_used)

    def of(self, params: ArrayLike) -> Array:
        """Return the base parameters of inertial parameters.

        Args:
            params: (10 n,) or (n, 10), one robot's.

        Raises:
            ShapeError: they are of another number.
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
        """Return a line for each: ``arm.Izz + hand.Izz + 0.2 hand.m``."""
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
    """Return the combinations of inertial parameters that the joint efforts tell apart.

    Each parameter in turn, from the base to the tips, is compared with those before it: what the
    regressor's columns over random states, limits ignored, have in common is taken away
    (Gram-Schmidt, twice), and a column of which nothing is left is a combination of the others.
    Parameters of outer links are so added to those of the links that carry them, as is usual
    (Gautier 1991, Khalil and Dombre 2002).

    Args:
        robot:     the robot; if it is a generated module's, one with ``joint_torque_regressor``.
        gravity:   free fall in the base frame (3,) [m/s^2]; (0, 0, -9.81). What is identifiable
                   depends on it: zeros for an arm in a horizontal plane.
        tolerance: how much of a column must be left, relative to its length.
        seed:      of the random states.

    Returns:
        what can be identified, and by which columns of the regressor.

    Raises:
        OptionError: an argument is none of these.
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
    kept = W[:, columns]
    combinations: Array = np.linalg.lstsq(kept, W, rcond=None)[0].astype(np.float64)
    # What rounding left of zeros, measured by what it does.
    share = np.abs(combinations) * lengths[columns][:, None]
    combinations[share <= tolerance * np.maximum(lengths, tolerance * lengths.max())] = 0.0
    combinations[:, columns] = np.eye(len(columns))
    names = tuple(f"{body}.{name}" for body in robot.body_names for name in PARAMETER_NAMES)
    return BaseParameters(names, columns, combinations)


def _stacked(robot: Robot, gravity: Any, rng: np.random.Generator) -> Array:
    """Return a square matrix with the dependencies of the regressor's columns."""
    unknowns = BODY_PARAMETERS * len(robot.body_names)
    count = math.ceil(_EQUATIONS * unknowns / robot.nv)
    v, qd, qdd = rng.normal(scale=_SPREAD, size=(3, count, robot.nv))
    q = robot.integrate(np.tile(robot.neutral(), (count, 1)), v)
    Y = robot.joint_torque_regressor(q, qd, qdd, gravity=gravity)
    triangle: Array = np.linalg.qr(Y.reshape(-1, unknowns))[1]
    return triangle


def _independent(W: Array, lengths: Array, tolerance: float) -> NDArray[np.int64]:
    """Return the columns that are no combinations of columns before them."""
    columns: list[int] = []
    basis = np.zeros((len(W), 0))
    for column in np.flatnonzero(lengths > tolerance * lengths.max()):
        rest = W[:, column] / lengths[column]
        for _ in range(2):  # once leaves what rounding brings back in
            rest = rest - basis @ (basis.T @ rest)
        left = np.linalg.norm(rest)
        if left > tolerance:
            columns.append(int(column))
            basis = np.column_stack([basis, rest / left])
    return np.array(columns, np.int64)
