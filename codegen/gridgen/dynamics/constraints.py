"""Dynamics with constraints: the rows of their Jacobian, and forces that fulfill them.

A constraint of a point or a frame is about c, the position (and orientation) of ``link`` in the
frame ``to``, which may be the world. With its Jacobian, dc/dt = J qd, the motion follows from

    M qdd + h = tau + J^T f        J qdd + g + R f = 0

where g is the rest of the second derivative of c, dJ/dt qd, with Baumgarte's stabilization,
kd dc/dt + kp (c - target), and R a compliance. Forces that act on ``link`` act on what ``to`` is
part of with the opposite sign, at the same point, so that they change no momentum of both. A row
that is not active is zero in J, and so is its force.

M = L^T D L is factorized in the order of the tree, which fills no zeros (Featherstone 2005). With
Y = L^-T J^T and z = L^-T (tau - h), both as sparse as their branches,

    (A + R) f = b,   A = J M^-1 J^T = Y^T D^-1 Y,   b = -g - Y^T D^-1 z,   D L qdd = z + Y f

so that nothing is computed twice. A, the Delassus matrix, is singular where constraints are
redundant. Proximal iterations (Carpentier, Budhiraja and Mansard 2021),

    (A + R + mu) f_k+1 = b + mu f_k,   f_0 = 0,

take the same factors each time, and converge to the forces of least norm. The error of an
eigenvalue a of A is (mu / (mu + a))^k. The default of mu is the square root of the unit of
rounding, times the mean diagonal entry of A. Rows of forces and rows of moments differ by orders of
magnitude, and have a mean each. The norm weights squares of forces and moments by their mu.

The rows of points are computed in axes that make them sparse: those of the body that carries both
links, or of the free joint that carries the robot. The equations are the same in all axes.

Source: Featherstone 2008, chapters 8 and 6; Carpentier, Budhiraja and Mansard 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import numpy as np

from gridgen.dynamics.crba import add_damping, factorized, mass_matrix
from gridgen.dynamics.frames import Pose, base_pose, in_canonical
from gridgen.dynamics.kinematics import (
    BodyMotion,
    all_motions,
    base_motion,
    each,
)
from gridgen.dynamics.linear import (
    BranchSolver,
    Factorization,
    begin_in_place,
    finish_in_place,
    ldlt,
    ldlt_solve,
)
from gridgen.dynamics.refusals import moving_parts
from gridgen.dynamics.rnea import body_forces, inverse_dynamics, torques_of_forces
from gridgen.dynamics.state import Numbers, State
from gridgen.model.kinematic_tree import Constraint, KinematicTree
from gridgen.model.soft import Solid
from gridgen.symbolic.rotations import at_least, rotation_error
from gridgen.symbolic.scalars import FloatScalars, Scalar, Scalars
from gridgen.symbolic.spatial import (
    Motion,
    Placement,
    Vector,
    add,
    apply,
    constants,
    cross,
    dot,
    fixed_rotation,
    matmul,
    scale,
    sub,
    transpose,
)

#: Proximal iterations.
ITERATIONS = 3
#: Part of the robot's own inverse inertia that the mean entries of A have at least.
MIN_MEAN = 1e-3
#: Part of the mean on a diagonal: regular where no constraint holds and ``proximal`` is zero.
REGULAR = 1e-12
Rows = list[list[Scalar]]


@dataclass(frozen=True)
class Turn:
    """A joint between ``to`` and ``link``, in the axes of the rows, at the point of ``link``.

    Attributes:
        columns:    index of each of its velocities.
        screws:     motion of ``link`` relative to ``to`` by each of them.
        is_forward: whether the joint's body is on the side of ``link``.
    """

    columns: Sequence[int]
    screws: Sequence[Motion]
    is_forward: bool

    def add_to(self, rows: Rows) -> None:
        """Add the motion to rows of a Jacobian: three of a point, or six."""
        for j, screw in zip(self.columns, self.screws, strict=True):
            for row, entry in zip(rows, chain(*screw), strict=False):
                row[j] = row[j] + entry

    def combined(self, rates: Numbers) -> Motion:
        """Return the motion of ``link`` by the joint, for rates of all joints."""
        parts = [
            (scale(rates[j], v), scale(rates[j], w))
            for j, (v, w) in zip(self.columns, self.screws, strict=True)
        ]
        v, w = parts[0]
        for slide, spin in parts[1:]:
            v, w = add(v, slide), add(w, spin)
        return v, w


@dataclass(frozen=True)
class ConstraintRows:
    """The rows of one constraint, in axes in which they are sparse.

    Attributes:
        constraint: which one.
        rows:       of its Jacobian, each nv entries.
        turns:      the joints that move ``link`` relative to ``to``, from ``to`` on.
        poses:      of the bodies of ``link`` and ``to`` in these axes.
        arms:       the two points in these bodies.
        link:       pose of the frame that is held; ``to`` likewise.
        to:         see ``link``.
    """

    constraint: Constraint
    rows: Rows
    turns: Sequence[Turn] = ()
    poses: tuple[Pose, Pose] | None = None
    arms: Sequence[Vector] = ()
    link: Pose | None = None
    to: Pose | None = None

    def error(self, motion: Motion) -> Motion:
        """Return the change of the errors by a motion of ``link``."""
        if self.constraint.rows < 6:
            return motion
        assert self.link is not None
        assert self.to is not None
        slide, spin = motion
        B = matmul(self.link.R, transpose(self.to.R))
        trace = B[0][0] + B[1][1] + B[2][2]
        return slide, scale(0.5, sub(scale(trace, spin), apply(B, spin)))

    def turned(self, vectors: Numbers) -> list[Scalar]:
        """Return a row's worth of numbers in the axes of ``to``."""
        if self.to is None:
            return list(vectors)
        back = transpose(self.to.R)
        parts = (tuple(vectors[k : k + 3]) for k in range(0, len(vectors), 3))
        return [entry for part in parts for entry in apply(back, part)]


