"""One thread of a kernel's PTX, executed on values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from fake_gpu.ptx.operands import _number
from fake_gpu.ptx.parser import SIZES, Function, Instruction, Label, PtxError, Registers, Variable
from prove.values import RELATIONS, TRUE, Graph, Memory, Value, signed

_ADDRESS = re.compile(r"\[\s*(?P<base>[\w$%]+)\s*(\+\s*(?P<offset>-?\w+))?\s*\]")
_MAX_STEPS = 400_000
_RELATIONS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_TABLES = {"and": 0xC0, "or": 0xFC, "xor": 0x3C}


class Thread:
    """A thread that executes PTX.

    Args:
        function:   the kernel.
        graph:      the expressions.
        memory:     words.
        parameters: the bytes of each parameter, by name.
        special:    values of ``%tid.x`` and others.
        define:     return what the assembler makes of an instruction the machine lacks.
    """

    def __init__(
        self,
        function: Function,
        graph: Graph,
        memory: Memory,
        parameters: Mapping[str, bytes],
        special: Mapping[str, int],
        define: Callable[..., Value],
    ) -> None:
        self._graph, self._memory, self._special, self._define = graph, memory, special, define
        self._parameters = parameters
        self._types: dict[str, str] = {}
        self._registers: dict[str, Value] = {}
        self._locals: dict[str, int] = {}
        self._code: list[Instruction] = []
        self._labels: dict[str, int] = {}
        for statement in function.body:
            if isinstance(statement, Registers):
                self._types |= dict.fromkeys(statement.names, statement.type)
            elif isinstance(statement, Label):
                self._labels[statement.name] = len(self._code)
            elif isinstance(statement, Variable):
                self._locals[statement.name] = 1 << 10 if statement.space == "local" else 0
            elif isinstance(statement, Instruction):
                self._code.append(statement)

    def run(self) -> None:
        """Execute until the thread ends.

        Raises:
            PtxError: the code has an instruction that is not executed here.
        """
        at = 0
        for _ in range(_MAX_STEPS):
            one = self._code[at]
            at += 1
            self._graph.place = f"line {one.line} {one.opcode}"
            kind, *modifiers = one.opcode.split(".")
            if one.guard:
                condition = self._predicate(one.guard)
                if not self._graph.decide(condition):
                    continue
            if kind == "ret":
                return
            if kind == "bra":
                at = self._labels[one.operands[0]]
                continue
            self._line = one.line
            run = getattr(self, f"_{kind}", None)
            if run is None:
                raise PtxError(one.line, f"{one.opcode} is not executed here")
            try:
                run(modifiers, *one.operands)
            except (TypeError, KeyError, AssertionError) as error:
                raise PtxError(one.line, f"{one.opcode}: {error!r}") from error
        raise PtxError(self._line, f"no end after {_MAX_STEPS} instructions")

    # ---- operands ----

    def _predicate(self, operand: str) -> Value:
        value = self._registers[operand.lstrip("!")]
        return self._graph.negate(value, 1) if operand[0] == "!" else value

    def _value(self, operand: str, width: int) -> Value:
        if operand in self._types:
            return self._registers[operand]
        if operand in self._special:
            return Value(self._special[operand])
        if operand in self._locals:
            return Value(self._locals[operand])
        if operand[0] not in "-0123456789":  # a table, which is not read here
            return Value(1 << 60)
        return Value(_number(operand, self._line) % (1 << width))

    def _values(self, width: int, *operands: str) -> list[Value]:
        return [self._value(operand, width) for operand in operands]

    def _put(self, register: str, value: Value) -> None:
        if register != "_":
            self._registers[register] = value

    # ---- arithmetic ----

    def _integers(
        self, name: str, kind: str, function: Callable[..., int], target: str, *operands: str
    ) -> None:
        """Set what a function of integers gives, modulo the width."""
        width = int(kind[1:])
        read = signed if kind[0] == "s" else lambda bits, _: bits
        values = self._values(width, *operands)

        def wrapped(*bits: int) -> int:
            return function(*(read(b, width) for b in bits)) % (1 << width)

        self._put(target, self._graph.apply(f"{name}.{width}", wrapped, *values))

    def _add(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        self._sum(modifiers, target, a, b, 1)

    def _sub(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        self._sum(modifiers, target, a, b, -1)

    def _sum(self, modifiers: list[str], target: str, a: str, b: str, factor: int) -> None:
        kind = modifiers[-1]
        width = int(kind[1:])
        x, y = self._values(width, a, b)
        if kind[0] == "f":
            y = self._graph.negate(y, width) if factor < 0 else y
            self._put(target, self._graph.add(x, y, width))
        elif width == 32:
            self._put(target, self._graph.sum((1, x), (factor, y)))
        else:
            self._put(target, self._graph.sum_wide(x, y, factor))

    def _neg(self, modifiers: list[str], target: str, a: str) -> None:
        width = int(modifiers[-1][1:])
        if modifiers[-1][0] == "f":
            self._put(target, self._graph.negate(self._value(a, width), width))
        else:
            self._sum(modifiers, target, "0", a, -1)

    def _abs(self, modifiers: list[str], target: str, a: str) -> None:
        width = int(modifiers[-1][1:])
        assert modifiers[-1][0] == "f"
        self._put(target, self._graph.absolute(self._value(a, width), width))

    def _mul(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        kind = modifiers[-1]
        width = int(kind[1:])
        x, y = self._values(width, a, b)
        if kind[0] == "f":
            self._put(target, self._graph.multiply(x, y, width))
        elif modifiers[0] == "lo" and width == 32:
            self._put(target, self._graph.multiply_integers(x, y))
        elif modifiers[0] == "wide":
            read = signed if kind[0] == "s" else lambda bits, _: bits
            value = self._graph.apply(
                "wide", lambda i, j: read(i, width) * read(j, width) % (1 << 2 * width), x, y
            )
            self._put(target, value)
        else:
            assert modifiers[0] == "lo"
            self._integers("mul", kind, lambda i, j: i * j, target, a, b)

    def _mad(self, modifiers: list[str], target: str, a: str, b: str, c: str) -> None:
        assert (modifiers[0], modifiers[-1][1:]) == ("lo", "32")
        x, y, z = self._values(32, a, b, c)
        product = self._graph.multiply_integers(x, y)
        self._put(target, self._graph.sum((1, product), (1, z)))

    def _fma(self, modifiers: list[str], target: str, a: str, b: str, c: str) -> None:
        width = int(modifiers[-1][1:])
        x, y, z = self._values(width, a, b, c)
        self._put(target, self._graph.fma(x, y, z, width))

    def _rcp(self, modifiers: list[str], target: str, a: str) -> None:
        self._special_function("RCP", modifiers, target, a)

    def _rsqrt(self, modifiers: list[str], target: str, a: str) -> None:
        self._special_function("RSQ", modifiers, target, a)

    def _sqrt(self, modifiers: list[str], target: str, a: str) -> None:
        self._special_function("SQRT", modifiers, target, a)

    def _special_function(self, name: str, modifiers: list[str], target: str, a: str) -> None:
        width = int(modifiers[-1][1:])
        if modifiers[0] == "approx" and width == 32 and name != "SQRT":
            self._put(target, self._graph.special(name, self._value(a, width)))
        else:
            opcode = ".".join([{"RCP": "rcp", "RSQ": "rsqrt", "SQRT": "sqrt"}[name], *modifiers])
            self._put(target, self._define(opcode, self._value(a, width)))

    def _div(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        width = int(modifiers[-1][1:])
        assert modifiers[-1][0] == "f"
        self._put(target, self._define(".".join(["div", *modifiers]), *self._values(width, a, b)))

    def _min(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        self._extreme(modifiers, target, a, b, True)

    def _max(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        self._extreme(modifiers, target, a, b, False)

    def _extreme(self, modifiers: list[str], target: str, a: str, b: str, is_least: bool) -> None:
        kind = modifiers[-1]
        x, y = self._values(int(kind[1:]), a, b)
        self._put(target, self._graph.extreme(x, y, kind, is_least=is_least))

    # ---- bits ----

    def _and(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        self._bitwise(_TABLES["and"], modifiers, target, a, b)

    def _or(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        self._bitwise(_TABLES["or"], modifiers, target, a, b)

    def _xor(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        self._bitwise(_TABLES["xor"], modifiers, target, a, b)

    def _not(self, modifiers: list[str], target: str, a: str) -> None:
        self._bitwise(0x0F, modifiers, target, a)

    def _bitwise(self, table: int, modifiers: list[str], target: str, *operands: str) -> None:
        if modifiers[-1] == "pred":
            values = [self._predicate(operand) for operand in operands]
            self._put(target, self._graph.bitwise(table, *values, width=1))
            return
        width = int(modifiers[-1][1:])
        values = self._values(width, *operands)
        if width == 64:
            words = zip(*(self._graph.halves(value) for value in values), strict=True)
            low, high = (self._graph.bitwise(table, *word) for word in words)
            self._put(target, self._graph.pack(low, high))
        else:
            self._put(target, self._graph.bitwise(table, *values))

    def _shl(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        width, by = int(modifiers[-1][1:]), self._value(b, 32)
        assert not by.node
        self._put(target, self._graph.shift_left(self._value(a, width), by.bits, width))

    def _shr(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        kind = modifiers[-1]
        width = int(kind[1:])
        value, by = self._value(a, width), self._value(b, 32)
        is_signed = kind[0] == "s"
        self._put(target, self._graph.shift_right(value, by, width, is_signed=is_signed))

    def _mov(self, modifiers: list[str], target: str, source: str) -> None:
        if modifiers[-1] == "pred":
            constant = {"0": Value(0), "1": TRUE, "-1": TRUE}
            self._put(target, constant.get(source) or self._predicate(source))
            return
        if target.startswith("{"):
            halves = self._graph.halves(self._value(source, 64))
            for name, half in zip(_registers(target), halves, strict=True):
                self._put(name, half)
        elif source.startswith("{"):
            self._put(target, self._graph.pack(*self._values(32, *_registers(source))))
        else:
            self._put(target, self._value(source, int(modifiers[-1][1:])))

    def _cvta(self, modifiers: list[str], target: str, source: str) -> None:
        self._put(target, self._value(source, 64))

    def _cvt(self, modifiers: list[str], target: str, source: str) -> None:
        to, given = (m for m in modifiers if re.fullmatch(r"[busf]\d+", m))
        width, size = int(to[1:]), int(given[1:])
        value = self._value(source, size)
        if to[0] == "f" and given[0] != "f":
            self._put(target, self._graph.to_float(value, given, width))
            return
        assert "f" not in (to[0], given[0]), modifiers
        if (width, size) == (32, 64):
            self._put(target, self._graph.halves(value)[0])
        elif (width, size) == (64, 32) and given[0] == "u":
            self._put(target, self._graph.pack(value, Value(0)))
        else:
            read = signed if given[0] == "s" else lambda bits, _: bits
            convert = self._graph.apply
            self._put(target, convert(to, lambda x: read(x, size) % (1 << width), value))

    def _selp(self, modifiers: list[str], target: str, a: str, b: str, chooser: str) -> None:
        chosen = a if self._graph.decide(self._predicate(chooser)) else b
        self._put(target, self._value(chosen, int(modifiers[-1][1:])))

    def _setp(self, modifiers: list[str], target: str, a: str, b: str, *more: str) -> None:
        relation, kind = modifiers[0], modifiers[-1]
        name = _RELATIONS.get(relation, relation)
        outcomes = RELATIONS.get(name) or RELATIONS[name.removesuffix("u")] | 8
        kind = "u" + kind[1:] if kind[0] == "b" else kind
        x, y = self._values(int(kind[1:]), a, b)
        value = self._graph.compare(outcomes, x, y, kind)
        if more:
            values = value, self._predicate(more[0])
            value = self._graph.bitwise(_TABLES[modifiers[1]], *values, width=1)
        self._put(target, value)

    # ---- memory ----

    def _ld(self, modifiers: list[str], target: str, source: str) -> None:
        size = SIZES[modifiers[-1]]
        found = _ADDRESS.fullmatch(source)
        assert found is not None
        offset = int(found["offset"] or "0", 0)
        for i, name in enumerate(_registers(target)):
            begin = offset + i * size
            if "param" in modifiers:
                data = self._parameters[found["base"]][begin : begin + size]
                self._put(name, Value(int.from_bytes(data, "little")))
                continue
            at = self._value(found["base"], 64)
            assert not at.node, "an address that depends on data"
            words = [
                self._memory.read(_space(modifiers), at.bits + begin + more)
                for more in range(0, size, 4)
            ]
            self._put(name, self._graph.pack(*words) if size == 8 else words[0])

    def _st(self, modifiers: list[str], target: str, source: str) -> None:
        size = SIZES[modifiers[-1]]
        found = _ADDRESS.fullmatch(target)
        assert found is not None
        at = self._value(found["base"], 64)
        assert not at.node, "an address that depends on data"
        begin = at.bits + int(found["offset"] or "0", 0)
        for i, name in enumerate(_registers(source)):
            value = self._value(name, 8 * size)
            words = self._graph.halves(value) if size == 8 else (value,)
            for j, word in enumerate(words):
                self._memory.write(_space(modifiers), begin + i * size + 4 * j, word)

    def _bar(self, modifiers: list[str], *operands: str) -> None:
        assert modifiers[:2] == ["warp", "sync"]


def _registers(operand: str) -> list[str]:
    return [part.strip() for part in operand.strip("{}").split(",")]


def _space(modifiers: list[str]) -> str:
    return next((m for m in modifiers if m in ("shared", "local")), "global")
