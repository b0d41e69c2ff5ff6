"""Points of many contacts, in loops over data: their forces and stiffness, summed by body.

All vectors are in common axes, those of the free joint that carries the robot. The velocity of a
point follows from the twist V of its body. A point on the ground adds its wrench and a symmetric
6 x 6 matrix, the stiffness of its body, to those of its body. Sums over the bodies beyond a joint
give its torque S . W, and S_i . K S_j of its velocities with those of its ancestors, as for the
composite inertias of the mass matrix. A point between two bodies adds to the velocities on the path
between them, one by one.

A program lists the points that act in some lane of a pack, and evaluates these alone. The others
add zeros, so no result depends on the other states of a pack.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

from gridgen.dynamics.constraints import Constraints, Rows
from gridgen.dynamics.contacts.nearest import kind_of
from gridgen.dynamics.contacts.rows import Cone
from gridgen.dynamics.contacts.touching import FAR, Touch, distance_bound, prepare, touches
from gridgen.dynamics.frames import Pose
from gridgen.dynamics.state import Numbers
from gridgen.model.soft import Contact, Solid
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import Vector, add, apply, constants, cross, dot, scale

#: Robots with at most this number of points have the rows of each in their text.
FEW_ROWS = 20
Six = Sequence[Scalar]
#: Places of the entries of a symmetric 6 x 6 matrix in a list of 21.
_PLACES = {(i, j): i * (i + 1) // 2 + j for i in range(6) for j in range(i + 1)}


@dataclass(frozen=True)
class Candidate:
    """A contact, as an item of a loop.

    Attributes:
        contact: the contact.
        number:  its number.
        place:   of its first point.
        weight:  approximate inverse inertia.
        sign:    -1 if the other shape moves alone, otherwise 1.
        body, other_body: as of ``Spot``.
        is_between: whether both bodies move.
    """

    contact: Contact
    number: int
    place: int
    weight: float
    sign: float
    body: int
    other_body: int
    is_between: bool


@dataclass(frozen=True)
class Spot:
    """A point, as an item of a loop.

    Attributes:
        place:      number of the point.
        body:       on which the force acts.
        other_body: on which the opposite force acts; -1 for none.
        begin:      the first of the path's velocities in a list; ``end`` likewise.
        end:        see ``begin``.
        number:     of the point among all contacts.
        sign:       that of the contact.
    """

    place: int
    body: int
    other_body: int
    begin: int
    end: int
    number: int
    sign: float


@dataclass(frozen=True)
class Step:
    """A velocity on the path between two bodies, with the sign of its motion."""

    v_index: int
    sign: float


@dataclass(frozen=True)
class Yielding:
    """A point in a state.

    Attributes:
        point:   the point.
        slides:  axes of the rows of velocities, the normal first.
        turns:   axes of the rows of angular velocities.
        offsets: -aref of each row.
        cone:    how it yields.
    """

    point: Vector
    slides: tuple[Vector, ...]
    turns: tuple[Vector, ...]
    offsets: tuple[Scalar, ...]
    cone: Cone

    def rates(self, twist: Six) -> list[Scalar]:
        """Return J v for the twist of the body."""
        return rates_of(self.point, (self.slides, self.turns), twist)

    def residual(self, twist: Six) -> list[Scalar]:
        """Return J a - aref."""
        return [rate + x for rate, x in zip(self.rates(twist), self.offsets, strict=True)]

    def wrench(self, forces: Numbers) -> list[Scalar]:
        """Return J^T f: the wrench on the body."""
        count = len(self.slides)
        force = _combined(self.slides, forces[:count])
        moment = cross(self.point, force)
        for axis, entry in zip(self.turns, forces[count:], strict=True):
            moment = add(moment, scale(entry, axis))
        return [*force, *moment]

    def stiffness(self, C: Rows) -> list[Scalar]:
        """Return J^T C J, a symmetric 6 x 6 matrix as of ``_PLACES``."""
        count = len(self.slides)
        pulled = [_combined(self.slides, row[:count]) for row in C]
        slide = _products(self.slides, pulled[:count])
        couple = [cross(self.point, column) for column in zip(*slide, strict=True)]
        both = [*zip(*couple, strict=True)]
        if self.turns:
            turned = [_combined(self.turns, row[count:]) for row in C]
            mixed = _products(self.slides, turned[:count])
            both = [
                add(own, column) for own, column in zip(both, zip(*mixed, strict=True), strict=True)
            ]
        turn = [cross(self.point, row) for row in both]
        if self.turns:
            others = [cross(self.point, column) for column in zip(*mixed, strict=True)]
            parts = zip(*others, strict=True), _products(self.turns, turned[count:])
            for part in parts:
                turn = [add(own, row) for own, row in zip(turn, part, strict=True)]
        rows = [*slide, *([*b, *t] for b, t in zip(both, turn, strict=True))]
        return [rows[i][j] for i, j in _PLACES]


def rates_of(point: Vector, axes: Sequence[Sequence[Vector]], twist: Six) -> list[Scalar]:
    """Return the velocity of a point along axes, and the angular velocity along others."""
    slides, turns = axes
    spin = tuple(twist[3:])
    velocity = add(tuple(twist[:3]), cross(spin, point))
    return [*(dot(axis, velocity) for axis in slides), *(dot(axis, spin) for axis in turns)]


def _combined(axes: Sequence[Vector], factors: Numbers) -> Vector:
    """Return a sum of multiples of axes."""
    return reduce(add, (scale(x, axis) for x, axis in zip(factors, axes, strict=True)))


def _products(axes: Sequence[Vector], others: Sequence[Vector]) -> list[Vector]:
    """Return the sum of the dyadic products of vectors, a 3 x 3 matrix."""
    return [_combined(others, entries) for entries in zip(*axes, strict=True)]


class CommonAxes(Constraints):
    """Poses of shapes in the same axes, also of those of a loop.

    Args:
        frame:  of the robot.
        axes:   the axes.
        solids: the shapes.
    """

    def __init__(self, frame: Constraints, axes: int, solids: Sequence[Solid]) -> None:
        self.state, self.tree, self.scalars = frame.state, frame.tree, frame.scalars
        self._poses, self.held, self.axes = frame._poses, frame.held, axes
        self._bodies = self.scalars.records("body", len(self.tree.bodies) + 1)
        self.pose(-1, axes)
        for body in sorted({solid.body for solid in solids}):
            self._bodies[body + 1] = self.pose(axes, body)
        self._shapes = self.scalars.records("shape", 1 + max(solid.place for solid in solids))
        for solid in self.scalars.each("shape", solids, lambda solid: ()):
            self._shapes[solid.place] = super().shape(axes, solid)

    def pose(self, axes: int, body: int) -> Pose:
        """Return the pose of a body; in a loop, in the common axes."""
        if isinstance(body, int):
            return super().pose(axes, body)
        pose: Pose = self._bodies[body + 1]
        return pose

    def shape(self, axes: int, solid: Solid) -> Pose:
        """Return the pose of a shape in the common axes."""
        pose: Pose = self._shapes[solid.place]
        return pose

    def path(self, link: int, to: int) -> tuple[int, list[tuple[int, float]]]:
        """Return the common axes; loops have no path."""
        return self.axes, []

    def between(self, link: int, to: int) -> list[tuple[int, float]]:
        """Return the joints from a body to another one, with their signs."""
        return super().path(link, to)[1]


class SoftRows(Protocol):
    """The part of ``SoftConstraints`` that the points of all contacts use."""

    def columns_of(self, bodies: Iterable[int]) -> list[int]:
        """Return the velocities of the joints of bodies, parents first."""

    def weight(self, solid: Solid) -> float:
        """Return the approximate inverse inertia of a shape's link."""

    def yielding(
        self,
        contact: Contact,
        inside: Scalar,
        sliding: Scalar,
        weight: Scalar,
        rates: Sequence[Scalar],
    ) -> tuple[list[Scalar], Cone]:
        """Return -aref of the rows of a point, and its cone."""


