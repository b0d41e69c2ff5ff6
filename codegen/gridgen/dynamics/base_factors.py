"""Factorization of the mass matrix and solutions with it, by a team of lanes.

The factors are those of ``gridgen.dynamics.linear``: M = L^T D L. Lane j has column j in registers;
lanes with several columns have them in slots. Eliminations of velocities at one depth do not depend
on each other: between synchronizations, all velocities of a depth are eliminated. Row k of the
matrix, shared with all lanes, becomes row k of D L.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gridgen.dynamics.base_bodies import Bodies, scale6
from gridgen.dynamics.base_frame import enter_gradient, enter_masses
from gridgen.dynamics.losses import loss_of
from gridgen.dynamics.motion_derivatives import MassRates, add_wrenches, along, flat, read_mass
from gridgen.dynamics.state import Numbers, State
from gridgen.symbolic.branches import Branches
from gridgen.symbolic.lanes import Area, LaneOperations, Sums, Tile
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import Motion, Wrench, split

# Numbers of the columns that a lane has in registers at once.
_MAX_IN_COLUMNS = 80


@dataclass(frozen=True)
class Ordered:
    """Velocities by depth: ancestors, levels."""

    branches: Branches  #: parent of each velocity.

    @cached_property
    def above(self) -> list[list[int]]:
        """The ancestors of each velocity, the nearest first."""
        return [
            [self.branches.parent(below) for below in self.branches.climb(k)]
            for k in range(len(self.branches.parents))
        ]

    @cached_property
    def levels(self) -> list[list[int]]:
        """The velocities of each depth, the roots first."""
        deepest = max(map(len, self.above))
        return [
            [k for k, above in enumerate(self.above) if len(above) == depth]
            for depth in range(deepest + 1)
        ]


class LaneFactors:
    """The factors of a mass matrix.

    Args:
        lanes:    the lanes.
        M:        the matrix, overwritten; only entries between a velocity (row) and its ancestors
                  (columns) are read.
        branches: the sparsity of the matrix.
    """

    def __init__(self, lanes: LaneOperations, M: Tile, branches: Branches) -> None:
        self.lanes, self.M, self.order = lanes, M, Ordered(branches)
        self.size = len(branches.parents)
        self.slots = lanes.slots(self.size)
        self.inverse: Area = lanes.array("inverse", self.size)
        self._factorize()

    def _own(self, slot: Sequence[int]) -> str:
        """Return the column of each lane; beyond the matrix, that of the last."""
        return self.lanes.index([*slot, *[slot[-1]] * (self.lanes.width - len(slot))])

    def _factorize(self) -> None:
        lanes, M, above = self.lanes, self.M, self.order.above
        columns = [
            [lanes.entry(M, str(row), self._own(slot)) for row in range(self.size)]
            for slot in self.slots
        ]
        lanes.meet()
        for level in reversed(self.order.levels):
            for slot, column in zip(self.slots, columns, strict=True):
                with lanes.some([True] * len(slot)):
                    for k in level:
                        lanes.enter(M, str(k), self._own(slot), column[k])
            lanes.meet()
            inverses = []
            for k in level:
                row = lanes.row(M, k, [*above[k], k])
                inverses.append(lanes.constant(1.0) / row[k])
                for column in columns:
                    factor = column[k] * inverses[-1]
                    for i in above[k]:
                        column[i] = column[i] - row[i] * factor
            with lanes.some([True]):
                for k, inverse in zip(level, inverses, strict=True):
                    lanes.set(self.inverse, str(k), inverse)
        lanes.meet()

    def solve_all(self, right: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
        """Return the solutions of M x = right for the columns of each lane."""
        lanes, above, found = self.lanes, self.order.above, [list(x) for x in right]
        for level in reversed(self.order.levels):
            for k in level:
                row, inverse = self._row(k)
                for x in found:
                    x[k] = x[k] * inverse
                    for i in above[k]:
                        x[i] = x[i] - row[i] * x[k]
        for level in self.order.levels:
            for k in level if above[level[0]] else ():
                row, inverse = self._row(k)
                for x in found:
                    total = lanes.constant(0.0)
                    for i in reversed(above[k]):
                        total = total + row[i] * x[i]
                    x[k] = x[k] - inverse * total
        return found

    def _row(self, k: int) -> tuple[dict[int, Scalar], Scalar]:
        self.lanes.fence()
        row = self.lanes.row(self.M, k, self.order.above[k]) if self.order.above[k] else {}
        return row, self.lanes.vector(self.inverse, [k])[k]

    def solve_one(self, name: str, right: Area) -> Area:
        """Return the solution for one right-hand side, with one row in each lane.

        Args:
            name:  of the solution's memory.
            right: the right-hand side.
        """
        lanes, M = self.lanes, self.M
        own = [self._own(slot) for slot in self.slots]
        inverse = [lanes.number_at(self.inverse, at) for at in own]
        x = [lanes.number_at(right, at) for at in own]
        # Numbers one by one: lanes of the next level write their neighbors.
        begun = lanes.array(name, self.size)
        for level in reversed(self.order.levels):
            self._share(begun, level, [a * b for a, b in zip(x, inverse, strict=True)])
            if level is self.order.levels[0]:
                break
            known = {k: lanes.number_at(begun, str(k)) for k in level}
            for k in level:
                for s, at in enumerate(own):
                    x[s] = x[s] - lanes.entry(M, str(k), at) * known[k]
        ended = lanes.array(name, self.size)
        y = [lanes.number_at(begun, at) for at in own]
        totals = [lanes.constant(0.0) for _ in own]
        for level in self.order.levels:
            values = [a - b * c for a, b, c in zip(y, inverse, totals, strict=True)]
            self._share(ended, level, values)
            if level is self.order.levels[-1]:
                break
            known = {k: lanes.number_at(ended, str(k)) for k in level}
            for k in level:
                for s, at in enumerate(own):
                    totals[s] = totals[s] + lanes.entry(M, at, str(k)) * known[k]
        return ended

    def _share(self, area: Area, level: Sequence[int], values: Sequence[Scalar]) -> None:
        """Share the values of a level's lanes with all lanes."""
        for slot, value in zip(self.slots, values, strict=True):
            if any(k in level for k in slot):
                with self.lanes.some([k in level for k in slot]):
                    self.lanes.set(area, self._own(slot), value)
        self.lanes.meet()


