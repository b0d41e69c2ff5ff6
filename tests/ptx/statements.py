"""Instructions that do more than compute a value: of memory, of control, of many threads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ptx.instructions import CPP
from ptx.operands import Names, identifier
from ptx.parser import SIZES, Function, Instruction, PtxError

_TYPE = r"\.(?P<t>[busf](?:8|16|32|64))"
# How memory is cached, and in which order others see it: one thread runs at a time, in order.
_ORDER = r"(\.volatile|\.weak|(\.relaxed|\.acquire|\.release)\.(cta|gpu|sys))?"
_CACHED = r"(\.(ca|cg|cs|lu|cv|wb|wt))?(\.nc)?(\.L1::\w+)?(\.L2::\w+)?"
_SPACE = r"(\.(?P<space>global|const|shared|local|param)(::(cta|entry|func))?)?"
_VECTOR = r"(\.v(?P<count>2|4))?"
_UPDATES = {
    "add": "before + {0}",
    "exch": "{0}",
    "cas": "before == {0} ? {1} : before",
    "and": "before & {0}",
    "or": "before | {0}",
    "xor": "before ^ {0}",
    "min": "before < {0} ? before : {0}",
    "max": "before < {0} ? {0} : before",
}
_VOTES = {
    "all": ("pred", "met.agreed == met.arrived"),
    "any": ("pred", "met.agreed > 0"),
    "uni": ("pred", "met.agreed == 0 || met.agreed == met.arrived"),
    "ballot": ("b32", "met.lanes"),
}
_REDUCTIONS = {
    "popc.u32": ("u32", "met.agreed"),
    "and.pred": ("pred", "met.agreed == met.arrived"),
    "or.pred": ("pred", "met.agreed > 0"),
}

Functions = Mapping[str, Function]
_Translate = Callable[[Instruction, re.Match[str], Names, Functions], list[str]]


def translate_instruction(
    instruction: Instruction, names: Names, functions: Functions
) -> list[str]:
    """Return the C++ statements of an instruction.

    Raises:
        PtxError: it is not known here, or has operands that it cannot have.
    """
    for pattern, translate in _KNOWN:
        if found := pattern.fullmatch(instruction.opcode):
            return translate(instruction, found, names, functions)
    raise PtxError(instruction.line, f"{instruction.opcode} is not known to this translator")


def _place(instruction: Instruction) -> str:
    return f'{{"{instruction.opcode}", ptx_file, {instruction.line}}}'


def _elements(operand: str) -> tuple[str, ...]:
    """Return the registers of a vector, or the one that is none."""
    return tuple(part.strip() for part in operand.strip("{}").split(","))


def _memory(instruction: Instruction, found: re.Match[str], operand: str, names: Names) -> str:
    """Return the host's address of an operand, after checking what a GPU checks."""
    count = int(found["count"] or 1) if "count" in found.groupdict() else 1
    check = "in_shared" if found["space"] == "shared" else "aligned"
    address = names.address(operand, instruction.line)
    return f"{check}({address}, {count * SIZES[found['t']]}, {_place(instruction)})"


