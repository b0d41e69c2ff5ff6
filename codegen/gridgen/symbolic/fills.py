"""Combines runs of equal constants in a result into one statement.

Matrices of branched robots, and those of configurations above all, are mostly zeros. Individual
stores would be most of a program's text, and on a GPU each takes an instruction.
"""

from __future__ import annotations

from dataclasses import replace

from gridgen.symbolic.program import AnyStatement, Block, Fill, Store


def with_fills(block: Block) -> Block:
    """Return a block with one ``Fill`` for each run of equal constants."""
    statements: list[AnyStatement] = []
    for statement in block.statements:
        if not (isinstance(statement, Store) and statement.value.op == "const"):
            statements.append(statement)
            continue
        array, index, value = statement.array, statement.index, statement.value
        before = statements[-1] if statements else None
        if isinstance(before, Fill) and (before.array, before.end) == (array, index):
            if before.value is value:
                statements[-1] = Fill(array, before.begin, index + 1, value)
                continue
        statements.append(Fill(array, index, index + 1, value))
    return replace(
        block, statements=[_unless_short(s) if isinstance(s, Fill) else s for s in statements]
    )


def _unless_short(fill: Fill) -> Store | Fill:
    return fill if fill.end - fill.begin > 1 else Store(fill.array, fill.begin, fill.value)
