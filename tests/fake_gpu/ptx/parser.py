"""Parser of PTX: variables, functions and statements."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

#: Name of the text in messages.
FILE = "kernel.ptx"
#: Bytes of a type's elements; a predicate has no address.
SIZES = {kind + str(bits): bits // 8 for kind in "busf" for bits in (8, 16, 32, 64)} | {"pred": 1}

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_HEADER = re.compile(r"\s*\.(version|target|address_size)\b[^\n]*")
_LINKAGE = re.compile(r"\.(visible|extern|weak|common)\s+")
_VARIABLE = re.compile(
    r"\.(?P<space>global|const|shared|local|param)\s+(\.align\s+(?P<alignment>\d+)\s+)?"
    r"\.(?P<type>\w+)\s+(\.ptr\s+(\.\w+\s+)?(\.align\s+\d+\s+)?)?"
    r"(?P<name>[\w$%]+)\s*(\[(?P<count>\d*)\])?(\s*=\s*\{?(?P<values>[^{}]*)\}?)?\s*"
)
_FUNCTION = re.compile(
    r"\.(?P<kind>entry|func)\s*(\((?P<results>[^)]*)\))?\s*(?P<name>[\w$]+)\s*"
    r"(\((?P<parameters>[^)]*)\))?\s*(?P<directives>[^()]*)"
)
_DIRECTIVES = re.compile(r"(\.(maxntid|reqntid|minnctapersm|maxnreg|noreturn)\b[\d\s,]*)*")
_BLOCK = re.compile(r"\.(?:max|req)ntid\s+([\d\s,]+)")
_REGISTERS = re.compile(r"\.reg\s+\.(?P<type>\w+)\s+(?P<names>.+)", re.DOTALL)
_NUMBERED = re.compile(r"(?P<prefix>[\w$%]+)<(?P<count>\d+)>")
_BRACE = re.compile("[{}]")
_BLANK = re.compile(r"\s*")
# The end of a declaration or of its head.
_HEAD_END = re.compile("[;{=]")
_LABEL = re.compile(r"(?P<name>[\w$]+)\s*:(?!:)\s*")
_INSTRUCTION = re.compile(
    r"(@(?P<guard>!?\s*[\w$%]+)\s+)?(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>.*)", re.DOTALL
)


class PtxError(ValueError):
    """A text is not PTX or uses unsupported features; the message has the line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"{FILE}:{line}: {reason}")


@dataclass(frozen=True)
class Variable:
    """A variable of a state space, or a parameter.

    Attributes:
        line:      line of the declaration.
        space:     ``global``, ``const``, ``shared``, ``local`` or ``param``.
        type:      type of its elements: ``b8``, ``f32``.
        name:      name in the text.
        alignment: alignment [bytes].
        bytes:     size [bytes]; 0 for dynamic shared memory.
        values:    first elements in the text; the others are zero.
    """

    line: int
    space: str
    type: str
    name: str
    alignment: int
    bytes: int
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Registers:
    """A declaration of registers of one type."""

    line: int
    type: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Label:
    """A target of branches."""

    line: int
    name: str


@dataclass(frozen=True)
class Scope:
    """The beginning of a block, or its end."""

    line: int
    opens: bool


@dataclass(frozen=True)
class Instruction:
    """An instruction.

    Attributes:
        line:     line in the text.
        guard:    predicate, ``%p1`` or ``!%p1``; empty if unconditional.
        opcode:   opcode with all modifiers: ``ld.global.nc.f32``.
        operands: operands in the text, brackets included.
    """

    line: int
    guard: str
    opcode: str
    operands: tuple[str, ...]


Statement: TypeAlias = Variable | Registers | Label | Scope | Instruction


@dataclass(frozen=True)
class Function:
    """A function or, as an entry, a kernel.

    Attributes:
        line:       line of the declaration.
        name:       name in the text.
        is_entry:   whether it is a kernel.
        results:    return values.
        parameters: parameters.
        block:      most threads of a block of the kernel.
        body:       statements.
    """

    line: int
    name: str
    is_entry: bool
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    block: int
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Module:
    """All declarations of a text."""

    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]

    @cached_property
    def entries(self) -> dict[str, Function]:
        """Kernels by name."""
        return {function.name: function for function in self.functions if function.is_entry}


def parse(text: str) -> Module:
    """Return the declarations of a PTX text.

    Raises:
        PtxError: the text is not PTX, or contains unsupported declarations.
    """
    return _Parser(text).module()


def split_operands(text: str) -> tuple[str, ...]:
    """Split a text at the commas outside brackets."""
    parts, depth, begin = [], 0, 0
    for place, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[begin:place].strip())
            begin = place + 1
    last = text[begin:].strip()
    return (*parts, last) if last else tuple(parts)


