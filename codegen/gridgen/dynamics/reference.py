"""Evaluate a robot's functions and rollouts on NumPy numbers: the reference for every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gridgen.dynamics.functions import computation_of
from gridgen.functions.arrays import FEEDBACK, OPEN, cotangent
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.rounding import Rounded, RoundedScalars, rounded
from gridgen.symbolic.scalars import FloatScalars, Scalar


def evaluate_reference(
    tree: KinematicTree, function: str | KernelKey, inputs: Mapping[str, npt.ArrayLike]
) -> list[npt.NDArray[np.float64]]:
    """Evaluate the algorithm of a function on NumPy numbers.

    Args:
        function: C++ name of the function, or its key.
        inputs:   arrays by name, shape (B, ...) each. ``gravity``, the base motion and the robot's
                  ``PARAMETERS`` may have one value for all states; the parameters default to those
                  of the robot. Complex numbers are accepted (complex-step differentiation).

    Returns:
        outputs, shape (B, ...) each.
    """
    return _evaluate(tree, function, inputs, lambda column: column, lambda element: element)


def rounding_bounds(
    tree: KinematicTree, function: str | KernelKey, inputs: Mapping[str, npt.ArrayLike]
) -> list[npt.NDArray[np.float64]]:
    """Return first-order bounds on the rounding error of a function's results.

    Arguments as in ``evaluate_reference``, real numbers only.

    Returns:
        error bounds for the elements of the outputs, shape (B, ...) each, in units of rounding.
    """
    return _evaluate(tree, function, inputs, Rounded, lambda element: rounded(element).error)


def _evaluate(
    tree: KinematicTree,
    function: str | KernelKey,
    inputs: Mapping[str, npt.ArrayLike],
    scalar: Callable[[npt.NDArray[Any]], Scalar],
    number: Callable[[Scalar], npt.ArrayLike],
) -> list[npt.NDArray[np.float64]]:
    """Evaluate an algorithm on scalars made from input columns; convert the results to numbers."""
    spec = computation_of(tree, function)
    batch = np.shape(inputs[spec.inputs[0]])[0]
    columns: dict[str, list[Scalar]] = {}
    for name in spec.inputs:
        shape = (batch, *spec.shape(name, tree))
        given = inputs[name] if name in inputs else tree.parameters[name]
        if OPEN in shape:
            shape = (batch, *np.shape(given)[1 - len(shape) :])
        flat = np.broadcast_to(np.asarray(given), shape).reshape(batch, -1)
        columns[name] = [scalar(column) for column in flat.T]
    kind = RoundedScalars if scalar is Rounded else FloatScalars
    with np.errstate(over="ignore"):  # of values that a selection leaves out
        results = spec.algorithm(tree, columns, kind())
    arrays = []
    for name, elements in zip(spec.outputs, results, strict=True):
        numbers = np.array([np.broadcast_to(number(element), (batch,)) for element in elements])
        arrays.append(np.moveaxis(numbers, 0, -1).reshape(batch, *spec.shape(name, tree)))
    return arrays


Array = npt.NDArray[np.float64]


def evaluate_rollout(
    tree: KinematicTree,
    step: KernelKey,
    inputs: Mapping[str, npt.NDArray[np.float64]],
    substeps: int = 1,
    effort_limits: bool = False,
) -> tuple[Array, Array]:
    """Return the states along a rollout.

    Args:
        step:          key of the step's kernel.
        inputs:        ``q0`` (B, nq), ``qd0`` (B, nv), ``tau`` (B, T, nv), ``dt`` (B,) and the
                       other inputs of a step, (B, ...). Feedback adds ``gains`` (B, T, nv, 2 nv),
                       ``q_ref`` (B, T, nq) and ``qd_ref`` (B, T, nv).
        substeps:      integrator steps per entry of ``tau``, each of length dt / substeps.
        effort_limits: whether to clamp joint torques to the robot's limits.

    Returns:
        positions (B, T + 1, nq) and velocities (B, T + 1, nv), including the initial state.
    """
    rest = {name: value for name, value in inputs.items() if name not in ("q0", "qd0", *FEEDBACK)}
    rest["dt"] = inputs["dt"] / substeps
    states = [(inputs["q0"], inputs["qd0"])]
    for t in range(inputs["tau"].shape[1]):
        q, qd = states[-1]
        tau = inputs["tau"][:, t]
        if "gains" in inputs:
            given = {"q0": q, "q1": inputs["q_ref"][:, t]}
            (gap,) = evaluate_reference(tree, "difference", given)
            error = np.concatenate((gap, inputs["qd_ref"][:, t] - qd), axis=1)
            tau = tau + np.einsum("bij,bj->bi", inputs["gains"][:, t], error)
        if effort_limits:
            limits = np.array(tree.effort_limits)
            tau = np.clip(tau, -limits, limits)
        for _ in range(substeps):
            q, qd = evaluate_reference(tree, step.name, rest | {"q": q, "qd": qd, "tau": tau})
        states.append((q, qd))
    positions, velocities = zip(*states, strict=True)
    return np.stack(positions, axis=1), np.stack(velocities, axis=1)


def evaluate_rollout_back(
    tree: KinematicTree,
    step_back: KernelKey,
    inputs: Mapping[str, npt.NDArray[np.float64]],
) -> list[Array]:
    """Return the gradients of a scalar loss of a rollout: the backward pass.

    Args:
        step_back: key of the step's VJP kernel, with respect to ``q``, ``qd`` and ``tau``.
        inputs:    as in ``evaluate_rollout``, without feedback, and the gradients with respect to
                   its results, ``q_path_bar`` (B, T + 1, nq) and ``qd_path_bar`` (B, T + 1, nv).

    Returns:
        gradients with respect to ``q0`` (B, nq), ``qd0`` (B, nv) and ``tau`` (B, T, nv).
    """
    paths = evaluate_rollout(tree, step_back.primal, inputs)
    along = [inputs[cotangent(name)] for name in ("q_path", "qd_path")]
    bars = [bar[:, -1] for bar in along]
    efforts = []
    for t in reversed(range(inputs["tau"].shape[1])):
        here = {"q": paths[0][:, t], "qd": paths[1][:, t], "tau": inputs["tau"][:, t]}
        ends = dict(zip(map(cotangent, ("q_next", "qd_next")), bars, strict=True))
        *by_state, effort = evaluate_reference(tree, step_back, {**inputs, **here, **ends})
        bars = [bar[:, t] + by for bar, by in zip(along, by_state, strict=True)]
        efforts.append(effort)
    for start in tree.quaternions:
        turn = np.s_[:, start : start + 4]
        unit = inputs["q0"][turn]
        bars[0][turn] -= unit * np.sum(unit * bars[0][turn], axis=1, keepdims=True)
    return [*bars, np.stack(efforts[::-1], axis=1)]
