"""What the templates see: strings and lists of strings, nothing to compute."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from textwrap import wrap

from gridgen.dynamics.arrays import ARRAYS, SHARED, array_shape
from gridgen.dynamics.functions import function_of
from gridgen.model.tree import KinematicTree
from gridgen.naming import comment
from gridgen.symbolic.parts import Part, split_program
from gridgen.symbolic.printer import KEPT, block_lines
from gridgen.symbolic.program import Block, Program, places

_PHASES = {
    "start": "inputs",
    "placement": "placement in the parent",
    "base": "motion of the base",
    "outward": "motion, and the force it takes",
    "inward": "what the parent feels",
    "acceleration": "acceleration",
    "composite": "composite inertia felt by the parent",
    "column": "column of the mass matrix",
    "axis": "column of the Jacobian",
    "pose": "pose in the base",
    "frame": "pose of a link",
    "energy": "kinetic energy",
    "triples": "second derivatives with the joints above",
    "row": "derivatives of its effort",
    "response": "how the wrench that it transmits answers its motion",
    "solve": "factorisation and solution",
}


@dataclass(frozen=True)
class ArrayView:
    """One argument of a function.

    Attributes:
        name:  ``qd``.
        size:  elements of one state: ``7``.
        shape: ``(B, 7)``.
        text:  ``joint velocities``.
        unit:  ``rad/s or m/s``.
        axes:  initialiser of a ``gridgen::Axes``.
        parameter: its name in a parameter list, in comment signs where the robot does not need it.
        kind:  its type in a template: ``In``, or ``Out``, ``Out2``, ... for each result.
        kept:  the number of different elements of a result.
        places: which of those every element of a result is, a list in lines.
    """

    name: str
    size: int
    shape: str
    text: str
    unit: str
    axes: str
    parameter: str
    kind: str = "In"
    kept: int = 0
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class BlockView:
    """Statements under a comment."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class PartView:
    """One part of a function that is too long to be compiled in one piece.

    Attributes:
        name:        ``forward_dynamics_gradient_part_3``.
        parameters:  ``In q``, ``Out tau``, ``T* kept``: what it needs of the function's.
        arguments:   their names.
        blocks:      the body.
        has_numbers: whether the body has real constants.
    """

    name: str
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    blocks: tuple[BlockView, ...]
    has_numbers: bool


@dataclass(frozen=True)
class FunctionView:
    """One device function and its entry points.

    Attributes:
        name:       ``inverse_dynamics``.
        title:      what it computes, lines.
        source:     where the algorithm is described.
        inputs:     arrays read.
        outputs:    arrays written.
        result_size: elements of all outputs of one state.
        cost:       operation counts, one line.
        blocks:     the body, or nothing if there are parts.
        has_numbers: whether the body has real constants.
        parts:      what the body calls, in order.
        kept:       the number of values that the parts keep for each other at once.
    """

    name: str
    title: tuple[str, ...]
    source: str
    inputs: tuple[ArrayView, ...]
    outputs: tuple[ArrayView, ...]
    result_size: int
    cost: str
    blocks: tuple[BlockView, ...]
    has_numbers: bool
    parts: tuple[PartView, ...]
    kept: int


@dataclass(frozen=True)
class RobotView:
    """The robot as comments tell of it.

    Attributes:
        ident:   namespace and stem of the file names.
        name:    the name in the URDF.
        origin:  name of the file, without its folder.
        digest:  SHA-256 of the file.
        version: of the generator.
        version_number: the same for a preprocessor: 10203 for 1.2.3.
        base:    ``fixed`` or ``floating``.
        nq:      number of positions.
        nv:      number of velocities.
        bodies:  number of bodies.
        joints:  the joint table, one line each.
        quaternions: initialiser of the list of elements of q where one begins, ended by -1.
        has_quaternions: whether there are any.
    """

    ident: str
    name: str
    origin: str
    digest: str
    version: str
    version_number: int
    base: str
    nq: int
    nv: int
    bodies: int
    joints: tuple[str, ...]
    quaternions: str
    has_quaternions: bool


def _version_number(version: str) -> int:
    major, minor, patch = (int(number) for number in re.findall(r"\d+", version)[:3])
    return 10_000 * major + 100 * minor + patch


def robot_view(tree: KinematicTree, ident: str, version: str) -> RobotView:
    """Describe the robot."""
    quaternions = [body.q_index + 3 for body in tree.bodies if body.kind == "free"]
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
        quaternions=f"{{{', '.join(map(str, [*quaternions, -1]))}}}",
        has_quaternions=bool(quaternions),
    )