class Constraints:
    """The constraints of a robot in one state."""

    def __init__(self, state: State) -> None:
        self.state = state.without("offset")
        self.tree, self.scalars = state.tree, state.scalars
        self._poses: dict[tuple[int, int], Pose] = {}
        self.held = [self._hold(*one) for one in enumerate(state.tree.constraints)]

    @property
    def rows(self) -> Rows:
        """The rows of the Jacobian of all constraints."""
        return [row for held in self.held for row in held.rows]

    def _hold(self, number: int, constraint: Constraint) -> ConstraintRows:
        tree, scalars = self.tree, self.scalars
        if constraint.kind == "joint":
            row = [scalars.constant(0.0)] * tree.nv
            for index, sign in zip(constraint.joints, (1.0, -constraint.multiplier), strict=True):
                if index >= 0:
                    body = tree.bodies[index]
                    row[body.v_index] = row[body.v_index] + scalars.constant(
                        sign * (body.multiplier if body.mimics else 1.0)
                    )
            return ConstraintRows(constraint, [row])
        assert constraint.link is not None
        assert constraint.to is not None
        ends = constraint.link.body, constraint.to.body
        axes, path = self.path(*ends)
        poses = tuple(self.pose(axes, body) for body in ends)
        state, frame = self.state, constraint.link
        if (offsets := state.given.get("offsets")) is not None:
            state = replace(state, offset=offsets[16 * number : 16 * number + 16])
            frame = tree.frame_of[frame.name]
        placed = in_canonical(state, frame), in_canonical(self.state, constraint.to)
        link, to = (pose.child(own) for pose, own in zip(poses, placed, strict=True))
        arms = [own.r for own in placed]
        rows = [[scalars.constant(0.0)] * tree.nv for _ in range(constraint.rows)]
        turns = [self.turn(axes, index, link.p, sign) for index, sign in path]
        for turn in turns:
            turn.add_to(rows)
        return ConstraintRows(constraint, rows, turns, poses, arms, link, to)  # type: ignore[arg-type]

    def path(self, link: int, to: int) -> tuple[int, list[tuple[int, float]]]:
        """Return the joints from a body to another one, and axes in which motions are sparse.

        The sign of a joint is that of its motion in the motion of ``link`` relative to ``to``.
        """
        tree = self.tree
        lines = [[*tree.ancestors(body)[::-1], body] if body >= 0 else [] for body in (link, to)]
        shared = [a for a, b in zip(*lines, strict=False) if a == b]
        axes = shared[-1] if shared else -1
        own, other = ([body for body in line if body not in shared] for line in lines)
        first = (own or other)[0]
        if axes < 0 and tree.bodies[first].joint_type.is_free:
            axes = first
        return axes, [(body, -1.0) for body in reversed(other)] + [(body, 1.0) for body in own]

    def pose(self, axes: int, body: int) -> Pose:
        """Return the pose of a body in the axes of another one; -1 is the base."""
        if (axes, body) not in self._poses:
            if body == axes:
                pose = base_pose(self.scalars)
            elif body < 0:
                above = self.pose(-1, axes)
                back = transpose(above.R)
                pose = Pose(back, scale(self.scalars.constant(-1.0), apply(back, above.p)))
            else:
                parent = self.tree.bodies[body].parent
                pose = self.pose(axes, parent).child(self.state.placed[body])
            self._poses[axes, body] = pose
        return self._poses[axes, body]

    def shape(self, axes: int, solid: Solid) -> Pose:
        """Return the pose of a shape in the axes of a body."""
        factors = fixed_rotation(solid.pose.rotation, self.scalars)
        center = constants(solid.pose.translation, self.scalars)
        return self.pose(axes, solid.body).child(Placement(factors, factors, center))

    def turn(self, axes: int, index: int, point: Vector, sign: float) -> Turn:
        """Return the joint of a body, one of those between ``to`` and ``link``."""
        scalars, body = self.scalars, self.tree.bodies[index]
        pose = self.pose(axes, index)
        scalars.begin("axis", index)
        arm = sub(pose.p, point)
        factor = scalars.constant(sign * (body.multiplier if body.mimics else 1.0))
        screws = []
        for slide, spin in body.joint_type.subspace(scalars):
            w = apply(pose.R, spin)
            v = add(apply(pose.R, slide), cross(arm, w))
            screws.append((scale(factor, v), scale(factor, w)))
        return Turn(range(body.v_index, body.v_index + len(screws)), screws, sign > 0.0)

    def rest(self, motions: Sequence[BodyMotion]) -> list[Scalar]:
        """Return g for each row: what its second derivative is at zero accelerations, stabilized.

        Args:
            motions: of the bodies at zero joint accelerations.
        """
        scalars, found = self.scalars, []
        root = base_motion(self.state)
        gains = self.state.given["stabilization"]
        for number, held in enumerate(self.held):
            scalars.begin("constraint", -1)
            rates = [dot(row, self.state.qd) for row in held.rows]
            drift = self._drift(held, rates, motions, root)
            kp, kd = gains[2 * number], gains[2 * number + 1]
            total = [d + kd * rate for d, rate in zip(drift, rates, strict=True)]
            if held.constraint.has_target:
                total = [a + kp * b for a, b in zip(total, self.errors(held), strict=True)]
            found += total
        return found

    def _drift(
        self,
        held: ConstraintRows,
        rates: Numbers,
        motions: Sequence[BodyMotion],
        root: BodyMotion,
    ) -> list[Scalar]:
        """Return dJ/dt qd of one constraint.

        The acceleration of ``link`` less that of the point of ``to``'s body where it is, less
        Coriolis' part, for the axes turn.
        """
        if held.poses is None:
            return [self.scalars.constant(0.0)] * len(rates)
        assert held.link is not None
        behind, v = held.poses[1], tuple(rates[:3])
        arm = apply(transpose(behind.R), sub(held.link.p, behind.p))
        slide, spin, w = self.relative(held, motions, root, arm)
        twice = self.scalars.constant(2.0)
        drift = list(sub(slide, scale(twice, cross(w, v))))
        return drift + list(spin) if len(rates) == 6 else drift

    def relative(
        self,
        held: ConstraintRows,
        motions: Sequence[BodyMotion],
        root: BodyMotion,
        arm: Vector | None = None,
    ) -> tuple[Vector, Vector, Vector]:
        """Return the acceleration of ``link`` less that of ``to``, without those of the joints.

        Args:
            held:    the constraint.
            motions: of the bodies at zero joint accelerations.
            root:    of the base.
            arm:     point of the body of ``to``; that of its frame by default.

        Returns:
            slide: of the points.
            spin:  angular, in axes that rotate with ``to``.
            w:     angular velocity of ``to``.
        """
        assert held.poses is not None
        assert held.constraint.link is not None
        assert held.constraint.to is not None
        a, w, wd = [], [], []
        frames, arms = (held.constraint.link, held.constraint.to), held.arms
        for frame, pose, at in zip(frames, held.poses, (arms[0], arm or arms[1]), strict=True):
            motion = root if frame.body < 0 else motions[frame.body]
            a.append(apply(pose.R, add(motion.a, apply(motion.field, at))))
            w.append(apply(pose.R, motion.w))
            wd.append(apply(pose.R, motion.wd))
        spin = sub(sub(wd[0], wd[1]), cross(w[1], sub(w[0], w[1])))
        return sub(a[0], a[1]), spin, w[1]

    def errors(self, held: ConstraintRows) -> list[Scalar]:
        """Return how far a constraint is from its target; turns by the sine about their axis."""
        constraint, scalars = held.constraint, self.scalars
        if constraint.kind == "joint":
            first, second = (self._position(index) for index in constraint.joints)
            error = first - scalars.constant(constraint.multiplier) * second
            return [error - scalars.constant(constraint.offset)]
        assert held.link is not None
        assert held.to is not None
        errors = list(sub(held.link.p, held.to.p))
        if constraint.rows == 6:
            to, link = transpose(held.to.R), transpose(held.link.R)
            turns = [cross(b, a) for a, b in zip(link, to, strict=True)]
            errors += scale(scalars.constant(0.5), add(add(turns[0], turns[1]), turns[2]))
        return errors

    def distance(self, held: ConstraintRows) -> tuple[list[Scalar], list[tuple[int, Scalar]]]:
        """Return how far a constraint is from its target, and squares of lengths.

        A turn has the length 2 sin(angle / 2), which does not vanish at pi.

        Returns:
            entries of the rows; pairs of 0 for a length or 1 for an angle, and a square.
        """
        if held.constraint.kind == "joint":
            (error,) = self.errors(held)
            turns = self.tree.bodies[held.constraint.joints[0]].joint_type.turns
            return [error], [(int(turns), error * error)]
        assert held.link is not None
        assert held.to is not None
        moved = sub(held.link.p, held.to.p)
        entries, squares = [*moved], [(0, dot(moved, moved))]
        if held.constraint.rows == 6:
            turn = matmul(held.link.R, transpose(held.to.R))
            turned, square = rotation_error(turn, self.scalars)
            entries, squares = [*entries, *turned], [*squares, (1, square)]
        return entries, squares

    def _position(self, index: int) -> Scalar:
        if index < 0:
            return self.scalars.constant(0.0)
        body = self.tree.bodies[index]
        own = self.state.q[body.q_index]
        if not body.mimics:
            return own
        scaled = self.scalars.constant(body.multiplier) * own
        return scaled + self.scalars.constant(body.offset)

    def given(self, name: str) -> list[Scalar]:
        """Return a number of each constraint for each of its rows."""
        return [
            number
            for number, held in zip(self.state.given[name], self.held, strict=True)
            for _ in held.rows
        ]

    def turned(self, forces: Numbers) -> list[Scalar]:
        """Return numbers of all rows in the axes of the constraints' ``to``."""
        found: list[Scalar] = []
        for held in self.held:
            found += held.turned(forces[len(found) : len(found) + len(held.rows)])
        return found


