"""Operands of instructions as C++ expressions."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass, field

from fake_gpu.ptx.instructions import CPP
from fake_gpu.ptx.parser import SIZES, PtxError

_FLOAT = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})")
_INTEGER = re.compile(r"-?(0[xX][0-9a-fA-F]+|\d+)U?")
_ADDRESS = re.compile(r"\[\s*(?P<base>[\w$%]+)\s*(\+\s*(?P<offset>-?\w+))?\s*\]")
_SPECIAL = {
    "%tid.x": "threadIdx.x",
    "%ntid.x": "blockDim.x",
    "%ctaid.x": "blockIdx.x",
    "%nctaid.x": "gridDim.x",
    # Grids have one dimension.
    **{f"%{name}.{axis}": "0u" for name in ("tid", "ctaid") for axis in "yz"},
    **{f"%{name}.{axis}": "1u" for name in ("ntid", "nctaid") for axis in "yz"},
    "%laneid": "lane()",
    "%warpid": "(threadIdx.x / warpSize)",
    "%lanemask_eq": "(1u << lane())",
    "%lanemask_lt": "((1u << lane()) - 1)",
    "%lanemask_le": "((2u << lane()) - 1)",
    "%lanemask_gt": "(~0u << lane() << 1)",
    "%lanemask_ge": "(~0u << lane())",
    "WARP_SZ": "32u",
}


def identifier(name: str) -> str:
    """Return the C++ identifier of a register or symbol, with a unique prefix."""
    name = name.replace("$", "_")
    return f"r_{name[1:]}" if name.startswith("%") else f"s_{name}"


def register_type(declared: str) -> str:
    """Return the untyped equivalent of an integer type: registers have no sign."""
    return "b" + declared[1:] if declared[0] in "us" else declared


@dataclass
class Names:
    """Registers and variables by name.

    Attributes:
        registers: PTX types of registers.
        addresses: C++ expressions of the addresses of variables.
    """

    registers: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def read(self, operand: str, target: str, line: int) -> str:
        """Return the value of an operand in a type that an instruction reads.

        Args:
            operand: a register, its negation, an immediate, an address or a special register.
            target:  the PTX type.
            line:    line of the instruction.

        Raises:
            PtxError: the operand does not exist or has an incompatible type.
        """
        if operand.startswith("!"):
            return f"!{self.read(operand[1:].strip(), target, line)}"
        if operand in self.registers:
            given = self.registers[operand]
            return _converted(identifier(operand), given, target, operand, line)
        if target == "pred":
            return "true" if _number(operand, line) else "false"
        if operand in _SPECIAL:
            return f"{CPP[target]}({_SPECIAL[operand]})"
        if operand[0] in "-0123456789":
            return _immediate(operand, target, line)
        return f"{CPP[target]}({self._symbol(operand, line)})"

    def write(self, register: str, value: str, given: str, line: int) -> str:
        """Return the statement that assigns a value of type ``given`` to a register."""
        if register == "_":
            return f"static_cast<void>({value});"
        declared = self.registers.get(register)
        if declared is None:
            raise PtxError(line, f'"{register}" is not a register')
        if given not in ("f32", "f64", "pred"):
            value = f"{CPP[given]}({value})"  # reverses C++ integer promotion
        extended = "f" not in (given[0], declared[0]) and SIZES[given] < SIZES[declared]
        if extended:
            value = f"{CPP[declared]}({value})"
        elif SIZES[given] == SIZES[declared]:
            value = _converted(value, given, declared, register, line)
        else:
            raise PtxError(line, f'"{register}" is .{declared}, which cannot hold .{given}')
        return f"{identifier(register)} = {value};"

    def address(self, operand: str, line: int) -> str:
        """Return the 64-bit address of an operand in brackets."""
        found = _ADDRESS.fullmatch(operand)
        if found is None:
            raise PtxError(line, f'"{operand}" is not an address')
        base, offset = found["base"], int(found["offset"] or "0", 0)
        if base in self.registers:
            type_ = "u64" if self.registers[base].endswith("64") else "u32"
            at = f"uint64_t({self.read(base, type_, line)})"
        elif base.isdigit():
            at = f"uint64_t({base})"
        else:
            at = self._symbol(base, line)
        return f"{at} + {offset}" if offset >= 0 else f"{at} - {-offset}"

    def _symbol(self, operand: str, line: int) -> str:
        name, _, offset = operand.partition("+")
        if name.startswith("generic("):
            name = name[len("generic(") :].rstrip(")")
        if name not in self.addresses:
            raise PtxError(line, f'"{operand}" is not known')
        return f"{self.addresses[name]} + {int(offset, 0)}" if offset else self.addresses[name]


def initial_bytes(values: tuple[str, ...], type_: str, line: int) -> bytes:
    """Return the bytes of a variable's initial values."""
    size = SIZES[type_]
    return b"".join(
        (_number(value, line) % (1 << 8 * size)).to_bytes(size, "little") for value in values
    )


def _number(text: str, line: int) -> int:
    """Return an immediate: an integer, or the bits of a floating-point number."""
    if found := _FLOAT.fullmatch(text):
        return int(found[1] or found[2], 16)
    if not _INTEGER.fullmatch(text):
        raise PtxError(line, f'"{text}" is not known')
    digits = text.rstrip("U")
    is_octal = digits.lstrip("-").startswith("0") and digits.lstrip("-").isdigit()
    return int(digits, 8) if is_octal else int(digits, 0)


def _immediate(text: str, target: str, line: int) -> str:
    value = _number(text, line)
    bits = 8 * SIZES[target]
    if target[0] == "f":
        if not _FLOAT.fullmatch(text):
            raise PtxError(line, f'"{text}" is not a floating-point number')
        return _literal(value, bits, text[1] in "dD")
    if 0 <= value < 1 << 31:
        return f"{CPP[target]}({value})"
    return f"{CPP[target]}({value % (1 << bits):#x}u)"


def _literal(value: int, bits: int, is_double: bool) -> str:
    """Return the floating-point literal of some bits in a type of a given width."""
    code, size = ("<d", 8) if is_double else ("<f", 4)
    (number,) = struct.unpack(code, value.to_bytes(size, "little"))
    target = f"f{bits}"
    if math.isfinite(number):
        return f"{CPP[target]}({number.hex()})"
    bits_of = int.from_bytes(struct.pack("<f" if bits == 32 else "<d", number), "little")
    return f"bits_as<{CPP[target]}>(uint{bits}_t({bits_of:#x}u))"


def _converted(value: str, given: str, target: str, what: str, line: int) -> str:
    """Return a value as another type of the same width, or a narrower integer type."""
    if CPP[given] == CPP[target]:
        return value
    is_float = "f" in (given[0], target[0])
    if "pred" in (given, target) or SIZES[target] > SIZES[given]:
        raise PtxError(line, f'"{what}" is .{given}, which is read as .{target}')
    if not is_float:
        return f"{CPP[target]}({value})"
    if SIZES[target] != SIZES[given]:
        raise PtxError(line, f'"{what}" is .{given}, which is read as .{target}')
    return f"bits_as<{CPP[target]}>({value})"
