"""Interpreter of traced programs: runs their C++ lines in Python, without a compiler."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gridgen.symbolic.memory import Query
from gridgen.symbolic.parts import SplitProgram
from gridgen.symbolic.printer import block_lines
from gridgen.symbolic.program import PARKED, STORED, Block, Declare, Program

_SINCOS = re.compile(r"gridgen::sincos<T>\((.*), (\w+), (\w+)\);")
_DEFINITION = re.compile(r"const (?:T|int) (\w+) = (.*);")
_LIST = re.compile(r"int (\w+)\[(\d+)\];")
_STORE = re.compile(r"(\w+)\[(\d+)\] = (.*);")
_FILL = re.compile(r"gridgen::fill<(\d+), (\d+)>\((\w+), (.*)\);")
_DECLARATION = re.compile(r"T [\w, ]+;")
_QUERY = re.compile(r"gridgen::(\w+)<T[^>]*>\(gridgen::Numbers<T, \d+>\{(.*)\}, (.*)\);")


def value_of(text: str, names: Mapping[str, Any], number: Callable[[str], Any] = float) -> Any:
    """Evaluate an expression; its operators have the same precedence in C++ and Python."""
    text = re.sub(r"R\(([^()]*)\)", r"R('\1')", _plain(text))
    return eval(text, _FUNCTIONS | {"R": number}, dict(names))


def run(program: Program, inputs: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Run every statement in order; a name used before its definition is a NameError.

    Args:
        program: the program.
        inputs:  elements of each array: numbers, or NumPy arrays of one number per state.
    """
    outputs = {array.name: [math.nan] * array.size for array in program.outputs}
    if program.loops is not None:
        return _run_loops(program, inputs, outputs)
    names = dict(inputs) | _queries(program)
    _execute(statements(program.blocks, program.variables), names, outputs)
    return outputs


def _queries(program: Program) -> dict[str, Query]:
    queries = (node.value for node in program.nodes if node.op == "query")
    return {query.function.partition("<")[0]: query for query in queries}


def names_of(program: Program) -> list[str]:
    """Return the names of memory and variables that a program with loops declares."""
    declared = [
        name
        for block in program.blocks
        for statement in block.statements
        if isinstance(statement, Declare)
        for name in statement.memory.names
    ]
    return [*(memory.name for memory in program.workspace), *declared, *program.variables.values()]


_LOOP = re.compile(r"(?:GRIDGEN_(?:ROLLED|BY_TWO) )?for \(int (\w+) = (.*); (.*); (.*)\) (.*)")
_STEPS = {"++": "{0} += 1", "--": "{0} -= 1"}


def _run_loops(
    program: Program, inputs: Mapping[str, Sequence[Any]], outputs: dict[str, list[Any]]
) -> dict[str, list[Any]]:
    """Translate a program with loops to Python and run it."""
    given = Counter(names_of(program))
    assert not (twice := [name for name, times in given.items() if times > 1]), twice
    lines = [line for block in program.blocks for line in block_lines(block, program.variables)]
    text, depth, statement, after = [], 0, "", []
    for line in lines:
        statement = f"{statement} {line.strip()}".strip()
        if statement[-1] not in ";{}" or statement.count("(") > statement.count(")"):
            continue
        if statement == "}":
            text.append("    " * depth + (after.pop() or "pass"))
            depth -= 1
        else:
            python, opens, last = _python(_plain(statement).replace("<R>", ""))
            text += ["    " * depth + entry for entry in python]
            if opens:
                depth += 1
                after.append(last)
        statement = ""
    workspace = {
        memory.name: [math.nan] * memory.size
        for memory in program.loops.scratch
        if not memory.is_result
    }
    tables = {name: table.values for name, table in program.loops.tables.items()}
    names = {**_FUNCTIONS, **workspace, **tables, **inputs, **outputs}
    exec("\n".join(text), names)
    return outputs


