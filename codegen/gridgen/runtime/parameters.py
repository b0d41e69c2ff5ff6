"""Rows of ``params``: conversion from inertias, and validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.errors import DtypeError, OptionError, ParameterError, ShapeError
from gridgen.functions.arrays import (
    BODY_PARAMETERS,
    CONSTRAINT_INPUTS,
    CONTACT_INPUTS,
    PARAMETERS,
)
from gridgen.functions.types import Array, ArrayLike
from gridgen.naming import one_line, show, show_value
from gridgen.runtime.arrays.layout import check_dtype
from gridgen.runtime.arrays.libraries import adopt, on_gpu

Numbers = NDArray[np.float64]

#: Tolerance of physical validity relative to the inertia about the center of mass, for inertias
#: that were rounded to six digits.
TOLERANCE = 1e-5
#: Rounding units, relative to the inertia about the frame, that may remain when the contribution of
# the center's offset is subtracted.
ROUNDINGS_LEFT = 64.0
# Indices of xx, xy, xz, yy, yz, zz in a row.
_UPPER = (4, 5, 7, 6, 8, 9)


def inertia(
    mass: ArrayLike | float,
    com: ArrayLike = (0.0, 0.0, 0.0),
    inertia: ArrayLike | float = 0.0,
) -> Numbers:
    """Return rows of ``params``: inertial parameters of bodies about their frames.

    Args:
        mass:    mass of each body (...) [kg].
        com:     center of mass in the frame (..., 3) [m].
        inertia: inertia about the center of mass, in the frame's axes (..., 3, 3), symmetric
                 [kg m^2]; 0 for a point.

    Returns:
        (..., 10): m, m c, and Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the frame's origin, with broadcast
        leading axes; Pinocchio's order of dynamic parameters.

    Raises:
        ShapeError:     the arrays do not broadcast.
        DtypeError:     the arrays are not numeric.
        ParameterError: a mass or inertia is not physically valid.
    """
    m = _numbers(mass, "mass")
    c = _numbers(com, "com")
    about_com = _numbers(inertia, "inertia")
    if not about_com.ndim and not about_com:
        about_com = np.zeros((3, 3))
    if c.shape[-1:] != (3,):
        raise ShapeError(f"com has shape {c.shape}; give (3,) or (..., 3)")
    if about_com.shape[-2:] != (3, 3):
        raise ShapeError(f"inertia has shape {about_com.shape}; give (3, 3) or (..., 3, 3)")
    try:
        lead = np.broadcast_shapes(m.shape, c.shape[:-1], about_com.shape[:-2])
    except ValueError:
        raise ShapeError(
            f"mass {m.shape}, com {c.shape} and inertia {about_com.shape} do not broadcast: the "
            "leading axes must be the same, or be omitted"
        ) from None
    transposed = np.swapaxes(about_com, -1, -2)
    if not np.allclose(about_com, transposed, rtol=TOLERANCE, atol=0.0, equal_nan=True):
        raise ParameterError("inertia is not symmetric; give Ixy = Iyx, Ixz = Izx, Iyz = Izy")
    rows = np.empty((*lead, BODY_PARAMETERS))
    rows[..., 0] = m
    with np.errstate(over="ignore", invalid="ignore"):  # overflow raises an error below
        rows[..., 1:4] = m[..., None] * c
        squares = np.einsum("...i,...i", c, c)[..., None, None] * np.eye(3)
        distance = squares - c[..., :, None] * c[..., None, :]
        about_frame = (about_com + transposed) / 2 + m[..., None, None] * distance
    i, j = (0, 0, 0, 1, 1, 2), (0, 1, 2, 1, 2, 2)
    rows[..., _UPPER] = about_frame[..., i, j]
    flat = rows.reshape(-1, BODY_PARAMETERS)
    bad = np.flatnonzero(impossible(flat, np.finfo(np.float64).eps))
    if bad.size:
        place = np.unravel_index(bad[0], lead) if lead else ()
        where = f"body {', '.join(map(str, map(int, place)))}: " if lead else ""
        raise ParameterError(f"{where}{_complaint(flat[bad[0]])}")
    return rows


def _numbers(value: Any, name: str) -> Numbers:
    try:
        numbers = np.asarray(value, np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise DtypeError(f"{name} cannot be read as numbers: {one_line(error)}") from None
    if not np.isfinite(numbers).all():
        raise ParameterError(f"{name} is {show_value(value)}: it has numbers that are not finite")
    return numbers


def impossible(rows: Numbers, eps: float) -> NDArray[np.bool_]:
    """Return which rows (N, 10) are not physically valid: negative masses, impossible moments.

    A body's second moments about its center of mass, trace(I) / 2 - I there, are positive
    semidefinite. This implies that I is positive semidefinite, and that no principal moment exceeds
    the sum of the others.

    Args:
        rows: the rows.
        eps:  rounding unit of the rows' original type.
    """
    m, h = rows[:, 0], rows[:, 1:4]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = np.where(m > 0.0, 1.0 / m, 0.0)
        I = rows[:, _UPPER]  # noqa: E741
        half = (I[:, 0] + I[:, 3] + I[:, 5]) / 2
        # By xx, yy, zz, then xy, xz, yz.
        around = np.stack([half - I[:, 0], half - I[:, 3], half - I[:, 5]], axis=1)
        central = around - share[:, None] * h * h
        xy, xz, yz = (-I[:, k] - share * h[:, i] * h[:, j] for k, i, j in _OFF)
        # Pivots of an elimination: all positive means positive definite.
        first, second, third = central.T
        second = second - xy * xy / first
        yz_left = yz - xy * xz / first
        third = third - xz * xz / first - yz_left * yz_left / second
        fine = (m > 0.0) & (first > 0.0) & (second > 0.0) & (third > 0.0)
        doubtful = np.flatnonzero(~(fine & np.isfinite(third + m)))
    bad: NDArray[np.bool_] = np.zeros(len(rows), np.bool_)
    if doubtful.size:
        off = [xy[doubtful], xz[doubtful], yz[doubtful]]
        bad[doubtful] = _surely(rows[doubtful], central[doubtful], off, around[doubtful], eps)
    return bad


_OFF = ((1, 0, 1), (2, 0, 2), (4, 1, 2))


def _surely(
    rows: Numbers, central: Numbers, off: Sequence[Numbers], around: Numbers, eps: float
) -> NDArray[np.bool_]:
    """Return which of the doubtful rows are invalid by more than rounding."""
    finite = np.asarray(np.isfinite(np.hstack((rows, central))).all(axis=1))
    moments = np.zeros((len(rows), 3, 3))
    moments[:, (0, 1, 2), (0, 1, 2)] = central
    for values, i, j in zip(off, (0, 0, 1), (1, 2, 2), strict=True):
        moments[:, i, j] = moments[:, j, i] = values
    moments[~finite] = 0.0
    smallest = np.linalg.eigvalsh(moments)[:, 0]
    size, about = (np.abs(np.where(finite[:, None], x, 0.0)).max(axis=1) for x in (central, around))
    misses = smallest < -(TOLERANCE * size + ROUNDINGS_LEFT * eps * about)
    arms = (rows[:, 0] == 0.0) & (rows[:, 1:4] != 0.0).any(axis=1)
    bad: NDArray[np.bool_] = ~finite | (rows[:, 0] < 0.0) | arms | misses
    return bad


def _complaint(row: Numbers) -> str:
    """Return the error of an invalid row."""
    m, h = row[0], row[1:4]
    if not np.isfinite(row).all():
        return f"{row.tolist()} has numbers that are not finite"
    if m < 0.0:
        return f"mass is {m:.6g}; it must be >= 0"
    if m == 0.0 and h.any():
        return f"mass is 0 and the first moment {h.tolist()}; without mass it must be 0 as well"
    xx, xy, xz, yy, yz, zz = row[list(_UPPER)]
    about_frame = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    share = h / m if m else h
    central = about_frame - (share @ h * np.eye(3) - np.outer(share, h))
    moments = np.linalg.eigvalsh(central)
    shown = ", ".join(f"{moment:.6g}" for moment in moments)
    what = "is negative" if moments[0] < 0.0 else "is more than the sum of the others"
    return (
        f"no body has this inertia: its principal moments about the center of mass are {shown}, of "
        f"which one {what}; gridgen.inertia() makes rows of mass, center and inertia about it"
    )


class Parameters:
    """Robot parameters that are inputs of functions.

    Args:
        robot: the robot's name.
        names: the links with rows of ``params``.
        own:   the values of the file, by input.
        are_checked: whether calls validate rows.
    """

    def __init__(
        self,
        robot: str,
        names: Sequence[str],
        own: Mapping[str, Sequence[Any]],
        are_checked: bool = True,
    ) -> None:
        self.are_checked = are_checked
        self.names = tuple(names)
        self.own = {name: np.asarray(values, np.float64) for name, values in own.items()}
        self._robot = robot
        self._accepted: NDArray[Any] | None = None

    def default(self, name: str) -> Numbers:
        """Return a copy of the values of the file.

        Raises:
            OptionError: the values are constants of the robot.
        """
        if not isinstance(name, str) or name not in PARAMETERS:
            raise OptionError(f"no parameters {show_value(name)}: choose {', '.join(PARAMETERS)}")
        if name not in self.own:
            raise OptionError(self.refusal(name))
        return self.own[name].copy()

    def refusal(self, name: str) -> str:
        """Return the error message for an input that the robot does not have."""
        if name in CONSTRAINT_INPUTS and "active" not in self.own:
            return f"{self._robot} has no constraints: load it with constraints= (--constraint)"
        if name == "terrain" and "radii" in self.own:
            return f"{self._robot} touches no height field: load it with one in contact="
        if name in CONTACT_INPUTS:
            return f"{self._robot} has no contacts: load it with ground= (--ground)"
        if name == "ctrl":
            return f"{self._robot} has no actuators: load it with actuators= (--actuators)"
        needed = "a link, or all," if name == "params" else name
        return (
            f"{self._robot} has {name} as constants: load it with {needed} in parameters= "
            "(grid-gen: --parameters)"
        )

    def are_accepted(self, params: Any) -> bool:
        """Return whether an array is equal to the last valid one.

        The comparison takes less time than validation.
        """
        if type(params) is not np.ndarray:
            return False
        if not self.are_checked:
            return True
        numbers = self._accepted
        if numbers is None:
            return False
        if params.shape != numbers.shape or params.dtype != numbers.dtype:
            return False
        if not params.flags.c_contiguous:
            return params.tobytes() == numbers.tobytes()
        return bool((params.view(np.int64) == numbers.view(np.int64)).all())

    def check(self, params: Array, *, is_requested: bool = False) -> None:
        """Raise unless every row is physically valid, or the file's.

        Args:
            params:   (n, 10) or (B, n, 10).
            is_requested: whether to validate on a GPU too, and if calls do not.

        Raises:
            ParameterError: a row is invalid.
            ShapeError, DtypeError: it is not an array of rows.
        """
        params = adopt(params, "params")
        check_dtype(params, "params")
        if on_gpu(params):
            if not is_requested:
                return
            params = params.get()
        if not is_requested and self.are_accepted(params):
            return
        shape = self.own["params"].shape
        if params.shape[-2:] != shape:
            expected = f"{shape} or (B, {', '.join(map(str, shape))})"
            raise ShapeError(f"params has shape {params.shape}; {self._robot} needs {expected}")
        rows = params.reshape(-1, BODY_PARAMETERS).astype(np.float64)
        bad = impossible(rows, float(np.finfo(params.dtype).eps))
        own = self.own["params"].astype(params.dtype)
        for place in np.flatnonzero(bad):
            state, row = divmod(int(place), len(own))
            if not np.array_equal(rows[place], own[row].astype(np.float64)):
                at = f"{state}, {row}" if params.ndim > 2 else f"{row}"
                raise ParameterError(
                    f"params[{at}] (link {show(self.names[row])} of {self._robot}): "
                    f"{_complaint(rows[place])}"
                )
        self._accepted = np.array(params, order="C")
