"""The control flow of a PTX function: basic blocks, dominators, loops."""

from __future__ import annotations

from dataclasses import dataclass, field

from fake_gpu.ptx.parser import Function, Instruction, Label


@dataclass
class Block:
    """Instructions that run one after the other.

    Attributes:
        number:   place in the function's order: after all blocks before it, back edges apart.
        code:     instructions.
        after:    numbers of the blocks that follow, each with the guard of the branch to it.
        before:   numbers of the blocks that it follows.
        dominator: the last block that is on every path to it.
        loops:    headers of the loops that contain it, outermost first.
    """

    number: int
    code: list[Instruction]
    after: list[tuple[int, str]] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    dominator: int = 0
    loops: tuple[int, ...] = ()


def blocks_of(function: Function) -> list[Block]:
    """Return the blocks that can be reached, each after its predecessors, except by back edges."""
    raw, labels = _split(function)
    ends = [_targets(i, code, labels, len(raw)) for i, code in enumerate(raw)]
    order: list[int] = []
    seen: set[int] = set()
    stack = [(0, iter([target for target, _ in ends[0]]))]
    seen.add(0)
    while stack:
        at, targets = stack[-1]
        target = next((t for t in targets if t not in seen), None)
        if target is None:
            order.append(at)
            stack.pop()
        else:
            seen.add(target)
            stack.append((target, iter([t for t, _ in ends[target]])))
    order.reverse()
    place = {old: new for new, old in enumerate(order)}
    blocks = [Block(i, raw[old]) for i, old in enumerate(order)]
    for block, old in zip(blocks, order, strict=True):
        block.after = [(place[target], guard) for target, guard in ends[old]]
        for target, _ in block.after:
            blocks[target].before.append(block.number)
    _dominate(blocks)
    _find_loops(blocks)
    return blocks


def _split(function: Function) -> tuple[list[list[Instruction]], dict[str, int]]:
    raw: list[list[Instruction]] = [[]]
    labels: dict[str, int] = {}
    for statement in function.body:
        if isinstance(statement, Label):
            if raw[-1]:
                raw.append([])
            labels[statement.name] = len(raw) - 1
        elif isinstance(statement, Instruction):
            raw[-1].append(statement)
            if statement.opcode.startswith(("bra", "ret", "trap")):
                raw.append([])
    return raw, labels


def _targets(
    i: int, code: list[Instruction], labels: dict[str, int], count: int
) -> list[tuple[int, str]]:
    last = code[-1] if code else None
    following = [(i + 1, "")] if i + 1 < count else []
    if last is None:
        return following
    if last.opcode.startswith("bra"):
        target = labels[last.operands[0]]
        if not last.guard:
            return [(target, "")]
        opposite = last.guard[1:] if last.guard.startswith("!") else f"!{last.guard}"
        return [(target, last.guard), (i + 1, opposite)]
    if last.opcode.startswith(("ret", "trap")) and not last.guard:
        return []
    return following


def _dominate(blocks: list[Block]) -> None:
    """Set dominators; each comes before the block in the order."""
    known = {0}
    changed = True
    while changed:
        changed = False
        for block in blocks[1:]:
            found: int | None = None
            for other in block.before:
                if other in known:
                    found = other if found is None else _common(blocks, found, other)
            assert found is not None
            if block.number not in known or block.dominator != found:
                block.dominator, changed = found, True
                known.add(block.number)


def _common(blocks: list[Block], one: int, other: int) -> int:
    while one != other:
        if one > other:
            one = blocks[one].dominator
        else:
            other = blocks[other].dominator
    return one


def dominates(blocks: list[Block], one: int, other: int) -> bool:
    while other > one:
        other = blocks[other].dominator
    return one == other


def _find_loops(blocks: list[Block]) -> None:
    for header in blocks:
        members = {header.number}
        waiting = [b for b in header.before if b >= header.number]
        for end in waiting:
            if not dominates(blocks, header.number, end):
                raise ValueError(f"block {header.number}: a loop with two entries")
        while waiting:
            at = waiting.pop()
            if at not in members:
                members.add(at)
                waiting += blocks[at].before
        if len(members) > 1 or header.number in header.before:
            for member in members:
                blocks[member].loops += (header.number,)