class PointSet:
    """Points with rows of equal number, on one moving body or between two.

    Attributes:
        spots:      the points.
        is_between: whether both bodies move.
        gaps:       negative where a point acts.
        chosen:     those that act in some state of a pack.
        points:     the ``Yielding`` of each.
        residuals:  J a - aref of the last ``PointSets.stiffened``.
        rates:      J p of the last ``PointSets.advanced``.
    """

    def __init__(self, spots: Sequence[Spot], scalars: Scalars, *, is_between: bool) -> None:
        self.spots, self.is_between = spots, is_between
        self.gaps, self.points, self.residuals, self.rates = (
            scalars.records(name, len(spots)) for name in ("gap", "point", "residual", "rate")
        )
        self.chosen: Any = None

    def velocity(self, spot: Spot, twists: Any) -> Six:
        """Return the twist of a point's body, relative to the other one."""
        own: Six = twists[spot.body + 1]
        if not self.is_between:
            return own
        return [x - y for x, y in zip(own, twists[spot.other_body + 1], strict=True)]


class PointSets:
    """The points of many contacts.

    Args:
        rows:    the soft constraints.
        frame:   of the robot.
        numbers: of the contacts.
        qd:      joint velocities.
    """

    def __init__(
        self, rows: SoftRows, frame: Constraints, numbers: Sequence[int], qd: Numbers
    ) -> None:
        tree, scalars = frame.tree, frame.scalars
        self._scalars, self._tree = scalars, tree
        self._order = {j: rank for rank, j in enumerate(tree.velocities.order)}
        contacts = {number: tree.contact_model.contacts[number] for number in numbers}
        solids = [*dict.fromkeys(solid for one in contacts.values() for solid in one.solids)]
        shapes = {solid.body for solid in solids} - {-1}
        self._bodies = sorted({b for body in shapes for b in (*tree.ancestors(body), body)})
        roots = {body for body in self._bodies if tree.bodies[body].parent < 0}
        root = next(iter(roots))
        self.axes = root if len(roots) == 1 and tree.bodies[root].joint_type.is_free else -1
        origin = constants((0.0, 0.0, 0.0), scalars)
        self._screws: dict[int, list[tuple[int, Six]]] = {}
        for body in self._bodies:
            turn = frame.turn(self.axes, body, origin, 1.0)
            screws = ([*v, *w] for v, w in turn.screws)
            self._screws[body] = list(zip(turn.columns, screws, strict=True))
        self._frame = CommonAxes(frame, self.axes, solids)
        self._read(rows, contacts)
        self._twists_of_qd = self._twists("moving", qd)
        self._place(rows)

    def _read(self, rows: SoftRows, contacts: Mapping[int, Contact]) -> None:
        """Sort the points into sets, and find the velocities between their bodies."""
        tree = self._tree
        counts = [contact.count for contact in tree.contact_model.contacts]
        firsts = [sum(counts[:k]) for k in range(len(counts))]
        self._steps: list[Step] = []
        self.columns: list[list[int]] = []
        paths: dict[tuple[int, int], tuple[int, int]] = {}
        spots: dict[tuple[int, bool], list[Spot]] = {}
        self._candidates: list[Candidate] = []
        for number, contact in contacts.items():
            body, other = contact.solid.body, -1
            if isinstance(contact.other, Solid):
                other = contact.other.body
            sign = 1.0 if body >= 0 else -1.0
            body, other = (body, other) if body >= 0 else (other, -1)
            if other >= 0 and (body, other) not in paths:
                path = self._frame.between(body, other)
                signs = {j: s for index, s in path for j, _ in self._screws[index]}
                columns = rows.columns_of(index for index, _ in path)
                self.columns.append(columns)
                begin = len(self._steps)
                self._steps += [Step(j, signs[j]) for j in columns]
                paths[body, other] = begin, len(self._steps)
            own = spots.setdefault((contact.condim, other >= 0), [])
            weight = sum(map(rows.weight, contact.solids))
            self._candidates.append(
                Candidate(contact, number, len(own), weight, sign, body, other, other >= 0)
            )
            path_of = paths.get((body, other), (0, 0))
            for corner in range(contact.count):
                own.append(Spot(len(own), body, other, *path_of, firsts[number] + corner, sign))
        self._sets = {
            key: PointSet(own, self._scalars, is_between=key[1]) for key, own in spots.items()
        }
        self._path = self._scalars.items(self._steps)
        if self._steps:
            self._screw = self._scalars.records("screw", tree.nv)
            for body in self._bodies:
                for j, screw in self._screws[body]:
                    self._screw[j] = tuple(screw)

    def _place(self, rows: SoftRows) -> None:
        """Compute the points of the contacts."""
        scalars, given = self._scalars, self._frame.state.given
        for contact in {_ground_of(one): one.contact for one in self._candidates}.values():
            prepare(self._frame, contact)
        for one in scalars.each("shape", self._candidates, _text_of):
            contact, radius = one.contact, given["radii"][one.number]
            own = self._sets[contact.condim, one.is_between]
            bound = distance_bound(self._frame, contact, radius)

            def find(one: Any = one, own: PointSet = own, bound: Scalar = bound) -> None:
                contact, radius = one.contact, given["radii"][one.number]
                for corner, touch in enumerate(touches(self._frame, contact, radius)):
                    gap = touch.distance - scalars.constant(contact.margin)
                    gap = scalars.select(bound, gap, scalars.constant(FAR))
                    own.gaps[one.place + corner] = gap

                    def store(
                        touch: Touch = touch, gap: Scalar = gap, place: Any = one.place + corner
                    ) -> None:
                        slides, turns = (
                            tuple(scale(one.sign, axis) for axis in axes)
                            for axes in touch.rows(contact.condim)
                        )
                        twist = own.velocity(one, self._twists_of_qd)
                        offsets, cone = rows.yielding(
                            contact,
                            gap,
                            given["friction"][one.number],
                            scalars.constant(one.weight),
                            rates_of(touch.point, (slides, turns), twist),
                        )
                        own.points[place] = Yielding(
                            touch.point, slides, turns, tuple(offsets), cone
                        )

                    scalars.when(gap, store)

            for corner in range(contact.count):
                own.gaps[one.place + corner] = scalars.constant(FAR)
            scalars.when(bound, find)
        for own in self._sets.values():
            own.chosen = scalars.choose("acting", own.gaps)

    def _twists(self, symbol: str, v: Numbers) -> Any:
        """Return the twists of all bodies at joint velocities, in the common axes."""
        zeros = [self._scalars.constant(0.0)] * 6
        known, found = {-1: zeros}, self._scalars.records(symbol, len(self._tree.bodies) + 1)
        for body in self._bodies:
            twist = known[self._tree.bodies[body].parent]
            for j, screw in self._screws[body]:
                twist = [x + s * v[j] for x, s in zip(twist, screw, strict=True)]
            known[body] = twist
            found[body + 1] = tuple(twist)
        return found

    def _sums(self, symbol: str, size: int) -> Any:
        return self._scalars.records(symbol, len(self._tree.bodies) + 1, [0.0] * size)

    def _each(self, change: Callable[[PointSet, Any], None]) -> None:
        """Call a function for each point that acts in some state of a pack."""
        for own in self._sets.values():
            for spot in self._scalars.each("spot", own.spots, chosen=own.chosen):
                change(own, spot)

    def stiffened(self, a: Numbers, torques: list[Scalar], H: Rows | None) -> None:
        """Add the joint torques J^T f at accelerations, and J^T C J to a matrix."""
        twists, wrenches = self._twists("twist", a), self._sums("wrench", 6)
        stiffness = self._sums("stiffness", len(_PLACES)) if H else None
        grid = self._scalars.grid("between", len(a), len(a)) if H and self._steps else None

        def change(own: PointSet, spot: Any) -> None:
            point: Yielding = own.points[spot.place]
            residual = point.residual(own.velocity(spot, twists))
            own.residuals[spot.place] = tuple(residual)
            force, C = point.cone.response(residual, self._scalars)
            _press(own, spot, point, force, wrenches)
            if grid is not None and own.is_between:
                self._couple(spot, point, C, grid)
            elif stiffness is not None:
                before = stiffness[spot.body + 1]
                changes = point.stiffness(C)
                stiffness[spot.body + 1] = [x + y for x, y in zip(before, changes, strict=True)]

        self._each(change)
        self._gather(torques, H, wrenches, stiffness)
        for i, j in sorted({(i, j) for own in self.columns for i in own for j in own}):
            if grid is not None and H and self._order[i] >= self._order[j]:
                H[i][j] = H[i][j] + grid[i][j]

    def advanced(self, p: Numbers, torques: list[Scalar]) -> None:
        """Add J^T f at the accelerations of ``stiffened`` and a step p."""
        twists, wrenches = self._twists("step", p), self._sums("after", 6)

        def change(own: PointSet, spot: Any) -> None:
            point: Yielding = own.points[spot.place]
            rates = point.rates(own.velocity(spot, twists))
            own.rates[spot.place] = tuple(rates)
            residual = [x + r for x, r in zip(own.residuals[spot.place], rates, strict=True)]
            _press(own, spot, point, point.cone.response(residual, self._scalars)[0], wrenches)

        self._each(change)
        self._gather(torques, None, wrenches, None)

    def bent(self, by: Scalar) -> tuple[Scalar, Scalar]:
        """Return the slope and the curvature of the cost at a share of the step p."""
        sums = self._scalars.records("bend", 1, [0.0, 0.0])

        def change(own: PointSet, spot: Any) -> None:
            rates = own.rates[spot.place]
            at = [x + by * r for x, r in zip(own.residuals[spot.place], rates, strict=True)]
            force, C = own.points[spot.place].cone.response(at, self._scalars)
            slope, bend = sums[0]
            products = [r * dot(c, rates) for r, c in zip(rates, C, strict=True)]
            sums[0] = [slope - dot(force, rates), bend + reduce(operator.add, products)]

        self._each(change)
        slope, bend = sums[0]
        return slope, bend

    def forces(self, a: Numbers, count: int) -> Any:
        """Return the forces at accelerations on the points of all contacts in the world."""
        twists = self._twists("twist", a)
        found = self._scalars.records("force", count, [0.0] * 3)
        R = self._frame.pose(-1, self.axes).R

        def change(own: PointSet, spot: Any) -> None:
            point: Yielding = own.points[spot.place]
            residual = point.residual(own.velocity(spot, twists))
            force, _ = point.cone.response(residual, self._scalars)
            total = _combined(point.slides, force[: len(point.slides)])
            found[spot.number] = [*apply(R, scale(self._scalars.constant(spot.sign), total))]

        self._each(change)
        return found

    def _couple(self, spot: Any, point: Yielding, C: Rows, grid: Any) -> None:
        """Add J^T C J of a point between two bodies to a matrix."""
        scalars = self._scalars
        columns = scalars.records("column", self._tree.nv)
        for at in scalars.span("step", spot.begin, spot.end):
            step = self._path[at]
            screw, sign = self._screw[step.v_index], scalars.constant(step.sign)
            own = [sign * rate for rate in point.rates(screw)]
            columns[step.v_index] = tuple(own)
            pulled = [dot(c, own) for c in C]
            for before in scalars.span("above", spot.begin, at + 1):
                row, j = grid[step.v_index], self._path[before].v_index
                row[j] = row[j] + dot(columns[j], pulled)

    def _gather(self, torques: list[Scalar], H: Rows | None, wrenches: Any, stiffness: Any) -> None:
        """Add the torques of wrenches on bodies, and the stiffness of bodies to a matrix."""
        zero, sets = self._scalars.constant(0.0), self._sets.values()
        pressed = {b for own in sets for one in own.spots for b in (one.body, one.other_body)}
        stiff = {one.body for own in sets if not own.is_between for one in own.spots}
        own, K = {}, {}
        for body in self._bodies:
            own[body] = [*wrenches[body + 1]] if body in pressed else [zero] * 6
            K[body] = [*stiffness[body + 1]] if H and body in stiff else [zero] * len(_PLACES)
        for body in reversed(self._bodies):
            parent = self._tree.bodies[body].parent
            for j, screw in self._screws[body]:
                torques[j] = torques[j] + dot(screw, own[body])
            for j, screw in self._screws[body] if H else ():
                pulled = [
                    dot([K[body][_PLACES[max(i, k), min(i, k)]] for k in range(6)], screw)
                    for i in range(6)
                ]
                above = body
                while H and above >= 0:
                    for i, other in self._screws[above]:
                        if above == body and i > j:
                            continue
                        deep, high = (j, i) if self._order[j] >= self._order[i] else (i, j)
                        change = dot(other, pulled)
                        change = change + change if i == j and above != body else change
                        H[deep][high] = H[deep][high] + change
                    above = self._tree.bodies[above].parent
            if parent >= 0:
                own[parent] = [x + y for x, y in zip(own[parent], own[body], strict=True)]
                K[parent] = [x + y for x, y in zip(K[parent], K[body], strict=True)]


