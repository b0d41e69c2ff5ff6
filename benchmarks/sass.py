"""Machine code of a GPU, counted: instructions by the pipe that executes them."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from native import Unavailable

from gridgen.cost.devices import INSTRUCTION_BYTES, Pipe

#: What an instruction is of, by how its name begins; the first that fits.
_PIPES: tuple[tuple[Pipe, str], ...] = (
    ("memory", r"LD|ST[GLS]?$|ATOM|RED|SHFL|ULDC|CCTL|MEMBAR|FENCE|ERRBAR|UBLK|MATCH|QSPC"),
    ("xu", r"MUFU|I2F|F2I|F2F|I2I|FRND|POPC|FLO|BREV|S2R"),
    ("fp64", r"D(ADD|FMA|MUL|MNMX|SET|SETP)$"),
    ("fp32", r"F(ADD|FMA|MUL|SEL|SET|MNMX|CHK|SWZADD)|H(ADD|FMA|MUL|SET|MNMX)"),
    (
        "control",
        r"BRA|BRX|BSSY|BSYNC|BREAK|BMOV|CALL|RET|EXIT|WARPSYNC|BAR|DEPBAR|YIELD|NANOSLEEP|JMP|KILL"
        r"|BPT|ACQBULK|WARP|ELECT",
    ),
)
# Everything else computes with integers, moves, or compares.
_OTHER: Pipe = "int"
_PADDING = "NOP"
_REGISTER = re.compile(r"\bR(\d+)\b")
# Packed instructions take the clocks of two, and one slot of issue.
_PACKED = re.compile(r"F(ADD|MUL|FMA)2")
_LOCAL = re.compile(r"(LDL|STL)\b")
# Functions that are called for few numbers or none: those of NVIDIA's for operands at the ends of
# the range, and the reduction of angles far from zero.
_RARE = re.compile(r"slowpath|reduce_far")
_FUNCTION, _SYMBOLS = 2, 2  # STT_FUNC, SHT_SYMTAB


@dataclass(frozen=True)
class Code:
    """The machine code of one kernel, with the functions that it calls; each instruction once.

    Attributes:
        name:         of the kernel in the image.
        instructions: without padding, and without those that are hardly ever executed.
        pipes:        those of each pipe.
        rare:         those that are hardly ever executed.
        whole:        those that a warp with a state in each thread executes where all angles are
                      near: the longest way from the beginning that goes through fewest loops.
        local:        those that read or write local memory.
        registers:    one more than the highest that is named.
        code_bytes:   its length, with padding.
    """

    name: str
    instructions: int
    pipes: Mapping[Pipe, int]
    rare: int
    whole: int
    local: int
    registers: int
    code_bytes: int


def kernels_of(cubin: Path) -> list[Code]:
    """Count the kernels of a cubin.

    Args:
        cubin: the file.

    Raises:
        Unavailable: there is no disassembler, or it cannot read the file.
    """
    return counted(_disassembled(cubin), functions_of(cubin.read_bytes()))


def kernel_of(image: bytes) -> Code:
    """Count the only kernel of a cubin in memory; see ``kernels_of``."""
    (code,) = counted(disassembled(image), functions_of(image))
    return code


def disassembled(image: bytes) -> Any:
    """Return what nvdisasm shows of a cubin in memory: a header, then kernels."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        return _disassembled(Path(file.name))


def _disassembled(cubin: Path) -> Any:
    command = (disassembler(), "--print-code", "--no-dataflow", "--emit-json", str(cubin))
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise Unavailable(f"{cubin}: nvdisasm cannot read it: {said.strip()}") from error
    return json.loads(result.stdout)


@dataclass(frozen=True)
class Function:
    """A function in an image: its name, the section of its code, and where it lies there."""

    name: str
    section: int
    begin: int
    end: int


def _headers(image: bytes) -> list[tuple[int, ...]]:
    """Return the headers of the sections of an ELF64 file."""
    (table,) = struct.unpack_from("<Q", image, 40)
    size, number = struct.unpack_from("<HH", image, 58)
    return [struct.unpack_from("<IIQQQQIIQQ", image, table + size * i) for i in range(number)]


