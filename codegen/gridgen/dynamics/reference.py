"""Evaluate a robot's functions on NumPy numbers: the reference for every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gridgen.dynamics.functions import computation_of
from gridgen.functions.arrays import OPEN
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
