"""Machine code computes what PTX says: both are executed for one thread, on the same inputs.

All words that they store must have the same addresses and bits, and expressions of the inputs that
are equal: then they agree on all inputs that take this way through the code. An instruction that
the machine does not have, such as a division, is what the assembler makes of it alone.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from fake_gpu.ptx.parser import Function, Variable, parse
from gridgen.backends.cuda.compiler import compile_kernel
from gridgen.backends.interface import ITEM_BYTES, Sources
from gridgen.functions.types import Dtype
from prove import machine, thread
from prove.values import Graph, Memory, Value, from_bits

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from native import Unavailable
from sass import disassembled, disassembler, sections

__all__ = ["Report", "Unavailable", "compare", "disassembler"]

Code = list[Mapping[str, Any]]
_BLOCK, _GRID = 64, 5
_IN, _OUT = 1 << 40, 1 << 41
_DTYPES: dict[str, Dtype] = {"float": "float32", "double": "float64"}
_INTRINSICS = {"rcp": ("rcp_rn", 1), "sqrt": ("sqrt_rn", 1), "div": ("div_rn", 2)}
_FACTOR = 1 << 33  # strides and addresses have upper words


@dataclass
class Report:
    """What was compared, over all launches and inputs.

    Attributes:
        words:     words stored by PTX.
        equal:     words with equal expressions.
        same_bits: words whose expressions differ, with equal bits.
        decisions: conditions on the inputs that both decide.
        own:       conditions that only machine code decides.
        skipped:   conditions that only PTX decides.
        faults:    words that differ in bits, or that one of both does not store, with the place of
                   the first instruction whose result PTX does not have.
        differing: places of those of ``same_bits``.
    """

    words: int = 0
    equal: int = 0
    same_bits: int = 0
    decisions: int = 0
    own: int = 0
    skipped: int = 0
    faults: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)


def compare(
    sources: Sources,
    name: str,
    dtype: Dtype,
    arch: str,
    *,
    runs: int = 3,
    change: Callable[[Code], Code] = lambda code: code,
) -> Report:
    """Compare machine code with PTX for some launches, threads and inputs.

    Args:
        sources: the robot's module.
        name:    the kernel.
        dtype:   element type.
        arch:    ``sm_90``.
        runs:    the number of launches.
        change:  a change of the machine code, to plant a fault.

    Raises:
        UnsupportedError: the machine code has an instruction that is not executed here.
        PtxError:         so does the PTX.
    """
    ptx = compile_kernel(sources, name, dtype, arch.replace("sm", "compute"))
    function = parse(ptx.image.decode()).entries[ptx.entry]
    image = compile_kernel(sources, name, dtype, arch).image
    code, banks = change(instructions(image)), {2: _constants(image)}
    report = Report()
    for seed in range(runs):
        _compare_one(report, function, code, banks, arch, ITEM_BYTES[dtype], seed)
    return report


def _compare_one(
    report: Report,
    function: Function,
    code: Code,
    banks: Mapping[int, bytes],
    arch: str,
    itemsize: int,
    seed: int,
) -> None:
    graph, chosen = Graph(), random.Random(seed)
    parameters = _parameters(function.parameters, itemsize, chosen)
    block, lane = chosen.randrange(_GRID), chosen.randrange(_BLOCK)
    special = {"%tid.x": lane, "%ntid.x": _BLOCK, "%ctaid.x": block, "%nctaid.x": _GRID}
    intended = Memory(graph, 8 * itemsize, seed)

    def define(opcode: str, *operands: Value) -> Value:
        return _defined(graph, arch, opcode, operands)

    thread.Thread(function, graph, intended, parameters, special, define).run()
    decided, graph.decisions = graph.decisions, set()
    known = len(graph.keys) - 1
    actual = Memory(graph, 8 * itemsize, seed)
    banks = {**banks, 0: _bank(function, parameters, arch)}
    machine.Thread(code, graph, actual, banks, {"SR_TID.X": lane, "SR_CTAID.X": block}).run()
    report.decisions += len(graph.decisions & decided)
    report.own += len(graph.decisions - decided)
    report.skipped += len(decided - graph.decisions)
    for key in sorted(intended.stored.keys() | actual.stored.keys()):
        if key[0] != "global":
            continue
        ours, theirs = intended.stored.get(key), actual.stored.get(key)
        report.words += ours is not None
        if ours is None or theirs is None:
            by, memory = ("machine code", actual) if ours is None else ("PTX", intended)
            report.faults.append(f"{memory.places[key]}: only {by} stores at {key[1]:#x}")
        elif ours == theirs:
            report.equal += 1
        else:
            new = graph.first_new(theirs.node, known)
            place = "an earlier result" if new is None else graph.places[new]
            text = f"{place}: {from_bits(theirs.bits, 32)}, not {from_bits(ours.bits, 32)}"
            if ours.bits == theirs.bits:
                report.same_bits += 1
                report.differing.append(place)
            else:
                report.faults.append(text)


def _parameters(
    declared: tuple[Variable, ...], itemsize: int, chosen: random.Random
) -> dict[str, bytes]:
    """Return values of parameters: arrays with random strides, pairs of numbers, states."""
    values: dict[str, bytes] = {}
    for i, parameter in enumerate(declared):
        words: tuple[int, ...]
        if parameter.bytes == 24:
            strides = chosen.randrange(_FACTOR, 2 * _FACTOR), chosen.randrange(1, 1 << 20)
            words = ((i + 1) << 44, *strides)
        else:
            words = (_GRID * _BLOCK,) * (parameter.bytes // 8)
        values[parameter.name] = b"".join(word.to_bytes(8, "little") for word in words)
    return values


def _bank(function: Function, parameters: Mapping[str, bytes], arch: str) -> bytes:
    """Return the first constant bank of a launch."""
    bank = bytearray(machine.PARAMETERS[arch])
    bank[0:4], bank[12:16] = _BLOCK.to_bytes(4, "little"), _GRID.to_bytes(4, "little")
    bank[0x28:0x2C] = (1 << 20).to_bytes(4, "little")  # the end of the stack
    for parameter in function.parameters:
        begin = machine.PARAMETERS[arch]
        offset = -(len(bank) - begin) % parameter.alignment
        bank += bytes(offset) + parameters[parameter.name]
    return bytes(bank) + bytes(16)


def instructions(image: bytes) -> Code:
    """Return the instructions of the only kernel of a cubin."""
    (kernel,) = disassembled(image)[1]
    return list(kernel["sass-instructions"])


def _constants(image: bytes) -> bytes:
    """Return the numbers that the assembler placed in a constant bank of the kernel."""
    return next((data for name, data in sections(image) if ".nv.constant2." in name), b"")


def _defined(graph: Graph, arch: str, opcode: str, operands: Sequence[Value]) -> Value:
    """Return what the assembler makes of an instruction alone."""
    place, width = graph.place, int(opcode[-2:])
    memory = Memory(graph, width, 0)
    for i, operand in enumerate(operands):
        words = graph.halves(operand) if width == 64 else (operand,)
        for j, word in enumerate(words):
            memory.write("global", _IN + i * width // 8 + 4 * j, word)
    bank = bytes(machine.PARAMETERS[arch])
    bank += _IN.to_bytes(8, "little") + _OUT.to_bytes(8, "little")
    code, constants = _alone(arch, opcode)
    machine.Thread(code, graph, memory, {0: bank, 2: constants}, {}).run()
    graph.place = place
    low = memory.read("global", _OUT)
    return graph.pack(low, memory.read("global", _OUT + 4)) if width == 64 else low


@cache
def _alone(arch: str, opcode: str) -> tuple[Code, bytes]:
    """Return the machine code of a kernel with one operation, and its constants."""
    kind = opcode.rpartition(".")[2]
    scalar, letter = ("float", "f") if kind == "f32" else ("double", "d")
    name, operands = _INTRINSICS[opcode.partition(".")[0]]
    text = f"""namespace alone {{
    template <class T> __global__ void operation_kernel(const T* in, T* out) {{
        *out = __{letter}{name}({", ".join(f"in[{i}]" for i in range(operands))});
    }}
    }}"""
    sources = Sources("alone", {"alone.cu": text})
    image = compile_kernel(sources, "operation", _DTYPES[scalar], arch).image
    return instructions(image), _constants(image)
