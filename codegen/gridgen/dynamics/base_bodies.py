"""Bodies in the frame of the base, one in each lane.

In one common frame, velocities, accelerations, composite inertias and transmitted wrenches are
plain sums along the tree. A team of lanes computes those in logarithmically many rounds or, for
subtrees, component by component (``gridgen.symbolic.lanes``). Without a common frame, each step
would transform its operands.

The frame is that of the root body if it floats: gravity alone depends on how it is turned. Item 0
of the lanes is that body, or the fixed base. Spatial vectors are at the frame's origin, linear part
first. Accelerations are derivatives of twists, minus gravity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property

from gridgen.dynamics.losses import loss_of
from gridgen.dynamics.mass import Mass
from gridgen.dynamics.motion_derivatives import (
    MassRates,
    add_wrenches,
    flat,
    read_mass,
    rotated_wrench,
    wrench_at,
)
from gridgen.dynamics.origins import Groups, groups_of, one_group, single_groups
from gridgen.dynamics.state import Numbers, State, placement
from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.lanes import LaneOperations, Sums, Tile
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import (
    DenseRotation,
    Matrix,
    Motion,
    Placement,
    Vector,
    Wrench,
    add,
    apply,
    carried,
    cross,
    matmul,
    scale,
    split,
    sub,
    symmetric,
    transpose,
)


def floats(tree: KinematicTree) -> bool:
    """Return whether the root of all bodies has a free joint."""
    return tree.bodies[0].joint_type.is_free and all(body.parent >= 0 for body in tree.bodies[1:])


def refusal(tree: KinematicTree) -> str | None:
    """Return why lanes in the frame of the base do not support a robot, or ``None``."""
    if len(tree.bodies) == floats(tree):
        return 'the robot has no joint but that of its base: use schedule="thread"'
    for body in tree.bodies[floats(tree) :]:
        if body.nv > 1:
            return (
                f'joint "{body.joint}" is {body.kind}, and lanes compute one velocity of a joint '
                'other than that of a base that floats on it alone: use schedule="thread"'
            )
    if "params" in tree.parameters:
        return 'inertial parameters are inputs: use schedule="thread"'
    return None


def parents_of(tree: KinematicTree) -> list[int]:
    """Return the parent of each item: the base, then the bodies that joints move."""
    first = floats(tree)
    return [-1, *(body.parent + 1 - first for body in tree.bodies[first:])]


def path_sums(above: Sequence[Scalar], own: Sequence[Scalar]) -> list[Scalar]:
    """Return the sums of an ancestor's values and an item's."""
    return [a + b for a, b in zip(above, own, strict=True)]


def _composed(above: Sequence[Scalar], own: Sequence[Scalar]) -> list[Scalar]:
    """Return rotation and origin of a body in the frame of its ancestor's ancestor."""
    (E, r), (own_E, own_r) = _pose(above), _pose(own)
    return flat(*matmul(E, own_E), add(r, apply(E, own_r)))


def _pose(values: Sequence[Scalar]) -> tuple[Matrix, Vector]:
    x, y, z, r = (tuple(values[k : k + 3]) for k in range(0, 12, 3))
    return (x, y, z), r


def _orthonormal(E: Matrix) -> Matrix:
    """Return a rotation whose columns are orthonormal up to a rounding, by a step of Newton's.

    Products along a path accumulate such errors, which change articulated inertias.
    """
    rows = [
        tuple(1.5 - 0.5 * entry if i == j else -0.5 * entry for j, entry in enumerate(row))
        for i, row in enumerate(matmul(transpose(E), E))
    ]
    return matmul(E, (rows[0], rows[1], rows[2]))


