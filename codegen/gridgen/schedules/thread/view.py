"""Data of the templates of the thread schedule: programs as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gridgen.functions.arrays import OPEN, configurations
from gridgen.kernel import Kernel, Shape
from gridgen.model.tree import KinematicTree
from gridgen.naming import comment, number_literal
from gridgen.schedules.thread.plan import Programs, has_pairs, plan_rows
from gridgen.schedules.views import (
    ArrayView,
    FunctionView,
    TableView,
    array_view,
    braces,
    called,
    definition,
    wrapped,
)
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.memory import Case, Choose, Constants, Leave, Repeat, Walk, When
from gridgen.symbolic.parts import (
    MAX_JOINED,
    MAX_JOINED_DOUBLE,
    ProgramPart,
    SplitProgram,
    split_program,
    with_fills,
)
from gridgen.symbolic.printer import angle_lines, angles_of, block_lines
from gridgen.symbolic.program import (
    PARKED,
    STORED,
    Block,
    Program,
    has_names,
    places,
    used_inputs,
)
from gridgen.symbolic.tiles import Staging

#: Most packs that each part of a long program computes before the next part: the instructions are
#: fetched once for all of them. The data of all packs (arguments, results, values between parts)
#: then leaves the first-level cache. Interleaving is slower where this data is large relative to
#: the program's length (gradients), or exceeds ``MAX_VALUES`` values.
MAX_PACKS = 4
MAX_VALUES = 2560
INSTRUCTIONS_OF_VALUE = 8

#: Instructions of the longest program that inlines the copies of results out of shared memory, and
#: loads its arguments into registers first: longer ones have dozens of copies and few registers.
MAX_INLINE = 3_000

#: Most tiles of a function's results with an inlined copy each: more tiles share one function.
MAX_COPIES = 16

#: Numbers of a state that a GPU thread loads at once into registers when it reads arrays without a
#: copy: a quarter of its registers.
MAX_LOADED = 64
#: Instructions of the longest program that loads all its numbers from shared memory first: a longer
#: one would have too few registers left.
MAX_READ = 1000

#: Instructions of the longest program that inlines all sines. A GPU executes 1.2 times as many, and
#: its instruction caches are assumed to hold 8192: longer programs call a function for each sine.
MAX_WITH_SINES = 6_500

_PHASES = {
    "start": "inputs",
    "placement": "placement in the parent",
    "base": "motion of the base",
    "outward": "motion and inertial force",
    "inward": "force propagated to the parent",
    "articulated": "articulated-body inertia and force propagated to the parent",
    "acceleration": "acceleration",
    "composite": "composite inertia propagated to the parent",
    "column": "column of the mass matrix",
    "axis": "column of the Jacobian",
    "pose": "pose in the world",
    "spheres": "centers of its spheres",
    "distance": "nearest pair and its distance",
    "frame": "pose of a link",
    "energy": "kinetic energy",
    "regressor": "regressor of its inertial parameters",
    "triples": "second derivatives with respect to it and its ancestors",
    "row": "derivatives of its joint torque",
    "response": "derivatives of the transmitted wrench by its motion",
    "solve": "factorization and solution",
    "actuators": "forces of actuators and springs",
    "sensor": "numbers of sensors",
    "constraint": "acceleration of the constraints without constraint forces",
    "forces": "constraint forces",
    "contact": "points that may touch the ground",
    "newton": "iteration of Newton's method",
    "step": "integration over the step",
    "excess": "excess over the bounds",
    "cost": "terms of the cost",
    "adjoint": "backward pass (adjoints)",
}


@dataclass(frozen=True)
class ThreadArrayView(ArrayView):
    """One argument of a function."""

    shape: Shape  #: for one state.
    parameter: str  #: its name in a parameter list, in comment signs if the robot does not need it.
    #: its type in a template: ``In``, ``Open`` for an input without a fixed length, or ``Out``,
    #: ``Out2``, ... for each result.
    kind: str = "In"
    #: of a result, for each element the index among its distinct elements.
    places: tuple[int, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it has no fixed length."""
        return OPEN in self.shape

    @property
    def distinct(self) -> int:
        """The number of distinct elements of a result."""
        return len(set(self.places)) or self.size

    @property
    def repeats(self) -> bool:
        """Whether some elements of a result are equal."""
        return self.distinct < self.size


