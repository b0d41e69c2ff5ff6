"""Numbers of sensors in a state, as MuJoCo's ``sensordata``.

Source: MuJoCo's documentation, XML reference, sensor; ``mj_sensorPos``, ``mj_sensorVel`` and
``mj_sensorAcc``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gridgen.dynamics.actuators import (
    actuated,
    actuator_forces,
    actuator_torques,
    clamped,
    springs_of,
    stretch_of,
    transmission,
)
from gridgen.dynamics.contacts.assembly import Pressed
from gridgen.dynamics.contacts.forward import solved_rows
from gridgen.dynamics.contacts.rows import TINY, Row
from gridgen.dynamics.contacts.solver import Problem
from gridgen.dynamics.energy import kinetic_energy, potential_energy
from gridgen.dynamics.frames import Pose, base_pose, body_poses, in_canonical, linear_velocities
from gridgen.dynamics.integrators import accelerations
from gridgen.dynamics.kinematics import BodyMotion, all_motions, each, joint_rate
from gridgen.dynamics.mass import Mass, body_mass, constant_mass, second_moments
from gridgen.dynamics.rnea import body_forces
from gridgen.dynamics.state import Numbers, State, followed
from gridgen.model.kinematic_tree import Body, Frame, KinematicTree, Sensor
from gridgen.model.pose import Matrix3, to_quaternion
from gridgen.model.pose import multiply as matrix_product
from gridgen.model.pose import transpose as transposed
from gridgen.model.sensors import KINDS
from gridgen.model.soft import Solid
from gridgen.symbolic.rotations import Quaternion, conjugate, multiply
from gridgen.symbolic.scalars import FloatScalars, Scalar, Scalars
from gridgen.symbolic.spatial import (
    ZERO,
    Motion,
    Placement,
    Vector,
    Wrench,
    add,
    apply,
    constants,
    cross,
    dot,
    neg,
    scale,
    sub,
    transpose,
)


def sensors(state: State, tau: Numbers) -> list[Scalar]:
    """Return the numbers of all sensors of a robot.

    Args:
        tau: joint torques, without those of actuators.
    """
    observed = Observation(state.on_fixed_base.without("offset"), tau)
    scalars = state.scalars
    found: list[Scalar] = []
    for sensor in state.tree.sensors:
        scalars.begin("sensor", -1)
        values = _VALUES[sensor.kind](observed, sensor)
        if sensor.cutoff:
            low = -math.inf if KINDS[sensor.kind].is_positive else -sensor.cutoff
            bounds = low, sensor.cutoff
            values = [clamped(value, bounds, scalars) for value in values]
        found += values
    return found


@dataclass(frozen=True)
class Observation:
    """A state, and what its sensors share: computed once, where a sensor needs it.

    Attributes:
        state: of the robot on a base at rest.
        tau:   joint torques, without those of actuators.
    """

    state: State
    tau: Numbers

    @cached_property
    def poses(self) -> list[Pose]:
        """Poses of the bodies."""
        return body_poses(self.state)

    @cached_property
    def still(self) -> list[BodyMotion]:
        """Motions of the bodies at zero accelerations, without gravity."""
        return all_motions(self.state.at_rest)

    @cached_property
    def velocities(self) -> list[Vector]:
        """Velocities of the bodies' origins."""
        return linear_velocities(self.state, self.still)

    @cached_property
    def pressed(self) -> list[Pressed]:
        """Points of contacts with their forces."""
        if not self.state.tree.contact_model.acts:
            return []
        return [*self.held.pressed(self.held.forces)]

    @cached_property
    def held(self) -> Problem:
        """Soft constraints with their forces, contacts that a sensor observes among them."""
        tree = self.state.tree
        chosen = {sensor.contact for sensor in tree.sensors if sensor.contact >= 0}
        links = {link for sensor in tree.sensors for link in sensor.links}
        for number, contact in enumerate(tree.contact_model.contacts):
            if any(solid.link in links for solid in contact.solids):
                chosen.add(number)
        return solved_rows(self.state, actuated(self.state, self.tau), chosen)

    @cached_property
    def accelerated(self) -> list[BodyMotion]:
        """Motions of the bodies."""
        return all_motions(self.state, accelerations(self.state, self.tau))

    def placed(self, frame: Frame) -> Placement:
        """Return the placement of a frame in its body."""
        return in_canonical(self.state, frame)

    def pose(self, frame: Frame) -> Pose:
        """Return the pose of a frame in the world."""
        return self._above(frame).child(self.placed(frame))

    def _above(self, frame: Frame) -> Pose:
        """Return the pose of a frame's body."""
        return base_pose(self.state.scalars) if frame.body < 0 else self.poses[frame.body]

    def velocity(self, frame: Frame) -> Motion:
        """Return the velocity of a frame, in the axes of its body."""
        if frame.body < 0:
            none = constants(ZERO, self.state.scalars)
            return none, none
        w = self.still[frame.body].w
        return add(self.velocities[frame.body], cross(w, self.placed(frame).r)), w

    def acceleration(self, frame: Frame) -> Motion:
        """Return the acceleration of a frame minus gravity, in the axes of its body."""
        if frame.body < 0:
            return neg(self.state.g), constants(ZERO, self.state.scalars)
        motion = self.accelerated[frame.body]
        return add(motion.a, apply(motion.field, self.placed(frame).r)), motion.wd

    def in_base(self, frame: Frame, vector: Vector) -> Vector:
        """Return a vector in the axes of the base, of one in those of a frame's body."""
        return vector if frame.body < 0 else apply(self.poses[frame.body].R, vector)

    def masses(self, sensor: Sensor) -> Iterator[tuple[int, Mass]]:
        """Yield the bodies of a subtree that moves, with their masses."""
        for index, lump in sensor.pieces:
            if lump is None:
                yield index, body_mass(self.state, index)
            elif lump.mass:
                yield index, constant_mass(lump, self.state.scalars)

    def center(self, sensor: Sensor) -> tuple[Scalar, Vector]:
        """Return the mass of a subtree, and its first moment in the world."""
        scalars = self.state.scalars
        total, moment = scalars.constant(0.0), constants(ZERO, scalars)
        for index, mass in self.masses(sensor):
            pose = base_pose(scalars) if index < 0 else self.poses[index]
            own = add(scale(mass.m, pose.p), apply(pose.R, mass.h))
            total, moment = total + mass.m, add(moment, own)
        return total, moment

    def momentum(self, sensor: Sensor) -> tuple[Vector, Vector]:
        """Return the momentum of a subtree about the origin of the base."""
        linear = angular = constants(ZERO, self.state.scalars)
        for index, mass in self.masses(sensor):
            if index < 0:
                continue
            pose = self.poses[index]
            f, n = mass.wrench(self.velocities[index], self.still[index].w)
            f, n = apply(pose.R, f), apply(pose.R, n)
            linear, angular = add(linear, f), add(angular, add(n, cross(pose.p, f)))
        return linear, angular

    def wrench(self, sensor: Sensor) -> Wrench:
        """Return the wrench that moves a subtree, at the sensor in the axes of the base."""
        state, tree, scalars = self.state, self.state.tree, self.state.scalars
        assert sensor.frame is not None
        at = self.pose(sensor.frame).p
        force = moment = constants(ZERO, scalars)

        def add_wrench(f: Vector, n: Vector, point: Vector) -> None:
            nonlocal force, moment
            force, moment = add(force, f), add(moment, add(n, cross(sub(point, at), f)))

        forces = None
        for index, lump in sensor.pieces:
            motion, pose = self.accelerated[index], self.poses[index]
            if lump is not None:
                mass = constant_mass(lump, scalars)
                moments = second_moments(mass.I, 1.0)
                f, n = mass.field_wrench(motion.a, motion.field, moments)
            else:
                forces = forces or body_forces(state, each(tree, self.accelerated))
                f, n = forces[index]
            add_wrench(apply(pose.R, f), apply(pose.R, n), pose.p)
        for one in self.pressed:
            contact = one.contact
            other = contact.other.link if isinstance(contact.other, Solid) else None
            sign = float(other in sensor.links) - float(contact.solid.link in sensor.links)
            if sign:
                factor = scalars.constant(sign)
                add_wrench(scale(factor, one.force), scale(factor, one.moment), one.point)
        return force, moment


