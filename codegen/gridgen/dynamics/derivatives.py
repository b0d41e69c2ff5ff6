"""Analytical derivatives of inverse and forward dynamics.

A change of one joint's position or velocity reaches a body below it as a change of the motion of
its carrier: at the point x the acceleration changes by

    a + alpha x x + 2 w x xdot                                                (``MotionChange``)

with x and its velocity xdot taken from the carrier's origin, as the carrier sees them. In these
three vectors all joints and both kinds of derivative are alike, no linear velocity is needed, and a
subtree answers through six sums over its mass (``MovingInertia``). Two quantities then travel
inwards from every joint, body frame by body frame: how its effort answers a change of its carrier's
motion (``EffortRow``: derivatives of its effort by its ancestors), and how the wrench that it
transmits changes with itself (derivatives of its ancestors' efforts). Joints in different branches
never meet. The structure is that of S3 Algorithm 2 and of Singh, Russell and Wensing 2022; frames
and quantities are chosen for the fewest operations where joint axes are unit vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.dynamics.crba import RigidInertia, velocity_parents
from gridgen.dynamics.kinematics import (
    BaseMotion,
    BodyMotion,
    _base_motion,
    body_motions,
    constants,
    joint_rate,
    placements,
    split,
)
from gridgen.dynamics.linear import ldlt, ldlt_solve
from gridgen.dynamics.minverse import BranchSolver
from gridgen.dynamics.rnea import (
    Wrench,
    add_joint_dynamics,
    bias_forces,
    body_forces,
    transmitted_forces,
)
from gridgen.dynamics.spatial import (
    Matrix,
    Placement,
    Vector,
    add,
    apply,
    cross,
    dot,
    scale,
    symmetric,
    transpose,
)
from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.joints import joint_form
from gridgen.symbolic.scalars import Scalar, Scalars

Square = list[list[Scalar]]


@dataclass(frozen=True)
class MotionChange:
    """Change of a carrier's acceleration field: a + alpha x x + 2 w x xdot at the point x."""

    a: Vector
    alpha: Vector
    w: Vector


@dataclass(frozen=True)
class EffortRow:
    """How a joint's effort answers a change of motion: a . da + alpha . dalpha + w . dw.

    ``(a, alpha)`` is the wrench of the joint's unit acceleration, a column of the mass matrix.
    """

    a: Vector
    alpha: Vector
    w: Vector

    def answer(self, change: MotionChange) -> Scalar:
        """Return the change of the effort."""
        return dot(self.a, change.a) + dot(self.alpha, change.alpha) + dot(self.w, change.w)

    def to_parent(self, placed: Placement, drift: Vector) -> EffortRow:
        """Return the answer to changes of the parent's motion.

        Args:
            placed: placement of the body in its parent.
            drift:  twice the velocity of the body's origin, seen by its parent.
        """
        a = placed.to_parent(self.a)
        alpha = add(placed.to_parent(self.alpha), cross(placed.r, a))
        return EffortRow(a, alpha, add(placed.to_parent(self.w), cross(drift, a)))


@dataclass(frozen=True)
class MovingInertia:
    """A subtree's mass and momentum about a frame's origin.

    Attributes:
        rigid: mass, first moment and rotational inertia.
        p:     twice the integral of xdot dm [kg m/s].
        K:     twice the integral of xdot x^T dm [kg m^2/s].
    """

    rigid: RigidInertia
    p: Vector
    K: Matrix

    def wrench(self, change: MotionChange) -> Wrench:
        """Return the change of the wrench that moves the subtree."""
        f, n = self.rigid.wrench(change.a, change.alpha)
        return add(f, cross(change.w, self.p)), add(n, _moment(self.K, change.w))

    def row(self, slide: Vector, spin: Vector) -> EffortRow:
        """Return the answer of the effort along a joint's axis, whose subspace is (v, w)."""
        f, n = self.rigid.wrench(slide, spin)
        return EffortRow(f, n, add(cross(self.p, slide), _moment(transpose(self.K), spin)))

    def to_parent(self, placed: Placement, drift: Vector) -> MovingInertia:
        """Return the same about the parent's origin, as the parent sees it."""
        rigid = self.rigid.to_parent(placed)
        p, K = placed.to_parent(self.p), placed.matrix_to_parent(self.K)
        # x' = E x + r and xdot' = E xdot + drift / 2.
        shifted = tuple(
            tuple(K[i][j] + (p[i] * placed.r[j] + drift[i] * rigid.h[j]) for j in range(3))
            for i in range(3)
        )
        return MovingInertia(rigid, add(p, scale(rigid.m, drift)), shifted)  # type: ignore[arg-type]

    def __add__(self, other: MovingInertia) -> MovingInertia:
        """Return the sum of two subtrees."""
        K = tuple(map(add, self.K, other.K))
        return MovingInertia(self.rigid + other.rigid, add(self.p, other.p), K)  # type: ignore[arg-type]

    def keep(self, index: int, scalars: Scalars) -> MovingInertia:
        """Name the entries."""
        rigid = RigidInertia(
            self.rigid.m,
            scalars.keep("h", index, self.rigid.h),
            scalars.keep("I", index, self.rigid.I),
        )
        return MovingInertia(
            rigid, scalars.keep("p", index, self.p), scalars.keep("K", index, self.K)
        )


