"""Gradients of joint torques, from sweeps over the bodies.

Two quantities propagate inwards from every joint, body frame by body frame. The first is the
response of its torque to a change of its carrier's motion, for the derivatives of its torque with
respect to its ancestors. The second is the response of its transmitted wrench to its own motion,
for the derivatives of its ancestors' torques. An entry then costs a few products; there are none
between branches.

The structure is that of Plancher et al. (GRiD) Algorithm 2 and of Singh, Russell and Wensing 2022.
They use one common frame, where rows and wrenches need no transformation. In the frames of the
bodies, an axis is a unit vector, projection on it is free, and inertias are constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gridgen.dynamics.crba import add_armature, enter_pair
from gridgen.dynamics.kinematics import (
    BodyMotion,
    acceleration_field,
    all_motions,
    base_motion,
    each,
    joint_rate,
)
from gridgen.dynamics.mass import body_mass, body_moments
from gridgen.dynamics.motion_derivatives import (
    EffortRow,
    MotionChange,
    MovingMass,
    Source,
    add_wrenches,
    along,
    change_by_position,
    change_by_velocity,
    followed,
    moving_mass,
    origin_drift,
    rotated_wrench,
)
from gridgen.dynamics.rnea import (
    add_joint_dynamics,
    body_forces,
    torques_of_forces,
    transmitted_forces,
)
from gridgen.dynamics.state import Numbers, State
from gridgen.model.tree import Body
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import Motion, Vector, Wrench, add, apply, dot, scale

Square = list[list[Scalar]]


class Sweep:
    """Quantities that depend on positions and velocities, and the gradients of joint torques.

    Attributes:
        state:    the robot's state.
        placed:   placements of the bodies.
        motions:  motions for zero joint accelerations.
        drift:    twice the velocity of every body's origin relative to its parent.
        masses:   mass of every body's subtree; none without ``has_masses``.
    """

    def __init__(self, state: State, has_masses: bool = True) -> None:
        tree, scalars = state.tree, state.scalars
        self.state, self._tree, self._scalars = state, tree, scalars
        self._root = base_motion(state)
        self.placed = state.placed
        self.motions = all_motions(state)
        self.drift = scalars.table("drift", len(tree.bodies))
        for index in tree.outward():
            self.drift[index] = self._drift(index, tree.bodies[index])
        self.masses = self._masses() if has_masses else []
        self._own_rows: dict[tuple[int, int], EffortRow] = {}
        self._rows: dict[tuple[int, int], list[tuple[int, EffortRow]]] = {}
        if self.masses and not scalars.has_loops:
            for index in tree.outward():
                for axis in range(tree.bodies[index].nv):
                    self.rows(index, axis)

    def axes(self, index: int) -> list[Motion]:
        """Return the axes of a body's joint."""
        return self._tree.bodies[index].joint_type.subspace(self._scalars)

    # -- set-up -------------------------------------------------------------------------------

    def _carrier(self, index: int, motions: Sequence[BodyMotion]) -> BodyMotion:
        parent = self._tree.bodies[index].parent
        return self._root if parent < 0 else motions[parent]

    def _slide_rate(self, body: Body) -> Vector:
        """Return the linear part of a joint's velocity, in the moved body's axes."""
        rate = joint_rate(body, self.state.qd, self._scalars)
        return body.joint_type.motion(rate, self._scalars)[0]

    def _drift(self, index: int, body: Body) -> Vector:
        self._scalars.begin("outward", index)
        slide_rate = self._slide_rate(body) if body.joint_type.slides else None
        w = self._carrier(index, self.motions).w
        return self._scalars.keep("d", index, origin_drift(self.placed[index], w, slide_rate))

    def _masses(self) -> list[MovingMass]:
        bodies, scalars = self._tree.bodies, self._scalars
        composite: list[MovingMass] = scalars.table("mass", len(bodies))
        for index in self._tree.outward():
            scalars.begin("outward", index)
            mass = body_mass(self.state, index)
            moments = body_moments(self.state, index, 2.0)
            own = moving_mass(mass, self.motions[index].w, moments)
            composite[index] = own.keep(index, scalars)
        for index in self._tree.inward():
            parent = bodies[index].parent
            if parent >= 0:
                scalars.begin("composite", index)
                carried = composite[index].to_parent(self.placed[index], self.drift[index])
                composite[parent] = (composite[parent] + carried).keep(parent, scalars)
        return composite

    def row(self, index: int, axis: int) -> EffortRow:
        """Return the response of a joint torque to changes of the body's motion."""
        self._scalars.begin("row", index)
        if self._scalars.has_loops:
            return self.masses[index].row(self.axes(index)[axis])
        if (index, axis) not in self._own_rows:
            self._own_rows[index, axis] = self.masses[index].row(self.axes(index)[axis])
        return self._own_rows[index, axis]

    def rows(self, index: int, axis: int) -> Iterable[tuple[int, EffortRow]]:
        """Return every ancestor of a body with the torque row in its frame."""
        if self._scalars.has_loops:
            return self._carried(index, axis)
        if (index, axis) not in self._rows:
            self._rows[index, axis] = list(self._carried(index, axis))
        return self._rows[index, axis]

    def _carried(self, index: int, axis: int) -> Iterator[tuple[int, EffortRow]]:
        row = self._scalars.carry("row", self.row(index, axis))
        for below in self._tree.climb(index):
            self._scalars.begin("row", index)
            row.value = seen = row.value.to_parent(self.placed[below], self.drift[below])
            yield self._tree.bodies[below].parent, seen

    def loaded(self, qdd: Numbers) -> tuple[list[BodyMotion], list[Wrench]]:
        """Return the motions with joint accelerations, and the wrenches that joints transmit."""
        motions = all_motions(self.state, qdd)
        forces = body_forces(self.state, each(self._tree, motions))
        return motions, transmitted_forces(self.state, forces)

    def bias_forces(self) -> list[Scalar]:
        """Return the joint torques for zero accelerations."""
        forces = body_forces(self.state, each(self._tree, self.motions))
        return torques_of_forces(self.state, forces)

    # -- changes of motion --------------------------------------------------------------------

    def velocity_changes(self, index: int) -> list[MotionChange]:
        """Return the derivatives of a body's motion with respect to its joint's velocities."""
        body = self._tree.bodies[index]
        self._scalars.begin("outward", index)
        if body.joint_type.nv == 1:
            total = scale(self._scalars.constant(2.0), self.motions[index].w)
            return [change_by_velocity(self.axes(index)[0], total)]
        carrier = self.placed[index].to_body(self._carrier(index, self.motions).w)
        total, slide_rate = add(carrier, self.motions[index].w), self._slide_rate(body)
        return [change_by_velocity(axis, total, slide_rate) for axis in self.axes(index)]

    def position_changes(self, index: int, motions: Sequence[BodyMotion]) -> list[MotionChange]:
        """Return the derivatives of a body's motion with respect to its joint's position.

        The results are in the body's frame.

        Args:
            index:   index of the body.
            motions: motions of all bodies, with the joint accelerations.
        """
        body = self._tree.bodies[index]
        self._scalars.begin("outward", index)
        if body.joint_type.nv == 1:
            return [change_by_position(self.axes(index)[0], motions[index])]
        placed, carrier = self.placed[index], self._carrier(index, motions)
        w, wd = placed.to_body(carrier.w), placed.to_body(carrier.wd)
        a = placed.to_body(add(carrier.a, apply(carrier.field, placed.r)))
        seen, slide_rate = BodyMotion(w, wd, a, acceleration_field(w, wd)), self._slide_rate(body)
        return [change_by_position(axis, seen, slide_rate) for axis in self.axes(index)]

    def carried(self, index: int) -> tuple[Vector, Vector | None]:
        """Return ``w`` and ``slide_rate`` of a body's joint, as ``turned_mass`` reads them."""
        body = self._tree.bodies[index]
        if body.joint_type.nv == 1:
            return self.motions[index].w, None
        carrier = self._carrier(index, self.motions)
        return self.placed[index].to_body(carrier.w), self._slide_rate(body)

    # -- derivatives --------------------------------------------------------------------------

    def by_velocities(self) -> Source:
        """Return the effects of the joints' velocities on their bodies."""
        source = Source(self.state, "dtau_dqd")
        for index in self._tree.outward():
            self.enter(source, index, self.velocity_changes(index))
        return source

    def enter(self, source: Source, index: int, changes: list[MotionChange]) -> list[Wrench]:
        """Store the changes of a body's motion, and return those of the wrench on its subtree."""
        self._scalars.begin("response", index)
        source.changes[index] = changes
        source.own[index] = own = [self.masses[index].wrench(change) for change in changes]
        return own

    def by_positions(self, motions: Sequence[BodyMotion], forces: Sequence[Wrench]) -> Source:
        """Return the effects of the joints' positions on their bodies.

        Args:
            motions: motions of the bodies, with the joint accelerations.
            forces:  wrench that each joint transmits.
        """
        source = Source(self.state, "dtau_dq", is_turned=True)
        for index in self._tree.outward():
            own = self.enter(source, index, self.position_changes(index, motions))
            # The body's frame moves with the joint: relative to the parent, the wrench rotates.
            source.felt[index] = [
                add_wrenches(wrench, rotated_wrench(axis, forces[index]))
                for axis, wrench in zip(self.axes(index), own, strict=True)
            ]
        return source

    def gradients(self, *sources: Source, M: Square | None = None) -> list[Square]:
        """Return the gradients of the joint torques.

        Args:
            sources: effects of the joints on their own bodies.
            M:       matrix of zeros to overwrite with the mass matrix, from the torque rows;
                     entries (i, j) and (j, i) are one scalar.
        """
        if self._scalars.has_loops:
            self._sweep(sources, M)
        else:  # one source at a time: straight-line code then needs fewer registers
            if M is not None:
                self._sweep((), M)
            for source in sources:
                self._sweep([source], None)
        if M is not None:
            add_armature(self.state, M)
        return [source.gradient for source in sources]

    def _sweep(self, sources: Sequence[Source], M: Square | None) -> None:
        tree, scalars = self._tree, self._scalars
        for index in tree.inward():
            body = tree.bodies[index]
            for source in sources:
                for column, wrench in enumerate(source.own[index]):
                    for row, axis in enumerate(self.axes(index)):
                        place = (index, row), (index, column)
                        self._add(source.gradient, *place, along(axis, wrench))
            for row in range(body.nv):
                if M is not None:
                    self._enter_own_masses(M, index, row)
                for ancestor, seen in self.rows(index, row):
                    for source in sources:
                        for column, change in enumerate(source.changes[ancestor]):
                            place = (index, row), (ancestor, column)
                            self._add(source.gradient, *place, seen.answer(change))
                    if M is not None:
                        self._enter_masses(M, (index, row), ancestor, seen)
            for source in sources:
                for column, wrench in enumerate(source.felt[index]):
                    scalars.begin("response", index)
                    carried = scalars.carry("wrench", wrench)
                    for below in tree.climb(index):
                        carried.value = wrench = self.placed[below].force_to_parent(*carried.value)
                        ancestor = tree.bodies[below].parent
                        for row, axis in enumerate(self.axes(ancestor)):
                            place = (ancestor, row), (index, column)
                            self._add(source.gradient, *place, along(axis, wrench))

    def _enter_own_masses(self, M: Square, index: int, axis: int) -> None:
        """Store the mass matrix of one axis of a joint with the joint's axes up to it."""
        row, body = self.row(index, axis), self._tree.bodies[index]
        column = body.v_index + axis
        for j, other in enumerate(self.axes(index)[: axis + 1]):
            entry = followed(along(other, (row.a, row.alpha)), (body, body), self._scalars)
            if j == axis:
                M[column][column] = M[column][column] + entry if self._tree.has_mimic else entry
            else:
                enter_pair(self._tree, M, body.v_index + j, column, entry)

    def _enter_masses(
        self, M: Square, joint: tuple[int, int], ancestor: int, row: EffortRow
    ) -> None:
        """Store the mass matrix of one axis of a joint with the axes of an ancestor."""
        body, other = self._tree.bodies[joint[0]], self._tree.bodies[ancestor]
        for j, axis in enumerate(self.axes(ancestor)):
            entry = followed(along(axis, (row.a, row.alpha)), (body, other), self._scalars)
            enter_pair(self._tree, M, other.v_index + j, body.v_index + joint[1], entry)

    def bias_at_rest(self, dtau_dqd: Square) -> list[Scalar]:
        """Return the bias forces of a robot on a base at rest, without external wrenches.

        Velocity-dependent torques are quadratic forms: half their gradient times the velocity.
        Gravity torques are the responses to a uniform acceleration.

        Args:
            dtau_dqd: velocity gradient, without damping.
        """
        tree, scalars = self._tree, self._scalars
        half = scalars.constant(0.5)
        bias = [half * dot(row, self.state.qd) for row in dtau_dqd]
        for index, body in enumerate(tree.bodies):
            for k in range(body.nv):
                line = [(index, self.row(index, k)), *self.rows(index, k)]
                at, seen = line[-1]
                scalars.begin("row", index)
                entry = dot(seen.a, self.placed[at].to_body(self._root.a))
                entry = followed(entry, [body], scalars)
                bias[body.v_index + k] = bias[body.v_index + k] + entry
        return add_joint_dynamics(self.state, bias)

    def _add(
        self, matrix: Square, row: tuple[int, int], column: tuple[int, int], entry: Scalar
    ) -> None:
        """Add an entry between axes (body, number); mimic joints add to their leader."""
        body, other = self._tree.bodies[row[0]], self._tree.bodies[column[0]]
        entry = followed(entry, (body, other), self._scalars)
        i, j = body.v_index + row[1], other.v_index + column[1]
        matrix[i][j] = matrix[i][j] + entry if self._tree.has_mimic else entry
