"""Mass properties of rigid bodies."""

from __future__ import annotations

from dataclasses import dataclass

from gridgen.dynamics.state import Numbers, State
from gridgen.functions.arrays import BODY_PARAMETERS
from gridgen.model.kinematic_tree import Body, MassInput
from gridgen.model.lump import Lump
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    DenseRotation,
    Matrix,
    Placement,
    PlaneRotation,
    Symmetric,
    Vector,
    Wrench,
    add,
    apply,
    constants,
    cross,
    fixed_rotation,
    full,
    scale,
    symmetric,
)


@dataclass(frozen=True)
class Mass:
    """Mass properties of a rigid (composite) body about its frame's origin.

    Attributes:
        m: mass [kg].
        h: first moment, the integral of x dm [kg m].
        I: rotational inertia [kg m^2].
    """

    m: Scalar
    h: Vector
    I: Symmetric  # noqa: E741 (the textbook's name)

    def __add__(self, other: Mass) -> Mass:
        """Return the mass of two bodies in rigid connection."""
        total = tuple(a + b for a, b in zip(self.I, other.I, strict=True))
        return Mass(self.m + other.m, add(self.h, other.h), total)

    def keep(self, index: int, scalars: Scalars) -> Mass:
        """Name the entries."""
        h, inertia = scalars.keep("h", index, self.h), scalars.keep("I", index, self.I)
        return Mass(self.m, h, inertia)

    def to_parent(self, placed: Placement) -> Mass:
        """Return the mass about the parent's origin in the parent's axes."""
        r, h = placed.r, placed.to_parent(self.h)
        xx, xy, xz, yy, yz, zz = placed.symmetric_to_parent(self.I)
        # I + [r]^T [h] + [h]^T [r] + m [r]^T [r], with k = 2 h + m r collecting both products.
        moved = add(h, scale(self.m, r))
        k = add(h, moved)
        x, y, z = r[0] * k[0], r[1] * k[1], r[2] * k[2]
        shifted = (
            xx + (y + z),
            xy - _half(r, h, moved, 0, 1),
            xz - _half(r, h, moved, 0, 2),
            yy + (x + z),
            yz - _half(r, h, moved, 1, 2),
            zz + (x + y),
        )
        return Mass(self.m, moved, shifted)

    def wrench(self, v: Vector, w: Vector) -> Wrench:
        """Return the wrench (f, n) for the acceleration (v, w) from rest.

        The same map takes a velocity to its momentum.
        """
        n = apply(full(self.I), w)
        return add(scale(self.m, v), cross(w, self.h)), add(n, cross(self.h, v))

    def field_wrench(self, a: Vector, field: Matrix, moments: Symmetric) -> Wrench:
        """Return the wrench for the acceleration field a + W x.

        The moment of the field's linear part is that of W P - (W P)^T: 15 products, where
        I wd + w x I w needs 24.

        Args:
            a:       acceleration of the origin.
            field:   W.
            moments: P, the integral of x x^T dm.
        """
        W, h = field, self.h
        xx, xy, xz, yy, yz, zz = moments
        n = (
            W[2][0] * xy - W[1][0] * xz + yz * (W[2][2] - W[1][1]) + W[2][1] * yy - W[1][2] * zz,
            W[0][1] * yz - W[2][1] * xy + xz * (W[0][0] - W[2][2]) + W[0][2] * zz - W[2][0] * xx,
            W[1][2] * xz - W[0][2] * yz + xy * (W[1][1] - W[0][0]) + W[1][0] * xx - W[0][1] * yy,
        )
        return add(scale(self.m, a), apply(W, h)), add(n, cross(h, a))


def _half(r: Vector, h: Vector, moved: Vector, i: int, j: int) -> Scalar:
    """Return entry (i, j) of the symmetric product h r^T + r (h + m r)^T."""
    return h[i] * r[j] + r[i] * moved[j]


def body_mass(state: State, index: int, unit: float | None = None) -> Mass:
    """Return the mass of one body.

    All algorithms read the masses of bodies through this function or ``body_moments``.

    Args:
        index: index of the body.
        unit:  unit of mass, for robots with constant masses; 1 kg by default.
    """
    tree, scalars = state.tree, state.scalars
    body = tree.bodies[index]
    if not body.parts:
        return constant_mass(body, scalars, unit or 1.0)
    total = constant_mass(body.rest, scalars)
    for part in body.parts:
        total = total + row_mass(state.given["params"], part.row).to_parent(_placed(part, scalars))
    return total


def constant_mass(known: Body | Lump, scalars: Scalars, unit: float = 1.0) -> Mass:
    """Return a known mass, as constants."""
    inertia = tuple(scalars.constant(entry / unit) for entry in symmetric(known.inertia))
    h = constants([entry / unit for entry in known.first_moment], scalars)
    return Mass(scalars.constant(known.mass / unit), h, inertia)


def row_mass(params: Numbers, row: int) -> Mass:
    """Return the mass that a row of ``params`` describes."""
    m, x, y, z, xx, xy, yy, xz, yz, zz = (
        params[BODY_PARAMETERS * row + k] for k in range(BODY_PARAMETERS)
    )
    return Mass(m, (x, y, z), (xx, xy, xz, yy, yz, zz))


def _placed(part: MassInput, scalars: Scalars) -> Placement:
    """Return the placement of the frame of a row of ``params`` in the body's frame."""
    origin = constants(part.translation, scalars)
    dense = fixed_rotation(part.rotation, scalars)
    if not any(isinstance(factor, DenseRotation) for factor in dense):
        return Placement(dense, dense, origin)
    # Three rotations about coordinate axes need half the products of a dense rotation.
    axes = zip((2, 0, 2), part.euler_sin_cos, strict=True)
    turns = tuple(
        PlaneRotation(axis, scalars.constant(sine), scalars.constant(cosine))
        for axis, (sine, cosine) in axes
    )
    return Placement(dense, turns, origin)


def body_moments(state: State, index: int, times: float) -> Symmetric:
    """Return a multiple of the integral of x x^T over a body's mass."""
    tree, scalars = state.tree, state.scalars
    body = tree.bodies[index]
    if body.parts:
        return second_moments(body_mass(state, index).I, times)
    return tuple(map(scalars.constant, second_moments(symmetric(body.inertia), times)))


def second_moments(inertia: Symmetric, times: float) -> Symmetric:
    """Return a multiple of the integral of x x^T dm, which is trace(I) / 2 - I."""
    xx, xy, xz, yy, yz, zz = inertia
    half = 0.5 * times
    return (
        half * (yy + zz - xx),
        -(times * xy),
        -(times * xz),
        half * (xx + zz - yy),
        -(times * yz),
        half * (xx + yy - zz),
    )


def moment(K: Matrix, w: Vector) -> Vector:
    """Return trace(K) w - K w: the moment of the forces w x y, with K the integral of y x^T."""
    x, y, z = w
    return (
        (K[1][1] + K[2][2]) * x - K[0][1] * y - K[0][2] * z,
        (K[0][0] + K[2][2]) * y - K[1][0] * x - K[1][2] * z,
        (K[0][0] + K[1][1]) * z - K[2][0] * x - K[2][1] * y,
    )
