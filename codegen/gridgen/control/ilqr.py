"""Iterative LQR for batches of problems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridgen.backends.cpu.backend import limited_threads, thread_count
from gridgen.control.costs import Array, Cost, check_costs, trajectory_cost
from gridgen.control.riccati import backward
from gridgen.errors import OptionError, ShapeError
from gridgen.functions.types import Dtype, Integrator
from gridgen.naming import show_value
from gridgen.robot import Robot
from gridgen.runtime.calls.evaluation import check_choice

#: Step lengths of the line search, each for the problems where those before fail.
_LENGTHS: Array = 0.5 ** np.arange(10.0)
#: Steps of this length show that the linearization holds: regularization decreases.
_TRUSTED = 0.25
#: Smallest share of the expected decrease that accepts a step.
_SHARE = 1e-4
#: Regularization of the states: least positive, largest, and factor between trials.
_LEAST, _MOST, _FACTOR = 1e-6, 1e8, 10.0
#: Derivatives of the problems that a thread solves together [bytes], and least number of problems.
_PART_BYTES, _LEAST_PART = 1 << 26, 16


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
    regularization: float = 0.0,
    dtype: Dtype = "float64",
    **options: Any,
) -> IlqrResult:
    """Minimize costs of trajectories over the joint torques, for a batch of problems.

        costs = [Cost("q", 1e-2, 100.0, goal), Cost("qd", 1e-2, 1.0), Cost("tau", 1e-4)]
        found = gridgen.ilqr(robot, costs, q0, qd0, T=100, dt=0.01)

    Each iteration linearizes all steps of all unfinished problems, computes their backward passes
    by compiled code, and searches step lengths in batches of rollouts with feedback. The torques of
    a free joint are zero. Arguments and results are float64 on the CPU.

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
        regularization: least weight of the squared change of the next state in a backward pass. It
                       grows where a step fails or is short. Small positive numbers such as 1e-4
                       help where effort limits are active.
        dtype:         type of linearizations and backward passes. ``float32`` is faster for
                       large robots; trajectories and costs are float64 all the same.
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
    check_choice("dtype", dtype, get_args(Dtype))
    if not 0.0 <= regularization < _MOST:
        raise OptionError(f"regularization is {show_value(regularization)}; give 0 or more")
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
    check_costs(costs)

    threads = thread_count()
    largest = max(_LEAST_PART, _PART_BYTES // (T * 48 * robot.nv**2) // _LEAST_PART * _LEAST_PART)
    count = max(1, -(-batch // largest))
    count += -count % threads if batch >= threads * _LEAST_PART else 0

    def solve(problems: NDArray[np.int64]) -> IlqrResult:
        own = [cost.of(problems) for cost in costs]
        x0 = q0[problems], qd0[problems]
        solver = _Solver(robot, own, dt, words, effort_limits, np.dtype(dtype))
        with limited_threads(1 if count > 1 else threads):
            return solver.solve(x0, first[problems], iterations, tolerance, regularization)

    parts = np.array_split(np.arange(batch), count)
    if count == 1:
        return solve(parts[0])
    with ThreadPoolExecutor(threads) as pool:
        found = [*pool.map(solve, parts)]
    return IlqrResult(
        *map(np.concatenate, zip(*(vars(part).values() for part in found), strict=True))
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
        dtype: np.dtype[Any],
    ) -> None:
        self._robot, self._costs, self._dt = robot, costs, dt
        self._options, self._is_limited = options, effort_limits
        self._dtype = dtype
        self._typed_options: dict[str, Any] = {  # those of the linearization
            name: value if isinstance(value, (str, int)) else np.asarray(value, dtype)
            for name, value in options.items()
        }
        limits = np.array(robot.effort_limits) if effort_limits else np.full(robot.nv, np.inf)
        fixed = 6 if robot.floating_base else 0
        limits[:fixed] = 0.0
        self._limits = limits
        is_derived = options["integrator"] in ("semi_implicit", "implicit")
        is_derived &= options.get("substeps", 1) == 1
        is_derived &= robot.nq - robot.nv == int(robot.floating_base)
        self._structure: dict[str, Any] = {
            "fixed": fixed,
            "derived": robot.nv - fixed if is_derived else 0,
            "dt": dt,
        }

    def _rollout(
        self,
        costs: Sequence[Cost],
        q0: Array,
        qd0: Array,
        tau: Array,
        feedback: tuple[Array, Array, Array] | None,
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
            found = trajectory_cost(self._robot, costs, q, qd, tau, derivatives=False).cost
        found[~finite | np.isnan(found)] = np.inf
        return q, qd, tau, found

    def solve(
        self,
        x0: tuple[Array, Array],
        tau: Array,
        iterations: int,
        tolerance: float,
        regularization: float,
    ) -> IlqrResult:
        """Iterate from initial torques until every problem is finished."""
        least = max(_LEAST, regularization)
        (batch, T, nv), n = tau.shape, 2 * self._robot.nv
        tau = np.clip(tau, -self._limits, self._limits)
        x = [*self._rollout(self._costs, *x0, tau, None)]
        shapes = [(batch, T, nv), (batch, T, nv, n), (batch, T, n, n), (batch, T, n, nv)]
        found = [np.zeros(shape, self._dtype) for shape in shapes]  # k, K, A, B
        gains = np.zeros(shapes[1])
        K = gains.copy() if self._dtype == np.float32 else found[1]
        near, passes = np.full(batch, regularization), np.zeros(batch, int)
        converged = np.zeros(batch, bool)
        i = np.flatnonzero(np.isfinite(x[3]))
        while len(i):
            passes[i] += 1
            is_whole, size = len(i) == batch, len(i)
            q, qd, efforts = x[:3] if is_whole else (array[i] for array in x[:3])
            cost = x[3][i]
            costs = self._costs if is_whole else [term.of(i) for term in self._costs]
            *out, A, B = (array[:size] for array in found)
            q_, qd_, tau_ = (a.astype(self._dtype, copy=False) for a in (q, qd, efforts))
            words = {**self._typed_options, "out": (A, B)}
            self._robot.rollout_gradient(q_, qd_, tau_, self._dt, **words)
            model = trajectory_cost(self._robot, costs, q, qd, efforts)
            limits = -self._limits - efforts, self._limits - efforts
            expected = backward(model, A, B, *limits, near[i], out, **self._structure)
            if K is not found[1]:
                K[:size] = out[1]
                out[1] = K[:size]
            fails = np.isnan(expected[:, 0])
            decrease = -(expected[:, 0] + expected[:, 1])
            small = ~fails & (decrease < tolerance * (np.abs(cost) + tolerance))
            taken = np.zeros(size)  # accepted step lengths
            for length in _LENGTHS:
                j = np.flatnonzero(~fails & (taken == 0.0))
                if not len(j):
                    break
                change = [*out] if len(j) == size else [array[j] for array in out]
                taken[j] = length * self._try(x, i[j], change, expected[j], length)
            saved = cost - x[3][i]
            is_done = small & (near[i] <= least)
            is_done |= (taken > 0.0) & (near[i] <= least) & (saved < tolerance * np.abs(cost))
            more = np.maximum(near[i] * _FACTOR, least)
            near[i] = np.where(taken >= _TRUSTED, near[i] / _FACTOR, more)
            near[i] = np.where(near[i] < least, regularization, near[i])
            converged[i] = is_done
            is_open = ~is_done & (near[i] < _MOST) & (passes[i] < iterations)
            ends = ~is_open & ~fails
            gains[i[ends]] = K[:size][ends]
            i = i[is_open]
        return IlqrResult(x[0], x[1], x[2], gains, x[3], passes, converged)

    def _try(
        self,
        x: list[Array],
        i: NDArray[np.int64],
        change: list[Array],
        expected: Array,
        length: float,
    ) -> NDArray[np.bool_]:
        """Try a step length for problems i; store and report the trajectories that it accepts."""
        q, qd, tau, cost = (array[i] for array in x)
        k, K = change
        costs = [term.of(i) for term in self._costs]
        feedback = (K, q[:, :-1], qd[:, :-1])
        found = self._rollout(costs, q[:, 0], qd[:, 0], tau + length * k, feedback)
        model = length * expected[:, 0] + length**2 * expected[:, 1]
        is_good: NDArray[np.bool_] = found[3] < cost + _SHARE * model
        for stored, new in zip(x, found, strict=True):
            stored[i[is_good]] = new[is_good]
        return is_good
