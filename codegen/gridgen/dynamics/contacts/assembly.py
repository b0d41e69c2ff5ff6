"""The soft constraints of a robot in one state: dry friction, limits and contacts as rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gridgen.dynamics.constraints import Constraints, Rows
from gridgen.dynamics.contacts.rows import TINY, Point, Row
from gridgen.dynamics.contacts.softness import Spring, softness_of, weights
from gridgen.dynamics.frames import Pose, in_canonical
from gridgen.dynamics.state import State
from gridgen.model.kinematic_tree import Frame
from gridgen.model.soft import Contact, Softness
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import (
    Vector,
    add,
    apply,
    constants,
    cross,
    dot,
    scale,
    sub,
    transpose,
)

#: MuJoCo's least coefficient of friction (mjMINMU).
LEAST_FRICTION = 1e-5


class SoftConstraints:
    """The soft constraints of a robot in one state.

    Args:
        state: of the robot.
        robot: the robot with the dry friction of its joints, which that of ``state`` may lack.
    """

    def __init__(self, state: State, robot: KinematicTree) -> None:
        tree, scalars = state.tree, state.scalars
        self._state, self._tree, self._scalars = state, tree, scalars
        self._q, self._qd, self._robot = state.q, state.qd, robot
        self._frame = Constraints(state)
        self._weights = weights(robot)
        scalars.begin("constraint", -1)
        rows = [*self._losses(), *self._limits()]
        free = tree.bodies[0].joint_type.is_free and all(
            tree.ancestors(index)[-1:] in ((), (0,)) for index in range(len(tree.bodies))
        )
        self._axes = 0 if free else -1
        self._base = self._frame.pose(-1, 0) if free else None
        self.points = [
            point
            for number in range(len(tree.contact_model.contacts))
            for point in self._points(number)
        ]
        self.rows: list[Row | Point] = [*rows, *self.points]

    def _losses(self) -> list[Row]:
        """Return the rows of dry friction."""
        rows = []
        for body in self._robot.bodies:
            if body.friction and not body.mimics:
                spring = self._spring(softness_of(self._tree, body.joint).friction)
                velocity = body.v_index
                impedance = spring.impedance(self._scalars.constant(0.0))
                weight = self._weights.velocities[velocity]
                R = self._scalars.constant(weight) * ((1.0 - impedance) / impedance)
                offset = spring.damping * self._qd[velocity]
                rows.append(Row(velocity, 1.0, offset, 1.0 / R, body.friction, R))
        return rows

    def _spring(self, softness: Softness) -> Spring:
        return Spring(self._tree, softness, self._scalars)

    def _limits(self) -> list[Row]:
        """Return the rows of limits: the nearer one of a joint, or both if they are close."""
        tree, scalars, rows = self._tree, self._scalars, []
        for body in tree.bodies:
            if body.nv != 1 or body.mimics:
                continue
            own = softness_of(tree, body.joint)
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
                D, offset = self._acting(
                    own.limit,
                    distance - scalars.constant(own.margin),
                    sign * self._qd[body.v_index],
                    scalars.constant(self._weights.velocities[body.v_index]),
                )
                rows.append(Row(body.v_index, sign, offset, D))
        return rows

    def _acting(
        self, softness: Softness, distance: Scalar, rate: Scalar, weight: Scalar
    ) -> tuple[Scalar, Scalar]:
        """Return 1 / R of a row, zero beyond its distance, and its -aref."""
        spring = self._spring(softness)
        impedance = spring.impedance(distance)
        D = impedance / ((1.0 - impedance) * weight)
        D = self._scalars.select(distance, D, self._scalars.constant(0.0))
        return D, spring.damping * rate + spring.stiffness * impedance * distance

    def _points(self, number: int) -> list[Point]:
        """Return the points of a contact."""
        tree, scalars, frame = self._tree, self._scalars, self._frame
        contact = tree.contact_model.contacts[number]
        scalars.begin("contact", contact.body)
        turned: Sequence[Vector] = [constants(t, scalars) for t in tangents(contact.normal)]
        normal = constants(contact.normal, scalars)
        height = scalars.constant(-contact.height)
        if self._base is not None:
            height = height + dot(normal, self._base.p)
            normal, *turned = (apply(transpose(self._base.R), axis) for axis in (normal, *turned))
        here = Frame(contact.link, contact.body, contact.pose.rotation, contact.pose.translation)
        pose = frame.pose(self._axes, contact.body).child(in_canonical(self._state, here))
        radius = self._state.given["radii"][number]
        if sum(length > 0.0 for length in contact.half_lengths) == 1:
            k = [length > 0.0 for length in contact.half_lengths].index(True)
            turned = self._along(normal, tuple(row[k] for row in pose.R), turned)
        return [
            self._point(number, add(pose.p, corner), normal, turned, height, radius)
            for corner in self._corners(contact, pose, normal)
        ]

    def _along(
        self, normal: Vector, axis: Vector, otherwise: Sequence[Vector]
    ) -> tuple[Vector, Vector]:
        """Return tangents, the first along the axis of a capsule."""
        scalars = self._scalars
        first = sub(axis, scale(dot(normal, axis), normal))
        square = dot(first, first)
        test = square - TINY
        length = scalars.sqrt(scalars.select(test, scalars.constant(1.0), square))
        first = tuple(
            scalars.select(test, a, b / length) for a, b in zip(otherwise[0], first, strict=True)
        )
        return first, cross(normal, first)

    def _corners(self, contact: Contact, pose: Pose, normal: Vector) -> list[Vector]:
        """Return the corners of a contact's box that are nearest to the plane, from its center.

        Of each pair of opposite corners, the lower one.
        """
        scalars = self._scalars
        edges = [
            scale(scalars.constant(length), column)
            for length, column in zip(contact.half_lengths, transpose(pose.R), strict=True)
            if length > 0.0
        ]
        if not edges:
            return [constants((0.0, 0.0, 0.0), scalars)]
        if len(edges) == 1:
            return [edges[0], scale(scalars.constant(-1.0), edges[0])]
        corners = []
        for signs in ((1, 1, 1), (1, 1, -1), (1, -1, 1), (1, -1, -1)):
            corner = edges[0]
            for sign, edge in zip(signs[1:], edges[1:], strict=False):
                corner = add(corner, edge) if sign > 0 else sub(corner, edge)
            up = dot(normal, corner)
            corners.append(tuple(scalars.select(up, x, -x) for x in corner))
        return corners

    def _point(
        self,
        number: int,
        center: Vector,
        normal: Vector,
        turned: Sequence[Vector],
        height: Scalar,
        radius: Scalar,
    ) -> Point:
        """Return a point of a contact.

        Args:
            number: of the contact.
            center: of the sphere about a corner, in the axes of the robot.
            normal: of the plane.
            turned: the tangents.
            height: of the origin of these axes over the plane.
            radius: of the sphere.
        """
        tree, scalars, frame = self._tree, self._scalars, self._frame
        contact, model = tree.contact_model.contacts[number], tree.contact_model
        distance = dot(normal, center) + height - radius
        point = sub(center, scale(radius + 0.5 * distance, normal))
        moments = contact.condim > 3
        rows = [[scalars.constant(0.0)] * tree.nv for _ in range(6 if moments else 3)]
        columns: list[int] = []
        for index in (*tree.ancestors(contact.body)[::-1], contact.body):
            frame.turn(self._axes, index, point, 1.0).add_to(rows)
            body = tree.bodies[index]
            columns += range(body.v_index, body.v_index + body.nv)
        zeros = constants((0.0, 0.0, 0.0), scalars)
        axes: Rows = [list(axis) for axis in (normal, *turned)[: min(contact.condim, 3)]]
        if moments:
            turns = (normal, *turned)[: contact.condim - 3]
            axes = [[*axis, *zeros] for axis in axes] + [[*zeros, *axis] for axis in turns]
        sliding = self._state.given["friction"][number]
        least = scalars.constant(LEAST_FRICTION)
        sliding = scalars.select(sliding - LEAST_FRICTION, least, sliding)
        first = contact.friction[0]
        factors = [
            sliding,
            scalars.constant(contact.friction[1] / first) * sliding if first else sliding,
        ]
        friction = [*factors, *map(scalars.constant, contact.friction[2:])][: contact.condim - 1]
        made = Point(rows, sorted(set(columns)), axes, [], [], friction, None)
        rates = made.rates(self._qd)
        weight = scalars.constant(self._weights.contacts[number][0])
        inside = distance - scalars.constant(contact.margin)
        is_cone = model.cone == "elliptic" and contact.condim > 1
        if not is_cone and contact.condim > 1:
            weight = weight * (1.0 + sliding * sliding)
        D, offset = self._acting(contact.softness, inside, rates[0], weight)
        spring = self._spring(contact.softness)
        damping = spring.damping
        if is_cone and any(contact.friction_solref):
            damping = spring.gains(tree, contact.friction_solref)[1]
        made.offsets = [offset, *(damping * rate for rate in rates[1:])]
        made.D = [D]
        if is_cone:
            made.cone = sliding * scalars.constant(1.0 / math.sqrt(model.impratio))
            tangential = scalars.constant(model.impratio) * D
            made.D.append(tangential)
            made.D += [tangential * (mu * mu / (sliding * sliding)) for mu in friction[1:]]
        elif contact.condim > 1:
            made.D = [D * scalars.constant(0.5 * model.impratio) / (sliding * sliding)]
        return made

    def in_base(self, forces: Sequence[Sequence[Scalar]]) -> list[Scalar]:
        """Return the forces on the points in the axes of the base, for those of all rows."""
        found: list[Scalar] = []
        for point, own in zip(self.points, forces[len(forces) - len(self.points) :], strict=True):
            total = scale(own[0], tuple(point.axes[0][:3]))
            for axis, force in zip(point.axes[1:3], own[1:3], strict=False):
                total = add(total, scale(force, tuple(axis[:3])))
            found += total if self._base is None else apply(self._base.R, total)
        return found


def tangents(normal: Sequence[float]) -> tuple[Vector, Vector]:
    """Return MuJoCo's tangents of a contact with a constant normal."""
    x = np.array(normal)
    y = np.array((0.0, 1.0, 0.0) if abs(x[1]) < 0.5 else (0.0, 0.0, 1.0))
    y -= (x @ y) * x
    y /= np.linalg.norm(y)
    return tuple(y.tolist()), tuple(np.cross(x, y).tolist())
