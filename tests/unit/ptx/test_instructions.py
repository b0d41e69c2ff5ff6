"""What single instructions compute, as PTX's manual has it."""

from __future__ import annotations

import functools
import math
import struct

import numpy as np
import pytest

from fake_gpu.ptx.instructions import RULES, value_of
from helpers.ptx import kernel_text, run

NAN, INF = math.nan, math.inf
TINY = 2.0**-149
#: Opcode, operands, result. Numbers are of the types that the opcode names.
CASES = [
    ("add.f32", (1.0, 2.0**-24), 1.0),  # a tie goes to the even neighbor
    ("add.f32", (1.0 + 2.0**-23, 2.0**-24), 1.0 + 2.0**-22),
    ("add.rn.f64", (1.0, 2.0**-53), 1.0),
    ("sub.f32", (TINY, 2 * TINY), -TINY),  # what is denormal stays
    ("mul.f32", (2.0**-100, 2.0**-49), TINY),
    ("mul.rn.f32", (1.0 + 2.0**-12, 1.0 + 2.0**-12), 1.0 + 2.0**-11),
    ("fma.rn.f32", (1.0 + 2.0**-12, 1.0 + 2.0**-12, -1.0 - 2.0**-11), 2.0**-24),
    ("fma.rn.f64", (1.0 + 2.0**-30, 1.0 + 2.0**-30, -1.0 - 2.0**-29), 2.0**-60),
    ("div.rn.f32", (1.0, 3.0), float(np.float32(1) / np.float32(3))),
    ("div.rn.f64", (1.0, 3.0), 1.0 / 3.0),
    ("div.rn.f32", (1.0, -0.0), -INF),
    ("add.rn.f32x2", (0x400000003FC00000, 0x400000003F000000), 0x4080000040000000),
    ("mul.rn.f32x2", (0x400000003FC00000, 0x400000003F000000), 0x408000003F400000),
    ("fma.rn.f32x2", (0x400000003FC00000, 0x400000003F000000, 0x3E800000), 0x408000003F800000),
    ("rcp.rn.f32", (3.0,), float(np.float32(1) / np.float32(3))),
    ("rcp.approx.ftz.f32", (3.0,), float(np.float32(1) / np.float32(3))),
    ("rcp.approx.ftz.f32", (-1e-39,), -INF),
    ("rcp.approx.ftz.f32", (-3e38,), -0.0),
    ("sqrt.rn.f32", (2.0,), float(np.sqrt(np.float32(2)))),
    ("sqrt.rn.f64", (2.0,), math.sqrt(2.0)),
    ("neg.f32", (0.0,), -0.0),
    ("abs.f64", (-3.5,), 3.5),
    ("copysign.f32", (-2.0, 3.0), -3.0),  # the sign of the first
    ("min.f32", (NAN, 1.0), 1.0),
    ("min.f32", (1.0, NAN), 1.0),
    ("min.f32", (0.0, -0.0), -0.0),
    ("min.f32", (-0.0, 0.0), -0.0),
    ("max.f32", (NAN, -INF), -INF),
    ("max.f64", (-0.0, 0.0), 0.0),
    ("max.f64", (0.0, -0.0), 0.0),
    ("max.f32", (NAN, NAN), NAN),
    ("add.s32", (2**31 - 1, 1), -(2**31)),
    ("sub.s16", (-(2**15), 1), 2**15 - 1),
    ("mul.lo.s32", (65537, 65537), 131073),
    ("mul.lo.u16", (65535, 65535), 1),
    ("mul.lo.s64", (-3, 5), -15),
    ("mul.hi.u16", (2**16 - 1, 2**16 - 1), 2**16 - 2),
    ("mul.hi.u32", (2**32 - 1, 2**32 - 1), 2**32 - 2),
    ("mul.hi.s32", (-1, 1), -1),
    ("mul.hi.u64", (2**64 - 1, 2**64 - 1), 2**64 - 2),
    ("mul.hi.s64", (-1, 1), -1),
    ("mul.wide.s32", (-2, 2**31 - 1), -(2**32) + 2),
    ("mul.wide.u32", (2**32 - 1, 2**32 - 1), (2**32 - 1) ** 2),
    ("mul.wide.s16", (-(2**15), -(2**15)), 2**30),
    ("mul.wide.u16", (65535, 65535), 65535**2),
    ("mad.lo.s32", (3, 5, -16), -1),
    ("mad.hi.u32", (2**31, 2, 5), 6),
    ("mad.wide.s32", (-2, 3, 7), 1),
    ("div.s32", (-7, 2), -3),
    ("div.u32", (2**32 - 7, 2), 2**31 - 4),
    ("div.s32", (-(2**31), -1), -(2**31)),
    ("rem.s32", (-7, 2), -1),
    ("rem.u64", (17, 5), 2),
    ("neg.s32", (-(2**31),), -(2**31)),
    ("abs.s64", (-5,), 5),
    ("min.s32", (-1, 1), -1),
    ("min.u32", (2**32 - 1, 1), 1),
    ("max.s64", (-1, 1), 1),
    ("and.b32", (0b1100, 0b1010), 0b1000),
    ("or.b64", (1 << 40, 1), (1 << 40) + 1),
    ("xor.b16", (0b1100, 0b1010), 0b0110),
    ("not.b16", (1,), 65534),
    ("and.pred", (True, False), False),
    ("xor.pred", (True, False), True),
    ("not.pred", (True,), False),
    ("shl.b32", (3, 31), 1 << 31),
    ("shl.b32", (3, 32), 0),
    ("shl.b16", (3, 15), 1 << 15),
    ("shl.b64", (1, 63), 1 << 63),
    ("shl.b64", (1, 2**32 - 1), 0),
    ("shr.u32", (2**31, 31), 1),
    ("shr.u32", (2**31, 32), 0),
    ("shr.s32", (-8, 1), -4),
    ("shr.s32", (-8, 40), -1),
    ("shr.s64", (-8, 64), -1),
    ("shr.b64", (2**63, 63), 1),
    ("shf.l.wrap.b32", (0x80000001, 0x12345678, 36), 0x23456788),
    ("shf.r.wrap.b32", (0x12345678, 0x9, 4), 0x91234567),
    ("shf.l.clamp.b32", (7, 9, 40), 7),
    ("shf.r.clamp.b32", (7, 9, 40), 9),
    ("popc.b32", (0xF0F0F0F0,), 16),
    ("popc.b64", (2**64 - 1,), 64),
    ("clz.b32", (1,), 31),
    ("clz.b32", (0,), 32),
    ("clz.b64", (1 << 40,), 23),
    ("brev.b32", (1,), 1 << 31),
    ("bfe.u32", (0xABCD1234, 8, 8), 0x12),
    ("bfe.s32", (0xABCD1234 - 2**32, 16, 16), 0xABCD - 65536),
    ("bfe.s32", (-(2**31), 28, 8), -8),  # the field reaches beyond the number
    ("bfe.u64", (1 << 63, 63, 1), 1),
    ("bfe.u32", (0xFFFFFFFF, 4, 0), 0),
    ("bfe.s32", (-1, 40, 4), -1),
    ("bfi.b32", (0xF, 0, 8, 4), 0xF00),
    ("bfi.b32", (0, 0xFFFFFFFF, 28, 8), 0x0FFFFFFF),
    ("bfi.b64", (1, 0, 63, 4), 1 << 63),
    ("prmt.b32", (0x33221100, 0x77665544, 0x7531), 0x77553311),
    ("prmt.b32", (0x80, 0, 0x8), 0x808080FF),
    ("selp.f32", (1.5, 2.5, False), 2.5),
    ("selp.b64", (1, 2, True), 1),
    ("setp.eq.f32", (NAN, NAN), False),
    ("setp.ne.f32", (NAN, 1.0), False),
    ("setp.ne.f32", (2.0, 1.0), True),
    ("setp.neu.f32", (NAN, 1.0), True),
    ("setp.equ.f32", (NAN, 1.0), True),
    ("setp.equ.f32", (2.0, 1.0), False),
    ("setp.ltu.f64", (NAN, 1.0), True),
    ("setp.lt.f64", (NAN, 1.0), False),
    ("setp.geu.f32", (0.0, 1.0), False),
    ("setp.le.f32", (-0.0, 0.0), True),
    ("setp.num.f32", (1.0, NAN), False),
    ("setp.nan.f32", (1.0, NAN), True),
    ("setp.lt.s32", (-1, 1), True),
    ("setp.lt.u32", (2**32 - 1, 1), False),
    ("setp.hi.u32", (2**32 - 1, 1), True),
    ("setp.gt.s16", (-1, 0), False),
    ("setp.ne.b64", (1 << 40, 0), True),
    ("setp.lt.and.s32", (-1, 1, False), False),
    ("setp.lt.or.s32", (1, -1, True), True),
    ("setp.lt.xor.s32", (-1, 1, True), False),
    ("cvt.s64.s16", (-2,), -2),
    ("cvt.u64.u32", (2**32 - 1,), 2**32 - 1),
    ("cvt.s64.s32", (-1,), -1),
    ("cvt.u32.u64", (2**40 + 5,), 5),
    ("cvt.rn.f32.s32", (2**24 + 1,), float(2**24)),
    ("cvt.rn.f32.u64", (2**63 + 2**39 + 1,), float(2**63 + 2**40)),
    ("cvt.rn.f64.s64", (-(2**53) - 1,), -float(2**53)),
    ("cvt.rni.s32.f32", (2.5,), 2),
    ("cvt.rni.s32.f32", (-3.5,), -4),
    ("cvt.rzi.s32.f32", (-2.9,), -2),
    ("cvt.rzi.s32.f32", (1e20,), 2**31 - 1),
    ("cvt.rzi.s32.f64", (-1e20,), -(2**31)),
    ("cvt.rzi.u32.f32", (-1.0,), 0),
    ("cvt.rzi.u32.f32", (5e9,), 2**32 - 1),
    ("cvt.rzi.s32.f32", (NAN,), 0),
    ("cvt.rzi.s64.f32", (NAN,), -(2**63)),
    ("cvt.rzi.u64.f64", (2.0**63,), 2**63),
    ("cvt.rmi.s32.f32", (-0.5,), -1),
    ("cvt.rpi.s32.f32", (-0.5,), 0),
    ("cvt.rni.f32.f32", (0.5,), 0.0),
    ("cvt.rzi.f64.f64", (-0.5,), -0.0),
    ("cvt.rmi.f32.f32", (1.5,), 1.0),
    ("cvt.rpi.f64.f64", (1.5,), 2.0),
    ("cvt.f64.f32", (TINY,), TINY),
    ("cvt.rn.f32.f64", (1.0 + 2.0**-24,), 1.0),
]
CODES = {"f32": "<f", "f64": "<d"}


