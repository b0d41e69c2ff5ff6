"""What the size of a robot costs: text, tracing, compiling and time of straight code and loops.

    python benchmarks/sizes.py --output build/sizes.json --whole
    python benchmarks/sizes.py --markdown build/sizes.json > benchmarks/results/sizes.md

Random serial chains and binary trees whose joints are all revolute about skew axes, so that little
of them folds away, and the robots of ``cpu.py``. See ``benchmarks/README.md`` for what is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from cases import CASES, OWN, Case, load_case, load_cases
from interleave import interleaved, sample
from machine import description
from peers import peers
from programs import library_of, sources_of
from report import heading, print_grids
from tables import COLUMNS, Grid, Results, Row, markdown_grid, read_run

from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.backend import THREADS_VARIABLE
from gridgen.backends.cpu.compiler import host_compiler
from gridgen.dynamics.computation import array_size
from gridgen.dynamics.functions import computation_of
from gridgen.functions.types import Dtype
from gridgen.options import MAX_PROGRAM
from gridgen.schedules.thread.plan import plan_programs
from gridgen.symbolic.program import Program
from gridgen.user_cache import FOLDER_VARIABLE

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "robots"))

from chain import random_tree, serial_chain

SIZES = (2, 4, 8, 16, 32, 64, 100, 128, 256, 500, 1000, 2000)
WHOLE_SIZES = (100, 500, 2000)
FAMILIES = {"chain": "serial chains", "tree": "binary trees"}
ROBOTS = "robot"
#: Columns: names of figures, and what tables call them.
FIGURES = {
    "instructions": "instructions",
    "trace_s": "trace\ns",
    "text_kb": "text\nkB",
    "compile_s": "compile\ns",
    "us": "µs a\nstate",
    "batch": "batch",
    "pinocchio_us": "Pinocchio\nµs",
    "ratio": "ratio",
}
#: Those whose growth is told.
GROWING = ("instructions", "trace_s", "text_kb", "compile_s", "us", "pinocchio_us")
#: Shares of joints: all are revolute, turned any way about any axis.
_SKEW: dict[str, Any] = {"prismatic": 0.0, "continuous": 0.0, "skew": 1.0, "fixed": 0.0}
_SEED = 1
_DTYPE: Dtype = "float32"
_ITEM = 4  # bytes of it
_BATCH = 256
_LANES = 16  # states of the widest pack: fewer would leave lanes without work
_MAX_RESULTS = 256 << 20  # bytes
_MAX_MEMORY = 4 << 30  # bytes
_MAX_SECONDS = 60.0
_CALLS = 3  # that a measurement takes at least: one beforehand, two that are timed
_SLOW = 2.0  # a call that is timed only twice [s]
_PINOCCHIO = "Pinocchio from Python"
_PINOCCHIO_WORK = 4096  # states times velocities of a call
_WIDTH = 130  # columns of a table
_COMMAND = "import sys; from gridgen.commands.main import main; sys.exit(main())"

Call = Callable[[], object]
Point = tuple[float, float]


def main() -> int:
    """Measure, or read what was measured, then print."""
    arguments = _parser().parse_args()
    if arguments.markdown:
        results = read_run(arguments.markdown)
        print("\n\n".join((_heading(results), *map(markdown_grid, tables(results)))))
        return 0
    os.environ[THREADS_VARIABLE] = "1"
    with tempfile.TemporaryDirectory(prefix="grid-gen-") as folder:
        os.environ[FOLDER_VARIABLE] = folder  # so that everything is compiled anew
        results = measured(arguments)
    print_grids(_heading(results), tables(results), results["unavailable"], _WIDTH)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    functions = tuple(COLUMNS.values())
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES, help="bodies")
    parser.add_argument("--families", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--robots", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--functions", nargs="+", choices=functions, default=functions)
    parser.add_argument("--seconds", type=float, default=0.3, help="of timing, for each function")
    parser.add_argument(
        "--longest-program",
        type=int,
        default=MAX_PROGRAM,
        metavar="INSTRUCTIONS",
        help="0 for loops everywhere (%(default)s)",
    )
    parser.add_argument(
        "--whole", nargs="*", type=int, metavar="BODIES", help="also run grid-gen on whole chains"
    )
    parser.add_argument("--output", type=Path, metavar="JSON", help="where to keep the figures")
    parser.add_argument("--markdown", type=Path, metavar="JSON", help="print tables of a run")
    return parser


def _heading(results: Results) -> str:
    """Return the lines that name the machine and what the figures are."""
    return (
        f"{heading(results, least=True)} The longest straight-line program has "
        f"{results['longest_program']:,} instructions.\n\n"
        "A star marks a program with loops, whose instructions are counted once for each loop, "
        "however often it is run through. Tracing and compiling: seconds of the processor, "
        f"nothing in a cache. Text: the robot's own files. One thread, {_DTYPE}. Pinocchio: "
        "float64, from Python, which of small robots is mostly the binding's time, of large "
        "ones hardly any; the ratio is its time over gridgen's. Skipped: what was expected to "
        f"take longer than {_MAX_SECONDS:.0f} s or more than {_MAX_MEMORY >> 30} GiB."
    )


# -- measuring --------------------------------------------------------------------------------


def measured(arguments: argparse.Namespace) -> Results:
    """Return a row for every robot and function; keep what there is after each robot."""
    results: Results = {
        "machine": description(),
        "longest_program": arguments.longest_program,
        "threads": {},
        "unavailable": {},
        "whole": [],
        "rows": [],
    }
    host_compiler(BuildCache())  # to find it is no part of compiling
    sources_of(load_case(OWN[0]), "gravity_forces")  # nor imports of tracing
    if arguments.whole is not None:  # first: a process inherits the peak of its parent
        results["whole"] = [whole(size) for size in arguments.whole or WHOLE_SIZES]
    rows: list[Row] = results["rows"]
    for family, case in _cases(arguments, results["unavailable"]):
        rows += _rows_of(family, case, arguments, rows, results["unavailable"])
        if arguments.output:
            arguments.output.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(results, indent=1)
            arguments.output.write_text(text + "\n", encoding="utf-8")
    return results


def _cases(
    arguments: argparse.Namespace, unavailable: dict[str, str]
) -> Iterator[tuple[str, Case]]:
    """Yield the robots with their families, those of a family by size."""
    for case in load_cases(arguments.robots, unavailable):
        yield ROBOTS, replace(case, longest=arguments.longest_program)
    for family in arguments.families:
        for size in sorted(arguments.sizes):
            text = robot_text(family, size)
            yield family, Case(f"{family} {size}", text, False, arguments.longest_program)


def robot_text(family: str, bodies: int) -> str:
    """Return the URDF of a random robot."""
    if family == "chain":
        return serial_chain(bodies, _SEED, **_SKEW)
    return random_tree(bodies, _SEED, max_children=2, branching=1.0, **_SKEW)


def _rows_of(
    family: str,
    case: Case,
    arguments: argparse.Namespace,
    before: Sequence[Row],
    unavailable: dict[str, str],
) -> list[Row]:
    """Return the rows of one robot.

    Args:
        family:      of the robot.
        case:        the robot.
        arguments:   of the command.
        before:      the rows of smaller robots.
        unavailable: is told why there is no Pinocchio.
    """
    contestants = _contestants(case, unavailable)
    rows = []
    for function in arguments.functions:
        print(f"{case.name}, {function}", file=sys.stderr)
        row: Row = {"family": family, "robot": case.name, "bodies": len(case.tree.bodies)}
        row["function"] = function
        begin = process_time()
        program = plan_programs(case.tree, case.entry(function), case.longest, case.longest).cpu
        row["trace_s"] = process_time() - begin
        row |= {"instructions": program.instructions, "has_loops": program.loops is not None}
        row["text_kb"] = _text_bytes(case, function) / 1e3
        row["compile_s"] = _compile_seconds(case, function)
        earlier = [r for r in before if (r["family"], r["function"]) == (family, function)]
        row |= _times(case, program, row, earlier, contestants, arguments.seconds)
        rows.append(row)
    return rows


def _contestants(case: Case, unavailable: dict[str, str]) -> dict[str, Any]:
    """Return gridgen, and Pinocchio if it is there and the robot not too large for it."""
    chosen = ["gridgen_cpu"]
    # It makes room for four tensors of second derivatives.
    if 4 * 8 * case.tree.nv**3 <= _MAX_MEMORY:
        chosen.append("pinocchio_python")
    found = peers(case, 1, chosen)
    for name, peer in [*found.items()]:
        if isinstance(peer, str):
            unavailable[name] = found.pop(name)
    return found


def _text_bytes(case: Case, function: str) -> int:
    """Return the size of what is written for a function of this robot alone."""
    sources = sources_of(case, function)
    return sum(
        len(text.encode()) for name, text in sources.files.items() if name.startswith(sources.robot)
    )


def _compile_seconds(case: Case, function: str) -> float:
    """Return the processor's time for a function that is in no cache yet [s]."""
    begin = os.times()
    library_of(case, function, _DTYPE, BuildCache())
    end = os.times()
    return sum(end[:4]) - sum(begin[:4])


