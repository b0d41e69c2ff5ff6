"""Programs of the thread schedule: traced, counted, laid out for rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

from gridgen.dynamics.computation import Computation
from gridgen.dynamics.functions import (
    computation_of,
)
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import ARRAYS
from gridgen.kernel import Kernel, KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.naming import unique
from gridgen.options import LONGEST_GPU_PROGRAM, LONGEST_PROGRAM
from gridgen.symbolic.loops import trace_with_loops
from gridgen.symbolic.order import ordered
from gridgen.symbolic.parts import SplitProgram, split_program
from gridgen.symbolic.program import Array, Program, build_program, used_inputs
from gridgen.symbolic.scalars import CountingScalars, FoldingScalars, LongProgramError
from gridgen.symbolic.tiles import Staging, plan_staging
from gridgen.symbolic.trace import TraceScalars

#: Where counting ends, a quarter of a second from its beginning: the programs of hundreds of bodies
#: have more, and nobody has to know how many.
MOST_COUNTED = 2 * LONGEST_PROGRAM


@dataclass(frozen=True)
class Programs:
    """The programs of one kernel: a single one, unless it is too long for a GPU alone.

    A processor runs a long line of instructions faster than loops. On a GPU every warp fetches it
    from memory, and what waits for its later parts does not fit into registers.

    Attributes:
        cpu: what runs over SIMD packs.
        gpu: what a thread of a GPU runs.
    """

    cpu: Program
    gpu: Program

    @property
    def are_one(self) -> bool:
        """Whether both are the same program, whose results have the same bits everywhere."""
        return self.cpu is self.gpu

    @cached_property
    def gpu_parts(self) -> SplitProgram | None:
        """Parts of the GPU's, if it is long."""
        return split_program(self.gpu)


def jacobian_inputs(kernel: Kernel) -> tuple[str, ...]:
    """Return the arrays by which a Jacobian is computed column by column: all but gravity."""
    return tuple(name for name in kernel.inputs if name != "gravity")


def jacobian_key(kernel: Kernel) -> KernelKey:
    """Return the product that computes a function's Jacobian column by column."""
    return kernel.key.product("jvp", jacobian_inputs(kernel))


def _is_reversed(key: KernelKey) -> bool:
    return any(product.kind == "vjp" for product in key.products)


def is_never_in_loops(key: KernelKey) -> bool:
    """Tell whether loops over bodies do not have a kernel: the jvp of a vjp, constraints."""
    if [product.kind for product in key.products] == ["vjp", "jvp"]:
        return True
    parts = key.parts or (key,)
    methods = (FUNCTIONS[part.function].methods.get(part.method) for part in parts)
    return any(method is not None and not method.in_loops for method in methods)


def plan_programs(
    tree: KinematicTree,
    function: str | KernelKey,
    longest: int = LONGEST_PROGRAM,
    longest_on_gpu: int = LONGEST_GPU_PROGRAM,
) -> Programs:
    """Trace one function of a robot into the program of a CPU and that of a GPU.

    Args:
        tree:           the robot.
        function:       name of the computation, or its key.
        longest:        operations of the longest straight-line program.
        longest_on_gpu: those of a GPU's, if they are fewer.
    """
    key = function if isinstance(function, KernelKey) else computation_of(tree, function).key
    if is_never_in_loops(key) or key.bodies:
        cpu = plan_lines(tree, function)
        return Programs(cpu, cpu)
    operations = count_operations(tree, function, max(longest, MOST_COUNTED))
    if operations > longest:
        cpu = gpu = plan_loops(tree, function)
    else:
        cpu = gpu = plan_lines(tree, function)
        if operations > longest_on_gpu and not _is_reversed(key):
            gpu = plan_loops(tree, function)
    return Programs(cpu, gpu)


def plan_lines(tree: KinematicTree, function: str | KernelKey) -> Program:
    """Trace one function of a robot into straight-line code."""
    spec = computation_of(tree, function)
    inputs, outputs = _arrays(tree, spec, spec.inputs), _arrays(tree, spec, spec.outputs)

    trace = TraceScalars()
    nodes = {array.name: trace.inputs(array.name, array.size) for array in inputs}
    results = [
        [trace.graph.lift(entry) for entry in elements]
        for elements in spec.algorithm(tree, nodes, trace)
    ]

    dense = CountingScalars()
    spec.algorithm(tree, {array.name: dense.inputs(array.size) for array in inputs}, dense)

    idents = unique([body.name for body in tree.bodies])
    program = build_program(
        trace, inputs, list(zip(outputs, results, strict=True)), idents, dense.operations
    )
    return ordered(program)


def plan_loops(tree: KinematicTree, function: str | KernelKey) -> Program:
    """Trace one function of a robot into a program whose loops over bodies stay loops."""
    spec = computation_of(tree, function)
    inputs, outputs = _arrays(tree, spec, spec.inputs), _arrays(tree, spec, spec.outputs)
    trace = trace_with_loops(tree, spec.results, inputs, outputs)  # type: ignore[arg-type]
    idents = unique([body.name for body in tree.bodies])
    return build_program(trace, inputs, [(array, []) for array in outputs], idents, 0)


def _arrays(tree: KinematicTree, spec: Computation, names: Sequence[str]) -> list[Array]:
    """Return arrays of a computation for one state."""
    return [Array(name, math.prod(spec.shape(name, tree))) for name in names]


def plan_rows(program: Program) -> Staging | None:
    """Lay out the shared memory of a kernel whose arrays are rows; ``None`` if there is none.

    Arrays that all states may share are read in place.
    """
    used = used_inputs(program)
    names = (array.name for array in program.inputs)
    return plan_staging(program, [n for n in names if n in used and not ARRAYS[n].shared])


def is_longer(tree: KinematicTree, function: str | KernelKey, most: int) -> bool:
    """Tell whether a function's program has more operations, without tracing it.

    The count, of ``FoldingScalars``, is somewhat too high.

    Args:
        tree:     the robot.
        function: name of the computation, or its key.
        most:     number of operations.
    """
    return count_operations(tree, function, most) > most


@lru_cache(maxsize=256)  # of the functions of a robot or two: programs and plans ask for them
def count_operations(
    tree: KinematicTree, function: str | KernelKey, most: int = MOST_COUNTED
) -> int:
    """Count the operations of a function's program, as ``FoldingScalars`` does.

    Args:
        tree:     the robot.
        function: name of the computation, or its key.
        most:     the count ends beyond it.
    """
    spec, scalars = computation_of(tree, function), FoldingScalars(most)
    inputs = {a.name: scalars.inputs(a.size) for a in _arrays(tree, spec, spec.inputs)}
    with suppress(LongProgramError):
        spec.algorithm(tree, inputs, scalars)
    return scalars.operations
