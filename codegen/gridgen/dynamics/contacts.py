"""Forward dynamics with MuJoCo's soft constraints: contacts, joint limits and dry friction.

With the accelerations a0 without constraint forces, the joint accelerations minimize

    1/2 (a - a0)^T M (a - a0) + s(J a - aref)

The convex cost s is quadratic where a limit or a contact acts, and linear where dry friction slips.
Where an elliptic contact slips, it is the squared distance from the dual cone. The forces are its
negative gradient. Newton's method solves it with exact line search (Todorov 2014), in
``scalars.iterate``. H = M + J^T C J has the sparsity of M, because a contact with the world couples
only a body with its ancestors. H = L^T D L is factorized in the order of the tree, without fill-in.

For a row with the distance r and the velocity v, aref = -b v - k d(r) r. The impedance d(r) and
the constants k, b follow from ``solimp`` and ``solref``. The regularizer is
R = (1 - d) / d A, with A the approximate inverse inertia of the row in the reference configuration.

Rows of contacts are computed in the axes of the free joint that carries the robot, which makes
them sparse. MuJoCo's acceleration of a free joint is that of its origin in the world:
a = qdd + w x v there.

Source: MuJoCo's documentation, chapter Computation; Todorov 2014.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from gridgen.dynamics.configurations import integrate
from gridgen.dynamics.constraints import Constraints, Rows
from gridgen.dynamics.crba import add_damping, factorized, mass_matrix
from gridgen.dynamics.frames import Pose, in_canonical
from gridgen.dynamics.kinematics import all_motions, each
from gridgen.dynamics.linear import ldlt, ldlt_solve
from gridgen.dynamics.rnea import body_forces, torques_of_forces
from gridgen.dynamics.state import Numbers, State
from gridgen.model.kinematic_tree import Frame
from gridgen.model.soft import Contact, JointSoftness, Softness
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.rotations import conjugate, rotate
from gridgen.symbolic.scalars import FloatScalars, Scalar, Scalars
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

#: MuJoCo's bounds (mjMINVAL, mjMINIMP, mjMAXIMP, mjMINMU).
LEAST, LEAST_IMPEDANCE, MOST_IMPEDANCE, LEAST_FRICTION = 1e-15, 1e-4, 0.9999, 1e-5
#: Most evaluations of a line search, and the slope at its end relative to that at its beginning.
SEARCHES, SLOPE = 8, 0.05
#: A square that is zero for float32 too.
TINY = 1e-30


@dataclass(frozen=True)
class Weights:
    """Approximate inverse inertias in the reference configuration.

    Attributes:
        velocities: of each velocity.
        contacts:   of each contact, translational and rotational.
    """

    velocities: tuple[float, ...]
    contacts: tuple[tuple[float, float], ...]


@lru_cache(maxsize=8)
def weights(tree: KinematicTree) -> Weights:
    """Compute MuJoCo's ``dof_invweight0`` and ``body_invweight0`` of a robot."""
    q = [0.0] * tree.nq
    for body in tree.bodies:
        if body.joint_type.quaternion is not None:
            q[body.q_index + body.joint_type.quaternion + 3] = 1.0
        elif not body.mimics and body.nq == 1:
            q[body.q_index] = softness_of(tree, body.joint).reference
    own = {name: np.ravel(values).tolist() for name, values in tree.parameters.items()}
    state = State(tree, FloatScalars(), q, given=own)
    inverse = np.linalg.inv(np.array(mass_matrix(state), float))
    diagonal = inverse.diagonal().copy()
    for body in tree.bodies:
        for k in range(0, body.nv, 3) if body.nv == 6 else ():
            at = slice(body.v_index + k, body.v_index + k + 3)
            diagonal[at] = diagonal[at].mean()
    frame = Constraints(state)
    of_contacts = []
    for contact in tree.contact_model.contacts:
        body = tree.bodies[contact.body]
        pose = frame.pose(-1, contact.body)
        if contact.center is None:
            center = tuple(h / body.mass for h in body.first_moment) if body.mass else (0.0,) * 3
        else:
            here = Frame("", contact.body, contact.pose.rotation, contact.center)
            center = in_canonical(state, here).r
        point = add(pose.p, apply(pose.R, center))  # type: ignore[arg-type]
        J = np.zeros((6, tree.nv)).tolist()
        for index in (*tree.ancestors(contact.body), contact.body):
            frame.turn(-1, index, point, 1.0).add_to(J)
        found = np.einsum("ij,jk,ik->i", J, inverse, J)
        of_contacts.append((float(found[:3].mean()), float(found[3:].mean())))
    return Weights(tuple(map(float, diagonal)), tuple(of_contacts))


