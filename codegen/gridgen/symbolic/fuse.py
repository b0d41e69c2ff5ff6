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


def fuse(roots: Sequence[Expr]) -> Fused:
    """Choose the fused multiply-adds that compute ``roots``.

    A product that only sums read is part of each of them: an addition becomes a fused
    multiply-add, and the product itself is saved. It is computed by itself, once, where two sums
    or more would begin with it.
    """
    nodes = [node for node in reachable(roots) if node.op != "neg"]
    readers = _readers(nodes, roots)
    own = {node.index for node in nodes if node.op == "mul" and readers[node.index]["other"]}
    begun = Counter(
        terms[-1].node.index for terms in _sums(nodes, readers, own).values() if terms[0].taken_in
    )
    own |= {node.index for node in nodes if node.op == "mul" and begun[node.index] > 1}
    sums = _sums(nodes, readers, own)
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
    nodes: Sequence[Expr], readers: Mapping[int, Counter[str]], own: set[int]
) -> dict[int, tuple[Term, ...]]:
    """Return the terms of every sum that is not part of another.

    Products are taken in as the algorithm makes them: what is known late, late.
    """

    def is_part(node: Expr) -> bool:
        return node.op in ("add", "sub") and readers[node.index] == Counter(sum=1)

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
