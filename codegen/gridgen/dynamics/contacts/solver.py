"""The accelerations of a robot with soft constraints, by Newton's method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from gridgen.dynamics.constraints import Rows
from gridgen.dynamics.contacts.assembly import SoftConstraints
from gridgen.dynamics.linear import ldlt, ldlt_solve
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import dot

#: Most evaluations of a line search, and the slope at its end relative to that at its beginning.
SEARCHES, SLOPE = 8, 0.05
#: The square of the change of the accelerations before the first iteration.
UNCHANGED = 1e30
#: The square of the error that rounding may leave, in units of the tolerance.
ROUNDED = 100.0
#: Robots with at most this number of points of contacts have no branches: they stand on all.
FEW_POINTS = 4
total = partial(reduce, add)


@dataclass
class Group:
    """Rows that a program evaluates in one branch.

    Attributes:
        members: their numbers.
        columns: the velocities that move them; none if there is no branch.
        test:    negative where one of them may act; ``None`` if there is no branch.
    """

    members: Any
    columns: Sequence[int]
    test: Scalar | None = None

    def get(self, torques: Sequence[Scalar], H: Rows | None = None) -> list[Scalar]:
        """Return the joint torques and the entries of a matrix that the rows change."""
        found = [torques[j] for j in self.columns]
        return found + [H[i][j] for i, j in self._entries(H)] if H else found

    def put(self, torques: list[Scalar], H: Rows | None, values: Sequence[Scalar]) -> None:
        """Store what ``get`` returns."""
        rest = iter(values)
        for j in self.columns:
            torques[j] = next(rest)
        if H:
            for i, j in self._entries(H):
                H[i][j] = next(rest)

    def _entries(self, H: Rows) -> list[tuple[int, int]]:
        return [(i, j) for at, j in enumerate(self.columns) for i in self.columns[at:]]


class Problem(SoftConstraints):
    """The soft constraints of a robot in one state, and their solution."""

    def torques(self, forces: Sequence[Sequence[Scalar]], a: Sequence[Scalar] = ()) -> list[Scalar]:
        """Return the joint torques of the forces of all rows, J^T f; of sets at accelerations."""
        total = [self._scalars.constant(0.0)] * self._tree.nv
        for row, own in zip(self.rows, forces, strict=True):
            row.add_torques(total, own)
        if self.sets:
            self.sets.stiffened(a, total, None)
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
        nv, zero, one = tree.nv, scalars.constant(0.0), scalars.constant(1.0)
        groups = self._groups()
        inverse = [1.0 / M[j][j] for j in range(nv)]
        (tolerance,) = self._state.given["tolerance"]

        def size(torques: Sequence[Scalar]) -> Scalar:
            return total(d * f * f for d, f in zip(inverse, torques, strict=True))

        free = size(b)
        sizes = [len(row.offsets) for row in self.rows]

        def split(flat: Sequence[Scalar]) -> list[list[Scalar]]:
            rest = iter(flat)
            return [[next(rest) for _ in range(size)] for size in sizes]

        def moved(a: Sequence[Scalar], rate: Sequence[Scalar], by: Scalar = 1.0) -> list[Scalar]:
            return [x + by * r for x, r in zip(a, rate, strict=True)]

        def newton(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
            scalars.begin("newton", -1)
            a, rest = values[:nv], values[nv : 2 * nv]
            residuals, before = split(values[2 * nv : -1]), values[-1]
            H, torques = [list(row) for row in M], [zero] * nv
            for group in groups:

                def stiffen(entries: list[Scalar], group: Group = group) -> list[Scalar]:
                    group.put(torques, H, entries)
                    for k in group.members:
                        force, C = self.rows[k].response(residuals[k], scalars)
                        self.rows[k].add_torques(torques, force)
                        self.rows[k].add_stiffness(H, C)
                    return group.get(torques, H)

                group.put(torques, H, self._where(group, group.get(torques, H), stiffen))
            if self.sets:
                self.sets.stiffened(a, torques, H)
            gradient = [r - t for r, t in zip(rest, torques, strict=True)]
            factors = ldlt(H, self.branches, one, scalars)
            p = ldlt_solve(factors, [-g for g in gradient])
            Mp = self.times(M, p)
            rates: list[list[Scalar]] = [[zero] * size for size in sizes]
            torques = [zero] * nv
            for group in groups:

                def advance(entries: list[Scalar], group: Group = group) -> list[Scalar]:
                    group.put(torques, None, entries)
                    for k in group.members:
                        rates[k] = self.rows[k].rates(p)
                        force, _ = self.rows[k].response(moved(residuals[k], rates[k]), scalars)
                        self.rows[k].add_torques(torques, force)
                    return [*group.get(torques), *(r for k in group.members for r in rates[k])]

                count = sum(sizes[k] for k in group.members)
                found = self._where(group, [*group.get(torques), *[zero] * count], advance)
                group.put(torques, None, found[: len(found) - count])
                flat = iter(found[len(found) - count :])
                for k in group.members:
                    rates[k] = [next(flat) for _ in range(sizes[k])]
            if self.sets:
                self.sets.advanced(p, torques)
            rest_1 = moved(rest, Mp)
            after = [r - t for r, t in zip(rest_1, torques, strict=True)]
            # b vanishes without gravity, and forces of deep contacts are far larger.
            bound = tolerance * tolerance * (free + size(torques))
            test = bound - size(after)
            slopes = dot(p, gradient), dot(p, after)
            first, second = dot(p, rest), dot(p, Mp)

            def slope(by: Scalar) -> tuple[Scalar, Scalar]:
                entries = [first + by * second, second]
                for group in groups:

                    def bent(entries: list[Scalar], group: Group = group) -> list[Scalar]:
                        found, bend = entries
                        for k in group.members:
                            own = rates[k]
                            at = moved(residuals[k], own, by)
                            force, C = self.rows[k].response(at, scalars)
                            found = found - dot(force, own)
                            bend = bend + total(
                                r * dot(c, own) for r, c in zip(own, C, strict=True)
                            )
                        return [found, bend]

                    entries = self._where(group, entries, bent)
                if self.sets:
                    entries = [x + y for x, y in zip(entries, self.sets.bent(by), strict=True)]
                return entries[0], entries[1]

            by = self._searched(slope, slopes, test)
            rate = [r for own in rates for r in own]
            new = [*moved(a, p, by), *moved(rest, Mp, by), *moved(values[2 * nv : -1], rate, by)]
            # Rounding of stiff forces may exceed the bound; the accelerations do not change then:
            # p H p, the square of their change, is below it twice in a row.
            change = -slopes[0]
            settled = test + scalars.constant(ROUNDED - 1.0) * bound
            for longest in (bound - before, bound - change):
                settled = scalars.select(settled - longest, settled, longest)
            return [*new, change], scalars.select(test - settled, settled, test)

        residual = [r for own in self.residuals(start) for r in own]
        rest = [x - y for x, y in zip(self.times(M, start), b, strict=True)]
        first = [*start, *rest, *residual, scalars.constant(UNCHANGED)]
        most = tree.contact_model.iterations
        found = scalars.iterate("newton", most, first, newton, given=given, reports=True)
        a, rest, residual = found[:nv], found[nv : 2 * nv], found[2 * nv : -1]
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

    def _groups(self) -> list[Group]:
        """Return rows that act at a time: those of all states, and the points of each chain."""
        count = len(self.rows) - len(self.points)
        if len(self.points) <= FEW_POINTS:
            return [Group(range(len(self.rows)), [])]
        chains: dict[tuple[int, ...], Group] = {}
        for k, point in enumerate(self.points, count):
            group = chains.setdefault(tuple(point.columns), Group([], point.columns))
            group.members.append(k)
            nearer = point.distance
            if group.test is not None:
                nearer = self._scalars.select(nearer - group.test, nearer, group.test)
            group.test = nearer
        return [Group(range(count), []), *chains.values()]

    def _where(
        self, group: Group, values: list[Scalar], change: Callable[[list[Scalar]], list[Scalar]]
    ) -> list[Scalar]:
        """Return values that a group of rows changes, where it may act."""
        if group.test is None:
            return change(values)
        one = self._scalars.constant(1.0)
        return self._scalars.iterate(
            "touch", 1, values, lambda before: (change(before), one), group.test
        )

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
        apart = begin - end  # zero where rounding errors alone are left
        by = scalars.select(test, begin / scalars.select(-(apart * apart), apart, one), one)

        def closer(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
            by, low, high = values
            found, bend = slope(by)
            size = scalars.select(found, -found, found)
            low, high = scalars.select(found, by, low), scalars.select(found, high, by)
            # A state without a step, whose search has ended, has no curvature.
            new = by - found / scalars.select(-bend, bend, one)
            middle = 0.5 * (low + high)
            new = scalars.select(new - low, middle, scalars.select(high - new, middle, new))
            test = most - size
            return [scalars.select(test, new, by), low, high], test

        ends = scalars.select(end, one, zero), scalars.select(end, far, one)
        return scalars.iterate("length", SEARCHES, [by, *ends], closer, test)[0]
