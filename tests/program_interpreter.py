"""Running the C++ lines of a program in Python, to see what they mean without a compiler."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gridgen.symbolic.printer import block_lines
from gridgen.symbolic.program import Program

_SINCOS = re.compile(r"gridgen::sincos<T>\((.*), (\w+), (\w+)\);")
_DEFINITION = re.compile(r"const T (\w+) = (.*);")
_STORE = re.compile(r"(\w+)\[(\d+)\] = (.*);")
_DECLARATION = re.compile(r"T \w+, \w+;")


def value_of(text: str, names: Mapping[str, Any], number: Callable[[str], Any] = float) -> Any:
    """Evaluate one expression: C++ and Python give these operators the same precedence."""
    text = text.replace("gridgen::sign<T>", "sign").replace("gridgen::broadcast<T>", "")
    text = re.sub(r"R\(([^()]*)\)", r"R('\1')", text)
    return eval(text, {"R": number, "sign": lambda v: (v > 0) - (v < 0)}, dict(names))


def run(program: Program, inputs: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Run every statement in order; a name used before its definition is a NameError."""
    names: dict[str, Any] = dict(inputs)
    outputs = {array.name: [math.nan] * array.size for array in program.outputs}
    for statement in statements(program):
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
            assert math.isnan(outputs[match[1]][int(match[2])]), "stored twice"
            outputs[match[1]][int(match[2])] = value_of(match[3], names)
    return outputs


def statements(program: Program) -> list[str]:
    """Return the statements, each on one line."""
    text = "\n".join(
        line for block in program.blocks for line in block_lines(block, program.variables)
    )
    return [f"{' '.join(part.split())};" for part in text.split(";") if part.strip()]


def define(names: dict[str, Any], name: str, value: float) -> None:
    """Give a name a value, once."""
    assert name not in names, f"{name} is defined twice"
    names[name] = value
