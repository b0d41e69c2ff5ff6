"""Sums of products as chains of fused multiply-adds.

Explicit fused multiply-adds determine every rounding, so that a kernel gives the same bits on all
platforms: compilers have no products and sums left to contract.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from gridgen.symbolic.expr import ACTIONS, ARITHMETIC, Expr, Graph, Scope, multiple, reachable

_SUMS = ("add", "sub")


class Term(NamedTuple):
    """A term of a sum."""

    negative: bool  #: whether the node is subtracted.
    node: Expr  #: the node.
    place: int  #: index of its last node in the order of the algorithm.

    @property
    def is_combined(self) -> bool:
        """Whether it is the sum of several multiples of one node."""
        return self.place != self.node.index


class Chain(NamedTuple):
    """A sum."""

    nodes: list[Term]  #: terms to add.
    #: products for fused multiply-adds, from the last to the first; without nodes, the sum begins
    #: with the last.
    products: list[Term]
    saved: int = 0  #: operations that the terms of the algorithm have in addition.


@dataclass(frozen=True)
class Fused:
    """Computation of expressions with fused multiply-adds."""

    nodes: Sequence[Expr]  #: all nodes that they depend on except negatives, in topological order.
    own: Set[int]  #: indices of the products with a separate result.
    sums: Mapping[int, Chain]  #: sums with a separate result, by index.
    in_sums: Mapping[int, int]  #: number of sums that read a node or its negative, by index.
    elsewhere: Mapping[int, int]  #: number of other readers, by index.

    @property
    def computed(self) -> list[Expr]:
        """The products, quotients and sums with a separate result."""
        alone = self.own | self.sums.keys()
        return [node for node in self.nodes if node.op == "div" or node.index in alone]

    @property
    def stated(self) -> list[Expr]:
        """The computed nodes with more than one reader, in topological order."""
        times = {index: times + self.elsewhere[index] for index, times in self.in_sums.items()}
        for node in self.nodes:
            if node.op == "mul" and node.index not in self.own:
                for factor in node.args:  # each of the sums reads it
                    times[unsigned(factor)[1].index] += self.in_sums[node.index] - 1
        return [node for node in self.computed if times[node.index] > 1]

    @property
    def operations(self) -> int:
        """Operations, each product and each addition counted."""
        saved = sum(chain.saved for chain in self.sums.values())
        return sum(node.op in ARITHMETIC for node in self.nodes) - saved

    @property
    def instructions(self) -> int:
        """Multiplications, additions, divisions and fused multiply-adds; signs are free."""
        chains = self.sums.values()
        taken = sum(max(len(c.nodes) - 1, 0) + len(c.products) for c in chains)
        return taken + len(self.computed) - len(chains)


def fuse(roots: Sequence[Expr], unfused: Collection[int] = ()) -> Fused:
    """Choose the fused multiply-adds that compute ``roots``.

    A product that only sums read becomes part of each of them: an addition becomes a fused
    multiply-add, and the multiplication is eliminated. If two or more sums would begin with the
    product, it has a separate result. Multiples of one node in a sum become one product.
    """
    nodes = [node for node in reachable(roots) if node.op != "neg"]
    in_sums, elsewhere = _readers(nodes, roots)
    sums = [node for node in nodes if node.op in _SUMS]
    unfused = {*unfused, *_read_in_loops(nodes)}
    parts = {
        node.index
        for node in sums
        if in_sums[node.index] == 1 and not elsewhere[node.index] and node.index not in unfused
    }
    own = {node.index for node in nodes if node.op == "mul" and elsewhere[node.index]}
    chains = {
        node.index: _chain(node, parts, own, in_sums) for node in sums if node.index not in parts
    }
    first = (c.products[-1] for c in chains.values() if c.products and not c.nodes)
    begun = Counter(term.node.index for term in first if not term.is_combined)
    several = {index for index, times in begun.items() if times > 1}
    own |= several
    for node in sums:
        chain = chains.get(node.index)
        if chain and not several.isdisjoint([term.node.index for term in chain.products]):
            chains[node.index] = _chain(node, parts, own, in_sums)
    return Fused(nodes, own, chains, in_sums, elsewhere)


def unsigned(node: Expr) -> tuple[bool, Expr]:
    """Return whether a node is a negative, and the node without its sign."""
    return (True, node.args[0]) if node.op == "neg" else (False, node)


def _readers(nodes: Sequence[Expr], roots: Sequence[Expr]) -> tuple[dict[int, int], dict[int, int]]:
    """Count the sums that read each node or its negative, and its other readers."""
    in_sums = dict.fromkeys([node.index for node in nodes], 0)
    elsewhere = in_sums.copy()
    for root in roots:
        elsewhere[unsigned(root)[1].index] += 1
    for node in nodes:
        readers = in_sums if node.op in _SUMS else elsewhere
        for operand in node.args:
            readers[operand.args[0].index if operand.op == "neg" else operand.index] += 1
    return in_sums, elsewhere


def _read_in_loops(nodes: Sequence[Expr]) -> set[int]:
    """Return the nodes that have readers in a loop that does not compute them."""
    return {
        unsigned(operand)[1].index
        for node in nodes
        for operand in node.args
        if unsigned(operand)[1].scope is not node.scope
    }


def _chain(total: Expr, parts: Set[int], own: Set[int], in_sums: Mapping[int, int]) -> Chain:
    """Return the terms of a sum and of the sums that are part of it.

    Products are in the order of the algorithm, late results last.
    """
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
            terms.append(Term(negative, node, node.index))
    combined = terms
    if len({_base(term) for term in terms}) < len(terms):
        combined = _combined(terms, own)
    nodes: list[Term] = []
    products: list[Term] = []
    for term in combined:
        is_product = term.node.op == "mul" and (term.is_combined or term.node.index not in own)
        (products if is_product else nodes).append(term)
    products.sort(key=_place, reverse=True)
    if combined is terms:
        return Chain(nodes, products)
    times = Counter(term.node for term in terms if term.node.op == "mul")
    alone = {node for node, count in times.items() if in_sums[node.index] == count}
    alone = {node for node in alone if node.index not in own}
    left = {term.node for term in products if term.is_combined or term.node in alone}
    saved = len(terms) + len(alone) - len(combined) - len(left)
    return Chain(nodes, products, saved)


def _place(term: Term) -> int:
    return term.place


def _base(term: Term) -> int:
    """Return the index of the node that a term is a multiple of; -1 for constants."""
    return -1 if term.node.op == "const" else multiple(term.node)[1].index


def _combined(terms: Sequence[Term], own: Set[int]) -> list[Term]:
    """Return a sum with one term for all multiples of a constant, or of a node that is computed."""
    groups: dict[int, list[Term]] = {}
    for term in terms:
        groups.setdefault(_base(term), []).append(term)
    combined: list[Term] = []
    for base, group in groups.items():
        graph, of = group[0].node.graph, multiple(group[0].node)[1]
        if len(group) == 1 or (of.op == "mul" and of.index not in own):
            combined += group
            continue
        total = 0.0
        for negative, node, _ in group:
            value = node.value if base < 0 else multiple(node)[0]
            assert isinstance(value, float)
            total += -value if negative else value
        factor = graph.const(abs(total))
        node = factor if base < 0 else graph.mul(factor, of)
        if node is not graph.zero:
            combined.append(Term(total < 0.0, node, max(term.place for term in group)))
    return combined


def rewritten(fused: Fused) -> dict[int, Expr]:
    """Return nodes with fused multiply-adds, in a new graph.

    Returns:
        new node of every old node with a separate result, by the index of the old one; there are
        none for negatives.
    """
    graph = Graph()
    new: dict[int, Expr] = {}
    outermost = graph.scope
    scopes: dict[Scope, Scope] = {}

    def scope(old: Scope) -> Scope:
        if old not in scopes:
            scopes[old] = outermost if old.outer is None else Scope(scope(old.outer))
        return scopes[old]

    def operand(node: Expr) -> Expr:
        if node.op == "const":
            return graph.const(node.value)  # type: ignore[arg-type]
        return graph.neg(new[node.args[0].index]) if node.op == "neg" else new[node.index]

    for node in fused.nodes:
        graph.block, graph.scope = node.block, scope(node.scope)
        if node.index in fused.sums:
            new[node.index] = _chained(fused.sums[node.index], operand, graph)
        elif node.op == "input":
            assert isinstance(node.value, tuple)
            new[node.index] = graph.input(*node.value)
        elif node.op == "const":
            assert isinstance(node.value, float)
            new[node.index] = graph.const(node.value)
        elif node.op in ACTIONS:
            new[node.index] = graph.act(node.op, tuple(map(operand, node.args)), node.value)  # type: ignore[arg-type]
        elif node.op not in _SUMS and (node.op != "mul" or node.index in fused.own):
            new[node.index] = getattr(graph, node.op)(*map(operand, node.args))
    return new


def _chained(chain: Chain, operand: Callable[[Expr], Expr], graph: Graph) -> Expr:
    """Return a sum: its nodes, then its products from the last to the first."""
    total = graph.zero
    for negative, node, _ in chain.nodes:
        total = (graph.sub if negative else graph.add)(total, operand(node))
    for negative, node, _ in reversed(chain.products):
        a, b = map(operand, node.args)
        if total is graph.zero:
            total = graph.mul(a, b)
            total = graph.neg(total) if negative else total
        else:
            total = graph.fma(graph.neg(a) if negative else a, b, total)
    return total
