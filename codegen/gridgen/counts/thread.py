"""The work of kernels of the thread schedule, without tracing them."""

from __future__ import annotations

import sys

from gridgen.dynamics.arrays import array_size
from gridgen.dynamics.functions import computation_of
from gridgen.kernel import Work
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import FoldingScalars

# Of the operations that are counted, a trace shares some, and fuses most of the others in pairs.
_LEFT = 0.5


def thread_work(tree: KinematicTree, function: str) -> Work:
    """Return the work of a function's program.

    Args:
        tree:     the robot.
        function: name of the computation.
    """
    spec, scalars = computation_of(tree, function), FoldingScalars(sys.maxsize)
    inputs = {name: scalars.inputs(array_size(name, tree)) for name in spec.inputs}
    spec.algorithm(tree, inputs, scalars)
    operations = round(_LEFT * scalars.operations)
    return Work(operations, operations, 0)
