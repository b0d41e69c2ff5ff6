"""Second derivatives of inverse dynamics of robots on a fixed base.

Three joints have a second derivative in common where one is an ancestor of the next: ``root``, the
nearest to the base, ``middle`` and ``tip``. Everything is put together in the frame of the middle
one, whose axis is a unit vector:

    effort of the tip:     its row, turned by the middle joint, answers the root's change of motion
    effort of the middle:  its row for the change of the subtree's inertia by the tip does
    effort of the root:    takes its share of the change of the wrench that the middle joint feels

so that a triple costs a few products of three or six entries, and the rest is spent on pairs. The
decomposition is that of Singh, Russell and Wensing, *On Second-Order Derivatives of Rigid-Body
Dynamics*, in the terms of ``gridgen.dynamics.changes``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.dynamics.changes import (
    EffortRow,
    Motion,
    MotionChange,
    MovingInertia,
    add_outer,
    add_wrenches,
    along,
    moment,
    turned_wrench,
)
from gridgen.dynamics.crba import RigidInertia
from gridgen.dynamics.kinematics import BaseMotion, body_motions
from gridgen.dynamics.rnea import Wrench, body_forces, transmitted_forces
from gridgen.dynamics.spatial import (
    Matrix,
    Placement,
    Symmetric,
    Vector,
    add,
    apply,
    cross,
    dot,
    full,
    neg,
    scale,
    transpose,
)
from gridgen.dynamics.sweep import Sweep
from gridgen.errors import ModelError
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars

Cube = list[list[list[Scalar]]]


def inverse_dynamics_second_order(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None = None,
) -> tuple[Cube, Cube, Cube, Cube]:
    """Return the second derivatives of the joint efforts.

    Args:
        tree:    the robot.
        q:       joint positions, nq scalars [rad or m].
        qd:      joint velocities, nv scalars [rad/s or m/s].
        qdd:     joint accelerations, nv scalars [rad/s^2 or m/s^2].
        base:    motion of the base and gravity.
        scalars: the kind of number.
        f_ext:   wrench on every body in its link's frame, 6 scalars each, (f, n) [N, N m].

    Returns:
        d2tau_dqdq:   nv x nv x nv; entry (i, j, k) is that of effort i by positions j and k.
        d2tau_dqddqd: the same by velocities j and k.
        d2tau_dqdqd:  by position j and velocity k.
        dM_dq:        entry (i, j, k) is that of the mass matrix's (i, j) by position k.

    Raises:
        ModelError: if a joint is free: its positions do not commute.
    """
    for body in tree.bodies:
        if body.kind == "free":
            raise ModelError(
                f'{tree.source}: joint "{body.joint}" is free; second derivatives need joints of '
                "one degree of freedom on a fixed base"
            )
    return _SecondOrder(tree, q, qd, qdd, base, scalars, f_ext).cubes()


@dataclass(frozen=True)
class TurnedMass:
    """Derivative of a subtree's inertia by the position of the joint that carries it.

    Attributes:
        f: the integral of e dm, where the joint's unit velocity moves the point x with e(x).
        Q: twice the integral of e x^T dm.
        p: derivative of ``MovingInertia.p``.
        K: derivative of ``MovingInertia.K``.
    """

    f: Vector
    Q: Matrix
    p: Vector
    K: Matrix

    def to_parent(self, placed: Placement, drift: Vector) -> TurnedMass:
        """Return the same about the parent's origin, as the parent sees it."""
        f, p = placed.to_parent(self.f), placed.to_parent(self.p)
        Q = add_outer(placed.matrix_to_parent(self.Q), f, scale(2.0, placed.r))
        K = add_outer(placed.matrix_to_parent(self.K), p, placed.r)
        return TurnedMass(f, Q, p, add_outer(K, drift, f))

    def by_position(self, scalars: Scalars) -> MovingInertia:
        """Return the derivative as an inertia: of a mass that does not change."""
        Q = self.Q
        inertia: Symmetric = (
            Q[1][1] + Q[2][2],
            -0.5 * (Q[0][1] + Q[1][0]),
            -0.5 * (Q[0][2] + Q[2][0]),
            Q[0][0] + Q[2][2],
            -0.5 * (Q[1][2] + Q[2][1]),
            Q[0][0] + Q[1][1],
        )
        rigid = RigidInertia(scalars.constant(0.0), self.f, inertia)
        return MovingInertia(rigid, self.p, self.K)

    def wrench_by_velocity(self, w: Vector) -> Wrench:
        """Return how the joint's velocity changes the answer to the change ``w`` of motion.

        The velocity moves the points, not the mass: of the inertia only p and K change, by 2 f and
        Q.
        """
        return cross(w, scale(2.0, self.f)), moment(self.Q, w)


