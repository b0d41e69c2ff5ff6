"""Iterative LQR for batches of problems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridgen.control.costs import Array, Cost, TrajectoryCost, trajectory_cost
from gridgen.control.riccati import backward
from gridgen.errors import OptionError, ShapeError
from gridgen.functions.types import Integrator
from gridgen.naming import show_value
from gridgen.robot import Robot

#: Step lengths of the line search: the first for all problems, the others where it fails.
_LENGTHS: Array = 0.5 ** np.arange(10.0)
#: Smallest share of the expected decrease that accepts a step.
_SHARE = 1e-4
#: Regularization of the states: least positive, largest, and factor between trials.
_LEAST, _MOST, _FACTOR = 1e-6, 1e8, 10.0


@dataclass(frozen=True, eq=False)
class IlqrResult:
    """Trajectories that ``ilqr`` found for B problems.

    Attributes:
        q:          joint positions (B, T + 1, nq) [rad or m].
        qd:         joint velocities (B, T + 1, nv) [rad/s or m/s].
        tau:        joint torques (B, T, nv) [N m or N].
        gains:      feedback gains (B, T, nv, 2 nv), for ``feedback`` of ``rollout``.
        cost:       final cost (B,).
        iterations: backward passes of each problem (B,).
        converged:  whether the last step changed the cost by less than the tolerance (B,).
    """

    q: Array
    qd: Array
    tau: Array
    gains: Array
    cost: Array
    iterations: NDArray[np.int64]
    converged: NDArray[np.bool_]


def ilqr(
    robot: Robot,
    costs: Sequence[Cost],
    q0: ArrayLike,
    qd0: ArrayLike,
    *,
    T: int,
    dt: float,
    tau: ArrayLike | None = None,
    integrator: Integrator = "semi_implicit",
    effort_limits: bool = True,
    iterations: int = 100,
    tolerance: float = 1e-6,
    **options: Any,
) -> IlqrResult:
    """Minimize costs of trajectories over the joint torques, for a batch of problems.

        costs = [Cost("q", 1e-2, 100.0, goal), Cost("qd", 1e-2, 1.0), Cost("tau", 1e-4)]
        found = gridgen.ilqr(robot, costs, q0, qd0, T=100, dt=0.01)

    Each iteration linearizes all steps of all unfinished problems, computes their backward passes
    by compiled code, and searches step lengths in batches of rollouts with feedback. The torques of
    a free joint are zero. All arrays are float64 on the CPU.

    Args:
        robot:         the robot.
        costs:         terms of the cost.
        q0:            initial joint positions (B, nq), or (nq,) for one problem [rad or m].
        qd0:           initial joint velocities (B, nv) or (nv,) [rad/s or m/s].
        T:             number of steps.
        dt:            length of a step [s].
        tau:           initial joint torques (B, T, nv) or (T, nv); zero by default [N m or N].
        integrator:    as in ``rollout``.
        effort_limits: bound the torques by the robot's ``effort_limits``.
        iterations:    largest number of backward passes.
        tolerance:     relative decrease of the cost at which a problem is finished.
        options:       further options of ``rollout`` and ``rollout_gradient`` without batch axes,
                       such as ``gravity``.

    Raises:
        OptionError: an argument is not a count, or not positive.
        ShapeError:  an array has another shape.
        Also the errors of ``trajectory_cost`` and ``rollout``.

    Source: Tassa, Mansard and Todorov 2014, with Gauss-Newton Hessians.
    """
    for name, count in (("T", T), ("iterations", iterations)):
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise OptionError(f"{name} is {show_value(count)}; give a count, at least 1")
    for name, number in (("dt", dt), ("tolerance", tolerance)):
        if not (isinstance(number, (int, float)) and math.isfinite(number) and number > 0.0):
            raise OptionError(f"{name} is {show_value(number)}; give a positive number")
    q0, qd0 = np.atleast_2d(np.asarray(q0, float)), np.atleast_2d(np.asarray(qd0, float))
    batch = max(len(q0), len(qd0))
    given = np.zeros((T, robot.nv)) if tau is None else np.asarray(tau, float)
    try:
        if (q0.shape[-1], qd0.shape[-1], given.shape[-2:]) != (robot.nq, robot.nv, (T, robot.nv)):
            raise ValueError("last axes")
        q0 = np.broadcast_to(q0, (batch, robot.nq))
        qd0 = np.broadcast_to(qd0, (batch, robot.nv))
        first = np.broadcast_to(given, (batch, T, robot.nv))
    except ValueError as error:
        raise ShapeError(
            f"q0, qd0 and tau have shapes {q0.shape}, {qd0.shape} and {given.shape}; "
            f"give (B, {robot.nq}), (B, {robot.nv}) and (B, {T}, {robot.nv})"
        ) from error
    words = {"integrator": integrator, **options}
    return _Solver(robot, costs, dt, words, effort_limits).solve(
        q0, qd0, first, iterations, tolerance
    )


class _Solver:
    """Iterative LQR; arguments as in ``ilqr``."""

    def __init__(
        self,
        robot: Robot,
        costs: Sequence[Cost],
        dt: float,
        options: dict[str, Any],
        effort_limits: bool,
    ) -> None:
        self._robot, self._costs, self._dt = robot, costs, dt
        self._options, self._is_limited = options, effort_limits
        limits = np.array(robot.effort_limits) if effort_limits else np.full(robot.nv, np.inf)
        limits[: 6 if robot.floating_base else 0] = 0.0
        self._limits = limits

    def _rollout(
        self, q0: Array, qd0: Array, tau: Array, feedback: tuple[Array, Array, Array] | None
    ) -> tuple[Array, Array, Array, Array]:
        """Return states, applied torques and costs; the cost of divergence is infinite."""
        with np.errstate(all="ignore"):
            q, qd, tau = self._robot.rollout(
                q0,
                qd0,
                tau,
                self._dt,
                feedback=feedback,
                effort_limits=self._is_limited,
                return_efforts=True,
                **self._options,
            )
            finite = np.isfinite(q).all((1, 2)) & np.isfinite(qd).all((1, 2))
            found = np.full(len(q), np.inf)
            if finite.any():
                kept = (q[finite], qd[finite], tau[finite])
                found[finite] = self._cost(*kept, derivatives=False).cost
        found[np.isnan(found)] = np.inf
        return q, qd, tau, found

    def _cost(self, q: Array, qd: Array, tau: Array, *, derivatives: bool) -> TrajectoryCost:
        return trajectory_cost(self._robot, self._costs, q, qd, tau, derivatives=derivatives)

    def solve(
        self, q0: Array, qd0: Array, tau: Array, iterations: int, tolerance: float
    ) -> IlqrResult:
        """Iterate from initial torques until every problem is finished."""
        batch, nv = len(q0), self._robot.nv
        tau = np.clip(tau, -self._limits, self._limits)
        x = [*self._rollout(q0, qd0, tau, None)]
        gains = np.zeros((*tau.shape, 2 * nv))
        near, passes = np.zeros(batch), np.zeros(batch, int)
        converged = np.zeros(batch, bool)
        open_problems = np.flatnonzero(np.isfinite(x[3]))
        while len(open_problems) and passes.max() < iterations:
            i = open_problems
            passes[i] += 1
            q, qd, efforts, cost = (array[i] for array in x)
            A, B = self._robot.rollout_gradient(q, qd, efforts, self._dt, **self._options)
            model = self._cost(q, qd, efforts, derivatives=True)
            limits = -self._limits - efforts, self._limits - efforts
            k, K, expected = backward(model, A, B, *limits, near[i])
            fails = np.isnan(expected[:, 0])
            decrease = -(expected[:, 0] + expected[:, 1])
            small = ~fails & (decrease < tolerance * (np.abs(cost) + tolerance))
            accepted = np.zeros(len(i), bool)
            for lengths in (_LENGTHS[:1], _LENGTHS[1:]):
                j = np.flatnonzero(~fails & ~accepted)
                if len(j):
                    self._search(x, i, j, k, K, expected, lengths, accepted)
            gains[i[~fails]] = -K[~fails]
            saved = cost - x[3][i]
            is_done = small & (near[i] <= _LEAST)
            is_done |= accepted & (near[i] <= _LEAST) & (saved < tolerance * np.abs(cost))
            near[i] = np.where(accepted, near[i] / _FACTOR, np.maximum(near[i] * _FACTOR, _LEAST))
            near[i[near[i] < _LEAST]] = 0.0
            converged[i] = is_done
            open_problems = i[~is_done & (near[i] < _MOST)]
        return IlqrResult(x[0], x[1], x[2], gains, x[3], passes, converged)

    def _search(
        self,
        x: list[Array],
        i: NDArray[np.int64],
        j: NDArray[np.int64],
        k: Array,
        K: Array,
        expected: Array,
        lengths: Array,
        accepted: NDArray[np.bool_],
    ) -> None:
        """Try step lengths for problems ``i[j]``; store the trajectories of least cost."""
        count, problems = len(lengths), i[j]

        def tiled(array: Array) -> Array:
            return np.repeat(array, count, axis=0)

        q, qd, tau, cost = (array[problems] for array in x)
        step = np.tile(lengths, len(j))[:, None, None] * tiled(k[j])
        feedback = (tiled(-K[j]), tiled(q[:, :-1]), tiled(qd[:, :-1]))
        found = self._rollout(tiled(q[:, 0]), tiled(qd[:, 0]), tiled(tau) + step, feedback)
        costs = found[3].reshape(len(j), count)
        model = lengths * expected[j, :1] + lengths**2 * expected[j, 1:]
        costs = np.where(costs < cost[:, None] + _SHARE * model, costs, np.inf)
        best = costs.argmin(axis=1)
        good = np.isfinite(costs[np.arange(len(j)), best])
        accepted[j[good]] = True
        rows = (np.arange(len(j)) * count + best)[good]
        for stored, new in zip(x, found, strict=True):
            stored[problems[good]] = new[rows]
