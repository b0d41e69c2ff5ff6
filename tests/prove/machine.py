"""One thread of a kernel's machine code, executed on values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prove.values import RELATIONS, TRUE, ZERO, Graph, Memory, Value, signed, to_bits

WORD = 1 << 32
#: Bytes of an instruction.
STEP = 16
#: Where the parameters of a kernel begin in the first constant bank.
PARAMETERS = {"sm_80": 0x160, "sm_90": 0x210}
_MAX_STEPS = 200_000
_OPERAND = re.compile(
    r"(?P<sign>[-!~]?)(?P<bar>\|?)(?P<name>U?R\d+|U?RZ|U?P\d|U?PT|SRZ|SR_[\w.]+|c\[.*\])\|?"
    r"(\.(?P<half>64|U32|X4|X8|X16))?"
)
_CONSTANT = re.compile(r"c\[(0x\w+)\]\[(?P<register>U?R\w+)?\+?(?P<offset>0x\w+)?\]")
_ADDRESS = re.compile(
    r"\[(?P<register>U?R\w+)?(\.(?P<scale>\w+))?(\+(?P<more>UR\w+))?(\+?(?P<offset>-?0x\w+))?\]"
)
# What has no effect on a thread.
_NO_EFFECT = re.compile(r"NOP|BSSY|BSYNC|WARPSYNC|YIELD|DEPBAR|ENDCOLLECTIVE")
_IGNORED = {"reuse", "E", "CONSTANT", "SYS", "STRONG", "GPU", "LU", "EF", "NOINC", "NODEC"}


class UnsupportedError(ValueError):
    """An instruction that is not executed here, with its place."""


class Thread:
    """A thread that executes machine code.

    Args:
        code:     instructions, as nvdisasm's JSON has them.
        graph:    the expressions.
        memory:   reads and writes words: ``read(space, address)``.
        banks:    constants, by bank.
        special:  values of ``SR_TID.X`` and others.
    """

    def __init__(
        self,
        code: Sequence[Mapping[str, Any]],
        graph: Graph,
        memory: Memory,
        banks: Mapping[int, bytes],
        special: Mapping[str, int],
    ) -> None:
        self._code, self._graph, self._memory = code, graph, memory
        self._banks, self._special = banks, special
        self._registers: dict[str, Value] = {}

    def run(self) -> None:
        """Execute until the thread ends.

        Raises:
            UnsupportedError: the code has an instruction that is not executed here.
        """
        at: int | None = 0
        for _ in range(_MAX_STEPS):
            if at is None:
                return
            one = self._code[at]
            name, *modifiers = one["opcode"].split(".")
            operands = _split(one.get("operands", ""))
            self._graph.place = f"{at * STEP:#06x} {one['opcode']} {one.get('operands', '')}"
            guard = one.get("predicate", "").lstrip("@")
            if guard and not self._graph.decide(self._predicate(guard)):
                at += 1
            elif name == "EXIT":
                at = None
            elif name == "BRA":
                *conditions, target = operands
                goes = all(self._graph.decide(self._predicate(p)) for p in conditions)
                at = int(target, 16) // STEP if goes else at + 1
            else:
                self._instruction(name, [m for m in modifiers if m not in _IGNORED], operands)
                at += 1
        raise UnsupportedError(f"{self._graph.place}: no end after {_MAX_STEPS} instructions")

    def _instruction(self, name: str, modifiers: list[str], operands: list[str]) -> None:
        if _NO_EFFECT.fullmatch(name):
            return
        run = getattr(self, f"_{name.lower()}", None) or getattr(
            self, f"_{name.removeprefix('U').lower()}", None
        )
        if run is None:
            raise UnsupportedError(f"{self._graph.place}: not known")
        try:
            run(modifiers, *operands)
        except (TypeError, KeyError, AssertionError) as error:
            raise UnsupportedError(f"{self._graph.place}: {error!r}") from error

    # ---- operands ----

    def _register(self, name: str) -> Value:
        if name in ("RZ", "URZ", "SRZ"):
            return ZERO
        return self._registers[name]

    def _put(self, name: str, value: Value, words: int = 1) -> None:
        if name in ("RZ", "URZ", "PT", "UPT"):
            return
        if words == 2:
            for word, half in zip((name, _following(name)), self._graph.halves(value), strict=True):
                self._registers[word] = half
        else:
            self._registers[name] = value

    def _predicate(self, operand: str) -> Value:
        name = operand.lstrip("!")
        value = TRUE if name in ("PT", "UPT") else self._registers[name]
        return self._graph.negate(value, 1) if operand[0] == "!" else value

    def _word(self, operand: str, kind: str = "integer") -> Value:
        return self._read(operand, 32, kind)

    def _read(self, operand: str, width: int, kind: str) -> Value:
        """Return an operand: an immediate number, a register or two, a constant."""
        operand = operand.removesuffix(".reuse").strip()
        found = _OPERAND.fullmatch(operand.replace(".reuse", ""))
        if found is None:
            return Value(_immediate(operand, width, kind))
        name = found["name"]
        if name.startswith("c["):
            value = self._constant(name, width)
        elif width == 64 and name not in ("RZ", "URZ"):
            value = self._graph.pack(self._register(name), self._register(_following(name)))
        else:
            value = self._register(name)
        if kind == "float":
            if found["bar"]:
                value = self._graph.absolute(value, width)
            return self._graph.negate(value, width) if found["sign"] == "-" else value
        if found["sign"] == "-":
            assert width == 32
            return self._graph.sum((-1, value))
        return self._graph.bitwise(0x0F, value) if found["sign"] == "~" else value

    def _constant(self, operand: str, width: int) -> Value:
        found = _CONSTANT.fullmatch(operand)
        if found is None:
            raise UnsupportedError(f"{self._graph.place}: {operand}")
        offset = int(found["offset"] or "0", 0)
        if found["register"]:
            offset += self._register(found["register"]).bits
        bank = self._banks[int(found[1], 0)]
        return Value(int.from_bytes(bank[offset : offset + width // 8], "little"))

    # ---- floating-point numbers ----

    def _fadd(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        self._float(self._graph.add, modifiers, target, a, b)

    def _fmul(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        self._float(self._graph.multiply, modifiers, target, a, b)

    def _ffma(self, modifiers: list[str], target: str, a: str, b: str, c: str) -> None:
        self._float(self._graph.fma, modifiers, target, a, b, c)

    def _dadd(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        self._float(self._graph.add, modifiers, target, a, b, width=64)

    def _dmul(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        self._float(self._graph.multiply, modifiers, target, a, b, width=64)

    def _dfma(self, modifiers: list[str], target: str, a: str, b: str, c: str) -> None:
        self._float(self._graph.fma, modifiers, target, a, b, c, width=64)

    def _float(
        self,
        function: Callable[..., Value],
        modifiers: list[str],
        target: str,
        *operands: str,
        width: int = 32,
    ) -> None:
        assert modifiers in ([], ["FTZ"]), modifiers
        values = [self._read(operand, width, "float") for operand in operands]
        result = function(*values, width)
        if modifiers:  # subnormal numbers would be zero, but there are none
            assert not any(0 < v.bits & (1 << 31) - 1 < 1 << 23 for v in (*values, result))
        self._put(target, result, width // 32)

    def _mufu(self, modifiers: list[str], target: str, source: str) -> None:
        (name,) = modifiers
        self._put(target, self._graph.special(name, self._word(source, "float")))

    def _fmnmx(self, modifiers: list[str], target: str, a: str, b: str, least: str) -> None:
        assert not modifiers
        x, y = self._word(a, "float"), self._word(b, "float")
        is_least = self._predicate(least)
        assert not is_least.node
        self._put(target, self._graph.extreme(x, y, "f32", is_least=is_least == TRUE))

    def _fsel(self, modifiers: list[str], target: str, a: str, b: str, chooser: str) -> None:
        chosen = a if self._graph.decide(self._predicate(chooser)) else b
        self._put(target, self._word(chosen, "float"))

    def _fsetp(self, modifiers: list[str], *operands: str) -> None:
        self._setp(modifiers, operands, "f32")

    def _dsetp(self, modifiers: list[str], *operands: str) -> None:
        self._setp(modifiers, operands, "f64")

    def _fset(self, modifiers: list[str], target: str, a: str, b: str, other: str) -> None:
        assert modifiers[0] == "BF"
        condition = self._compared(modifiers[1:], (a, b, other), "f32")
        is_true = self._graph.decide(condition)
        self._put(target, Value(to_bits(1.0, 32)) if is_true else ZERO)

    def _fchk(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        values = [self._word(operand, "float") for operand in (a, b)]

        def is_extreme(x: int, y: int) -> int:
            exponents = [bits >> 23 & 255 for bits in (x, y)]
            return int(not all(32 < exponent < 222 for exponent in exponents))

        self._put(target, self._graph.apply("check", is_extreme, *values))

    def _setp(self, modifiers: list[str], operands: Sequence[str], kind: str) -> None:
        target, inverse, *compared = operands
        assert inverse in ("PT", "UPT"), inverse
        self._put(target, self._compared(modifiers, compared, kind))

    def _compared(self, modifiers: list[str], operands: Sequence[str], kind: str) -> Value:
        width = int(kind[1:])
        a, b, other = operands[:3]
        relation, *_, combine = (m for m in modifiers if m not in ("U32", "FTZ", "EX"))
        outcomes = _outcomes(relation)
        x, y = (self._read(o, width, "float" if kind[0] == "f" else "integer") for o in (a, b))
        if "EX" in modifiers:
            value = self._graph.upper_compared(outcomes, x, y, kind, self._predicate(operands[3]))
        else:
            value = self._graph.compare(outcomes, x, y, kind)
        table = {"AND": 0xC0, "OR": 0xFC, "XOR": 0x3C}[combine]
        return self._graph.bitwise(table, value, self._predicate(other), width=1)

    # ---- integers ----

    def _isetp(self, modifiers: list[str], *operands: str) -> None:
        self._setp(modifiers, operands, "u32" if "U32" in modifiers else "s32")

    def _mov(self, modifiers: list[str], target: str, source: str, *mask: str) -> None:
        self._put(target, self._word(source))

    def _cs2r(self, modifiers: list[str], target: str, source: str) -> None:
        assert source == "SRZ"
        self._put(target, ZERO, 1 if "32" in modifiers else 2)

    def _s2r(self, modifiers: list[str], target: str, source: str) -> None:
        self._put(target, Value(self._special[source]))

    _s2ur = _s2r

    def _r2ur(self, modifiers: list[str], target: str, source: str) -> None:
        self._put(target, self._word(source))

    def _ldc(self, modifiers: list[str], target: str, source: str) -> None:
        words = 2 if "64" in modifiers else 1
        self._put(target, self._constant(source, 32 * words), words)

    _uldc = _ldc

    def _hfma2(self, modifiers: list[str], target: str, a: str, b: str, *halves: str) -> None:
        assert (a, b, len(halves)) == ("-RZ", "RZ", 2)
        high, low = (to_bits(float(half), 16) for half in halves)
        self._put(target, Value(high << 16 | low))

    def _sel(self, modifiers: list[str], target: str, a: str, b: str, chooser: str) -> None:
        chosen = a if self._graph.decide(self._predicate(chooser)) else b
        self._put(target, self._word(chosen))

    def _iadd3(self, modifiers: list[str], target: str, *operands: str) -> None:
        carries = []
        while re.fullmatch(r"U?P[\dT]", operands[0]):
            carries.append(operands[0])
            operands = operands[1:]
        values = [self._word(operand) for operand in operands[:3]]
        if "X" in modifiers:
            values += [self._carry(operand) for operand in operands[3:5]]
        self._add(target, values, carries)

    def _viadd(self, modifiers: list[str], target: str, a: str, b: str) -> None:
        self._put(target, self._graph.sum((1, self._word(a)), (1, self._word(b))))

    def _carry(self, operand: str) -> Value:
        return self._graph.word_of(self._predicate(operand))

    def _add(self, target: str, values: Sequence[Value], carries: Sequence[str] = ()) -> None:
        self._put(target, self._graph.sum(*((1, value) for value in values)))
        for i, carry in enumerate(carries):
            if carry not in ("PT", "UPT"):
                self._put(carry, self._graph.carry(i, *values))

    def _imad(self, modifiers: list[str], target: str, *operands: str) -> None:
        kinds = set(modifiers)
        if "WIDE" in kinds or "HI" in kinds:
            factors = [self._word(operand) for operand in operands[:2]]
            if "U32" not in kinds:
                numbers = [signed(value.bits) for value in factors]
            else:
                numbers = [value.bits for value in factors]
            added = self._read(operands[2], 64, "integer")
            bits = (numbers[0] * numbers[1] + added.bits) % (1 << 64)
            whole = self._graph.apply("wide", lambda *_: bits, *factors, added)
            if "WIDE" in kinds:
                self._put(target, whole, 2)
            else:
                self._put(target, self._graph.halves(whole)[1])
            return
        assert kinds <= {"MOV", "U32", "IADD", "SHL", "X"}, kinds
        a, b, c = (self._word(operand) for operand in operands[:3])
        parts = [self._graph.multiply_integers(a, b), c]
        if "X" in kinds:
            parts.append(self._carry(operands[3]))
        self._add(target, parts)

    def _lea(self, modifiers: list[str], target: str, *operands: str) -> None:
        carry = []
        if re.fullmatch(r"U?P\d", operands[0]):
            carry, operands = [operands[0]], operands[1:]
        if "HI" not in modifiers:
            a, b, by = operands
            shift = int(by, 16)
            value = self._word(a)
            if carry:
                value = self._graph.shift_left(value, shift, 32)
                self._add(target, (value, self._word(b)), carry)
            else:
                self._put(target, self._graph.sum((1 << shift, value), (1, self._word(b))))
            return
        a, b, *rest = operands
        if "SX32" in modifiers:
            by, *more = rest
            low = self._word(a)
            high = self._graph.apply("sign", lambda x: signed(x) >> 31 & WORD - 1, low)
        else:
            high_operand, by, *more = rest
            low, high = self._word(a), self._word(high_operand)
        shift = int(by, 16)
        value = self._graph.funnel(low, high, 32 - shift)
        self._add(target, [value, self._word(b), *map(self._carry, more)], carry)

    def _lop3(self, modifiers: list[str], *operands: str) -> None:
        predicate = operands[0] if re.fullmatch(r"U?P[\dT]", operands[0]) else None
        target, a, b, c, table, other = operands[1:] if predicate else operands
        value = self._graph.bitwise(int(table, 16), *(self._word(o) for o in (a, b, c)))
        self._put(target, value)
        if predicate:
            assert other in ("!PT", "!UPT")
            is_set = self._graph.compare(RELATIONS["ne"], value, ZERO, "u32")
            self._put(predicate, is_set)

    def _plop3(self, modifiers: list[str], target: str, inverse: str, *operands: str) -> None:
        *inputs, table, _ = operands
        assert inverse in ("PT", "UPT")
        values = [self._predicate(operand) for operand in inputs]
        self._put(target, self._graph.bitwise(int(table, 16), *values, width=1))

    def _shf(self, modifiers: list[str], target: str, a: str, by: str, b: str) -> None:
        direction, kind, *high = modifiers
        low, shift, up = (self._word(operand) for operand in (a, by, b))
        if direction == "L" and not shift.node and shift.bits < 32:
            if not high and kind == "U32":
                self._put(target, self._graph.shift_left(low, shift.bits, 32))
                return
            if high and kind == "U64" and shift.bits:
                self._put(target, self._graph.funnel(low, up, 32 - shift.bits))
                return
        if kind == "U64" and direction == "R" and not high and not shift.node and shift.bits < 32:
            self._put(target, self._graph.funnel(low, up, shift.bits))
            return
        if direction == "R" and kind in ("U32", "S32") and high == ["HI"]:
            value = self._graph.shift_right(up, shift, is_signed=kind == "S32")
            self._put(target, value)
            return

        def funnel(x: int, count: int, y: int) -> int:
            whole = y << 32 | x
            if direction == "L":
                return (whole << min(count, 63)) >> (32 if high else 0) & WORD - 1
            if kind == "S64":
                whole = signed(whole, 64)
            return (whole >> min(count, 63)) >> (32 if high else 0) & WORD - 1

        self._put(target, self._graph.apply("shf" + ".".join(modifiers), funnel, low, shift, up))

    def _imnmx(self, modifiers: list[str], target: str, a: str, b: str, least: str) -> None:
        x, y = self._word(a), self._word(b)
        kind = "u32" if "U32" in modifiers else "s32"
        is_least = self._predicate(least) == TRUE
        self._put(target, self._graph.extreme(x, y, kind, is_least=is_least))

    _vimnmx = _imnmx

    def _i2f(self, modifiers: list[str], target: str, source: str) -> None:
        width = 64 if "F64" in modifiers else 32
        kind = modifiers[-1].lower() if modifiers[-1:] not in ([], ["F64"]) else "s32"
        value = self._read(source, int(kind[1:]), "integer")
        self._put(target, self._graph.to_float(value, kind, width), width // 32)

    # ---- memory ----

    def _at(self, operand: str) -> int:
        found = _ADDRESS.fullmatch(re.sub(r"desc\[UR\d+\]", "", operand).replace(".reuse", ""))
        if found is None:
            raise UnsupportedError(f"{self._graph.place}: {operand}")
        at = int(found["offset"] or "0", 0)
        name = found["register"]
        if name and name not in ("RZ", "URZ"):
            low = self._register(name)
            assert not low.node, "an address that depends on data"
            if found["scale"] == "64":
                at += self._register(_following(name)).bits << 32
            at += low.bits * {"X4": 4, "X8": 8, "X16": 16}.get(found["scale"] or "", 1)
        if found["more"] and found["more"] != "URZ":
            at += self._register(found["more"]).bits
            if found["scale"] == "64" or found["scale"] == "U32":
                at += self._register(_following(found["more"])).bits << 32
        return at

    def _load(self, space: str, modifiers: list[str], target: str, operand: str) -> None:
        at = self._at(operand)
        for i in range(_words(modifiers)):
            self._put(target, self._memory.read(space, at + 4 * i))
            target = _following(target)

    def _store(self, space: str, modifiers: list[str], operand: str, source: str) -> None:
        at = self._at(operand)
        source = source.removesuffix(".reuse")
        for i in range(_words(modifiers)):
            self._memory.write(space, at + 4 * i, self._register(source))
            source = _following(source)

    def _ldg(self, modifiers: list[str], target: str, operand: str) -> None:
        self._load("global", modifiers, target, operand)

    def _ldl(self, modifiers: list[str], target: str, operand: str) -> None:
        self._load("local", modifiers, target, operand)

    def _lds(self, modifiers: list[str], target: str, operand: str) -> None:
        self._load("shared", modifiers, target, operand)

    def _stg(self, modifiers: list[str], operand: str, source: str) -> None:
        self._store("global", modifiers, operand, source)

    def _stl(self, modifiers: list[str], operand: str, source: str) -> None:
        self._store("local", modifiers, operand, source)

    def _sts(self, modifiers: list[str], operand: str, source: str) -> None:
        self._store("shared", modifiers, operand, source)


def _split(operands: str) -> list[str]:
    return [part.strip() for part in operands.split(",")] if operands else []


def _following(register: str) -> str:
    """Return the register of the next word."""
    if register in ("RZ", "URZ"):
        return register
    name, number = re.fullmatch(r"(U?R)(\d+)", register).groups()  # type: ignore[union-attr]
    return f"{name}{int(number) + 1}"


def _words(modifiers: Sequence[str]) -> int:
    return next((int(m) // 32 for m in modifiers if m in ("64", "128")), 1)


def _outcomes(relation: str) -> int:
    """Return the outcomes of a relation; one that ends in U holds for what is not a number."""
    name = relation.lower()
    return RELATIONS[name] if name in RELATIONS else RELATIONS[name.removesuffix("u")] | 8


def _immediate(operand: str, width: int, kind: str) -> int:
    if kind == "integer":
        return int(operand, 0) % (1 << width)
    text = operand.replace("QNAN", "NAN").replace("SNAN", "NAN")
    return to_bits(float(text), width)
