"""Sums of products as chains of fused multiply-adds.

A kernel whose every rounding is written down gives the same bits wherever it is compiled: no
compiler has a product and a sum left that it could contract, or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gridgen.symbolic.expr import Expr, reachable


class Term(NamedTuple):
    """A term of a sum: one node, or the product of two that a fused multiply-add takes in."""

    negative: bool
    factors: tuple[Expr, ...]


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


def fuse(roots: Sequence[Expr]) -> Fused:
    """Choose the fused multiply-adds that compute ``roots``.

    A product that only sums read is part of each of them: an addition becomes a fused
    multiply-add, and the product itself is saved. It is computed by itself, once, where two sums
    or more would begin with it.
    """
    nodes = [node for node in reachable(roots) if node.op != "neg"]
    depths = _depths(nodes)
    readers = _readers(nodes, roots)
    own = {node.index for node in nodes if node.op == "mul" and readers[node.index]["other"]}
    begun = Counter(
        terms[-1].factors
        for terms in _sums(nodes, readers, own, depths).values()
        if len(terms[0].factors) == 2
    )
    own |= {node.index for node in nodes if node.op == "mul" and begun[node.args] > 1}
    sums = _sums(nodes, readers, own, depths)
    computed = [node for node in nodes if node.op == "div" or node.index in own | sums.keys()]
    return Fused(
        sums,
        tuple(node for node in computed if readers[node.index].total() > 1),
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


def _depths(nodes: Sequence[Expr]) -> dict[int, int]:
    """Count the operations that come before each node, one after the other."""
    depths: dict[int, int] = {}
    for node in nodes:
        operands = [unsigned(operand)[1].index for operand in node.args]
        depths[node.index] = 1 + max((depths[index] for index in operands), default=-1)
    return depths


def _sums(
    nodes: Sequence[Expr],
    readers: Mapping[int, Counter[str]],
    own: set[int],
    depths: Mapping[int, int],
) -> dict[int, tuple[Term, ...]]:
    """Return the terms of every sum that is not part of another.

    What is known late is taken in late, so that a sum need not wait for it.
    """

    def is_part(node: Expr) -> bool:
        return node.op in ("add", "sub") and readers[node.index] == Counter(sum=1)

    def terms(node: Expr, negative: bool) -> Iterator[Term]:
        for operand, flipped in zip(node.args, (False, node.op == "sub"), strict=True):
            sign, term = unsigned(operand)
            sign ^= negative ^ flipped
            if is_part(term):
                yield from terms(term, sign)
            elif term.op == "mul" and term.index not in own:
                yield Term(sign, term.args)
            else:
                yield Term(sign, (term,))

    def place(term: Term) -> tuple[int, int]:
        return len(term.factors), -max(depths[unsigned(f)[1].index] for f in term.factors)

    return {
        node.index: tuple(sorted(terms(node, False), key=place))
        for node in nodes
        if node.op in ("add", "sub") and not is_part(node)
    }


def _instructions(terms: Sequence[Term]) -> int:
    """Count what a sum takes: a first node is free, a first product is a multiplication."""
    return len(terms) - (len(terms[0].factors) == 1)
