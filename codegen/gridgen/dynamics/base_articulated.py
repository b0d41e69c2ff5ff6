"""Forward dynamics by articulated bodies in the frame of the base, with one lane for each body.

The recursions are those of ``gridgen.dynamics.aba``, for all bodies of a depth at once. In one
frame, a body transmits its articulated inertia and its bias wrench to its parent as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gridgen.dynamics.aba import ArticulatedInertia, free_armature, rigid_inertia
from gridgen.dynamics.base_bodies import Bodies, scale6
from gridgen.dynamics.losses import joint_loss, loss_of
from gridgen.dynamics.mass_rates import flat, wrench_at
from gridgen.dynamics.motion_derivatives import add_wrenches, along
from gridgen.dynamics.state import Numbers, State
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import Placement, add, cross, split

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
