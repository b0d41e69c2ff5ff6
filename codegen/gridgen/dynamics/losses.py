"""Damping and dry friction of joints, and their derivatives by velocities."""

from __future__ import annotations

from gridgen.dynamics.state import State
from gridgen.symbolic.scalars import Scalar, Scalars

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
        friction = state.own("joint_friction", velocity) * direction(rate, width, scalars)
        loss = friction if loss is None else loss + friction
    return loss


def loss_of(
    rate: Scalar, damping: Scalar, friction: Scalar, width: float, scalars: Scalars
) -> Scalar:
    """Return damping and friction at a velocity, as ``joint_loss``."""
    return damping * rate + friction * direction(rate, width, scalars)


def slope_of(
    rate: Scalar, damping: Scalar, friction: Scalar, width: float, scalars: Scalars
) -> Scalar:
    """Return the derivative of ``loss_of`` by the velocity."""
    if not width:
        return damping
    sign = direction(rate, width, scalars)
    return damping + friction * (1.0 / width) * ((1.0 - sign) * (1.0 + sign))


def direction(rate: Scalar, width: float, scalars: Scalars) -> Scalar:
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
    sign = direction(state.qd[velocity], width, state.scalars)
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