def _press(own: PointSet, spot: Any, point: Yielding, force: Numbers, wrenches: Any) -> None:
    """Add the wrench of a point's force to those of its bodies."""
    pressed = point.wrench(force)
    wrenches[spot.body + 1] = [x + y for x, y in zip(wrenches[spot.body + 1], pressed, strict=True)]
    if own.is_between:
        wrenches[spot.other_body + 1] = [
            x - y for x, y in zip(wrenches[spot.other_body + 1], pressed, strict=True)
        ]


def _ground_of(one: Candidate) -> Hashable:
    """Return the ground of a contact; ``None`` for a pair."""
    other = one.contact.other
    return None if isinstance(other, Solid) else other


def _text_of(one: Candidate) -> Hashable:
    """Return what contacts with equal text have in common."""
    contact = one.contact
    edges = tuple(length > 0.0 for solid in contact.solids for length in solid.half_lengths)
    kind = (contact.kinds, contact.is_parallel, _ground_of(one), edges)
    return (*kind, one.sign, one.is_between, contact.friction_solref, kind_of(contact))


def is_many(tree: KinematicTree) -> bool:
    """Return whether the points of a robot's contacts are in loops."""
    contacts = tree.contact_model.contacts
    return sum(contact.count for contact in contacts) > FEW_ROWS
