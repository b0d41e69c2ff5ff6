"""Small traced programs for tests of compiler passes."""

from __future__ import annotations

import random

from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.options import MAX_PROGRAM
from gridgen.schedules.thread.plan import plan_programs
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.program import Array, Program, build_program
from gridgen.symbolic.trace import TraceScalars

#: Elements of the input.
VALUES = [0.5, 1.5, -0.25, 0.75, 1.25, -1.0, 0.3, 0.9, 2.0]


def program_of(trace: TraceScalars, *outputs: Expr) -> Program:
    array = Array("out", len(outputs))
    return build_program(trace, [Array("q", len(VALUES))], [(array, outputs)], ["arm"], 0)


def random_program(seed: int) -> Program:
    """Return a program with values of short and long lifetimes, many uses, or only outputs."""
    rng = random.Random(seed)
    trace = TraceScalars()
    nodes = trace.inputs("q", len(VALUES))
    for _ in range(rng.randint(3, 30)):
        trace.begin("outward", 0)
        for _ in range(rng.randint(1, 40)):
            recent = nodes[-8:] if rng.random() < 0.7 else nodes
            a, b = rng.choice(recent), rng.choice(nodes)
            made = [
                lambda a, b: a + b,
                lambda a, b: a - b * 0.5,
                lambda a, b: a * b * 0.1,
                lambda a, b: -a / (b * b + 3.0),
                lambda a, b: trace.sincos(a)[0] + trace.sincos(a)[1] * b,
                lambda a, b: trace.sign(a) + b,
            ]
            nodes.append(trace.keep("f", 0, rng.choice(made)(a, b)))
    others = [trace.constant(1.5), trace.graph.zero, nodes[0]]
    outputs = [*(rng.choice(nodes[9:]) for _ in range(20)), nodes[-1] * nodes[3], *others]
    return program_of(trace, *rng.sample(outputs, len(outputs)))


def plan_thread(
    tree: KinematicTree, function: str | KernelKey, longest: int = MAX_PROGRAM
) -> Program:
    """Trace a function: straight-line code, or loops if it exceeds ``longest`` instructions."""
    return plan_programs(tree, function, longest, longest).cpu
