"""Statements with their operands, results and costs, for passes over a program."""

from __future__ import annotations

from gridgen.symbolic.expr import ARITHMETIC, Expr
from gridgen.symbolic.memory import Query
from gridgen.symbolic.program import (
    Block,
    Fill,
    Queried,
    ScheduledStatement,
    SineCosine,
    Statement,
    Store,
)


def step_of(
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
    return ScheduledStatement(
        statement, block, tuple(reads), defines, frozenset(arrays), instructions
    )