def softness_of(tree: KinematicTree, joint: str) -> JointSoftness:
    """Return the softness of a joint."""
    return tree.contact_model.joints.get(joint, JointSoftness())


class Spring:
    """Stiffness, damping and impedance of a constraint, from its softness."""

    def __init__(self, tree: KinematicTree, softness: Softness, scalars: Scalars) -> None:
        self._scalars = scalars
        least, most, width, middle, power = softness.solimp
        self._least, self._most = (
            min(max(d, LEAST_IMPEDANCE), MOST_IMPEDANCE) for d in (least, most)
        )
        self._width, self._power = max(width, LEAST), max(power, 1.0)
        self._middle = min(max(middle, LEAST_IMPEDANCE), MOST_IMPEDANCE)
        self.stiffness, self.damping = self.gains(tree, softness.solref)

    def gains(self, tree: KinematicTree, solref: tuple[float, float]) -> tuple[float, float]:
        """Return the stiffness and the damping of a ``solref``."""
        first, second = solref
        most = self._most
        if first > 0.0:
            first = max(first, 2.0 * tree.contact_model.timestep)
            stiffness = 1.0 / max(LEAST, (most * first * second) ** 2)
            return stiffness, 2.0 / max(LEAST, most * first)
        return -first / max(LEAST, most**2), -second / max(LEAST, most)

    def impedance(self, distance: Scalar) -> Scalar:
        """Return the impedance at a distance."""
        scalars, least, most = self._scalars, self._least, self._most
        if least == most or self._width <= LEAST:
            return scalars.constant(0.5 * (least + most))
        x = self._scalars.constant(1.0 / self._width) * distance
        x = scalars.select(x, -x, x)
        if self._power == 1.0:
            y = x
        else:
            low = self._raised(x, self._middle)
            rest = 1.0 - x
            rest = scalars.select(rest, scalars.constant(0.0), rest)
            high = 1.0 - self._raised(rest, 1.0 - self._middle)
            y = scalars.select(x - self._middle, low, high)
        y = scalars.select(x - 1.0, y, scalars.constant(1.0))
        return least + (most - least) * y

    def _raised(self, x: Scalar, at: float) -> Scalar:
        """Return x^power / at^(power - 1)."""
        total, root = self._scalars.constant(at ** (1.0 - self._power)), x
        for _ in range(int(self._power)):
            total = total * x
        rest = self._power % 1.0
        while rest:  # a sum of powers of 1/2
            root, rest = self._scalars.sqrt(root), 2.0 * rest
            if rest >= 1.0:
                total, rest = total * root, rest - 1.0
        return total


@dataclass
class Row:
    """A constraint on one velocity: a limit or dry friction.

    Attributes:
        velocity: index of the velocity.
        sign:     its factor in the row.
        offset:   -aref.
        D:        inverse regularizer; zero where the constraint does not act.
        loss:     most force of dry friction; ``None`` for a limit.
        R:        regularizer of dry friction.
    """

    velocity: int
    sign: Scalar
    offset: Scalar
    D: Scalar
    loss: float | None = None
    R: float = 0.0

    def response(self, residual: Scalar, scalars: Scalars) -> tuple[Scalar, Scalar]:
        """Return the force and the stiffness at a residual J a - aref."""
        zero = scalars.constant(0.0)
        if self.loss is None:
            D = scalars.select(residual, self.D, zero)
            return -(D * residual), D
        most = self.loss * self.R
        force, D = -(self.D * residual), self.D
        for test, bound in ((residual + most, self.loss), (most - residual, -self.loss)):
            force = scalars.select(test, scalars.constant(bound), force)
            D = scalars.select(test, zero, D)
        return force, D


