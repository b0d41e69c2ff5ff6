"""Machine code, counted: of a function on the CPU as objdump shows it, of a kernel in its image."""

from __future__ import annotations

import platform
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from native import Unavailable

_VECTOR = re.compile(r"%[xyz]mm\d")
_FUSED = re.compile(r"vfn?m(?:add|sub)")
_MOVE = re.compile(r"v?mov|vbroadcast")
_FRAME = re.compile(r"mov\s+%rsp,%rbp")
# A displacement, then the register; in an array on the stack a second register is added.
_ON_STACK = r"-?(?:0x[0-9a-f]+)?\(%(?:{})(?:,[^)]*)?\)"
# AT&T's order: what is written comes last, perhaps with a mask.
_WRITTEN = r"(?:\{%k\d\})?$"
_RETURN = re.compile(r"(?:repz? )?ret")
_PADDING = re.compile(r"(?:data16 |cs )*nop|xchg\s+%ax,%ax")

_EXECUTABLE = 4  # SHF_EXECINSTR


@dataclass(frozen=True)
class Counts:
    """What the machine code of some functions consists of.

    Attributes:
        code_bytes:     its length, without padding.
        vector:         instructions with a vector register.
        fused:          fused multiply-adds among them.
        stack_stores:   those that write a vector to the stack.
        stack_loads:    those that do nothing but read one from there.
        stack_operands: those that compute with a vector that lies there.

    Of ``stack_...``, only those before a function's last return: behind it compilers put what is
    hardly ever run, such as the reduction of far angles, whose arguments are passed on the stack.
    """

    code_bytes: int = 0
    vector: int = 0
    fused: int = 0
    stack_stores: int = 0
    stack_loads: int = 0
    stack_operands: int = 0

    def __add__(self, other: Counts) -> Counts:
        """Return the counts of both."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Counts(*(one + another for one, another in pairs))


def counts_of(library: Path, namespace: str) -> Counts:
    """Count the machine code of the functions of a C++ namespace in a shared library.

    Raises:
        Unavailable: there is no objdump, or instructions are not x86's.
    """
    return counted(disassembled(library), namespace)


def disassembled(library: Path) -> str:
    """Return what objdump shows of a library: AT&T's syntax, an instruction a line.

    Raises:
        Unavailable: there is no objdump, or instructions are not x86's.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        raise Unavailable(f"machine code is counted for x86-64; this is {platform.machine()}")
    if (program := shutil.which("objdump")) is None:
        raise Unavailable("objdump is not installed: it comes with binutils")
    command = (program, "--disassemble", "--demangle", "--wide", "-M", "att", str(library))
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def counted(disassembly: str, namespace: str) -> Counts:
    """Count the instructions of the functions of a C++ namespace.

    Args:
        disassembly: what objdump shows.
        namespace:   the outermost one; its name may stand in the arguments of other functions.
    """
    counts = Counts()
    own = re.compile(rf"(?:void )?{namespace}::")
    for name, code in _functions(disassembly):
        if own.match(name):
            counts += _counts(code)
    return counts


def _functions(disassembly: str) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Yield name and code of every function: the bytes and the text of its instructions."""
    for part in re.split(r"^[0-9a-f]+ <(?=.*>:$)", disassembly, flags=re.MULTILINE)[1:]:
        heading, *lines = part.splitlines()
        columns = (line.split("\t") for line in lines)
        yield heading, [(len(c[1].split()), c[2].split("#")[0].strip()) for c in columns if c[2:]]


def _counts(code: list[tuple[int, str]]) -> Counts:
    """Count the instructions of one function."""
    # Without a frame %rbp is a register like others.
    has_frame = any(_FRAME.fullmatch(text) for _, text in code)
    on_stack = _ON_STACK.format("rsp|rbp" if has_frame else "rsp")
    vector = [text for _, text in code if _VECTOR.search(text)]
    returns = [place for place, (_, text) in enumerate(code, 1) if _RETURN.match(text)]
    usual = [text for _, text in code[: max(returns, default=len(code))] if _VECTOR.search(text)]
    touching = [text for text in usual if re.search(on_stack, text)]
    stores = [text for text in touching if re.search(on_stack + _WRITTEN, text)]
    read = [text for text in touching if not re.search(on_stack + _WRITTEN, text)]
    loads = [text for text in read if _MOVE.match(text)]
    return Counts(
        code_bytes=sum(size for size, text in code if not _PADDING.match(text)),
        vector=len(vector),
        fused=sum(bool(_FUSED.match(text)) for text in vector),
        stack_stores=len(stores),
        stack_loads=len(loads),
        stack_operands=len(read) - len(loads),
    )


def executable_bytes(image: bytes) -> int:
    """Return the bytes of machine code in an ELF64 file, such as a cubin."""
    (table,) = struct.unpack_from("<Q", image, 40)
    size, number = struct.unpack_from("<HH", image, 58)
    total = 0
    for header in range(table, table + size * number, size):
        flags, _, _, length = struct.unpack_from("<4Q", image, header + 8)
        total += length if flags & _EXECUTABLE else 0
    return total
