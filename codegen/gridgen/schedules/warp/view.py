"""Data of the templates of the warp schedule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gridgen.dynamics.base_bodies import floats
from gridgen.kernel import WARP, Kernel
from gridgen.model.tree import KinematicTree
from gridgen.naming import number_literal
from gridgen.schedules.views import FunctionView, TableView, array_view, braced
from gridgen.schedules.warp.plan import WarpPlan, width_of
from gridgen.symbolic.lanes import Area, LaneProgram
from gridgen.symbolic.printer import block_lines

#: Warps of a multiprocessor at least, with floats: leaves 168 registers for each thread. With all
#: 255 registers, solutions would have 8 warps, too few to hide latency.
_WARPS = 12
_NUMBERS = re.compile(r"numbers<T>\[(\d+)\]")


@dataclass(frozen=True)
class WarpView:
    """The teams of a robot."""

    width: int  #: lanes of a team.
    is_valid_always: bool  #: whether teams beyond the batch end.
    layout: str  #: how states map to threads, one line.
    root: str  #: what lane 0 has.


@dataclass(frozen=True)
class PhaseView:
    """Statements under a comment."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class WarpFunctionView(FunctionView):
    """One device function and its kernel, ``<name>_kernel``."""

    title: tuple[str, ...]  #: description of the computation and its source, as lines.
    cost: str  #: counts, one line.
    numbers: tuple[tuple[str, ...], ...]  #: constants of the lanes, rows of one table.
    tables: tuple[TableView, ...]  #: indices of the lanes.
    areas: tuple[Area, ...]  #: arrays in the shared memory of a team.
    blocks: tuple[PhaseView, ...]  #: the program of a lane.
    shared: int  #: numbers of shared memory of a team.
    threads: int  #: of a block.
    states: int  #: of a block.
    resident: int  #: blocks of a multiprocessor at least, with floats.


def warp_view(tree: KinematicTree) -> WarpView:
    """Describe the teams of a robot."""
    width = width_of(tree)
    layout = f"{width} threads for each state"
    return WarpView(
        width,
        width >= WARP,
        f"{width} lanes of a warp for each state" if width <= WARP else layout,
        "the root body" if floats(tree) else "the fixed base",
    )


def warp_function_view(kernel: Kernel, plan: WarpPlan) -> WarpFunctionView:
    """Describe one kernel."""
    lanes, launch = plan.program, plan.launch
    return WarpFunctionView(
        name=kernel.name,
        source=kernel.source,
        inputs=tuple(array_view(name, shape) for name, shape in kernel.inputs.items()),
        outputs=tuple(array_view(name, shape) for name, shape in kernel.outputs.items()),
        title=tuple(f"{kernel.title} ({kernel.source}).".splitlines()),
        cost=f"About {plan.layout.work} operations of a lane, {plan.layout.meets} synchronizations",
        numbers=tuple(tuple(map(number_literal, row)) for row in lanes.numbers),
        tables=tuple(_tables(lanes)),
        areas=tuple(lanes.areas),
        blocks=tuple(_phases(lanes)),
        shared=lanes.shared,
        threads=launch.threads_per_block,
        states=launch.states_per_block,
        resident=max(1, _WARPS * WARP // launch.threads_per_block),
    )


def with_shared_numbers(
    functions: Iterable[WarpFunctionView],
) -> tuple[list[TableView], list[WarpFunctionView]]:
    """Return one table of the constants of all functions, and functions that read its rows."""
    rows: dict[tuple[str, ...], int] = {}
    shared = []
    for function in functions:
        places = [str(rows.setdefault(row, len(rows))) for row in function.numbers]

        def row_of(found: re.Match[str], places: Sequence[str] = tuple(places)) -> str:
            return f"numbers<T>[{places[int(found[1])]}]"

        blocks = (
            replace(block, lines=tuple(_NUMBERS.sub(row_of, line) for line in block.lines))
            for block in function.blocks
        )
        shared.append(replace(function, blocks=tuple(blocks)))
    if not rows:
        return [], shared
    extent = f"[{len(rows)}][{len(next(iter(rows)))}]"
    declaration = f"template <class T> __device__ const T numbers{extent}"
    return [TableView("Constants of the lanes", declaration, tuple(braced([*rows])))], shared


def _tables(lanes: LaneProgram) -> Iterable[TableView]:
    if lanes.indices:
        words = [[str(index) for index in row] for row in lanes.indices]
        declaration = f"__device__ const int indices[{len(words)}][{len(words[0])}]"
        yield TableView("Indices of the lanes", declaration, tuple(braced(words)))


def _phases(lanes: LaneProgram) -> Iterable[PhaseView]:
    seen = ""
    for block in lanes.program.blocks:
        lines = block_lines(block, lanes.program.variables)
        indented = ["    " * block.depth + line for line in lines]
        title = block.phase if block.phase != seen and not block.depth else ""
        seen = block.phase
        yield PhaseView(title, tuple(indented))
