"""The work of kernels of the thread schedule, without tracing them."""

from __future__ import annotations

from gridgen.kernel import KernelKey, Work
from gridgen.model.tree import KinematicTree
from gridgen.options import LONGEST_GPU_PROGRAM, LONGEST_PROGRAM
from gridgen.schedules.thread.plan import count_operations

# Fractions of the counted operations that remain: straight-line code shares common subexpressions
# and fuses most other operations in pairs; loops do neither across bodies, and compute indices.

_LEFT, _LEFT_IN_LOOPS = 0.5, 1.0


def thread_work(tree: KinematicTree, function: str | KernelKey) -> Work:
    """Return the work of a function's program; a lower bound for a very long one.

    The defaults of ``GenerateOptions`` decide whether it has loops.
    """
    count = count_operations(tree, function)
    on_cpu, on_gpu = (
        round((_LEFT_IN_LOOPS if count > longest else _LEFT) * count)
        for longest in (LONGEST_PROGRAM, LONGEST_GPU_PROGRAM)
    )
    return Work(on_cpu, on_gpu, 0)