def _factors(bodies: Bodies, lever: Wrench, root: Wrench | None) -> LaneFactors:
    """Return the factors of the mass matrix.

    Args:
        bodies: the bodies.
        lever:  wrench of the unit acceleration of each joint.
        root:   that of a floating base's velocities, one in each lane.
    """
    lanes, tree = bodies.lanes, bodies.tree
    axes = lanes.publish("axis", flat(*bodies.axis))
    lanes.meet()
    lanes.begin("mass matrix", -1)
    M = lanes.tile("mass", bodies.axes, is_aligned=True)
    lanes.clear(M)
    enter_masses(bodies, M, axes, lever, root, is_lower=not tree.has_mimic)
    bodies.fold(M)
    lanes.begin("factorization", -1)
    return LaneFactors(lanes, M, tree.velocities)


def _right(bodies: Bodies, sums: Sums, wrench: Wrench, first: int) -> Area:
    """Return the joint torques minus the bias forces, in shared memory.

    Args:
        bodies: the bodies.
        sums:   the composite bodies.
        wrench: that each joint transmits.
        first:  where it begins among the sums.
    """
    lanes = bodies.lanes
    lanes.begin("torques less bias forces", -1)
    right = lanes.array("right", bodies.tree.nv)

    def share(velocities: Sequence[int | None], bias: Scalar) -> None:
        tau = lanes.read("tau", velocities)
        rest = tau - bias - bodies.losses(loss_of, velocities)
        with lanes.some([j is not None for j in velocities]):
            lanes.set(right, lanes.index(velocities), rest)

    share(bodies.owned, bodies.led(along(bodies.axis, wrench)))
    if bodies.base is not None:
        share(bodies.floating, sums.of_root(first))
    return right


def forward_dynamics(state: State, tau: Numbers) -> None:
    """Write the joint accelerations ``qdd``; see ``gridgen.dynamics.crba``."""
    bodies = Bodies.of_limbs(state)
    qdd = accelerations(bodies)
    for slot in bodies.lanes.slots(state.tree.nv):
        bodies.lanes.write("qdd", slot, bodies.lanes.number_of_each(qdd, slot))


def accelerations(bodies: Bodies) -> Area:
    """Return the joint accelerations."""
    lanes = bodies.lanes
    sums = bodies.composite(bodies.mass, bodies.wrench())
    own = sums.own()
    right = _right(bodies, sums, split(own[10:]), 10)
    root = read_mass(sums.root()).wrench(*lanes.units()) if bodies.base else None
    factors = _factors(bodies, read_mass(own).wrench(*bodies.axis), root)
    lanes.begin("solution", -1)
    return factors.solve_one("acceleration", right)