class Forces:
    """The system (A + R) f = b; forces of constraints that are not active are zero.

    Args:
        constraints: of the robot.
        A:           its Delassus matrix.
    """

    def __init__(self, constraints: Constraints, A: Rows) -> None:
        self._scalars = scalars = constraints.scalars
        scalars.begin("forces", -1)
        tree, zero, one = constraints.tree, scalars.constant(0.0), scalars.constant(1.0)
        given = constraints.given("active")
        moving = [True] * len(A) if "offsets" in constraints.state.given else moving_rows(tree)
        self._active = active = [
            on if moves else zero for on, moves in zip(given, moving, strict=True)
        ]
        compliance = constraints.given("compliance")
        size, turns, means = len(A), turning_rows(tree), {}
        least = [scalars.constant(entry) for entry in own_inertias(tree)]
        for unit in set(turns):
            own = [A[k][k] for k in range(size) if turns[k] is unit]
            mean = sum(own[1:], own[0]) * scalars.constant(1.0 / len(own))
            means[unit] = mean + scalars.constant(MIN_MEAN) * least[unit]
        given = constraints.given("proximal")
        self._mu = [means[unit] * one for unit, one in zip(turns, given, strict=True)]
        of = [number for number, held in enumerate(constraints.held) for _ in held.rows]
        masked = [[zero] * size for _ in A]
        for i in range(size):
            for j in range(i + 1):
                is_shared = of[i] == of[j] and moving[j]
                both = active[i] if is_shared else active[i] * active[j]
                masked[i][j] = both * A[i][j]
            off = (one - active[i]) * least[turns[i]]  # regular without compliance and mu
            masked[i][i] = masked[i][i] + (compliance[i] + self._mu[i] + off)
        self._factors = ldlt(masked, one=one, scalars=scalars)

    def solve(self, b: Numbers) -> list[Scalar]:
        """Return the forces of least norm."""
        right = [on * entry for on, entry in zip(self._active, b, strict=True)]
        f = ldlt_solve(self._factors, right)
        for _ in range(ITERATIONS - 1):
            rest = [r + m * x for r, m, x in zip(right, self._mu, f, strict=True)]
            f = ldlt_solve(self._factors, rest)
        return f

    def inverse(self) -> Rows:
        """Return the matrix S of f = S b, which is symmetric.

        With G = (A + R + mu)^-1, S = G + G mu G + G mu G mu G for three iterations.
        """
        G = BranchSolver(self._factors, self._scalars).inverse()
        scaled = [[entry * m for entry, m in zip(row, self._mu, strict=True)] for row in G]
        S, size = G, len(G)
        for _ in range(ITERATIONS - 1):
            more = [list(row) for row in G]
            for i in range(size):
                for j in range(i + 1):
                    more[i][j] = more[j][i] = G[i][j] + dot(scaled[i], S[j])
            S = more
        S = [list(row) for row in S]
        for k, on in enumerate(self._active):
            S[k][k] = on * S[k][k]
        return S


