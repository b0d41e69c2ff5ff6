"""A hash-consed graph of scalar expressions with constant folding.

An algorithm of ``gridgen.dynamics`` that runs on these scalars records the operations for one
robot: products with zero vanish, equal terms are one node, and signs move out of products until a
sum absorbs them. Nodes are numbered in the order of their creation, which is a topological order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from gridgen.symbolic.memory import Entries, Memory, MemoryEntry, Query, Record

Number: TypeAlias = int | float
Operand: TypeAlias = "Expr | int | float"

#: Operations on memory with computed indices; ``declare`` allocates variables. A ``query`` has
#: several results, each a ``part``.
ACTIONS = frozenset({"read", "write", "fill", "declare", "query", "part"})
#: Operations that cost one instruction each; signs are free.
ARITHMETIC = frozenset("add sub mul div fma sin cos sign sqrt exp log atan2 select".split())


class Expr:
    """A node: an operation and its operands."""

    __array_ufunc__ = None  # NumPy numbers leave the operation to this class
    __slots__ = ("args", "block", "graph", "index", "op", "scope", "value")

    graph: Graph
    op: str  #: ``const``, ``input``, ``neg``, one of ``ARITHMETIC`` or of ``ACTIONS``.
    args: tuple[Expr, ...]  #: the operands.
    #: number of a constant; (array name, index) of an input; target of an action
    #: (``gridgen.symbolic.memory``); otherwise ``None``.
    value: float | tuple[str, int] | MemoryEntry | Entries | Memory | Record | Query | None
    index: int  #: position in the order of creation.
    block: int  #: block of the program that contains the node (``Graph.block``).
    scope: Scope  #: loop that contains the node.

    def __add__(self, other: Operand) -> Expr:
        return self.graph.add(self, self.graph.lift(other))

    def __sub__(self, other: Operand) -> Expr:
        return self.graph.sub(self, self.graph.lift(other))

    def __mul__(self, other: Operand) -> Expr:
        return self.graph.mul(self, self.graph.lift(other))

    def __truediv__(self, other: Operand) -> Expr:
        return self.graph.div(self, self.graph.lift(other))

    def __radd__(self, other: Number) -> Expr:
        return self.graph.add(self.graph.const(other), self)

    def __rsub__(self, other: Number) -> Expr:
        return self.graph.sub(self.graph.const(other), self)

    def __rmul__(self, other: Number) -> Expr:
        return self.graph.mul(self.graph.const(other), self)

    def __rtruediv__(self, other: Number) -> Expr:
        return self.graph.div(self.graph.const(other), self)

    def __neg__(self) -> Expr:
        return self.graph.neg(self)

    def __repr__(self) -> str:
        if self.op == "const":
            return repr(self.value)
        if self.op == "input":
            assert isinstance(self.value, tuple)
            return f"{self.value[0]}[{self.value[1]}]"
        return f"{self.op}({', '.join(map(repr, self.args))})"


class Scope:
    """Nodes of a program or of one of its loops; nodes of enclosing loops are visible."""

    __slots__ = ("nodes", "outer")

    def __init__(self, outer: Scope | None = None) -> None:
        self.nodes: dict[object, Expr] = {}
        self.outer = outer

    def find(self, key: object) -> Expr | None:
        """Return the node of an expression, or ``None``."""
        node = self.nodes.get(key)
        if node is None and self.outer is not None:
            return self.outer.find(key)
        return node


class Graph:
    """Table of unique expressions, with folding rules."""

    def __init__(self) -> None:
        self._count = 0
        self.scope = Scope()
        self.block = 0
        self.zero = self.const(0.0)
        self.one = self.const(1.0)

    def __len__(self) -> int:
        return self._count

    def _node(
        self,
        op: str,
        args: tuple[Expr, ...],
        key: object,
        value: float
        | tuple[str, int]
        | MemoryEntry
        | Entries
        | Memory
        | Record
        | Query
        | None = None,
    ) -> Expr:
        scope = self.scope
        node = scope.nodes.get(key)
        if node is None and scope.outer is not None:
            node = scope.outer.find(key)
        if node is None:
            node = Expr()
            node.graph = self
            node.op = op
            node.args = args
            node.value = value
            node.index = self._count
            node.block = self.block
            node.scope = scope
            scope.nodes[key] = node
            self._count += 1
        return node

    def open(self) -> None:
        """Enter a loop; its nodes are not visible outside."""
        self.scope = Scope(self.scope)

    def close(self) -> None:
        """Leave a loop."""
        assert self.scope.outer is not None
        self.scope = self.scope.outer

    def act(
        self,
        op: str,
        args: tuple[Expr, ...],
        value: float | MemoryEntry | Entries | Memory | Record | Query | None,
        key: object = None,
    ) -> Expr:
        """Return an action on memory; equal keys give the same node."""
        return self._node(op, args, (op, self._count) if key is None else (op, key), value)

    def query(self, query: Query, operands: tuple[Expr, ...]) -> list[Expr]:
        """Return the results of a query."""
        found = self.act("query", operands, query, (query, *(node.index for node in operands)))
        return [
            self.act("part", (found,), float(k), (found.index, k))
            for k in range(len(query.results))
        ]

    # -- leaves -------------------------------------------------------------------------------

    def const(self, value: Number) -> Expr:
        """Return the node of a number; minus zero becomes zero."""
        number = float(value) + 0.0
        return self._node("const", (), number, number)

    def input(self, array: str, index: int) -> Expr:
        """Return element ``index`` of an input array."""
        return self._node("input", (), ("input", array, index), (array, index))

    def lift(self, operand: Operand) -> Expr:
        """Return ``operand`` as a node."""
        return operand if isinstance(operand, Expr) else self.const(operand)

    # -- arithmetic ---------------------------------------------------------------------------

    def neg(self, a: Expr) -> Expr:
        """Return -a."""
        if a.op == "const":
            assert isinstance(a.value, float)
            return self.const(-a.value)
        if a.op == "neg":
            return a.args[0]
        if a.op == "sub":
            swapped = self.scope.find(("sub", a.args[1].index, a.args[0].index))
            if swapped is not None:
                return swapped
        return self._node("neg", (a,), ("neg", a.index))

    def add(self, a: Expr, b: Expr) -> Expr:
        """Return a + b."""
        if a.op == "const" and b.op == "const":
            assert isinstance(a.value, float)
            assert isinstance(b.value, float)
            return self.const(a.value + b.value)
        if a is self.zero:
            return b
        if b is self.zero:
            return a
        if b.op == "neg":
            return self.sub(a, b.args[0])
        if a.op == "neg":
            return self.sub(b, a.args[0])
        merged = self._merge(a, b, 1.0)
        if merged is not None:
            return merged
        if a.index > b.index:
            a, b = b, a
        return self._node("add", (a, b), ("add", a.index, b.index))

    def sub(self, a: Expr, b: Expr) -> Expr:
        """Return a - b."""
        if a.op == "const" and b.op == "const":
            assert isinstance(a.value, float)
            assert isinstance(b.value, float)
            return self.const(a.value - b.value)
        if b is self.zero:
            return a
        if a is b:
            return self.zero
        if a is self.zero:
            return self.neg(b)
        if b.op == "neg":
            return self.add(a, b.args[0])
        if a.op == "neg":
            return self.neg(self.add(a.args[0], b))
        if b.op == "const":
            assert isinstance(b.value, float)
            if b.value < 0:
                return self.add(a, self.const(-b.value))
        merged = self._merge(a, b, -1.0)
        if merged is not None:
            return merged
        swapped = self.scope.find(("sub", b.index, a.index))
        if swapped is not None:
            return self._node("neg", (swapped,), ("neg", swapped.index))
        return self._node("sub", (a, b), ("sub", a.index, b.index))

    def _merge(self, a: Expr, b: Expr, sign: float) -> Expr | None:
        """Return a + sign b as one product if both are multiples of the same node."""
        (factor_a, base_a), (factor_b, base_b) = multiple(a), multiple(b)
        if base_a is not base_b or base_a.op == "const":
            return None
        return self._scale(self.const(factor_a + sign * factor_b), base_a)

    def mul(self, a: Expr, b: Expr) -> Expr:
        """Return a b."""
        if b.op == "const":
            a, b = b, a
        if a.op == "const":
            return self._scale(a, b)
        if a.op == "neg":
            return self.neg(self.mul(a.args[0], b))
        if b.op == "neg":
            return self.neg(self.mul(a, b.args[0]))
        if a.index > b.index:
            a, b = b, a
        return self._node("mul", (a, b), ("mul", a.index, b.index))

    def _scale(self, factor: Expr, b: Expr) -> Expr:
        """Return factor b with the sign outside and nested constants merged."""
        value = factor.value
        assert isinstance(value, float)
        if b.op == "const":
            assert isinstance(b.value, float)
            return self.const(value * b.value)
        if value == 0.0:
            return self.zero
        if value == 1.0:
            return b
        if value < 0.0:
            return self.neg(self._scale(self.const(-value), b))
        if b.op == "neg":
            return self.neg(self._scale(factor, b.args[0]))
        if b.op == "mul" and b.args[0].op == "const":
            inner = b.args[0].value
            assert isinstance(inner, float)
            return self._scale(self.const(value * inner), b.args[1])
        return self._node("mul", (factor, b), ("mul", factor.index, b.index))

    def div(self, a: Expr, b: Expr) -> Expr:
        """Return a / b."""
        if b.op == "const":
            assert isinstance(b.value, float)
            return self.mul(a, self.const(1.0 / b.value))
        if a is self.zero:
            return a
        if a.op == "neg":
            return self.neg(self.div(a.args[0], b))
        if b.op == "neg":
            return self.neg(self.div(a, b.args[0]))
        return self._node("div", (a, b), ("div", a.index, b.index))

    def fma(self, a: Expr, b: Expr, c: Expr) -> Expr:
        """Return a b + c, rounded once; the first factor has the product's sign."""
        if b.op == "neg":
            a, b = self.neg(a), b.args[0]
        if b.op == "const":
            a, b = b, a
        if a.op == "const" and (b.op == "const" or a.value in (0.0, 1.0, -1.0)):
            return self.add(self.mul(a, b), c)
        return self._node("fma", (a, b, c), ("fma", a.index, b.index, c.index))

    # -- functions ----------------------------------------------------------------------------

    def sin(self, a: Expr) -> Expr:
        """Return sin a; the sign moves outside, because the function is odd."""
        if a.op == "const":
            assert isinstance(a.value, float)
            return self.const(math.sin(a.value))
        if a.op == "neg":
            return self.neg(self.sin(a.args[0]))
        return self._node("sin", (a,), ("sin", a.index))

    def cos(self, a: Expr) -> Expr:
        """Return cos a; the sign is dropped, because the function is even."""
        if a.op == "const":
            assert isinstance(a.value, float)
            return self.const(math.cos(a.value))
        return self.cos(a.args[0]) if a.op == "neg" else self._node("cos", (a,), ("cos", a.index))

    def sign(self, a: Expr) -> Expr:
        """Return the sign of a: -1, 0 or 1."""
        if a.op == "const":
            assert isinstance(a.value, float)
            return self.const((a.value > 0.0) - (a.value < 0.0))
        return self._node("sign", (a,), ("sign", a.index))

    def sqrt(self, a: Expr) -> Expr:
        """Return the square root of a."""
        if isinstance(a.value, float) and a.value >= 0.0:
            return self.const(math.sqrt(a.value))
        return self._node("sqrt", (a,), ("sqrt", a.index))

    def exp(self, a: Expr) -> Expr:
        """Return e to the power of a."""
        if a.op == "const":
            assert isinstance(a.value, float)
            return self.const(math.exp(a.value))
        return self._node("exp", (a,), ("exp", a.index))

    def log(self, a: Expr) -> Expr:
        """Return the natural logarithm of a."""
        if isinstance(a.value, float) and a.value > 0.0:
            return self.const(math.log(a.value))
        return self._node("log", (a,), ("log", a.index))

    def atan2(self, y: Expr, x: Expr) -> Expr:
        """Return the angle of the vector (x, y)."""
        if isinstance(y.value, float) and isinstance(x.value, float):
            return self.const(math.atan2(y.value, x.value))
        return self._node("atan2", (y, x), ("atan2", y.index, x.index))

    def select(self, test: Expr, a: Expr, b: Expr) -> Expr:
        """Return a where the test is negative, b elsewhere."""
        if test.op == "const":
            assert isinstance(test.value, float)
            return a if test.value < 0.0 else b
        key = "select", test.index, a.index, b.index
        return a if a is b else self._node("select", (test, a, b), key)


def multiple(a: Expr) -> tuple[float, Expr]:
    """Return (factor, node) with a = factor node."""
    if a.op == "mul" and a.args[0].op == "const":
        factor = a.args[0].value
        assert isinstance(factor, float)
        return factor, a.args[1]
    return 1.0, a


def reachable(outputs: Sequence[Expr]) -> list[Expr]:
    """Return all nodes that ``outputs`` depend on, operands before their users."""
    seen: dict[int, Expr] = {}
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node.index not in seen:
            seen[node.index] = node
            stack.extend(node.args)
    return [seen[index] for index in sorted(seen)]
