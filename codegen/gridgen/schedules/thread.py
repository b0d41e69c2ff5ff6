"""The thread schedule: one state per GPU thread or SIMD lane, straight-line code."""

from __future__ import annotations

from gridgen.dynamics.arrays import array_size
from gridgen.dynamics.functions import function_of
from gridgen.model.tree import KinematicTree
from gridgen.naming import unique
from gridgen.symbolic.program import Array, Program, build_program
from gridgen.symbolic.scalars import CountingScalars, FoldingScalars, LongProgramError
from gridgen.symbolic.trace import TraceScalars


def plan_thread(tree: KinematicTree, function: str) -> Program:
    """Trace one function of a robot into a straight-line program.

    Args:
        tree:     the robot.
        function: its name in C++.
    """
    spec = function_of(tree, function)
    inputs = [Array(name, array_size(name, tree)) for name in spec.inputs]
    outputs = [Array(name, array_size(name, tree)) for name in spec.outputs]

    trace = TraceScalars()
    nodes = {array.name: trace.inputs(array.name, array.size) for array in inputs}
    results = [
        [trace.graph.lift(entry) for entry in elements]
        for elements in spec.algorithm(tree, nodes, trace)
    ]

    dense = CountingScalars()
    spec.algorithm(tree, {array.name: dense.inputs(array.size) for array in inputs}, dense)

    idents = unique([body.name for body in tree.bodies])
    return build_program(
        trace, inputs, list(zip(outputs, results, strict=True)), idents, dense.operations
    )


def is_longer(tree: KinematicTree, function: str, most: int) -> bool:
    """Tell whether a function's program has more operations, without tracing it.

    The count, of ``FoldingScalars``, is somewhat too high.

    Args:
        tree:     the robot.
        function: its name in C++.
        most:     number of operations.
    """
    spec, scalars = function_of(tree, function), FoldingScalars(most)
    inputs = {name: scalars.inputs(array_size(name, tree)) for name in spec.inputs}
    try:
        spec.algorithm(tree, inputs, scalars)
    except LongProgramError:
        return True
    return False
