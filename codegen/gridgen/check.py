"""Comparing a module's functions on a backend with the reference, on random states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridgen.dynamics.functions import array_shape, evaluate_reference
from gridgen.model.tree import KinematicTree
from gridgen.runtime.robot import STANDARD_GRAVITY, Robot

#: Largest relative error of a well-conditioned function: a few hundred roundings.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}
#: Solving with M multiplies rounding errors by its condition number, times a small factor.
_CONDITIONING = 8.0

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """One function on one backend against the reference.

    Attributes:
        function:  ``forward_dynamics (aba)``.
        dtype:     ``float32`` or ``float64``.
        error:     worst difference over all states, relative to the largest entry of the state.
        tolerance: what is allowed.
        condition: largest condition number of M among the states, where it matters.
    """

    function: str
    dtype: str
    error: float
    tolerance: float
    condition: float | None

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance (a NaN is not)."""
        return self.error <= self.tolerance


def random_states(tree: KinematicTree, count: int, rng: np.random.Generator) -> dict[str, Array]:
    """Return random arguments of every function.

    Positions lie within the limits (within a turn where there are none), quaternions are uniform,
    velocities, accelerations and efforts standard normal.
    """
    lower = np.maximum(tree.lower_limits, -np.pi)
    upper = np.minimum(tree.upper_limits, np.pi)
    q = rng.uniform(lower, np.maximum(lower, upper), (count, tree.nq))
    for body in tree.bodies:
        if body.kind == "free":
            turn = rng.normal(size=(count, 4))
            turn /= np.linalg.norm(turn, axis=1, keepdims=True)
            q[:, body.q_index + 3 : body.q_index + 7] = turn
    names = ("qd", "qdd", "tau", "f_ext", "base_velocity", "base_acceleration")
    states = {name: rng.normal(size=(count, *array_shape(name, tree))) for name in names}
    return {"q": q, **states, "gravity": np.tile(STANDARD_GRAVITY, (count, 1))}


def compare(
    tree: KinematicTree, robot: Robot, dtypes: Sequence[str], *, count: int = 64, seed: int = 0
) -> list[Comparison]:
    """Evaluate every function of ``robot`` and compare it with the reference of ``tree``.

    Args:
        tree:   the robot as the reference sees it.
        robot:  the robot whose functions are compared.
        dtypes: ``float32``, ``float64`` or both.
        count:  number of states.
        seed:   of the random states.
    """
    states = random_states(tree, count, np.random.default_rng(seed))
    comparisons = []
    for dtype in dtypes:
        # The reference sees the rounded inputs, so that only the computation is compared.
        rounded = {name: value.astype(dtype) for name, value in states.items()}
        exact = {name: value.astype(np.float64) for name, value in rounded.items()}
        for function in robot.functions:
            result = robot.evaluate(function, rounded).astype(np.float64)
            (reference,) = evaluate_reference(tree, function, exact)
            condition = None
            tolerance = TOLERANCE[dtype]
            if function.startswith("forward_dynamics"):
                (M,) = evaluate_reference(tree, "mass_matrix", exact)
                condition = float(np.linalg.cond(M).max())
                tolerance = max(tolerance, _CONDITIONING * condition * float(np.finfo(dtype).eps))
            error = relative_error(result, reference)
            comparisons.append(Comparison(function, dtype, error, tolerance, condition))
    return comparisons


def relative_error(result: Array, reference: Array) -> float:
    """Return the worst error over states, relative to each state's largest entry."""
    axes = tuple(range(1, reference.ndim))
    scale = np.abs(reference).max(axis=axes, keepdims=True)
    # A state whose every entry is tiny is compared with the batch's largest instead.
    scale = np.maximum(scale, 1e-3 * np.abs(reference).max())
    return float((np.abs(result - reference) / np.where(scale == 0.0, 1.0, scale)).max())
