"""Forces of actuators, springs, tendons and friction on joints, of a state and controls.

An actuator with the gear g has the length l = g s, with the sum s of factors times joint positions.
With the control c, its force is f = (a0 + a1 l + a2 dl/dt) c + b0 + b1 l + b2 dl/dt. Ranges limit
c, f, and the sum of the forces g f ds/dq on a joint. One that pushes a link has the length 0, and
the rate that does the work of its wrench. A spring adds -k (q - q0), for a ball joint -k times the
rotation vector from q0 to q.

Source: MuJoCo's documentation, chapter Computation, Actuation model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gridgen.dynamics.energy import gravity_forces
from gridgen.dynamics.losses import direction
from gridgen.dynamics.state import Numbers, State
from gridgen.model.kinematic_tree import Actuator, Tendon
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import constants, dot

#: Factors of joint velocities by their index: a row of a Jacobian.
Moments = Mapping[int, Scalar]


def actuated(state: State, tau: Numbers) -> Numbers:
    """Return joint torques with those of actuators, springs, tendons, compensated weights."""
    tree, scalars = state.tree, state.scalars
    if not tree.has_forces:
        return tau
    scalars.begin("actuators", -1)
    total = [tau[j] for j in range(tree.nv)]
    for j, force in _terms(state)[0].items():
        total[j] = total[j] + force
    for first, stiffness, stretches in springs_of(state):
        for j, stretch in enumerate(stretches, first):
            total[j] = total[j] - stiffness * stretch
    for tendon in tree.tendons:
        moments = tendon_moments(state, tendon)
        force = _pull(state, tendon, _product(moments, state.qd))
        for j, moment in moments.items():
            total[j] = total[j] + moment * force
    if tree.lifts:
        total = [t + lift for t, lift in zip(total, _lifting(state), strict=True)]
    return total


def _pull(state: State, tendon: Tendon, rate: Scalar) -> Scalar:
    """Return the force of a tendon; its dry friction is a soft constraint where there are some."""
    scalars, force = state.scalars, state.scalars.constant(0.0)
    if tendon.stiffness:
        force = force - scalars.constant(tendon.stiffness) * stretch_of(state, tendon)
    if tendon.damping:
        force = force - scalars.constant(tendon.damping) * rate
    if tendon.friction and not state.tree.contact_model.acts:
        sign = direction(rate, state.tree.options.friction_width, scalars)
        force = force - scalars.constant(tendon.friction) * sign
    return force


def _lifting(state: State) -> Sequence[Scalar]:
    """Return the joint torques that hold the masses whose weight is compensated."""
    tree = state.tree
    bodies = tuple(
        replace(body, mass=lump.mass, first_moment=lump.first_moment, parts=())
        for body, lump in zip(tree.bodies, tree.lifts, strict=True)
    )
    return gravity_forces(replace(state, tree=replace(tree, bodies=bodies)))


def tendon_moments(state: State, tendon: Tendon) -> Moments:
    """Return the derivative of a tendon's length by the joint positions, parents first."""
    rank = {j: rank for rank, j in enumerate(state.tree.velocities.order)}
    own = {state.tree.bodies[body].v_index: factor for body, factor in tendon.terms}
    return {j: state.scalars.constant(own[j]) for j in sorted(own, key=rank.__getitem__)}


def tendon_length(state: State, tendon: Tendon) -> Scalar:
    """Return the length of a tendon."""
    return _length(state, tendon) + state.scalars.constant(tendon.offset)


def stretch_of(state: State, tendon: Tendon) -> Scalar:
    """Return how far a tendon is beyond the lengths without a force of its spring."""
    scalars, length = state.scalars, tendon_length(state, tendon)
    shorter, longer = (length - scalars.constant(end) for end in tendon.rest)
    if tendon.rest[0] == tendon.rest[1]:
        return shorter
    inside = scalars.select(-longer, longer, scalars.constant(0.0))
    return scalars.select(shorter, shorter, inside)


def _length(state: State, one: Actuator | Tendon) -> Scalar:
    total = state.scalars.constant(0.0)
    for body, factor in one.terms:
        q = state.q[state.tree.bodies[body].q_index]
        total = total + (q if factor == 1.0 else state.scalars.constant(factor) * q)
    return total