def _of_frame(sensor: Sensor) -> Frame:
    assert sensor.frame is not None
    return sensor.frame


def _gyro(seen: Observation, sensor: Sensor) -> Vector:
    frame = _of_frame(sensor)
    return seen.placed(frame).to_body(seen.velocity(frame)[1])


def _velocimeter(seen: Observation, sensor: Sensor) -> Vector:
    frame = _of_frame(sensor)
    return seen.placed(frame).to_body(seen.velocity(frame)[0])


def _accelerometer(seen: Observation, sensor: Sensor) -> Vector:
    frame = _of_frame(sensor)
    return seen.placed(frame).to_body(seen.acceleration(frame)[0])


def _magnetometer(seen: Observation, sensor: Sensor) -> Vector:
    field = constants(sensor.field, seen.state.scalars)
    return apply(transpose(seen.pose(_of_frame(sensor)).R), field)


def _linear_acceleration(seen: Observation, sensor: Sensor) -> Vector:
    frame = _of_frame(sensor)
    return seen.in_base(frame, seen.acceleration(frame)[0])


def _angular_acceleration(seen: Observation, sensor: Sensor) -> Vector:
    frame = _of_frame(sensor)
    return seen.in_base(frame, seen.acceleration(frame)[1])


def _position(seen: Observation, sensor: Sensor) -> Vector:
    here = seen.pose(_of_frame(sensor))
    if sensor.to is None:
        return here.p
    there = seen.pose(sensor.to)
    return apply(transpose(there.R), sub(here.p, there.p))


