"""Runs of equal constants in a result, stored as one.

Matrices of branched robots, and those of configurations above all, are mostly zeros. Stored one by
one they are most of a program's text, and on a GPU each takes an instruction of its own.
"""

from __future__ import annotations

from dataclasses import replace

from gridgen.symbolic.program import AnyStatement, Block, Fill, Store


def with_fills(block: Block) -> Block:
    """Return a block that stores runs of equal constants as one."""
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