def _turned_mass(axis: Motion, inertia: MovingInertia, w: Vector) -> TurnedMass:
    """Return the derivative that a joint makes, as its carrier sees it, in the body's axes.

    Args:
        axis:    the joint's.
        inertia: of the subtree.
        w:       angular velocity of the body.
    """
    slide, spin = axis
    rigid, p, K = inertia.rigid, inertia.p, inertia.K
    f = add(scale(rigid.m, slide), cross(spin, rigid.h))
    xx, xy, xz, yy, yz, zz = rigid.I
    S = (  # twice the integral of x x^T
        (yy + zz - xx, -2.0 * xy, -2.0 * xz),
        (-2.0 * xy, xx + zz - yy, -2.0 * yz),
        (-2.0 * xz, -2.0 * yz, xx + yy - zz),
    )
    Q = add_outer(_cross_columns(spin, S), scale(2.0, slide), rigid.h)
    # The velocity of a point turns with it, but for the part that the carrier's turning makes.
    moved, turned = cross(w, slide), cross(w, spin)
    p_turned = add(cross(spin, p), cross(turned, scale(2.0, rigid.h)))
    K_turned = tuple(
        add(add(a, b), neg(c))
        for a, b, c in zip(
            _cross_columns(spin, K),
            _cross_columns(turned, S),
            (cross(row, spin) for row in K),
            strict=True,
        )
    )
    K_moved = add_outer(add_outer(K_turned, p, slide), scale(2.0, moved), rigid.h)  # type: ignore[arg-type]
    return TurnedMass(f, Q, add(p_turned, scale(2.0 * rigid.m, moved)), K_moved)


def _cross_columns(a: Vector, matrix: Matrix) -> Matrix:
    """Return a x, applied to every column."""
    return transpose(tuple(cross(a, column) for column in transpose(matrix)))  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Above:
    """What a joint does to a body below it, in that body's frame.

    Attributes:
        axis:     unit velocity of the joint.
        position: change of motion with its position.
        velocity: change of motion with its velocity.
    """

    axis: Motion
    position: MotionChange
    velocity: MotionChange

    def to_body(self, placed: Placement, drift: Vector) -> _Above:
        """Return the same for a child of the body."""
        return _Above(
            placed.motion_to_body(*self.axis),
            self.position.to_body(placed, drift),
            self.velocity.to_body(placed, drift),
        )


@dataclass(frozen=True)
class _Below:
    """What a joint does to a body above it, in that body's frame.

    Attributes:
        row:      how its effort answers changes of motion.
        mass:     change of the inertia with its position.
        position: change of the transmitted wrench with its position.
        velocity: change of the transmitted wrench with its velocity.
    """

    row: EffortRow
    mass: TurnedMass
    position: Wrench
    velocity: Wrench

    def to_parent(self, row: EffortRow, placed: Placement, drift: Vector) -> _Below:
        """Return the same for the parent of the body, given the row there."""
        return _Below(
            row,
            self.mass.to_parent(placed, drift),
            placed.force_to_parent(*self.position),
            placed.force_to_parent(*self.velocity),
        )


