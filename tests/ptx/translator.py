"""A PTX module as a C++ translation unit that the emulated backend's runtime launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ptx.instructions import CPP, value_of
from ptx.operands import Names, identifier, initial_bytes, register_type
from ptx.parser import (
    FILE,
    Function,
    Instruction,
    Label,
    Module,
    PtxError,
    Registers,
    Scope,
    Statement,
    Variable,
    parse,
)
from ptx.statements import translate_instruction

_DYNAMIC_ALIGNMENT = 16
_HEAD = f"""\
#include "ptx_thread.h"

namespace ptx {{
namespace {{

constexpr const char* ptx_file = "{FILE}";
"""
_TAIL = """\
using Kernel = void (*)(unsigned char* const* parameters);
const Kernel kernels[] = {{
{kernels}
}};

// One array is given: the addresses of the parameters, the kernel's number, shared memory's size.
void run(const gridgen::emulated::Array* given, long long) {{
    shared_bytes = uint64_t(given->component);
    kernels[given->batch](reinterpret_cast<unsigned char* const*>(given->address));
}}

}}  // namespace
}}  // namespace ptx

const gridgen::emulated::Entry gridgen::emulated::kernel = {{1, ptx::run}};
"""


@dataclass(frozen=True)
class Translation:
    """A module in C++.

    Attributes:
        module:       what was translated.
        text:         the translation unit; it includes ``ptx_thread.h``.
        shared_bytes: bytes of shared memory that the module itself declares: what a launch asks for
                      comes after them.
    """

    module: Module
    text: str
    shared_bytes: int


def translate(ptx: str) -> Translation:
    """Return a PTX module as C++.

    Raises:
        PtxError: it is no PTX, or uses an instruction that is not known here.
    """
    module = parse(ptx)
    names = Names()
    shared, shared_bytes = _shared_offsets(module)
    for variable in module.variables:
        if variable.space != "shared":
            names.addresses[variable.name] = f"at({identifier(variable.name)})"
    names.addresses |= {name: f"uint64_t({offset})" for name, offset in shared.items()}
    functions = {function.name: function for function in module.functions}
    lines = [_HEAD]
    lines += (_defined(v) for v in module.variables if v.space != "shared")
    lines += (f"{_signature(function)};" for function in module.functions)
    for function in module.functions:
        lines += _body(function, names.copy(), functions)
    kernels = ",\n".join(_called(function) for function in module.entries.values())
    lines.append(_TAIL.format(kernels=kernels))
    return Translation(module, "\n".join(lines), shared_bytes)


def _shared_offsets(module: Module) -> tuple[dict[str, int], int]:
    """Return where shared variables lie, and the bytes of those that have a size."""
    declared = [
        variable
        for variables in (module.variables, *(function.body for function in module.functions))
        for variable in variables
        if isinstance(variable, Variable) and variable.space == "shared"
    ]
    offsets, end = {}, 0
    for variable in declared:
        end = _rounded_up(end, variable.alignment)
        offsets[variable.name] = end
        end += variable.bytes
    end = _rounded_up(end, _DYNAMIC_ALIGNMENT)
    return offsets | {variable.name: end for variable in declared if variable.bytes == 0}, end


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _defined(variable: Variable) -> str:
    """Return the definition of a variable in memory."""
    values = initial_bytes(variable.values, variable.type, variable.line)
    listed = ", ".join(map(str, values))
    return f"{_declared(variable)} = {{{listed}}};"


def _declared(variable: Variable) -> str:
    name = identifier(variable.name)
    return f"alignas({variable.alignment}) unsigned char {name}[{max(variable.bytes, 1)}]"


def _signature(function: Function) -> str:
    """Return the head of a function: it takes the addresses of results and parameters."""
    variables = (*function.results, *function.parameters)
    taken = ", ".join(f"unsigned char* {identifier(variable.name)}" for variable in variables)
    return f"void {identifier(function.name)}({taken})"


def _called(kernel: Function) -> str:
    given = ", ".join(f"parameters[{i}]" for i in range(len(kernel.parameters)))
    return f"    [](unsigned char* const* parameters) {{ {identifier(kernel.name)}({given}); }}"


def _body(function: Function, names: Names, functions: dict[str, Function]) -> Iterator[str]:
    for variable in (*function.results, *function.parameters):
        names.addresses[variable.name] = f"at({identifier(variable.name)})"
    yield f"{_signature(function)} {{"
    for statement in function.body:
        yield from _translated(statement, names, functions)
    yield "}"


def _translated(
    statement: Statement, names: Names, functions: dict[str, Function]
) -> Iterable[str]:
    match statement:
        case Scope():
            return ["{" if statement.opens else "}"]
        case Label():
            return [f"{identifier(statement.name)}:;"]
        case Registers():
            type_ = register_type(statement.type)
            names.registers |= dict.fromkeys(statement.names, type_)
            return [f"{CPP[type_]} {', '.join(map(identifier, statement.names))};"]
        case Variable(space="shared"):
            return []
        case Variable():
            name = identifier(statement.name)
            names.addresses[statement.name] = f"at({name})"
            poisoned = [f"poison({name}, sizeof {name});"] if statement.space == "local" else []
            return [f"{_declared(statement)};", *poisoned]
    return _guarded(statement, names, functions)


def _guarded(instruction: Instruction, names: Names, functions: dict[str, Function]) -> list[str]:
    lines = _effects(instruction, names, functions)
    if not instruction.guard:
        return lines
    guard = names.read(instruction.guard, "pred", instruction.line)
    return [f"if ({guard}) {{", *lines, "}"]


def _effects(instruction: Instruction, names: Names, functions: dict[str, Function]) -> list[str]:
    value = value_of(instruction.opcode)
    if value is None:
        return translate_instruction(instruction, names, functions)
    line = instruction.line
    if len(instruction.operands) != len(value.takes) + 1:
        raise PtxError(
            line,
            f"{instruction.opcode} has {len(instruction.operands)} operands, and should have "
            f"{len(value.takes) + 1}",
        )
    read = (
        names.read(operand, type_, line)
        for operand, type_ in zip(instruction.operands[1:], value.takes, strict=True)
    )
    result, _, complement = instruction.operands[0].partition("|")
    text = value.text.format(*read)
    if not complement:
        return [names.write(result, text, value.gives, line)]
    raise PtxError(line, f'{instruction.opcode} has a second result, "{complement}"')
