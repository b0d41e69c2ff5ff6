"""The functions of a robot on NumPy numbers: the reference of every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gridgen.dynamics.functions import computation_of
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.rounding import Rounded, RoundedScalars, rounded
from gridgen.symbolic.scalars import FloatScalars, Scalar


def evaluate_reference(
    tree: KinematicTree, function: str | KernelKey, inputs: Mapping[str, npt.ArrayLike]
) -> list[npt.NDArray[np.float64]]:
    """Run a function's algorithm on NumPy numbers.

    Args:
        function: its name in C++, or its key.
        inputs:   the arrays by name, (B, ...) each; ``gravity``, the base's motion and what the
                  robot takes of ``PARAMETERS`` may be one for all states, the latter left out.
                  Complex numbers are accepted (complex steps).

    Returns:
        the outputs, (B, ...) each.
    """
    return _evaluate(tree, function, inputs, lambda column: column, lambda element: element)


def rounding_bounds(
    tree: KinematicTree, function: str | KernelKey, inputs: Mapping[str, npt.ArrayLike]
) -> list[npt.NDArray[np.float64]]:
    """Return how far rounding may take the results of a function from exact ones.

    Arguments as in ``evaluate_reference``, real ones.

    Returns:
        a bound for each element of the outputs, (B, ...) each, in units of rounding; of the first
        order.
    """
    return _evaluate(tree, function, inputs, Rounded, lambda element: rounded(element).error)


def _evaluate(
    tree: KinematicTree,
    function: str | KernelKey,
    inputs: Mapping[str, npt.ArrayLike],
    scalar: Callable[[npt.NDArray[Any]], Scalar],
    number: Callable[[Scalar], npt.ArrayLike],
) -> list[npt.NDArray[np.float64]]:
    """Run an algorithm on scalars made of columns of the inputs; return numbers made of results."""
    spec = computation_of(tree, function)
    batch = np.shape(inputs[spec.inputs[0]])[0]
    columns: dict[str, list[Scalar]] = {}
    for name in spec.inputs:
        shape = (batch, *spec.shape(name, tree))
        given = inputs[name] if name in inputs else tree.parameters[name]
        flat = np.broadcast_to(np.asarray(given), shape).reshape(batch, -1)
        columns[name] = [scalar(column) for column in flat.T]
    kind = RoundedScalars if scalar is Rounded else FloatScalars
    results = spec.algorithm(tree, columns, kind())
    arrays = []
    for name, elements in zip(spec.outputs, results, strict=True):
        numbers = [np.broadcast_to(number(element), (batch,)) for element in elements]
        arrays.append(np.stack(numbers, axis=1).reshape(batch, *spec.shape(name, tree)))
    return arrays