def _moment(K: Matrix, w: Vector) -> Vector:
    """Return trace(K) w - K w, the moment of the force field w x xdot."""
    x, y, z = w
    return (
        (K[1][1] + K[2][2]) * x - K[0][1] * y - K[0][2] * z,
        (K[0][0] + K[2][2]) * y - K[1][0] * x - K[1][2] * z,
        (K[0][0] + K[1][1]) * z - K[2][0] * x - K[2][1] * y,
    )


# -- gradients --------------------------------------------------------------------------------


def inverse_dynamics_gradient(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None = None,
) -> tuple[Square, Square]:
    """Return the derivatives of the joint efforts by joint positions and velocities.

    Positions are changed along the joints' velocities (for a free joint: a displacement in the
    body's own frame, Pinocchio's tangent space). External wrenches stay what they are in the frames
    of their links; Coulomb friction counts as constant.

    Args:
        tree:    the robot.
        q:       joint positions, nq scalars [rad or m].
        qd:      joint velocities, nv scalars [rad/s or m/s].
        qdd:     joint accelerations, nv scalars [rad/s^2 or m/s^2].
        base:    motion of the base and gravity.
        scalars: the kind of number.
        f_ext:   wrench on every body in its link's frame, 6 scalars each, (f, n) [N, N m].

    Returns:
        dtau_dq:  nv x nv, row i the effort i, zero between branches.
        dtau_dqd: nv x nv.
    """
    state = _State(tree, q, qd, base, scalars)
    motions = list(body_motions(tree, state.placed, qd, qdd, base, scalars))
    forces = body_forces(tree, motions, f_ext, scalars)
    forces = transmitted_forces(tree, state.placed, forces, scalars)
    _, dtau_dqd = state.by_rates()
    return state.by_positions(motions, forces), _damped(tree, dtau_dqd, scalars)


def forward_dynamics_gradient(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None = None,
) -> tuple[Square, Square, Square]:
    """Return the derivatives of the joint accelerations by positions, velocities and efforts.

    They are -M^-1 times those of inverse dynamics at the accelerations that ``tau`` produces, and
    M^-1 itself. The rows that give ``dtau_dqd`` hold the mass matrix as well.

    Arguments as in ``gridgen.dynamics.aba.forward_dynamics_aba``; mimic joints are allowed.

    Returns:
        dqdd_dq, dqdd_dqd, dqdd_dtau: nv x nv each, row i the acceleration i.
    """
    state = _State(tree, q, qd, base, scalars)
    M, dtau_dqd = state.by_rates()
    one = scalars.constant(1.0)
    parents = velocity_parents(tree)
    scalars.begin("solve", -1)
    factors = ldlt(M, parents, one)
    if f_ext is None and base.velocity is None and base.acceleration is None:
        bias = state.bias_at_rest(dtau_dqd)
    else:
        bias = bias_forces(tree, q, qd, base, scalars, f_ext)
    qdd = ldlt_solve(factors, [effort - loss for effort, loss in zip(tau, bias, strict=True)])

    motions = list(body_motions(tree, state.placed, qd, qdd, base, scalars))
    forces = body_forces(tree, motions, f_ext, scalars)
    forces = transmitted_forces(tree, state.placed, forces, scalars)
    dtau_dq = state.by_positions(motions, forces)
    scalars.begin("solve", -1)
    solver = BranchSolver(factors, parents, scalars)
    dqdd_dq, dqdd_dqd = (
        _transposed(
            [solver.solve(column, j, sign=-1.0) for j, column in enumerate(_transposed(dtau))]
        )
        for dtau in (dtau_dq, _damped(tree, dtau_dqd, scalars))
    )
    return dqdd_dq, dqdd_dqd, solver.inverse()


