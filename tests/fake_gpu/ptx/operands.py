"""Operands of instructions as C++ expressions of a wanted type."""

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
    """Return the C++ identifier of a register, or of a symbol: no one else's begins like that."""
    name = name.replace("$", "_")
    return f"r_{name[1:]}" if name.startswith("%") else f"s_{name}"


def register_type(declared: str) -> str:
    """Return what a register of a type holds: signs are what instructions make of its bits."""
    return "b" + declared[1:] if declared[0] in "us" else declared


@dataclass
class Names:
    """What names stand for.

    Attributes:
        registers: the PTX type of each.
        addresses: C++ expressions of the addresses of variables.
    """

    registers: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def read(self, operand: str, wanted: str, line: int) -> str:
        """Return the value of an operand in a type that an instruction reads.

        Args:
            operand: a register, its negation, an immediate, an address or a special register.
            wanted:  the PTX type.
            line:    where the instruction stands.

        Raises:
            PtxError: there is no such operand, or none that has the type.
        """
        if operand.startswith("!"):
            return f"!{self.read(operand[1:].strip(), wanted, line)}"
        if operand in self.registers:
            given = self.registers[operand]
            return _converted(identifier(operand), given, wanted, operand, line)
        if wanted == "pred":
            return "true" if _number(operand, line) else "false"
        if operand in _SPECIAL:
            return f"{CPP[wanted]}({_SPECIAL[operand]})"
        if operand[0] in "-0123456789":
            return _immediate(operand, wanted, line)
        return f"{CPP[wanted]}({self._symbol(operand, line)})"

    def write(self, register: str, value: str, given: str, line: int) -> str:
        """Return the statement by which a register gets a value of the type that was computed."""
        if register == "_":
            return f"static_cast<void>({value});"
        declared = self.registers.get(register)
        if declared is None:
            raise PtxError(line, f'"{register}" is no register')
        if given not in ("f32", "f64", "pred"):
            value = f"{CPP[given]}({value})"  # what C++ has made an int of is cut, or extended
        extended = "f" not in (given[0], declared[0]) and SIZES[given] < SIZES[declared]
        if extended:
            value = f"{CPP[declared]}({value})"
        elif SIZES[given] == SIZES[declared]:
            value = _converted(value, given, declared, register, line)
        else:
            raise PtxError(line, f'"{register}" is .{declared}, which cannot hold .{given}')
        return f"{identifier(register)} = {value};"

    def address(self, operand: str, line: int) -> str:
        """Return the address that an operand in brackets names, of 64 bits."""
        found = _ADDRESS.fullmatch(operand)
        if found is None:
            raise PtxError(line, f'"{operand}" is no address')
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


def _immediate(text: str, wanted: str, line: int) -> str:
    value = _number(text, line)
    bits = 8 * SIZES[wanted]
    if wanted[0] == "f":
        if not _FLOAT.fullmatch(text):
            raise PtxError(line, f'"{text}" is no floating-point number')
        return _literal(value, bits, text[1] in "dD")
    if 0 <= value < 1 << 31:
        return f"{CPP[wanted]}({value})"
    return f"{CPP[wanted]}({value % (1 << bits):#x}u)"


def _literal(value: int, bits: int, is_double: bool) -> str:
    """Return a floating-point number, given by its bits, in a type of some bits."""
    code, size = ("<d", 8) if is_double else ("<f", 4)
    (number,) = struct.unpack(code, value.to_bytes(size, "little"))
    wanted = f"f{bits}"
    if math.isfinite(number):
        return f"{CPP[wanted]}({number.hex()})"
    bits_of = int.from_bytes(struct.pack("<f" if bits == 32 else "<d", number), "little")
    return f"bits_as<{CPP[wanted]}>(uint{bits}_t({bits_of:#x}u))"


def _converted(value: str, given: str, wanted: str, what: str, line: int) -> str:
    """Return a value's bits as those of another type: as many, or fewer of an integer."""
    if CPP[given] == CPP[wanted]:
        return value
    is_float = "f" in (given[0], wanted[0])
    if "pred" in (given, wanted) or SIZES[wanted] > SIZES[given]:
        raise PtxError(line, f'"{what}" is .{given}, which is read as .{wanted}')
    if not is_float:
        return f"{CPP[wanted]}({value})"
    if SIZES[wanted] != SIZES[given]:
        raise PtxError(line, f'"{what}" is .{given}, which is read as .{wanted}')
    return f"bits_as<{CPP[wanted]}>({value})"