def turning_rows(tree: KinematicTree) -> list[bool]:
    """Return for each row of the constraints whether its force is a moment [N m]."""
    found: list[bool] = []
    for one in tree.constraints:
        joint = one.kind == "joint" and tree.bodies[one.joints[0]].joint_type.turns
        found += [joint or k >= 3 for k in range(one.rows)]
    return found


def moving_rows(tree: KinematicTree) -> list[bool]:
    """Return for each row of the constraints whether a joint moves what it holds.

    Others would be zero, or rounding errors: of a point on the axis of its joint, of the
    orientation of a link that slides.
    """
    return [
        parts[k >= 3]
        for one, parts in zip(tree.constraints, moving_parts(tree), strict=True)
        for k in range(one.rows)
    ]


@lru_cache(maxsize=8)
def own_inertias(tree: KinematicTree) -> tuple[float, float]:
    """Return the inverse inertia of a robot against forces [1/kg] and moments [1/(kg m^2)]."""
    scalars = FloatScalars()
    given = {name: np.ravel(values).tolist() for name, values in tree.parameters.items()}
    q = [0.0] * tree.nq
    for start in tree.quaternions:
        q[start + 3] = 1.0
    M = mass_matrix(State(tree, scalars, q, given=given))
    inertias: tuple[list[float], list[float]] = ([], [])
    for body in tree.bodies:
        for k, (_, spin) in enumerate(body.joint_type.subspace(scalars)):
            inertias[any(spin)].append(float(M[body.v_index + k][body.v_index + k]))
    force, moment = (float(np.mean(own)) if own else 0.0 for own in inertias)
    force = tree.total_mass or force or moment
    return 1.0 / force, 1.0 / (moment or force)


