"""Forces of actuators, springs and friction on joints, of a state and controls.

An actuator with the gear g has the length l = g q and the velocity g qd. With the control c, its
force is f = (a0 + a1 l + a2 g qd) c + b0 + b1 l + b2 g qd. Ranges limit c, f, and the sum of the
forces g f on a joint. A spring adds -k (q - q0), for a ball joint
-k times the rotation vector from q0 to q.

Source: MuJoCo's documentation, chapter Computation, Actuation model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gridgen.dynamics.state import Numbers, State
from gridgen.symbolic.scalars import Scalar, Scalars


def actuated(state: State, tau: Numbers) -> Numbers:
    """Return joint torques with those of actuators and springs."""
    tree, scalars = state.tree, state.scalars
    if not (tree.actuators or tree.springs):
        return tau
    scalars.begin("actuators", -1)
    total = [tau[j] for j in range(tree.nv)]
    for j, force in _terms(state)[0].items():
        total[j] = total[j] + force
    for first, stiffness, stretches in springs_of(state):
        for j, stretch in enumerate(stretches, first):
            total[j] = total[j] - stiffness * stretch
    return total


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
    _, rates = _terms(state)
    if not rates:
        return state, tau
    damping = [state.own("damping", j) for j in range(state.tree.nv)]
    total = [*tau]
    for j, rate in rates.items():
        damping[j], total[j] = damping[j] - rate, total[j] - rate * state.qd[j]
    return replace(state, given={**state.given, "damping": damping}), total


def actuator_torques(state: State) -> list[Scalar]:
    """Return the joint torques of the actuators, nv scalars [N m or N]."""
    state.scalars.begin("actuators", -1)
    forces, _ = _terms(state)
    return [forces.get(j, state.scalars.constant(0.0)) for j in range(state.tree.nv)]


def actuator_forces(state: State) -> list[Scalar]:
    """Return the force of each actuator, before the range of its joint."""
    return [_force(state, number)[0] for number in range(len(state.tree.actuators))]


def _terms(state: State) -> tuple[dict[int, Scalar], dict[int, Scalar]]:
    """Return the forces of actuators, and those of their derivatives by qd that are implicit.

    Both by the index of a velocity.
    """
    tree, scalars = state.tree, state.scalars
    forces: dict[int, Scalar] = {}
    rates: dict[int, Scalar] = {}
    ranges = {}
    for number, one in enumerate(tree.actuators):
        j, gear = tree.bodies[one.body].v_index, gear_of(state, number)
        force, rate = _force(state, number)
        forces[j] = forces[j] + gear * force if j in forces else gear * force
        if rate is not None:
            rate = gear * gear * rate
            rates[j] = rates[j] + rate if j in rates else rate
        ranges[j] = one.joint_range
    for j, bounds in ranges.items():
        if j in rates:
            rates[j] = _inside(forces[j], bounds, rates[j], scalars)
        forces[j] = clamped(forces[j], bounds, scalars)
    return forces, rates


def gear_of(state: State, number: int) -> Scalar:
    """Return the gear of an actuator."""
    if gears := state.given.get("gear"):
        return gears[number]
    return state.scalars.constant(state.tree.actuators[number].gear)


def _force(state: State, number: int) -> tuple[Scalar, Scalar | None]:
    """Return the force of an actuator, and its implicit derivative by its velocity, if any."""
    scalars, one = state.scalars, state.tree.actuators[number]
    body, gear, control = (
        state.tree.bodies[one.body],
        gear_of(state, number),
        state.given["ctrl"][number],
    )
    gain: Sequence[Scalar | None] = [scalars.constant(x) if x else None for x in one.gain]
    bias: Sequence[Scalar | None] = [scalars.constant(x) if x else None for x in one.bias]
    if gains := state.given.get("actuator_gains"):
        gain, bias = gains[6 * number : 6 * number + 3], gains[6 * number + 3 : 6 * number + 6]
    moving = scalars.constant(1.0), gear * state.q[body.q_index], gear * state.qd[body.v_index]
    control = clamped(control, one.ctrl_range, scalars)
    force = _sum(gain, moving, scalars) * control + _sum(bias, moving, scalars)
    rate = None
    if one.is_implicit and (gain[2] is not None or bias[2] is not None):
        rate = _sum(gain[2:], moving[:1], scalars) * control + _sum(bias[2:], moving[:1], scalars)
        rate = _inside(force, one.force_range, rate, scalars)
    return clamped(force, one.force_range, scalars), rate


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


# Beyond it, the hyperbolic tangent is 1 in float64; 2^5 times the range of the fraction.
_LARGEST = 20.0


def joint_loss(state: State, velocity: int) -> Scalar | None:
    """Return damping and friction of a velocity as a torque; ``None`` if it has neither.

    Friction is Coulomb's c sign(qd), or c tanh(qd / w) with the option ``friction_width``.
    """
    scalars, width, loss = state.scalars, state.tree.options.friction_width, None
    rate = state.qd[velocity]
    if state.has("damping", velocity):
        loss = state.own("damping", velocity) * rate
    if state.has("joint_friction", velocity):
        friction = state.own("joint_friction", velocity) * _direction(rate, width, scalars)
        loss = friction if loss is None else loss + friction
    return loss


def loss_of(
    rate: Scalar, damping: Scalar, friction: Scalar, width: float, scalars: Scalars
) -> Scalar:
    """Return damping and friction at a velocity, as ``joint_loss``."""
    return damping * rate + friction * _direction(rate, width, scalars)


def slope_of(
    rate: Scalar, damping: Scalar, friction: Scalar, width: float, scalars: Scalars
) -> Scalar:
    """Return the derivative of ``loss_of`` by the velocity."""
    if not width:
        return damping
    sign = _direction(rate, width, scalars)
    return damping + friction * (1.0 / width) * ((1.0 - sign) * (1.0 + sign))


def _direction(rate: Scalar, width: float, scalars: Scalars) -> Scalar:
    """Return the sign of a velocity, or a smooth one."""
    return tanh(rate * (1.0 / width), scalars) if width else scalars.sign(rate)


def add_loss_slopes(state: State, matrix: list[list[Scalar]], factor: Scalar | float = 1.0) -> None:
    """Add the derivatives of damping and friction by velocities to a matrix's diagonal.

    Coulomb friction without a width is constant.
    """
    for j in state.tree.velocities.outward():
        if state.has("damping", j):
            matrix[j][j] = matrix[j][j] + factor * state.own("damping", j)
        if (found := _smooth(state, j)) is not None:
            matrix[j][j] = matrix[j][j] + factor * found[1]


def curvature(state: State, velocity: int) -> Scalar | None:
    """Return the second derivative of a velocity's friction; ``None`` if it has none."""
    if (found := _smooth(state, velocity)) is None:
        return None
    sign, slope = found
    return (-2.0 / state.tree.options.friction_width) * sign * slope


def _smooth(state: State, velocity: int) -> tuple[Scalar, Scalar] | None:
    """Return tanh(qd / w), and the derivative of friction; ``None`` without smooth friction."""
    width = state.tree.options.friction_width
    if not (width and state.has("joint_friction", velocity)):
        return None
    sign = _direction(state.qd[velocity], width, state.scalars)
    own = state.own("joint_friction", velocity) * (1.0 / width)
    return sign, own * ((1.0 - sign) * (1.0 + sign))


def tanh(x: Scalar, scalars: Scalars) -> Scalar:
    """Return the hyperbolic tangent, to a few roundings also of small numbers.

    Lambert's continued fraction of x / 32, then five doublings, tanh 2y = 2 t / (1 + t^2).
    """
    most = scalars.constant(_LARGEST)
    x = scalars.select(most - x, most, x)
    y = scalars.select(x + most, -most, x) * (1.0 / 32.0)
    s = y * y
    above = y * (((s + 378.0) * s + 17325.0) * s + 135135.0)
    below = ((28.0 * s + 3150.0) * s + 62370.0) * s + 135135.0
    t = above / below
    for _ in range(5):
        t = 2.0 * t / (1.0 + t * t)
    return t
