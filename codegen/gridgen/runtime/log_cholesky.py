"""Log-Cholesky parameters of inertias: any ten numbers represent a physically valid body.

Source: Rucker and Wensing 2022. The pseudo-inertia of a body is U U^T, with

        exp(alpha) [ exp(d1)  s12      s13      t1 ]
    U =            [ 0        exp(d2)  s23      t2 ]
                   [ 0        0        exp(d3)  t3 ]
                   [ 0        0        0        1  ]

This matrix is positive definite for all values, and each positive definite one has ten parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gridgen.errors import ParameterError, ShapeError
from gridgen.functions.arrays import BODY_PARAMETERS
from gridgen.functions.types import Array, ArrayLike
from gridgen.runtime.arrays.layout import check_dtype, on_device
from gridgen.runtime.arrays.libraries import adopt, library_of, namespace, restored


def inertia_from_log_cholesky(theta: ArrayLike) -> Array:
    """Return rows of ``params`` from log-Cholesky parameters.

    Every ``theta`` gives a physically valid inertia, so ``theta`` needs no constraints in an
    optimizer. Uses operations of the library of ``theta``: PyTorch and JAX differentiate it.

    Args:
        theta: (..., 10): alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3, in Pinocchio's order; alpha
               is half the logarithm of the mass in kg, t the center of mass [m].

    Returns:
        (..., 10): m, m c, and Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the frame's origin.

    Raises:
        ShapeError: the last axis is not one of ten.
        DtypeError: the elements are not numbers.

    Source: Rucker and Wensing 2022.
    """
    xp, theta = library_of(theta, "theta")
    entries, scale, (e1, e2, e3) = _entries(xp, theta)
    _, _, _, _, s12, s23, s13, t1, t2, t3 = entries
    xx = e1 * e1 + s12 * s12 + s13 * s13 + t1 * t1
    yy = e2 * e2 + s23 * s23 + t2 * t2
    zz = e3 * e3 + t3 * t3
    xy, xz, yz = e2 * s12 + s13 * s23 + t1 * t2, e3 * s13 + t1 * t3, e3 * s23 + t2 * t3
    row = (xp.ones_like(t1), t1, t2, t3, yy + zz, -xy, xx + zz, -xz, -yz, xx + yy)
    return xp.stack([scale * entry for entry in row], -1)


def inertia_from_log_cholesky_gradient(theta: ArrayLike) -> Array:
    """Return the derivatives of ``inertia_from_log_cholesky``.

    They convert the products of ``robot.vjp(..., wrt="params")`` to products by ``theta``:
    ``einsum("...ij,...i->...j", gradient, params_bar)``.

    Args:
        theta: (..., 10), as of ``inertia_from_log_cholesky``.

    Returns:
        (..., 10, 10): the derivatives of the ten numbers of a row (second-to-last axis) with
        respect to ``theta``.

    Raises:
        the errors of ``inertia_from_log_cholesky``.
    """
    xp, theta = library_of(theta, "theta")
    entries, scale, (e1, e2, e3) = _entries(xp, theta)
    _, _, _, _, s12, s23, s13, t1, t2, t3 = entries
    none, one = xp.zeros_like(t1), xp.ones_like(t1)

    # By each of theta except alpha, of t and of xx, yy, zz, xy, xz, yz: the second moments.
    changes = (
        ((none,) * 3, (2.0 * e1 * e1, none, none, none, none, none)),
        ((none,) * 3, (none, 2.0 * e2 * e2, none, e2 * s12, none, none)),
        ((none,) * 3, (none, none, 2.0 * e3 * e3, none, e3 * s13, e3 * s23)),
        ((none,) * 3, (2.0 * s12, none, none, e2, none, none)),
        ((none,) * 3, (none, 2.0 * s23, none, s13, none, e3)),
        ((none,) * 3, (2.0 * s13, none, none, s23, e3, none)),
        ((one, none, none), (2.0 * t1, none, none, t2, t3, none)),
        ((none, one, none), (none, 2.0 * t2, none, t1, none, t3)),
        ((none, none, one), (none, none, 2.0 * t3, none, t1, t2)),
    )
    columns = [2.0 * inertia_from_log_cholesky(theta)]
    for t, (xx, yy, zz, xy, xz, yz) in changes:
        row = (none, *t, yy + zz, -xy, xx + zz, -xz, -yz, xx + yy)
        columns.append(xp.stack([scale * entry for entry in row], -1))
    return xp.stack(columns, -1)


def log_cholesky(params: ArrayLike) -> Array:
    """Return the log-Cholesky parameters of rows of ``params``: an optimizer's initial value.

    Args:
        params: (..., 10), rows as of ``robot.parameters()``.

    Returns:
        (..., 10), ``theta`` of ``inertia_from_log_cholesky``.

    Raises:
        ParameterError: a row has no mass, or no extent in some direction.
        ShapeError:     the last axis is not one of ten.
        DtypeError:     the elements are not numbers, or the array has a gradient or a trace.
    """
    rows = adopt(params, "params")
    check_dtype(rows, "params")
    _check_ten(rows, "params")
    with on_device(rows), np.errstate(all="ignore"):
        xp = namespace(rows)
        m, h1, h2, h3, ixx, ixy, iyy, ixz, iyz, izz = (rows[..., i] for i in range(BODY_PARAMETERS))
        t1, t2, t3 = h1 / m, h2 / m, h3 / m
        half = (ixx + iyy + izz) / 2
        z2 = (half - izz) / m - t3 * t3
        e3 = xp.sqrt(z2)
        s13, s23 = (-ixz / m - t1 * t3) / e3, (-iyz / m - t2 * t3) / e3
        y2 = (half - iyy) / m - t2 * t2 - s23 * s23
        e2 = xp.sqrt(y2)
        s12 = (-ixy / m - t1 * t2 - s13 * s23) / e2
        x2 = (half - ixx) / m - t1 * t1 - s12 * s12 - s13 * s13
        logs = [xp.log(square) / 2 for square in (m, x2, y2, z2)]
        theta = xp.stack([*logs, s12, s23, s13, t1, t2, t3], -1)
        bad = xp.argwhere(~xp.isfinite(theta).all(-1))
    if len(bad):
        place = tuple(map(int, bad[0]))
        where = f"params[{', '.join(map(str, place))}]" if place else "params"
        raise ParameterError(
            f"{where} is {rows[place].tolist()}, which has no log-Cholesky parameters: mass and "
            "extent in every direction must be positive; give gridgen.inertia(mass, com, "
            "inertia) with the principal moments of a body of some thickness"
        )
    return restored(theta, params)


def _entries(xp: Any, theta: Any) -> tuple[list[Any], Any, list[Any]]:
    """Return the ten numbers, the mass, and the exponentials on the diagonal."""
    _check_ten(theta, "theta")
    entries = [theta[..., i] for i in range(BODY_PARAMETERS)]
    return entries, xp.exp(2.0 * entries[0]), [xp.exp(entry) for entry in entries[1:4]]


def _check_ten(array: Any, name: str) -> None:
    if tuple(array.shape[-1:]) != (BODY_PARAMETERS,):
        raise ShapeError(f"{name} has shape {tuple(array.shape)}; give (..., {BODY_PARAMETERS})")
