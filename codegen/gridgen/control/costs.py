"""Costs along trajectories, their gradients and Gauss-Newton Hessians."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridgen.control.compiled import Array, Called, entry_of
from gridgen.dynamics.trajectory_costs import LIMITS, TRAJECTORY_COST, VALUE, extents
from gridgen.errors import OptionError, ShapeError
from gridgen.kernel import KernelKey
from gridgen.naming import show, show_value
from gridgen.robot import Robot
from gridgen.runtime.configurations import needs_normalizing

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


def numbers(value: ArrayLike, name: str) -> Array:
    """Return an argument as an array; raise OptionError unless all numbers are finite."""
    try:
        found = np.asarray(value, float)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{name} is {show_value(value)}; give numbers") from error
    if not np.isfinite(found).all():
        at = np.argwhere(~np.isfinite(found))[0].tolist()
        raise OptionError(f"{name} is not finite at {at}; give finite numbers")
    return found


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
            barrier = self.residual in LIMITS
            object.__setattr__(self, "loss", "log_barrier" if barrier else "quadratic")
        for name, kind in (("residual", Residual), ("loss", Loss)):
            if (value := getattr(self, name)) not in get_args(kind):
                choices = ", ".join(get_args(kind))
                raise OptionError(f"{name} is {show_value(value)}; give one of {choices}")
        if (self.residual in ("position", "orientation")) != bool(self.frame):
            remedy = "omit it" if self.frame else "give the name of a link"
            raise OptionError(f"frame is {show_value(self.frame)} for {self.residual}; {remedy}")
        if not self.width > 0.0:
            raise OptionError(f"width is {show_value(self.width)}; give a positive number")
        for name in ("weights", "terminal"):
            if (numbers(getattr(self, name), f"{name} of {self.residual}") < 0.0).any():
                raise OptionError(f"{name} of {self.residual} are negative; give 0 or more")
        if self.target is not None:
            numbers(self.target, f"target of {self.residual}")


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

    One kernel, compiled for the list of residuals and losses, computes all terms.

    Args:
        robot:       the robot.
        costs:       the terms, whose sum is the cost.
        q:           joint positions (B, T + 1, nq) [rad or m].
        qd:          joint velocities (B, T + 1, nv) [rad/s or m/s].
        tau:         joint torques (B, T, nv) [N m or N].
        derivatives: whether to compute derivatives; otherwise their arrays are empty.

    Raises:
        OptionError: a cost is none, or a frame is unknown.
        ModelError:  a residual is not available for the robot, or its module is a generated one.
        ShapeError:  an array or a target has another shape.
    """
    x = tuple(np.asarray(array, float) for array in (q, qd, tau))
    B, T, nv = x[2].shape if x[2].ndim == 3 else (0, 0, 0)
    expected = [(B, T + 1, robot.nq), (B, T + 1, nv)]
    if x[2].ndim != 3 or not T or nv != robot.nv or [a.shape for a in x[:2]] != expected:
        shapes = ", ".join(str(array.shape) for array in x)
        raise ShapeError(
            f"q, qd and tau have shapes {shapes}; give (B, T + 1, {robot.nq}), "
            f"(B, T + 1, {robot.nv}) and (B, T, {robot.nv}), T at least 1"
        )
    needs_normalizing(robot._description.space, x[0])
    return Terms(robot, costs, B, T).evaluated(x, derivatives=derivatives)