@dataclass
class Point:
    """A point of a contact.

    Attributes:
        rows:     of the Jacobian of the point's velocity, and of its body's angular velocity if
                  there are moments, in the axes of the robot.
        columns:  the velocities that move it.
        axes:     rows that turn these velocities to those of the contact: normal, tangents.
        offset:   -aref of each row.
        D:        inverse regularizer of the normal, and of the others or of the pyramid's edges;
                  zero where there is no contact.
        friction: coefficients of the tangential rows.
        cone:     mu of the regularized elliptic cone; ``None`` for a pyramid.
    """

    rows: Rows
    columns: Sequence[int]
    axes: Rows
    offset: list[Scalar]
    D: list[Scalar]
    friction: list[Scalar]
    cone: Scalar | None

    def velocity(self, v: Sequence[Scalar]) -> list[Scalar]:
        """Return the velocities of the contact for joint velocities."""
        here = [_sum(row[j] * v[j] for j in self.columns) for row in self.rows]
        return [dot(axis, here) for axis in self.axes]

    def response(self, residual: Sequence[Scalar], scalars: Scalars) -> tuple[list[Scalar], Rows]:
        """Return the forces and the stiffness at residuals J a - aref, in the contact's axes."""
        if self.cone is not None:
            return self._elliptic(residual, scalars)
        zero = scalars.constant(0.0)
        count = len(residual)
        force, C = [zero] * count, [[zero] * count for _ in range(count)]
        edges = [(0, scalars.constant(1.0))] if count == 1 else []
        edges = edges or [(k, s * mu) for k, mu in enumerate(self.friction, 1) for s in (1.0, -1.0)]
        for k, mu in edges:
            along = residual[0] + mu * residual[k] if k else residual[0]
            D = scalars.select(along, self.D[-1], zero)
            pull = -(D * along)
            force[0], C[0][0] = force[0] + pull, C[0][0] + D
            if k:
                force[k] = force[k] + mu * pull
                C[0][k] = C[k][0] = C[0][k] + mu * D
                C[k][k] = C[k][k] + mu * mu * D
        return force, C

    def _elliptic(self, residual: Sequence[Scalar], scalars: Scalars) -> tuple[list[Scalar], Rows]:
        mu: Scalar = self.cone
        factors = [mu, *self.friction]
        U = [factor * r for factor, r in zip(factors, residual, strict=True)]
        N, square = U[0], dot(U[1:], U[1:])
        T = scalars.sqrt(scalars.select(square - TINY, scalars.constant(TINY), square))
        zero, one = scalars.constant(0.0), scalars.constant(1.0)
        is_free, is_stuck = mu * T - N, mu * N + T
        quadratic = scalars.select(is_free, zero, scalars.select(is_stuck, one, zero))
        slips = scalars.select(is_free, zero, scalars.select(is_stuck, zero, one))
        weight = slips * self.D[0] / (mu * mu * (1.0 + mu * mu))
        back = weight * (N - mu * T)
        unit = [entry / T for entry in U[1:]]
        gradient = [back, *(-(mu * back * u) for u in unit)]
        D = [quadratic * d for d in self.D]
        force = [
            -(factor * slope + d * r)
            for factor, slope, d, r in zip(factors, gradient, D, residual, strict=True)
        ]
        count = len(residual)
        C = [[zero] * count for _ in range(count)]
        C[0][0] = weight * mu * mu + D[0]
        ratio = mu * N / T
        across = weight * (mu * mu - ratio)
        for k, u in enumerate(unit, 1):
            C[0][k] = C[k][0] = -(weight * mu * u) * factors[0] * factors[k]
            for m, other in enumerate(unit[:k], 1):
                entry = weight * ratio * u * other
                if m == k:
                    entry = entry + across
                C[k][m] = C[m][k] = entry * factors[k] * factors[m]
            C[k][k] = C[k][k] + D[k]
        return force, C


def _sum(terms: Iterable[Scalar]) -> Scalar:
    first, *rest = terms
    for term in rest:
        first = first + term
    return first


