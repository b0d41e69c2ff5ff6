"""Running the C++ lines of a program in Python, to see what they mean without a compiler."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

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
    text = re.sub(r"R\(([^()]*)\)", r"R('\1')", _plain(text))
    return eval(text, {"R": number, "sign": np.sign}, dict(names))


def run(program: Program, inputs: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Run every statement in order; a name used before its definition is a NameError.

    Args:
        program: what is run.
        inputs:  for each array its elements: numbers, or NumPy arrays of one number for each state.
    """
    outputs = {array.name: [math.nan] * array.size for array in program.outputs}
    _execute(statements(program.blocks, program), dict(inputs), outputs)
    return outputs


def run_parts(
    split: SplitProgram, program: Program, inputs: Mapping[str, Sequence[Any]]
) -> dict[str, list[Any]]:
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


def _execute(lines: Sequence[str], names: dict[str, Any], targets: dict[str, list[Any]]) -> None:
    text: list[str] = []
    defined = Counter(names.keys() - {KEPT})
    stored: Counter[str] = Counter()
    for statement in lines:
        if match := _FILL.fullmatch(statement):
            begin, end, array, value = match.groups()
            text += [f"{array}[{i}] = {value}" for i in range(int(begin), int(end))]
            stored.update(f"{array}[{i}]" for i in range(int(begin), int(end)))
        elif match := _SINCOS.fullmatch(statement):
            angle, sine, cosine = match.groups()
            text.append(f"{sine}, {cosine} = sin({angle}), cos({angle})")
            defined.update((sine, cosine))
        elif match := _DEFINITION.fullmatch(statement):
            text.append(f"{match[1]} = {match[2]}")
            defined[match[1]] += 1
        elif match := _STORE.fullmatch(statement):
            text.append(statement.removesuffix(";"))
            stored[f"{match[1]}[{match[2]}]"] += match[1] != KEPT
        else:
            assert _DECLARATION.fullmatch(statement), statement
    again = [name for name, times in (defined + stored).items() if times > 1]
    assert not again, f"defined or stored twice: {again}"
    functions = {
        "R": float,
        "sign": np.sign,
        "sin": np.sin,
        "cos": np.cos,
        "fma": _fma,
        "fnma": _fnma,
    }
    exec(_plain("\n".join(text)), functions | names | targets)


def _fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c  # rounded twice


def _fnma(a: Any, b: Any, c: Any) -> Any:
    return c - a * b


def _plain(text: str) -> str:
    """Return C++ as Python, which calls the same things by shorter names."""
    return text.replace("gridgen::sign<T>", "sign").replace("gridgen::broadcast<T>", "")


def statements(blocks: Sequence[Block], program: Program) -> list[str]:
    """Return the statements, each on one line."""
    text = "\n".join(line for block in blocks for line in block_lines(block, program.variables))
    pieces = re.split(r";(?=\n|$)", text)
    return [f"{' '.join(piece.split())};" for piece in pieces if piece.strip()]
