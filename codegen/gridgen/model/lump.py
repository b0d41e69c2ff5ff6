"""Inertia of rigidly connected links."""

from __future__ import annotations

from dataclasses import dataclass

from gridgen.model.description import Inertial
from gridgen.model.pose import (
    NO_INERTIA,
    ZERO,
    Matrix3,
    Pose,
    Vector3,
    add,
    add_matrices,
    apply,
    point_inertia,
    rotate_inertia,
    scale,
)


@dataclass(frozen=True)
class Lump:
    """Inertia of rigidly connected links about a frame's origin, in its axes.

    Attributes:
        mass:         total mass [kg].
        first_moment: mass times center of mass [kg m].
        inertia:      rotational inertia about the origin; symmetric [kg m^2].
    """

    mass: float = 0.0
    first_moment: Vector3 = ZERO
    inertia: Matrix3 = NO_INERTIA

    def plus(self, inertial: Inertial, at: Pose) -> Lump:
        """Return the sum with a link whose frame has the pose ``at``."""
        here = at @ inertial.origin
        central = rotate_inertia(here.rotation, inertial.inertia)
        about_origin = add_matrices(central, point_inertia(inertial.mass, here.translation))
        return Lump(
            self.mass + inertial.mass,
            add(self.first_moment, scale(inertial.mass, here.translation)),
            add_matrices(self.inertia, about_origin),
        )

    def turned(self, rotation: Matrix3) -> Lump:
        """Return the inertia in other axes: ``x_other = rotation @ x``."""
        return Lump(
            self.mass,
            apply(rotation, self.first_moment),
            rotate_inertia(rotation, self.inertia),
        )

    @property
    def parameters(self) -> tuple[float, ...]:
        """The ten inertial parameters in the order of a row of ``params``."""
        (xx, xy, xz), (_, yy, yz), (*_, zz) = self.inertia
        return (self.mass, *self.first_moment, xx, xy, yy, xz, yz, zz)


NO_MASS = Lump()
