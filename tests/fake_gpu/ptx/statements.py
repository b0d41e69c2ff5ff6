"""Instructions for memory, control flow and synchronization."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fake_gpu.ptx.instructions import CPP
from fake_gpu.ptx.operands import Names, identifier
from fake_gpu.ptx.parser import SIZES, Function, Instruction, PtxError

_TYPE = r"\.(?P<t>[busf](?:8|16|32|64))"
# Caching and memory order have no effect: one thread runs at a time, in program order.
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


@dataclass(frozen=True)
class Use:
    """An instruction in its context.

    Attributes:
        instruction: the instruction.
        found:       parsed opcode.
        names:       registers and variables in scope.
        functions:   functions of the module.
    """

    instruction: Instruction
    found: re.Match[str]
    names: Names
    functions: Mapping[str, Function]

    @property
    def operands(self) -> tuple[str, ...]:
        """The operands in the text."""
        return self.instruction.operands

    @property
    def type(self) -> str:
        """The type in the opcode."""
        return self.found["t"]

    @property
    def place(self) -> str:
        """The C++ expression of the instruction's location, for messages."""
        return f'{{"{self.instruction.opcode}", ptx_file, {self.instruction.line}}}'

    def read(self, operand: str, type_: str) -> str:
        """Return the value of an operand."""
        return self.names.read(operand, type_, self.instruction.line)

    def write(self, register: str, value: str, type_: str) -> str:
        """Return the statement that assigns a value to a register."""
        return self.names.write(register, value, type_, self.instruction.line)

    def memory(self, operand: str, count: int = 1) -> str:
        """Return the host address of elements; the C++ checks it as a GPU does."""
        check = "in_shared" if self.found["space"] == "shared" else "aligned"
        address = self.names.address(operand, self.instruction.line)
        return f"{check}({address}, {count * SIZES[self.type]}, {self.place})"

    def vector(self, operand: str) -> tuple[str, ...]:
        """Return the registers of a vector operand."""
        registers = _elements(operand)
        if len(registers) != int(self.found["count"] or 1):
            raise self.error(f"has a vector of {len(registers)}")
        return registers

    def error(self, reason: str) -> PtxError:
        """Return an error about the instruction."""
        return PtxError(self.instruction.line, f"{self.instruction.opcode} {reason}")


def translate_instruction(
    instruction: Instruction, names: Names, functions: Mapping[str, Function]
) -> list[str]:
    """Return the C++ statements of an instruction.

    Args:
        instruction: an instruction that is not in ``instructions``.
        names:       registers and variables in scope.
        functions:   functions of the module by name.

    Raises:
        PtxError: the instruction is not supported, or has invalid operands.
    """
    for pattern, counts, translate in _KNOWN:
        if found := pattern.fullmatch(instruction.opcode):
            use = Use(instruction, found, names, functions)
            if len(instruction.operands) not in counts:
                raise use.error(f"has {len(instruction.operands)} operands")
            return translate(use)
    raise PtxError(instruction.line, f"{instruction.opcode} is not supported")


def _elements(operand: str) -> tuple[str, ...]:
    """Return the registers of a vector, or the single register."""
    return tuple(part.strip() for part in operand.strip("{}").split(","))


# ---- memory ----


def _load(use: Use) -> list[str]:
    target, source = use.operands
    registers, cpp = use.vector(target), CPP[use.type]
    loads = (
        use.write(register, f"load<{cpp}>(from + {i * SIZES[use.type]})", use.type)
        for i, register in enumerate(registers)
    )
    return [f"{{ const uint64_t from = {use.memory(source, len(registers))};", *loads, "}"]


def _store(use: Use) -> list[str]:
    target, source = use.operands
    registers, cpp = use.vector(source), CPP[use.type]
    stores = (
        f"store<{cpp}>(to + {i * SIZES[use.type]}, {use.read(register, use.type)});"
        for i, register in enumerate(registers)
    )
    return [f"{{ const uint64_t to = {use.memory(target, len(registers))};", *stores, "}"]


def _atomic(use: Use) -> list[str]:
    *target, place = use.operands[: 1 if use.found["kind"] == "red" else 2]
    cpp = CPP[use.type]
    values = (use.read(value, use.type) for value in use.operands[len(target) + 1 :])
    after = _UPDATES[use.found["update"]].format(*values)
    change = f"[&]({cpp} before) {{ return {cpp}({after}); }}"
    before = f"exchange_memory<{cpp}>({use.memory(place)}, {change})"
    return [use.write(target[0], before, use.type) if target else f"{before};"]


def _fence(use: Use) -> list[str]:
    return []  # one thread runs at a time: all writes are visible


def _move(use: Use) -> list[str]:
    target, source = use.operands
    if not (is_apart := target.startswith("{")) and not source.startswith("{"):
        return [use.write(target, use.read(source, use.type), use.type)]
    parts = _elements(target if is_apart else source)
    bits = 8 * SIZES[use.type] // len(parts)
    part, whole = f"b{bits}", f"b{8 * SIZES[use.type]}"
    if is_apart:
        pieces = (
            use.write(name, f"{CPP[part]}(whole >> {bits * i})", part)
            for i, name in enumerate(parts)
        )
        return [f"{{ const {CPP[whole]} whole = {use.read(source, whole)};", *pieces, "}"]
    shifted = (
        f"{CPP[whole]}({use.read(name, part)}) << {bits * i}" for i, name in enumerate(parts)
    )
    return [use.write(target, " | ".join(shifted), whole)]


# ---- control ----


def _branch(use: Use) -> list[str]:
    return [f"goto {identifier(use.operands[0])};"]


