"""The soft constraints of a robot in one state: friction, limits, equalities, contacts as rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gridgen.dynamics.actuators import tendon_length, tendon_moments
from gridgen.dynamics.constraints import ConstraintRows, Constraints, Rows
from gridgen.dynamics.contacts.nearest import kind_of, nearest
from gridgen.dynamics.contacts.point_sets import PointSets, is_many
from gridgen.dynamics.contacts.rows import TINY, Block, Cone, Point, Row
from gridgen.dynamics.contacts.softness import Spring, softness_of, weights
from gridgen.dynamics.contacts.touching import Touch, touches
from gridgen.dynamics.kinematics import BodyMotion, base_motion
from gridgen.dynamics.state import Numbers, State
from gridgen.model.kinematic_tree import Body, KinematicTree
from gridgen.model.soft import MIN_FRICTION, Contact, JointSoftness, ShapeKind, Softness, Solid
from gridgen.symbolic.branches import Branches
from gridgen.symbolic.rotations import at_least, rotation_vector
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import (
    Vector,
    add,
    apply,
    constants,
    cross,
    dot,
    matmul,
    scale,
    sub,
    transpose,
)

#: Shapes whose nearest pairs ``max_pairs`` selects.
ROUND = {ShapeKind.SPHERE, ShapeKind.CAPSULE}


@dataclass(frozen=True)
class Pressed:
    """A point of a contact with its force in the world.

    Attributes:
        contact:  the contact.
        point:    where the force acts.
        normal:   from the other shape to the solid.
        pressure: force along the normal.
        force:    on the solid; the opposite one acts on the other shape.
        moment:   on the solid, likewise.
    """

    contact: Contact
    point: Vector
    normal: Vector
    pressure: Scalar
    force: Vector
    moment: Vector


class SoftConstraints:
    """The soft constraints of a robot in one state.

    Args:
        state: of the robot.
        robot: the robot with the dry friction of its joints, which that of ``state`` may lack.
        motions: of its bodies at zero joint accelerations.
        in_loops: whether a program may have loops over points.
        chosen: numbers of the contacts; all by default.
    """

    def __init__(
        self,
        state: State,
        robot: KinematicTree,
        motions: Sequence[BodyMotion],
        *,
        in_loops: bool,
        chosen: Collection[int] | None = None,
    ) -> None:
        tree, scalars = state.tree, state.scalars
        self._state, self._tree, self._scalars = state, tree, scalars
        self._q, self._qd, self._robot = state.q, state.qd, robot
        self._frame = Constraints(state)
        self._weights = weights(robot)
        self._rank = {j: rank for rank, j in enumerate(tree.velocities.order)}
        self._motions, self.shift = motions, world_shift(state)
        scalars.begin("constraint", -1)
        self.rows: list[Row | Block] = [*self._losses(), *self._limits(), *self._of_tendons()]
        self.rows += map(self._equality, range(len(tree.constraints)))
        self.points, self._shares, self.beyond = [], [], []  # type: ignore[var-annotated]
        self._touches: list[tuple[Contact, Touch]] = []
        contacts = tree.contact_model.contacts
        kinds: dict[object, list[int]] = {}
        many: list[int] = []
        for number in range(len(contacts)) if chosen is None else sorted(chosen):
            contact = contacts[number]
            kind = kind_of(contact) if {*contact.kinds} <= ROUND else number
            kinds.setdefault(kind, []).append(number)
            if self._has_own_columns(contact):
                many.append(number)
        self.sets = None
        if many and in_loops and scalars.has_rows and is_many(tree):
            self.sets = PointSets(self, self._frame, many, self._qd)
            kinds = {
                kind: own
                for kind, every in kinds.items()
                if (own := [number for number in every if number not in many])
            }
        for numbers in kinds.values():
            contact = contacts[numbers[0]]
            if 0 < tree.contact_model.max_pairs < len(numbers):
                found, distance = nearest(self._frame, numbers, self.weight)
                self.beyond.append(distance - scalars.constant(contact.margin))
                for one in found:
                    self._add(one.contact, one.touch, one.friction, one.weight, one.shares)
                continue
            for number in numbers:
                contact = contacts[number]
                weight = scalars.constant(sum(map(self.weight, contact.solids)))
                for touch in touches(self._frame, contact, state.given["radii"][number]):
                    self._add(contact, touch, state.given["friction"][number], weight, number)
        self.rows += self.points

    def _has_own_columns(self, contact: Contact) -> bool:
        """Return whether a contact may be in a loop: no two joints of its path have one column."""
        if not isinstance(contact.other, Solid):
            return True
        _, path = self._frame.path(contact.solid.body, contact.other.body)
        columns = [self._tree.bodies[index].v_index for index, _ in path]
        return not self._tree.contact_model.max_pairs and len({*columns}) == len(columns)

    def weight(self, solid: Solid) -> float:
        """Return the approximate inverse inertia of a shape's link."""
        return self._weights.links[solid.link][0]

    @cached_property
    def branches(self) -> Branches:
        """The velocities, with all that a constraint couples in one branch: an elimination tree.

        Source: Davis 2006, section 4.1.
        """
        own = self._tree.velocities
        above = {j: {own.parent(below) for below in own.climb(j)} for j in self._rank}
        coupled = [row.columns if isinstance(row, Block) else row.velocities for row in self.rows]
        coupled += self.sets.columns if self.sets else ()
        for columns in coupled:
            for at, j in enumerate(columns):
                above[j].update(columns[:at])
        parents = [-1] * len(above)
        for j in reversed(self._rank):
            if above[j]:
                parents[j] = parent = max(above[j], key=self._rank.__getitem__)
                above[parent] |= above[j] - {parent}
        return Branches(parents)

    def _losses(self) -> list[Row]:
        """Return the rows of dry friction."""
        rows, given = [], self._state.given.get("losses")
        for body in self._robot.bodies:
            if (given or body.friction) and not body.mimics:
                spring = self._spring(softness_of(self._tree, body.joint).friction)
                impedance = spring.impedance(self._scalars.constant(0.0))
                for j in range(body.v_index, body.v_index + body.nv):
                    weight = self._scalars.constant(self._weights.velocities[j])
                    R = weight * ((1.0 - impedance) / impedance)
                    offset = spring.damping * self._qd[j]
                    loss = given[j] if given else self._scalars.constant(body.friction)
                    rows.append(Row((j,), (1.0,), offset, 1.0 / R, loss, R))
        return rows

    def _spring(self, softness: Softness) -> Spring:
        return Spring(self._tree, softness, self._scalars)

    def _limits(self) -> list[Row]:
        """Return the rows of limits: the nearer one of a joint, or both if they are close."""
        tree, scalars, rows = self._tree, self._scalars, []
        for body in tree.bodies:
            own = softness_of(tree, body.joint)
            if body.max_angle < math.inf:
                rows.append(self._limited_angle(body, own))
            if body.nv != 1 or body.mimics:
                continue
            low, high = tree.lower_limits[body.q_index], tree.upper_limits[body.q_index]
            ends = [
                (bound, sign) for bound, sign in ((low, 1.0), (high, -1.0)) if math.isfinite(bound)
            ]
            position = self._q[body.q_index]
            found = [(scalars.constant(s), s * (position - bound)) for bound, s in ends]
            if len(found) == 2 and high - low > 2.0 * own.margin:
                nearer = position - 0.5 * (low + high)
                (_, below), (_, above) = found
                sign = scalars.select(nearer, *map(scalars.constant, (1.0, -1.0)))
                found = [(sign, scalars.select(nearer, below, above))]
            for sign, distance in found:
                distance = distance - scalars.constant(own.margin)
                D, offset = self._acting(
                    own.limit,
                    distance,
                    sign * self._qd[body.v_index],
                    scalars.constant(self._weights.velocities[body.v_index]),
                )
                row = Row((body.v_index,), (sign,), offset, D, joint=body.joint)
                row.distance = distance
                rows.append(row)
        return rows

    def _of_tendons(self) -> list[Row]:
        """Return the rows of tendons: of dry friction, and of limits of the length."""
        tree, scalars, rows = self._tree, self._scalars, []
        for tendon, invweight in zip(tree.tendons, self._weights.tendons, strict=True):
            moments, weight = tendon_moments(self._state, tendon), scalars.constant(invweight)
            columns = [*moments]
            own, rate = tendon.softness, dot([*moments.values()], [self._qd[j] for j in columns])
            if tendon.friction:
                spring = self._spring(own.friction)
                impedance = spring.impedance(scalars.constant(0.0))
                R, offset = weight * ((1.0 - impedance) / impedance), spring.damping * rate
                loss = scalars.constant(tendon.friction)
                rows.append(
                    Row(columns, [*moments.values()], offset, 1.0 / R, loss, R, is_scaled=True)
                )
            for bound, sign in ((tendon.lower, 1.0), (tendon.upper, -1.0)):
                if math.isfinite(bound):
                    distance = sign * (tendon_length(self._state, tendon) - bound) - own.margin
                    D, offset = self._acting(own.limit, distance, sign * rate, weight)
                    factors = [sign * moment for moment in moments.values()]
                    row = Row(columns, factors, offset, D, distance=distance, is_scaled=True)
                    rows.append(row)
        return rows

    def _limited_angle(self, body: Body, own: JointSoftness) -> Row:
        """Return the row of a limit of the angle of a ball joint's rotation."""
        scalars, first = self._scalars, body.q_index
        x, y, z, w = (self._q[first + k] for k in range(4))
        turn, found = rotation_vector((x, y, z, w), scalars)
        angle = scalars.sqrt(at_least(found.square, TINY, scalars))
        axis = scale(-1.0 / angle, turn)
        velocities = range(body.v_index, body.v_index + 3)
        distance = scalars.constant(body.max_angle - own.margin) - angle
        D, offset = self._acting(
            own.limit,
            distance,
            dot(axis, [self._qd[j] for j in velocities]),
            scalars.constant(self._weights.velocities[body.v_index]),
        )
        return Row(velocities, axis, offset, D, joint=body.joint, distance=distance)

    def _acting(
        self, softness: Softness, distance: Scalar, rate: Scalar, weight: Scalar
    ) -> tuple[Scalar, Scalar]:
        """Return 1 / R of a row, zero beyond its distance, and its -aref."""
        spring = self._spring(softness)
        impedance = spring.impedance(distance)
        D = impedance / ((1.0 - impedance) * weight)
        D = self._scalars.select(distance, D, self._scalars.constant(0.0))
        return D, spring.damping * rate + spring.stiffness * impedance * distance

    def columns_of(self, bodies: Iterable[int]) -> list[int]:
        """Return the velocities of the joints of bodies, parents first."""
        found = {
            j
            for body in (self._tree.bodies[index] for index in bodies)
            for j in range(body.v_index, body.v_index + body.nv)
        }
        return sorted(found, key=self._rank.__getitem__)

    def _zeros(self, count: int) -> Rows:
        return [[self._scalars.constant(0.0)] * self._tree.nv for _ in range(count)]

    def _equality(self, number: int) -> Block:
        """Return the rows of an equality constraint."""
        scalars, held = self._scalars, self._frame.held[number]
        constraint, zero, one = held.constraint, scalars.constant(0.0), scalars.constant(1.0)
        count = constraint.rows
        axes = [[one if i == k else zero for k in range(count)] for i in range(count)]
        if held.link is None or held.to is None:
            rows, bodies = held.rows, [index for index in constraint.joints if index >= 0]
            weights = [sum(self._weights.velocities[j] for j in self.columns_of(bodies))]
            errors = self._frame.errors(held)
        else:
            rows, bodies = self._of_ends(held)
            links = [
                self._weights.links[end.name] for end in (constraint.link, constraint.to) if end
            ]
            weights = [sum(of) for of in zip(*links, strict=True) for _ in range(3)][:count]
            errors = list(sub(held.link.p, held.to.p))
            if count == 6:
                turns, angles = self._turns(held)
                axes[3:] = [[zero, zero, zero, *row] for row in turns]
                errors += angles
        if not constraint.has_target:
            errors = [zero] * count
        made = Block(rows, self.columns_of(bodies), axes, [], [])
        square = dot(errors, errors)
        size = scalars.sqrt(scalars.select(square - TINY, scalars.constant(TINY), square))
        spring = self._spring(constraint.softness)
        impedance = spring.impedance(size)
        active = self._state.given["active"][number]
        rates = made.rates(self._qd)
        for weight, rate, error in zip(weights, rates, errors, strict=True):
            made.D.append(active * (impedance / ((1.0 - impedance) * scalars.constant(weight))))
            made.offsets.append(spring.damping * rate + spring.stiffness * impedance * error)
        if held.poses is not None:
            rests = self._rest(held, made, errors[3:])
            made.offsets = [x + y for x, y in zip(made.offsets, rests, strict=True)]
        return made

    def _rest(self, held: ConstraintRows, made: Block, angles: Sequence[Scalar]) -> list[Scalar]:
        """Return dJ/dt qd of the rows of an equality constraint, for MuJoCo's accelerations."""
        slide, spin, _ = self._frame.relative(held, self._motions, base_motion(self._state))
        own = [*slide, *spin][: len(made.rows)]
        known = made.rates(self.shift)
        found = [dot(axis, own) - x for axis, x in zip(made.axes, known, strict=True)]
        if angles:
            w = [dot(row, self._qd) for row in made.rows[3:]]
            square = self._scalars.constant(0.25) * dot(w, w)
            found[3:] = [x - square * angle for x, angle in zip(found[3:], angles, strict=True)]
        return found

    def _of_ends(self, held: ConstraintRows) -> tuple[Rows, list[int]]:
        """Return the motion of the point of ``link`` less that of the point of ``to``.

        Both points differ where the constraint is violated. MuJoCo's forces act on both.
        """
        constraint, frame, tree = held.constraint, self._frame, self._tree
        assert constraint.link is not None
        assert constraint.to is not None
        assert held.link is not None
        assert held.to is not None
        axes, path = frame.path(constraint.link.body, constraint.to.body)
        rows, apart = self._zeros(constraint.rows), sub(held.to.p, held.link.p)
        for index, sign in path:
            end = held.link if sign > 0.0 else held.to
            frame.turn(axes, index, end.p, sign).add_to(rows)
        between = [index for index, _ in path]
        shared = [*tree.ancestors(axes), axes] if axes >= 0 and axes not in between else []
        for index in shared:
            turn = frame.turn(axes, index, held.link.p, 1.0)
            for j, (_, spin) in zip(turn.columns, turn.screws, strict=True):
                for row, entry in zip(rows, cross(apart, spin), strict=False):
                    row[j] = row[j] + entry
        return rows, between + shared

    def _turns(self, held: ConstraintRows) -> tuple[Rows, list[Scalar]]:
        """Return the vector of the unit quaternion between the frames of a weld, and its rate.

        Returns:
            rate:   rows that turn the angular velocity to the derivative of the vector.
            vector: the vector; both are times the weld's torque scale. Zero without a target.
        """
        scalars = self._scalars
        assert held.link is not None
        assert held.to is not None
        half, zero = scalars.constant(0.5), scalars.constant(0.0)
        if not held.constraint.has_target:
            own = scalars.constant(0.5 * held.constraint.torquescale)
            return [[own if i == j else zero for j in range(3)] for i in range(3)], [zero] * 3
        Q = matmul(held.link.R, transpose(held.to.R))
        trace = 1.0 + (Q[0][0] + Q[1][1] + Q[2][2])
        w = half * scalars.sqrt(scalars.select(trace - TINY, scalars.constant(TINY), trace))
        twists = (Q[2][1] - Q[1][2], Q[0][2] - Q[2][0], Q[1][0] - Q[0][1])
        scaled = scalars.constant(held.constraint.torquescale)
        x, y, z = (scaled * (twist / (4.0 * w)) for twist in twists)
        w, x_2, y_2, z_2 = (half * entry for entry in (scaled * w, x, y, z))
        return [[w, z_2, -y_2], [-z_2, w, x_2], [y_2, -x_2, w]], [x, y, z]

    def _add(
        self,
        contact: Contact,
        touch: Touch,
        sliding: Scalar,
        weight: Scalar,
        shares: int | dict[int, Scalar],
    ) -> None:
        """Add a point of a contact.

        Args:
            contact: the contact.
            touch:   the point.
            sliding: friction of its tangents.
            weight:  approximate inverse inertia.
            shares:  the contact's number, or as of ``Nearest``.
        """
        scalars = self._scalars
        moments = contact.condim > 3
        rows = self._zeros(6 if moments else 3)
        for index, sign in touch.path:
            turn = self._frame.turn(touch.axes, index, touch.point, 1.0)
            screws = [(scale(sign, v), scale(sign, w)) for v, w in turn.screws]
            replace(turn, screws=screws).add_to(rows)
        zeros = constants((0.0, 0.0, 0.0), scalars)
        slides, turns = touch.rows(contact.condim)
        axes: Rows = [list(axis) for axis in slides]
        if moments:
            axes = [[*axis, *zeros] for axis in axes] + [[*zeros, *axis] for axis in turns]
        columns = self.columns_of(index for index, _ in touch.path)
        back = None if touch.axes < 0 else self._frame.pose(-1, touch.axes).R
        block = Block(rows, columns, axes, [], [])
        inside = touch.distance - scalars.constant(contact.margin)
        rates = block.rates(self._qd)
        offsets, cone = self.yielding(contact, inside, sliding, weight, rates)
        self.points.append(Point(rows, columns, axes, offsets, cone.D, cone, back, inside))
        self._shares.append(shares)
        self._touches.append((contact, touch))

    def yielding(
        self,
        contact: Contact,
        inside: Scalar,
        sliding: Scalar,
        weight: Scalar,
        rates: Sequence[Scalar],
    ) -> tuple[list[Scalar], Cone]:
        """Return how a point of a contact yields: -aref of its rows, and its cone.

        Arguments as of ``_add``; the distance less the margin, and the ``rates`` of the rows.
        """
        scalars, model = self._scalars, self._tree.contact_model
        least = scalars.constant(MIN_FRICTION)
        sliding = scalars.select(sliding - MIN_FRICTION, least, sliding)
        ratio, *others = map(scalars.constant, (contact.ratio, *contact.friction[2:]))
        friction = [sliding, ratio * sliding, *others][: contact.condim - 1]
        is_cone = model.cone == "elliptic" and contact.condim > 1
        if not is_cone and contact.condim > 1:
            weight = weight * (1.0 + sliding * sliding)
        D, offset = self._acting(contact.softness, inside, rates[0], weight)
        spring = self._spring(contact.softness)
        damping = spring.damping
        if is_cone and any(contact.friction_solref):
            damping = spring.gains(self._tree, contact.friction_solref)[1]
        offsets = [offset, *(damping * rate for rate in rates[1:])]
        if is_cone:
            mu = sliding * scalars.constant(1.0 / math.sqrt(model.impratio))
            tangential = scalars.constant(model.impratio) * D
            others = [tangential * (mu * mu / (sliding * sliding)) for mu in friction[1:]]
            return offsets, Cone([D, tangential, *others], friction, mu)
        if contact.condim > 1:
            D = D * scalars.constant(0.5 * model.impratio) / (sliding * sliding)
        return offsets, Cone([D], friction, None)

    def distances(self, number: int) -> list[Scalar]:
        """Return how far the points of a contact are from acting, of those with rows."""
        pairs = zip(self.points, self._shares, strict=True)
        return [point.distance for point, own in pairs if own == number]

    def pressed(self, forces: Sequence[Sequence[Scalar]]) -> Iterator[Pressed]:
        """Yield the points of all contacts that have rows, with their forces in the world.

        Args:
            forces: of all rows.
        """
        own_forces = forces[len(forces) - len(self.points) :]
        for (contact, touch), own in zip(self._touches, own_forces, strict=True):
            pose = self._frame.pose(-1, touch.axes)
            slides, turns = touch.rows(contact.condim)
            force = moment = constants((0.0, 0.0, 0.0), self._scalars)
            for axis, entry in zip(slides, own[:3], strict=False):
                force = add(force, scale(entry, axis))
            for axis, entry in zip(turns, own[3:], strict=True):
                moment = add(moment, scale(entry, axis))
            point, normal = apply(pose.R, touch.point), apply(pose.R, slides[0])
            force, moment = apply(pose.R, force), apply(pose.R, moment)
            yield Pressed(contact, add(pose.p, point), normal, own[0], force, moment)

    def in_base(self, forces: Sequence[Sequence[Scalar]], a: Numbers) -> list[Scalar]:
        """Return the forces on the points in the axes of the base.

        Args:
            forces: of all rows.
            a:      joint accelerations.
        """
        contacts = self._tree.contact_model.contacts
        found: list[list[Scalar]] = [[] for _ in contacts]
        own_forces = forces[len(forces) - len(self.points) :]
        for point, own, shares in zip(self.points, own_forces, self._shares, strict=True):
            total = scale(own[0], tuple(point.axes[0][:3]))
            for axis, force in zip(point.axes[1:3], own[1:3], strict=False):
                total = add(total, scale(force, tuple(axis[:3])))
            total = total if point.back is None else apply(point.back, total)
            if isinstance(shares, int):
                found[shares] += total
                continue
            for number, share in shares.items():
                part = scale(share, total)
                found[number] = [*(add(tuple(found[number]), part) if found[number] else part)]
        if self.sets:
            counts = [contact.count for contact in contacts]
            own_points = self.sets.forces(a, sum(counts))
            for number, own in enumerate(found):
                first = sum(counts[:number])
                for k in range(first, first + counts[number]) if not own else ():
                    own += own_points[k]
        return [entry for own in found for entry in own]


def world_shift(state: State) -> list[Scalar]:
    """Return by how much MuJoCo's accelerations differ: w x v of free joints, in their axes."""
    shift = [state.scalars.constant(0.0)] * state.tree.nv
    for body in state.tree.bodies:
        if body.joint_type.is_free:
            at = body.v_index
            v, w = tuple(state.qd[at : at + 3]), tuple(state.qd[at + 3 : at + 6])
            shift[at : at + 3] = cross(w, v)
    return shift
