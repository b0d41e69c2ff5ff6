"""Algorithms in the frame of the base, with one lane for each body.

The gradient of inverse dynamics is that of Singh, Russell and Wensing 2022. Forward dynamics is
that of ``gridgen.dynamics.aba``, for all bodies of a depth at once. In one frame, a body transmits
its articulated inertia and its bias wrench to its parent as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gridgen.dynamics.aba import ArticulatedInertia, free_armature, rigid_inertia
from gridgen.dynamics.base_bodies import Bodies, scale6
from gridgen.dynamics.losses import joint_loss, loss_of, slope_of
from gridgen.dynamics.motion_derivatives import (
    MassRates,
    add_wrenches,
    along,
    flat,
    read_mass,
    rotated_wrench,
    wrench_at,
)
from gridgen.dynamics.state import Numbers, State
from gridgen.symbolic.lanes import LaneOperations, Published, Tile
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import Motion, Placement, Wrench, add, carried, cross, dot, split


def inverse_dynamics(state: State, qdd: Numbers | None = None) -> None:
    """Write the joint torques ``tau`` that produce ``qdd``; see ``gridgen.dynamics.rnea``."""
    bodies = Bodies(state, qdd)
    lanes = bodies.lanes
    wrench = bodies.wrench()
    lanes.begin("transmitted wrenches: sums over subtrees", -1)
    sums = lanes.inward("wrench", flat(*wrench))
    lanes.begin("joint torques", -1)
    tau = bodies.led(along(bodies.axis, split(sums.own())))
    bodies.write_torques(bodies.owned, tau)
    if bodies.base is not None:
        bodies.write_torques(bodies.floating, sums.of_root())


def bias_forces(state: State) -> None:
    """Write the joint torques ``tau`` for zero accelerations."""
    inverse_dynamics(state)


def mass_matrix(state: State, *, is_shared: bool) -> None:
    """Write the mass matrix ``M``; see ``gridgen.dynamics.crba``."""
    bodies = Bodies.of_limbs(state)
    lanes = bodies.lanes
    sums = bodies.composite(bodies.mass)
    lanes.begin("wrenches of the joints' unit accelerations", -1)
    axis, wrench = bodies.axis, read_mass(sums.own()).wrench(*bodies.axis)
    root = read_mass(sums.root()).wrench(*lanes.units()) if bodies.base else None
    shared = lanes.publish("axis", flat(*axis))
    lanes.meet()
    lanes.begin("entries of joints and their ancestors", -1)
    M = lanes.tile("M", bodies.axes, is_shared=is_shared)
    lanes.clear(M)
    enter_masses(bodies, M, shared, wrench, root)
    bodies.fold(M)
    lanes.begin("results", -1)
    lanes.deliver(M, "M", state.tree.nv)


def enter_masses(
    bodies: Bodies,
    M: Tile,
    axes: Published,
    wrench: Wrench,
    root: Wrench | None,
    *,
    is_lower: bool = False,
) -> None:
    """Write the entries of the mass matrix.

    Args:
        bodies:   the bodies.
        M:        a matrix of zeros.
        axes:     records that begin with the axes of the joints.
        wrench:   wrench of the unit acceleration of each joint.
        root:     that of a floating base's velocities, one in each lane.
        is_lower: whether only entries of joints and their ancestors matter.
    """
    lanes = bodies.lanes
    with bodies.on_joints():
        i = bodies.row("lane")
        armature = bodies.armature(bodies.owned)
        lanes.enter(M, i, i, along(bodies.axis, wrench) + armature)
        for hop in range(bodies.groups.hops):
            for above, seen in lanes.climb(axes, bodies.groups.ancestors(hop)):
                entry = along(split(seen[:6]), wrench)
                _enter_both(lanes, M, i, bodies.row(above), entry, is_lower)
            wrench = bodies.raised(wrench, hop)
        for k, entry in bodies.of_base(wrench):
            _enter_both(lanes, M, i, k, entry, is_lower)
    if root is not None:
        with bodies.on_base() as column:
            for k, entry in bodies.of_base(root):
                lanes.enter(M, k, column, entry)
            armature = lanes.entry(M, column, column) + bodies.armature(bodies.floating)
            lanes.enter(M, column, column, armature)


def _enter_both(
    lanes: LaneOperations, M: Tile, row: str, column: str, entry: Scalar, is_lower: bool
) -> None:
    lanes.enter(M, row, column, entry)
    if not is_lower:
        lanes.enter(M, column, row, entry)


def inverse_dynamics_gradient(state: State, qdd: Numbers, *, is_shared: bool) -> None:
    """Write ``dtau_dq`` and ``dtau_dqd``; see ``gridgen.dynamics.derivatives``."""
    bodies = Bodies(state, qdd)
    lanes = bodies.lanes
    own = MassRates.of(bodies.mass, bodies.velocity, bodies.wrench())
    sums = bodies.composite(own)
    arrays = ("dtau_dq", "dtau_dqd")

    def tiles() -> list[Tile]:
        names = ("by_position", "by_velocity") if is_shared else arrays
        return [lanes.tile(name, bodies.axes, is_shared=is_shared) for name in names]

    total = MassRates.read(sums.own())
    root = MassRates.read(sums.root()) if bodies.base else None
    made = enter_gradient(bodies, total, root, bodies.acceleration, tiles)
    lanes.begin("results", -1)
    for tile, array in zip(made, arrays, strict=True):
        lanes.deliver(tile, array, state.tree.nv)


def enter_gradient(
    bodies: Bodies,
    total: MassRates,
    root: MassRates | None,
    acceleration: Motion,
    tiles: Callable[[], list[Tile]],
) -> list[Tile]:
    """Return matrices with the gradient of inverse dynamics by positions and velocities.

    The entries of a joint and an ancestor are responses of the joint's subtree, seen from both.

    Args:
        bodies:       the bodies.
        total:        composite bodies, of each lane's item.
        root:         that of a floating base.
        acceleration: of each body.
        tiles:        makes the matrices, after values that precede them.
    """
    lanes = bodies.lanes
    lanes.begin("responses of the subtrees to their joints", -1)
    axis, drift = bodies.axis, bodies.drift
    turn = add_wrenches(carried(acceleration, axis), carried(bodies.velocity, drift))
    lever, row = total.mass.wrench(*axis), total.row(axis)
    by_velocity = total.wrench_of_change(axis, drift, 2.0)
    by_position = add_wrenches(
        total.wrench_of_change(drift, turn), rotated_wrench(axis, total.wrench)
    )
    columns = []
    if root is not None:
        changes = bodies.base_changes(lanes.units())
        columns = [root.wrench_of_change(*change) for change in changes]
    shared = lanes.publish("joint", flat(*axis, *drift, *turn))
    lanes.meet()
    lanes.begin("entries of joints and their ancestors", -1)
    made = q, qd = tiles()
    lanes.clear(*made)
    with bodies.on_joints():
        i = bodies.row("lane")
        slopes = bodies.losses(slope_of, bodies.owned)
        lanes.enter(q, i, i, along(axis, by_position))
        lanes.enter(qd, i, i, along(axis, by_velocity) + slopes)
        for hop in range(bodies.groups.hops):
            for above, seen in lanes.climb(shared, bodies.groups.ancestors(hop)):
                j = bodies.row(above)
                S, dS, ddS = (split(seen[k : k + 6]) for k in range(0, 18, 6))
                lanes.enter(q, j, i, along(S, by_position))
                lanes.enter(q, i, j, dot(row, dS[1]) + along(ddS, lever))
                lanes.enter(qd, j, i, along(S, by_velocity))
                lanes.enter(qd, i, j, dot(row, S[1]) + 2.0 * along(dS, lever))
            lever, by_position, by_velocity = (
                bodies.raised(wrench, hop) for wrench in (lever, by_position, by_velocity)
            )
        for tile, response, change in zip(made, (by_position, by_velocity), (0, 1), strict=True):
            for k, entry in bodies.of_base(response):
                lanes.enter(tile, k, i, entry)
            for k, unit in bodies.units_of_base():
                first, second = bodies.base_changes(unit)[change]
                lanes.enter(tile, i, k, dot(row, first[1]) + along(second, lever))
    if columns:
        with bodies.on_base() as column:
            for tile, wrench in zip(made, columns, strict=True):
                for k, entry in bodies.of_base(wrench):
                    lanes.enter(tile, k, column, entry)
            slopes = bodies.losses(slope_of, bodies.floating)
            lanes.enter(qd, column, column, lanes.entry(qd, column, column) + slopes)
    bodies.fold(*made)
    return made


# Numbers of an articulated inertia.
_INERTIA = 21


def forward_dynamics(state: State, tau: Numbers) -> None:
    """Write the joint accelerations ``qdd``; see ``gridgen.dynamics.aba``."""
    bodies = Bodies.alone(state)
    lanes = bodies.lanes
    of_joints, of_base = accelerations(bodies, tau)
    lanes.begin("results", -1)
    lanes.write("qdd", bodies.owned, of_joints)
    if bodies.base is not None:
        lanes.write("qdd", bodies.floating, lanes.chosen(of_base))


def accelerations(bodies: Bodies, tau: Numbers) -> tuple[Scalar, list[Scalar]]:
    """Return the acceleration of each lane's joint, and six of a floating base.

    Args:
        bodies: the bodies, with an origin each.
        tau:    joint torques, nv scalars.
    """
    lanes, axis, zero = bodies.lanes, bodies.axis, bodies.lanes.constant(0.0)
    armature = bodies.armature(bodies.owned)
    torque = lanes.read("tau", bodies.owned)
    torque = torque - bodies.losses(loss_of, bodies.owned)
    bias = bodies.wrench()
    lanes.begin("articulated bodies: levels from the tips", -1)
    inertia = rigid_inertia(bodies.mass, lanes)
    shift = bodies.shift
    answers = lanes.reserve("answer", 7)

    def transmit(sums: list[Scalar], send: Callable[[Sequence[Scalar]], None]) -> None:
        own, wrench = ArticulatedInertia.read(sums), split(sums[_INERTIA:])
        U = own.wrench(*axis)
        inverse = 1.0 / (along(axis, U) + armature)
        gain, rate = scale6(inverse, U), inverse * (torque - along(axis, wrench))
        lanes.publish("answer", [*flat(*gain), rate], answers.area)
        left = own.across_joint(flat(*U), flat(*gain), zero)
        wrench = add_wrenches(wrench, scale6(rate, U))
        moved = left.to_parent(Placement((), (), shift))
        send([*moved.flat(), *flat(*wrench_at(shift, wrench))])

    sent = lanes.from_tips("body", [*inertia.flat(), *flat(*bias)], transmit)
    start = [zero] * 6
    if bodies.base is not None:
        lanes.begin("acceleration of the base", -1)
        start = _of_base(bodies, lanes.sums_of_root(sent), tau)
    lanes.begin("accelerations: levels from the base", -1)

    def step(above: list[Scalar]) -> list[Scalar]:
        slide, spin = split(above[:6])
        slide = add(slide, cross(spin, shift))
        *gain, rate = answers.of("lane")
        own = rate - along((slide, spin), split(gain))
        return [*flat(*add_wrenches((slide, spin), scale6(own, axis))), own]

    return lanes.from_root("acceleration", [*start, zero], step)[6], list(start)


def _of_base(bodies: Bodies, sums: list[Scalar], tau: Numbers) -> list[Scalar]:
    """Return the acceleration of a floating base, for the sums of the articulated bodies."""
    state = bodies.state
    assert bodies.base is not None
    armature, _ = free_armature(state, bodies.base, bodies.damping_step)
    right = []
    for j, force in zip(bodies.floating, sums[_INERTIA:], strict=True):
        loss = joint_loss(state, j)
        right.append((tau[j] if loss is None else tau[j] - loss) - force)
    return ArticulatedInertia.read(sums).solve(armature, right)
