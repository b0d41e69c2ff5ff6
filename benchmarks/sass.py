"""Machine code of a GPU, counted: instructions by the pipe that executes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from native import Unavailable

from gridgen.cost.devices import Pipe

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
_LOCAL = re.compile(r"(LDL|STL)\b")


@dataclass(frozen=True)
class Code:
    """The machine code of one kernel, with the functions that it calls; each instruction once.

    Attributes:
        name:         of the kernel in the image.
        instructions: without padding.
        pipes:        those of each pipe.
        local:        those that read or write local memory.
        registers:    one more than the highest that is named.
        code_bytes:   its length, with padding.
    """

    name: str
    instructions: int
    pipes: Mapping[Pipe, int]
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
    command = (_disassembler(), "--print-code", "--no-dataflow", "--emit-json", str(cubin))
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise Unavailable(f"{cubin}: nvdisasm cannot read it: {said.strip()}") from error
    return counted(json.loads(result.stdout))


def kernel_of(image: bytes) -> Code:
    """Count the only kernel of a cubin in memory; see ``kernels_of``."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        (code,) = kernels_of(Path(file.name))
    return code


def counted(disassembly: Any) -> list[Code]:
    """Count what nvdisasm shows as JSON: a header, then functions with their instructions."""
    return [_code(function) for function in disassembly[1]]


def pipe_of(opcode: str) -> Pipe:
    """Return the pipe that executes an instruction, by its name: ``IADD3.X``."""
    base = opcode.partition(".")[0]
    return next((pipe for pipe, pattern in _PIPES if re.match(pattern, base)), _OTHER)


def _code(function: Mapping[str, Any]) -> Code:
    every = function["sass-instructions"]
    used = [one for one in every if not one["opcode"].startswith(_PADDING)]
    # Behind the last function is a branch to itself, which nothing reaches.
    if used and used[-1]["opcode"] == "BRA":
        used.pop()
    pipes: dict[Pipe, int] = {}
    for one in used:
        pipe = pipe_of(one["opcode"])
        pipes[pipe] = pipes.get(pipe, 0) + 1
    named = (int(n) for one in used for n in _REGISTER.findall(one.get("operands", "")))
    return Code(
        name=function["function-name"],
        instructions=len(used),
        pipes=pipes,
        local=sum(bool(_LOCAL.match(one["opcode"])) for one in used),
        registers=max(named, default=-1) + 1,
        code_bytes=function["length"],
    )


@cache
def _disassembler() -> str:
    """Return nvdisasm: that of the wheel, else that of an installed toolkit."""
    folders: Iterable[Path] = map(Path, sys.path)
    wheels = (place for at in folders for place in sorted(at.glob("nvidia/cu*/bin/nvdisasm*")))
    if found := next(wheels, None):
        return str(found)
    if program := shutil.which("nvdisasm"):
        return program
    raise Unavailable("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")
