"""The functions of a robot on NumPy numbers: the reference of every backend."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from gridgen.dynamics.functions import computation_of
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import FloatScalars, Scalar


def evaluate_reference(
    tree: KinematicTree, function: str | KernelKey, inputs: Mapping[str, npt.ArrayLike]
) -> list[npt.NDArray[np.float64]]:
    """Run a function's algorithm on NumPy numbers.

    Args:
        tree:     the robot.
        function: its name in C++, or its key.
        inputs:   the arrays by name, (B, ...) each; ``gravity``, the base's motion and what the
                  robot takes of ``PARAMETERS`` may be one for all states, the latter left out.
                  Complex numbers are accepted (complex steps).

    Returns:
        the outputs, (B, ...) each.
    """
    spec = computation_of(tree, function)
    batch = np.shape(inputs[spec.inputs[0]])[0]
    columns: dict[str, list[Scalar]] = {}
    for name in spec.inputs:
        shape = (batch, *spec.shape(name, tree))
        given = inputs[name] if name in inputs else tree.parameters[name]
        flat = np.broadcast_to(np.asarray(given), shape).reshape(batch, -1)
        columns[name] = list(flat.T)
    results = spec.algorithm(tree, columns, FloatScalars())
    arrays = []
    for name, elements in zip(spec.outputs, results, strict=True):
        stacked = np.stack([np.broadcast_to(element, (batch,)) for element in elements], axis=1)
        arrays.append(stacked.reshape(batch, *spec.shape(name, tree)))
    return arrays