def _python(statement: str) -> tuple[list[str], bool, str]:
    """Return lines of Python, whether they open a block, and the last line of that block."""
    if match := _LOOP.fullmatch(statement):
        variable, first, going, step, rest = match.groups()
        step = _STEPS.get(step[:2], step).format(variable)
        head = [f"{variable} = {_whole(first)}", f"while {_whole(going)}:"]
        if rest == "{":
            return head, True, step
        return [head[0], f"{head[1]} {rest[:-1]}; {step}"], False, ""
    if match := re.fullmatch(r"(else )?(if )?(?:\((.*)\) )?\{", statement):
        word = "elif" if match[1] and match[2] else match[2] or match[1]
        return [f"{word.strip()} {match[3] or ''}".strip() + ":"], True, ""
    if match := _SINCOS.fullmatch(statement):
        return [f"{match[2]}, {match[3]} = sin({match[1]}), cos({match[1]})"], False, ""
    if match := _DEFINITION.fullmatch(statement):
        return [f"{match[1]} = {match[2]}"], False, ""
    if match := _LIST.fullmatch(statement):
        return [f"{match[1]} = [0] * {match[2]}"], False, ""
    if re.fullmatch(r"T [\w, ]+;", statement):
        return [], False, ""
    return [statement.removesuffix(";")], False, ""


def _whole(text: str) -> str:
    """Return an integer expression in Python, where integer division is ``//``."""
    return text.replace(" / ", " // ")


def run_parts(
    split: SplitProgram, program: Program, inputs: Mapping[str, Sequence[Any]]
) -> dict[str, list[Any]]:
    """Run every part; it reads its arrays and spilled values, but no locals of other parts."""
    outputs = {array.name: [math.nan] * array.size for array in program.outputs}
    indices = {name: index for index, name in program.variables.items()}
    handed = {STORED: [math.nan] * split.stored, PARKED: [math.nan] * split.parked}
    for part in split.parts:
        names: dict[str, Any] = {name: inputs[name] for name in part.arrays if name in inputs}
        names |= _queries(program)
        targets = {name: outputs[name] for name in part.arrays if name in outputs}
        names |= (own := {name: handed[name] for name in part.arrays if name in handed})
        targets |= own
        _execute(statements(*part.written(indices)), names, targets)
    return outputs


def _execute(lines: Sequence[str], names: dict[str, Any], targets: dict[str, list[Any]]) -> None:
    text: list[str] = []
    defined = Counter(names.keys() - {STORED, PARKED})
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
        elif match := _QUERY.fullmatch(statement):
            function, operands, words = match.groups()
            query = names[function]
            arguments = words.split(", ")[len(query.tables) :]
            given, found = arguments[: len(query.arrays)], arguments[len(query.arrays) :]
            given = given or ["[]"]
            text.append(f"{', '.join(found)}, = {function}.reference([{operands}], {given[0]})")
            defined.update(found)
        elif match := _DEFINITION.fullmatch(statement):
            text.append(f"{match[1]} = {match[2]}")
            defined[match[1]] += 1
        elif match := _STORE.fullmatch(statement):
            text.append(statement.removesuffix(";"))
            stored[f"{match[1]}[{match[2]}]"] += match[1] not in (STORED, PARKED)
        else:
            assert _DECLARATION.fullmatch(statement), statement
    again = [name for name, times in (defined + stored).items() if times > 1]
    assert not again, f"defined or stored twice: {again}"
    exec(_plain("\n".join(text)), _FUNCTIONS | names | targets)


def _fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c  # rounded twice


def _fnma(a: Any, b: Any, c: Any) -> Any:
    return c - a * b


def _choose(count: int, tests: Sequence[Any], chosen: list[int]) -> int:
    found = [i for i in range(count) if np.any(tests[i] < 0)]
    chosen[: len(found)] = found
    return len(found)


_FUNCTIONS = {
    "choose": _choose,
    "R": float,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "reciprocal": lambda x: 1 / x,
    "exp": np.exp,
    "log": np.log,
    "atan2": np.arctan2,
    "select": lambda test, negative, otherwise: np.where(test < 0.0, negative, otherwise),
    "any_negative": lambda test: np.any(test < 0.0),
    "sin": np.sin,
    "cos": np.cos,
    "fma": _fma,
    "fnma": _fnma,
}


def _plain(text: str) -> str:
    """Return a C++ expression in Python."""
    text = text.replace("gridgen::broadcast<T>", "").replace("&&", "and").replace("||", "or")
    text = text.replace("gridgen::has_not_converged()", "False")
    names = "sign|sqrt|reciprocal|exp|log|atan2|select|any_negative|choose"
    return re.sub(rf"gridgen::({names})<T>", r"\1", text)


def statements(blocks: Sequence[Block], variables: Mapping[int, str]) -> list[str]:
    """Return the statements, one per line."""
    text = "\n".join(line for block in blocks for line in block_lines(block, variables))
    pieces = re.split(r";(?=\n|$)", text)
    return [f"{' '.join(piece.split())};" for piece in pieces if piece.strip()]
