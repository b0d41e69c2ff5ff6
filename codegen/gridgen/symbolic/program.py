"""Traced programs: inputs, statements grouped by body, outputs, and operation counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from gridgen.naming import Names
from gridgen.symbolic.expr import ARITHMETIC, Expr, reachable
from gridgen.symbolic.fuse import Fused, fuse, rewritten, unsigned
from gridgen.symbolic.memory import (
    Case,
    Choose,
    Constants,
    Entries,
    Header,
    Input,
    Leave,
    Line,
    Memory,
    MemoryEntry,
    Query,
    Record,
    Repeat,
    Walk,
    When,
)
from gridgen.symbolic.trace import Loops, TraceScalars

#: Instructions of the longest program with the names of bodies in its variables, and bodies of the
#: largest robot with them. Names would be a third of the text of others: their variables have the
#: numbers in each file's table of bodies.
MAX_NAMED_PROGRAM, MAX_NAMED_BODIES = 2500, 8

#: Maximum number of operands of an expression; longer ones are split into statements.
_MAX_EXPRESSION = 8
#: Operations that always have their own statement.
_STATED = frozenset("sin cos div sign sqrt exp log atan2 select read".split())


@dataclass(frozen=True)
class Array:
    """An argument of a function: its name and its number of elements per state."""

    name: str
    size: int


@dataclass(frozen=True)
class Statement:
    """``name = node``, including the operands of ``node`` without a statement."""

    name: str
    node: Expr


@dataclass(frozen=True)
class SineCosine:
    """The sine and the cosine of one angle, computed together."""

    sine: str
    cosine: str
    angle: Expr


@dataclass(frozen=True)
class Queried:
    """The results of a query."""

    names: tuple[str, ...]
    node: Expr


@dataclass(frozen=True)
class Store:
    """``array[index] = value``."""

    array: str
    index: int
    value: Expr


@dataclass(frozen=True)
class Fill:
    """``array[index] = value`` for every index from ``begin`` to ``end``, excluding ``end``."""

    array: str
    begin: int
    end: int
    value: Expr


#: The arrays that pass values between the parts of a long program.
STORED, PARKED = "stored", "parked"


@dataclass(frozen=True)
class Keep:
    """``array[slot] = name``, or a value without a name: for later parts of a program."""

    name: str
    array: str
    slot: int
    value: Expr | None = None


@dataclass(frozen=True)
class Load:
    """``name = array[slot]``: a value of an earlier part."""

    name: str
    array: str
    slot: int


@dataclass(frozen=True)
class Write:
    """``place = value``, with a computed index."""

    place: MemoryEntry
    value: Expr


@dataclass(frozen=True)
class Publish:
    """Stores consecutive numbers."""

    record: Record
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Clear:
    """Assigns a constant to an entry of all records."""

    entries: Entries
    value: Expr


@dataclass(frozen=True)
class Declare:
    """Declares variables that loops change."""

    memory: Memory


AnyStatement: TypeAlias = (
    Statement
    | SineCosine
    | Queried
    | Store
    | Fill
    | Keep
    | Load
    | Write
    | Publish
    | Clear
    | Declare
    | Walk
    | Repeat
    | When
    | Case
    | Header
    | Line
    | Leave
    | Choose
)


@dataclass
class Block:
    """The statements of one phase of an algorithm at one body, in ``depth`` nested loops."""

    phase: str
    body: int
    statements: list[AnyStatement] = field(default_factory=list)
    depth: int = 0


class ScheduledStatement(NamedTuple):
    """A statement with its dependencies."""

    statement: Statement | SineCosine | Queried | Store | Fill  #: the statement.
    block: Block  #: block of the statement.
    reads: tuple[str, ...]  #: names of its operands.
    defines: tuple[str, ...]  #: names of its results.
    arrays: frozenset[str]  #: names of the arrays in its text.
    instructions: int  #: number of instructions; a store counts as one.

    @classmethod
    def of(
        cls,
        statement: Statement | SineCosine | Queried | Store | Fill,
        block: Block,
        variables: dict[int, str],
    ) -> ScheduledStatement:
        """Analyze a statement."""
        defines: tuple[str, ...] = ()
        if isinstance(statement, Statement):
            root, defines = statement.node, (statement.name,)
        elif isinstance(statement, SineCosine):
            root, defines = statement.angle, (statement.sine, statement.cosine)
        elif isinstance(statement, Queried):
            root, defines = statement.node, statement.names
        else:
            root = statement.value
        reads: dict[str, None] = {}
        arrays = {statement.array} if isinstance(statement, (Store, Fill)) else set()
        instructions = 2 * isinstance(statement, SineCosine) + bool(arrays)
        pending: list[Expr] = [root]
        while pending:
            node = pending.pop()
            name = variables.get(node.index)
            if name is not None and name not in defines:
                reads[name] = None
                continue
            instructions += node.op in ARITHMETIC
            pending.extend(reversed(node.args))
            if node.op == "input":
                assert isinstance(node.value, tuple)
                arrays.add(node.value[0])
            elif isinstance(node.value, Query):
                arrays.update(node.value.arrays)
                instructions += len(node.args)
        return cls(statement, block, tuple(reads), defines, frozenset(arrays), instructions)


@dataclass(frozen=True)
class Program:
    """A function: straight-line code, or code with loops."""

    inputs: tuple[Array, ...]  #: input arrays.
    outputs: tuple[Array, ...]  #: output arrays, written completely.
    blocks: tuple[Block, ...]  #: the statements, operands before their users.
    nodes: tuple[Expr, ...]  #: all nodes that the outputs depend on, operands first.
    variables: dict[int, str]  #: names of the nodes that have one, by index.
    #: floating-point operations per state; those of a loop count once (``turns.work_per_state``).
    operations: int
    instructions: int  #: instructions per state, with fused multiply-adds.
    dense_operations: int  #: operations of the algorithm without specialization; 0 if not counted.
    #: constant arrays, by name.
    tables: Mapping[str, Constants] = field(default_factory=dict, hash=False)
    loops: Loops | None = None  #: memory and loops of a program with loops, otherwise ``None``.
    #: operations and instructions of each block of a program with loops, by its number in the
    #: trace.
    work: Mapping[int, tuple[int, int]] = field(default_factory=dict, hash=False)
    #: statements that are analyzed, by identity.
    steps: Mapping[int, ScheduledStatement] = field(default_factory=dict, hash=False, compare=False)

    @property
    def workspace(self) -> list[Memory]:
        """Workspace memory of loops."""
        scratch = [] if self.loops is None else self.loops.scratch
        return [memory for memory in scratch if memory.size and not memory.is_result]

    @property
    def has_queries(self) -> bool:
        """Whether it contains a query."""
        return any(node.op == "query" for node in self.nodes)

    @property
    def scratch(self) -> int:
        """Workspace numbers per state."""
        return sum(memory.size for memory in self.workspace)


def places(program: Program) -> dict[str, list[int]]:
    """Number the distinct values of every output; return each element's number.

    Empty for a program with loops.
    """
    if program.loops is not None:
        return {}
    numbers: dict[str, dict[int, int]] = {array.name: {} for array in program.outputs}
    values = {array.name: [0] * array.size for array in program.outputs}
    for block in program.blocks:
        for statement in block.statements:
            if isinstance(statement, Store):
                values[statement.array][statement.index] = statement.value.index
    return {
        name: [numbers[name].setdefault(value, len(numbers[name])) for value in elements]
        for name, elements in values.items()
    }


def stored(program: Program, array: str) -> list[Expr] | None:
    """Return the value of every element of an output; ``None`` for a program with loops."""
    if program.loops is not None:
        return None
    values = {
        statement.index: statement.value
        for block in program.blocks
        for statement in block.statements
        if isinstance(statement, Store) and statement.array == array
    }
    return [values[index] for index in range(len(values))]


def is_zero(program: Program, array: str) -> list[bool] | None:
    """Return whether each element of an output is zero; ``None`` if not known."""
    values = stored(program, array)
    if values is None:
        return None
    return [node.op == "const" and node.value == 0.0 for node in values]


def dependencies(program: Program, array: str) -> list[set[tuple[str, int]]] | None:
    """Return the elements of inputs that every element of an output depends on.

    Returns:
        names and indices; ``None`` if not known.
    """
    values = stored(program, array)
    if values is None:
        return None
    read: dict[int, frozenset[tuple[str, int]]] = {}
    for node in program.nodes:
        if isinstance(node.value, tuple):
            read[node.index] = frozenset([node.value])
        else:
            read[node.index] = frozenset().union(*(read[operand.index] for operand in node.args))
    return [set(read[node.index]) for node in values]


def used_inputs(program: Program) -> set[str]:
    """Return the names of the arguments that a program reads."""
    used: set[str] = set()
    for node in program.nodes:
        if node.op == "input":
            assert isinstance(node.value, tuple)
            used.add(node.value[0])
        elif isinstance(node.value, Query):
            used |= set(node.value.arrays)
        elif isinstance(node.value, MemoryEntry) and isinstance(node.value.memory, Input):
            used.add(node.value.memory.name)
    return used


def has_names(bodies: int, instructions: int) -> bool:
    """Return whether the variables of a program have the names of bodies."""
    return bodies <= MAX_NAMED_BODIES and instructions <= MAX_NAMED_PROGRAM


def build_program(
    trace: TraceScalars,
    inputs: Sequence[Array],
    outputs: Sequence[tuple[Array, Sequence[Expr]]],
    body_idents: Sequence[str],
    dense_operations: int,
) -> Program:
    """Convert the nodes that the outputs depend on to statements.

    Args:
        trace:            scalars of the algorithm's run.
        inputs:           input arrays, in order.
        outputs:          output arrays, in order, with one node per element.
        body_idents:      distinct identifiers of the bodies; see ``has_names``.
        dense_operations: operation count of the algorithm without specialization.
    """
    roots = [node for _, nodes in outputs for node in nodes] + trace.loops.effects
    chains = fuse(roots, trace.names)
    trace, outputs = _fused(chains, trace, outputs)
    roots = [node for _, nodes in outputs for node in nodes] + trace.loops.effects
    nodes = reachable(roots)
    uses = _count_uses(nodes, roots)
    stated = _stated(trace, nodes, uses)
    instructions = sum(node.op in ARITHMETIC for node in nodes)
    if not has_names(len(body_idents), instructions):
        body_idents = [str(body) for body in range(len(body_idents))]
    names = Names(array.name for array in (*inputs, *(array for array, _ in outputs)))
    _name_memories(trace.loops, names)
    variables = _variables(trace, nodes, stated, body_idents, names)
    blocks = [
        Block(phase, body, [*trace.loops.marks.get(index, ())], trace.loops.depths.get(index, 0))
        for index, (phase, body) in enumerate(trace.blocks)
    ]
    loads = _place_statements(blocks, nodes, variables, names)
    for array, elements in outputs:
        for index, node in enumerate(elements):
            block = loads.get(node.index, node.block)
            blocks[block].statements.append(Store(array.name, index, node))
    return Program(
        inputs=tuple(inputs),
        outputs=tuple(array for array, _ in outputs),
        blocks=tuple(block for block in without_empty_loops(blocks) if block.statements),
        nodes=tuple(nodes),
        variables=variables,
        operations=chains.operations,
        instructions=instructions,
        dense_operations=dense_operations,
        loops=trace.loops if trace.loops.effects else None,
        tables=trace.loops.tables,
        work=_work(chains.nodes, nodes) if trace.loops.effects else {},
    )


def _work(nodes: Iterable[Expr], fused: Iterable[Expr]) -> dict[int, tuple[int, int]]:
    """Return the operations and the instructions of each block, without and with fusion."""
    before, after = (
        Counter(node.block for node in some if node.op in ARITHMETIC) for some in (nodes, fused)
    )
    return {block: (before[block], after[block]) for block in {*before, *after}}


def _fused(
    chains: Fused, trace: TraceScalars, outputs: Sequence[tuple[Array, Sequence[Expr]]]
) -> tuple[TraceScalars, Sequence[tuple[Array, Sequence[Expr]]]]:
    """Return names and outputs for nodes with fused multiply-adds."""
    new = rewritten(chains)
    fused = TraceScalars()
    fused.blocks = trace.blocks
    effects = [new[node.index] for node in trace.loops.effects]
    fused.loops = replace(trace.loops, effects=effects)
    for index, name in trace.names.items():
        if index in new and unsigned(new[index])[1].op not in ("const", "input", "read"):
            fused.names.setdefault(new[index].index, name)

    def value(node: Expr) -> Expr:
        negative, node = unsigned(node)
        return new[node.index].graph.neg(new[node.index]) if negative else new[node.index]

    return fused, [(array, [value(node) for node in nodes]) for array, nodes in outputs]


def _count_uses(nodes: Sequence[Expr], roots: Sequence[Expr]) -> dict[int, int]:
    """Count the readers of each node; readers of a negative read the node without its sign."""
    uses = dict.fromkeys([node.index for node in nodes], 0)
    sines = {node.args[0].index for node in nodes if node.op == "sin"}
    for root in roots:
        uses[unsigned(root)[1].index] += 1
    for node in nodes:
        if node.op == "neg" or (node.op == "cos" and node.args[0].index in sines):
            continue  # a sine and cosine read the angle together, once
        for operand in node.args:
            uses[operand.args[0].index if operand.op == "neg" else operand.index] += 1
    return uses


def _stated(trace: TraceScalars, nodes: Sequence[Expr], uses: dict[int, int]) -> set[int]:
    """Choose the nodes that become statements; others are part of their only user.

    Negatives have no statement: their readers apply the sign.
    """
    stated: set[int] = set()
    size: dict[int, int] = {}
    for node in nodes:
        if node.op == "neg":
            continue
        operands = 0
        read = [operand.args[0] if operand.op == "neg" else operand for operand in node.args]
        if node.op in ("query", "part"):
            results = read if node.op == "query" else [node]
            stated |= {result.index for result in results if result.op not in ("const", "input")}
            size |= dict.fromkeys([node.index, *(operand.index for operand in read)], 1)
            continue
        # If an expression is too long, its largest operands get their own statements first.
        for operand in sorted(read, key=lambda arg: size[arg.index]):
            inlined = operand.index not in stated and operand.op not in ("const", "input")
            foreign = inlined and operand.block != node.block
            if foreign or operands + size[operand.index] > _MAX_EXPRESSION:
                stated.add(operand.index)
                size[operand.index] = 1
            operands += size[operand.index]
        size[node.index] = max(operands, 1)
        leaf = node.op == "const" or (node.op == "input" and uses[node.index] < 2)
        if leaf or node.op in ("write", "fill", "declare"):
            continue
        named = node.index in trace.names or node.op in _STATED
        if named or uses[node.index] > 1:
            stated.add(node.index)
            size[node.index] = 1
    return stated


def _name_memories(loops: Loops, names: Names) -> None:
    """Give memory and loop variables unique names."""
    for marks in loops.marks.values():
        for variable in {mark.variable for mark in marks if isinstance(mark, (Walk, Repeat))}:
            if variable not in names:  # consecutive loops share one
                names.fresh(variable)
    declared = [effect.value for effect in loops.effects if effect.op == "declare"]
    for memory in (*loops.scratch, *declared):
        assert isinstance(memory, Memory)
        if not memory.is_result:
            memory.name = names.fresh(memory.name, memory.endings)


def _variables(
    trace: TraceScalars,
    nodes: Sequence[Expr],
    stated: set[int],
    body_idents: Sequence[str],
    names: Names,
) -> dict[int, str]:
    """Name every stated node: the textbook's symbol and the body, or a numbered temporary.

    An element of q is q_1 instead of q1 if an array has that name. The forces of a body accumulate
    over its children: f_arm_x, then f_arm_x_2, ...
    """
    variables: dict[int, str] = {}
    temporaries = 0
    for node in nodes:
        if node.index not in stated:
            continue
        if node.op == "input":
            assert isinstance(node.value, tuple)
            array, place = node.value
            stem = f"{array}{place}"
            if stem in names:
                stem = f"{array}_{place}"
        elif node.op == "part":
            query = node.args[0].value
            assert isinstance(query, Query)
            assert isinstance(node.value, float)
            number = int(node.value)
            if query.record:
                if node.args[0].index not in variables:
                    variables[node.args[0].index] = names.fresh(query.record)
                variables[node.index] = f"{variables[node.args[0].index]}[{number}]"
                continue
            stem = query.results[number]
        elif (known := trace.names.get(node.index)) and known[0]:
            symbol, body, component = known
            owner = "body" if body is None else body_idents[body] if body >= 0 else "base"
            stem = "_".join(part for part in (symbol, owner, component) if part)
        else:
            stem = f"t{temporaries}"
            temporaries += 1
        variables[node.index] = names.fresh(stem)
    return variables


def _place_statements(
    blocks: Sequence[Block], nodes: Sequence[Expr], variables: dict[int, str], names: Names
) -> dict[int, int]:
    """Add every statement to its block; return the blocks that read inputs."""
    pairs: dict[int, dict[str, str]] = {}
    for node in nodes:
        if node.op in ("sin", "cos"):
            pairs.setdefault(node.args[0].index, {})[node.op] = variables[node.index]
    parts = {
        (node.args[0].index, node.value): variables[node.index]
        for node in nodes
        if node.op == "part"
    }
    loads: dict[int, int] = {}
    for node in nodes:
        for operand in node.args:
            if operand.op == "input":
                first = min(loads.get(operand.index, node.block), node.block)
                loads[operand.index] = 0 if blocks[first].depth else first
    for node in nodes:
        if node.op in ("write", "fill", "declare"):
            blocks[node.block].statements.append(_action(node))
        if isinstance(node.value, Query):
            found = (
                [variables[node.index]]
                if node.value.record
                else [
                    parts.get((node.index, k)) or names.fresh(f"unused_{name}")
                    for k, name in enumerate(node.value.results)
                ]
            )
            blocks[node.block].statements.append(Queried(tuple(found), node))
        if node.index not in variables or node.op in ("part", "query"):
            continue
        if node.op in ("sin", "cos"):
            pair = pairs.pop(node.args[0].index, None)
            if pair is not None:
                other = variables[node.index]
                sine = pair.get("sin") or names.fresh(f"sine_{other}")
                cosine = pair.get("cos") or names.fresh(f"cosine_{other}")
                blocks[node.block].statements.append(SineCosine(sine, cosine, node.args[0]))
        else:
            block = loads.get(node.index, node.block)
            blocks[block].statements.append(Statement(variables[node.index], node))
    return loads


def _action(node: Expr) -> Write | Publish | Clear | Declare:
    """Return the statement of a node that changes memory."""
    if isinstance(node.value, MemoryEntry):
        return Write(node.value, node.args[0])
    if isinstance(node.value, Record):
        return Publish(node.value, node.args)
    if isinstance(node.value, Entries):
        return Clear(node.value, node.args[0])
    assert isinstance(node.value, Memory)
    return Declare(node.value)


def without_empty_loops(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks without empty loops."""
    busy: list[bool] = []  # of the open loops and branches
    begins: list[tuple[int, int]] = []
    empty: set[tuple[int, int]] = set()  # positions of statements
    for number, block in enumerate(blocks):
        for place, statement in enumerate(block.statements):
            if isinstance(statement, (Walk, Repeat, When, Case, Header)):
                begins.append((number, place))
                busy.append(False)
            elif isinstance(statement, Leave):
                begin, was_busy = begins.pop(), busy.pop()
                if was_busy and busy:
                    busy[-1] = True
                is_loop = isinstance(blocks[begin[0]].statements[begin[1]], Walk)
                if is_loop and not was_busy:
                    empty |= {(number, place), begin}
                    empty |= {at for at in _marks(blocks, begin, (number, place))}
            elif busy:
                busy[-1] = True
    return [
        replace(
            block,
            statements=[s for place, s in enumerate(block.statements) if (n, place) not in empty],
        )
        for n, block in enumerate(blocks)
    ]


def _marks(
    blocks: Sequence[Block], begin: tuple[int, int], end: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    """Yield the positions between two where a branch begins or ends."""
    for number in range(begin[0], end[0] + 1):
        for place, _ in enumerate(blocks[number].statements):
            if begin < (number, place) < end:
                yield number, place
