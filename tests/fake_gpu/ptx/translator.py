"""Translator of a PTX module to a C++ translation unit for the emulated runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fake_gpu.ptx.instructions import CPP, value_of
from fake_gpu.ptx.operands import Names, identifier, initial_bytes, register_type
from fake_gpu.ptx.parser import (
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
from fake_gpu.ptx.statements import translate_instruction

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

// Two arrays are given: the addresses of the parameters, the kernel's number, shared memory's size;
// where watched memory begins, its size, and where its marks are.
void run(const gridgen::emulated::Array* given, long long) {{
    shared_bytes = uint64_t(given[0].component);
    watched = {{uint64_t(given[1].address), uint64_t(given[1].batch),
               reinterpret_cast<unsigned char*>(given[1].component)}};
    kernels[given[0].batch](reinterpret_cast<unsigned char* const*>(given[0].address));
}}

}}  // namespace
}}  // namespace ptx

const gridgen::emulated::Entry gridgen::emulated::kernel = {{2, ptx::run}};
"""


@dataclass(frozen=True)
class Translation:
    """A module in C++.

    Attributes:
        module:       the PTX module.
        text:         translation unit, which includes ``ptx_thread.h``.
        shared_bytes: bytes of static shared memory; dynamic shared memory follows them.
    """

    module: Module
    text: str
    shared_bytes: int


def translate(ptx: str) -> Translation:
    """Translate a PTX module to C++.

    Raises:
        PtxError: the text is not PTX, or contains an unsupported instruction.
    """
    module = parse(ptx)
    shared, shared_bytes = _shared_offsets(module)
    of_threads = [variable for variable in module.variables if variable.space != "shared"]
    addresses = {variable.name: f"at({identifier(variable.name)})" for variable in of_threads}
    addresses |= {name: f"uint64_t({offset})" for name, offset in shared.items()}
    functions = {function.name: function for function in module.functions}
    lines = [_HEAD]
    lines += map(_defined, of_threads)
    lines += (f"{_signature(function)};" for function in module.functions)
    for function in module.functions:
        lines += _Body(Names(addresses=dict(addresses)), functions).lines(function)
    kernels = ",\n".join(map(_called, module.entries.values()))
    lines.append(_TAIL.format(kernels=kernels))
    return Translation(module, "\n".join(lines), shared_bytes)


def _shared_offsets(module: Module) -> tuple[dict[str, int], int]:
    """Return the offsets of shared variables, and the bytes of static ones."""
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
    """Return the signature of a function; its parameters are addresses."""
    variables = (*function.results, *function.parameters)
    taken = ", ".join(f"unsigned char* {identifier(variable.name)}" for variable in variables)
    return f"void {identifier(function.name)}({taken})"


def _called(kernel: Function) -> str:
    given = ", ".join(f"parameters[{i}]" for i in range(len(kernel.parameters)))
    return f"    [](unsigned char* const* parameters) {{ {identifier(kernel.name)}({given}); }}"


@dataclass(frozen=True)
class _Body:
    """Translator of one function.

    Attributes:
        names:     registers and variables in scope.
        functions: functions of the module.
    """

    names: Names
    functions: dict[str, Function]

    def lines(self, function: Function) -> Iterator[str]:
        for variable in (*function.results, *function.parameters):
            self.names.addresses[variable.name] = f"at({identifier(variable.name)})"
        yield f"{_signature(function)} {{"
        for statement in function.body:
            yield from self._statement(statement)
        yield "}"

    def _statement(self, statement: Statement) -> list[str]:
        match statement:
            case Scope():
                return ["{" if statement.opens else "}"]
            case Label():
                return [f"{identifier(statement.name)}:;"]
            case Registers():
                type_ = register_type(statement.type)
                self.names.registers |= dict.fromkeys(statement.names, type_)
                return [f"{CPP[type_]} {', '.join(map(identifier, statement.names))};"]
            case Variable(space="shared"):
                return []
            case Variable():
                name = identifier(statement.name)
                self.names.addresses[statement.name] = f"at({name})"
                poisoned = [f"poison({name}, sizeof {name});"] if statement.space == "local" else []
                return [f"{_declared(statement)};", *poisoned]
        lines = self._value(statement)
        if not statement.guard:
            return lines
        guard = self.names.read(statement.guard, "pred", statement.line)
        return [f"if ({guard}) {{", *lines, "}"]

    def _value(self, instruction: Instruction) -> list[str]:
        """Return the lines of an instruction without its guard."""
        value = value_of(instruction.opcode)
        if value is None:
            return translate_instruction(instruction, self.names, self.functions)
        result, *operands = instruction.operands
        if len(operands) != len(value.takes):
            raise PtxError(
                instruction.line,
                f"{instruction.opcode} has {len(operands) + 1} operands, and should have "
                f"{len(value.takes) + 1}",
            )
        read = (
            self.names.read(operand, type_, instruction.line)
            for operand, type_ in zip(operands, value.takes, strict=True)
        )
        text = value.text.format(*read)
        return [self.names.write(result, text, value.gives, instruction.line)]
