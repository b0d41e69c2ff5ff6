"""Arithmetic instructions: opcodes and the C++ expressions of their results."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

#: C++ types by PTX type.
CPP = {"f32": "float", "f64": "double", "pred": "bool"} | {
    kind + bits: f"{'' if kind == 's' else 'u'}int{bits}_t"
    for kind in "bus"
    for bits in ("8", "16", "32", "64")
}

_FLOAT = r"\.(?P<t>f32|f64)"
_INTEGER = r"\.(?P<t>[us](?:16|32|64))"
_SIGNED = r"\.(?P<t>s(?:16|32|64))"
_BITS = r"\.(?P<t>b(?:16|32|64))"
_LOGICAL = r"\.(?P<t>pred|b16|b32|b64)"
_WORD = r"\.(?P<t>[us](?:32|64))"
_TO_INTEGER = r"\.(?P<to>[us](?:16|32|64))\.(?P<t>f32|f64)"
_TO_WHOLE = r"\.(?P<to>f32|f64)\.(?P<t>(?P=to))"
_ANY = r"[busf](?:16|32|64)"


@dataclass(frozen=True)
class Value:
    """The result of an opcode as a function of its operands.

    Attributes:
        text:  C++ expression: ``{0}``, ``{1}`` are the operands, ``{t}`` is the C++ type of the
               opcode, ``{w}`` the type of twice its width.
        takes: PTX types of the operands.
        gives: PTX type of the result.
    """

    text: str
    takes: tuple[str, ...]
    gives: str


#: Patterns of opcodes, expressions, and types of operands and result: t is the type of the opcode,
#: w the type of twice its width, `to` the result type of a conversion.
RULES = tuple(
    (re.compile(pattern), text, takes.split(), gives)
    for pattern, text, takes, gives in (
        # All operations round to nearest, ties to even, as the host does.
        (r"add(\.rn)?" + _FLOAT, "{0} + {1}", "t t", "t"),
        (r"sub(\.rn)?" + _FLOAT, "{0} - {1}", "t t", "t"),
        (r"mul(\.rn)?" + _FLOAT, "{0} * {1}", "t t", "t"),
        (r"fma\.rn" + _FLOAT, "fused({0}, {1}, {2})", "t t t", "t"),
        (r"add\.rn\.f32x2", "packed_add({0}, {1})", "b64 b64", "b64"),
        (r"mul\.rn\.f32x2", "packed_multiply({0}, {1})", "b64 b64", "b64"),
        (r"fma\.rn\.f32x2", "packed_fused({0}, {1}, {2})", "b64 b64 b64", "b64"),
        (r"div\.rn" + _FLOAT, "{0} / {1}", "t t", "t"),
        (r"rcp\.rn" + _FLOAT, "1 / {0}", "t", "t"),
        (r"rcp\.approx\.ftz\.(?P<t>f32)", "approximate_reciprocal({0})", "t", "t"),
        (r"sqrt\.rn" + _FLOAT, "square_root({0})", "t", "t"),
        (r"neg" + _FLOAT, "-{0}", "t", "t"),
        (r"abs" + _FLOAT, "absolute({0})", "t", "t"),
        (r"min" + _FLOAT, "least({0}, {1})", "t t", "t"),
        (r"max" + _FLOAT, "greatest({0}, {1})", "t t", "t"),
        (r"copysign" + _FLOAT, "with_sign_of({0}, {1})", "t t", "t"),
        # Integers wrap around: the unit is compiled with -fwrapv.
        (r"add" + _INTEGER, "{0} + {1}", "t t", "t"),
        (r"sub" + _INTEGER, "{0} - {1}", "t t", "t"),
        (r"mul\.lo" + _INTEGER, "{0} * {1}", "t t", "t"),
        (r"mul\.hi\.(?P<t>u16)", "{t}(uint32_t({0}) * {1} >> 16)", "t t", "t"),
        (r"mul\.hi" + _WORD, "high_half({0}, {1})", "t t", "t"),
        (r"mul\.wide\.(?P<t>[us](?:16|32))", "{w}({0}) * {w}({1})", "t t", "w"),
        (r"mad\.lo" + _INTEGER, "{0} * {1} + {2}", "t t t", "t"),
        (r"mad\.hi" + _WORD, "high_half({0}, {1}) + {2}", "t t t", "t"),
        (r"mad\.wide\.(?P<t>[us](?:16|32))", "{w}({0}) * {w}({1}) + {2}", "t t w", "w"),
        (r"div" + _INTEGER, "quotient({0}, {1})", "t t", "t"),
        (r"rem" + _INTEGER, "remainder({0}, {1})", "t t", "t"),
        (r"neg" + _SIGNED, "-{0}", "t", "t"),
        (r"abs" + _SIGNED, "{0} < 0 ? -{0} : {0}", "t", "t"),
        (r"min" + _INTEGER, "{0} < {1} ? {0} : {1}", "t t", "t"),
        (r"max" + _INTEGER, "{0} < {1} ? {1} : {0}", "t t", "t"),
        (r"and" + _LOGICAL, "{0} & {1}", "t t", "t"),
        (r"or" + _LOGICAL, "{0} | {1}", "t t", "t"),
        (r"xor" + _LOGICAL, "{0} ^ {1}", "t t", "t"),
        (r"not" + _BITS, "~{0}", "t", "t"),
        (r"not\.(?P<t>pred)", "!{0}", "t", "t"),
        (r"shl" + _BITS, "shifted_left({0}, {1})", "t u32", "t"),
        (r"shr\.(?P<t>[bus](?:16|32|64))", "shifted_right({0}, {1})", "t u32", "t"),
        (r"shf\.l\.wrap\.(?P<t>b32)", "funnel_left({0}, {1}, {2} & 31)", "t t u32", "t"),
        (r"shf\.r\.wrap\.(?P<t>b32)", "funnel_right({0}, {1}, {2} & 31)", "t t u32", "t"),
        (r"shf\.l\.clamp\.(?P<t>b32)", "funnel_left({0}, {1}, {2})", "t t u32", "t"),
        (r"shf\.r\.clamp\.(?P<t>b32)", "funnel_right({0}, {1}, {2})", "t t u32", "t"),
        (r"popc\.(?P<t>b32|b64)", "__builtin_popcountll({0})", "t", "u32"),
        (r"clz\.(?P<t>b32|b64)", "leading_zeros({0})", "t", "u32"),
        (r"brev\.(?P<t>b32|b64)", "reversed({0})", "t", "t"),
        (r"bfe" + _WORD, "extracted({0}, {1}, {2})", "t u32 u32", "t"),
        (r"bfi\.(?P<t>b32|b64)", "inserted({0}, {1}, {2}, {3})", "t t u32 u32", "t"),
        (r"prmt\.(?P<t>b32)", "permuted({0}, {1}, {2})", "t t t", "t"),
        (rf"selp\.(?P<t>{_ANY})", "{2} ? {0} : {1}", "t t pred", "t"),
        # Addresses are those of the host; shared addresses are offsets.
        (r"cvta(\.to)?\.(global|const|local|param)\.(?P<t>u64)", "{0}", "t", "t"),
        (r"cvta\.shared\.(?P<t>u64)", "{0} + shared_memory()", "t", "t"),
        (r"cvta\.to\.shared\.(?P<t>u64)", "{0} - shared_memory()", "t", "t"),
        # Conversions.
        (r"cvt\.(?P<to>[us](?:8|16|32|64))\.(?P<t>[us](?:8|16|32|64))", "{0}", "t", "to"),
        (r"cvt\.rn\.(?P<to>f32|f64)\.(?P<t>[us](?:8|16|32|64))", "{to}({0})", "t", "to"),
        (r"cvt\.rni" + _TO_INTEGER, "integer<{to}>(even({0}))", "t", "to"),
        (r"cvt\.rzi" + _TO_INTEGER, "integer<{to}>(truncated({0}))", "t", "to"),
        (r"cvt\.rmi" + _TO_INTEGER, "integer<{to}>(floor({0}))", "t", "to"),
        (r"cvt\.rpi" + _TO_INTEGER, "integer<{to}>(ceiling({0}))", "t", "to"),
        (r"cvt\.rni" + _TO_WHOLE, "even({0})", "t", "to"),
        (r"cvt\.rzi" + _TO_WHOLE, "truncated({0})", "t", "to"),
        (r"cvt\.rmi" + _TO_WHOLE, "floor({0})", "t", "to"),
        (r"cvt\.rpi" + _TO_WHOLE, "ceiling({0})", "t", "to"),
        (r"cvt\.(?P<to>f64)\.(?P<t>f32)", "double({0})", "t", "to"),
        (r"cvt\.rn\.(?P<to>f32)\.(?P<t>f64)", "float({0})", "t", "to"),
    )
)

_RELATIONS = {
    "eq": "{0} == {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
}
_OF_INTEGERS = _RELATIONS | {"ne": "{0} != {1}"}
_OF_UNSIGNED = {"lo": "{0} < {1}", "ls": "{0} <= {1}", "hi": "{0} > {1}", "hs": "{0} >= {1}"}
# With a NaN, ordered comparisons are false and unordered ones (u) true.
_OF_FLOATS = _RELATIONS | {
    "ne": "{0} < {1} || {0} > {1}",
    "equ": "!({0} < {1} || {0} > {1})",
    "neu": "{0} != {1}",
    "ltu": "!({0} >= {1})",
    "leu": "!({0} > {1})",
    "gtu": "!({0} <= {1})",
    "geu": "!({0} < {1})",
    "num": "{0} == {0} && {1} == {1}",
    "nan": "{0} != {0} || {1} != {1}",
}
_SETP = re.compile(
    r"setp\.(?P<relation>[a-z]+)(\.(?P<with>and|or|xor))?\.(?P<t>[busf](?:16|32|64))"
)
_COMBINED = {"and": "&", "or": "|", "xor": "^"}


@functools.cache
def value_of(opcode: str) -> Value | None:
    """Return the result of an opcode; ``None`` if it is not an arithmetic instruction."""
    if opcode.startswith("setp."):
        return _comparison(opcode)
    for pattern, text, takes, gives in RULES:
        if found := pattern.fullmatch(opcode):
            types = found.groupdict() | {name: name for name in ("pred", "u32", "b64")}
            if "w" in (*takes, gives):
                types["w"] = types["t"][0] + str(2 * int(types["t"][1:]))
            cpp = {name: CPP[type_] for name, type_ in types.items()}
            return Value(_filled(text, cpp), tuple(types[name] for name in takes), types[gives])
    return None


def _filled(text: str, types: Mapping[str, str]) -> str:
    """Return an expression with types inserted, but not operands."""
    for name, cpp in types.items():
        text = text.replace(f"{{{name}}}", cpp)
    return text


def _comparison(opcode: str) -> Value | None:
    found = _SETP.fullmatch(opcode)
    if found is None:
        return None
    relations = {"f": _OF_FLOATS, "u": _OF_INTEGERS | _OF_UNSIGNED, "s": _OF_INTEGERS}.get(
        found["t"][0], {name: _OF_INTEGERS[name] for name in ("eq", "ne")}
    )
    text = relations.get(found["relation"])
    if text is None:
        return None
    if found["with"] is None:
        return Value(text, (found["t"],) * 2, "pred")
    return Value(
        f"({text}) {_COMBINED[found['with']]} {{2}}", (found["t"], found["t"], "pred"), "pred"
    )
