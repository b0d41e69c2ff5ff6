"""Data of the templates of every schedule: the robot, the arrays of a function, tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import PurePath
from textwrap import wrap

from gridgen.functions.arrays import ARRAYS
from gridgen.kernel import Shape
from gridgen.model.tree import KinematicTree
from gridgen.naming import comment, number_literal
from gridgen.schedules.team.plan import Lists


@dataclass(frozen=True)
class RobotView:
    """The robot, as generated comments describe it."""

    ident: str  #: namespace and stem of the file names.
    name: str  #: the name in the URDF.
    origin: str  #: name of the file, without its folder.
    digest: str  #: SHA-256 of the file.
    version: str  #: of the generator.
    version_number: int  #: the same for a preprocessor: 10203 for 1.2.3.
    base: str  #: ``fixed`` or ``floating``.
    nq: int  #: number of positions.
    nv: int  #: number of velocities.
    bodies: int  #: number of bodies.
    joints: tuple[str, ...]  #: the joint table, one line each.
    quaternions: str  #: initializer of the list of elements of q where one begins, ended by -1.
    has_quaternions: bool  #: whether there are any.


def _version_number(version: str) -> int:
    major, minor, patch = (int(number) for number in re.findall(r"\d+", version)[:3])
    return 10_000 * major + 100 * minor + patch


def robot_view(tree: KinematicTree, ident: str, version: str) -> RobotView:
    """Describe the robot."""
    return RobotView(
        ident=ident,
        name=comment(tree.name),
        origin=comment(PurePath(tree.source).name),
        digest=tree.digest,
        version=version,
        version_number=_version_number(version),
        base="floating" if tree.floating_base else "fixed",
        nq=tree.nq,
        nv=tree.nv,
        bodies=len(tree.bodies),
        joints=tuple(_joint_rows(tree)),
        quaternions=f"{{{', '.join(map(str, [*tree.quaternions, -1]))}}}",
        has_quaternions=bool(tree.quaternions),
    )


def _joint_rows(tree: KinematicTree) -> list[str]:
    rows = [("body", "q", "v", "joint", "kind", "parent", "link")]
    for index, body in enumerate(tree.bodies):
        parent = "base" if body.parent < 0 else str(body.parent)
        kind = f"{body.kind}, mimic" if body.mimics else body.kind
        position = (str(index), str(body.q_index), str(body.v_index))
        rows.append((*position, comment(body.joint), kind, parent, comment(body.name)))
    return _aligned(rows)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows of cells as lines with aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


@dataclass(frozen=True)
class ArrayView:
    """One argument of a function."""

    name: str  #: ``qd``.
    size: int  #: elements of one state: ``7``.
    text: str  #: ``joint velocities``.
    unit: str  #: ``rad/s or m/s``.

    @property
    def length(self) -> str:
        """The elements of one state for a comment."""
        return "any" if self.size < 0 else str(self.size)


@dataclass(frozen=True)
class FunctionView:
    """One device function."""

    name: str  #: ``inverse_dynamics``.
    source: str  #: where the algorithm is described.
    inputs: tuple[ArrayView, ...]  #: arrays read.
    outputs: tuple[ArrayView, ...]  #: arrays written.

    @property
    def arrays(self) -> tuple[ArrayView, ...]:
        """All arrays, in the order of the arguments."""
        return self.inputs + self.outputs


def array_view(name: str, shape: Shape, kind: str = "") -> ArrayView:
    """Describe one argument."""
    known = ARRAYS[kind or name]
    return ArrayView(name, math.prod(shape), known.text, known.unit)


_COLUMNS = 96  # of a line of numbers, without its indentation


@dataclass(frozen=True)
class TableView:
    """A constant array."""

    comment: str  #: what it holds, one line.
    declaration: str  #: ``__device__ const short kinds[7]``.
    lines: tuple[str, ...]  #: the initializer.


def numbers_text(comment: str, name: str, columns: Sequence[tuple[float, ...]]) -> TableView:
    """Return a table of numbers: one row for each component, so that lanes read neighbors."""
    rows = [[number_literal(value) for value in row] for row in zip(*columns, strict=True)]
    return TableView(
        comment,
        f"template <class T> __device__ const T {name}[{len(rows)}][{len(columns)}]",
        tuple(braced(rows)),
    )


def indices_text(comment: str, name: str, values: Sequence[int], kind: str = "short") -> TableView:
    """Return a table of indices."""
    return TableView(
        comment,
        f"__device__ const {kind} {name}[{len(values)}]",
        tuple(wrapped([str(int(value)) for value in values])),
    )


def rows_text(comment: str, name: str, rows: Sequence[Sequence[int]]) -> TableView:
    """Return a table with several rows of indices."""
    text = [[str(value) for value in row] for row in rows]
    declaration = f"__device__ const short {name}[{len(rows)}][{len(rows[0])}]"
    return TableView(comment, declaration, tuple(braced(text)))


def lists_text(comment: str, name: str, tables: Sequence[Lists]) -> Iterable[TableView]:
    """Return the start offsets of all lists, one row for each table, and their members."""
    lengths = [len(members) for lists in tables for members in lists]
    starts = list(accumulate(lengths, initial=0))
    count = len(tables[0])
    rows = [starts[k * count : (k + 1) * count + 1] for k in range(len(tables))]
    yield rows_text(f"{comment}: start of each body's list", f"{name}_starts", rows)
    members = [member for lists in tables for listed in lists for member in listed]
    yield indices_text(f"{comment}: the lists", f"{name}_members", members or [-1])


def braced(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of words as lines of a nested initializer."""
    lines = []
    for row in rows:
        first, *rest = wrapped(row, _COLUMNS - 3)
        block = ["{" + first, *(" " + line for line in rest)]
        block[-1] += "},"
        lines += block
    return lines


def wrapped(words: Sequence[str], columns: int = _COLUMNS) -> list[str]:
    """Return words, separated by commas, as lines of bounded length."""
    lines: list[str] = []
    line = ""
    for position, word in enumerate(words):
        word += "," if position < len(words) - 1 else ""
        if line and len(line) + 1 + len(word) > columns:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def called(function: str, arguments: Sequence[str]) -> list[str]:
    """Return a call as a statement, in one line or with its arguments in lines below."""
    line = f"{function}({', '.join(arguments)});"
    if len(line) <= _COLUMNS:
        return [line]
    *names, last = arguments
    return [f"{function}(", *(f"    {below}" for below in wrapped([*names, f"{last});"]))]


def braces(values: Iterable[object]) -> str:
    """Return an initializer."""
    return f"{{{', '.join(map(str, values))}}}"


def definition(text: str) -> list[str]:
    """Return the definition of members of a class, as lines of bounded length."""
    return wrap(
        f"static constexpr {text};",
        _COLUMNS,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
