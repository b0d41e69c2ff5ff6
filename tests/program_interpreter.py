"""Running the C++ lines of a program in Python, to see what they mean without a compiler."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gridgen.symbolic.parts import SplitProgram
from gridgen.symbolic.printer import KEPT, block_lines
from gridgen.symbolic.program import Block, Program

_SINCOS = re.compile(r"gridgen::sincos<T>\((.*), (\w+), (\w+)\);")
_DEFINITION = re.compile(r"const T (\w+) = (.*);")
_STORE = re.compile(r"(\w+)\[(\d+)\] = (.*);")
_FILL = re.compile(r"for \(int i = (\d+); i < (\d+); \+\+i\) (\w+)\[i\] = (.*);")
_DECLARATION = re.compile(r"T \w+, \w+;")


def value_of(text: str, names: Mapping[str, Any], number: Callable[[str], Any] = float) -> Any:
    """Evaluate one expression: C++ and Python give these operators the same precedence."""
    text = text.replace("gridgen::sign<T>", "sign").replace("gridgen::broadcast<T>", "")
    text = re.sub(r"R\(([^()]*)\)", r"R('\1')", text)
    return eval(text, {"R": number, "sign": lambda v: (v > 0) - (v < 0)}, dict(names))


def run(program: Program, inputs: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Run every statement in order; a name used before its definition is a NameError."""
    outputs = {array.name: [math.nan] * array.size for array in program.outputs}
    _execute(statements(program.blocks, program), dict(inputs), outputs)
    return outputs


def run_parts(
    split: SplitProgram, program: Program, inputs: Mapping[str, Sequence[float]]
) -> dict[str, list[float]]:
    """Run every part; it sees the arrays that it names, what is kept, and no local of another."""
    outputs = {array.name: [math.nan] * array.size for array in program.outputs}
    kept = [math.nan] * split.slots
    for part in split.parts:
        names: dict[str, Any] = {name: inputs[name] for name in part.arrays if name in inputs}
        targets = {name: outputs[name] for name in part.arrays if name in outputs}
        if part.keeps:
            names[KEPT] = targets[KEPT] = kept
        _execute(statements(part.blocks, program), names, targets)
    return outputs


def _execute(lines: Sequence[str], names: dict[str, Any], targets: dict[str, list[float]]) -> None:
    for statement in lines:
        if match := _FILL.fullmatch(statement):
            each = [f"{match[3]}[{i}] = {match[4]};" for i in range(int(match[1]), int(match[2]))]
            _execute(each, names, targets)
            continue
        if _DECLARATION.fullmatch(statement):
            continue
        if match := _SINCOS.fullmatch(statement):
            angle = value_of(match[1], names)
            define(names, match[2], math.sin(angle))
            define(names, match[3], math.cos(angle))
        elif match := _DEFINITION.fullmatch(statement):
            define(names, match[1], value_of(match[2], names))
        else:
            match = _STORE.fullmatch(statement)
            assert match, statement
            target, index = targets[match[1]], int(match[2])
            assert match[1] == KEPT or math.isnan(target[index]), "stored twice"
            target[index] = value_of(match[3], names)


def statements(blocks: Sequence[Block], program: Program) -> list[str]:
    """Return the statements, each on one line."""
    text = "\n".join(line for block in blocks for line in block_lines(block, program.variables))
    pieces = re.split(r";(?=\n|$)", text)
    return [f"{' '.join(piece.split())};" for piece in pieces if piece.strip()]


def define(names: dict[str, Any], name: str, value: float) -> None:
    """Give a name a value, once."""
    assert name not in names, f"{name} is defined twice"
    names[name] = value
