"""What becomes of the thread schedule's programs: instructions, machine code, registers, time.

    python benchmarks/programs.py --robots arm7
    python benchmarks/programs.py --json build/before.json      # then change the code generator
    python benchmarks/programs.py --compare build/before.json   # new over old

Only times need a quiet machine, and nothing needs a GPU. See ``benchmarks/README.md`` for what is
counted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from cases import CASES, INPUTS, OWN, Case, load_cases
from disassembly import counts_of, executable_bytes
from interleave import interleaved
from machine import description
from native import Unavailable
from peers.gridgen_cpu import Peer
from report import BATCH, heading, print_grids
from tables import Grid, Results, Row, markdown_grid, number, read_run

from gridgen.backends import Sources
from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.backend import THREADS_VARIABLE
from gridgen.backends.cpu.compiler import host_compiler, shared_library
from gridgen.backends.cpu.units import FLAGS, translation_unit
from gridgen.backends.cuda.compiler import check_machine, compile_kernel
from gridgen.errors import CompileError, OptionError
from gridgen.functions.types import Dtype
from gridgen.options import DTYPE_CHOICES
from gridgen.schedules.thread.plan import plan_programs

#: Columns: names of figures, and what tables call them.
FIGURES = {
    "instructions": "instructions",
    "operations": "operations",
    "code_bytes": "CPU\nbytes",
    "vector": "vector",
    "fused": "fused",
    "stack_stores": "stack\nstores",
    "stack_loads": "stack\nloads",
    "stack_operands": "stack\noperands",
    "gpu_bytes": "GPU\nbytes",
    "registers": "registers",
    "stack": "stack\nbytes",
    "spill_stores": "spill\nstores",
    "spill_loads": "spill\nloads",
    "ns": "ns a\nstate",
    "compile_s": "compile\ns",
}
#: What tells rows apart.
KEY = ("robot", "function", "dtype")
_WIDTH = 170  # columns of a table with all figures


def main() -> int:
    """Measure, or read what was measured, then print."""
    parser = _parser()
    arguments = parser.parse_args()
    os.environ[THREADS_VARIABLE] = "1"
    try:
        results = read_run(arguments.read) if arguments.read else measured(arguments)
    except OptionError as error:
        parser.error(str(error))
    if arguments.json:
        text = json.dumps(results, indent=1)
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(text + "\n", encoding="utf-8")
    grids = tables(results["rows"])
    if arguments.compare:
        grids += ratios(results["rows"], read_run(arguments.compare)["rows"])
    head = heading(results, least=True)
    if arguments.markdown:
        print("\n\n".join((head, *map(markdown_grid, grids))))
    else:
        print_grids(head, grids, results["unavailable"], _WIDTH)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", choices=CASES, default=list(OWN))
    parser.add_argument("--functions", nargs="+", choices=INPUTS, default=list(INPUTS))
    parser.add_argument("--dtype", nargs="+", choices=DTYPE_CHOICES, default=["float32"])
    parser.add_argument("--arch", default="sm_90", help="the GPU to compile for (%(default)s)")
    parser.add_argument("--no-gpu", action="store_true", help="leave the GPU out")
    parser.add_argument("--no-time", action="store_true", help="run nothing")
    parser.add_argument("--seconds", type=float, default=0.3, help="of timing, for each function")
    parser.add_argument(
        "--compile-time", action="store_true", help="compile for the CPU anew, and time that too"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to keep the figures")
    parser.add_argument("--read", type=Path, metavar="JSON", help="figures, instead of measuring")
    parser.add_argument("--compare", type=Path, metavar="JSON", help="print new over old as well")
    parser.add_argument("--markdown", action="store_true", help="print tables as Markdown")
    return parser


def measured(arguments: argparse.Namespace) -> Results:
    """Return a row for every robot, element type and function.

    Raises:
        OptionError: there is no such architecture.
    """
    machine = description()
    unavailable: dict[str, str] = {}
    arch = None if arguments.no_gpu else arguments.arch
    if arch:
        try:
            check_machine(arch)
        except CompileError as error:
            arch, unavailable["kernels for the GPU"] = None, str(error)
    rows: list[Row] = []
    for case in load_cases(arguments.robots, unavailable):
        functions = [*filter(case.has, arguments.functions)]
        for dtype in arguments.dtype:
            found = [_static(case, function, dtype, arch, unavailable) for function in functions]
            if arguments.compile_time:
                for row in found:
                    row["compile_s"] = compile_seconds(case, row["function"], dtype)
            if not arguments.no_time:
                times = least_times(case, functions, dtype, arguments.seconds)
                for row in found:
                    row["ns"] = times[row["function"]]
            rows += found
    return {
        "machine": machine,
        "arch": arch,
        "threads": {},
        "unavailable": unavailable,
        "rows": rows,
    }


def _static(
    case: Case, function: str, dtype: Dtype, arch: str | None, unavailable: dict[str, str]
) -> Row:
    """Return what is known of a function without running it."""
    print(f"{case.name}, {function}, {dtype}", file=sys.stderr)
    program = plan_programs(case.tree, case.entry(function)).cpu
    row: Row = dict(zip(KEY, (case.name, function, dtype), strict=True))
    row |= {"instructions": program.instructions, "operations": program.operations}
    sources = sources_of(case, function)
    try:
        library = library_of(case, function, dtype, BuildCache())
        row |= vars(counts_of(library, sources.robot))
    except Unavailable as error:
        unavailable["machine code of the CPU"] = str(error)
    return row | (resources(case, function, dtype, arch) if arch else {})


def sources_of(case: Case, function: str) -> Sources:
    """Return the text of a function."""
    return case.module.sources(case.module.kernels.named(case.entry(function)))


def library_of(case: Case, function: str, dtype: Dtype, cache: BuildCache) -> Path:
    """Return the library that the ``cpu`` backend makes of a function."""
    sources, name = sources_of(case, function), case.entry(function)
    unit = translation_unit(sources.robot, name, dtype, "many")
    return shared_library(sources, f"{name} ({dtype})", unit, FLAGS, cache)


def resources(case: Case, function: str, dtype: Dtype, arch: str) -> Row:
    """Return what the ``cuda`` backend's kernel takes of a GPU."""
    kernel = compile_kernel(sources_of(case, function), case.entry(function), dtype, arch)
    known = vars(kernel.resources)
    taken = {name: value for name, value in known.items() if name in FIGURES}
    return {"gpu_bytes": executable_bytes(kernel.image), **taken}


