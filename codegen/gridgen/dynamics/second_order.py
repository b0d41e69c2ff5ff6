"""Second derivatives of inverse dynamics, for robots on a fixed base.

Three joints have a common second derivative if one is an ancestor of the next: ``root``, the
nearest to the base, ``middle`` and ``tip``. The frame of the middle joint, whose axis is a unit
vector, expresses all quantities:

    torque of the tip:     its row, rotated by the middle joint, times the root's change of motion
    torque of the middle:  its row for the change of the subtree's inertia, times the same
    torque of the root:    projection of the change of the wrench that the middle joint transmits

A triple of joints costs a few products of three or six entries; pairs take the remaining work. The
decomposition is that of Singh, Russell and Wensing, *On Second-Order Derivatives of Rigid-Body
Dynamics*, in the terms of ``gridgen.dynamics.motion_derivatives``.
"""

from __future__ import annotations

from collections.abc import Iterator

from gridgen.dynamics.motion_derivatives import (
    EffortRow,
    add_wrenches,
    along,
    followed,
    rotated_wrench,
)
from gridgen.dynamics.refusals import of_free_joints
from gridgen.dynamics.second_derivatives import (
    FromAbove,
    FromBelow,
    own_second_wrench,
    quadratic_row,
    turned_mass,
    turned_row,
)
from gridgen.dynamics.state import Numbers, State
from gridgen.dynamics.sweep import Sweep
from gridgen.errors import ModelError
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import Motion, Vector, dot

Cube = list[list[list[Scalar]]]


def inverse_dynamics_second_order(state: State, qdd: Numbers) -> tuple[Cube, Cube, Cube, Cube]:
    """Return the second derivatives of the joint torques.

    Returns:
        d2tau_dqdq:   nv x nv x nv; entry (i, j, k) is that of torque i in positions j and k.
        d2tau_dqddqd: the same in velocities j and k.
        d2tau_dqdqd:  the same in position j and velocity k.
        dM_dq:        entry (i, j, k) is that of the mass matrix's (i, j) in position k.

    Raises:
        ModelError: a joint is free; its positions do not commute.
    """
    if reason := of_free_joints(state.tree):
        raise ModelError(f"{state.tree.source}: {reason}")
    return _SecondOrder(state, qdd).cubes()


