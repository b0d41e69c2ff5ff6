"""What the templates of the thread schedule see: programs as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

from gridgen.functions.arrays import configurations
from gridgen.kernel import Kernel, Shape
from gridgen.model.tree import KinematicTree
from gridgen.naming import comment
from gridgen.schedules.tables import TableView, wrapped
from gridgen.schedules.thread.plan import Programs, plan_rows
from gridgen.schedules.views import ArrayView, FunctionView, array_view
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.fills import with_fills
from gridgen.symbolic.memory import Case, Constants, Leave, Walk, When
from gridgen.symbolic.parts import Part, SplitProgram, split_program
from gridgen.symbolic.printer import angle_lines, angles_of, block_lines
from gridgen.symbolic.program import (
    KEPT,
    LONGEST_NAMED,
    PARKED,
    Block,
    Program,
    places,
    used_inputs,
)
from gridgen.symbolic.tiles import Staging, Tiles

#: A long program's parts each compute up to so many packs before the next part does: instructions
#: are fetched once for all of them. What is known of every pack, arguments, results and what parts
#: keep, then leaves the first level of the cache, which costs more than it saves where that is much
#: for the program's length (gradients), or where all packs' together is more than so many values.
MOST_PACKS = 4
MOST_VALUES = 2560
INSTRUCTIONS_OF_VALUE = 8

#: Instructions of the longest program whose parts a GPU joins: a longer one takes NVRTC minutes.
LONGEST_JOINED = 5_000
#: Instructions of the longest program that copies results out of shared memory in line, and has its
#: arguments in registers from the beginning: a longer one has dozens of such copies, and no room.
LONGEST_INLINE = 3_000

#: Tiles of a function's results, each with code of its own to copy it out: more have one in common.
MOST_COPIES = 16

#: Numbers of a state that a thread of a GPU asks for at once, in registers, where it reads arrays
#: in place: a quarter of those that it has.
MOST_LOADED = 64
#: Instructions of the longest program that reads its numbers from shared memory at once: in a
#: longer one they would keep registers from what it computes.
LONGEST_READ = 1000

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
    "regressor": "what its inertial parameters are multiplied by",
    "triples": "second derivatives with the joints above",
    "row": "derivatives of its effort",
    "response": "how the wrench that it transmits answers its motion",
    "solve": "factorization and solution",
    "constraint": "acceleration that a constraint has without forces",
    "forces": "forces of the constraints",
    "step": "along the step",
    "adjoint": "adjoint: what its steps, taken backwards, make of the cotangents",
}


@dataclass(frozen=True)
class ThreadArrayView(ArrayView):
    """One argument of a function, and how it is brought into packs.

    Attributes:
        index: its place among the arguments.
        axes:  initializer of a ``gridgen::Axes``.
        parameter: its name in a parameter list, in comment signs where the robot does not need it.
        kind:  its type in a template: ``In``, or ``Out``, ``Out2``, ... for each result.
        kept:  the number of different elements of a result.
        repeats: whether some elements of a result are the same.
        places: which of the different ones every element of a result is, a list in lines.
        is_staged: whether the kernel for rows brings its row into shared memory.
        begin: where that begins among a state's numbers.
        width: elements of a tile of a result's row; 0 if it has none.
        tiles: initializers of a result's ``gridgen::Tile``, in lines.
    """

    index: int
    axes: str
    parameter: str
    kind: str = "In"
    kept: int = 0
    repeats: bool = False
    places: tuple[str, ...] = ()
    is_staged: bool = False
    begin: int = 0
    width: int = 0
    tiles: tuple[str, ...] = ()


@dataclass(frozen=True)
class BlockView:
    """Statements under a comment; none where they only begin or end loops."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class PartView:
    """One part of a function that is too long to be compiled in one piece.

    Attributes:
        name:        ``forward_dynamics_gradient_part_3``.
        parameters:  ``In q``, ``Out tau``, ``T* kept``: what it needs of the function's.
        arguments:   their names.
        of_pack:     what they are for pack ``p`` of several.
        blocks:      the body.
        has_numbers: whether the body has real constants.
    """

    name: str
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    of_pack: tuple[str, ...]
    blocks: tuple[BlockView, ...]
    has_numbers: bool


@dataclass(frozen=True)
class MemoryView:
    """What loops keep: its name, where it begins, the numbers of one record."""

    name: str
    start: int
    width: int