class Terms:
    """Terms of a cost for B problems with T steps: a kernel and its numbers.

    Raises:
        the errors of ``trajectory_cost``.
    """

    def __init__(self, robot: Robot, costs: Sequence[Cost], B: int, T: int) -> None:
        self._robot, description = robot, robot._description
        columns, parts = [], []
        if not (isinstance(costs, Sequence) and costs):
            raise OptionError(f"costs is {show_value(costs)}; give a list of gridgen.Cost objects")
        for cost in costs:
            if not isinstance(cost, Cost):
                raise OptionError(f"costs has {show_value(cost)}; give gridgen.Cost objects")
            frame = ""
            if cost.frame:
                frame = description.frame_idents[robot.resolver.frame_index(cost.frame)]
            parts.append(KernelKey(cost.residual, str(cost.loss), frame=frame))
            columns += _columns(robot, cost, B, T)
        names = "\n".join(f"{part.function} {part.method} {part.frame}" for part in parts)
        digest = hashlib.blake2s(names.encode(), digest_size=6).hexdigest()
        key = KernelKey(TRAJECTORY_COST, parts=tuple(parts), label=f"{TRAJECTORY_COST}_{digest}")
        self._keys = key, replace(key, variant=VALUE)
        rows = max(len(column) for column in columns)
        columns = [np.broadcast_to(column, (rows, *column.shape[1:])) for column in columns]
        self.coupled = max(extents(cost.residual, description.space)[2] for cost in costs)
        self._numbers = np.concatenate(columns, axis=-1)

    def called(
        self,
        x: Sequence[NDArray[Any]],
        *,
        derivatives: bool,
        problems: Any = slice(None),
        results: Sequence[NDArray[Any]] = (),
    ) -> Called:
        """Return the call of the kernel for trajectories.

        Args:
            x:           q, qd and tau of some problems, of the type of the call.
            derivatives: whether it computes derivatives.
            problems:    indices of these problems.
            results:     its results; none if the backward pass reads them.
        """
        kernel = self._robot._module.kernels.find(self._keys[not derivatives])
        numbers = self._numbers if len(self._numbers) == 1 else self._numbers[problems]
        given = [*x, numbers.astype(x[0].dtype, copy=False)]
        lead = len(x[0]), x[0].shape[1]
        entry = entry_of(self._robot, kernel, x[0].dtype)
        return Called(entry, [*zip(given, kernel.inputs.values(), strict=True)], lead, results)

    def evaluated(
        self, x: Sequence[Array], *, derivatives: bool, problems: Any = slice(None)
    ) -> TrajectoryCost:
        """Return costs and their derivatives; arguments as of ``called``."""
        kernel, nv = self._robot._module.kernels.find(self._keys[not derivatives]), self._robot.nv
        B, T = len(x[0]), x[0].shape[1]
        results = [np.empty((B, T, *shape)) for shape in kernel.outputs.values()]
        self.called(x, derivatives=derivatives, problems=problems, results=results).run()
        cost = results[0].sum(1)
        if not derivatives:
            none = np.zeros((0, 1, 2 * nv))
            return TrajectoryCost(cost, none, none[..., :nv], none[..., :nv], none, none[..., None])
        l_x, l_u, l_uu, l_xx = results[1:]
        dense = l_xx[..., 2 * nv :].reshape(B, T, self.coupled, self.coupled)
        return TrajectoryCost(cost, l_x, l_u[:, :-1], l_uu[:, :-1], l_xx[..., : 2 * nv], dense)


def _columns(robot: Robot, cost: Cost, B: int, T: int) -> list[Array]:
    """Return the weights (1, T + 1, m), the target and the width of a term."""
    space = robot._description.space
    kind, m = cost.residual, extents(cost.residual, space)[0]
    limited = next((joint.name for joint in space.turning if joint.max_angle < np.inf), None)
    if kind == "upper_limits" and limited is not None:
        raise OptionError(
            f"upper_limits do not include the limit of the angle of ball joint {show(limited)}: "
            "load the robot from a file without this limit"
        )
    weights = np.zeros((1, T + 1, m))
    try:
        weights[:, :-1] = cost.weights
        weights[:, -1] = 0.0 if kind == "tau" else cost.terminal
    except ValueError as error:
        raise ShapeError(f"weights of {kind}: give a number or {m} numbers") from error
    columns = [weights]
    if kind not in LIMITS:
        default = {"q": robot.neutral(), "orientation": np.eye(3)}.get(kind, np.zeros(m))
        target = np.asarray(default if cost.target is None else cost.target, float)
        times, shape = T + (kind != "tau"), default.shape
        try:
            lead = target.shape[: -len(shape)]
            found = np.broadcast_to(target, (len(target) if len(lead) == 2 else 1, times, *shape))
            if len(found) not in (1, B):
                raise ValueError("problems")
        except ValueError as error:
            raise ShapeError(
                f"target of {kind} has shape {target.shape}; give {shape}, with axes "
                f"({times},) or {(B, times)} in front"
            ) from error
        if kind == "q":
            needs_normalizing(space, found, "target of q")
        found = found.reshape(len(found), times, -1)
        columns.append(np.concatenate([found, found[:, -1:]], 1) if times == T else found)
    return [*columns, np.full((1, T + 1, 1), float(cost.width))]