def weighted_products(
    rows: Rows, factors: Factorization, scalars: Scalars
) -> tuple[Rows, Rows, Rows]:
    """Return Y, D^-1 Y, both by columns, and A = Y^T D^-1 Y; rows are used up."""
    scalars.begin("solve", -1)
    Y = [begin_in_place(factors, row) for row in rows]
    scaled = [[a * b for a, b in zip(y, factors.inverse, strict=True)] for y in Y]
    A = [[scalars.constant(0.0)] * len(Y) for _ in Y]
    for i in range(len(Y)):
        for j in range(i + 1):
            A[i][j] = A[j][i] = dot(scaled[i], Y[j])
    return Y, scaled, A


def delassus(state: State) -> Rows:
    """Return the Delassus matrix J M^-1 J^T of all constraints, rows in the axes of ``to``."""
    constraints, factors = Constraints(state), factorized(state)
    columns = [constraints.turned(column) for column in zip(*constraints.rows, strict=True)]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return weighted_products(rows, factors, state.scalars)[2]


def constraint_residual(state: State) -> list[Scalar]:
    """Return how far each row is from its target, in the axes of ``to``; 0 without a target."""
    constraints, found = Constraints(state), []
    for held in constraints.held:
        state.scalars.begin("constraint", -1)
        if held.constraint.has_target:
            found += held.turned(constraints.distance(held)[0])
        else:
            found += [state.scalars.constant(0.0)] * held.constraint.rows
    return found


