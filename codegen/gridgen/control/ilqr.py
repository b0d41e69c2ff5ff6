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
from gridgen.control.compiled import Array, Called, backward, entry_of
from gridgen.control.costs import Cost, Terms, numbers
from gridgen.dynamics.trajectory_costs import turning_end
from gridgen.errors import OptionError, ShapeError
from gridgen.frameworks.trajectories import along
from gridgen.functions.types import Dtype, Integrator
from gridgen.naming import check_choice, show_value
from gridgen.robot import Robot
from gridgen.runtime.arrays.defaults import default

#: Step lengths of the line search, each for the problems where those before fail.
_LENGTHS: Array = 0.5 ** np.arange(10.0)
#: Steps of this length show that the linearization holds: regularization decreases.
_TRUSTED = 0.25
#: Smallest share of the expected decrease that accepts a step.
_SHARE = 1e-4
#: Regularization of the states: least positive, largest, and factor between trials.
_MIN, _MAX, _FACTOR = 1e-6, 1e8, 10.0
#: Least number of problems that a thread solves, and whose linearizations fill SIMD lanes.
_MIN_PART, _MIN_LANES = 16, 8


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
                       grows where a step fails or is short. Another value may help where
                       effort limits are active and the search ends before it converges.
        dtype:         type of linearizations and backward passes. ``float32`` is faster for
                       large robots; trajectories and costs are float64 all the same.
        options:       further options of ``rollout`` and ``rollout_gradient`` without batch axes,
                       such as ``gravity``.

    Raises:
        OptionError: an argument is not a count, not positive, or not finite.
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
    if not 0.0 <= regularization < _MAX:
        raise OptionError(f"regularization is {show_value(regularization)}; give 0 or more")
    q0, qd0 = (np.atleast_2d(numbers(x, n)) for x, n in ((q0, "q0"), (qd0, "qd0")))
    batch = max(len(q0), len(qd0))
    given = np.zeros((T, robot.nv)) if tau is None else numbers(tau, "tau")
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

    threads = thread_count()
    count = max(1, min(threads, batch // _MIN_PART))
    terms = Terms(robot, costs, batch, T)
    solver = _Solver(robot, terms, dt, words, effort_limits, np.dtype(dtype))

    shapes = [(T + 1, robot.nq), (T + 1, robot.nv), (T, robot.nv), (T, robot.nv, 2 * robot.nv), ()]
    arrays: list[Any] = [np.zeros((batch, *shape)) for shape in shapes]
    arrays += [np.zeros(batch, np.int64), np.zeros(batch, np.bool_)]
    result = IlqrResult(*arrays)

    def solve(problems: NDArray[np.int64]) -> None:
        own = slice(problems[0], problems[-1] + 1)
        x0 = q0[own], qd0[own], first[own]
        found = IlqrResult(*(array[own] for array in vars(result).values()))
        with limited_threads(1 if count > 1 else threads):
            solver.solve(problems, x0, found, iterations, tolerance, regularization)

    parts = np.array_split(np.arange(batch), count) if batch else []
    if count == 1:
        [*map(solve, parts)]
    else:
        with ThreadPoolExecutor(count) as pool:
            [*pool.map(solve, parts)]
    return result


class _Solver:
    """Iterative LQR; arguments as in ``ilqr``."""

    def __init__(
        self,
        robot: Robot,
        terms: Terms,
        dt: float,
        options: dict[str, Any],
        effort_limits: bool,
        dtype: np.dtype[Any],
    ) -> None:
        self._robot, self._terms, self._dt = robot, terms, dt
        self._options, self._is_limited = options, effort_limits
        self._dtype = dtype
        self._typed_options: dict[str, Any] = {  # those of the linearization
            name: value if isinstance(value, (str, int)) else np.asarray(value, dtype)
            for name, value in options.items()
        }
        limits = np.array(robot.effort_limits) if effort_limits else np.full(robot.nv, np.inf)
        space = robot._description.space
        for joint in space.free:
            limits[joint.v_index : joint.v_index + 6] = 0.0
        self._limits = limits
        is_derived = options["integrator"] in ("semi_implicit", "implicit")
        is_derived &= options.get("substeps", 1) == 1
        end, held = turning_end(space), 6 * len(space.free)
        # The backward pass also holds free joints behind others, by their limits of zero.
        self._structure: dict[str, Any] = {
            "fixed": held if all(joint.v_index + 6 <= held for joint in space.free) else 0,
            "derived": robot.nv - end if is_derived else 0,
            "dt": dt,
            "coupled": terms.coupled,
        }

    def _rollout(
        self,
        problems: NDArray[np.int64],
        q0: Array,
        qd0: Array,
        tau: Array,
        feedback: tuple[Array, Array, Array] | None,
        out: Sequence[Array],
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
                out=tuple(array[: len(q0)] for array in out),
                **self._options,
            )
            finite = np.isfinite(q).all((1, 2)) & np.isfinite(qd).all((1, 2))
            x = q, qd, tau
            found = self._terms.evaluated(x, derivatives=False, problems=problems).cost
        found[~finite | np.isnan(found)] = np.inf
        return q, qd, tau, found

    def _steps(self, q: NDArray[Any], qd: NDArray[Any], tau: NDArray[Any]) -> Called:
        """Return the call that linearizes the steps of trajectories."""
        robot, options, dtype = self._robot, {**self._typed_options}, self._dtype
        lead = tau.shape[:2]
        if options.pop("substeps", 1) > 1 or len(q) < _MIN_LANES:  # all steps in one batch
            found = robot.rollout_gradient(q, qd, tau, self._dt, **self._typed_options)
            return Called(None, [(array, array.shape[2:]) for array in found], lead)
        other = {"integrator": options.pop("integrator")}
        options.pop("backend", None)
        given = {"q": q, "qd": qd, "tau": tau, "dt": np.asarray(self._dt, dtype), **options}
        now = along(robot._description, given, np)
        resolved = robot.resolver.resolve_named("step_gradient", **now, **other)
        kernel, own = resolved.kernel, robot._description.parameters.own
        inputs = [
            (default(name, shape, q, own.get(name)) if array is None else array, shape)
            for (name, shape), array in zip(
                kernel.inputs.items(), resolved.inputs.values(), strict=True
            )
        ]
        return Called(entry_of(robot, kernel, dtype), inputs, lead)

    def solve(
        self,
        problems: NDArray[np.int64],
        x0: tuple[Array, Array, Array],
        result: IlqrResult,
        iterations: int,
        tolerance: float,
        regularization: float,
    ) -> None:
        """Iterate from initial torques until every problem is finished."""
        least = max(_MIN, regularization)
        K, passes, converged = result.gains, result.iterations, result.converged
        x = [result.q, result.qd, result.tau, result.cost]
        tau = np.clip(x0[2], -self._limits, self._limits)
        x[3][:] = self._rollout(problems, *x0[:2], tau, None, x[:3])[3]
        trial = [np.empty_like(array) for array in x[:3]]
        batch = len(tau)
        k, expected = np.zeros(tau.shape), np.zeros((batch, 2))
        near = np.full(batch, regularization)
        i = np.flatnonzero(np.isfinite(x[3]))
        while len(i):
            passes[i] += 1
            cost = x[3][i]
            typed = [a.astype(self._dtype, copy=False) for a in self._some(x[:3], i)]
            backward(
                self._steps(*typed),
                self._terms.called(typed, derivatives=True, problems=problems[i]),
                typed[2],
                self._limits,
                near[i],
                (k, K, expected),
                i,
                **self._structure,
            )
            change = expected[i]
            fails = np.isnan(change[:, 0])
            small = ~fails & (-change.sum(-1) < tolerance * (np.abs(cost) + tolerance))
            taken = np.zeros(len(i))  # accepted step lengths
            for length in _LENGTHS:
                j = np.flatnonzero(~fails & (taken == 0.0))
                if not len(j):
                    break
                is_good = self._try(problems, x, i[j], (k, K, expected), trial, length)
                taken[j] = length * is_good
            saved = cost - x[3][i]
            is_done = small & (near[i] <= least)
            is_done |= (taken > 0.0) & (near[i] <= least) & (saved < tolerance * np.abs(cost))
            more = np.maximum(near[i] * _FACTOR, least)
            near[i] = np.where(taken >= _TRUSTED, near[i] / _FACTOR, more)
            near[i] = np.where(near[i] < least, regularization, near[i])
            converged[i] = is_done
            is_open = ~is_done & (near[i] < _MAX) & (passes[i] < iterations)
            K[i[fails & ~is_open]] = 0.0
            i = i[is_open]

    def _some(self, arrays: Sequence[Array], i: NDArray[np.int64]) -> list[Array]:
        """Return the rows of some problems, without copies if they are all."""
        return [array if len(i) == len(array) else array[i] for array in arrays]

    def _try(
        self,
        problems: NDArray[np.int64],
        x: list[Array],
        i: NDArray[np.int64],
        change: Sequence[Array],
        trial: Sequence[Array],
        length: float,
    ) -> NDArray[np.bool_]:
        """Try a step length for problems i; store and report the trajectories that it accepts."""
        q, qd, tau, cost, k, K, expected = self._some([*x, *change], i)
        feedback = (K, q[:, :-1], qd[:, :-1])
        tau = tau + length * k
        found = self._rollout(problems[i], q[:, 0], qd[:, 0], tau, feedback, trial)
        model = length * expected[:, 0] + length**2 * expected[:, 1]
        is_good: NDArray[np.bool_] = found[3] < cost + _SHARE * model
        for stored, new in zip(x, found, strict=True):
            stored[i[is_good]] = new[is_good]
        return is_good