@dataclass(frozen=True)
class ThreadFunctionView(FunctionView):
    """One device function and its entry points.

    Attributes:
        title:      what it computes, lines.
        input_count: number of arrays read.
        configurations: how many of them, the first ones, are configurations.
        result_size: elements of all outputs of one state.
        cost:       counts, one line.
        blocks:     the body, or nothing if there are parts.
        has_numbers: whether the body has real constants.
        parts:      what the body calls, in order.
        kept:       the number of values that the parts keep for each other at once.
        parked:     the number of those beside that are parked.
        packs:      the number of packs that a part computes before the next part does, or 0 where
                    each pack goes through all parts by itself.
        room:       the number of values that loops keep.
        memories:   what they keep, and where.
        staged:     numbers of shared memory that a state takes in the kernel for rows, or 0 where
                    there is none.
        longest:    numbers of the longest row among them.
        is_joined:  whether its parts, if it has any, are one piece on a GPU.
        is_apart:   whether what copies results' tiles out is a function of its own.
        is_loaded:  whether a thread asks for all of its state at once, in registers.
        is_read:    whether it does so of what is in shared memory, too.
        is_own:     whether it is a CPU's alone, in the namespace ``straight``.
    """

    title: tuple[str, ...]
    input_count: int
    configurations: int
    result_size: int
    cost: str
    blocks: tuple[BlockView, ...]
    has_numbers: bool
    parts: tuple[PartView, ...]
    kept: int
    parked: int
    packs: int
    room: int = 0
    memories: tuple[MemoryView, ...] = ()
    staged: int = 0
    longest: int = 0
    is_loaded: bool = False
    is_read: bool = False
    is_joined: bool = False
    is_apart: bool = False
    is_own: bool = False


def gpu_view(tree: KinematicTree, kernel: Kernel, programs: Programs) -> ThreadFunctionView:
    """Describe one function of the robot as a thread of a GPU computes it."""
    program = programs.gpu
    return _function_view(tree, kernel, program, programs.gpu_parts, plan_rows(program))


def cpu_view(
    tree: KinematicTree, kernel: Kernel, programs: Programs, on_gpu: ThreadFunctionView
) -> ThreadFunctionView:
    """Describe one function of the robot as a CPU computes it.

    Args:
        tree:     the robot.
        kernel:   the function.
        programs: its programs.
        on_gpu:   what has been made for a GPU.
    """
    if programs.are_one:
        return on_gpu
    own = _function_view(tree, kernel, programs.cpu, split_program(programs.cpu), None)
    return replace(own, is_own=True)


def _function_view(
    tree: KinematicTree,
    kernel: Kernel,
    program: Program,
    split: SplitProgram | None,
    staging: Staging | None,
) -> ThreadFunctionView:
    whole = () if split else tuple(map(with_fills, program.blocks))
    blocks = _block_views(tree, whole, program)
    parts = () if split is None else split.parts
    inputs = tuple(_input_views(kernel.inputs, used_inputs(program), staging))
    outputs = tuple(_result_views(kernel, places(program), len(inputs), staging))
    memories = tuple(_memory_views(program))
    is_short = program.instructions <= LONGEST_INLINE
    numbers = sum(array.size for array in inputs)
    is_loaded = staging is not None and is_short and numbers <= MOST_LOADED
    return ThreadFunctionView(
        name=kernel.name,
        title=tuple(f"{kernel.title}.".splitlines()),
        source=kernel.source,
        inputs=inputs,
        outputs=outputs,
        input_count=len(inputs),
        configurations=len(configurations(kernel.inputs)),
        result_size=sum(array.size for array in outputs),
        cost=_cost(program),
        blocks=blocks,
        has_numbers=_has_numbers(blocks),
        parts=tuple(
            _part_view(tree, f"{kernel.name}_part_{number}", part, program, outputs)
            for number, part in enumerate(parts, 1)
        ),
        kept=0 if split is None else split.kept,
        parked=0 if split is None else split.parked,
        packs=0 if split is None else _packs(split, program.instructions, inputs, outputs),
        room=program.room,
        memories=memories,
        staged=0 if staging is None else staging.numbers,
        longest=max((array.size for array in inputs if array.is_staged), default=0),
        is_joined=program.instructions <= LONGEST_JOINED,
        is_apart=not is_short or _tile_count(staging) > MOST_COPIES,
        is_loaded=is_loaded,
        is_read=is_loaded and program.instructions <= LONGEST_READ,
    )


def constant_views(programs: Iterable[Program]) -> list[TableView]:
    """Return the constant arrays that loops read, each once."""
    tables: dict[str, Constants] = {}
    for program in programs:
        if program.loops is not None:
            tables |= program.loops.tables
    return [_constant_view(table) for table in tables.values()]


def _constant_view(table: Constants) -> TableView:
    kind = "template <class R> GRIDGEN_TABLE R" if table.has_reals else "GRIDGEN_TABLE int"
    words = [repr(value) for value in table.values]
    return TableView("", f"{kind} {table.name}[{len(words)}]", tuple(wrapped(words)))


def _memory_views(program: Program) -> Iterable[MemoryView]:
    start = 0
    for memory in program.kept:
        yield MemoryView(memory.name, start, memory.width)
        start += memory.size


def _cost(program: Program) -> str:
    if program.loops is not None:
        return f"{program.instructions} instructions, those of a loop counted once"
    return (
        f"{program.instructions} instructions; specialization left {program.operations} "
        f"operations of {program.dense_operations}"
    )