class _Parser:
    def __init__(self, text: str) -> None:
        # Comments leave their line ends, which preserves line numbers.
        self._text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
        self._ends = [found.start() for found in re.finditer("\n", self._text)]

    def module(self) -> Module:
        variables, functions = [], []
        at, end = 0, len(self._text.rstrip("\0 \n\t"))
        while at < end:
            if header := _HEADER.match(self._text, at):
                at = header.end()
                continue
            head = _HEAD_END.search(self._text, at)
            stop = head.start() if head else end
            if self._text[stop : stop + 1] == "{":
                close = self._closing(stop)
                functions.append(self._function(at, stop, close))
                at = close + 1
                continue
            stop = self._text.find(";", stop)
            if stop < 0:
                raise self._error(at, f"no declaration: {self._text[at:end].strip()[:60]}")
            declared = _LINKAGE.sub("", self._text[at:stop]).strip()
            if not declared.startswith((".func", ".entry")):  # function prototypes
                variables.append(self._variable(self._first(at), declared))
            at = stop + 1
        return Module(tuple(variables), tuple(functions))

    def _function(self, at: int, begin: int, end: int) -> Function:
        at = self._first(at)
        head = _LINKAGE.sub("", self._text[at:begin]).strip()
        found = _FUNCTION.fullmatch(head)
        if found is None or not _DIRECTIVES.fullmatch(found["directives"].strip()):
            raise self._error(at, f"no function: {head[:60]}")

        def declared(text: str | None) -> tuple[Variable, ...]:
            return tuple(self._variable(at, part) for part in split_operands(text or ""))

        block = 1024
        if limit := _BLOCK.search(found["directives"]):
            block = int(limit[1].split(",")[0])
        return Function(
            line=self._line(at),
            name=found["name"],
            is_entry=found["kind"] == "entry",
            results=declared(found["results"]),
            parameters=declared(found["parameters"]),
            block=block,
            body=tuple(self._body(begin + 1, end)),
        )

    def _body(self, begin: int, end: int) -> Iterator[Statement]:
        at = begin
        while (at := self._first(at)) < end:
            if self._text[at] in "{}":
                yield Scope(self._line(at), self._text[at] == "{")
                at += 1
            elif label := _LABEL.match(self._text, at):
                yield Label(self._line(at), label["name"])
                at = label.end()
            else:
                stop = self._text.find(";", at, end)
                if stop < 0:
                    raise self._error(at, f"no statement: {self._text[at:end].strip()[:60]}")
                yield from self._statement(at, self._text[at:stop].rstrip())
                at = stop + 1

    def _statement(self, at: int, text: str) -> Iterator[Statement]:
        if text.startswith(".pragma"):
            return
        if text.startswith(".reg"):
            yield self._registers(at, text)
        elif text.startswith("."):
            yield self._variable(at, text)
        elif found := _INSTRUCTION.fullmatch(text):
            operands = split_operands(found["operands"])
            guard = (found["guard"] or "").replace(" ", "")
            yield Instruction(self._line(at), guard, found["opcode"], operands)
        else:
            raise self._error(at, f"no instruction: {text[:60]}")

    def _registers(self, at: int, text: str) -> Registers:
        found = _REGISTERS.fullmatch(text)
        if found is None or found["type"] not in SIZES:
            raise self._error(at, f"no registers: {text[:60]}")
        names: list[str] = []
        for part in split_operands(found["names"]):
            if numbered := _NUMBERED.fullmatch(part):
                names += (f"{numbered['prefix']}{i}" for i in range(int(numbered["count"])))
            else:
                names.append(part)
        return Registers(self._line(at), found["type"], tuple(names))

    def _variable(self, at: int, text: str) -> Variable:
        found = _VARIABLE.fullmatch(text)
        if found is None or found["type"] not in SIZES:
            raise self._error(at, f"no variable: {text[:60]}")
        size = SIZES[found["type"]]
        count = 1 if found["count"] is None else int(found["count"] or 0)
        return Variable(
            line=self._line(at),
            space=found["space"],
            type=found["type"],
            name=found["name"],
            alignment=int(found["alignment"] or size),
            bytes=size * count,
            values=split_operands(found["values"] or ""),
        )

    def _closing(self, at: int) -> int:
        depth = 0
        for found in _BRACE.finditer(self._text, at):
            depth += 1 if found[0] == "{" else -1
            if depth == 0:
                return found.start()
        raise self._error(at, "no end of the block that begins here")

    def _first(self, at: int) -> int:
        """Return the position of the first character that is not a blank."""
        blank = _BLANK.match(self._text, at)
        return blank.end() if blank else at

    def _line(self, at: int) -> int:
        return bisect.bisect_left(self._ends, at) + 1

    def _error(self, at: int, reason: str) -> PtxError:
        return PtxError(self._line(self._first(at)), reason)
