"""The work of kernels of the thread schedule, without tracing them."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import lru_cache

from gridgen.dynamics.computation import Computation
from gridgen.dynamics.functions import computation_of
from gridgen.kernel import KernelKey, Work
from gridgen.model.tree import KinematicTree
from gridgen.options import LONGEST_GPU_PROGRAM, LONGEST_PROGRAM
from gridgen.progress import announced
from gridgen.source_cache import cached_text
from gridgen.symbolic.scalars import FoldingScalars, LongProgramError

#: Most counted operations for an instruction of straight-line code: programs of arms and legged
#: robots have two or fewer.
MAX_SHARED = 3
#: Limit of counting, reached after a third of a second. The programs of robots with hundreds of
#: bodies have more operations, and no decision needs their exact count.
MAX_COUNTED = MAX_SHARED * LONGEST_PROGRAM
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
    has_loops = left > LONGEST_GPU_PROGRAM
    on_cpu, on_gpu = (
        round(_LEFT_IN_LOOPS * count) if form else left
        for form in (left > LONGEST_PROGRAM, has_loops)
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


@lru_cache(maxsize=256)  # of the functions of a robot or two: programs and plans ask for them
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