def _axis(column: int) -> Callable[[Observation, Sensor], Vector]:
    def value(seen: Observation, sensor: Sensor) -> Vector:
        axis = transpose(seen.pose(_of_frame(sensor)).R)[column]
        return axis if sensor.to is None else apply(transpose(seen.pose(sensor.to).R), axis)

    return value


def _linear_velocity(seen: Observation, sensor: Sensor) -> Vector:
    frame, to = _of_frame(sensor), sensor.to
    v = seen.in_base(frame, seen.velocity(frame)[0])
    if to is None:
        return v
    there, (v0, w0) = seen.pose(to), seen.velocity(to)
    v0, w0 = seen.in_base(to, v0), seen.in_base(to, w0)
    v = sub(sub(v, v0), cross(w0, sub(seen.pose(frame).p, there.p)))
    return apply(transpose(there.R), v)


def _angular_velocity(seen: Observation, sensor: Sensor) -> Vector:
    frame, to = _of_frame(sensor), sensor.to
    w = seen.in_base(frame, seen.velocity(frame)[1])
    if to is None:
        return w
    return apply(transpose(seen.pose(to).R), sub(w, seen.in_base(to, seen.velocity(to)[1])))


def _quaternion(seen: Observation, sensor: Sensor) -> list[Scalar]:
    state, tree = seen.state, seen.state.tree
    found = [
        _turn(tree, frame, state.q, state.scalars)
        for frame in (_of_frame(sensor), sensor.to)
        if frame is not None
    ]
    sign = 1.0
    frames = (_of_frame(sensor), sensor.to)
    for frame, known in zip(frames, sensor.signs, strict=False):
        if frame is not None:
            there = _turn(tree, frame, sensor.at, FloatScalars())
            sign *= 1.0 if dot(there, known) > 0.0 else -1.0
    x, y, z, w = found[0] if sensor.to is None else multiply(conjugate(found[1]), found[0])
    return [entry if sign > 0.0 else -entry for entry in (w, x, y, z)]


def _turn(tree: KinematicTree, frame: Frame, q: Numbers, scalars: Scalars) -> Quaternion:
    """Return the quaternion of a frame: continuous in the joint positions, as MuJoCo's."""
    path = [] if frame.body < 0 else [frame.body, *tree.ancestors(frame.body)][::-1]
    found: Quaternion | None = None
    for index in path:
        body = tree.bodies[index]
        found = _turned(found, body.rotation, scalars)
        if body.joint_type.turns:
            own = _joint_turn(body, q, scalars)
            found = own if found is None else multiply(found, own)
    last = frame.rotation
    if path:
        last = matrix_product(transposed(tree.bodies[frame.body].link_rotation), last)
    found = _turned(found, last, scalars)
    one, zero = scalars.constant(1.0), scalars.constant(0.0)
    return (zero, zero, zero, one) if found is None else found


def _turned(found: Quaternion | None, rotation: Matrix3, scalars: Scalars) -> Quaternion | None:
    """Return the product with a constant rotation."""
    x, y, z, w = to_quaternion(rotation)
    if w == 1.0:
        return found
    x, y, z, w = map(scalars.constant, (x, y, z, w))
    return (x, y, z, w) if found is None else multiply(found, (x, y, z, w))


def _joint_turn(body: Body, q: Numbers, scalars: Scalars) -> Quaternion:
    """Return the quaternion of a joint that turns."""
    first = body.joint_type.quaternion
    if first is not None:
        x, y, z, w = (q[body.q_index + first + k] for k in range(4))
        return x, y, z, w
    angle = _joint_position(body, q, scalars)
    sine, cosine = scalars.sincos(scalars.constant(0.5) * angle)
    zero = scalars.constant(0.0)
    return zero, zero, sine, cosine


