"""Operation counts per state of programs with loops, over all iterations."""

from __future__ import annotations

import sys

from gridgen.symbolic.memory import (
    Case,
    Choose,
    ChosenWalk,
    Header,
    Leave,
    Line,
    Repeat,
    Walk,
    When,
)
from gridgen.symbolic.program import Program

#: Iterations of a loop that ends by convergence, for predictions of time.
TYPICAL = 5
_STEPS = {"++": "{} += 1", "--": "{} -= 1"}


def work_per_state(program: Program, converging: int = TYPICAL) -> tuple[int, int]:
    """Return the operations and the instructions per state.

    Args:
        program:    the program.
        converging: iterations of a loop that ends by convergence, at most its own limit.
    """
    if program.loops is None:
        return program.operations, program.instructions
    iterations = _iterations(program, converging)
    return (
        sum(iterations[block] * operations for block, (operations, _) in program.work.items()),
        sum(iterations[block] * instructions for block, (_, instructions) in program.work.items()),
    )


def worst_case(program: Program) -> str:
    """Return the instructions of any state in words."""
    _, instructions = work_per_state(program, sys.maxsize)
    marks = () if program.loops is None else program.loops.marks.values()
    varies = any(isinstance(mark, Repeat | ChosenWalk) for found in marks for mark in found)
    if program.has_queries:
        return f"at most {instructions:,} instructions, and distances that iterate"
    if varies:
        return f"at most {instructions:,} instructions: it iterates until it converges"
    kind = "a straight line" if program.loops is None else "loops of fixed length"
    return f"{instructions:,} instructions for every state, in {kind}"


def _iterations(program: Program, converging: int) -> dict[int, int]:
    """Return the number of runs of each block, by executing its loops and branches only."""
    assert program.loops is not None
    marks, lines = program.loops.marks, list[str]()
    ends: list[str] = []
    for block in sorted({*marks, *program.work}):
        for mark in marks.get(block, ()):
            if isinstance(mark, Choose):
                continue
            indent = "    " * len(ends)
            if isinstance(mark, Leave):
                lines.append(indent + ends.pop())
                continue
            assert not isinstance(mark, (Header, Line))  # of teams
            lines += [indent + line for line in _heads(mark, converging)]
            ends.append(_step(mark) if isinstance(mark, Walk) else "pass")
        if block in program.work:
            lines.append(f"{'    ' * len(ends)}iterations[{block}] += 1")
    iterations = dict.fromkeys(program.work, 0)
    tables = {name: table.values for name, table in program.loops.tables.items()}
    exec("\n".join(lines), {**tables, "iterations": iterations})
    return iterations


def _heads(mark: Walk | Repeat | When | Case, converging: int) -> list[str]:
    """Return the header of a loop or a branch in Python; the text of the program is C++."""
    if isinstance(mark, Repeat):
        return [f"for {mark.variable} in range({min(mark.most, converging)}):"]
    if isinstance(mark, Walk):
        return [f"{mark.variable} = {_whole(mark.first)}", f"while {_whole(mark.going)}:"]
    if isinstance(mark, When):
        return [f"if {mark.index} < {mark.ends.name}[{mark.place}]:"]
    if mark.number == mark.count - 1:
        return ["else:"]
    word = "elif" if mark.number else "if"
    return [f"{word} {mark.kinds.name}[{mark.variable}] == {mark.number}:"]


def _step(walk: Walk) -> str:
    return _STEPS.get(walk.step[:2], walk.step).format(walk.variable)


def _whole(text: str) -> str:
    """Return integer C++ text in Python, where division has another operator."""
    return text.replace(" / ", " // ")