def _joint_rows(tree: KinematicTree) -> list[str]:
    rows = [("body", "q", "v", "joint", "kind", "parent", "link")]
    for index, body in enumerate(tree.bodies):
        parent = "base" if body.parent < 0 else str(body.parent)
        kind = f"{body.kind}, mimic" if body.mimics else body.kind
        position = (str(index), str(body.q_index), str(body.v_index))
        rows.append((*position, comment(body.joint), kind, parent, comment(body.name)))
    return columns(rows)


def function_view(tree: KinematicTree, name: str, program: Program) -> FunctionView:
    """Describe one function of the robot."""
    spec = function_of(tree, name)
    split = split_program(program)
    whole = program.blocks if split is None else ()
    blocks = tuple(_block_view(tree, block, program.variables) for block in whole)
    parts = () if split is None else split.parts
    removed = 1 - program.operations / max(program.dense_operations, 1)
    used = _used_inputs(program)
    outputs = tuple(
        _result_view(tree, array, number, elements)
        for number, (array, elements) in enumerate(places(program).items(), 1)
    )
    return FunctionView(
        name=name,
        title=tuple(f"{spec.title}.".splitlines()),
        source=spec.source,
        inputs=tuple(_array_view(tree, array, array in used) for array in spec.inputs),
        outputs=outputs,
        result_size=sum(array.size for array in outputs),
        cost=f"{program.operations} operations; specialisation removed {removed:.0%} of "
        f"{program.dense_operations}",
        blocks=blocks,
        has_numbers=_has_numbers(blocks),
        parts=tuple(
            _part_view(tree, f"{name}_part_{number}", part, program, outputs)
            for number, part in enumerate(parts, 1)
        ),
        kept=0 if split is None else split.slots,
    )


def _part_view(
    tree: KinematicTree, name: str, part: Part, program: Program, outputs: Sequence[ArrayView]
) -> PartView:
    typed = [("In ", array.name) for array in program.inputs if array.name in part.arrays]
    typed += [(f"{array.kind} ", array.name) for array in outputs if array.name in part.arrays]
    typed += [("T* ", KEPT)] * part.keeps
    blocks = tuple(_block_view(tree, block, program.variables) for block in part.blocks)
    return PartView(
        name=name,
        parameters=tuple(kind + array for kind, array in typed),
        arguments=tuple(array for _, array in typed),
        blocks=blocks,
        has_numbers=_has_numbers(blocks),
    )


def _has_numbers(blocks: Sequence[BlockView]) -> bool:
    return any("R(" in line for block in blocks for line in block.lines)


def _used_inputs(program: Program) -> set[str]:
    used: set[str] = set()
    for node in program.nodes:
        if node.op == "input":
            assert isinstance(node.value, tuple)
            used.add(node.value[0])
    return used


def _array_view(tree: KinematicTree, name: str, used: bool) -> ArrayView:
    shape = array_shape(name, tree)
    size = 1
    for extent in shape:
        size *= extent
    text, unit = ARRAYS[name]
    extents = ", ".join(map(str, shape))
    return ArrayView(
        name=name,
        size=size,
        shape=f"({', '.join(map(str, ('B', *shape)))})",
        text=text,
        unit=unit,
        axes=f"{{{len(shape)}, {{{extents}}}, {str(name in SHARED).lower()}}}",
        parameter=name if used else f"/* {name}: not needed by this robot */",
    )


def _result_view(tree: KinematicTree, name: str, number: int, elements: Sequence[int]) -> ArrayView:
    text = ", ".join(map(str, elements))
    return replace(
        _array_view(tree, name, True),
        kind="Out" if number == 1 else f"Out{number}",
        kept=len(set(elements)),
        places=tuple(wrap(text, 95)),
    )


def _block_view(tree: KinematicTree, block: Block, variables: Mapping[int, str]) -> BlockView:
    phase = _PHASES[block.phase]
    if block.body < 0:
        title = phase
    else:
        body = tree.bodies[block.body]
        parent = "the base" if body.parent < 0 else comment(tree.bodies[body.parent].name)
        title = f"{comment(body.name)} ({body.kind} {comment(body.joint)} on {parent}): {phase}"
    return BlockView(title, tuple(block_lines(block, variables)))


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows of cells as lines with aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