def bits_of(number: float | bool, type_: str) -> int:
    """Return a number's bits."""
    if type_ in CODES:
        return int.from_bytes(struct.pack(CODES[type_], number), "little")
    return int(number) % (1 << int(type_[1:]) if type_ != "pred" else 2)


def immediate(number: float | bool, type_: str) -> str:
    """Return a number as PTX writes it."""
    prefixes = {"f32": "0f{:08X}", "f64": "0d{:016X}"}
    return prefixes[type_].format(bits_of(number, type_)) if type_ in CODES else str(int(number))


def instruction_text(place: int, opcode: str, operands: tuple[float | bool, ...]) -> str:
    """Return lines that execute an instruction on registers and store the bits of its result."""
    value = value_of(opcode)
    assert value is not None, opcode
    types = (*value.takes, value.gives)
    lines = [f".reg .{type_} %v{i};" for i, type_ in enumerate(types)]
    for i, (operand, type_) in enumerate(zip(operands, value.takes, strict=True)):
        lines.append(f"mov.{type_} %v{i}, {immediate(operand, type_)};")
    result = f"%v{len(operands)}"
    lines.append(f"{opcode} {', '.join((result, *(f'%v{i}' for i in range(len(operands)))))};")
    if value.gives == "pred":
        lines += [".reg .u32 %set;", f"selp.u32 %set, 1, 0, {result};"]
        result, stored = "%set", "u32"
    else:
        stored = value.gives
    lines.append(f"st.global.{stored} [%out+{8 * place}], {result};")
    return "\n".join(("{", *lines, "}"))


@functools.cache
def results() -> np.ndarray:
    """Return the bits that every case computes, all by one kernel."""
    lines = (instruction_text(i, *case[:2]) for i, case in enumerate(CASES))
    return run(kernel_text("\n".join(lines)), np.zeros(len(CASES), np.uint64), 1)


@pytest.mark.parametrize(
    "place", range(len(CASES)), ids=lambda i: f"{CASES[i][0]}-{CASES[i][1]}".replace(" ", "")
)
def test_an_instruction_computes_what_the_manual_says(place: int) -> None:
    opcode, _, expected = CASES[place]
    type_ = value_of(opcode).gives
    found = int(results()[place])
    if isinstance(expected, float) and math.isnan(expected):
        (number,) = struct.unpack_from(CODES[type_], found.to_bytes(8, "little"))
        assert math.isnan(number)
    else:
        assert found == bits_of(expected, type_)


def test_every_rule_has_a_case() -> None:
    """But for those of addresses, which take memory."""
    opcodes = {case[0] for case in CASES}
    untried = [
        pattern.pattern
        for pattern, *_ in RULES
        if not any(pattern.fullmatch(opcode) for opcode in opcodes)
    ]
    assert untried
    assert all(pattern.startswith("cvta") for pattern in untried), untried