def _damped(tree: KinematicTree, dtau_dqd: Square, scalars: Scalars) -> Square:
    """Add the joints' viscous damping to the diagonal."""
    damped = [row[:] for row in dtau_dqd]
    for body in tree.bodies:
        if body.damping:
            damping = scalars.constant(body.damping * body.multiplier**2)
            damped[body.v_index][body.v_index] = damped[body.v_index][body.v_index] + damping
    return damped


def _transposed(matrix: Square) -> Square:
    return [list(column) for column in zip(*matrix, strict=True)]


class _State:
    """What both gradients share: everything that positions and velocities determine.

    Attributes:
        placed:   placements of the bodies.
        motions:  motions without joint accelerations; only velocities are used.
        drift:    twice the velocity of every body's origin, seen by its parent.
        inertias: of every body's subtree.
        rows:     for every body, by row of its effort, the pairs (ancestor, row seen from there),
                  the body itself first.
    """

    def __init__(
        self,
        tree: KinematicTree,
        q: Sequence[Scalar],
        qd: Sequence[Scalar],
        base: BaseMotion,
        scalars: Scalars,
    ) -> None:
        self.tree, self.qd, self.base, self.scalars = tree, qd, base, scalars
        self.placed = placements(tree, q, scalars)
        self.motions = list(body_motions(tree, self.placed, qd, None, base, scalars))
        self.root = _base_motion(base, scalars)
        self.drift = [self._drift(index) for index in range(len(tree.bodies))]
        self.inertias = self._inertias()
        self.rows = [self._rows(index) for index in range(len(tree.bodies))]

    def _carrier(self, motions: Sequence[BodyMotion], index: int) -> BodyMotion:
        parent = self.tree.bodies[index].parent
        return self.root if parent < 0 else motions[parent]

    def _drift(self, index: int) -> Vector:
        """Return twice the velocity of a body's origin, seen by its parent."""
        body, scalars = self.tree.bodies[index], self.scalars
        scalars.begin("outward", index)
        placed = self.placed[index]
        twice = scale(scalars.constant(2.0), placed.r)
        drift = cross(self._carrier(self.motions, index).w, twice)
        if body.kind != "revolute":
            slide, _ = self._joint_velocity(body)
            drift = add(drift, scale(scalars.constant(2.0), placed.to_parent(slide)))
        return scalars.keep("d", index, drift)

    def _joint_velocity(self, body: Body) -> tuple[Vector, Vector]:
        """Return the velocity of a joint, seen by the body it moves."""
        rate = joint_rate(body, self.qd, self.scalars)
        nothing = constants((0.0, 0.0, 0.0), self.scalars)
        if body.kind == "free":
            return split(rate)
        along = (nothing[0], nothing[1], rate[0])
        return (nothing, along) if body.kind == "revolute" else (along, nothing)

    def _inertias(self) -> list[MovingInertia]:
        bodies, scalars = self.tree.bodies, self.scalars
        composite = []
        for index, body in enumerate(bodies):
            scalars.begin("outward", index)
            own = _moving_inertia(body, self.motions[index].w, scalars)
            composite.append(own.keep(index, scalars))
        for index in reversed(range(len(bodies))):
            parent = bodies[index].parent
            if parent >= 0:
                scalars.begin("composite", index)
                carried = composite[index].to_parent(self.placed[index], self.drift[index])
                composite[parent] = (composite[parent] + carried).keep(parent, scalars)
        return composite

    def _rows(self, index: int) -> list[list[tuple[int, EffortRow]]]:
        bodies, scalars = self.tree.bodies, self.scalars
        rows = []
        for slide, spin in _subspace(bodies[index], scalars):
            scalars.begin("row", index)
            row = self.inertias[index].row(slide, spin)
            at, line = index, [(index, row)]
            while bodies[at].parent >= 0:
                row = row.to_parent(self.placed[at], self.drift[at])
                at = bodies[at].parent
                line.append((at, row))
            rows.append(line)
        return rows

    # -- derivatives --------------------------------------------------------------------------

    def by_rates(self) -> tuple[Square, Square]:
        """Return the mass matrix and the undamped derivatives of the efforts by velocities."""
        tree, scalars = self.tree, self.scalars
        M = self._mass_matrix()
        changes = [self._rate_changes(index) for index in range(len(tree.bodies))]
        wrenches = []
        for index, own in enumerate(changes):
            scalars.begin("column", index)
            wrenches.append([self.inertias[index].wrench(change) for change in own])
        return M, self._gradient(changes, wrenches, wrenches)

    def by_positions(self, motions: Sequence[BodyMotion], forces: Sequence[Wrench]) -> Square:
        """Return the derivatives of the efforts by the positions.

        Args:
            motions: of the bodies, with the joint accelerations.
            forces:  the wrench that each joint transmits.
        """
        tree, scalars = self.tree, self.scalars
        changes, own, felt = [], [], []
        for index, body in enumerate(tree.bodies):
            scalars.begin("column", index)
            changes.append(self._position_changes(index, motions))
            own.append([self.inertias[index].wrench(change) for change in changes[index]])
            f, n = forces[index]
            turned = []
            # The body's frame moves with the joint: its parent sees the whole wrench turn.
            for (df, dn), (slide, spin) in zip(own[index], _subspace(body, scalars), strict=True):
                df = add(df, cross(spin, f))
                turned.append((df, add(add(dn, cross(spin, n)), cross(slide, f))))
            felt.append(turned)
        return self._gradient(changes, own, felt)

    def _rate_changes(self, index: int) -> list[MotionChange]:
        """Return the changes of a body's motion with the velocities of its joint."""
        body, scalars = self.tree.bodies[index], self.scalars
        scalars.begin("outward", index)
        w, placed = self.motions[index].w, self.placed[index]
        total = add(placed.to_body(self._carrier(self.motions, index).w), w)
        slide_rate, _ = self._joint_velocity(body)
        if body.kind != "free":
            # Along the joint's axis the two velocities need not be told apart.
            total, slide_rate = scale(scalars.constant(2.0), w), constants((0, 0, 0), scalars)
        return [
            MotionChange(
                add(cross(total, slide), cross(spin, slide_rate)), cross(total, spin), spin
            )
            for slide, spin in _subspace(body, scalars)
        ]

    def _position_changes(self, index: int, motions: Sequence[BodyMotion]) -> list[MotionChange]:
        """Return the changes of a body's motion, seen by itself, with the position of its joint.

        The motion of the body relative to its carrier stays, that of the carrier is seen turned
        and from another place.
        """
        body, scalars, placed = self.tree.bodies[index], self.scalars, self.placed[index]
        motion, carrier = motions[index], self._carrier(motions, index)
        nothing = constants((0.0, 0.0, 0.0), scalars)
        along = (motion.field[0][2], motion.field[1][2], motion.field[2][2])
        if body.kind == "prismatic":
            return [MotionChange(along, nothing, nothing)]
        if body.kind == "revolute":
            # Of the carrier's field only the column along the axis counts, and there the body's is
            # the same.
            z = _subspace(body, scalars)[0][1]
            return [MotionChange(cross(motion.a, z), along, cross(motion.w, z))]
        slide_rate, _ = self._joint_velocity(body)
        a = placed.to_body(add(carrier.a, apply(carrier.field, placed.r)))
        w, wd = placed.to_body(carrier.w), placed.to_body(carrier.wd)
        changes = []
        for slide, spin in _subspace(body, scalars):
            turned = cross(w, spin)
            rise = add(cross(wd, slide), cross(w, cross(w, slide)))
            a_turned = add(cross(a, spin), scale(scalars.constant(2.0), cross(turned, slide_rate)))
            alpha = add(cross(wd, spin), cross(w, turned))
            changes.append(MotionChange(add(rise, a_turned), alpha, turned))
        return changes

    def _gradient(
        self,
        changes: Sequence[Sequence[MotionChange]],
        own: Sequence[Sequence[Wrench]],
        felt: Sequence[Sequence[Wrench]],
    ) -> Square:
        """Collect a gradient from what each joint does to its own body.

        Args:
            changes: of the motion of every body, by column of its joint.
            own:     change of the wrench on every body's subtree, in the body's frame.
            felt:    the same as its parent sees it, still in the body's axes.
        """
        tree, scalars = self.tree, self.scalars
        gradient = [[scalars.constant(0.0)] * tree.nv for _ in range(tree.nv)]

        def put(i: int, j: int, row: int, column: int, entry: Scalar) -> None:
            body, other = tree.bodies[i], tree.bodies[j]
            factor = body.multiplier * other.multiplier
            if factor != 1.0:
                entry = scalars.constant(factor) * entry
            row, column = body.v_index + row, other.v_index + column
            gradient[row][column] = gradient[row][column] + entry

        for index in reversed(range(len(tree.bodies))):
            subspace = _subspace(tree.bodies[index], scalars)
            for column, wrench in enumerate(own[index]):
                for row, axis in enumerate(subspace):
                    put(index, index, row, column, _along(axis, wrench))
            for row, line in enumerate(self.rows[index]):
                scalars.begin("row", index)
                for ancestor, seen in line[1:]:
                    for column, change in enumerate(changes[ancestor]):
                        put(index, ancestor, row, column, seen.answer(change))
            for column, wrench in enumerate(felt[index]):
                scalars.begin("column", index)
                at = index
                while tree.bodies[at].parent >= 0:
                    wrench = self.placed[at].force_to_parent(*wrench)
                    at = tree.bodies[at].parent
                    for row, axis in enumerate(_subspace(tree.bodies[at], scalars)):
                        put(at, index, row, column, _along(axis, wrench))
        return gradient

    def _mass_matrix(self) -> Square:
        tree, scalars = self.tree, self.scalars
        M = [[scalars.constant(0.0)] * tree.nv for _ in range(tree.nv)]
        for index, body in enumerate(tree.bodies):
            for i, line in enumerate(self.rows[index], start=body.v_index):
                for at, row in line:
                    factor = body.multiplier * tree.bodies[at].multiplier
                    axes = _subspace(tree.bodies[at], scalars)
                    for j, axis in enumerate(axes, start=tree.bodies[at].v_index):
                        if at == index and j > i:
                            continue
                        entry = _along(axis, (row.a, row.alpha))
                        if factor != 1.0:
                            entry = scalars.constant(factor) * entry
                        if i != j:
                            M[i][j] = M[i][j] + entry
                            M[j][i] = M[i][j]
                        else:  # a leader above its follower: the pair counts twice
                            M[i][i] = M[i][i] + (entry if at == index else 2.0 * entry)
        for j, armature in enumerate(tree.armature):
            M[j][j] = M[j][j] + scalars.constant(armature)
        return M

    def bias_at_rest(self, dtau_dqd: Square) -> list[Scalar]:
        """Return the bias forces of a robot on a base at rest, without external wrenches.

        The efforts of velocity are quadratic forms of it, so half their gradient times the velocity
        gives them back; those of gravity are the answers to a uniform acceleration.
        """
        tree, scalars, qd = self.tree, self.scalars, self.qd
        bias = [scalars.constant(0.5) * dot(row, qd) for row in dtau_dqd]
        for index, body in enumerate(tree.bodies):
            scalars.begin("row", index)
            for row, line in enumerate(self.rows[index], start=body.v_index):
                at, seen = line[-1]
                entry = dot(seen.a, self.placed[at].to_body(self.root.a))
                if body.mimics:
                    entry = scalars.constant(body.multiplier) * entry
                bias[row] = bias[row] + entry
        return add_joint_dynamics(tree, bias, qd, None, scalars)


