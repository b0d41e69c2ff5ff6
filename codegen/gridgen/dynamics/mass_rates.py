"""Masses of bodies with their response to changes of velocity, which are summed over subtrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gridgen.dynamics.mass import Mass
from gridgen.dynamics.motion_derivatives import add_wrenches
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import (
    Motion,
    Placement,
    Symmetric,
    Vector,
    Wrench,
    add,
    apply,
    cross,
    dot,
    full,
    scale,
    split,
    sub,
    symmetric,
)


def flat(*vectors: Sequence[Scalar]) -> list[Scalar]:
    """Return the entries of several vectors."""
    return [entry for vector in vectors for entry in vector]


def wrench_at(shift: Vector, wrench: Wrench) -> Wrench:
    """Return a wrench at another origin, from which the present one is ``shift`` away."""
    return wrench[0], add(wrench[1], cross(shift, wrench[0]))


@dataclass(frozen=True)
class MassRates:
    """A (composite) moving body: its mass properties and the response to changes of velocity.

    All sums over bodies.

    Attributes:
        mass:     mass properties.
        turning:  symmetric part of the moment's response to a change of angular velocity.
        momentum: linear and angular momentum.
        wrench:   wrench on the body.
    """

    mass: Mass
    turning: Symmetric
    momentum: Wrench
    wrench: Wrench

    @classmethod
    def of(cls, mass: Mass, v: Motion, wrench: Wrench) -> MassRates:
        """Return those of a body with a velocity and a wrench."""
        (slide, spin), h = v, mass.h
        columns = [cross(spin, column) for column in full(mass.I)]  # of [w] I
        twice = dot(slide, h) + dot(slide, h)

        def entry(i: int, j: int) -> Scalar:
            across = columns[j][i] + columns[i][j] - h[i] * slide[j] - slide[i] * h[j]
            return across + twice if i == j else across

        turning = symmetric([[entry(i, j) for j in range(3)] for i in range(3)])
        return cls(mass, turning, mass.wrench(*v), wrench)

    def to_parent(self, shift: Vector) -> MassRates:
        """Return the record at another origin, from which the present one is ``shift`` away."""
        linear, _ = self.momentum
        twice = dot(shift, linear) + dot(shift, linear)

        def entry(i: int, j: int) -> Scalar:
            across = linear[i] * shift[j] + shift[i] * linear[j]
            return twice - across if i == j else -across

        moved = symmetric([[entry(i, j) for j in range(3)] for i in range(3)])
        turning = tuple(a + b for a, b in zip(self.turning, moved, strict=True))
        mass = self.mass.to_parent(Placement((), (), shift))
        return MassRates(
            mass, turning, wrench_at(shift, self.momentum), wrench_at(shift, self.wrench)
        )

    def flat(self) -> list[Scalar]:
        """Return the numbers in order."""
        mass = self.mass
        return flat((mass.m,), mass.h, mass.I, self.turning, *self.momentum, *self.wrench)

    @classmethod
    def read(cls, values: Sequence[Scalar]) -> MassRates:
        """Return the record of ``flat`` numbers."""
        mass, turning = read_mass(values[:10]), tuple(values[10:16])
        return cls(mass, turning, split(values[16:22]), split(values[22:28]))

    def wrench_of_change(self, first: Motion, second: Motion, times: float = 1.0) -> Wrench:
        """Return 2 B first + times I second: the response to a change of the motion."""
        (linear, angular), (_, spin) = self.momentum, first
        moment = sub(apply(full(self.turning), spin), cross(angular, spin))
        f, n = self.mass.wrench(*second)
        return sub(scale(times, f), scale(2.0, cross(linear, spin))), add(moment, scale(times, n))

    def with_wrench(self, more: Wrench) -> MassRates:
        """Return the same with a wrench added."""
        return replace(self, wrench=add_wrenches(self.wrench, more))

    def row(self, axis: Motion) -> Vector:
        """Return S^T 2 B, by the angular velocity: the response of a joint torque."""
        (slide, spin), (linear, angular) = axis, self.momentum
        turned = add(apply(full(self.turning), spin), cross(angular, spin))
        return add(turned, scale(2.0, cross(linear, slide)))


def read_mass(values: Sequence[Scalar]) -> Mass:
    """Return mass, first moment and inertia of a list that begins with them."""
    return Mass(values[0], (values[1], values[2], values[3]), tuple(values[4:10]))