def _times(
    case: Case,
    program: Program,
    row: Row,
    before: Sequence[Row],
    contestants: Mapping[str, Any],
    seconds: float,
) -> Row:
    """Return the least times of one state, or why there are none.

    Args:
        case:        the robot.
        program:     of the function.
        row:         what is known of the function: its name, the number of bodies.
        before:      the rows of smaller robots for this function.
        contestants: what to time.
        seconds:     to spend.
    """
    function, bodies = row["function"], row["bodies"]
    spec = computation_of(case.tree, case.entry(function))
    arrays = [array_size(name, case.tree) for name in (*spec.inputs, *spec.outputs)]
    batch = batch_of(sum(array_size(name, case.tree) for name in spec.outputs))
    if _ITEM * (batch * sum(arrays) + _LANES * program.scratch) > _MAX_MEMORY:
        return {"skipped": f"> {_MAX_MEMORY >> 30} GiB"}
    known = [(r["bodies"], r["us"]) for r in before if r.get("us")]
    gave_up = any(r.get("skipped") for r in before)
    if gave_up or _CALLS * batch * 1e-6 * expected(known, bodies) > _MAX_SECONDS:
        return {"skipped": f"> {_MAX_SECONDS:.0f} s"}
    states = case.states(batch)
    own = contestants["gridgen_cpu"].contestant(function, states, _DTYPE)
    calls: dict[str, Call] = {"us": own.run}
    numbers = {"us": batch}
    if pinocchio := contestants.get("pinocchio_python"):
        few = {name: x[: max(1, _PINOCCHIO_WORK // case.tree.nv)] for name, x in states.items()}
        peer = pinocchio.contestants(function, few)[_PINOCCHIO]
        calls["pinocchio_us"], numbers["pinocchio_us"] = peer.run, peer.states
    least = least_times(calls, seconds)
    found: Row = {"batch": batch}
    found |= {name: 1e6 * least[name] / numbers[name] for name in calls}
    if "pinocchio_us" in found:
        found["ratio"] = found["pinocchio_us"] / found["us"]
    return found


def batch_of(results: int) -> int:
    """Return the states of a call: fewer for large results, whole packs, one pack at least.

    Args:
        results: numbers that a function returns for a state.
    """
    fitting = _MAX_RESULTS // (_ITEM * results)
    return max(_LANES, min(_BATCH, fitting) // _LANES * _LANES)


def expected(known: Sequence[Point], size: float) -> float:
    """Return what a quantity that has been measured for smaller sizes may become.

    It grows as it did last, and at most as the fourth power; as the third where that is not known.
    """
    if not known:
        return 0.0
    last, value = known[-1]
    growth = exponent(known[-2:]) if len(known) > 1 else 3.0
    return value * math.pow(size / last, min(4.0, growth or 0.0))


def least_times(calls: Mapping[str, Call], seconds: float) -> dict[str, float]:
    """Return the least time of each call: of rounds in turn, or of two calls that are slow [s]."""
    once = {name: sample(call, 1) for name, call in calls.items()}
    if sum(once.values()) > _SLOW:
        return {name: min(once[name], sample(call, 1)) for name, call in calls.items()}
    timings = interleaved(calls, seconds * len(calls))
    return {name: timing.least for name, timing in timings.items()}


def whole(bodies: int) -> Row:
    """Return what ``grid-gen`` takes for the whole module of a chain, and how much it writes."""
    print(f"grid-gen, chain {bodies}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="grid-gen-") as name:
        folder = Path(name)
        urdf = folder / "chain.urdf"
        urdf.write_text(robot_text("chain", bodies), encoding="utf-8")
        command = (sys.executable, "-c", _COMMAND, str(urdf), "--output", name, "--quiet")
        begin = perf_counter()
        process = subprocess.Popen(command)
        _, status, usage = os.wait4(process.pid, 0)
        wall = perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for
        if process.returncode:
            return {"bodies": bodies, "failed": process.returncode}
        files = [path for path in folder.glob("*/*") if path.is_file()]
        return {
            "bodies": bodies,
            "wall_s": wall,
            "processor_s": usage.ru_utime + usage.ru_stime,
            "text_mb": sum(path.stat().st_size for path in files) / 1e6,
            "peak_mb": usage.ru_maxrss * 1024 / 1e6,
        }


# -- tables -----------------------------------------------------------------------------------


def tables(results: Results) -> list[Grid]:
    """Return all tables: figures by family and function, exponents, whole modules."""
    rows: list[Row] = results["rows"]
    found = []
    for family, title in FAMILIES.items():
        for function in _functions(rows):
            chosen = [r for r in rows if (r["family"], r["function"]) == (family, function)]
            if chosen:
                lines = [(f"{row['bodies']:,}", *_cells(row)) for row in chosen]
                found.append(_grid(f"{function} of {title}", "bodies", lines))
    robots = [row for row in rows if row["family"] == ROBOTS]
    if robots:
        lines = [(f"{r['robot']} ({r['bodies']}) {r['function']}", *_cells(r)) for r in robots]
        found.append(_grid("Robots, with their moving bodies", "", lines))
    return [grid for grid in (*found, growth(rows), _whole_grid(results["whole"])) if grid.lines]


def _grid(title: str, first: str, lines: Sequence[tuple[str, ...]]) -> Grid:
    return Grid(title, (first, *FIGURES.values()), tuple(lines))


def _cells(row: Row) -> list[str]:
    cells = {name: spelt(row.get(name)) for name in FIGURES}
    cells["instructions"] += "*" if row["has_loops"] else ""
    cells["us"] = cells["us"] or row.get("skipped", "")
    return [*cells.values()]


def _functions(rows: Sequence[Row]) -> list[str]:
    return [*dict.fromkeys(row["function"] for row in rows)]


def growth(rows: Sequence[Row]) -> Grid:
    """Return the exponents of each family and function, of straight code and of loops apart."""
    lines = []
    for family, function, has_loops in _groups(rows):
        chosen = curve(rows, family, function, has_loops)
        if len(chosen) > 1:
            kind = "loops" if has_loops else "straight"
            label = f"{family}, {function}, {kind}, {chosen[0]['bodies']} to {chosen[-1]['bodies']}"
            lines.append((label, *(_slope(points(chosen, name)) for name in GROWING)))
    title = (
        "Exponents: slopes of logarithms over that of the number of bodies, each over the upper "
        "half of the sizes at which it was measured with such a program"
    )
    return Grid(title, ("", *(FIGURES[name] for name in GROWING)), tuple(lines))


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, str, bool]]:
    for family in FAMILIES:
        for function in _functions(rows):
            yield from ((family, function, has_loops) for has_loops in (False, True))


def curve(rows: Sequence[Row], family: str, function: str, has_loops: bool | None) -> list[Row]:
    """Return the rows of a family and function by size, of one kind of program or of both."""
    chosen = [
        row
        for row in rows
        if (row["family"], row["function"]) == (family, function)
        and has_loops in (None, row["has_loops"])
    ]
    return sorted(chosen, key=lambda row: int(row["bodies"]))


def points(rows: Sequence[Row], name: str) -> list[Point]:
    """Return the figures of a name over the number of bodies, where there are any."""
    return [(row["bodies"], row[name]) for row in rows if row.get(name)]


def _slope(found: Sequence[Point]) -> str:
    slope = exponent(upper_half(found))
    return "" if slope is None else f"{slope:.2f}"


def upper_half(found: Sequence[Any]) -> Sequence[Any]:
    """Return the later half of a sequence, the middle with it, and two at least if there are."""
    return found[min(len(found) // 2, max(0, len(found) - 2)) :]


def exponent(found: Sequence[Point]) -> float | None:
    """Return the slope of the line through logarithms by least squares; of one point, none."""
    xs = [math.log(x) for x, _ in found]
    ys = [math.log(y) for _, y in found]
    mean_x, mean_y = (sum(values) / max(1, len(values)) for values in (xs, ys))
    square = sum((x - mean_x) ** 2 for x in xs)
    product = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return product / square if square else None


def _whole_grid(rows: Sequence[Row]) -> Grid:
    names = ("wall_s", "processor_s", "text_mb", "peak_mb")
    headings = ("bodies", "seconds", "processor's seconds", "text MB", "peak memory MB")
    lines = [
        (f"{row['bodies']:,}", *(spelt(row.get(name)) or "failed" for name in names))
        for row in rows
    ]
    return Grid("`grid-gen` on whole modules of serial chains", headings, tuple(lines))


def spelt(value: float | None) -> str:
    """Return a figure as text, with three digits where it is no integer; nothing for none."""
    if value is None:
        return ""
    return f"{value:,.0f}" if isinstance(value, int) or value >= 100 else f"{value:.3g}"


# -- drawing ----------------------------------------------------------------------------------


def drawn(rows: Sequence[Row]) -> Any:
    """Return a figure of time, text and compiling over the number of bodies, by family."""
    import matplotlib.pyplot as plt

    families = [family for family in FAMILIES if any(row["family"] == family for row in rows)]
    shown = {"us": "time of one state [µs]", "text_kb": "text [kB]", "compile_s": "compiling [s]"}
    figure, axes = plt.subplots(
        len(families), len(shown), figsize=(15, 4.2 * len(families)), squeeze=False
    )
    for line, family in zip(axes, families, strict=True):
        for axis, (name, label) in zip(line, shown.items(), strict=True):
            _curves(axis, rows, family, name)
            axis.set_title(f"{FAMILIES[family]}: {label}", fontsize="medium")
            axis.set_xlabel("bodies")
            axis.grid(True, which="major", alpha=0.3)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.suptitle("hollow: straight-line code; filled: loops over bodies; dashed: Pinocchio")
    figure.tight_layout(rect=(0, 0.05, 1, 0.98))
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), fontsize="small")
    return figure


def _curves(axis: Any, rows: Sequence[Row], family: str, name: str) -> None:
    """Draw a curve for each function, with a mark that tells loops."""
    for number, function in enumerate(_functions(rows)):
        color = f"C{number}"
        chosen = curve(rows, family, function, None)
        axis.loglog(*_columns(points(chosen, name)), "-", color=color, label=function)
        for has_loops, fill in ((False, "white"), (True, color)):
            marked = _columns(points(curve(rows, family, function, has_loops), name))
            axis.loglog(*marked, "o", ms=4, color=color, markerfacecolor=fill)
        if name == "us":
            axis.loglog(*_columns(points(chosen, "pinocchio_us")), "--", color=color, lw=0.8)


def _columns(found: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [x for x, _ in found], [y for _, y in found]


if __name__ == "__main__":
    sys.exit(main())