def _packs(
    split: SplitProgram,
    instructions: int,
    inputs: Sequence[ThreadArrayView],
    outputs: Sequence[ThreadArrayView],
) -> int:
    """Return how many packs each part computes before the next one does, 0 for one alone."""
    arguments = sum(array.size for array in inputs)
    values = arguments + sum(array.kept for array in outputs) + split.kept + split.parked
    if INSTRUCTIONS_OF_VALUE * values > instructions:
        return 0
    packs = min(MOST_PACKS, MOST_VALUES // values)
    return packs if packs > 1 else 0


def _part_view(
    tree: KinematicTree,
    name: str,
    part: Part,
    program: Program,
    outputs: Sequence[ThreadArrayView],
) -> PartView:
    typed = [("In ", array.name) for array in program.inputs if array.name in part.arrays]
    typed += [(f"{array.kind} ", array.name) for array in outputs if array.name in part.arrays]
    typed += [("T* ", KEPT)] * (KEPT in part.arrays) + [("Parked ", PARKED)] * (
        PARKED in part.arrays
    )
    blocks = _block_views(tree, part.blocks, program)
    one_of = {"In ": "[p].x", "T* ": "[p]", "Parked ": "[p]"}
    return PartView(
        name=name,
        parameters=tuple(kind + array for kind, array in typed),
        arguments=tuple(array for _, array in typed),
        of_pack=tuple(array + one_of.get(kind, "[p].elements()") for kind, array in typed),
        blocks=blocks,
        has_numbers=_has_numbers(blocks),
    )


def _has_numbers(blocks: Sequence[BlockView]) -> bool:
    return any("R(" in line or "<R>" in line for block in blocks for line in block.lines)


def _input_views(
    inputs: Mapping[str, Shape], used: set[str], staging: Staging | None
) -> Iterable[ThreadArrayView]:
    begins = {} if staging is None else staging.inputs
    for index, (name, shape) in enumerate(inputs.items()):
        yield ThreadArrayView(
            **vars(array_view(name, shape)),
            index=index,
            axes=_axes(shape, is_input=True),
            parameter=name if name in used else f"/* {name}: not needed by this robot */",
            is_staged=name in begins,
            begin=begins.get(name, 0),
        )


def _result_views(
    kernel: Kernel,
    results: Mapping[str, Sequence[int]],
    first: int,
    staging: Staging | None,
) -> Iterable[ThreadArrayView]:
    for number, (name, shape) in enumerate(kernel.outputs.items()):
        array, elements = array_view(name, shape, kernel.kind(name)), results.get(name, ())
        kept = len(set(elements)) or array.size
        row = None if staging is None else staging.results[name]
        yield ThreadArrayView(
            **vars(array),
            index=first + number,
            axes=_axes(shape, is_input=False),
            parameter=name,
            kind=f"Out{number + 1}" if number else "Out",
            kept=kept,
            repeats=kept < array.size,
            places=tuple(wrap(", ".join(map(str, elements)), 95)),
            width=0 if row is None else row.width,
            tiles=() if row is None else tuple(_tile_lines(row)),
        )


def _tile_count(staging: Staging | None) -> int:
    return 0 if staging is None else sum(len(row.tiles) for row in staging.results.values())


def _tile_lines(row: Tiles) -> list[str]:
    return wrapped([f"{{{tile.begin}, {tile.last}}}" for tile in row.tiles])


def _axes(shape: Shape, *, is_input: bool) -> str:
    extents = ", ".join(map(str, shape))
    return f"{{{len(shape)}, {{{extents}}}, {str(is_input).lower()}}}"


def _block_views(
    tree: KinematicTree, blocks: Sequence[Block], program: Program
) -> tuple[BlockView, ...]:
    """Describe statements that run one after another, and what they have in common before them."""
    known = () if program.loops else angles_of(blocks, program.variables)
    angles = known if len(known) > 1 else ()
    first = [BlockView("// angles", tuple(angle_lines(angles)))] if angles else []
    return (*first, *(_block_view(tree, block, program, angles) for block in blocks))


def _block_view(
    tree: KinematicTree, block: Block, program: Program, angles: Sequence[Expr]
) -> BlockView:
    phase = _PHASES[block.phase]
    if block.body < 0:
        title = phase
    else:
        title = f"{_body_title(tree, block.body, program)}: {phase}"
    indent = "    " * block.depth
    lines = (f"{indent}{line}" for line in block_lines(block, program.variables, angles))
    is_said = any(not isinstance(s, (Walk, When, Case, Leave)) for s in block.statements)
    return BlockView(f"{indent}// {title}" if is_said else "", tuple(lines))


def _body_title(tree: KinematicTree, index: int, program: Program) -> str:
    """Return what a comment calls a body."""
    body = tree.bodies[index]
    if program.instructions > LONGEST_NAMED:
        return f"{index} {comment(body.name)}"
    parent = "the base" if body.parent < 0 else comment(tree.bodies[body.parent].name)
    return f"{comment(body.name)} ({body.kind} {comment(body.joint)} on {parent})"
