"""Programs of the thread schedule: tracing, operation counts, layout for rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

from gridgen.dynamics.computation import Computation
from gridgen.dynamics.functions import FURTHER_STEPS, computation_of
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import ARRAYS
from gridgen.functions.record import STEPS
from gridgen.kernel import MAX_PAIRED, Kernel, KernelKey, Work
from gridgen.model.tree import KinematicTree
from gridgen.naming import unique
from gridgen.options import MAX_GPU_PROGRAM, MAX_PROGRAM
from gridgen.progress import announced
from gridgen.source_cache import cached_text
from gridgen.symbolic.loops import trace_with_loops
from gridgen.symbolic.loops.rows import RowScalars
from gridgen.symbolic.order import ordered
from gridgen.symbolic.parts import SplitProgram, split_program
from gridgen.symbolic.program import Array, Program, build_program, used_inputs
from gridgen.symbolic.scalars import CountingScalars, FoldingScalars, LongProgramError
from gridgen.symbolic.tiles import Staging, plan_staging
from gridgen.symbolic.trace import TraceScalars

#: Most counted operations for an instruction of straight-line code: programs of arms and legged
#: robots have two or fewer.
MAX_SHARED = 3
#: Limit of counting, reached after a third of a second. The programs of robots with hundreds of
#: bodies have more operations, and no decision needs their exact count.
MAX_COUNTED = MAX_SHARED * MAX_PROGRAM
#: Counts from here on are cached for other processes: shorter ones take less time than a file.
MIN_CACHED = 2_000
# Fractions of the counted operations that remain: straight-line code shares common subexpressions
# and fuses most other operations in pairs; loops do neither across bodies, and compute indices.
_LEFT, _LEFT_IN_LOOPS = 0.5, 1.0


def thread_work(tree: KinematicTree, function: str | KernelKey) -> Work:
    """Return the work of a function's program; a lower bound for a very long one.

    The defaults of ``load`` decide whether it has loops, for the instructions that probably remain.
    """
    count = count_operations(tree, function)
    left = round(_LEFT * count)
    has_loops = left > MAX_GPU_PROGRAM
    on_cpu, on_gpu = (
        round(_LEFT_IN_LOOPS * count) if form else left for form in (left > MAX_PROGRAM, has_loops)
    )
    return Work(on_cpu, on_gpu, 0, has_loops)


def is_longer(tree: KinematicTree, function: str | KernelKey, most: int) -> bool:
    """Return whether the text of a function's program has more operations, without tracing it.

    The count, of ``FoldingScalars``, is somewhat too high; that of queries is no part of it.
    """
    return _counted(tree, function, most)[0] > most


def count_operations(
    tree: KinematicTree, function: str | KernelKey, most: int = MAX_COUNTED
) -> int:
    """Count the operations of a function's program, as ``FoldingScalars`` does."""
    return sum(_counted(tree, function, most))


@lru_cache(maxsize=256)  # of the functions of a robot or two: programs and plans need them
def _counted(tree: KinematicTree, function: str | KernelKey, most: int) -> tuple[int, int]:
    """Return the operations of a program's text, up to a limit, and those of its queries.

    A count that takes long is cached for other processes.
    """
    spec, scalars = computation_of(tree, function), FoldingScalars(most)

    def counted() -> str | None:
        _count(tree, spec, scalars)
        counts = f"{scalars.operations} {scalars.searches}"
        return counts if scalars.operations >= MIN_CACHED else None

    found = cached_text(
        counted, kind="count", robot=tree.fingerprint, kernel=repr(spec.key), most=most
    )
    text, searches = map(int, found.split()) if found else (scalars.operations, scalars.searches)
    return text, searches


def _count(tree: KinematicTree, spec: Computation, scalars: FoldingScalars) -> None:
    inputs = {name: scalars.inputs(math.prod(spec.shape(name, tree))) for name in spec.inputs}
    with announced(f"counting the operations of {spec.key.name} of {tree.name}"):
        with suppress(LongProgramError):
            spec.algorithm(tree, inputs, scalars)


# The operations that gridgen::Two has.
_PAIRED = {"input", "const", "neg", "add", "sub", "mul", "div", "fma", "fnma", "sin", "cos", "sqrt"}


@dataclass(frozen=True)
class Programs:
    """The programs of one kernel: a single one, unless a GPU alone has loops."""

    cpu: Program  #: the program for SIMD packs.
    gpu: Program  #: the program for a GPU thread.

    @property
    def are_one(self) -> bool:
        """Whether both are the same program, whose results are bitwise equal on both targets."""
        return self.cpu is self.gpu

    @cached_property
    def gpu_parts(self) -> SplitProgram | None:
        """Parts of the GPU's program, if it is long."""
        return split_program(self.gpu)


def jacobian_inputs(kernel: Kernel) -> tuple[str, ...]:
    """Return the arrays by which a Jacobian is computed column by column: all but gravity."""
    return tuple(name for name in kernel.inputs if name != "gravity")


