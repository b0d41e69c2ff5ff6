"""The accelerations of a robot with soft constraints, by Newton's method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import add

import numpy as np

from gridgen.dynamics.constraints import Rows
from gridgen.dynamics.contacts.assembly import SoftConstraints
from gridgen.dynamics.linear import ldlt, ldlt_solve
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import dot

#: Most evaluations of a line search, and the slope at its end relative to that at its beginning.
SEARCHES, SLOPE = 8, 0.05
total = partial(reduce, add)


class Problem(SoftConstraints):
    """The soft constraints of a robot in one state, and their solution."""

    def torques(self, forces: Sequence[Sequence[Scalar]]) -> list[Scalar]:
        """Return the joint torques of the forces of all rows, J^T f."""
        total = [self._scalars.constant(0.0)] * self._tree.nv
        for row, own in zip(self.rows, forces, strict=True):
            row.add_torques(total, own)
        return total

    def rates(self, v: Sequence[Scalar]) -> list[list[Scalar]]:
        """Return J v of all rows."""
        return [row.rates(v) for row in self.rows]

    def responses(self, residuals: Sequence[Sequence[Scalar]]) -> tuple[Rows, list[Rows]]:
        """Return the forces of all rows, and their stiffness."""
        found = [
            row.response(own, self._scalars) for row, own in zip(self.rows, residuals, strict=True)
        ]
        return [force for force, _ in found], [C for _, C in found]

    def hessian(self, M: Rows, stiffness: Sequence[Rows]) -> Rows:
        """Return M + J^T C J."""
        H = [list(row) for row in M]
        for row, C in zip(self.rows, stiffness, strict=True):
            row.add_stiffness(H, C)
        return H

    def solve(
        self,
        M: Rows,
        b: Sequence[Scalar],
        start: Sequence[Scalar],
        given: Sequence[Scalar] = (),
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Return the accelerations a that minimize the cost, and M a; store the forces.

        Args:
            M:     mass matrix.
            b:     M a0.
            start: where the iterations begin.
            given: all that the problem depends on.
        """
        tree, scalars = self._tree, self._scalars
        nv, one = tree.nv, scalars.constant(1.0)
        inverse = [1.0 / M[j][j] for j in range(nv)]
        (tolerance,) = self._state.given["tolerance"]
        bound = tolerance * tolerance * total(d * f * f for d, f in zip(inverse, b, strict=True))
        sizes = [len(row.offsets) for row in self.rows]

        def split(flat: Sequence[Scalar]) -> list[list[Scalar]]:
            rest = iter(flat)
            return [[next(rest) for _ in range(size)] for size in sizes]

        def moved(a: Sequence[Scalar], rate: Sequence[Scalar], by: Scalar = 1.0) -> list[Scalar]:
            return [x + by * r for x, r in zip(a, rate, strict=True)]

        def newton(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
            scalars.begin("newton", -1)
            a, rest, residual = values[:nv], values[nv : 2 * nv], values[2 * nv :]
            forces, stiffness = self.responses(split(residual))
            gradient = [r - t for r, t in zip(rest, self.torques(forces), strict=True)]
            H = self.hessian(M, stiffness)
            factors = ldlt(H, self.branches, one, scalars)
            p = ldlt_solve(factors, [-g for g in gradient])
            Mp, rates = self.times(M, p), self.rates(p)
            rate = [r for own in rates for r in own]
            rest_1 = moved(rest, Mp)
            forces, _ = self.responses(split(moved(residual, rate)))
            after = [r - t for r, t in zip(rest_1, self.torques(forces), strict=True)]
            error = total(d * g * g for d, g in zip(inverse, after, strict=True))
            slopes = dot(p, gradient), dot(p, after)
            first, second = dot(p, rest), dot(p, Mp)

            def slope(by: Scalar) -> tuple[Scalar, Scalar]:
                forces, stiffness = self.responses(split(moved(residual, rate, by)))
                found, bend = first + by * second, second
                for own, force, C in zip(rates, forces, stiffness, strict=True):
                    found = found - dot(force, own)
                    bend = bend + total(r * dot(c, own) for r, c in zip(own, C, strict=True))
                return found, bend

            by = self._searched(slope, slopes, bound - error)
            new = [*moved(a, p, by), *moved(rest, Mp, by), *moved(residual, rate, by)]
            return new, bound - error

        residual = [r for own in self.residuals(start) for r in own]
        rest = [x - y for x, y in zip(self.times(M, start), b, strict=True)]
        first = [*start, *rest, *residual]
        most = tree.contact_model.iterations
        found = scalars.iterate("newton", most, first, newton, given=given)
        a, rest, residual = found[:nv], found[nv : 2 * nv], found[2 * nv :]
        if scalars.differentiates or any(map(np.iscomplexobj, b)):
            # A Newton step from the solution has the solution's derivatives by the implicit
            # function theorem: those of its matrix multiply the gradient, which is zero.
            a = scalars.hold(a)
            forces, stiffness = self.responses(self.residuals(a))
            torques = self.torques(forces)
            gradient = [x - y - t for x, y, t in zip(self.times(M, a), b, torques, strict=True)]
            factors = ldlt(self.hessian(M, stiffness), self.branches, one, scalars)
            entries = [list(row) for row in factors.entries]
            for i in range(nv):
                for below in self.branches.climb(i):
                    j = self.branches.parent(below)
                    (entries[j][i],) = scalars.hold([entries[j][i]])
            held = replace(factors, entries=entries, inverse=scalars.hold([*factors.inverse]))
            a = [x - y for x, y in zip(a, ldlt_solve(held, gradient), strict=True)]
            residual = [r for own in self.residuals(a) for r in own]
            rest = [x - y for x, y in zip(self.times(M, a), b, strict=True)]
        self.forces, self.stiffness = self.responses(split(residual))
        return a, [x + y for x, y in zip(rest, b, strict=True)]

    def residuals(self, a: Sequence[Scalar]) -> list[list[Scalar]]:
        """Return J a - aref of all rows."""
        return [
            [x + y for x, y in zip(row.rates(a), row.offsets, strict=True)] for row in self.rows
        ]

    def times(self, M: Rows, x: Sequence[Scalar]) -> list[Scalar]:
        """Return M x."""
        branches = self._tree.velocities
        y = [M[j][j] * x[j] for j in range(self._tree.nv)]
        for i in range(self._tree.nv):
            for below in branches.climb(i):
                j = branches.parent(below)
                y[i] = y[i] + M[i][j] * x[j]
                y[j] = y[j] + M[i][j] * x[i]
        return y

    def _searched(
        self,
        slope: Callable[[Scalar], tuple[Scalar, Scalar]],
        slopes: tuple[Scalar, Scalar],
        test: Scalar,
    ) -> Scalar:
        """Return the length of a step: where the slope of the cost is nearly zero.

        Args:
            slope:  slope and curvature of the cost at a length.
            slopes: at the lengths 0 and 1.
            test:   negative where a length other than 1 may be better.
        """
        scalars = self._scalars
        begin, end = slopes
        most = -(scalars.constant(SLOPE) * begin)
        size = scalars.select(end, -end, end)
        test = scalars.select(test, most - size, scalars.constant(1.0))
        one, zero, far = map(scalars.constant, (1.0, 0.0, 1e6))
        by = scalars.select(test, begin / (begin - end), one)

        def closer(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
            by, low, high = values
            found, bend = slope(by)
            size = scalars.select(found, -found, found)
            low, high = scalars.select(found, by, low), scalars.select(found, high, by)
            new = by - found / bend
            middle = 0.5 * (low + high)
            new = scalars.select(new - low, middle, scalars.select(high - new, middle, new))
            test = most - size
            return [scalars.select(test, new, by), low, high], test

        ends = scalars.select(end, one, zero), scalars.select(end, far, one)
        return scalars.iterate("length", SEARCHES, [by, *ends], closer, test)[0]
