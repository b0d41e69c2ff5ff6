"""Reverse-mode differentiation of a trace: the gradient of a weighted sum of results.

The pass visits the nodes in reverse. Each node adds the product of its own adjoint and its
derivative to the adjoints of its operands. It uses the values of the forward pass, and folding
removes structural zeros. The program with derivatives has 1.9 to 2.6 times the operations of the
results alone, for any number of inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gridgen.errors import InternalError
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.memory import Query
from gridgen.symbolic.trace import TraceScalars


def adjoints(
    trace: TraceScalars,
    results: Sequence[Expr],
    weights: Sequence[Expr],
    inputs: Sequence[Expr],
) -> list[Expr]:
    """Return the gradient of the weighted sum of the results with respect to nodes of a trace.

    Args:
        trace:   scalars of the trace of the results, without loops; the function adds nodes.
        results: nodes.
        weights: one node for each result, independent of the inputs.
        inputs:  distinct nodes for the gradient, not constants. Computed nodes count as
                 inputs: their operands get no adjoints.

    Returns:
        one node for each of ``inputs``.
    """
    graph = trace.graph
    ends = {node.index for node in inputs}
    sums: dict[int, Expr] = {}

    def add(node: Expr, change: Expr) -> None:
        while node.op == "neg" and node.index not in ends:
            node, change = node.args[0], graph.neg(change)
        known = sums.get(node.index)
        sums[node.index] = change if known is None else graph.add(known, change)

    nodes = _between(results, ends)
    for result, weight in zip(results, weights, strict=True):
        add(result, weight)
    block: int | None = None
    for node in reversed(nodes):
        if node.index not in sums or node.index in ends:
            continue
        if node.block != block:
            block = node.block
            trace.begin("adjoint", trace.blocks[block][1])
        change = sums.pop(node.index)
        for operand, part in parts_of(node, change):
            add(operand, part)
    return [sums.get(node.index, graph.zero) for node in inputs]


def _between(results: Sequence[Expr], ends: set[int]) -> list[Expr]:
    """Return the nodes from the ends to the results, operands first."""
    seen: dict[int, Expr] = {}
    stack = list(results)
    while stack:
        node = stack.pop()
        if node.index not in seen:
            seen[node.index] = node
            if node.index not in ends:
                stack.extend(node.args)
    return [seen[index] for index in sorted(seen)]


def parts_of(
    node: Expr, change: Expr, value: Callable[[Expr], Expr] = lambda node: node
) -> Iterator[tuple[Expr, Expr]]:
    """Yield the operands of a node with the contributions to their adjoints.

    Args:
        node:   the node.
        change: adjoint of the node.
        value:  function that returns a node of the forward pass in the reverse pass.
    """
    graph, op = node.graph, node.op
    query = node.args[0].value if op == "part" else None
    if isinstance(query, Query) and query.gradient is not None:
        operands = node.args[0].args
        slopes = graph.query(query.gradient, tuple(map(value, operands)))
        yield from ((x, graph.mul(change, s)) for x, s in zip(operands, slopes, strict=False))
        return
    if op in ("const", "input", "neg", "sign", "query", "part"):
        return  # the caller removes negatives; signs and queries are constant almost everywhere
    if op == "add":
        yield from ((operand, change) for operand in node.args)
    elif op == "sub":
        a, b = node.args
        yield a, change
        yield b, graph.neg(change)
    elif op == "mul":
        a, b = node.args
        yield a, graph.mul(change, value(b))
        yield b, graph.mul(change, value(a))
    elif op == "div":
        a, b = node.args
        share = graph.div(change, value(b))
        yield a, share
        yield b, graph.neg(graph.mul(share, value(node)))
    elif op == "sin":
        (angle,) = node.args
        yield angle, graph.mul(change, graph.cos(value(angle)))
    elif op == "cos":
        (angle,) = node.args
        yield angle, graph.neg(graph.mul(change, graph.sin(value(angle))))
    elif op == "sqrt":
        (a,) = node.args
        yield a, graph.div(graph.mul(graph.const(0.5), change), value(node))
    elif op == "exp":
        yield node.args[0], graph.mul(change, value(node))
    elif op == "log":
        yield node.args[0], graph.div(change, value(node.args[0]))
    elif op == "atan2":
        y, x = map(value, node.args)
        share = graph.div(change, graph.add(graph.mul(x, x), graph.mul(y, y)))
        yield node.args[0], graph.mul(share, x)
        yield node.args[1], graph.neg(graph.mul(share, y))
    elif op == "select":
        test, a, b = node.args
        test = value(test)
        yield a, graph.select(test, change, graph.zero)
        yield b, graph.select(test, graph.zero, change)
    else:
        raise InternalError(f"no derivative rule for the operation {op!r}")
