"""Inverses of the spatial inertias of bodies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridgen.dynamics.mass import Mass, body_mass, constant_mass
from gridgen.dynamics.state import State
from gridgen.model.tree import Body
from gridgen.symbolic.scalars import FloatScalars, Scalar
from gridgen.symbolic.spatial import (
    Symmetric,
    Vector,
    add,
    apply,
    cross,
    full,
    scale,
    sub,
    symmetric,
)

Spatial = tuple[Vector, Vector]


@dataclass(frozen=True)
class Mobility:
    """Inverse of a body's spatial inertia: maps a wrench about the origin to an acceleration.

    Attributes:
        inverse_mass:    inverse of the mass [1/kg].
        center:          center of mass in the canonical frame [m].
        inverse_inertia: inverse of the rotational inertia about that center [1/(kg m^2)].
    """

    inverse_mass: Scalar
    center: Vector
    inverse_inertia: Symmetric

    def acceleration(self, wrench: Spatial) -> Spatial:
        """Return J^-1 (f, n)."""
        f, n = wrench
        w = apply(full(self.inverse_inertia), sub(n, cross(self.center, f)))
        return add(scale(self.inverse_mass, f), cross(self.center, w)), w


def body_mobility(state: State, index: int) -> Mobility:
    """Return the inverse of a body's spatial inertia; ``cfa.refusal`` must return ``None``."""
    tree, scalars = state.tree, state.scalars
    body = tree.bodies[index]
    if body.parts:
        return mobility(body_mass(state, index), scalars.constant(1.0))
    return constant_mobility(body)


def mobility(mass: Mass, one: Scalar) -> Mobility:
    """Return the inverse of a spatial inertia.

    Args:
        mass: inertia about the origin of its frame.
        one:  the scalar one.
    """
    inverse_mass = one / mass.m
    x, y, z = mass.h
    center = a, b, c = scale(inverse_mass, mass.h)
    xx, xy, xz, yy, yz, zz = mass.I
    # About the center of mass, then by cofactors.
    xx, yy, zz = xx - (b * y + c * z), yy - (a * x + c * z), zz - (a * x + b * y)
    xy, xz, yz = xy + a * y, xz + a * z, yz + b * z
    first = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    others = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
    inverse = one / (xx * first[0] + xy * first[1] + xz * first[2])
    return Mobility(inverse_mass, center, tuple(inverse * entry for entry in (*first, *others)))


def constant_mobility(body: Body) -> Mobility:
    """Return the inverse of a constant spatial inertia."""
    mass = constant_mass(body, FloatScalars())
    x, y, z = (entry / mass.m for entry in mass.h)
    inverse = np.linalg.inv(_central_inertia(mass))
    inverse = (inverse + inverse.T) / 2
    return Mobility(1.0 / mass.m, (x, y, z), symmetric(inverse.tolist()))


def _central_inertia(mass: Mass) -> NDArray[np.float64]:
    """Return the rotational inertia about the center of mass, of numbers."""
    h, about_origin = np.array(mass.h), np.array(full(mass.I), dtype=np.float64)
    central: NDArray[np.float64] = about_origin - (h @ h * np.eye(3) - np.outer(h, h)) / mass.m
    return central


def principal_inertia(mass: Mass) -> tuple[float, float]:
    """Return the smallest principal inertia about the center of mass, and a scale for it."""
    smallest = np.linalg.eigvalsh(_central_inertia(mass))[0]
    return float(smallest), float(np.trace(np.array(full(mass.I))))
