"""Sums of products as chains of fused multiply-adds.

A kernel whose every rounding is written down gives the same bits wherever it is compiled: no
compiler has a product and a sum left that it could contract, or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from gridgen.symbolic.expr import Expr, Graph, reachable

_SUMS = ("add", "sub")


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
        nodes:   all that they depend on but negatives, in topological order.
        own:     indices of the products that are computed by themselves.
        sums:    terms of every sum that is computed by itself, by index: nodes first, then
                 products, which are taken in from the last to the first. A sum without nodes
                 begins with its last product.
        readers: how many sums read a node, or its negative, and how many others, by index.
    """

    nodes: Sequence[Expr]
    own: Set[int]
    sums: Mapping[int, tuple[Term, ...]]
    readers: tuple[Counter[int], Counter[int]]

    @property
    def computed(self) -> list[Expr]:
        """The products, quotients and sums that are computed by themselves."""
        alone = self.own | self.sums.keys()
        return [node for node in self.nodes if node.op == "div" or node.index in alone]

    @property
    def stated(self) -> list[Expr]:
        """Those of which there is more than one reader, in topological order."""
        in_sums, elsewhere = self.readers
        times = in_sums + elsewhere
        for node in self.nodes:
            if node.op == "mul" and node.index not in self.own:
                for factor in node.args:  # which each of the sums reads
                    times[unsigned(factor)[1].index] += in_sums[node.index] - 1
        return [node for node in self.computed if times[node.index] > 1]

    @property
    def instructions(self) -> int:
        """Multiplications, additions, divisions and fused multiply-adds; signs are free."""
        sums = (self.sums.get(node.index) for node in self.computed)
        return sum(len(terms) - (not terms[0].taken_in) if terms else 1 for terms in sums)


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
    in_sums, elsewhere = _readers(nodes, roots)
    parts = {
        node.index
        for node in nodes
        if node.op in _SUMS and node.index not in kept
        if in_sums[node.index] == 1 and node.index not in elsewhere
    }
    flat = {n.index: _flat(n, parts) for n in nodes if n.op in _SUMS and n.index not in parts}
    own = {node.index for node in nodes if node.op == "mul" and node.index in elsewhere}
    own |= _begin_several(flat.values(), own)
    sums = {index: _ordered(terms, own) for index, terms in flat.items()}
    return Fused(nodes, own, sums, (in_sums, elsewhere))


def unsigned(node: Expr) -> tuple[bool, Expr]:
    """Return whether a node is the negative of another, and that node."""
    return (True, node.args[0]) if node.op == "neg" else (False, node)


def _readers(nodes: Sequence[Expr], roots: Sequence[Expr]) -> tuple[Counter[int], Counter[int]]:
    """Count the sums that read each node, or its negative, and its other readers."""
    in_sums: Counter[int] = Counter()
    elsewhere = Counter(unsigned(root)[1].index for root in roots)
    for node in nodes:
        readers = in_sums if node.op in _SUMS else elsewhere
        for operand in node.args:
            readers[unsigned(operand)[1].index] += 1
    return in_sums, elsewhere


def _flat(total: Expr, parts: Collection[int]) -> list[tuple[bool, Expr]]:
    """Return the terms of a sum and of the sums that are part of it, with their signs."""
    terms = []
    pending = [(False, total)]
    while pending:
        negative, node = pending.pop()
        if node.op == "neg":
            negative, node = not negative, node.args[0]
        if node is total or node.index in parts:
            first, second = node.args
            pending += ((negative ^ (node.op == "sub"), second), (negative, first))
        else:
            terms.append((negative, node))
    return terms


def _begin_several(sums: Iterable[Sequence[tuple[bool, Expr]]], own: Collection[int]) -> set[int]:
    """Return the products with which more than one sum would begin."""
    begun = Counter(
        min(node.index for _, node in terms)
        for terms in sums
        if all(node.op == "mul" and node.index not in own for _, node in terms)
    )
    return {index for index, times in begun.items() if times > 1}


def _ordered(terms: Sequence[tuple[bool, Expr]], own: Collection[int]) -> tuple[Term, ...]:
    """Put products last, as the algorithm makes them: what is known late is taken in late."""
    nodes, products = [], []
    for negative, node in terms:
        if node.op == "mul" and node.index not in own:
            products.append(Term(negative, node, True))
        else:
            nodes.append(Term(negative, node, False))
    products.sort(key=lambda term: -term.node.index)
    return (*nodes, *products)


def rewritten(fused: Fused) -> dict[int, Expr]:
    """Return nodes with fused multiply-adds, in a graph of their own.

    Returns:
        the new node of every old one that is computed by itself, by the index of the old; negatives
        are not.
    """
    graph = Graph()
    new: dict[int, Expr] = {}

    def operand(node: Expr) -> Expr:
        return graph.neg(new[node.args[0].index]) if node.op == "neg" else new[node.index]

    for node in fused.nodes:
        graph.block = node.block
        if node.index in fused.sums:
            new[node.index] = _chained(fused.sums[node.index], operand, graph)
        elif node.op == "input":
            assert isinstance(node.value, tuple)
            new[node.index] = graph.input(*node.value)
        elif node.op == "const":
            assert isinstance(node.value, float)
            new[node.index] = graph.const(node.value)
        elif node.op not in _SUMS and (node.op != "mul" or node.index in fused.own):
            new[node.index] = getattr(graph, node.op)(*map(operand, node.args))
    return new


def _chained(terms: Sequence[Term], operand: Callable[[Expr], Expr], graph: Graph) -> Expr:
    """Return a sum: its nodes, then its products from the last to the first."""
    products = [term for term in terms if term.taken_in]
    total = graph.zero
    for negative, node, _ in terms[: len(terms) - len(products)]:
        total = (graph.sub if negative else graph.add)(total, operand(node))
    if total is graph.zero:
        negative, node, _ = products.pop()
        total = graph.mul(*map(operand, node.args))
        total = graph.neg(total) if negative else total
    for negative, node, _ in reversed(products):
        a, b = map(operand, node.args)
        total = graph.fma(graph.neg(a) if negative else a, b, total)
    return total