def _return(use: Use) -> list[str]:
    return ["return;"]


def _trap(use: Use) -> list[str]:
    return [f'fault({use.place}, 0, "a trap");']


def _call(use: Use) -> list[str]:
    operands = list(use.operands)
    results = operands.pop(0) if operands[0].startswith("(") else ""
    name, *taken = operands
    function = use.functions.get(name)
    if function is None:
        raise use.error(f"{name}: this text has no such function")
    arguments = re.findall(r"[\w$%]+", f"{results} {''.join(taken)}")
    if len(arguments) != len(function.results) + len(function.parameters):
        raise use.error(
            f"{name} with {', '.join(arguments)}: line {function.line} declares "
            f"{len(function.results)} results and {len(function.parameters)} parameters"
        )
    return [f"{identifier(name)}({', '.join(map(identifier, arguments))});"]


# ---- synchronization ----


def _barrier(use: Use) -> list[str]:
    if use.operands == ("0",):
        return [f"gridgen::emulated::meet_block({use.place}, false);"]
    if len(use.operands) == 1:
        raise use.error(f"{use.operands[0]} is not known: only barrier 0 is of all threads")
    return _some(use, waits=True)


def _arrival(use: Use) -> list[str]:
    return _some(use, waits=False)


def _some(use: Use, *, waits: bool) -> list[str]:
    number, threads = (use.read(operand, "s32") for operand in use.operands)
    given = f"{number}, {threads}, {str(waits).lower()}"
    return [f"gridgen::emulated::meet_some({use.place}, {given});"]


def _reduction(use: Use) -> list[str]:
    target, barrier, predicate = use.operands
    if barrier != "0":
        raise use.error(f"{', '.join(use.operands)} is not known: only barrier 0, of all threads")
    meet = f"gridgen::emulated::meet_block({use.place}, {use.read(predicate, 'pred')})"
    type_, value = _REDUCTIONS[use.found["reduction"]]
    return [f"{{ const auto met = {meet};", use.write(target, value, type_), "}"]


def _warp_barrier(use: Use) -> list[str]:
    mask = use.read(use.operands[0], "b32")
    return [f"gridgen::emulated::meet_warp({use.place}, {mask}, true, false);"]


def _vote(use: Use) -> list[str]:
    target, predicate, members = use.operands
    given = f"{use.read(members, 'b32')}, false, {use.read(predicate, 'pred')}"
    meet = f"gridgen::emulated::meet_warp({use.place}, {given})"
    type_, value = _VOTES[use.found["vote"]]
    return [f"{{ const auto met = {meet};", use.write(target, value, type_), "}"]


def _shuffle(use: Use) -> list[str]:
    targets, *sources = use.operands
    target, _, in_segment = targets.partition("|")
    given = ", ".join(use.read(source, "b32") for source in sources)
    lines = [f"{{ const auto got = shuffled<Shuffle::{use.found['mode']}>({use.place}, {given});"]
    lines.append(use.write(target, "got.value", "b32"))
    if in_segment:
        lines.append(use.write(in_segment, "got.in_segment", "pred"))
    return [*lines, "}"]


def _active_mask(use: Use) -> list[str]:
    # PTX leaves the set of active lanes open; here each lane runs separately.
    return [use.write(use.operands[0], "1u << lane()", "b32")]


_REDUCED = "|".join(map(re.escape, _REDUCTIONS))
_UPDATED = "|".join(_UPDATES)
# Opcodes, numbers of operands, and translations.
_KNOWN: tuple[tuple[re.Pattern[str], tuple[int, ...], Callable[[Use], list[str]]], ...] = tuple(
    (re.compile(pattern), counts, translate)
    for pattern, counts, translate in (
        (rf"ldu?{_ORDER}{_SPACE}{_CACHED}{_VECTOR}{_TYPE}", (2,), _load),
        (rf"st{_ORDER}{_SPACE}{_CACHED}{_VECTOR}{_TYPE}", (2,), _store),
        (rf"(?P<kind>atom){_ORDER}{_SPACE}\.(?P<update>cas){_TYPE}", (4,), _atomic),
        (rf"(?P<kind>atom){_ORDER}{_SPACE}\.(?P<update>{_UPDATED}){_TYPE}", (3,), _atomic),
        (rf"(?P<kind>red){_ORDER}{_SPACE}\.(?P<update>{_UPDATED}){_TYPE}", (2,), _atomic),
        (r"membar\.(cta|gl|sys)|fence(\.sc|\.acq_rel)?\.(cta|gpu|sys)", (0,), _fence),
        (r"mov\.(?P<t>pred|[busf](?:16|32|64))", (2,), _move),
        (r"bra(\.uni)?", (1,), _branch),
        (r"ret(\.uni)?", (0,), _return),
        (r"trap", (0,), _trap),
        (r"call(\.uni)?", (1, 2, 3), _call),
        (r"(bar|barrier)(\.cta)?\.sync(\.aligned)?", (1, 2), _barrier),
        (r"(bar|barrier)(\.cta)?\.arrive(\.aligned)?", (2,), _arrival),
        (rf"(bar|barrier)(\.cta)?\.red(\.aligned)?\.(?P<reduction>{_REDUCED})", (3,), _reduction),
        (r"bar\.warp\.sync", (1,), _warp_barrier),
        (r"vote\.sync\.(?P<vote>(all|any|uni)(?=\.pred)|ballot(?=\.b32))\.\w+", (3,), _vote),
        (r"shfl\.sync\.(?P<mode>up|down|bfly|idx)\.b32", (5,), _shuffle),
        (r"activemask\.b32", (1,), _active_mask),
    )
)