def sections(image: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the names of the sections of an ELF64 file, each with its bytes."""
    headers = _headers(image)
    (names,) = struct.unpack_from("<H", image, 62)
    texts = headers[names][4]
    for name, _, _, _, begin, length, *_ in headers:
        end = image.index(b"\0", texts + name)
        yield image[texts + name : end].decode(), image[begin : begin + length]


def functions_of(image: bytes) -> list[Function]:
    """Return the functions that the table of symbols of an ELF64 file names."""
    headers = _headers(image)
    found = []
    for _, kind, _, _, begin, length, names, _, _, entry in headers:
        if kind == _SYMBOLS:
            texts = headers[names][4]
            for at in range(begin, begin + length, entry):
                name, info, _, section, value, extent = struct.unpack_from("<IBBHQQ", image, at)
                if info & 15 == _FUNCTION:
                    end = image.index(b"\0", texts + name)
                    text = image[texts + name : end].decode()
                    found.append(Function(text, section, value, value + extent))
    return found


def counted(disassembly: Any, functions: Sequence[Function] = ()) -> list[Code]:
    """Count what nvdisasm shows as JSON: a header, then kernels with their instructions.

    Args:
        disassembly: what it shows.
        functions:   those of the image.
    """
    return [_code(kernel, functions) for kernel in disassembly[1]]


def pipe_of(opcode: str) -> Pipe:
    """Return the pipe that executes an instruction, by its name: ``IADD3.X``."""
    base = opcode.partition(".")[0]
    return next((pipe for pipe, pattern in _PIPES if re.match(pattern, base)), _OTHER)


def _rare(kernel: Mapping[str, Any], functions: Sequence[Function]) -> Iterator[range]:
    """Yield which instructions of a kernel are hardly ever executed, by their numbers."""
    section = next((f.section for f in functions if f.name == kernel["function-name"]), None)
    for function in functions:
        if function.section == section and _RARE.search(function.name):
            yield range(function.begin // INSTRUCTION_BYTES, function.end // INSTRUCTION_BYTES)


class _Ways:
    """The ways that a warp may take through a kernel's code.

    Args:
        code:      its instructions.
        functions: those of the image.
    """

    def __init__(self, code: Sequence[Mapping[str, Any]], functions: Sequence[Function]) -> None:
        self._code = code
        self._functions = {function.name: function for function in functions}
        self._found: dict[str, int] = {}
        jumps = [(self._target(i), i) for i in range(len(code))]
        loops = [range(to, i + 1) for to, i in jumps if to is not None and to <= i]
        self._in_loop = [any(i in loop for loop in loops) for i in range(len(code))]

    def instructions(self, name: str) -> int:
        """Return the instructions of the longest way through a function with fewest of loops."""
        if name not in self._found:
            begin, end = 0, len(self._code)
            if (function := self._functions.get(name)) is not None:
                begin, end = (at // INSTRUCTION_BYTES for at in (function.begin, function.end))
            nowhere, done = (end - begin + 1, 0), (0, 0)
            ways: dict[int, tuple[int, int]] = {}  # instructions of loops; others, less than 0
            for i in reversed(range(begin, end)):
                following = [ways.get(to, nowhere) for to in self._next(i)]
                of_loops, others = min(following, default=done)
                is_in_loop, count = self._cost(i)
                ways[i] = of_loops + is_in_loop, others - count
            self._found[name] = -ways[begin][1]
        return self._found[name]

    def _cost(self, i: int) -> tuple[int, int]:
        """Return whether an instruction is in a loop or calls what is rare, and its number."""
        one = self._code[i]
        opcode, callee = one["opcode"], one.get("operands", "")
        count = not opcode.startswith(_PADDING)
        if not opcode.startswith("CALL") or callee not in self._functions:
            return self._in_loop[i], count
        is_rare = bool(_RARE.search(callee))
        return self._in_loop[i] or is_rare, count + (0 if is_rare else self.instructions(callee))

    def _next(self, i: int) -> list[int]:
        """Return the instructions that may follow, none after the last; loops are left."""
        one, target = self._code[i], self._target(i)
        is_condition = "predicate" in one or (target is not None and "," in one["operands"])
        leaves = target is not None or one["opcode"].startswith(("EXIT", "RET"))
        found = [i + 1] if is_condition or not leaves else []
        return found if target is None or target <= i else [*found, target]

    def _target(self, i: int) -> int | None:
        """Return where an instruction may jump."""
        one = self._code[i]
        if not one["opcode"].startswith("BRA"):
            return None
        return int(one["operands"].rpartition(",")[2], 16) // INSTRUCTION_BYTES


def _code(kernel: Mapping[str, Any], functions: Sequence[Function]) -> Code:
    rare = [*_rare(kernel, functions)]
    every = [
        (number, one)
        for number, one in enumerate(kernel["sass-instructions"])
        if not one["opcode"].startswith(_PADDING)
    ]
    # Behind the last function is a branch to itself, which nothing reaches.
    if every and every[-1][1]["opcode"] == "BRA":
        every.pop()
    used = [one for number, one in every if not any(number in part for part in rare)]
    pipes: dict[Pipe, int] = {}
    for one in used:
        pipe = pipe_of(one["opcode"])
        pipes[pipe] = pipes.get(pipe, 0) + 1 + bool(_PACKED.match(one["opcode"]))
    named = (int(n) for _, one in every for n in _REGISTER.findall(one.get("operands", "")))
    return Code(
        name=kernel["function-name"],
        instructions=len(used),
        pipes=pipes,
        rare=len(every) - len(used),
        whole=_Ways(kernel["sass-instructions"], functions).instructions(kernel["function-name"]),
        local=sum(bool(_LOCAL.match(one["opcode"])) for one in used),
        registers=max(named, default=-1) + 1,
        code_bytes=kernel["length"],
    )


@cache
def disassembler() -> str:
    """Return nvdisasm: that of the wheel, else that of an installed toolkit."""
    folders: Iterable[Path] = map(Path, sys.path)
    wheels = (place for at in folders for place in sorted(at.glob("nvidia/cu*/bin/nvdisasm*")))
    if found := next(wheels, None):
        return str(found)
    if program := shutil.which("nvdisasm"):
        return program
    raise Unavailable("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")
