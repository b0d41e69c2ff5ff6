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

from gridgen.dynamics.changes import add_wrenches, along, turned_wrench
from gridgen.dynamics.curvature import (
    FromAbove,
    FromBelow,
    own_second_wrench,
    quadratic_row,
    turned_mass,
    turned_row,
)
from gridgen.dynamics.kinematics import BaseMotion, all_motions, each
from gridgen.dynamics.rnea import body_forces, transmitted_forces
from gridgen.dynamics.spatial import dot
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
        motions = all_motions(tree, sweep.placed, qd, qdd, base, scalars)
        forces = body_forces(tree, each(tree, motions), f_ext, scalars)
        self._forces = transmitted_forces(tree, sweep.placed, forces, scalars)
        self._axes = [sweep.axes(index)[0] for index in range(len(tree.bodies))]
        self._positions = [
            sweep.position_changes(index, motions)[0] for index in range(len(tree.bodies))
        ]
        self._velocities = [sweep.velocity_changes(index)[0] for index in range(len(tree.bodies))]
        self._above = self._carried_outwards()
        nv = tree.nv
        self._zero = zero = scalars.constant(0.0)
        self._qq, self._vv, self._qv, self._Mq = (
            [[[zero] * nv for _ in range(nv)] for _ in range(nv)] for _ in range(4)
        )

    def _carried_outwards(self) -> list[dict[int, FromAbove]]:
        """Return, for every body, what each of its ancestors and its own joint do to it."""
        above: list[dict[int, FromAbove]] = []
        for index, body in enumerate(self._tree.bodies):
            self._scalars.begin("outward", index)
            placed, drift = self._sweep.placed[index], self._sweep.drift[index]
            carried = above[body.parent].items() if body.parent >= 0 else ()
            here = {root: entry.to_body(placed, drift) for root, entry in carried}
            here[index] = FromAbove(
                self._axes[index], self._positions[index], self._velocities[index]
            )
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

    def _carried_inwards(self, tip: int) -> list[tuple[int, FromBelow]]:
        sweep = self._sweep
        self._scalars.begin("response", tip)
        axis, mass = self._axes[tip], sweep.masses[tip]
        own = mass.wrench(self._positions[tip])
        below = FromBelow(
            sweep.row(tip, 0),
            turned_mass(axis, mass, sweep.motions[tip].w),
            add_wrenches(own, turned_wrench(axis, self._forces[tip])),
            mass.wrench(self._velocities[tip]),
        )
        carried = [(tip, below)]
        at = tip
        for ancestor, row in sweep.rows(tip, 0):
            below = below.to_parent(row, sweep.placed[at], sweep.drift[at])
            carried.append((ancestor, below))
            at = ancestor
        return carried

    def _tip_efforts(self, tip: int, middle: int, below: FromBelow) -> None:
        """Fill what concerns the tip's effort, the middle joint and those above it."""
        axis, row, w = self._axes[middle], below.row, self._sweep.motions[middle].w
        by_position = turned_row(axis, w, row, below.mass)
        by_velocity = quadratic_row(axis, row, below.mass)
        for root, above in self._above[middle].items():
            self._both(self._qq, tip, middle, root, by_position.answer(above.position))
            self._both(self._vv, tip, middle, root, dot(by_velocity, above.velocity.w))
            self._add(self._qv, tip, middle, root, by_position.answer(above.velocity))
            if root != middle:
                self._add(self._qv, tip, root, middle, dot(by_velocity, above.position.w))
                share = along(above.axis, turned_wrench(axis, (row.a, row.alpha)))
                self._add(self._Mq, tip, root, middle, share)
                self._add(self._Mq, root, tip, middle, share)

    def _middle_efforts(self, tip: int, middle: int, below: FromBelow) -> None:
        """Fill what concerns the middle joint's effort, the tip and the joints up to the middle."""
        axis = self._axes[middle]
        row = below.mass.by_position(self._zero).row(axis)
        quadratic = quadratic_row(axis, below.row, below.mass)
        for root, above in self._above[middle].items():
            self._both(self._qq, middle, tip, root, row.answer(above.position))
            self._both(self._vv, middle, tip, root, -dot(quadratic, above.velocity.w))
            self._add(self._qv, middle, tip, root, row.answer(above.velocity))
            self._add(self._qv, middle, root, tip, -dot(quadratic, above.position.w))
            share = along(above.axis, (row.a, row.alpha))
            self._add(self._Mq, middle, root, tip, share)
            if root != middle:
                self._add(self._Mq, root, middle, tip, share)

    def _root_efforts(self, tip: int, middle: int, below: FromBelow) -> None:
        """Fill what concerns the efforts of the joints above the middle one."""
        axis, mass = self._axes[middle], below.mass
        position, velocity = self._positions[middle], self._velocities[middle]
        qv = add_wrenches(mass.wrench_by_velocity(position.w), turned_wrench(axis, below.velocity))
        vv = mass.wrench_by_velocity(velocity.w)
        if middle == tip:
            qq = own_second_wrench(axis, position, self._sweep.masses[tip], self._forces[tip])
        else:
            moved = mass.by_position(self._zero)
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