@dataclass(frozen=True)
class BlockView:
    """Statements under a comment; no comment if they only begin or end loops."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class PartView:
    """One part of a function that is too long to be compiled in one piece."""

    name: str  #: ``forward_dynamics_gradient_part_3``.
    #: ``In q``, ``Out tau``, ``T* stored``: the function's parameters that it uses.
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]  #: their names.
    kinds: tuple[str, ...]  #: their types, except ``In``.
    blocks: tuple[BlockView, ...]  #: the body.
    has_numbers: bool  #: whether the body has real constants.
    is_joined: bool  #: whether a GPU inlines it.
    #: functions that call it, if it is printed for several.
    users: tuple[str, ...] = ()
    is_repeated: bool = False  #: whether another function's part is the same, and printed.

    @property
    def kinds_of_pack(self) -> tuple[str, ...]:
        """The types for a pack, whose parked values are in memory."""
        return tuple("T*" if kind == "Parked" else kind for kind in self.kinds)


@dataclass(frozen=True)
class MemoryView:
    """An array of loops in scratch memory: its name, offset, and numbers per record."""

    name: str
    start: int
    width: int


@dataclass(frozen=True)
class KernelView:
    """One kernel of a function."""

    name: str  #: ``inverse_dynamics_rows_kernel``.
    parameters: tuple[str, ...]  #: its parameter list, in lines.
    body: tuple[str, ...]  #: its call of ``run_states`` or ``run_rows``, in lines.


@dataclass(frozen=True)
class ThreadFunctionView(FunctionView):
    """One device function and its entry points."""

    inputs: tuple[ThreadArrayView, ...]
    outputs: tuple[ThreadArrayView, ...]
    title: tuple[str, ...]  #: what it computes, lines.
    cost: str  #: counts, one line.
    blocks: tuple[BlockView, ...]  #: the body; empty if there are parts.
    has_numbers: bool  #: whether the body has real constants.
    parts: tuple[PartView, ...]  #: functions that the body calls, in order.
    stored: int  #: number of values that the parts exchange, live at once.
    parked: int  #: number of additional long-lived values, which a GPU may park in shared memory.
    #: number of packs that a part computes before the next part does, or 0 if each pack runs all
    #: parts alone.
    packs: int
    scratch: int  #: number of values in the scratch memory of loops.
    memories: tuple[MemoryView, ...]  #: arrays in the scratch memory.
    traits: tuple[str, ...]  #: definitions of its ``gridgen::FunctionTraits``, in lines.
    has_rows: bool  #: whether there is a kernel for arrays in rows.
    is_joined: bool  #: whether a GPU inlines its parts, if any, into one function.
    is_joined_float: bool  #: whether it does so in float32 alone.
    is_own: bool = False  #: whether it is for CPUs only, in the namespace ``straight``.

    @property
    def names(self) -> str:
        """Its arrays, as arguments."""
        return ", ".join(array.name for array in self.arrays)

    @property
    def parameters_of_arrays(self) -> Sequence[str]:
        """Its arrays as parameters that all have names, in lines that end the list."""
        return self._parameters([array.name for array in self.inputs])

    @property
    def parameters(self) -> Sequence[str]:
        """Its parameters, in lines that end the list."""
        scratch, parked = ["Scratch scratch"], ["Parked parked"]
        more = (*scratch * bool(self.scratch), *parked * bool(self.parked))
        return self._parameters([array.parameter for array in self.inputs], *more)

    def _parameters(self, names: Sequence[str], *more: str) -> Sequence[str]:
        kinds = ("Open" if array.is_open else "gridgen::Same<In>" for array in self.inputs)
        inputs = (f"{kind} {name}" for kind, name in zip(kinds, names, strict=True))
        outputs = (f"{array.kind} {array.name}" for array in self.outputs)
        *words, last = (*inputs, *outputs, *more)
        return wrapped([*words, f"{last})"])

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the types of arrays that have their own."""
        own = (*self.outputs, *(array for array in self.inputs if array.is_open))
        return tuple(array.kind for array in own)

    @property
    def scope(self) -> str:
        """Its namespace, relative to the robot's."""
        return "simd::straight::" if self.is_own else ""

    @property
    def kernels(self) -> Iterable[KernelView]:
        """The GPU kernels: for arrays of any strides, and for arrays in rows."""
        inputs = [f"gridgen::Input<T> {array.name}" for array in self.inputs]
        outputs = [f"gridgen::Output<T> {array.name}" for array in self.outputs]
        scratch = ["scratch"] * bool(self.scratch)
        names = ("n", *(array.name for array in self.arrays), *scratch)
        for form in ("", "rows_")[: 1 + self.has_rows]:
            parameters = [*inputs, *outputs, *(f"gridgen::Output<T> {name}" for name in scratch)]
            run = f"gridgen::run_{form or 'states'}".rstrip("_")
            yield KernelView(
                f"{self.name}_{form}kernel",
                tuple(wrapped([*parameters, "long long n)"])),
                tuple(called(f"{run}<T, {self.name}_traits>", names)),
            )