def mass_matrix_inverse(state: State) -> None:
    """Write the inverse of the mass matrix, ``Minv``; see ``gridgen.dynamics.minverse``."""
    bodies = Bodies.of_limbs(state)
    lanes, nv = bodies.lanes, state.tree.nv
    sums = bodies.composite(bodies.mass)
    lever = read_mass(sums.own()).wrench(*bodies.axis)
    root = read_mass(sums.root()).wrench(*lanes.units()) if bodies.base else None
    factors = _factors(bodies, lever, root)
    lanes.begin("columns of the inverse", -1)
    for columns in lanes.columns(nv, max(1, _MAX_IN_COLUMNS // nv)):
        right = [[lanes.value(f"T({c} == {i})") for i in range(nv)] for c in columns]
        for column, x in zip(columns, factors.solve_all(right), strict=True):
            lanes.write_column(column, {"Minv": nv}, x)


def forward_dynamics_gradient(state: State, tau: Numbers) -> None:
    """Write ``dqdd_dq``, ``dqdd_dqd``, ``dqdd_dtau``; see ``gridgen.dynamics.derivatives``."""
    bodies, nv = Bodies.of_limbs(state), state.tree.nv
    arrays = dict.fromkeys(("dqdd_dq", "dqdd_dqd", "dqdd_dtau"), nv)
    for column, x in Rates(bodies).columns():
        bodies.lanes.write_column(column, arrays, x)


class Rates:
    """The joint accelerations and their derivatives.

    Attributes:
        qdd: joint accelerations.
    """

    def __init__(self, bodies: Bodies) -> None:
        self.bodies, self.lanes = bodies, bodies.lanes
        lanes, axes = bodies.lanes, bodies.axes
        sums = bodies.composite(MassRates.of(bodies.mass, bodies.velocity, bodies.wrench()))
        total = MassRates.read(sums.own())
        root = MassRates.read(sums.root()) if bodies.base else None
        right = _right(bodies, sums, total.wrench, 22)
        masses = root.mass.wrench(*lanes.units()) if root else None
        self._factors = _factors(bodies, total.mass.wrench(*bodies.axis), masses)
        lanes.begin("accelerations", -1)
        self.qdd = self._factors.solve_one("acceleration", right)
        change = _accelerated(bodies, self.qdd)
        lanes.begin("wrenches of the accelerations: sums over subtrees", -1)
        more = lanes.inward(
            "wrench",
            flat(*bodies.mass.wrench(*change)),
            stages=bodies.stages,
            transfer=lambda found: flat(*bodies.raised(split(found), 0)),
        )
        total = total.with_wrench(split(more.own()))
        acceleration = add_wrenches(bodies.acceleration, change)

        def tiles() -> list[Tile]:
            whole = lanes.tile("gradient", axes, 2 * axes)
            return [whole, whole.beginning(axes)]

        self._wide, _ = enter_gradient(bodies, total, root, acceleration, tiles)

    def columns(self) -> Iterator[tuple[str, list[Scalar]]]:
        """Yield columns with the derivatives by positions, velocities and torques."""
        lanes, wide = self.lanes, self._wide
        nv, axes = self.bodies.tree.nv, self.bodies.axes
        lanes.begin("columns of the gradients", -1)
        for columns in lanes.columns(3 * nv, max(1, _MAX_IN_COLUMNS // nv)):
            right_sides = []
            for c in columns:
                at = f"({c} < {nv} ? {c} : {c} + {axes - nv})" if axes > nv else c
                entries = []
                for i in range(nv):
                    entry = f"-{wide.place(str(i), at)}"
                    one = f"T({c} == {2 * nv + i})"
                    entries.append(lanes.value(f"({c} < {2 * nv} ? {entry} : {one})"))
                right_sides.append(entries)
            lanes.touch(wide)
            yield from zip(columns, self._factors.solve_all(right_sides), strict=True)


def _accelerated(bodies: Bodies, qdd: Area) -> Motion:
    """Return the accelerations of the bodies for joint accelerations in shared memory."""
    lanes = bodies.lanes
    velocities: list[int | None] = [None, *(body.v_index for body in bodies.joints)]
    rate = lanes.number_of_each(qdd, velocities)
    if bodies.tree.has_mimic:
        rate = bodies.each(lambda body: body.multiplier) * rate
    change = bodies.along_paths("change", scale6(rate, bodies.path_axis))
    if bodies.base is not None:
        own = lanes.vector(qdd, bodies.floating)
        change = add_wrenches(change, split([*own.values()]))
    return bodies.moved(change)