def _load(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    target, source = instruction.operands
    address, type_ = _memory(instruction, found, source, names), found["t"]
    registers = _elements(target)
    if len(registers) == 1:
        value = f"load<{CPP[type_]}>({address})"
        return [names.write(registers[0], value, type_, instruction.line)]
    loads = (
        names.write(name, f"load<{CPP[type_]}>(from + {i * SIZES[type_]})", type_, instruction.line)
        for i, name in enumerate(registers)
    )
    return [f"{{ const uint64_t from = {address};", *loads, "}"]


def _store(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    target, source = instruction.operands
    address, type_ = _memory(instruction, found, target, names), found["t"]
    values = [names.read(name, type_, instruction.line) for name in _elements(source)]
    if len(values) == 1:
        return [f"store<{CPP[type_]}>({address}, {values[0]});"]
    stores = (
        f"store<{CPP[type_]}>(to + {i * SIZES[type_]}, {value});" for i, value in enumerate(values)
    )
    return [f"{{ const uint64_t to = {address};", *stores, "}"]


def _move(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    target, source = instruction.operands
    line, type_ = instruction.line, found["t"]
    parts, whole = _elements(target if target[0] == "{" else source), f"b{8 * SIZES[type_]}"
    if len(parts) == 1:
        return [names.write(target, names.read(source, type_, line), type_, line)]
    bits = 8 * SIZES[type_] // len(parts)
    part = f"b{bits}"
    if target[0] == "{":
        pieces = (
            names.write(name, f"{CPP[part]}(whole >> {bits * i})", part, line)
            for i, name in enumerate(parts)
        )
        return [f"{{ const {CPP[whole]} whole = {names.read(source, whole, line)};", *pieces, "}"]
    joined = " | ".join(
        f"{CPP[whole]}({names.read(name, part, line)}) << {bits * i}"
        for i, name in enumerate(parts)
    )
    return [names.write(target, joined, whole, line)]


def _branch(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    return [f"goto {identifier(instruction.operands[0])};"]


def _return(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    return ["return;"]


def _trap(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    return [f'fault({_place(instruction)}, 0, "a trap");']


def _call(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    operands = list(instruction.operands)
    results = operands.pop(0) if operands[0].startswith("(") else ""
    name, *taken = operands
    function = functions.get(name)
    if function is None:
        raise PtxError(instruction.line, f"{instruction.opcode}: this text has no function {name}")
    listed = f"{results}{''.join(taken)}"
    arguments = re.findall(r"[\w$%]+", listed)
    if len(arguments) != len(function.results) + len(function.parameters):
        raise PtxError(
            instruction.line,
            f"{name} is called with {listed}, but line {function.line} declares "
            f"{len(function.results)} results and {len(function.parameters)} parameters",
        )
    return [f"{identifier(name)}({', '.join(map(identifier, arguments))});"]


def _barrier(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    if instruction.operands != ("0",):
        listed = ", ".join(instruction.operands)
        raise PtxError(
            instruction.line, f"{instruction.opcode} {listed} is not known: only barrier 0, of all"
        )
    return [f"gridgen::emulated::meet_block({_place(instruction)}, false);"]


def _reduction(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    target, barrier, vote = instruction.operands
    if barrier != "0":
        raise PtxError(instruction.line, f"{instruction.opcode} of barrier {barrier} is not known")
    type_, value = _REDUCTIONS[found["reduction"]]
    predicate = names.read(vote, "pred", instruction.line)
    return [
        f"{{ const auto met = gridgen::emulated::meet_block({_place(instruction)}, {predicate});",
        names.write(target, value, type_, instruction.line),
        "}",
    ]


def _warp_barrier(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    mask = names.read(instruction.operands[0], "b32", instruction.line)
    return [f"gridgen::emulated::meet_warp({_place(instruction)}, {mask}, true, false);"]


def _vote(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    target, vote, members = instruction.operands
    line = instruction.line
    type_, value = _VOTES[found["vote"]]
    predicate, mask = names.read(vote, "pred", line), names.read(members, "b32", line)
    meet = f"gridgen::emulated::meet_warp({_place(instruction)}, {mask}, false, {predicate})"
    return [f"{{ const auto met = {meet};", names.write(target, value, type_, line), "}"]


def _shuffle(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    targets, *sources = instruction.operands
    line = instruction.line
    target, _, in_segment = targets.partition("|")
    read = ", ".join(names.read(source, "b32", line) for source in sources)
    lines = [
        f"{{ const auto got = shuffled<Shuffle::{found['mode']}>({_place(instruction)}, {read});"
    ]
    lines.append(names.write(target, "got.value", "b32", line))
    if in_segment:
        lines.append(names.write(in_segment, "got.in_segment", "pred", line))
    return [*lines, "}"]


def _active_mask(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    # Which lanes run together is the machine's choice; here each runs alone.
    return [names.write(instruction.operands[0], "1u << lane()", "b32", instruction.line)]


def _fence(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    return []


def _atomic(
    instruction: Instruction, found: re.Match[str], names: Names, functions: Functions
) -> list[str]:
    line, type_ = instruction.line, found["t"]
    *target, place = instruction.operands[: 1 if found["kind"] == "red" else 2]
    values = instruction.operands[len(target) + 1 :]
    address = _memory(instruction, found, place, names)
    read = [names.read(value, type_, line) for value in values]
    after = _UPDATES[found["update"]].format(*read)
    cpp = CPP[type_]
    change = f"exchange_memory<{cpp}>({address}, [&]({cpp} before) {{ return {cpp}({after}); }})"
    return [names.write(target[0], change, type_, line)] if target else [f"{change};"]


_KNOWN: tuple[tuple[re.Pattern[str], _Translate], ...] = tuple(
    (re.compile(pattern), translate)
    for pattern, translate in (
        (rf"ldu?{_ORDER}{_SPACE}{_CACHED}{_VECTOR}{_TYPE}", _load),
        (rf"st{_ORDER}{_SPACE}{_CACHED}{_VECTOR}{_TYPE}", _store),
        (r"mov\.(?P<t>pred|[busf](?:16|32|64))", _move),
        (r"bra(\.uni)?", _branch),
        (r"ret(\.uni)?", _return),
        (r"trap", _trap),
        (r"call(\.uni)?", _call),
        (r"(bar|barrier)(\.cta)?\.sync(\.aligned)?", _barrier),
        (
            r"(bar|barrier)(\.cta)?\.red(\.aligned)?\.(?P<reduction>popc\.u32|and\.pred|or\.pred)",
            _reduction,
        ),
        (r"bar\.warp\.sync", _warp_barrier),
        (r"vote\.sync\.(?P<vote>all|any|uni)\.pred", _vote),
        (r"vote\.sync\.(?P<vote>ballot)\.b32", _vote),
        (r"shfl\.sync\.(?P<mode>up|down|bfly|idx)\.b32", _shuffle),
        (r"activemask\.b32", _active_mask),
        (r"membar\.(cta|gl|sys)|fence(\.sc|\.acq_rel)?\.(cta|gpu|sys)", _fence),
        (
            rf"(?P<kind>atom|red){_ORDER}{_SPACE}\.(?P<update>{'|'.join(_UPDATES)}){_TYPE}",
            _atomic,
        ),
    )
)