def _product(moments: Moments, v: Numbers) -> Scalar:
    (first, own), *others = moments.items()
    total = own * v[first]
    for j, moment in others:
        total = total + moment * v[j]
    return total


def transmission(state: State, number: int) -> tuple[Scalar, Scalar, Moments]:
    """Return the length of an actuator, its rate, and the joint forces of the force 1."""
    tree, scalars = state.tree, state.scalars
    one, gear = tree.actuators[number], gear_of(state, number)
    if one.pushed >= 0:
        moments = {j: gear * x for j, x in _pushed(state, one).items()}
        return scalars.constant(0.0), _product(moments, state.qd), moments
    moments = {
        tree.bodies[body].v_index: gear if factor == 1.0 else gear * scalars.constant(factor)
        for body, factor in one.terms
    }
    length = _length(state, one)
    if one.offset:
        length = length + scalars.constant(one.offset)
    if len(moments) == 1:
        ((body, factor),) = one.terms
        rate = state.qd[tree.bodies[body].v_index]
        rate = gear * (rate if factor == 1.0 else scalars.constant(factor) * rate)
    else:
        rate = _product(moments, state.qd)
    return gear * length, rate, moments


def _pushed(state: State, one: Actuator) -> Moments:
    """Return the joint forces of the wrench of an actuator on a link."""
    tree, scalars = state.tree, state.scalars
    wrench = constants(one.wrench[:3], scalars), constants(one.wrench[3:], scalars)
    found: dict[int, Scalar] = {}
    index = one.pushed
    while True:
        body = tree.bodies[index]
        for j, (slide, spin) in enumerate(body.joint_type.subspace(scalars), body.v_index):
            share = dot(slide, wrench[0]) + dot(spin, wrench[1])
            if body.mimics:
                share = scalars.constant(body.multiplier) * share
            found[j] = found[j] + share if j in found else share
        if body.parent < 0:
            return found
        wrench, index = state.placed[index].force_to_parent(*wrench), body.parent


def springs_of(state: State) -> Iterator[tuple[int, Scalar, Numbers]]:
    """Yield the first velocity, the stiffness, and how far each spring is stretched."""
    tree, scalars = state.tree, state.scalars
    own = state.given.get("stiffness") or [scalars.constant(one.stiffness) for one in tree.springs]
    for spring, stiffness in zip(tree.springs, own, strict=True):
        body, rest = tree.bodies[spring.body], [*map(scalars.constant, spring.rest)]
        place = [state.q[body.q_index + k] for k in range(body.nq)]
        yield body.v_index, stiffness, body.joint_type.difference(rest, place, scalars)


def damped(state: State, tau: Numbers) -> tuple[State, Numbers]:
    """Return a state whose damping includes that of actuators, and the torques without it.

    An actuator at an end of a range has none, as of MuJoCo.
    """
    rates: dict[int, Scalar] = {}
    for moments, rate in _terms(state)[1]:
        if len(moments) == 1:
            ((j, moment),) = moments.items()
            rate = moment * moment * rate
            rates[j] = rates[j] + rate if j in rates else rate
    if not rates:
        return state, tau
    damping = [state.own("damping", j) for j in range(state.tree.nv)]
    total = [*tau]
    for j, rate in rates.items():
        damping[j], total[j] = damping[j] - rate, total[j] - rate * state.qd[j]
    return replace(state, given={**state.given, "damping": damping}), total


def couplings(state: State) -> list[tuple[Moments, Scalar]]:
    """Return the implicit damping of several joints: moments J, parents first, and d of J^T d J."""
    tree, scalars = state.tree, state.scalars
    rank = {j: rank for rank, j in enumerate(tree.velocities.order)}
    found = [(moments, -rate) for moments, rate in _terms(state)[1] if len(moments) > 1]
    found += [
        (tendon_moments(state, one), scalars.constant(one.damping))
        for one in tree.tendons
        if one.damping and one.is_implicit
    ]
    return [
        ({j: moments[j] for j in sorted(moments, key=rank.__getitem__)}, damping)
        for moments, damping in found
    ]


