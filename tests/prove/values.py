"""Values of one thread: their bits on random inputs, and the expression that gave them.

An expression is a number in a graph, in which equal expressions have one number. It is brought into
one form by the identities that hold for all bits: operands of sums and products have an order, a
product has the sign of both factors, integers are sums modulo 2^32, and bitwise functions are
tables over their operands. What depends on the launch only is a constant. A number with a minus
sign means the same bits with the first one flipped, which negates floating-point numbers and
predicates.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import math
import random
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

_LIBRARY = ctypes.CDLL(ctypes.util.find_library("m"))
_FMA = {32: _LIBRARY.fmaf, 64: _LIBRARY.fma}
for _width, _type in ((32, ctypes.c_float), (64, ctypes.c_double)):
    _FMA[_width].restype, _FMA[_width].argtypes = _type, [_type] * 3
_CODES = {16: ("<H", "<e"), 32: ("<I", "<f"), 64: ("<Q", "<d")}
# More operands of a bitwise function are taken as one.
_MAX_ATOMS = 4
#: Outcomes of a comparison: less, equal, greater, one is not a number.
RELATIONS = {"lt": 1, "eq": 2, "le": 3, "gt": 4, "ne": 5, "ge": 6, "num": 7, "nan": 8}
_SPECIAL: dict[str, Callable[[float], float]] = {
    "RCP": lambda x: 1 / x if x else math.copysign(math.inf, x),
    "RSQ": lambda x: 1 / math.sqrt(x) if x > 0 else math.inf if x == 0 else math.nan,
    "SQRT": lambda x: math.sqrt(x) if x >= 0 else math.nan,
}

#: An operand in the graph: an expression, or the bits of a constant.
Reference: TypeAlias = "int | tuple[int]"


class Value(NamedTuple):
    """Bits, and the number of their expression; 0 for a constant."""

    bits: int
    node: int = 0

    @property
    def reference(self) -> Reference:
        return self.node or (self.bits,)


TRUE, FALSE, ZERO = Value(1), Value(0), Value(0)


def from_bits(bits: int, width: int) -> float:
    """Return the floating-point number with some bits."""
    integer, real = _CODES[width]
    (number,) = struct.unpack(real, struct.pack(integer, bits))
    return float(number)


def to_bits(number: float, width: int) -> int:
    """Return the bits of a number, rounded to a width; too large ones are infinite."""
    integer, real = _CODES[width]
    try:
        packed = struct.pack(real, number)
    except OverflowError:
        packed = struct.pack(real, math.copysign(math.inf, number))
    return int(struct.unpack(integer, packed)[0])


def signed(bits: int, width: int = 32) -> int:
    return bits - (bits >> width - 1 << width)


class Graph:
    """Expressions, each with the place of the instruction that made it first.

    Attributes:
        place:     of the instruction that is executed.
        keys:      operation and operands of each expression, by its number.
        places:    where each was made.
        decisions: conditions on which the way through the code depends.
    """

    def __init__(self) -> None:
        self.place = ""
        self.keys: list[tuple[object, ...]] = [()]
        self.places = [""]
        self.decisions: set[int] = set()
        self._numbers: dict[tuple[object, ...], int] = {}

    def node(self, *key: object) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.keys)
            self.keys.append(key)
            self.places.append(self.place)
        return self._numbers[key]

    def apply(
        self, name: str, function: Callable[..., int], *values: Value, ordered: bool = True
    ) -> Value:
        """Return what a function of the bits gives, as an expression of that name."""
        bits = function(*(value.bits for value in values))
        if not any(value.node for value in values):
            return Value(bits)
        references = [value.reference for value in values]
        return Value(bits, self.node(name, *(references if ordered else _sorted(references))))

    def shift_right(self, value: Value, by: Value, width: int = 32, *, is_signed: bool) -> Value:
        """Return an integer shifted to the right, with copies of its sign or with zeros."""
        read = signed if is_signed else lambda bits, _: bits
        name = f"shr{'s' if is_signed else 'u'}{width}"
        mask = (1 << width) - 1
        return self.apply(name, lambda x, n: read(x, width) >> min(n, width) & mask, value, by)

    def special(self, name: str, value: Value) -> Value:
        """Return what the unit for special functions gives: here, the nearest number."""
        width = 64 if name.endswith("64H") else 32  # the upper word of a number
        function = _SPECIAL[name.removesuffix("64H")]

        def evaluated(bits: int) -> int:
            return to_bits(function(from_bits(bits << width - 32, width)), width) >> width - 32

        return self.apply(name, evaluated, value)

    def extreme(self, a: Value, b: Value, kind: str, *, is_least: bool) -> Value:
        """Return the smaller or the greater one of two numbers; zeros have an order."""
        width = int(kind[1:])
        if kind[0] == "f":
            keys = [(from_bits(v.bits, width), -(v.bits >> width - 1)) for v in (a, b)]
        else:
            keys = [(signed(v.bits, width) if kind[0] == "s" else v.bits, 0) for v in (a, b)]
        bits = (a if (keys[0] <= keys[1]) == is_least else b).bits
        name = f"{'min' if is_least else 'max'}.{kind}"
        return self.apply(name, lambda *_: bits, a, b, ordered=False)

    def to_float(self, value: Value, kind: str, width: int) -> Value:
        """Return an integer as a floating-point number."""
        size = int(kind[1:])

        def converted(bits: int) -> int:
            return to_bits(signed(bits, size) if kind[0] == "s" else bits, width)

        return self.apply(f"float{width}.{kind}", converted, value)

    def decide(self, condition: Value) -> bool:
        """Return whether a condition holds here, and record it if it depends on the inputs."""
        waiting = [abs(condition.node)] if condition.node else []
        while waiting:
            node = waiting.pop()
            key = self.keys[node]
            if key[0] == "bits":  # of other conditions
                waiting += key[2]  # type: ignore[arg-type]
            else:
                self.decisions.add(node)
        return bool(condition.bits)

    # ---- floating-point numbers ----

    def negate(self, value: Value, width: int) -> Value:
        return Value(value.bits ^ 1 << width - 1, -value.node)

    def absolute(self, value: Value, width: int) -> Value:
        if width == 64:
            low, high = self.halves(value)
            return self.pack(low, self.absolute(high, 32))
        return self.bitwise(0xC0, value, Value((1 << width - 1) - 1))

    def add(self, a: Value, b: Value, width: int) -> Value:
        for one, other in ((a, b), (b, a)):
            if one == Value(1 << width - 1):  # -0
                return other
        bits = to_bits(from_bits(a.bits, width) + from_bits(b.bits, width), width)
        return self.apply(f"add{width}", lambda *_: bits, a, b, ordered=False)

    def multiply(self, a: Value, b: Value, width: int) -> Value:
        for one, other in ((a, b), (b, a)):
            if one == Value(to_bits(1.0, width)):
                return other
        bits = to_bits(from_bits(a.bits, width) * from_bits(b.bits, width), width)
        return self._signed_product(f"mul{width}", bits, width, a, b)

    def fma(self, a: Value, b: Value, c: Value, width: int) -> Value:
        if c == Value(1 << width - 1):
            return self.multiply(a, b, width)
        for one, other in ((a, b), (b, a)):
            if one == Value(to_bits(1.0, width)):
                return self.add(other, c, width)
        numbers = (from_bits(value.bits, width) for value in (a, b, c))
        bits = to_bits(_FMA[width](*numbers), width)
        return self._signed_product(f"fma{width}", bits, width, a, b, c)

    def _signed_product(
        self, name: str, bits: int, width: int, a: Value, b: Value, *added: Value
    ) -> Value:
        if not (a.node or b.node or (added and added[0].node)):
            return Value(bits)
        sign, factors = 1, []
        for value in (a, b):
            is_negative = value.node < 0 or (not value.node and value.bits >> width - 1)
            sign *= -1 if is_negative else 1
            factors.append((self.negate(value, width) if is_negative else value).reference)
        if not added:
            return Value(bits, sign * self.node(name, *_sorted(factors)))
        return Value(bits, self.node(name, sign, *_sorted(factors), added[0].reference))

    def compare(self, outcomes: int, a: Value, b: Value, kind: str) -> Value:
        """Return whether a comparison has one of some outcomes; ``kind`` is ``f32`` or ``u32``."""
        width, every = int(kind[1:]), 15 if kind[0] == "f" else 7
        if kind in ("s64", "u64"):
            (low, high), (lower, upper) = self.halves(a), self.halves(b)
            rest = self.compare(outcomes, low, lower, "u32")
            return self.upper_compared(outcomes, high, upper, f"{kind[0]}32", rest)
        convert = {"f": from_bits, "s": signed, "u": lambda bits, _: bits}[kind[0]]
        x, y = (convert(value.bits, width) for value in (a, b))
        if kind[0] == "f":  # zeros are equal
            a, b = (v if v.node or v.bits != 1 << width - 1 else ZERO for v in (a, b))
        outcome = 8 if x != x or y != y else 1 if x < y else 2 if x == y else 4
        bits = int(bool(outcomes & outcome))
        if not (a.node or b.node):
            return Value(bits)
        if _order(b.reference) < _order(a.reference):
            a, b = b, a
            outcomes = outcomes & 10 | (outcomes & 1) << 2 | (outcomes & 4) >> 2
        sign = 1
        if outcomes & 8 if every == 15 else outcomes.bit_count() > 1:
            outcomes, sign = every ^ outcomes, -1
        if outcomes == 2 and every == 7:
            kind = f"b{width}"
            possible = self._possible(a)
            if not b.node and b.bits and possible == b.bits and not possible & possible - 1:
                b, sign = ZERO, -sign  # the only bit that may be set
        return Value(bits, sign * self.node("compare", outcomes, kind, a.reference, b.reference))

    def upper_compared(self, outcomes: int, a: Value, b: Value, kind: str, lower: Value) -> Value:
        """Compare upper words; equal ones leave it to the lower ones."""
        equal = self.compare(RELATIONS["eq"], a, b, kind)
        strictly = self.compare(outcomes & 5, a, b, kind) if outcomes & 5 else FALSE
        return self.bitwise(0b11001010, equal, lower, strictly, width=1)

    def _possible(self, value: Value) -> int | None:
        """Return which bits of a bitwise expression may be set."""
        key = self.keys[abs(value.node)]
        if value.node <= 0 or key[0] != "bits":
            return None
        found = 0
        for mask in key[3]:  # type: ignore[attr-defined]
            found |= mask
        return found

    # ---- words ----

    def halves(self, value: Value) -> tuple[Value, Value]:
        """Return the lower and the upper word of 64 bits."""
        low, high = value.bits & 0xFFFFFFFF, value.bits >> 32
        if not value.node:
            return Value(low), Value(high)
        node, sign = abs(value.node), 1 if value.node > 0 else -1
        key = self.keys[node]
        if key[0] == "pack":
            lower, upper = (r if isinstance(r, int) else 0 for r in key[1:])
            if not upper and sign < 0:
                return Value(low, lower), Value(high)
            return Value(low, lower), Value(high, sign * upper)
        return Value(low, self.node("low", node)), Value(high, sign * self.node("high", node))

    def pack(self, low: Value, high: Value) -> Value:
        """Return 64 bits of two words."""
        bits = high.bits << 32 | low.bits
        if not (low.node or high.node):
            return Value(bits)
        sign, node = 1 if high.node >= 0 else -1, abs(high.node)
        key = self.keys[node]
        if node and key[0] == "high" and low.node == self.node("low", key[1]):
            assert isinstance(key[1], int)
            return Value(bits, sign * key[1])
        upper = node or high.reference
        return Value(bits, sign * self.node("pack", low.reference, upper))

    def bitwise(self, table: int, *values: Value, width: int = 32) -> Value:
        """Return a bitwise function: bit 4a + 2b + c of the table is that for bits a, b, c."""
        values = (*values, ZERO, ZERO)[:3]
        full, top = (1 << width) - 1, 1 << width - 1
        bits = _of_table(table, [value.bits for value in values], full)
        if not any(value.node for value in values):
            return Value(bits)
        parts = [self._table_of(value, full, top) for value in values]
        if len({atom for atoms, _ in parts for atom in atoms}) > _MAX_ATOMS:
            parts = [self._as_atom(value, full, top) for value in values]
        atoms = tuple(sorted({atom for part in parts for atom in part[0]}))
        masks = []
        for bits_of in itertools.product((0, 1), repeat=len(atoms)):
            chosen = dict(zip(atoms, bits_of, strict=True))
            rows = [m[_row(chosen[atom] for atom in own)] for own, m in parts]
            masks.append(_of_table(table, rows, full))
        for atom in atoms:
            at = atoms.index(atom)
            size = 1 << len(atoms) - 1 - at
            low = [mask for row, mask in enumerate(masks) if not row & size]
            if low == [mask for row, mask in enumerate(masks) if row & size]:
                atoms, masks = atoms[:at] + atoms[at + 1 :], low
        if not atoms:
            return Value(bits)
        sign = 1
        if masks[0] & top:
            sign, masks = -1, [mask ^ top for mask in masks]
        if masks == [0, full]:
            return Value(bits, sign * atoms[0])
        return Value(bits, sign * self.node("bits", width, atoms, tuple(masks)))

    def _table_of(self, value: Value, full: int, top: int) -> tuple[tuple[int, ...], list[int]]:
        atoms, masks = self._as_atom(value, full, top)
        key = self.keys[abs(value.node)]
        if value.node and key[0] == "bits":
            flip = top if value.node < 0 else 0
            return key[2], [mask ^ flip for mask in key[3]]  # type: ignore[return-value, attr-defined]
        return atoms, masks

    def _as_atom(self, value: Value, full: int, top: int) -> tuple[tuple[int, ...], list[int]]:
        if not value.node:
            return (), [value.bits]
        return (abs(value.node),), [0, full] if value.node > 0 else [top, full ^ top]

    def sum(self, *terms: tuple[int, Value]) -> Value:
        """Return a sum of integers modulo 2^32, each with a factor."""
        constant, parts, bits = 0, dict[int, int](), 0
        for factor, value in terms:
            bits += factor * value.bits
            key = self.keys[abs(value.node)]
            if not value.node:
                constant += factor * value.bits
            elif value.node > 0 and key[0] == "sum":
                constant += factor * key[1]  # type: ignore[operator]
                for node, inner in key[2]:  # type: ignore[attr-defined]
                    parts[node] = parts.get(node, 0) + factor * inner
            else:
                parts[value.node] = parts.get(value.node, 0) + factor
        parts = {node: f % (1 << 32) for node, f in sorted(parts.items()) if f % (1 << 32)}
        bits, constant = bits % (1 << 32), constant % (1 << 32)
        if not parts:
            return Value(bits)
        if not constant and len(parts) == 1 and (1 in parts.values()):
            return Value(bits, next(iter(parts)))
        return Value(bits, self.node("sum", constant, tuple(parts.items())))

    def carry(self, place: int, *values: Value) -> Value:
        """Return a carry of a sum of words: whether it is more than a number of them."""
        carried = sum(value.bits for value in values) >> 32 > place
        return self.apply(f"carry{place}", lambda *_: int(carried), *values, ordered=False)

    def word_of(self, condition: Value) -> Value:
        """Return a condition as the integer 1 or 0."""
        sign, node = (-1, -condition.node) if condition.node < 0 else (1, condition.node)
        word = Value(int((condition.bits == 1) == (sign > 0)), node)
        return word if sign > 0 else self.sum((1, Value(1)), (-1, word))

    def sum_wide(self, a: Value, b: Value, factor: int = 1) -> Value:
        """Return the sum or the difference of integers of 64 bits, by their words."""
        if not (a.node or b.node):
            return Value((a.bits + factor * b.bits) % (1 << 64))
        if factor < 0:
            b = self.sum_wide(self.complement(b), Value(1))
        (low, high), (lower, upper) = self.halves(a), self.halves(b)
        carry = self.word_of(self.carry(0, low, lower))
        upper = self.sum((1, high), (1, upper), (1, carry))
        return self.pack(self.sum((1, low), (1, lower)), upper)

    def complement(self, value: Value) -> Value:
        return self.pack(*(self.bitwise(0x0F, half) for half in self.halves(value)))

    def shift_left(self, value: Value, by: int, width: int) -> Value:
        """Return an integer shifted to the left by a constant."""
        if width == 32:
            return self.sum((1 << by if by < 32 else 0, value))
        low, high = self.halves(value)
        if by >= 32:
            return self.pack(ZERO, self.shift_left(low, by - 32, 32))
        upper = self.funnel(low, high, 32 - by) if by else high
        return self.pack(self.shift_left(low, by, 32), upper)

    def funnel(self, low: Value, high: Value, by: int) -> Value:
        """Return a word of two, from a bit on."""
        return self.apply(
            f"funnel{by}", lambda x, y: (y << 32 | x) >> by & (1 << 32) - 1, low, high
        )

    def multiply_integers(self, a: Value, b: Value) -> Value:
        """Return the lower word of a product."""
        for one, other in ((a, b), (b, a)):
            if not one.node:
                return self.sum((one.bits, other))
        return self.apply("imul", lambda x, y: x * y % (1 << 32), a, b, ordered=False)

    # ---- what differs ----

    def first_new(self, node: int, known: int) -> int | None:
        """Return the first expression below one that has a number above those that are known."""
        found, waiting, seen = None, [abs(node)], set[int]()
        while waiting:
            at = waiting.pop()
            if at <= known or at in seen:
                continue
            seen.add(at)
            found = at if found is None else min(found, at)
            waiting += _operands(self.keys[at])
        return found


def _operands(key: Sequence[object]) -> Iterable[int]:
    name = key[0]
    if name == "bits":
        return key[2]  # type: ignore[return-value]
    if name == "sum":
        return [abs(node) for node, _ in key[2]]  # type: ignore[attr-defined]
    start = 2 if str(name).startswith("fma") else 3 if name == "compare" else 1
    return [] if name == "load" else [abs(part) for part in key[start:] if isinstance(part, int)]


def _order(reference: Reference) -> tuple[bool, int]:
    return (True, reference[0]) if isinstance(reference, tuple) else (False, reference)


def _sorted(references: Iterable[Reference]) -> list[Reference]:
    return sorted(references, key=_order)


def _row(bits: Iterable[int]) -> int:
    row = 0
    for bit in bits:
        row = 2 * row + bit
    return row


def _of_table(table: int, words: Sequence[int], full: int) -> int:
    found = 0
    for row in range(8):
        if table >> row & 1:
            part = full
            for word, bit in zip(words, (row >> 2, row >> 1, row), strict=True):
                part &= word if bit & 1 else word ^ full
            found |= part
    return found & full


class Memory:
    """Words of memory: those that were stored, else random numbers that depend on the address.

    Attributes:
        stored: words by space and address.
        places: the instruction that stored each of them.
    """

    def __init__(self, graph: Graph, width: int, seed: int) -> None:
        self._graph, self._width, self._seed = graph, width, seed
        self._largest = (2.0, 0.75, 1.5)[seed % 3]  # angles of several quadrants
        self.stored: dict[tuple[str, int], Value] = {}
        self.places: dict[tuple[str, int], str] = {}

    def read(self, space: str, address: int) -> Value:
        """Return a word; one that no thread has stored is an input."""
        if (space, address) in self.stored:
            return self.stored[space, address]
        if space != "global":
            raise LookupError(f"{space} memory at {address:#x} before a store")
        place = address - address % (self._width // 8)
        number = random.Random(self._seed + place).uniform(-self._largest, self._largest)
        word = to_bits(number, self._width) >> 8 * (address - place) & 0xFFFFFFFF
        return Value(word, self._graph.node("load", address))

    def write(self, space: str, address: int, value: Value) -> None:
        self.stored[space, address] = value
        self.places[space, address] = self._graph.place