class Problem:
    """The soft constraints of a robot in one state, and their solution.

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
        self.rows = [*self._losses(), *self._limits()]
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
        rates = made.velocity(self._qd)
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
        made.offset = [offset, *(damping * rate for rate in rates[1:])]
        made.D = [D]
        if is_cone:
            made.cone = sliding * scalars.constant(1.0 / math.sqrt(model.impratio))
            tangential = scalars.constant(model.impratio) * D
            made.D.append(tangential)
            made.D += [tangential * (mu * mu / (sliding * sliding)) for mu in friction[1:]]
        elif contact.condim > 1:
            made.D = [D * scalars.constant(0.5 * model.impratio) / (sliding * sliding)]
        return made

    def torques(self, forces: Sequence[Sequence[Scalar]]) -> list[Scalar]:
        """Return the joint torques of forces of all rows and points, J^T f."""
        total = [self._scalars.constant(0.0)] * self._tree.nv
        of_rows, of_points = forces[: len(self.rows)], forces[len(self.rows) :]
        for row, (force,) in zip(self.rows, of_rows, strict=True):
            total[row.velocity] = total[row.velocity] + row.sign * force
        for point, own in zip(self.points, of_points, strict=True):
            wrench = [
                _sum(a * f for a, f in zip(c, own, strict=True))
                for c in zip(*point.axes, strict=True)
            ]
            for j in point.columns:
                total[j] = total[j] + _sum(
                    row[j] * f for row, f in zip(point.rows, wrench, strict=True)
                )
        return total

    def rates(self, v: Sequence[Scalar]) -> list[list[Scalar]]:
        """Return J v of all rows and points."""
        of_rows = [[row.sign * v[row.velocity]] for row in self.rows]
        return [*of_rows, *(point.velocity(v) for point in self.points)]

    def responses(self, residuals: Sequence[Sequence[Scalar]]) -> tuple[Rows, list[Rows]]:
        """Return the forces of all rows and points, and their stiffness."""
        forces, stiffness = [], []
        for row, (residual,) in zip(self.rows, residuals[: len(self.rows)], strict=True):
            force, D = row.response(residual, self._scalars)
            forces.append([force])
            stiffness.append([[D]])
        for point, own in zip(self.points, residuals[len(self.rows) :], strict=True):
            force, C = point.response(own, self._scalars)
            forces.append(force)
            stiffness.append(C)
        return forces, stiffness

    def hessian(self, M: Rows, stiffness: Sequence[Rows]) -> Rows:
        """Return M + J^T C J."""
        H = [list(row) for row in M]
        for row, ((D,),) in zip(self.rows, stiffness[: len(self.rows)], strict=True):
            H[row.velocity][row.velocity] = H[row.velocity][row.velocity] + D
        for point, C in zip(self.points, stiffness[len(self.rows) :], strict=True):
            CF = [[dot(c, column) for column in zip(*point.axes, strict=True)] for c in C]
            W = [[dot(a, b) for b in zip(*CF, strict=True)] for a in zip(*point.axes, strict=True)]
            for j in point.columns:
                own = [row[j] for row in point.rows]
                pulled = [dot(w, own) for w in W]
                for i in point.columns:
                    if i >= j:
                        H[i][j] = H[i][j] + dot([row[i] for row in point.rows], pulled)
        return H

    def solve(
        self, M: Rows, b: Sequence[Scalar], start: Sequence[Scalar]
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Return the accelerations a that minimize the cost, and M a; store the forces.

        Args:
            M:     mass matrix.
            b:     M a0.
            start: where the iterations begin.
        """
        tree, scalars = self._tree, self._scalars
        nv, one = tree.nv, scalars.constant(1.0)
        inverse = [1.0 / M[j][j] for j in range(nv)]
        (tolerance,) = self._state.given["tolerance"]
        bound = tolerance * tolerance * _sum(d * f * f for d, f in zip(inverse, b, strict=True))
        offsets = [[row.offset] for row in self.rows] + [point.offset for point in self.points]
        sizes = [len(own) for own in offsets]

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
            factors = ldlt(H, tree.velocities, one, scalars)
            p = ldlt_solve(factors, [-g for g in gradient])
            Mp, rates = self.times(M, p), self.rates(p)
            rate = [r for own in rates for r in own]
            rest_1 = moved(rest, Mp)
            forces, _ = self.responses(split(moved(residual, rate)))
            after = [r - t for r, t in zip(rest_1, self.torques(forces), strict=True)]
            error = _sum(d * g * g for d, g in zip(inverse, after, strict=True))
            slopes = dot(p, gradient), dot(p, after)
            first, second = dot(p, rest), dot(p, Mp)

            def slope(by: Scalar) -> tuple[Scalar, Scalar]:
                forces, stiffness = self.responses(split(moved(residual, rate, by)))
                found, bend = first + by * second, second
                for own, force, C in zip(rates, forces, stiffness, strict=True):
                    found = found - dot(force, own)
                    bend = bend + _sum(r * dot(c, own) for r, c in zip(own, C, strict=True))
                return found, bend

            by = self._searched(slope, slopes, bound - error)
            new = [*moved(a, p, by), *moved(rest, Mp, by), *moved(residual, rate, by)]
            return new, bound - error

        residual = self._residual(start, offsets)
        rest = [x - y for x, y in zip(self.times(M, start), b, strict=True)]
        found = scalars.iterate(
            "newton", tree.contact_model.iterations, [*start, *rest, *residual], newton
        )
        a, rest, residual = found[:nv], found[nv : 2 * nv], found[2 * nv :]
        if scalars.differentiates or any(map(np.iscomplexobj, b)):
            # A Newton step from the solution has the solution's derivatives by the implicit
            # function theorem: those of its matrix multiply the gradient, which is zero.
            a = scalars.hold(a)
            forces, stiffness = self.responses(split(self._residual(a, offsets)))
            torques = self.torques(forces)
            gradient = [x - y - t for x, y, t in zip(self.times(M, a), b, torques, strict=True)]
            factors = ldlt(self.hessian(M, stiffness), tree.velocities, one, scalars)
            entries = [list(row) for row in factors.entries]
            for i in range(nv):
                for j in self._above(i):
                    (entries[j][i],) = scalars.hold([entries[j][i]])
            held = replace(factors, entries=entries, inverse=scalars.hold([*factors.inverse]))
            a = [x - y for x, y in zip(a, ldlt_solve(held, gradient), strict=True)]
            residual = self._residual(a, offsets)
            rest = [x - y for x, y in zip(self.times(M, a), b, strict=True)]
        self.forces = self.responses(split(residual))[0]
        return a, [x + y for x, y in zip(rest, b, strict=True)]

    def _residual(self, a: Sequence[Scalar], offsets: Sequence[Sequence[Scalar]]) -> list[Scalar]:
        """Return J a - aref of all rows."""
        return [
            x + y
            for own, offset in zip(self.rates(a), offsets, strict=True)
            for x, y in zip(own, offset, strict=True)
        ]

    def _above(self, velocity: int) -> list[int]:
        """Return the ancestors of a velocity."""
        parents, found = self._tree.velocities.parents, []
        while (velocity := parents[velocity]) >= 0:
            found.append(velocity)
        return found

    def forces_in_base(self) -> list[Scalar]:
        """Return the forces of the solution on the points, in the axes of the base."""
        found: list[Scalar] = []
        for point, own in zip(self.points, self.forces[len(self.rows) :], strict=True):
            total = scale(own[0], tuple(point.axes[0][:3]))
            for axis, force in zip(point.axes[1:3], own[1:3], strict=False):
                total = add(total, scale(force, tuple(axis[:3])))
            found += total if self._base is None else apply(self._base.R, total)
        return found

    def times(self, M: Rows, x: Sequence[Scalar]) -> list[Scalar]:
        """Return M x."""
        y = [M[j][j] * x[j] for j in range(self._tree.nv)]
        for i in range(self._tree.nv):
            for j in self._above(i):
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