def constraint_jacobian(state: State) -> Rows:
    """Return the derivative of ``constraint_residual``; without a target, of what moves.

    A turn e = 2 sin(angle / 2) along its axis changes by cos(angle / 2) w + w x e / 2 with the
    angular velocity w of ``link`` relative to ``to``.
    """
    scalars, constraints = state.scalars, Constraints(state)
    found: Rows = []
    for held in constraints.held:
        scalars.begin("constraint", -1)
        columns = list(zip(*held.rows, strict=True))
        if held.constraint.rows == 6 and held.constraint.has_target:
            e = tuple(constraints.distance(held)[0][3:])
            rest = scalars.constant(1.0) - scalars.constant(0.25) * dot(e, e)
            cosine, half = scalars.sqrt(at_least(rest, 1e-12, scalars)), scalars.constant(0.5)
            columns = [
                (*column[:3], *add(scale(cosine, column[3:]), scale(half, cross(column[3:], e))))
                for column in columns
            ]
        found += zip(*map(held.turned, columns), strict=True)  # type: ignore[arg-type]
    return [list(row) for row in found]


def constrained_forward_dynamics(
    state: State, tau: Numbers, damping_step: Scalar | None = None
) -> tuple[list[Scalar], list[Scalar]]:
    """Return the joint accelerations, and the forces of the constraints.

    Arguments as in ``gridgen.dynamics.aba.forward_dynamics_aba``; what is given of constraints is
    in ``state.given``.

    Returns:
        qdd:    nv scalars [rad/s^2 or m/s^2].
        forces: on ``link``, one for each row, in the axes of ``to`` [N, N m]; of a joint, its
                torque or force.
    """
    scalars, motions = state.scalars, all_motions(state)
    bias = torques_of_forces(state, body_forces(state, each(state.tree, motions)))
    constraints = Constraints(state)
    rest = constraints.rest(motions)
    M = mass_matrix(state)
    add_damping(state, M, damping_step)
    factors = factorized(state, M)
    right = [effort - loss for effort, loss in zip(tau, bias, strict=True)]
    z = begin_in_place(factors, right)
    Y, scaled, A = weighted_products(constraints.rows, factors, scalars)
    b = [-(g + dot(y, z)) for g, y in zip(rest, scaled, strict=True)]
    f = Forces(constraints, A).solve(b)
    for y, force in zip(Y, f, strict=True):
        z = [a + force * entry for a, entry in zip(z, y, strict=True)]
    scalars.begin("solve", -1)
    return finish_in_place(factors, z), constraints.turned(f)


