"""Costs along trajectories, their gradients and Gauss-Newton Hessians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridgen.errors import OptionError, ShapeError
from gridgen.naming import show_value
from gridgen.robot import Robot

Array = NDArray[np.float64]
Residual = Literal[
    "q",
    "qd",
    "tau",
    "position",
    "orientation",
    "center_of_mass",
    "momentum",
    "lower_limits",
    "upper_limits",
]
Loss = Literal["quadratic", "huber", "pseudo_huber", "log_barrier"]
_LIMITS = ("lower_limits", "upper_limits")


@dataclass(frozen=True, eq=False)
class Cost:
    """A cost term: the weighted sum of a loss of each component of a residual.

    The residual of ``q`` is the tangent vector from the target to the state. That of an orientation
    is the rotation vector from the target to the frame. That of limits is the distance to the
    limit. Others are differences from the target.

    Attributes:
        residual: ``q`` (nv), ``qd`` (nv), ``tau`` (nv), ``position`` (3) or ``orientation`` (3) of
                  a frame, ``center_of_mass`` (3), ``momentum`` (6) about it, ``lower_limits`` or
                  ``upper_limits`` of the positions (nv).
        weights:  weights at each step, a number or one for each component.
        terminal: weights at the final state; none for ``tau``.
        target:   target: (nq,) of ``q``, (3, 3) of ``orientation``, otherwise like the residual.
                  May have axes (T + 1) or (B, T + 1) in front, T of ``tau``. By default zero, the
                  identity or the neutral configuration.
        frame:    link of ``position`` and ``orientation``.
        loss:     ``quadratic`` r^2 / 2; ``huber``, linear beyond ``width``; ``pseudo_huber``,
                  w^2 (sqrt(1 + (r / w)^2) - 1); ``log_barrier`` -log r, quadratic below ``width``:
                  the default of limits.
        width:    see ``loss``, in the residual's unit.

    Raises:
        OptionError: an attribute has an invalid value.
    """

    residual: Residual
    weights: ArrayLike = 1.0
    terminal: ArrayLike = 0.0
    target: ArrayLike | None = None
    frame: str = ""
    loss: Loss | None = None
    width: float = 0.1

    def __post_init__(self) -> None:
        if self.loss is None:
            barrier = self.residual in _LIMITS
            object.__setattr__(self, "loss", "log_barrier" if barrier else "quadratic")
        for name, kind in (("residual", Residual), ("loss", Loss)):
            if (value := getattr(self, name)) not in get_args(kind):
                choices = ", ".join(get_args(kind))
                raise OptionError(f"{name} is {show_value(value)}; give one of {choices}")
        if (self.residual in ("position", "orientation")) != bool(self.frame):
            raise OptionError(f"frame is {show_value(self.frame)} for {self.residual}")
        if not self.width > 0.0:
            raise OptionError(f"width is {show_value(self.width)}; give a positive number")
        for name in ("weights", "terminal"):
            weights = np.asarray(getattr(self, name), float)
            if not (np.isfinite(weights) & (weights >= 0.0)).all():
                raise OptionError(f"{name} of {self.residual} are negative or not finite")

    def losses(self, r: Array) -> tuple[Array, Array, Array]:
        """Return the loss of residuals, its first and its Gauss-Newton second derivative.

        The latter has one component if it is the same for all.
        """
        width = self.width
        if self.loss == "quadratic":
            return 0.5 * r * r, r, np.ones(1)
        if self.loss == "huber":
            size = np.maximum(np.abs(r), width)
            is_near = np.abs(r) <= width
            value = np.where(is_near, 0.5 * r * r, width * (size - 0.5 * width))
            return value, np.clip(r, -width, width), width / size
        if self.loss == "pseudo_huber":
            root = np.sqrt(1.0 + (r / width) ** 2)
            return width**2 * (root - 1.0), r / root, 1.0 / root
        near, far = (r - 2.0 * width) / width, np.maximum(r, width)
        is_near = r < width
        value = np.where(is_near, 0.5 * (near * near - 1.0) - np.log(width), -np.log(far))
        return value, np.where(is_near, near / width, -1.0 / far), 1.0 / far**2

    def of(self, problems: NDArray[np.int64]) -> Cost:
        """Return the term of some problems of a batch: rows of a target with an axis B."""
        count = 4 if self.residual == "orientation" else 3
        if np.ndim(self.target) < count or len(self.target) == 1:  # type: ignore[arg-type]
            return self
        return replace(self, target=np.asarray(self.target)[problems])


@dataclass
class TrajectoryCost:
    """Costs of B trajectories with T steps; derivatives in tangent coordinates (q, qd).

    Attributes:
        cost:  (B,).
        l_x:   gradient by the states (B, T + 1, 2 nv).
        l_u:   gradient by the joint torques (B, T, nv).
        l_uu:  Hessian by them (B, T, nv); it is diagonal.
        diagonal, dense: parts of ``l_xx``: (B, T + 1, 2 nv), and the first p rows and columns
                         (B, T + 1, p, p).
    """

    cost: Array
    l_x: Array
    l_u: Array
    l_uu: Array
    diagonal: Array
    dense: Array

    @property
    def l_xx(self) -> Array:
        """Gauss-Newton Hessian by the states (B, T + 1, 2 nv, 2 nv)."""
        found: Array = self.diagonal[..., None] * np.eye(self.diagonal.shape[-1])
        p = self.dense.shape[-1]
        found[..., :p, :p] += self.dense
        return found


def trajectory_cost(
    robot: Robot,
    costs: Sequence[Cost],
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    derivatives: bool = True,
) -> TrajectoryCost:
    """Return the costs of trajectories, their gradients and Gauss-Newton Hessians.

        found = gridgen.trajectory_cost(robot, [gridgen.Cost("q", 1.0, terminal=100.0)], q, qd, tau)

    One kernel for each kind of residual computes all states of all trajectories.

    Args:
        robot:       the robot.
        costs:       the terms, whose sum is the cost.
        q:           joint positions (B, T + 1, nq) [rad or m].
        qd:          joint velocities (B, T + 1, nv) [rad/s or m/s].
        tau:         joint torques (B, T, nv) [N m or N].
        derivatives: whether to compute derivatives; otherwise their arrays are empty.

    Raises:
        OptionError: a cost is none, or a frame is unknown.
        ShapeError:  an array or a target has another shape.
    """
    x = tuple(np.asarray(array, float) for array in (q, qd, tau))
    B, T, nv = x[2].shape if x[2].ndim == 3 else (0, 0, 0)
    if (
        x[2].ndim != 3
        or nv != robot.nv
        or [a.shape for a in x[:2]]
        != [
            (B, T + 1, robot.nq),
            (B, T + 1, nv),
        ]
    ):
        shapes = ", ".join(str(array.shape) for array in x)
        raise ShapeError(
            f"q, qd and tau have shapes {shapes}; give (B, T + 1, {robot.nq}), "
            f"(B, T + 1, {robot.nv}) and (B, T, {robot.nv})"
        )
    check_costs(costs)
    p = max((_coupled(robot, cost) for cost in costs), default=0)
    extent = (0, 0) if not derivatives else (B, T)
    found = TrajectoryCost(
        np.zeros(B),
        np.zeros((extent[0], extent[1] + 1, 2 * nv)),
        np.zeros((*extent, nv)),
        np.zeros((*extent, nv)),
        np.zeros((extent[0], extent[1] + 1, 2 * nv)),
        np.zeros((extent[0], extent[1] + 1, p, p)),
    )
    for cost in costs:
        _add(robot, cost, x, found, derivatives)
    return found


def check_costs(costs: Sequence[Cost]) -> None:
    """Raise OptionError unless all are costs."""
    for cost in costs:
        if not isinstance(cost, Cost):
            raise OptionError(f"costs has {show_value(cost)}; give gridgen.Cost objects")


def _add(
    robot: Robot, cost: Cost, x: tuple[Array, ...], found: TrajectoryCost, derivatives: bool
) -> None:
    """Add the value of a term, and its derivatives."""
    nv, kind = robot.nv, cost.residual
    r, J = _residual(robot, cost, x, derivatives)
    weights = np.zeros((r.shape[1], r.shape[2]))
    try:
        weights[: x[2].shape[1]] = cost.weights
        if kind != "tau":
            weights[-1] = cost.terminal
    except ValueError as error:
        raise ShapeError(f"weights of {kind}: give a number or {r.shape[2]} numbers") from error
    value, slope, curvature = cost.losses(r)
    with np.errstate(invalid="ignore"):  # infinite costs of trajectories that diverge
        found.cost[:] += np.einsum("btm,tm->b", value, weights)
    if not derivatives:
        return
    slope, curvature = weights * slope, weights * curvature
    if kind == "tau":
        found.l_u[:] += slope
        found.l_uu[:] += curvature
        return
    if J is not None and J.ndim == 1:
        slope, curvature, J = slope * J, curvature * J * J, None
    p = 0 if J is None else J.shape[-1]
    columns = slice(nv, 2 * nv) if kind == "qd" else slice(p, nv)
    if J is not None:
        rows = J.shape[-2]
        found.l_x[..., :p] += (slope[..., None, :rows] @ J)[..., 0, :]
        found.dense[..., :p, :p] += np.swapaxes(J, -1, -2) @ (curvature[..., :rows, None] * J)
    if J is None or kind == "q":
        found.l_x[..., columns] += slope[..., p:]
        found.diagonal[..., columns] += curvature[..., p:]


def _coupled(robot: Robot, cost: Cost) -> int:
    """Return the number of first components of a state that a term couples."""
    if cost.residual in ("qd", "tau", *_LIMITS):
        return 0
    if cost.residual == "q":
        free = robot.nq - robot.nv  # joints with a quaternion; the base is the first one
        return 6 * free if free == robot.floating_base else robot.nv
    return robot.nv * (2 if cost.residual == "momentum" else 1)


def _residual(
    robot: Robot, cost: Cost, x: tuple[Array, ...], derivatives: bool
) -> tuple[Array, Array | None]:
    """Return a residual (B, T + 1, m) and its Jacobian by q (and qd); ``None`` is the identity.

    That of ``q`` has the rows and columns of the free joint, that of limits is diagonal (nv,).
    """
    q, qd, tau = x
    kind, target = cost.residual, cost.target
    if kind in ("qd", "tau"):
        given = qd if kind == "qd" else tau
        return given - _shaped(cost, 0.0 if target is None else target, given), None
    if kind == "q":
        goal = _shaped(cost, robot.neutral() if target is None else target, q)
        found = np.asarray(robot.difference(goal, q))
        count = _coupled(robot, cost)
        if not (derivatives and count):
            return found, None
        return found, np.asarray(robot.difference_gradient(goal, q)[1])[..., :count, :count]
    if kind in _LIMITS:
        limits = np.array(getattr(robot, kind))
        bounded = np.isfinite(limits)
        if robot.nq != robot.nv and bounded[: robot.nq - robot.nv].any():
            raise OptionError("limits require joints with one coordinate")
        sign = 1.0 if kind == "lower_limits" else -1.0
        distance = np.where(bounded, sign * (q - np.where(bounded, limits, 0.0)), 1.0)
        moving = np.where(bounded, sign, 0.0)[robot.nq - robot.nv :]
        return distance[..., robot.nq - robot.nv :], moving
    if kind == "center_of_mass":
        at = np.asarray(robot.center_of_mass(q))
        Jcom = np.asarray(robot.center_of_mass_jacobian(q)) if derivatives else None
        return at - _shaped(cost, 0.0 if target is None else target, at), Jcom
    if kind == "momentum":
        hg = np.asarray(robot.centroidal_momentum(q, qd))
        r = hg - _shaped(cost, 0.0 if target is None else target, hg)
        if not derivatives:
            return r, None
        by_q = robot.centroidal_dynamics_gradient(q, qd, np.zeros_like(qd))[0]
        return r, np.concatenate([by_q, robot.centroidal_momentum_matrix(q)], axis=-1)
    pose = np.asarray(robot.forward_kinematics(q, cost.frame))
    if kind == "position":
        at = pose[..., :3, 3]
        r = at - _shaped(cost, 0.0 if target is None else target, at)
        if not derivatives:
            return r, None
        return r, np.asarray(robot.jacobian(q, cost.frame, "local_world_aligned"))[..., :3, :]
    R = pose[..., :3, :3]
    goal = _shaped(cost, np.eye(3) if target is None else target, R)
    r = _rotation_vector(np.swapaxes(goal, -1, -2) @ R)
    if not derivatives:
        return r, None
    turn = np.asarray(robot.jacobian(q, cost.frame, "local"))[..., 3:, :]
    return r, _inverse_right_jacobian(r) @ turn


def _shaped(cost: Cost, target: Any, like: Array) -> Array:
    try:
        return np.broadcast_to(np.asarray(target, float), like.shape)
    except ValueError as error:
        raise ShapeError(
            f"target of {cost.residual} has shape {np.shape(target)}; give "
            f"{like.shape[2:]}, with axes {like.shape[1:2]} or {like.shape[:2]} in front"
        ) from error


def _rotation_vector(R: Array) -> Array:
    """Return the logarithm of rotations (..., 3, 3), by the largest element of the quaternion."""
    a, b, c = R[..., 0, 0], R[..., 1, 1], R[..., 2, 2]
    x, y, z = (R[..., i, j] for i, j in ((2, 1), (0, 2), (1, 0)))
    X, Y, Z = (R[..., i, j] for i, j in ((1, 2), (2, 0), (0, 1)))
    rows = np.stack(
        [
            np.stack([1 + a - b - c, Z + z, Y + y, x - X], -1),
            np.stack([Z + z, 1 - a + b - c, X + x, y - Y], -1),
            np.stack([Y + y, X + x, 1 - a - b + c, z - Z], -1),
            np.stack([x - X, y - Y, z - Z, 1 + a + b + c], -1),
        ],
        -2,
    )
    best = np.diagonal(rows, axis1=-2, axis2=-1).argmax(axis=-1)
    quaternion = np.take_along_axis(rows, best[..., None, None], -2)[..., 0, :]
    quaternion = quaternion * np.where(quaternion[..., 3:] < 0.0, -1.0, 1.0)
    size = np.linalg.norm(quaternion[..., :3], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(size, quaternion[..., 3:])
    near = 2.0 / np.where(quaternion[..., 3:] == 0.0, 1.0, quaternion[..., 3:])
    return quaternion[..., :3] * np.where(size > 1e-9, angle / np.where(size > 0, size, 1.0), near)


def _inverse_right_jacobian(r: Array) -> Array:
    """Return the derivative of a rotation vector by a rotation in the body's axes."""
    square = (r * r).sum(axis=-1)
    angle = np.sqrt(square)
    is_small = angle < 1e-4
    safe = np.where(is_small, 1.0, angle)
    factor = np.where(is_small, 1.0 / 12.0, 1.0 / safe**2 - 0.5 / (safe * np.tan(0.5 * safe)))
    zero = np.zeros_like(angle)
    x, y, z = np.moveaxis(r, -1, 0)
    hat = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).reshape(*r.shape, 3)
    found: Array = np.eye(3) + 0.5 * hat + factor[..., None, None] * (hat @ hat)
    return found
