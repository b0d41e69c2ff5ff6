"""Sums of products as chains of fused multiply-adds.

A kernel whose every rounding is written down gives the same bits wherever it is compiled: no
compiler has a product and a sum left that it could contract, or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gridgen.symbolic.expr import Expr, Graph, reachable


class Term(NamedTuple):
    """A term of a sum.

    Attributes:
        negative: whether it is subtracted.
        node:     what is.
        taken_in: whether it is a product that a fused multiply-add takes in.
    """

    negative: bool
    node: Expr
    taken_in: bool


@dataclass(frozen=True)
class Fused:
    """How expressions are computed.

    Attributes:
        sums:         terms of every sum that is computed by itself, by index: nodes first, then
                      products, which are taken in from the last to the first. A sum without nodes
                      begins with its last product.
        stated:       nodes of which there is more than one reader, in topological order.
        instructions: multiplications, additions, divisions and fused multiply-adds; signs are free.
    """

    sums: Mapping[int, tuple[Term, ...]]
    stated: tuple[Expr, ...]
    instructions: int


def fuse(roots: Sequence[Expr], kept: Collection[int] = ()) -> Fused:
    """Choose the fused multiply-adds that compute ``roots``.

    A product that only sums read is part of each of them: an addition becomes a fused
    multiply-add, and the product itself is saved. It is computed by itself, once, where two sums
    or more would begin with it.

    Args:
        roots: what is computed.
        kept:  indices of sums that are not to become parts of others.
    """
    nodes = [node for node in reachable(roots) if node.op != "neg"]
    readers = _readers(nodes, roots)
    own = {node.index for node in nodes if node.op == "mul" and readers[node.index]["other"]}
    begun = Counter(
        terms[-1].node.index for terms in _sums(nodes, readers, own, kept).values() if terms[0].taken_in
    )
    own |= {node.index for node in nodes if node.op == "mul" and begun[node.index] > 1}
    sums = _sums(nodes, readers, own, kept)
    computed = [node for node in nodes if node.op == "div" or node.index in own | sums.keys()]
    times = _times_read(nodes, readers, own)
    return Fused(
        sums,
        tuple(node for node in computed if times[node.index] > 1),
        sum(_instructions(sums[node.index]) if node.index in sums else 1 for node in computed),
    )


def unsigned(node: Expr) -> tuple[bool, Expr]:
    """Return whether a node is the negative of another, and that node."""
    return (True, node.args[0]) if node.op == "neg" else (False, node)


def _readers(nodes: Sequence[Expr], roots: Sequence[Expr]) -> dict[int, Counter[str]]:
    """Count who reads a node, or its negative: sums, and others."""
    readers: dict[int, Counter[str]] = {node.index: Counter() for node in nodes}
    for node in nodes:
        for operand in node.args:
            reader = "sum" if node.op in ("add", "sub") else "other"
            readers[unsigned(operand)[1].index][reader] += 1
    for root in roots:
        readers[unsigned(root)[1].index]["other"] += 1
    return readers


def _times_read(
    nodes: Sequence[Expr], readers: Mapping[int, Counter[str]], own: set[int]
) -> Counter[int]:
    """Count how often each node is read: a product in several sums reads its factors in each."""
    times = Counter({index: counted.total() for index, counted in readers.items()})
    for node in nodes:
        if node.op == "mul" and node.index not in own:
            for factor in node.args:
                times[unsigned(factor)[1].index] += readers[node.index].total() - 1
    return times


def _sums(
    nodes: Sequence[Expr],
    readers: Mapping[int, Counter[str]],
    own: set[int],
    kept: Collection[int],
) -> dict[int, tuple[Term, ...]]:
    """Return the terms of every sum that is not part of another.

    Products are taken in as the algorithm makes them: what is known late, late.
    """

    def is_part(node: Expr) -> bool:
        is_sum = node.op in ("add", "sub") and node.index not in kept
        return is_sum and readers[node.index] == Counter(sum=1)

    def terms(node: Expr, negative: bool) -> Iterator[Term]:
        for operand, flipped in zip(node.args, (False, node.op == "sub"), strict=True):
            sign, term = unsigned(operand)
            sign ^= negative ^ flipped
            if is_part(term):
                yield from terms(term, sign)
            else:
                yield Term(sign, term, term.op == "mul" and term.index not in own)

    def place(term: Term) -> tuple[int, int]:
        return term.taken_in, -term.node.index if term.taken_in else 0

    return {
        node.index: tuple(sorted(terms(node, False), key=place))
        for node in nodes
        if node.op in ("add", "sub") and not is_part(node)
    }


def _instructions(terms: Sequence[Term]) -> int:
    """Count what a sum takes: a first node is free, a first product is a multiplication."""
    return len(terms) - (not terms[0].taken_in)


def rewritten(roots: Sequence[Expr], kept: Collection[int]) -> dict[int, Expr]:
    """Return the nodes that compute ``roots`` with fused multiply-adds, in a graph of their own.

    Args:
        roots: what is computed.
        kept:  indices of sums that are not to become parts of others.

    Returns:
        the new node of every old one that is computed by itself, by the index of the old.
    """
    fused, graph = fuse(roots, kept), Graph()
    new: dict[int, Expr] = {}

    def operand(node: Expr) -> Expr:
        negative, node = unsigned(node)
        return graph.neg(new[node.index]) if negative else new[node.index]

    for node in reachable(roots):
        graph.block = node.block
        if node.index in fused.sums:
            new[node.index] = _chained(fused.sums[node.index], operand, graph)
        elif node.op == "input":
            assert isinstance(node.value, tuple)
            new[node.index] = graph.input(*node.value)
        elif node.op == "const":
            assert isinstance(node.value, float)
            new[node.index] = graph.const(node.value)
        elif node.op not in ("add", "sub"):
            new[node.index] = getattr(graph, node.op)(*map(operand, node.args))
    return new


def _chained(terms: Sequence[Term], operand: Callable[[Expr], Expr], graph: Graph) -> Expr:
    """Return a sum: its nodes, then its products from the last to the first."""
    total: Expr | None = None
    for negative, node, taken_in in sorted(terms, key=lambda term: term.taken_in):
        if taken_in:
            break
        value = operand(node)
        if total is None:
            total = graph.neg(value) if negative else value
        else:
            total = graph.sub(total, value) if negative else graph.add(total, value)
    for negative, node, _ in reversed([term for term in terms if term.taken_in]):
        a, b = map(operand, node.args)
        if total is None:
            product = graph.mul(a, b)
            total = graph.neg(product) if negative else product
        else:
            total = graph.fma(graph.neg(a) if negative else a, b, total)
    assert total is not None
    return total