def gpu_view(tree: KinematicTree, kernel: Kernel, programs: Programs) -> ThreadFunctionView:
    """Describe one function of the robot for a GPU thread."""
    program = programs.gpu
    return _function_view(tree, kernel, program, programs.gpu_parts, plan_rows(program))


def cpu_view(tree: KinematicTree, kernel: Kernel, programs: Programs) -> ThreadFunctionView:
    """Describe one function of the robot for a CPU, with a program of its own."""
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
    blocks = _block_views(tree, whole, program.variables, program)
    parts = () if split is None else split.parts
    indices = {name: index for index, name in program.variables.items()}
    inputs = tuple(_input_views(kernel.inputs, used_inputs(program)))
    outputs = tuple(_result_views(kernel, places(program)))
    packs = 0 if split is None else _packs(split, program.instructions, inputs, outputs)
    function = ThreadFunctionView(
        name=kernel.name,
        title=tuple(f"{kernel.title}.".splitlines()),
        source=kernel.source,
        inputs=inputs,
        outputs=outputs,
        cost=_cost(program),
        blocks=blocks,
        has_numbers=_has_numbers(blocks),
        parts=tuple(
            _part_view(tree, f"{kernel.name}_part_{k}", part, indices, program, inputs, outputs)
            for k, part in enumerate(parts, 1)
        ),
        stored=0 if split is None else split.stored,
        parked=0 if split is None else split.parked,
        packs=packs,
        scratch=program.scratch,
        memories=tuple(_memory_views(program)),
        traits=(),
        has_rows=staging is not None and staging.numbers > 0,
        is_joined=program.instructions <= MAX_JOINED,
        is_joined_float=MAX_JOINED_DOUBLE < program.instructions <= MAX_JOINED,
    )
    traits = (
        *_array_traits(function, len(configurations(kernel.inputs))),
        *(() if staging is None else _row_traits(function, program, staging)),
        *_pack_traits(function),
    )
    return replace(function, traits=tuple(line for text in traits for line in definition(text)))


def _array_traits(function: ThreadFunctionView, configurations: int) -> Iterable[str]:
    """Yield definitions that all kernels and entry points use."""
    shapes = [array.shape for array in (*function.inputs, *function.outputs)]
    yield f"gridgen::Axes axes[] = {braces(map(braces, shapes))}"
    numbers = {"inputs": len(function.inputs), "configurations": configurations}
    more = {"scratch": function.scratch, "stored": function.stored, "parked": function.parked}
    numbers |= {name: value for name, value in more.items() if value}
    yield f"int {', '.join(f'{name} = {value}' for name, value in numbers.items())}"