class _SecondOrder:
    """The four arrays of second derivatives, filled triple by triple."""

    def __init__(self, state: State, qdd: Numbers) -> None:
        tree, scalars = state.tree, state.scalars
        self._tree, self._scalars = tree, scalars
        self._sweep = sweep = Sweep(state)
        motions, self._forces = sweep.loaded(qdd)
        self._positions = scalars.table("position", len(tree.bodies))
        self._velocities = scalars.table("velocity", len(tree.bodies))
        for index in tree.outward():
            self._positions[index] = sweep.position_changes(index, motions)[0]
            self._velocities[index] = sweep.velocity_changes(index)[0]
        self._above: list[dict[int, FromAbove]] = scalars.pairs("above", len(tree.bodies))
        self._carry_outwards()
        nv = tree.nv
        self._zero = scalars.constant(0.0)
        self._qq: Cube = scalars.matrix("d2tau_dqdq", nv, nv, nv)
        self._vv: Cube = scalars.matrix("d2tau_dqddqd", nv, nv, nv)
        self._qv: Cube = scalars.matrix("d2tau_dqdqd", nv, nv, nv)
        self._Mq: Cube = scalars.matrix("dM_dq", nv, nv, nv)

    def _axis(self, index: int) -> Motion:
        return self._sweep.axes(index)[0]

    def _carry_outwards(self) -> None:
        """Compute, for every body, the effects of its ancestors and of its own joint."""
        tree, above = self._tree, self._above
        for index in tree.outward():
            self._scalars.begin("outward", index)
            above[index][index] = FromAbove(
                self._axis(index), self._positions[index], self._velocities[index]
            )
            placed, drift = self._sweep.placed[index], self._sweep.drift[index]
            parent = tree.bodies[index].parent
            for below in tree.climb(index):
                root = tree.bodies[below].parent
                above[index][root] = above[parent][root].to_body(placed, drift)

    def cubes(self) -> tuple[Cube, Cube, Cube, Cube]:
        """Return d2tau_dqdq, d2tau_dqddqd, d2tau_dqdqd, dM_dq."""
        tree, sweep, scalars = self._tree, self._sweep, self._scalars
        for tip in tree.inward():
            scalars.begin("response", tip)
            axis, mass = self._axis(tip), sweep.masses[tip]
            own = mass.wrench(self._positions[tip])
            below = FromBelow(
                sweep.row(tip, 0),
                turned_mass(axis, mass, sweep.motions[tip].w),
                add_wrenches(own, rotated_wrench(axis, self._forces[tip])),
                mass.wrench(self._velocities[tip]),
            )
            carried = scalars.carry("below", below)
            scalars.begin("triples", tip)
            self._one_joint(tip, below)
            for at in tree.climb(tip):
                middle = tree.bodies[at].parent
                scalars.begin("response", tip)
                row = carried.value.row.to_parent(sweep.placed[at], sweep.drift[at])
                below = carried.value.to_parent(row, sweep.placed[at], sweep.drift[at])
                carried.value = below
                scalars.begin("triples", tip)
                self._two_joints(tip, middle, below)
        return self._qq, self._vv, self._qv, self._Mq

    def _roots(self, middle: int) -> Iterator[tuple[int, FromAbove]]:
        """Yield the joints above the middle one, and their effects on its body."""
        for below in self._tree.climb(middle):
            root = self._tree.bodies[below].parent
            yield root, self._above[middle][root]

    def _one_joint(self, tip: int, below: FromBelow) -> None:
        """Fill the entries of one joint, twice, and the joints above it."""
        axis, mass = self._axis(tip), below.mass
        own = self._above[tip][tip]
        row, by_position, by_velocity = self._tip_rows(tip, below)
        self._add(self._qq, tip, tip, tip, by_position.answer(own.position))
        self._add(self._vv, tip, tip, tip, dot(by_velocity, own.velocity.w))
        self._add(self._qv, tip, tip, tip, by_position.answer(own.velocity))
        position, velocity = self._positions[tip], self._velocities[tip]
        qq = own_second_wrench(axis, position, self._sweep.masses[tip], self._forces[tip])
        qv = add_wrenches(mass.wrench_by_velocity(position.w), rotated_wrench(axis, below.velocity))
        vv = mass.wrench_by_velocity(velocity.w)
        for root, above in self._roots(tip):
            self._both(self._qq, tip, tip, root, by_position.answer(above.position))
            self._both(self._vv, tip, tip, root, dot(by_velocity, above.velocity.w))
            self._add(self._qv, tip, tip, root, by_position.answer(above.velocity))
            self._add(self._qv, tip, root, tip, dot(by_velocity, above.position.w))
            share = along(above.axis, rotated_wrench(axis, (row.a, row.alpha)))
            self._add(self._Mq, tip, root, tip, share)
            self._add(self._Mq, root, tip, tip, share)
            self._add(self._qq, root, tip, tip, along(above.axis, qq))
            self._add(self._vv, root, tip, tip, along(above.axis, vv))
            self._add(self._qv, root, tip, tip, along(above.axis, qv))

    def _tip_rows(self, middle: int, below: FromBelow) -> tuple[EffortRow, EffortRow, Vector]:
        """Return the row of the tip's torque, and its derivatives in the middle joint's state."""
        axis, row = self._axis(middle), below.row
        by_position = turned_row(axis, self._sweep.motions[middle].w, row, below.mass)
        return row, by_position, quadratic_row(axis, row, below.mass)

    def _two_joints(self, tip: int, middle: int, below: FromBelow) -> None:
        """Fill the entries of a joint, one above it, and the joints above that."""
        axis, mass = self._axis(middle), below.mass
        moved = mass.by_position(self._zero)
        row, by_position, by_velocity = self._tip_rows(middle, below)
        middle_row, quadratic = moved.row(axis), quadratic_row(axis, below.row, mass)
        own = self._above[middle][middle]
        # The torques of the tip and of the middle joint; the root is the middle joint.
        self._add(self._qq, tip, middle, middle, by_position.answer(own.position))
        self._add(self._vv, tip, middle, middle, dot(by_velocity, own.velocity.w))
        self._add(self._qv, tip, middle, middle, by_position.answer(own.velocity))
        self._both(self._qq, middle, tip, middle, middle_row.answer(own.position))
        self._both(self._vv, middle, tip, middle, -dot(quadratic, own.velocity.w))
        self._add(self._qv, middle, tip, middle, middle_row.answer(own.velocity))
        self._add(self._qv, middle, middle, tip, -dot(quadratic, own.position.w))
        share = along(own.axis, (middle_row.a, middle_row.alpha))
        self._add(self._Mq, middle, middle, tip, share)

        position, velocity = self._positions[middle], self._velocities[middle]
        qv = add_wrenches(mass.wrench_by_velocity(position.w), rotated_wrench(axis, below.velocity))
        vv = mass.wrench_by_velocity(velocity.w)
        qq = add_wrenches(moved.wrench(position), rotated_wrench(axis, below.position))
        vq = moved.wrench(velocity)
        for root, above in self._roots(middle):
            self._both(self._qq, tip, middle, root, by_position.answer(above.position))
            self._both(self._vv, tip, middle, root, dot(by_velocity, above.velocity.w))
            self._add(self._qv, tip, middle, root, by_position.answer(above.velocity))
            self._add(self._qv, tip, root, middle, dot(by_velocity, above.position.w))
            share = along(above.axis, rotated_wrench(axis, (row.a, row.alpha)))
            self._add(self._Mq, tip, root, middle, share)
            self._add(self._Mq, root, tip, middle, share)

            self._both(self._qq, middle, tip, root, middle_row.answer(above.position))
            self._both(self._vv, middle, tip, root, -dot(quadratic, above.velocity.w))
            self._add(self._qv, middle, tip, root, middle_row.answer(above.velocity))
            self._add(self._qv, middle, root, tip, -dot(quadratic, above.position.w))
            share = along(above.axis, (middle_row.a, middle_row.alpha))
            self._add(self._Mq, middle, root, tip, share)
            self._add(self._Mq, root, middle, tip, share)

            self._both(self._qq, root, middle, tip, along(above.axis, qq))
            self._both(self._vv, root, middle, tip, along(above.axis, vv))
            self._add(self._qv, root, middle, tip, along(above.axis, qv))
            self._add(self._qv, root, tip, middle, along(above.axis, vq))

    # -- filling ------------------------------------------------------------------------------

    def _both(self, cube: Cube, i: int, j: int, k: int, entry: Scalar) -> None:
        """Add an entry to both places of two joints j and k."""
        self._add(cube, i, j, k, entry)
        self._add(cube, i, k, j, entry)

    def _add(self, cube: Cube, i: int, j: int, k: int, entry: Scalar) -> None:
        """Add an entry between bodies; mimic joints add to their leader."""
        a, b, c = (self._tree.bodies[index] for index in (i, j, k))
        entry = followed(entry, (a, b, c), self._scalars)
        row = cube[a.v_index][b.v_index]
        row[c.v_index] = row[c.v_index] + entry