class Bodies:
    """The bodies of a robot, one in each lane.

    Args:
        state: the state, over ``LaneOperations``.
        qdd:   joint accelerations, nv scalars; ``None`` for zero.
        damping_step: time step of implicit damping; see ``aba.forward_dynamics_aba``.
        groups: the bodies that share an origin, see ``gridgen.dynamics.origins``; all by default.
                Axes, motions, masses and wrenches are at these origins, in the base's axes.
    """

    def __init__(
        self,
        state: State,
        qdd: Numbers | None = None,
        damping_step: Scalar | None = None,
        *,
        groups: Groups | None = None,
    ) -> None:
        lanes = state.scalars
        assert isinstance(lanes, LaneOperations)
        self.state, self.lanes, self.qdd = state, lanes, qdd
        self.damping_step = damping_step
        self.tree = state.tree
        self.base = self.tree.bodies[0] if floats(self.tree) else None
        self.joints = self.tree.bodies[self.base is not None :]
        lanes.begin("placement of each body in the base", -1)
        self.E, self.place = self._placements()
        if groups and groups.are_single:
            self.E = _orthonormal(self.E)
        self.groups = groups or one_group(lanes.parents)
        self.origins = self._origins()

    @classmethod
    def of_limbs(cls, state: State, damping_step: Scalar | None = None) -> Bodies:
        """Return the bodies in groups, for algorithms with composite bodies."""
        lanes = state.scalars
        assert isinstance(lanes, LaneOperations)
        return cls(state, None, damping_step, groups=groups_of(state.tree, lanes.parents))

    @classmethod
    def alone(cls, state: State, damping_step: Scalar | None = None) -> Bodies:
        """Return the bodies with an origin each, that of their joint."""
        lanes = state.scalars
        assert isinstance(lanes, LaneOperations)
        return cls(state, None, damping_step, groups=single_groups(lanes.parents))

    # -- constants and inputs -----------------------------------------------------------------

    def each(self, of: Callable[[Body], float], base: float | None = None) -> Scalar:
        """Return a number of each joint, and that of the base."""
        return self.lanes.numbers([base, *map(of, self.joints)])

    def vector(self, of: Callable[[Body], Sequence[float]], base: Sequence[float]) -> list[Scalar]:
        """Return numbers of each joint, and those of the base."""
        rows = zip(base, *map(of, self.joints), strict=True)
        return [self.lanes.numbers(row) for row in rows]

    def vector_of_bodies(self, of: Callable[[Body], Sequence[float]], count: int) -> list[Scalar]:
        """Return numbers of each body; zeros for a fixed base."""
        return self.vector(of, of(self.base) if self.base else (0.0,) * count)

    def rates(self, array: str) -> Scalar:
        """Return the velocity (or acceleration) of each joint."""
        rate = self.lanes.read(array, [None, *(body.v_index for body in self.joints)])
        return self.each(lambda body: body.multiplier) * rate if self.tree.has_mimic else rate

    def _placements(self) -> tuple[Matrix, Vector]:
        lanes = self.lanes
        q = lanes.read("q", [None, *(body.q_index for body in self.joints)])
        if self.tree.has_mimic:
            q = self.each(lambda b: b.multiplier) * q + self.each(lambda b: b.offset, 0.0)
        s, c = lanes.sincos(self.turns * q)
        identity = [float(i == j) for i in range(3) for j in range(3)]
        rest = self.vector(lambda b: flat(*b.rotation, b.translation), (*identity, 0.0, 0.0, 0.0))
        E, origin = _pose(rest)
        travel = self.travel * q
        own_E = [(x * c + y * s, y * c - x * s, z) for x, y, z in E]
        own_r = [start + z * travel for start, (_, _, z) in zip(origin, E, strict=True)]
        self._own = _pose(flat(*own_E, own_r))
        return _pose(lanes.outward("pose", flat(*own_E, own_r), _composed))

    @property
    def shift(self) -> Vector:
        """The place of each body, from its parent's, in the base's axes."""
        rotation, r = self._own
        return apply(self.E, apply(transpose(rotation), r))

    def _origins(self) -> list[Vector]:
        """Return the origins of each lane's groups, from that of its item to group 0."""
        lanes, zero = self.lanes, self.lanes.constant(0.0)
        if self.groups.are_single:
            return [self.place]
        if self.groups.hops == 1:
            return [(zero, zero, zero)]
        lanes.begin("origins of the limbs", -1)
        shared = lanes.publish("origin", self.place)
        lanes.meet()
        found = []
        for hop in range(self.groups.hops):
            items = self.groups.origins_at(hop)
            x, y, z = shared.of(lanes.index(items)) if any(items) else (zero,) * 3
            found.append((x, y, z))
        return found

    @cached_property
    def r(self) -> Vector:
        """The place of each body, from its group's origin."""
        if self.groups.are_single:
            zero = self.lanes.constant(0.0)
            return zero, zero, zero
        return sub(self.place, self.origins[0])

    def moved(self, motion: Motion) -> Motion:
        """Return a motion in the base's frame at the origin of the lane's group."""
        slide, spin = motion
        return add(slide, cross(spin, self.origins[0])), spin

    def raised(self, wrench: Wrench, hop: int) -> Wrench:
        """Return a wrench at the origin of the hop-th group in that of the next."""
        if hop + 1 >= len(self.origins):
            return wrench
        return wrench_at(sub(self.origins[hop], self.origins[hop + 1]), wrench)

    @property
    def stages(self) -> list[list[int]]:
        """Items whose composite bodies are summed, by stages; not a fixed base alone."""
        stages = self.groups.stages
        return stages[:-1] if self.base is None and stages[-1] == [0] else stages

    @cached_property
    def turns(self) -> Scalar:
        """1 for a joint that turns its body."""
        return self.each(lambda body: float(body.joint_type.turns))

    @cached_property
    def travel(self) -> Scalar:
        """Translation of a joint along its axis per unit of its coordinate."""
        return self.each(lambda body: body.joint_type.travel)

    @cached_property
    def path_axis(self) -> Motion:
        """The axis of each joint in the base's frame."""
        return self._axis_at(self.place)

    @cached_property
    def axis(self) -> Motion:
        """The axis of each joint."""
        return self._axis_at(self.r)

    def _axis_at(self, place: Vector) -> Motion:
        z = (self.E[0][2], self.E[1][2], self.E[2][2])
        spin = scale(self.turns, z)
        return add(cross(place, spin), scale(self.travel, z)), spin

    @cached_property
    def mass(self) -> Mass:
        """The mass of each body."""
        numbers = self.vector_of_bodies(
            lambda b: (b.mass, *b.first_moment, *symmetric(b.inertia)), 10
        )
        dense = (DenseRotation(self.E),)
        return read_mass(numbers).to_parent(Placement(dense, dense, self.r))

    # -- motion -------------------------------------------------------------------------------

    @cached_property
    def carrier(self) -> tuple[Motion, Motion]:
        """Velocity and acceleration of what carries item 0, in its frame."""
        state, zero = self.state, self.lanes.constant(0.0)
        still = (zero,) * 6
        V, A = split(state.base_velocity or still), split(state.base_acceleration or still)
        A = (sub(A[0], state.g), A[1])
        if self.base is None:
            return V, A
        X = placement(0, self.base, state.q, self.lanes)
        return X.motion_to_body(*V), X.motion_to_body(*A)

    @cached_property
    def base_motion(self) -> tuple[Motion, Motion]:
        """Velocity and acceleration of item 0."""
        V, A = self.carrier
        if self.base is None:
            return V, A
        own = split(self.of_floating(self.state.qd))
        A = add_wrenches(A, carried(V, own))
        if self.qdd is not None:
            A = add_wrenches(A, split(self.of_floating(self.qdd)))
        return add_wrenches(V, own), A

    def of_floating(self, values: Numbers) -> Numbers:
        """Return the entries of a floating base."""
        assert self.base is not None
        return values[self.base.v_index : self.base.v_index + 6]

    @cached_property
    def path_velocity(self) -> Motion:
        """Velocity of each body in the base's frame."""
        total = self.along_paths("velocity", scale6(self.rates("qd"), self.path_axis))
        return add_wrenches(total, self.base_motion[0])

    @cached_property
    def velocity(self) -> Motion:
        """Velocity of each body."""
        return self.moved(self.path_velocity)

    @cached_property
    def drift(self) -> Motion:
        """Derivative of each joint's axis."""
        return carried(self.velocity, self.axis)

    @cached_property
    def acceleration(self) -> Motion:
        """Acceleration of each body."""
        drift = carried(self.path_velocity, self.path_axis)
        own = scale6(self.rates("qd"), drift)
        if self.qdd is not None:
            own = add_wrenches(own, scale6(self.rates("qdd"), self.path_axis))
        total = self.along_paths("acceleration", own)
        return self.moved(add_wrenches(total, self.base_motion[1]))

    def along_paths(self, name: str, own: Motion) -> Motion:
        """Return the sums of motions in the base's frame along the paths."""
        self.lanes.begin(f"{name}: sums along the paths", -1)
        return split(self.lanes.outward(name, flat(*own), path_sums))

    def wrench(self) -> Wrench:
        """Return the wrench on each body, less the external one."""
        v, a = self.velocity, self.acceleration
        self.lanes.begin("inertia and wrench of each body", -1)
        momentum = self.mass.wrench(*v)
        total = add_wrenches(self.mass.wrench(*a), rotated_wrench(v, momentum))
        if self.state.f_ext is None:
            return total
        external = self._external()
        return sub(total[0], external[0]), sub(total[1], external[1])

    def _external(self) -> Wrench:
        first = self.base is not None
        given = [
            self.lanes.read(
                "f_ext",
                [k if first else None, *(6 * (i + first) + k for i in range(len(self.joints)))],
            )
            for k in range(6)
        ]
        rotation = self.vector_of_bodies(lambda b: flat(*transpose(b.link_rotation)), 9)
        back, _ = _pose([*rotation, *rotation[:3]])
        force, moment = (apply(self.E, apply(back, part)) for part in split(given))
        return force, add(moment, cross(self.r, force))

    def composite(self, own: MassRates | Mass, wrench: Wrench | None = None) -> Sums:
        """Return the sums of the bodies' masses, with their rates or wrenches, over subtrees.

        Args:
            own:    of each body.
            wrench: to be summed with a mass.
        """
        values = own.flat() if isinstance(own, MassRates) else flat((own.m,), own.h, own.I)

        def transfer(found: list[Scalar]) -> list[Scalar]:
            shift = sub(self.origins[0], self.origins[1])
            if isinstance(own, MassRates):
                return MassRates.read(found).to_parent(shift).flat()
            mass = read_mass(found).to_parent(Placement((), (), shift))
            rest = wrench_at(shift, split(found[10:])) if wrench else ()
            return flat((mass.m,), mass.h, mass.I, *rest)

        self.lanes.begin("composite bodies: sums over subtrees", -1)
        more = flat(*wrench) if wrench else []
        return self.lanes.inward(
            "composite", [*values, *more], constants=1, stages=self.stages, transfer=transfer
        )

    # -- joints -------------------------------------------------------------------------------

    @cached_property
    def owned(self) -> list[int | None]:
        """The velocity of each item; none for the base and for mimic joints."""
        return [None, *(None if body.mimics else body.v_index for body in self.joints)]

    @cached_property
    def places(self) -> list[int | None]:
        """The position of each item; none for the base and for mimic joints."""
        return [None, *(None if body.mimics else body.q_index for body in self.joints)]

    @cached_property
    def floating(self) -> list[int]:
        """The velocities of a floating base."""
        assert self.base is not None
        return [self.base.v_index + k for k in range(6)]

    def losses(self, form: Callable[..., Scalar], velocities: Sequence[int | None]) -> Scalar:
        """Return damping and friction of some velocities, or their derivatives."""
        rate = self.lanes.read("qd", velocities)
        own = [self.own(name, velocities) for name in ("damping", "joint_friction")]
        return form(rate, *own, self.tree.options.friction_width, self.lanes)

    def own(self, name: str, velocities: Sequence[int | None]) -> Scalar:
        """Return a parameter of some velocities, one in each lane."""
        if name in self.state.given:
            return self.lanes.read(name, velocities)
        values = getattr(self.tree, name)
        return self.lanes.numbers([0.0 if j is None else values[j] for j in velocities])

    def armature(self, velocities: Sequence[int | None]) -> Scalar:
        """Return the armatures of some velocities, with what implicit damping adds."""
        own = self.own("armature", velocities)
        if self.damping_step is None:
            return own
        return own + self.damping_step * self.own("damping", velocities)

    def write_torques(self, velocities: Sequence[int | None], tau: Scalar) -> None:
        """Write some joint torques, with losses and the torques of armatures."""
        tau = tau + self.losses(loss_of, velocities)
        if self.qdd is not None:
            rate = self.lanes.read("qdd", velocities)
            tau = tau + self.own("armature", velocities) * rate
        self.lanes.write("tau", velocities, tau)

    # -- the floating base --------------------------------------------------------------------

    def on_joints(self) -> AbstractContextManager[None]:
        """Enter a branch of the lanes with joints."""
        return self.lanes.some([False, *[True] * len(self.joints)])

    @contextmanager
    def on_base(self) -> Iterator[str]:
        """Enter a branch of six lanes; return the column of each."""
        with self.lanes.some([True] * 6):
            yield self.lanes.index(self.floating)

    def of_base(self, wrench: Wrench) -> Iterator[tuple[str, Scalar]]:
        """Yield the velocities of a floating base with their shares of a wrench."""
        if self.base is not None:
            yield from zip(map(str, self.floating), flat(*wrench), strict=True)

    def units_of_base(self) -> Iterator[tuple[str, Motion]]:
        """Yield the velocities of a floating base with their axes."""
        for at in self.floating if self.base is not None else ():
            first = self.floating[0]
            yield str(at), split([self.lanes.constant(float(at == first + k)) for k in range(6)])

    def base_changes(self, unit: Motion) -> tuple[tuple[Motion, Motion], ...]:
        """Return the changes of motion by the position and by a velocity of the base's joint.

        The base's joint has a constant motion subspace, and moves with the base.
        """
        (V, A), (total, _) = self.carrier, self.base_motion
        drift = carried(V, unit)
        turn = add_wrenches(carried(A, unit), carried(V, drift))
        return (drift, turn), (unit, add_wrenches(drift, carried(total, unit)))

    # -- mimic joints -------------------------------------------------------------------------

    @cached_property
    def followers(self) -> list[tuple[int, int, float]]:
        """Item, leader's item and multiplier of each mimic joint."""
        leaders = {b.v_index: i for i, b in enumerate(self.joints, start=1) if not b.mimics}
        return [
            (i, leaders[b.v_index], b.multiplier)
            for i, b in enumerate(self.joints, start=1)
            if b.mimics
        ]

    def led(self, value: Scalar) -> Scalar:
        """Return a joint torque with those of the joints that mimic it."""
        if not self.followers:
            return value
        lanes = self.lanes
        shared = lanes.publish("torque", [value])
        lanes.meet()
        listed: list[list[tuple[int, float]]] = [[] for _ in range(lanes.count)]
        for item, leader, factor in self.followers:
            listed[leader].append((item, factor))
        for k in range(max(map(len, listed))):
            chosen = [row[k] if k < len(row) else (0, 0.0) for row in listed]
            factors = lanes.numbers([factor for _, factor in chosen])
            at = lanes.index([item for item, _ in chosen])
            value = value + factors * lanes.number_at(shared.area, at)
        return value

    def row(self, item: str) -> str:
        """Return the row of an item in matrices of joints: its velocity, or one of its own."""
        tree, extra = self.tree, 0
        rows: list[int | None] = [None]
        for body in self.joints:
            rows.append(tree.nv + extra if body.mimics else body.v_index)
            extra += body.mimics
        return self.lanes.index(rows, item)

    @property
    def axes(self) -> int:
        """Rows of matrices of joints: the velocities, then one for each mimic joint."""
        return self.tree.nv + len(self.followers)

    def fold(self, *tiles: Tile) -> None:
        """End the phase; add the rows and columns of mimic joints to their leaders'."""
        self.lanes.meet()
        for tile in tiles:
            for k, (_, leader, factor) in enumerate(self.followers):
                at = self.joints[leader - 1].v_index
                self.lanes.add_row(tile, self.tree.nv + k, at, factor)


def scale6(s: Scalar, motion: Motion) -> Motion:
    """Return a multiple of a motion."""
    return scale(s, motion[0]), scale(s, motion[1])