def _row_traits(function: ThreadFunctionView, program: Program, staging: Staging) -> Iterable[str]:
    """Yield definitions that the kernels of a GPU use."""
    is_short = program.instructions <= MAX_INLINE
    is_open = any(array.is_open for array in function.inputs)
    is_few = sum(array.size for array in function.inputs) <= MAX_LOADED
    is_loaded = is_short and is_few and not is_open
    begins = braces(staging.inputs.get(array.name, -1) for array in function.inputs)
    rows = [staging.results[array.name] for array in function.outputs]
    tiles = [tile for row in rows for tile in row.tiles]
    widths = braces(row.width for row in rows)
    yield f"int staged = {staging.numbers}, begins[] = {begins}, widths[] = {widths}"
    yield f"gridgen::Tile tiles[] = {braces(braces((tile.begin, tile.last)) for tile in tiles)}"
    words = {
        "is_loaded": is_loaded,
        "is_read": is_loaded and program.instructions <= MAX_READ,
        "is_apart": not is_short or len(tiles) > MAX_COPIES,
        "pairs": has_pairs(program),
    }
    if any(words.values()):
        yield f"bool {', '.join(f'{name} = true' for name, value in words.items() if value)}"


def _pack_traits(function: ThreadFunctionView) -> Iterable[str]:
    """Yield definitions that the entry point of a CPU uses."""
    places = [place for array in function.outputs if array.repeats for place in array.places]
    if places and not function.scratch:
        yield "bool repeats = true"
        distinct = braces(array.distinct for array in function.outputs)
        yield f"int distinct[] = {distinct}, places[] = {braces(places)}"
    if function.packs:
        yield f"int parts = {len(function.parts)}, packs = {function.packs}"


def constant_views(programs: Iterable[Program]) -> list[TableView]:
    """Return the constant arrays that loops and queries read, each once."""
    tables: dict[str, Constants] = {}
    for program in programs:
        tables |= program.tables
    return [_constant_view(table) for table in tables.values()]


def _constant_view(table: Constants) -> TableView:
    kind = "template <class R> GRIDGEN_TABLE R" if table.has_reals else "GRIDGEN_TABLE int"
    words = [number_literal(value) for value in table.values]
    return TableView("", f"{kind} {table.name}[{len(words)}]", tuple(wrapped(words)))


def _memory_views(program: Program) -> Iterable[MemoryView]:
    start = 0
    for memory in program.workspace:
        yield MemoryView(memory.name, start, memory.width)
        start += memory.size


def _cost(program: Program) -> str:
    if program.loops is not None:
        return f"{program.instructions:,} instructions, those of a loop counted once"
    return (
        f"{program.operations:,} floating-point operations ({program.dense_operations:,} generic), "
        f"{program.instructions:,} instructions"
    )