def jacobian_key(kernel: Kernel) -> KernelKey:
    """Return the product that computes a function's Jacobian column by column."""
    return kernel.key.product("jvp", jacobian_inputs(kernel))


def _is_reversed(key: KernelKey) -> bool:
    return any(product.kind == "vjp" for product in key.products)


def is_never_in_loops(tree: KinematicTree, key: KernelKey) -> bool:
    """Return whether a kernel has no version with loops: the jvp of a vjp, constraints."""
    if [product.kind for product in key.products] == ["vjp", "jvp"]:
        return True
    if key.step in STEPS and not STEPS[key.step].algorithm.in_loops:
        return True
    if key.function in ("inverse_kinematics", "trajectory_cost") or tree.has_mujoco_quaternions:
        return True
    rows = [(FUNCTIONS[part.function], part.method) for part in key.parts or (key,)]
    if tree.contact_model.acts and any("tolerance" in row.options for row, _ in rows):
        return True
    if tree.actuators and any("ctrl" in row.options for row, _ in rows):
        return True
    if tree.constraints and any("active" in row.options for row, _ in rows):
        return True
    methods = (row.methods.get(method) for row, method in rows)
    return any(method is not None and not method.in_loops for method in methods)


def plan_programs(
    tree: KinematicTree,
    function: str | KernelKey,
    longest: int = MAX_PROGRAM,
    longest_on_gpu: int = MAX_GPU_PROGRAM,
) -> Programs:
    """Trace one function of a robot into the programs of a CPU and a GPU.

    The instructions of straight-line code decide whether a program has loops. They are known after
    a trace, which a count far beyond the limit makes unnecessary.

    Args:
        tree:           the robot.
        function:       name of the computation, or its key.
        longest:        instructions of the longest straight-line program.
        longest_on_gpu: the same for a GPU, if fewer.
    """
    key = function if isinstance(function, KernelKey) else computation_of(tree, function).key
    if is_never_in_loops(tree, key) or key.step in FURTHER_STEPS:
        cpu = plan_lines(tree, function)
        return Programs(cpu, cpu)
    lines = None
    if not is_longer(tree, function, MAX_SHARED * longest):
        lines = plan_lines(tree, function)
    if lines is None or lines.instructions > longest:
        loops = plan_loops(tree, function)
        return Programs(loops, loops)
    is_short = lines.instructions <= longest_on_gpu or _is_reversed(key)
    return Programs(lines, lines if is_short else plan_loops(tree, function))


def plan_lines(tree: KinematicTree, function: str | KernelKey) -> Program:
    """Trace one function of a robot into straight-line code."""
    spec = computation_of(tree, function)
    inputs, outputs = _arrays(tree, spec, spec.inputs), _arrays(tree, spec, spec.outputs)

    trace = TraceScalars() if spec.key.products else RowScalars()
    nodes = {array.name: trace.inputs(array.name, array.size) for array in inputs}
    results = [
        [trace.graph.lift(entry) for entry in elements]
        for elements in spec.algorithm(tree, nodes, trace)
    ]

    dense = CountingScalars()
    if not trace.loops.effects:
        spec.algorithm(tree, {array.name: dense.inputs(array.size) for array in inputs}, dense)

    idents = unique([body.name for body in tree.bodies])
    program = build_program(
        trace, inputs, list(zip(outputs, results, strict=True)), idents, dense.operations
    )
    return program if program.loops else ordered(program)


def plan_loops(tree: KinematicTree, function: str | KernelKey) -> Program:
    """Trace one function of a robot into a program with loops over bodies."""
    spec = computation_of(tree, function)
    inputs, outputs = _arrays(tree, spec, spec.inputs), _arrays(tree, spec, spec.outputs)
    trace = trace_with_loops(tree, spec.results, inputs, outputs)  # type: ignore[arg-type]
    idents = unique([body.name for body in tree.bodies])
    return build_program(trace, inputs, [(array, []) for array in outputs], idents, 0)


def _arrays(tree: KinematicTree, spec: Computation, names: Sequence[str]) -> list[Array]:
    """Return the arrays of a computation for one state."""
    return [Array(name, math.prod(spec.shape(name, tree))) for name in names]


def has_pairs(program: Program) -> bool:
    """Return whether a GPU thread may compute two states: a short program, all in registers."""
    is_short = program.loops is None and program.instructions <= MAX_PAIRED
    return is_short and {node.op for node in program.nodes} <= _PAIRED


def plan_rows(program: Program) -> Staging | None:
    """Lay out the shared memory of a kernel for row arrays; ``None`` if there is none.

    Arrays that all states may share are used without a copy.
    """
    used = used_inputs(program)
    names = (array.name for array in program.inputs)
    return plan_staging(program, [n for n in names if n in used and not ARRAYS[n].shared])