def _joint_position(body: Body, q: Numbers, scalars: Scalars) -> Scalar:
    position = q[body.q_index]
    return followed(body, position, scalars) if body.mimics else position


def _jointpos(seen: Observation, sensor: Sensor) -> list[Scalar]:
    state = seen.state
    return [_joint_position(state.tree.bodies[sensor.body], state.q, state.scalars)]


def _jointvel(seen: Observation, sensor: Sensor) -> tuple[Scalar, ...]:
    state = seen.state
    return joint_rate(state.tree.bodies[sensor.body], state.qd, state.scalars)


def _jointactuatorfrc(seen: Observation, sensor: Sensor) -> list[Scalar]:
    return [actuator_torques(seen.state)[seen.state.tree.bodies[sensor.body].v_index]]


def _ballquat(seen: Observation, sensor: Sensor) -> list[Scalar]:
    body = seen.state.tree.bodies[sensor.body]
    x, y, z, w = (seen.state.q[body.q_index + k] for k in range(4))
    return [w, x, y, z]


def _actuatorpos(seen: Observation, sensor: Sensor) -> list[Scalar]:
    return [transmission(seen.state, sensor.actuator)[0]]


def _actuatorvel(seen: Observation, sensor: Sensor) -> list[Scalar]:
    return [transmission(seen.state, sensor.actuator)[1]]


def _actuatorfrc(seen: Observation, sensor: Sensor) -> list[Scalar]:
    return [actuator_forces(seen.state)[sensor.actuator]]


def _subtreecom(seen: Observation, sensor: Sensor) -> Vector:
    total, moment = seen.center(sensor)
    return scale(1.0 / total, moment)


def _subtreelinvel(seen: Observation, sensor: Sensor) -> Vector:
    return scale(1.0 / seen.center(sensor)[0], seen.momentum(sensor)[0])


def _subtreeangmom(seen: Observation, sensor: Sensor) -> Vector:
    linear, angular = seen.momentum(sensor)
    return sub(angular, cross(_subtreecom(seen, sensor), linear))


def _force(seen: Observation, sensor: Sensor) -> Vector:
    return apply(transpose(seen.pose(_of_frame(sensor)).R), seen.wrench(sensor)[0])


def _torque(seen: Observation, sensor: Sensor) -> Vector:
    return apply(transpose(seen.pose(_of_frame(sensor)).R), seen.wrench(sensor)[1])


def _touch(seen: Observation, sensor: Sensor) -> list[Scalar]:
    """Return the sum of normal forces whose line, away from the link, meets the sensor's shape."""
    scalars, pose = seen.state.scalars, seen.pose(_of_frame(sensor))
    zero, (link,) = scalars.constant(0.0), sensor.links
    total, back = zero, transpose(pose.R)
    for one in seen.pressed:
        contact = one.contact
        is_other = isinstance(contact.other, Solid) and contact.other.link == link
        if contact.solid.link != link and not is_other:
            continue
        ray = one.normal if is_other else neg(one.normal)
        force = one.pressure
        if sensor.zone is not None:
            start = apply(back, sub(one.point, pose.p))
            test = misses(sensor.zone, start, apply(back, ray), scalars)
            force = scalars.select(test, force, zero)
        total = total + scalars.select(-one.pressure, force, zero)
    return [total]


def _contact(seen: Observation, sensor: Sensor) -> list[Scalar]:
    """Return the number of points of a contact that touch."""
    one, zero = map(seen.state.scalars.constant, (1.0, 0.0))
    total = zero
    for distance in seen.held.distances(sensor.contact):
        total = total + seen.state.scalars.select(distance, one, zero)
    return [total]


def _limit(value: Callable[[Observation, Row, Sequence[Scalar]], Scalar]) -> Any:
    """Return the numbers of the limits of a joint; zero for one that is not near."""

    def values(seen: Observation, sensor: Sensor) -> list[Scalar]:
        zero = seen.state.scalars.constant(0.0)
        joint = seen.state.tree.bodies[sensor.body].joint
        found = zero
        rows = [
            (row, force)
            for row, force in zip(seen.held.rows, seen.held.forces, strict=True)
            if isinstance(row, Row) and row.joint == joint
        ]
        for row, force in reversed(rows):  # where both ends act, the lower one is MuJoCo's
            found = seen.state.scalars.select(row.distance, value(seen, row, force), found)
        return [found]

    return values