def compile_seconds(case: Case, function: str, dtype: Dtype) -> float:
    """Return the time that the compiler takes for a function that is in no cache [s]."""
    with tempfile.TemporaryDirectory(prefix="grid-gen-") as folder:
        cache = BuildCache(Path(folder))
        host_compiler(cache)  # to find it is no part of it
        sources_of(case, function)
        begin = perf_counter()
        library_of(case, function, dtype, cache)
        return perf_counter() - begin


def least_times(
    case: Case, functions: Sequence[str], dtype: Dtype, seconds: float
) -> dict[str, float]:
    """Return the least time of one state for every function, in one thread [ns].

    Args:
        case:      the robot.
        functions: the functions, timed in turn.
        dtype:     element type.
        seconds:   to spend, for each function.
    """
    peer, states = Peer(case, threads=1), case.states(BATCH)
    calls = {name: peer.contestant(name, states, dtype).run for name in functions}
    timings = interleaved(calls, seconds * len(calls))
    return {name: 1e9 * timing.least / BATCH for name, timing in timings.items()}


def tables(rows: Sequence[Row]) -> list[Grid]:
    """Return a table of figures for each robot and element type."""

    def cells(row: Row) -> list[str]:
        return [_spelt(row.get(name)) for name in FIGURES]

    return _grids(rows, "", cells)


def ratios(rows: Sequence[Row], before: Sequence[Row]) -> list[Grid]:
    """Return tables of new figures over old ones, with their geometric means."""
    old = {tuple(row[name] for name in KEY): row for row in before}

    def pairs(row: Row) -> list[tuple[Any, Any]]:
        other = old.get(tuple(row[name] for name in KEY), {})
        return [(row.get(name), other.get(name)) for name in FIGURES]

    def cells(row: Row) -> list[str]:
        return [ratio(new, old) for new, old in pairs(row)]

    def means(group: Sequence[Row]) -> list[str]:
        return [mean_ratio(column) for column in zip(*map(pairs, group), strict=True)]

    return _grids(rows, ", new over old", cells, means)


def ratio(new: float | None, old: float | None) -> str:
    """Return a figure over what it was; both, where one is zero."""
    if new is None or old is None:
        return ""
    if new == old:
        return "="
    return f"{new / old:.2f}" if new and old else f"{_spelt(old)} to {_spelt(new)}"


def mean_ratio(pairs: Sequence[tuple[float | None, float | None]]) -> str:
    """Return the geometric mean of new figures over old ones, where neither is zero."""
    logarithms = [math.log(new / old) for new, old in pairs if new and old]
    return f"{math.exp(sum(logarithms) / len(logarithms)):.3f}" if logarithms else ""


def _grids(
    rows: Sequence[Row],
    what: str,
    cells: Callable[[Row], list[str]],
    last: Callable[[Sequence[Row]], list[str]] | None = None,
) -> list[Grid]:
    """Return tables of the columns that have figures.

    Args:
        rows:  what was measured.
        what:  what the titles say beside robot and element type.
        cells: returns a line's cells.
        last:  returns those of a last line, of means.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["robot"], row["dtype"]), []).append(row)
    grids = []
    for (robot, dtype), group in groups.items():
        lines = [(row["function"], *cells(row)) for row in group]
        if last:
            lines.append(("geometric mean", *last(group)))
        columns = [("", *FIGURES.values()), *lines]
        shown = [column for column in zip(*columns, strict=True) if any(column[1:])]
        headings, *texts = zip(*shown, strict=True)
        if len(headings) > 1:
            grids.append(Grid(f"{robot}, {dtype}{what}", headings, tuple(texts)))
    return grids


def _spelt(value: float | None) -> str:
    return f"{value:,}" if isinstance(value, int) else number(value)


if __name__ == "__main__":
    sys.exit(main())