def actuator_torques(state: State) -> list[Scalar]:
    """Return the joint torques of the actuators, nv scalars [N m or N]."""
    state.scalars.begin("actuators", -1)
    forces, _ = _terms(state)
    return [forces.get(j, state.scalars.constant(0.0)) for j in range(state.tree.nv)]


def actuator_forces(state: State) -> list[Scalar]:
    """Return the force of each actuator, before the range of its joint."""
    return [_force(state, number)[0] for number in range(len(state.tree.actuators))]


def _terms(state: State) -> tuple[dict[int, Scalar], list[tuple[Moments, Scalar]]]:
    """Return the forces of actuators by velocity, and their implicit derivatives by their rates.

    The derivative of a force by the rate of its actuator is with the moments of the actuator.
    """
    tree, scalars = state.tree, state.scalars
    forces: dict[int, Scalar] = {}
    rates: list[tuple[Moments, Scalar]] = []
    ranges = {}
    for number, one in enumerate(tree.actuators):
        force, rate, moments = _force(state, number)
        for j, moment in moments.items():
            forces[j] = forces[j] + moment * force if j in forces else moment * force
        if rate is not None:
            rates.append((moments, rate))
        for (body, _), bounds in zip(one.terms, one.joint_ranges, strict=True):
            ranges[tree.bodies[body].v_index] = bounds
    for j, bounds in ranges.items():
        for at, (moments, rate) in enumerate(rates):
            if [*moments] == [j]:
                rates[at] = moments, _inside(forces[j], bounds, rate, scalars)
        forces[j] = clamped(forces[j], bounds, scalars)
    return forces, rates


def gear_of(state: State, number: int) -> Scalar:
    """Return the gear of an actuator."""
    if gears := state.given.get("gear"):
        return gears[number]
    return state.scalars.constant(state.tree.actuators[number].gear)


def _force(state: State, number: int) -> tuple[Scalar, Scalar | None, Moments]:
    """Return the force of an actuator, its implicit derivative by its rate, if any, its moments."""
    scalars, one = state.scalars, state.tree.actuators[number]
    control = state.given["ctrl"][number]
    gain: Sequence[Scalar | None] = [scalars.constant(x) if x else None for x in one.gain]
    bias: Sequence[Scalar | None] = [scalars.constant(x) if x else None for x in one.bias]
    if gains := state.given.get("actuator_gains"):
        gain, bias = gains[6 * number : 6 * number + 3], gains[6 * number + 3 : 6 * number + 6]
    length, speed, moments = transmission(state, number)
    moving = scalars.constant(1.0), length, speed
    control = clamped(control, one.ctrl_range, scalars)
    force = _sum(gain, moving, scalars) * control + _sum(bias, moving, scalars)
    rate = None
    if one.is_implicit and (gain[2] is not None or bias[2] is not None):
        rate = _sum(gain[2:], moving[:1], scalars) * control + _sum(bias[2:], moving[:1], scalars)
        rate = _inside(force, one.force_range, rate, scalars)
    return clamped(force, one.force_range, scalars), rate, moments


def _sum(factors: Sequence[Scalar | None], values: Sequence[Scalar], scalars: Scalars) -> Scalar:
    total = scalars.constant(0.0)
    for factor, value in zip(factors, values, strict=True):
        if factor is not None:
            total = total + factor * value
    return total


def clamped(x: Scalar, bounds: Sequence[float], scalars: Scalars) -> Scalar:
    """Return a value between bounds, which may be infinite."""
    low, high = bounds
    if low > -math.inf:
        x = scalars.select(x - low, scalars.constant(low), x)
    return scalars.select(high - x, scalars.constant(high), x) if high < math.inf else x


def _inside(x: Scalar, bounds: Sequence[float], value: Scalar, scalars: Scalars) -> Scalar:
    """Return a value where x is between bounds, otherwise 0."""
    low, high = bounds
    zero = scalars.constant(0.0)
    if low > -math.inf:
        value = scalars.select(low - x, value, zero)
    return scalars.select(x - high, value, zero) if high < math.inf else value