def tangents(normal: Sequence[float]) -> tuple[Vector, Vector]:
    """Return MuJoCo's tangents of a contact with a constant normal."""
    x = np.array(normal)
    y = np.array((0.0, 1.0, 0.0) if abs(x[1]) < 0.5 else (0.0, 0.0, 1.0))
    y -= (x @ y) * x
    y /= np.linalg.norm(y)
    return tuple(y.tolist()), tuple(np.cross(x, y).tolist())


def without_friction(state: State) -> State:
    """Return a state of the robot without the dry friction of its joints."""
    bodies = tuple(replace(body, friction=0.0) for body in state.tree.bodies)
    return replace(state, tree=replace(state.tree, bodies=bodies))


def world_shift(state: State) -> list[Scalar]:
    """Return by how much MuJoCo's accelerations differ: w x v of free joints, in their axes."""
    shift = [state.scalars.constant(0.0)] * state.tree.nv
    for body in state.tree.bodies:
        if body.joint_type.is_free:
            at = body.v_index
            v, w = tuple(state.qd[at : at + 3]), tuple(state.qd[at + 3 : at + 6])
            shift[at : at + 3] = cross(w, v)
    return shift


@dataclass(frozen=True)
class Solution:
    """The accelerations of a robot with soft constraints.

    Attributes:
        problem: with the forces.
        M:       mass matrix.
        a:       accelerations; of free joints as of MuJoCo, in the axes of their bodies.
        Ma:      M a.
        shift:   ``a`` less the derivative of the joint velocities.
    """

    problem: Problem
    M: Rows
    a: list[Scalar]
    Ma: list[Scalar]
    shift: list[Scalar]