def _packs(
    split: SplitProgram,
    instructions: int,
    inputs: Sequence[ThreadArrayView],
    outputs: Sequence[ThreadArrayView],
) -> int:
    """Return how many packs each part computes before the next one, 0 for one pack alone."""
    arguments = sum(array.size for array in inputs)
    values = arguments + sum(array.distinct for array in outputs) + split.stored + split.parked
    if INSTRUCTIONS_OF_VALUE * values > instructions:
        return 0
    packs = min(MAX_PACKS, MAX_VALUES // values)
    return packs if packs > 1 else 0


def _part_view(
    tree: KinematicTree,
    name: str,
    part: ProgramPart,
    indices: Mapping[str, int],
    program: Program,
    inputs: Sequence[ThreadArrayView],
    outputs: Sequence[ThreadArrayView],
) -> PartView:
    typed = [(f"{array.kind} ", array.name) for array in inputs if array.name in part.arrays]
    typed += [(f"{array.kind} ", array.name) for array in outputs if array.name in part.arrays]
    typed += [("T* ", STORED)] * (STORED in part.arrays) + [("Parked ", PARKED)] * (
        PARKED in part.arrays
    )
    blocks = _block_views(tree, *part.written(indices), program)
    own = (*outputs, *(array for array in inputs if array.is_open))
    return PartView(
        name=name,
        parameters=tuple(kind + array for kind, array in typed),
        arguments=tuple(array for _, array in typed),
        kinds=tuple(array.kind for array in own if array.name in part.arrays)
        + ("Parked",) * (PARKED in part.arrays),
        blocks=blocks,
        has_numbers=_has_numbers(blocks),
        is_joined=program.instructions <= MAX_JOINED,
    )


def with_shared_parts(functions: Sequence[ThreadFunctionView]) -> list[ThreadFunctionView]:
    """Return functions whose equal parts have one name and one text: that of the first."""
    first: dict[PartView, str] = {}
    users: dict[str, list[str]] = {}
    for function in functions:
        for part in function.parts:
            name = first.setdefault(replace(part, name=""), part.name)
            users.setdefault(name, []).append(function.name)

    def shared(part: PartView) -> PartView:
        name = first[replace(part, name="")]
        callers = tuple(dict.fromkeys(users[name]))
        return replace(
            part,
            name=name,
            users=callers if len(callers) > 1 else (),
            is_repeated=name != part.name,
        )

    return [replace(one, parts=tuple(map(shared, one.parts))) for one in functions]


def _has_numbers(blocks: Sequence[BlockView]) -> bool:
    return any("R(" in line or "<R>" in line for block in blocks for line in block.lines)


def _input_views(inputs: Mapping[str, Shape], used: set[str]) -> Iterable[ThreadArrayView]:
    for name, shape in inputs.items():
        parameter = name if name in used else f"/* {name}: not needed by this robot */"
        kind = "Open" if OPEN in shape else "In"
        known = vars(array_view(name, shape))
        yield ThreadArrayView(**known, shape=shape, parameter=parameter, kind=kind)


def _result_views(
    kernel: Kernel, results: Mapping[str, Sequence[int]]
) -> Iterable[ThreadArrayView]:
    for number, (name, shape) in enumerate(kernel.outputs.items(), 1):
        yield ThreadArrayView(
            **vars(array_view(name, shape, kernel.kind(name))),
            shape=shape,
            parameter=name,
            kind=f"Out{number}" if number > 1 else "Out",
            places=tuple(results.get(name, ())),
        )


def _block_views(
    tree: KinematicTree, blocks: Sequence[Block], variables: Mapping[int, str], program: Program
) -> tuple[BlockView, ...]:
    """Describe consecutive statements, preceded by their common range reduction."""
    known = () if program.loops else angles_of(blocks, variables)
    angles = known if len(known) > 1 else ()
    are_called = program.instructions > MAX_WITH_SINES
    first = (
        [BlockView("// range reduction of all angles", tuple(angle_lines(angles, are_called)))]
        if angles
        else []
    )
    return (*first, *(_block_view(tree, block, variables, program, angles) for block in blocks))


def _block_view(
    tree: KinematicTree,
    block: Block,
    variables: Mapping[int, str],
    program: Program,
    angles: Sequence[Expr],
) -> BlockView:
    phase = _PHASES[block.phase]
    if block.body < 0:
        title = phase
    else:
        title = f"{_body_title(tree, block.body, program)}: {phase}"
    indent = "    " * block.depth
    lines = (f"{indent}{line}" for line in block_lines(block, variables, angles))
    is_said = any(
        not isinstance(s, (Walk, Repeat, When, Case, Leave, Choose)) for s in block.statements
    )
    return BlockView(f"{indent}// {title}" if is_said else "", tuple(lines))


def _body_title(tree: KinematicTree, index: int, program: Program) -> str:
    """Return the name of a body for a comment."""
    body = tree.bodies[index]
    if not has_names(len(tree.bodies), program.instructions):
        return f"{index} {comment(body.name)}"
    parent = "the base" if body.parent < 0 else comment(tree.bodies[body.parent].name)
    return f"{comment(body.name)} ({body.kind} {comment(body.joint)} on {parent})"