def _moving_inertia(body: Body, w: Vector, scalars: Scalars) -> MovingInertia:
    """Return mass and momentum of one body, whose points move with w x x."""
    (Ixx, Ixy, Ixz), (_, Iyy, Iyz), (_, _, Izz) = body.inertia
    # Twice the second moments, S = trace(I)/2 - I.
    xx, yy, zz = Iyy + Izz - Ixx, Ixx + Izz - Iyy, Ixx + Iyy - Izz
    xy, xz, yz = -2.0 * Ixy, -2.0 * Ixz, -2.0 * Iyz
    S = tuple(constants(row, scalars) for row in ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)))
    twice = constants([2.0 * entry for entry in body.first_moment], scalars)
    K = transpose(tuple(cross(w, column) for column in S))  # type: ignore[arg-type]
    rigid = RigidInertia(
        scalars.constant(body.mass),
        constants(body.first_moment, scalars),
        tuple(map(scalars.constant, symmetric(body.inertia))),
    )
    return MovingInertia(rigid, cross(w, twice), K)


def _subspace(body: Body, scalars: Scalars) -> list[tuple[Vector, Vector]]:
    return [
        (constants(column[:3], scalars), constants(column[3:], scalars))
        for column in joint_form(body.kind).subspace
    ]


def _along(axis: tuple[Vector, Vector], wrench: Wrench) -> Scalar:
    return dot(axis[0], wrench[0]) + dot(axis[1], wrench[1])
