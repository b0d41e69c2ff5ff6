"""The work of kernels of the thread schedule, without tracing them."""

from __future__ import annotations

from contextlib import suppress

from gridgen.dynamics.arrays import array_size
from gridgen.dynamics.functions import computation_of
from gridgen.kernel import Work
from gridgen.model.tree import KinematicTree
from gridgen.options import LONGEST_PROGRAM
from gridgen.symbolic.scalars import FoldingScalars, LongProgramError

# Of the operations that are counted, a trace shares some, and fuses most of the others in pairs.
# Loops share none between bodies, and count on the way.
_LEFT, _LEFT_IN_LOOPS = 0.5, 1.0
# Where counting ends, a quarter of a second from its beginning: the programs of hundreds of bodies
# have more, and nobody has to know how many.
_MOST = 2 * LONGEST_PROGRAM


def thread_work(tree: KinematicTree, function: str) -> Work:
    """Return the work of a function's program; of a very long one, a part of it.

    Args:
        tree:     the robot.
        function: name of the computation.
    """
    spec, scalars = computation_of(tree, function), FoldingScalars(_MOST)
    inputs = {name: scalars.inputs(array_size(name, tree)) for name in spec.inputs}
    with suppress(LongProgramError):
        spec.algorithm(tree, inputs, scalars)
    is_long = scalars.operations > LONGEST_PROGRAM
    operations = round((_LEFT_IN_LOOPS if is_long else _LEFT) * scalars.operations)
    return Work(operations, operations, 0)