class _SecondOrder:
    """The four arrays of second derivatives, filled triple by triple."""

    def __init__(
        self,
        tree: KinematicTree,
        q: Sequence[Scalar],
        qd: Sequence[Scalar],
        qdd: Sequence[Scalar],
        base: BaseMotion,
        scalars: Scalars,
        f_ext: Sequence[Scalar] | None,
    ) -> None:
        self._tree, self._scalars = tree, scalars
        self._sweep = sweep = Sweep(tree, q, qd, base, scalars)
        motions = list(body_motions(tree, sweep.placed, qd, qdd, base, scalars))
        forces = body_forces(tree, motions, f_ext, scalars)
        self._forces = transmitted_forces(tree, sweep.placed, forces, scalars)
        self._axes = [axes[0] for axes in sweep.axes]
        self._positions = [
            sweep.position_changes(index, motions)[0] for index in range(len(tree.bodies))
        ]
        self._velocities = [sweep.velocity_changes(index)[0] for index in range(len(tree.bodies))]
        self._above = self._carried_outwards()
        nv = tree.nv
        zero = scalars.constant(0.0)
        self._qq, self._vv, self._qv, self._Mq = (
            [[[zero] * nv for _ in range(nv)] for _ in range(nv)] for _ in range(4)
        )

    def _carried_outwards(self) -> list[dict[int, _Above]]:
        """Return, for every body, what each of its ancestors and its own joint do to it."""
        above: list[dict[int, _Above]] = []
        for index, body in enumerate(self._tree.bodies):
            self._scalars.begin("outward", index)
            placed, drift = self._sweep.placed[index], self._sweep.drift[index]
            carried = above[body.parent].items() if body.parent >= 0 else ()
            here = {root: entry.to_body(placed, drift) for root, entry in carried}
            here[index] = _Above(self._axes[index], self._positions[index], self._velocities[index])
            above.append(here)
        return above

    def cubes(self) -> tuple[Cube, Cube, Cube, Cube]:
        """Return d2tau_dqdq, d2tau_dqddqd, d2tau_dqdqd, dM_dq."""
        for tip in reversed(range(len(self._tree.bodies))):
            for middle, below in self._carried_inwards(tip):
                self._scalars.begin("triples", tip)
                self._tip_efforts(tip, middle, below)
                if middle != tip:
                    self._middle_efforts(tip, middle, below)
                self._root_efforts(tip, middle, below)
        return self._qq, self._vv, self._qv, self._Mq

    def _carried_inwards(self, tip: int) -> list[tuple[int, _Below]]:
        sweep = self._sweep
        self._scalars.begin("response", tip)
        axis, inertia = self._axes[tip], sweep.inertias[tip]
        own = inertia.wrench(self._positions[tip])
        lines = sweep.rows[tip][0]
        below = _Below(
            lines[0][1],
            _turned_mass(axis, inertia, sweep.motions[tip].w),
            add_wrenches(own, turned_wrench(axis, self._forces[tip])),
            inertia.wrench(self._velocities[tip]),
        )
        carried = [(tip, below)]
        at = tip
        for ancestor, row in lines[1:]:
            below = below.to_parent(row, sweep.placed[at], sweep.drift[at])
            carried.append((ancestor, below))
            at = ancestor
        return carried

    def _quadratic_row(self, middle: int, below: _Below) -> Vector:
        """Return how the tip's effort by the middle's velocity answers a change of w.

        With the opposite sign it is the middle's effort by the tip's velocity.
        """
        slide, spin = self._axes[middle]
        turned = moment(transpose(below.mass.Q), spin)
        return add(scale(2.0, cross(slide, below.row.a)), neg(turned))

    def _tip_efforts(self, tip: int, middle: int, below: _Below) -> None:
        """Fill what concerns the tip's effort, the middle joint and those above it."""
        (slide, spin), row, w = self._axes[middle], below.row, self._sweep.motions[middle].w
        turned = moment(transpose(below.mass.Q), cross(w, spin))
        by_position = EffortRow(
            cross(spin, row.a),
            add(cross(spin, row.alpha), cross(slide, row.a)),
            add(add(cross(spin, row.w), scale(2.0, cross(cross(w, slide), row.a))), neg(turned)),
        )
        by_velocity = self._quadratic_row(middle, below)
        for root, above in self._above[middle].items():
            self._both(self._qq, tip, middle, root, by_position.answer(above.position))
            self._both(self._vv, tip, middle, root, dot(by_velocity, above.velocity.w))
            self._add(self._qv, tip, middle, root, by_position.answer(above.velocity))
            if root != middle:
                self._add(self._qv, tip, root, middle, dot(by_velocity, above.position.w))
                share = along(above.axis, turned_wrench((slide, spin), (row.a, row.alpha)))
                self._add(self._Mq, tip, root, middle, share)
                self._add(self._Mq, root, tip, middle, share)

    def _middle_efforts(self, tip: int, middle: int, below: _Below) -> None:
        """Fill what concerns the middle joint's effort, the tip and the joints up to the middle."""
        row = below.mass.by_position(self._scalars).row(self._axes[middle])
        quadratic = self._quadratic_row(middle, below)
        for root, above in self._above[middle].items():
            self._both(self._qq, middle, tip, root, row.answer(above.position))
            self._both(self._vv, middle, tip, root, -dot(quadratic, above.velocity.w))
            self._add(self._qv, middle, tip, root, row.answer(above.velocity))
            self._add(self._qv, middle, root, tip, -dot(quadratic, above.position.w))
            share = along(above.axis, (row.a, row.alpha))
            self._add(self._Mq, middle, root, tip, share)
            if root != middle:
                self._add(self._Mq, root, middle, tip, share)

    def _root_efforts(self, tip: int, middle: int, below: _Below) -> None:
        """Fill what concerns the efforts of the joints above the middle one."""
        axis, mass = self._axes[middle], below.mass
        position, velocity = self._positions[middle], self._velocities[middle]
        qv = add_wrenches(mass.wrench_by_velocity(position.w), turned_wrench(axis, below.velocity))
        vv = mass.wrench_by_velocity(velocity.w)
        if middle == tip:
            qq = self._own_second_wrench(tip)
        else:
            moved = mass.by_position(self._scalars)
            qq = add_wrenches(moved.wrench(position), turned_wrench(axis, below.position))
            vq = moved.wrench(velocity)
        for root, above in self._above[middle].items():
            if root == middle:
                continue
            self._both(self._qq, root, middle, tip, along(above.axis, qq))
            self._both(self._vv, root, middle, tip, along(above.axis, vv))
            self._add(self._qv, root, middle, tip, along(above.axis, qv))
            if middle != tip:
                self._add(self._qv, root, tip, middle, along(above.axis, vq))

    def _own_second_wrench(self, index: int) -> Wrench:
        """Return the second derivative of a transmitted wrench by its own joint's position."""
        axis, change = self._axes[index], self._positions[index]
        slide, spin = axis
        inertia, c = self._sweep.inertias[index], change.w
        second = MotionChange(
            add(cross(change.a, spin), cross(change.alpha, slide)),
            cross(change.alpha, spin),
            cross(c, spin),
        )
        f, n = inertia.wrench(second)
        f = add(f, scale(2.0, cross(c, cross(c, inertia.rigid.h))))
        n = add(n, scale(2.0, cross(c, apply(full(inertia.rigid.I), c))))
        seen = turned_wrench(axis, inertia.wrench(change))
        turned = turned_wrench(axis, turned_wrench(axis, self._forces[index]))
        return add_wrenches(add_wrenches((f, n), turned), add_wrenches(seen, seen))

    # -- filling ------------------------------------------------------------------------------

    def _both(self, cube: Cube, i: int, j: int, k: int, entry: Scalar) -> None:
        """Add an entry that is symmetric in its last two indices."""
        self._add(cube, i, j, k, entry)
        if j != k:
            self._add(cube, i, k, j, entry)

    def _add(self, cube: Cube, i: int, j: int, k: int, entry: Scalar) -> None:
        """Add an entry between bodies; a follower's counts for its leader."""
        a, b, c = (self._tree.bodies[index] for index in (i, j, k))
        factor = a.multiplier * b.multiplier * c.multiplier
        if factor != 1.0:
            entry = self._scalars.constant(factor) * entry
        cube[a.v_index][b.v_index][c.v_index] = cube[a.v_index][b.v_index][c.v_index] + entry
