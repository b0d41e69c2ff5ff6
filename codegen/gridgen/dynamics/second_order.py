"""Second derivatives of inverse and forward dynamics.

Three axes of joints have a common second derivative if one is an ancestor of the next: ``root``,
the nearest to the base, ``middle`` and ``tip``. The frame of the middle joint, whose axis is a unit
vector, expresses all quantities:

    torque of the tip:     its row, rotated by the middle joint, times the root's change of motion
    torque of the middle:  its row for the change of the subtree's inertia, times the same
    torque of the root:    projection of the change of the wrench that the middle joint transmits

A triple of axes costs a few products of three or six entries; pairs take the remaining work. The
decomposition is that of Singh, Russell and Wensing, *On Second-Order Derivatives of Rigid-Body
Dynamics*, in the terms of ``gridgen.dynamics.motion_derivatives``.

A derivative by two positions is the derivative of the gradient along a tangent direction. Two
positions of one free joint do not commute: the first is the displacement after the second, as of
an inner joint. Its velocities are those of the moved body, so they commute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gridgen.dynamics.derivatives import accelerations_gradient
from gridgen.dynamics.kinematics import BodyMotion
from gridgen.dynamics.losses import curvature
from gridgen.dynamics.motion_derivatives import (
    EffortRow,
    MotionChange,
    add_wrenches,
    along,
    followed,
    rotated_wrench,
)
from gridgen.dynamics.second_derivatives import (
    FromAbove,
    FromBelow,
    quadratic_row,
    turned_mass,
    turned_row,
)
from gridgen.dynamics.state import Numbers, State
from gridgen.dynamics.sweep import Square, Sweep
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import Vector, Wrench, carried, dot

Cube = list[list[list[Scalar]]]
Axis = tuple[int, int]  # of a body, and the number of its axis


def inverse_dynamics_second_order(state: State, qdd: Numbers) -> tuple[Cube, Cube, Cube, Cube]:
    """Return the second derivatives of the joint torques.

    Returns:
        d2tau_dqdq:   nv x nv x nv; entry (i, j, k) is the derivative of dtau_dq's (i, j) in
                      position k.
        d2tau_dqddqd: the same in velocities j and k.
        d2tau_dqdqd:  the same in position j and velocity k.
        dM_dq:        entry (i, j, k) is that of the mass matrix's (i, j) in position k.
    """
    return _SecondOrder(state, qdd).cubes()


def forward_dynamics_second_order(state: State, tau: Numbers) -> tuple[Cube, Cube, Cube, Cube]:
    """Return the second derivatives of the joint accelerations.

    ID(q, qd, qdd) = tau, differentiated twice: M d2qdd is minus the second derivative of inverse
    dynamics at constant accelerations, and minus dM times the first derivatives of qdd.

    Returns:
        d2qdd_dqdq, d2qdd_dqddqd, d2qdd_dqdqd: as of ``inverse_dynamics_second_order``.
        d2qdd_dqdtau: entry (i, j, k) is that of acceleration i in position j and torque k.
    """
    tree, scalars = state.tree, state.scalars
    rates = accelerations_gradient(state, tau)
    qq, vv, qv, Mq = inverse_dynamics_second_order(state, rates.qdd)
    scalars.begin("solve", -1)
    qt: Cube = scalars.matrix("d2qdd_dqdtau", tree.nv, tree.nv, tree.nv, zeros=False)
    axes, column = tree.velocities, scalars.table("column", tree.nv)

    def solve(cube: Cube, j: int, k: int, *terms: tuple[int, Square, int]) -> None:
        """Replace a column of a cube by minus the solution with M, of the column and of products.

        A product (j, X, k) is that of dM in position j with column k of X.
        """
        for i in axes.outward():
            total = scalars.carry("right", scalars.constant(0.0) if cube is qt else cube[i][j][k])
            for a in axes.outward():
                for place, X, at in terms:
                    total.value = total.value + Mq[i][a][place] * X[a][at]
            column[i] = total.value
        for i in axes.outward():
            total = scalars.carry("x", scalars.constant(0.0))
            for a in axes.outward():
                total.value = total.value - rates.by_tau[i][a] * column[a]
            cube[i][j][k] = total.value

    for j in axes.outward():
        for k in axes.outward():
            solve(qq, j, k, (j, rates.by_q, k), (k, rates.by_q, j))
            solve(qv, j, k, (j, rates.by_qd, k))
            solve(vv, j, k)
            solve(qt, j, k, (j, rates.by_tau, k))
    return qq, vv, qv, qt


Changes = list[list[MotionChange]]


def own_changes(sweep: Sweep, motions: Sequence[BodyMotion]) -> tuple[Changes, Changes]:
    """Return the changes of each body's motion by its own joint's positions and velocities."""
    tree, scalars = sweep.state.tree, sweep.state.scalars
    positions: Changes = scalars.table("position", len(tree.bodies))
    velocities: Changes = scalars.table("velocity", len(tree.bodies))
    for index in tree.outward():
        positions[index] = sweep.position_changes(index, motions)
        velocities[index] = sweep.velocity_changes(index)
    return positions, velocities


def effects_from_above(sweep: Sweep, positions: Changes, velocities: Changes) -> list[Any]:
    """Return the effects of the own joint and of the ancestors on every body.

    Arguments are the results of ``own_changes``.

    Returns:
        a ``FromAbove`` by the number of the ancestor's axis, the body and the ancestor.
    """
    tree, scalars = sweep.state.tree, sweep.state.scalars
    most = max(body.joint_type.nv for body in tree.bodies)
    above = [scalars.pairs("above", len(tree.bodies)) for _ in range(most)]
    for index in tree.outward():
        scalars.begin("outward", index)
        changes = zip(positions[index], velocities[index], strict=True)
        for k, (axis, own) in enumerate(zip(sweep.axes(index), changes, strict=True)):
            above[k][index][index] = FromAbove(axis, *own)
        parent = tree.bodies[index].parent
        for below in tree.climb(index):
            root = tree.bodies[below].parent
            for k in range(tree.bodies[root].joint_type.nv):
                effect = above[k][parent][root]
                above[k][index][root] = effect.to_body(sweep.placed[index], sweep.drift[index])
    return above


def from_below(
    sweep: Sweep,
    axis: Axis,
    forces: Sequence[Wrench],
    positions: Sequence[Sequence[MotionChange]],
    velocities: Sequence[Sequence[MotionChange]],
) -> FromBelow:
    """Return the effect of an axis on its own body.

    Args:
        forces:     wrench that each joint transmits.
        positions:  changes of each body's motion by its own axes' positions.
        velocities: the same by their velocities.
    """
    index, k = axis
    direction, mass = sweep.axes(index)[k], sweep.masses[index]
    own = mass.wrench(positions[index][k])
    return FromBelow(
        sweep.row(index, k),
        turned_mass(direction, mass, *sweep.carried(index)),
        add_wrenches(own, rotated_wrench(direction, forces[index])),
        mass.wrench(velocities[index][k]),
    )


class _SecondOrder:
    """The four arrays of second derivatives, filled triple by triple."""

    def __init__(self, state: State, qdd: Numbers) -> None:
        self._tree, self._scalars = tree, scalars = state.tree, state.scalars
        self._sweep = sweep = Sweep(state)
        motions, self._forces = sweep.loaded(qdd)
        self._positions, self._velocities = own_changes(sweep, motions)
        self._above = effects_from_above(sweep, self._positions, self._velocities)
        nv = tree.nv
        self._zero = scalars.constant(0.0)
        self._qq: Cube = scalars.matrix("d2tau_dqdq", nv, nv, nv)
        self._vv: Cube = scalars.matrix("d2tau_dqddqd", nv, nv, nv)
        self._qv: Cube = scalars.matrix("d2tau_dqdqd", nv, nv, nv)
        self._Mq: Cube = scalars.matrix("dM_dq", nv, nv, nv)

    def cubes(self) -> tuple[Cube, Cube, Cube, Cube]:
        """Return d2tau_dqdq, d2tau_dqddqd, d2tau_dqdqd, dM_dq."""
        tree, sweep, scalars = self._tree, self._sweep, self._scalars
        for body in tree.inward():
            for k in range(tree.bodies[body].joint_type.nv):
                tip = body, k
                scalars.begin("response", body)
                effect = scalars.carry("below", self._from_below(tip))
                scalars.begin("triples", body)
                self._tip_torques(tip, body, effect.value)
                self._root_torques(tip, body, effect.value)
                for at in tree.climb(body):
                    middle = tree.bodies[at].parent
                    scalars.begin("response", body)
                    row = effect.value.row.to_parent(sweep.placed[at], sweep.drift[at])
                    below = effect.value.to_parent(row, sweep.placed[at], sweep.drift[at])
                    effect.value = below
                    scalars.begin("triples", body)
                    self._tip_torques(tip, middle, below)
                    self._middle_torques(tip, middle, below)
                    self._root_torques(tip, middle, below)
        for j in tree.velocities.outward():
            if (bend := curvature(sweep.state, j)) is not None:
                self._vv[j][j][j] = self._vv[j][j][j] + bend
        return self._qq, self._vv, self._qv, self._Mq

    def _from_below(self, tip: Axis) -> FromBelow:
        return from_below(self._sweep, tip, self._forces, self._positions, self._velocities)

    def _own(self, index: int) -> Iterator[tuple[Axis, FromAbove]]:
        """Yield the axes of a joint, and their effects on its body."""
        for k in range(self._tree.bodies[index].joint_type.nv):
            yield (index, k), self._above[k][index][index]

    def _roots(self, middle: int) -> Iterator[tuple[Axis, FromAbove]]:
        """Yield the axes above the middle joint, and their effects on its body."""
        for below in self._tree.climb(middle):
            root = self._tree.bodies[below].parent
            for k in range(self._tree.bodies[root].joint_type.nv):
                yield (root, k), self._above[k][middle][root]

    def _tip_torques(self, tip: Axis, at: int, below: FromBelow) -> None:
        """Fill the torques of the tip by the axes of the middle joint and those above."""
        w, slide_rate = self._sweep.carried(at)
        row, Q = below.row, below.mass.Q
        for middle, own in self._own(at):
            by_position = turned_row(own.axis, w, row, Q, slide_rate)
            by_velocity = quadratic_row(own.axis, row.a, Q)
            for other, seen in self._own(at):
                vv = dot(by_velocity, seen.velocity.w)
                if other != middle:
                    vv = vv + along(carried(own.axis, seen.axis), (row.a, row.alpha))
                self._add(self._qq, tip, middle, other, by_position.answer(seen.position))
                self._add(self._vv, tip, middle, other, vv)
                self._add(self._qv, tip, other, middle, dot(by_velocity, seen.position.w))
            turned = rotated_wrench(own.axis, (row.a, row.alpha))
            for root, above in self._roots(at):
                self._both(self._qq, tip, middle, root, by_position.answer(above.position))
                self._both(self._vv, tip, middle, root, dot(by_velocity, above.velocity.w))
                self._add(self._qv, tip, middle, root, by_position.answer(above.velocity))
                self._add(self._qv, tip, root, middle, dot(by_velocity, above.position.w))
                share = along(above.axis, turned)
                self._add(self._Mq, tip, root, middle, share)
                self._add(self._Mq, root, tip, middle, share)

    def _middle_torques(self, tip: Axis, at: int, below: FromBelow) -> None:
        """Fill the torques of the middle joint by the tip, and by its own axes and those above."""
        moved = below.mass.by_position(self._zero)
        for middle, own in self._own(at):
            row, quadratic = moved.row(own.axis), quadratic_row(own.axis, below.row.a, below.mass.Q)
            for other, seen in self._own(at):
                self._middle_torque((tip, middle, other), seen, row, quadratic)
                share = along(seen.axis, (row.a, row.alpha))
                self._add(self._Mq, middle, other, tip, share)
            for root, above in self._roots(at):
                self._middle_torque((tip, middle, root), above, row, quadratic)
                share = along(above.axis, (row.a, row.alpha))
                self._add(self._Mq, middle, root, tip, share)
                self._add(self._Mq, root, middle, tip, share)

    def _middle_torque(
        self, axes: tuple[Axis, Axis, Axis], above: FromAbove, row: EffortRow, quadratic: Vector
    ) -> None:
        tip, middle, root = axes
        self._both(self._qq, middle, tip, root, row.answer(above.position))
        self._both(self._vv, middle, tip, root, -dot(quadratic, above.velocity.w))
        self._add(self._qv, middle, tip, root, row.answer(above.velocity))
        self._add(self._qv, middle, root, tip, -dot(quadratic, above.position.w))

    def _root_torques(self, tip: Axis, at: int, below: FromBelow) -> None:
        """Fill the torques of the axes above the middle joint, by its axes and the tip."""
        mass, sweep = below.mass, self._sweep
        moved = mass.by_position(self._zero)
        for middle, own in self._own(at):
            turned = rotated_wrench(own.axis, below.position)
            qq = add_wrenches(moved.wrench(own.position), turned)
            turned = rotated_wrench(own.axis, below.velocity)
            qv = add_wrenches(mass.wrench_by_velocity(own.position.w), turned)
            vv, vq = mass.wrench_by_velocity(own.velocity.w), moved.wrench(own.velocity)
            if at == tip[0] and middle != tip:
                other = sweep.axes(at)[tip[1]]
                vv = add_wrenches(vv, sweep.masses[at].rest.wrench(*carried(other, own.axis)))
            for root, above in self._roots(at):
                self._add(self._qq, root, tip, middle, along(above.axis, qq))
                self._add(self._vv, root, middle, tip, along(above.axis, vv))
                self._add(self._qv, root, middle, tip, along(above.axis, qv))
                if at != tip[0]:
                    self._add(self._qq, root, middle, tip, along(above.axis, qq))
                    self._add(self._vv, root, tip, middle, along(above.axis, vv))
                    self._add(self._qv, root, tip, middle, along(above.axis, vq))

    # -- filling ------------------------------------------------------------------------------

    def _both(self, cube: Cube, i: Axis, j: Axis, k: Axis, entry: Scalar) -> None:
        """Add an entry to both places of two axes j and k."""
        self._add(cube, i, j, k, entry)
        self._add(cube, i, k, j, entry)

    def _add(self, cube: Cube, i: Axis, j: Axis, k: Axis, entry: Scalar) -> None:
        """Add an entry between axes; mimic joints add to their leader."""
        bodies = [self._tree.bodies[index] for index, _ in (i, j, k)]
        entry = followed(entry, bodies, self._scalars)
        a, b, c = (body.v_index + axis for body, (_, axis) in zip(bodies, (i, j, k), strict=True))
        row = cube[a][b]
        row[c] = row[c] + entry
