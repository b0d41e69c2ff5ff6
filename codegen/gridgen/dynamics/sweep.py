"""Derivatives of joint efforts, from sweeps over the bodies.

Two quantities travel inwards from every joint, body frame by body frame: how its effort answers a
change of its carrier's motion (the derivatives of its effort by its ancestors), and how the wrench
that it transmits changes with itself (the derivatives of its ancestors' efforts). An entry is then
a few products; joints in different branches never meet. The structure is that of Plancher et al.
(GRiD) Algorithm 2 and of Singh, Russell and Wensing 2022. They work in one common frame, where no
row or wrench needs to be carried along; in the frames of the bodies an axis is a unit vector, so
that projecting on it is free, and inertias stay the constants that they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.dynamics.changes import (
    EffortRow,
    MotionChange,
    MovingMass,
    add_wrenches,
    along,
    change_by_position,
    change_by_velocity,
    moving_mass,
    origin_drift,
    subspace,
    turned_wrench,
)
from gridgen.dynamics.kinematics import (
    BaseMotion,
    BodyMotion,
    acceleration_field,
    base_motion,
    body_motions,
    constants,
    joint_rate,
    placements,
    split,
)
from gridgen.dynamics.mass import body_mass, body_moments
from gridgen.dynamics.rnea import add_joint_dynamics
from gridgen.dynamics.spatial import ZERO, Vector, Wrench, add, apply, dot, scale
from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars

Square = list[list[Scalar]]


class Sweep:
    """Everything that positions and velocities determine, and the derivatives of the efforts.

    Attributes:
        placed:   placements of the bodies.
        motions:  motions without joint accelerations, of which the velocities are used.
        drift:    twice the velocity of every body's origin, seen by its parent.
        masses:   of every body's subtree.
        rows:     for every body and axis of its joint, the pairs (ancestor, row of the effort seen
                  from there), the body itself first.
    """

    def __init__(
        self,
        tree: KinematicTree,
        q: Sequence[Scalar],
        qd: Sequence[Scalar],
        base: BaseMotion,
        scalars: Scalars,
    ) -> None:
        self._tree, self._qd, self._scalars = tree, qd, scalars
        self._root = base_motion(base, scalars)
        self.placed = placements(tree, q, scalars)
        self.motions = list(body_motions(tree, self.placed, qd, None, base, scalars))
        self.axes = [subspace(body, scalars) for body in tree.bodies]
        self.drift = [self._drift(index, body) for index, body in enumerate(tree.bodies)]
        self.masses = self._masses()
        self.rows = [self._rows(index) for index in range(len(tree.bodies))]

    # -- set-up -------------------------------------------------------------------------------

    def _carrier(self, index: int, motions: Sequence[BodyMotion]) -> BodyMotion:
        parent = self._tree.bodies[index].parent
        return self._root if parent < 0 else motions[parent]

    def _slide_rate(self, body: Body) -> Vector:
        """Return the linear part of a joint's velocity, in the moved body's axes."""
        zero = constants(ZERO, self._scalars)
        rate = joint_rate(body, self._qd, self._scalars)
        if body.kind == "free":
            return split(rate)[0]
        return (zero[0], zero[1], rate[0]) if body.kind == "prismatic" else zero

    def _drift(self, index: int, body: Body) -> Vector:
        self._scalars.begin("outward", index)
        slide_rate = None if body.kind == "revolute" else self._slide_rate(body)
        w = self._carrier(index, self.motions).w
        return self._scalars.keep("d", index, origin_drift(self.placed[index], w, slide_rate))

    def _masses(self) -> list[MovingMass]:
        bodies, scalars = self._tree.bodies, self._scalars
        composite = []
        for index, body in enumerate(bodies):
            scalars.begin("outward", index)
            mass, moments = body_mass(body, scalars), body_moments(body, 2.0, scalars)
            own = moving_mass(mass, self.motions[index].w, moments)
            composite.append(own.keep(index, scalars))
        for index in reversed(range(len(bodies))):
            parent = bodies[index].parent
            if parent >= 0:
                scalars.begin("composite", index)
                carried = composite[index].to_parent(self.placed[index], self.drift[index])
                composite[parent] = (composite[parent] + carried).keep(parent, scalars)
        return composite

    def _rows(self, index: int) -> list[list[tuple[int, EffortRow]]]:
        rows = []
        for axis in self.axes[index]:
            self._scalars.begin("row", index)
            row = self.masses[index].row(axis)
            line = [(index, row)]
            below = index
            for ancestor in self._tree.ancestors(index):
                row = row.to_parent(self.placed[below], self.drift[below])
                line.append((ancestor, row))
                below = ancestor
            rows.append(line)
        return rows

    # -- changes of motion --------------------------------------------------------------------

    def velocity_changes(self, index: int) -> list[MotionChange]:
        """Return the changes of a body's motion with the velocities of its joint."""
        body = self._tree.bodies[index]
        self._scalars.begin("outward", index)
        if body.kind != "free":
            total = scale(self._scalars.constant(2.0), self.motions[index].w)
            return [change_by_velocity(self.axes[index][0], total)]
        carrier = self.placed[index].to_body(self._carrier(index, self.motions).w)
        total, slide_rate = add(carrier, self.motions[index].w), self._slide_rate(body)
        return [change_by_velocity(axis, total, slide_rate) for axis in self.axes[index]]

    def position_changes(self, index: int, motions: Sequence[BodyMotion]) -> list[MotionChange]:
        """Return the changes of a body's motion, as it sees them, with the position of its joint.

        Args:
            index:   the body.
            motions: of all bodies, with the joint accelerations.
        """
        body = self._tree.bodies[index]
        self._scalars.begin("outward", index)
        if body.kind != "free":
            return [change_by_position(self.axes[index][0], motions[index])]
        placed, carrier = self.placed[index], self._carrier(index, motions)
        w, wd = placed.to_body(carrier.w), placed.to_body(carrier.wd)
        a = placed.to_body(add(carrier.a, apply(carrier.field, placed.r)))
        seen, slide_rate = BodyMotion(w, wd, a, acceleration_field(w, wd)), self._slide_rate(body)
        return [change_by_position(axis, seen, slide_rate) for axis in self.axes[index]]

    # -- derivatives --------------------------------------------------------------------------

    def by_velocities(self) -> Square:
        """Return the derivatives of the efforts, without damping, by the velocities."""
        changes, wrenches = [], []
        for index, mass in enumerate(self.masses):
            changes.append(self.velocity_changes(index))
            self._scalars.begin("response", index)
            wrenches.append([mass.wrench(change) for change in changes[index]])
        return self.gradient(changes, wrenches, wrenches)

    def by_positions(self, motions: Sequence[BodyMotion], forces: Sequence[Wrench]) -> Square:
        """Return the derivatives of the efforts by the positions.

        Args:
            motions: of the bodies, with the joint accelerations.
            forces:  the wrench that each joint transmits.
        """
        changes, own, felt = [], [], []
        for index, mass in enumerate(self.masses):
            changes.append(self.position_changes(index, motions))
            self._scalars.begin("response", index)
            own.append([mass.wrench(change) for change in changes[index]])
            # The body's frame moves with the joint: its parent sees the whole wrench turn.
            felt.append(
                [
                    add_wrenches(wrench, turned_wrench(axis, forces[index]))
                    for axis, wrench in zip(self.axes[index], own[index], strict=True)
                ]
            )
        return self.gradient(changes, own, felt)

    def gradient(
        self,
        changes: Sequence[Sequence[MotionChange]],
        own: Sequence[Sequence[Wrench]],
        felt: Sequence[Sequence[Wrench]],
    ) -> Square:
        """Return the change of every effort with what each joint does to its own body.

        Args:
            changes: of the motion of every body, by axis of its joint.
            own:     of the wrench on every body's subtree, as the body sees it.
            felt:    the same as its parent sees it, still in the body's axes.
        """
        gradient = self._zeros()
        for index in reversed(range(len(self.rows))):
            for column, wrench in enumerate(own[index]):
                for row, axis in enumerate(self.axes[index]):
                    self._add(gradient, (index, row), (index, column), along(axis, wrench))
            for row, line in enumerate(self.rows[index]):
                self._scalars.begin("row", index)
                for ancestor, seen in line[1:]:
                    for column, change in enumerate(changes[ancestor]):
                        entry = seen.answer(change)
                        self._add(gradient, (index, row), (ancestor, column), entry)
            for column, wrench in enumerate(felt[index]):
                self._scalars.begin("response", index)
                below = index
                for ancestor in self._tree.ancestors(index):
                    wrench = self.placed[below].force_to_parent(*wrench)
                    below = ancestor
                    for row, axis in enumerate(self.axes[ancestor]):
                        self._add(gradient, (ancestor, row), (index, column), along(axis, wrench))
        return gradient

    def mass_matrix(self) -> Square:
        """Return the mass matrix, which the rows hold; entries (i, j) and (j, i) are one scalar."""
        M = self._zeros()
        for index, lines in enumerate(self.rows):
            for i, line in enumerate(lines):
                for at, row in line:
                    for j, axis in enumerate(self.axes[at]):
                        if at == index and j > i:
                            continue
                        entry = along(axis, (row.a, row.alpha))
                        self._add(M, (index, i), (at, j), entry)
                        if (at, j) != (index, i):
                            self._add(M, (at, j), (index, i), entry)
        for j, armature in enumerate(self._tree.armature):
            M[j][j] = M[j][j] + self._scalars.constant(armature)
        return M

    def bias_at_rest(self, dtau_dqd: Square) -> list[Scalar]:
        """Return the bias forces of a robot on a base at rest, without external wrenches.

        Efforts of velocity are quadratic forms of it, so that half their gradient times the
        velocity gives them back; those of gravity are the answers to a uniform acceleration.

        Args:
            dtau_dqd: ``by_velocities()``.
        """
        half, scalars = self._scalars.constant(0.5), self._scalars
        bias = []
        for row in dtau_dqd:
            bias.append(half * dot(row, self._qd))
        for index, body in enumerate(self._tree.bodies):
            scalars.begin("row", index)
            for i, line in enumerate(self.rows[index], start=body.v_index):
                at, seen = line[-1]
                entry = dot(seen.a, self.placed[at].to_body(self._root.a))
                if body.mimics:
                    entry = scalars.constant(body.multiplier) * entry
                bias[i] = bias[i] + entry
        return add_joint_dynamics(self._tree, bias, self._qd, None, scalars)

    def _zeros(self) -> Square:
        nv = self._tree.nv
        return [[self._scalars.constant(0.0)] * nv for _ in range(nv)]

    def _add(
        self, matrix: Square, row: tuple[int, int], column: tuple[int, int], entry: Scalar
    ) -> None:
        """Add an entry between axes (body, number); a follower's counts for its leader."""
        body, other = self._tree.bodies[row[0]], self._tree.bodies[column[0]]
        factor = body.multiplier * other.multiplier
        if factor != 1.0:
            entry = self._scalars.constant(factor) * entry
        i, j = body.v_index + row[1], other.v_index + column[1]
        matrix[i][j] = matrix[i][j] + entry