def _potential(seen: Observation, sensor: Sensor) -> list[Scalar]:
    state, scalars = seen.state, seen.state.scalars
    still = constants(ZERO, scalars)
    for _, mass in seen.masses(sensor):
        still = add(still, mass.h)
    total = potential_energy(state) - dot(state.g, still)
    for _, stiffness, stretch in springs_of(state):
        total = total + 0.5 * stiffness * dot(stretch, stretch)
    for tendon in state.tree.tendons:
        if tendon.stiffness:
            stretch = stretch_of(state, tendon)
            total = total + scalars.constant(0.5 * tendon.stiffness) * stretch * stretch
    return [total]


def _kinetic(seen: Observation, sensor: Sensor) -> list[Scalar]:
    return [kinetic_energy(seen.state)]


#: The numbers of a sensor of each kind.
_VALUES: Mapping[str, Callable[[Observation, Sensor], Sequence[Scalar]]] = {
    "gyro": _gyro,
    "velocimeter": _velocimeter,
    "accelerometer": _accelerometer,
    "magnetometer": _magnetometer,
    "framepos": _position,
    "framequat": _quaternion,
    "framexaxis": _axis(0),
    "frameyaxis": _axis(1),
    "framezaxis": _axis(2),
    "framelinvel": _linear_velocity,
    "frameangvel": _angular_velocity,
    "framelinacc": _linear_acceleration,
    "frameangacc": _angular_acceleration,
    "jointpos": _jointpos,
    "jointvel": _jointvel,
    "jointactuatorfrc": _jointactuatorfrc,
    "ballquat": _ballquat,
    "ballangvel": _jointvel,
    "actuatorpos": _actuatorpos,
    "actuatorvel": _actuatorvel,
    "actuatorfrc": _actuatorfrc,
    "subtreecom": _subtreecom,
    "subtreelinvel": _subtreelinvel,
    "subtreeangmom": _subtreeangmom,
    "touch": _touch,
    "contact": _contact,
    "force": _force,
    "torque": _torque,
    "jointlimitpos": _limit(lambda seen, row, force: row.distance),
    "jointlimitvel": _limit(lambda seen, row, force: row.rates(seen.state.qd)[0]),
    "jointlimitfrc": _limit(lambda seen, row, force: force[0]),
    "e_potential": _potential,
    "e_kinetic": _kinetic,
}
assert _VALUES.keys() == KINDS.keys()


def misses(
    zone: tuple[str, Sequence[float]], start: Vector, ray: Vector, scalars: Scalars
) -> Scalar:
    """Return a number that is negative where a ray meets a shape, in the shape's axes.

    Args:
        zone:  kind and size, as of MuJoCo's sites.
        start: where the ray begins.
        ray:   its direction, a unit vector.
        scalars: the type of number.
    """
    kind, size = zone
    if kind == "capsule":
        radius, half = size
        found = misses(("cylinder", size), start, ray, scalars)
        for end in (half, -half):
            center = constants((0.0, 0.0, end), scalars)
            other = misses(("sphere", (radius,)), sub(start, center), ray, scalars)
            found = scalars.select(found - other, found, other)
        return found
    spans = []
    if kind in ("sphere", "ellipsoid", "cylinder"):
        radii = size if kind == "ellipsoid" else (size[0],) * (2 if kind == "cylinder" else 3)
        scaled = [
            ([scalars.constant(1.0 / r) * x for x, r in zip(vector, radii, strict=False)])
            for vector in (start, ray)
        ]
        a, b = dot(scaled[1], scaled[1]), dot(*scaled)
        a = scalars.select(TINY - a, a, scalars.constant(TINY))
        square = b * b - a * (dot(scaled[0], scaled[0]) - 1.0)
        root = scalars.sqrt(scalars.select(TINY - square, square, scalars.constant(TINY)))
        apart = scalars.select(-square, scalars.constant(0.0), scalars.constant(1.0))
        spans.append(((-b - root) / a + apart, (root - b) / a - apart))
    for k, half in {"box": enumerate(size), "cylinder": ((2, size[-1]),)}.get(kind, ()):  # slabs
        slope = scalars.select(ray[k], scalars.constant(-1.0), scalars.constant(1.0))
        along = slope * ray[k]
        along = scalars.select(TINY - along, along, scalars.constant(TINY))
        middle, reach = -(slope * start[k]) / along, scalars.constant(half) / along
        spans.append((middle - reach, middle + reach))
    first, last = scalars.constant(0.0), spans[0][1]
    for begin, end in spans:
        first = scalars.select(first - begin, begin, first)
        last = scalars.select(last - end, last, end)
    return first - last
