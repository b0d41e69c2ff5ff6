"""Operation counts per state of programs with loops, over all iterations."""

from __future__ import annotations

from gridgen.symbolic.memory import Case, Choose, Header, Leave, Line, Repeat, Walk, When
from gridgen.symbolic.program import Program

#: Iterations of a loop that ends by convergence, for predictions of time.
TYPICAL = 5
_STEPS = {"++": "{} += 1", "--": "{} -= 1"}


def work_per_state(program: Program) -> tuple[int, int]:
    """Return the operations and the instructions per state."""
    if program.loops is None:
        return program.operations, program.instructions
    iterations = _iterations(program)
    return (
        sum(iterations[block] * operations for block, (operations, _) in program.work.items()),
        sum(iterations[block] * instructions for block, (_, instructions) in program.work.items()),
    )


def _iterations(program: Program) -> dict[int, int]:
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
            lines += [indent + line for line in _heads(mark)]
            ends.append(_step(mark) if isinstance(mark, Walk) else "pass")
        if block in program.work:
            lines.append(f"{'    ' * len(ends)}iterations[{block}] += 1")
    iterations = dict.fromkeys(program.work, 0)
    tables = {name: table.values for name, table in program.loops.tables.items()}
    exec("\n".join(lines), {**tables, "iterations": iterations})
    return iterations


def _heads(mark: Walk | Repeat | When | Case) -> list[str]:
    """Return the header of a loop or a branch in Python; the text of the program is C++."""
    if isinstance(mark, Repeat):
        return [f"for {mark.variable} in range({min(mark.most, TYPICAL)}):"]
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