def impulse_dynamics(state: State) -> tuple[list[Scalar], list[Scalar]]:
    """Return the joint velocities after an impact, and the impulses of the constraints.

    M (qd_next - qd) = J^T p and J qd_next = -restitution J qd: the equations of forces, with
    velocities in the place of accelerations.

    Returns:
        qd_next:  nv scalars [rad/s or m/s].
        impulses: on ``link``, one for each row, in the axes of ``to`` [N s, N m s].
    """
    qd, scalars, constraints = state.qd, state.scalars, Constraints(state)
    one, restitution = scalars.constant(1.0), constraints.given("restitution")
    b = [
        -((one + share) * dot(row, qd))
        for share, row in zip(restitution, constraints.rows, strict=True)
    ]
    factors = factorized(state)
    Y, _, A = weighted_products(constraints.rows, factors, scalars)
    p = Forces(constraints, A).solve(b)
    change = [scalars.constant(0.0)] * state.tree.nv
    for y, impulse in zip(Y, p, strict=True):
        change = [a + impulse * entry for a, entry in zip(change, y, strict=True)]
    scalars.begin("solve", -1)
    change = finish_in_place(factors, change)
    return [a + b for a, b in zip(qd, change, strict=True)], constraints.turned(p)


def constrained_inverse_dynamics(state: State, qdd: Numbers) -> tuple[list[Scalar], list[Scalar]]:
    """Return the joint torques and constraint forces that together produce accelerations.

    B are the columns of J of the free joints, W the weights, and r the generalized forces of
    inverse dynamics at these joints. The forces f = W^-1 B x satisfy B^T f = r with least f^T W f.
    Proximal iterations find x.

    Arguments as in ``inverse_dynamics``.

    Returns:
        tau:    nv scalars [N m or N].
        forces: as of ``constrained_forward_dynamics``.
    """
    tree, scalars = state.tree, state.scalars
    total, constraints = inverse_dynamics(state, qdd), Constraints(state)
    rows, zero, one = constraints.rows, scalars.constant(0.0), scalars.constant(1.0)
    free = [
        body.v_index + k for body in tree.bodies if body.joint_type.is_free for k in range(body.nv)
    ]
    if not free:
        return total, [zero] * len(rows)
    scalars.begin("forces", -1)
    active = constraints.given("active")
    easy = [one / weight for weight in constraints.given("weights")]
    scaled = [[share * row[j] for j in free] for share, row in zip(easy, rows, strict=True)]
    held = [[on * entry for entry in row] for on, row in zip(active, scaled, strict=True)]
    mean, share = zero, zero
    for row, own in zip(rows, scaled, strict=True):
        mean = mean + dot([row[j] for j in free], own)
    for proximal in state.given["proximal"]:
        share = share + proximal
    regular = scalars.constant(REGULAR) * (mean + one)
    mu = mean * share * scalars.constant(1.0 / (len(free) * len(tree.constraints))) + regular
    H = [[zero] * len(free) for _ in free]
    for a in range(len(free)):
        for b in range(a + 1):
            H[a][b] = H[b][a] = dot([row[free[a]] for row in rows], [row[b] for row in held])
        H[a][a] = H[a][a] + mu
    factors = ldlt(H, one=one, scalars=scalars)
    right = [total[j] for j in free]
    x = ldlt_solve(factors, right)
    for _ in range(ITERATIONS - 1):
        x = ldlt_solve(factors, [r + mu * entry for r, entry in zip(right, x, strict=True)])
    f = [dot(row, x) for row in held]
    tau = [effort - dot([row[j] for row in rows], f) for j, effort in enumerate(total)]
    return tau, constraints.turned(f)