def solution(state: State, tau: Numbers) -> Solution:
    """Return the accelerations with soft constraints."""
    robot, state = state.tree, without_friction(state)
    scalars = state.scalars
    bias = torques_of_forces(state, body_forces(state, each(robot, all_motions(state))))
    M = mass_matrix(state)
    problem = Problem(state, robot)
    scalars.begin("solve", -1)
    shift = world_shift(state)
    moved = problem.times(M, shift)
    b = [t - h + m for t, h, m in zip(tau, bias, moved, strict=True)]
    a, Ma = problem.solve(M, b, shift)
    scalars.begin("forces", -1)
    return Solution(problem, M, a, Ma, shift)


def contact_forward_dynamics(state: State, tau: Numbers) -> tuple[list[Scalar], list[Scalar]]:
    """Return the joint accelerations, and the contact forces.

    Returns:
        qdd:    nv scalars [rad/s^2 or m/s^2].
        forces: on each point, three scalars in the axes of the base [N].
    """
    found = solution(state, tau)
    qdd = [a - shift for a, shift in zip(found.a, found.shift, strict=True)]
    return qdd, found.problem.forces_in_base()


def contact_step(
    state: State,
    tau: Numbers,
    dt: Scalar,
    share: float = 1.0,
    *,
    is_damping_implicit: bool = False,
) -> tuple[list[Scalar], list[Scalar]]:
    """Return the state after a step of MuJoCo's Euler method.

    The velocities after a ``share`` of the step move the configuration.
    The velocity of a free joint's origin changes in the world, where it also moves the origin.
    With implicit damping D, the accelerations are (M + dt D)^-1 M a, as of MuJoCo's ``eulerdamp``
    and ``implicitfast``.
    """
    scalars, q, qd = state.scalars, state.q, state.qd
    free = [body for body in state.tree.bodies if body.joint_type.is_free]
    found = solution(state, tau)
    a = found.a
    if is_damping_implicit:
        scalars.begin("solve", -1)
        H = [list(row) for row in found.M]
        add_damping(state, H, dt)
        a = ldlt_solve(factorized(state, H), found.Ma)
    scalars.begin("step", -1)
    end = [v + dt * rate for v, rate in zip(qd, a, strict=True)]
    along = [dt * (v + share * dt * rate) for v, rate in zip(qd, a, strict=True)]
    slides = [tuple(along[body.v_index : body.v_index + 3]) for body in free]
    for body in free:
        along[body.v_index : body.v_index + 3] = [scalars.constant(0.0)] * 3
    q_next = integrate(state, along)
    for body, slide in zip(free, slides, strict=True):
        at, turn = body.v_index, body.q_index + 3
        before, after = tuple(q[turn : turn + 4]), tuple(q_next[turn : turn + 4])
        q_next[body.q_index : turn] = add(tuple(q[body.q_index : turn]), rotate(before, slide))
        end[at : at + 3] = rotate(conjugate(after), rotate(before, tuple(end[at : at + 3])))
    return q_next, end
