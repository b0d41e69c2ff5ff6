"""Speed of the ``cpu`` backend beside its peers, in one run.

    python benchmarks/cpu.py --quick                 # what `make bench` runs: beside Pinocchio
    python benchmarks/cpu.py --quick --compile       # with Pinocchio in a C++ loop, once compiled
    python benchmarks/cpu.py --output build/cpu.json
    python benchmarks/cpu.py --markdown build/cpu.json

Every figure of a row is measured in turn with the others of that row, so that whatever else the
machine does falls on all alike. See ``benchmarks/README.md`` for what is compared.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import native
import numpy as np
from cases import CASES, INPUTS, OWN, Case, States, load_cases, operations
from interleave import interleaved
from machine import description, measured_limits
from native import Unavailable
from peers import MODULES, Contestant, peers
from report import markdown, print_tables
from tables import read_run

from gridgen.check import relative_errors
from gridgen.dynamics.reference import evaluate_reference

BATCHES = (1, 16, 256, 4096, 65536)
#: A short run of everything beside Pinocchio; what takes the compiler minutes is asked for.
QUICK: dict[str, Any] = {
    "robots": list(OWN),
    "batches": [8192],
    "threads": [1],
    "seconds": 0.15,
    "peers": ["gridgen_cpu", *(name for name in MODULES if name.startswith("pinocchio"))],
}
#: Inverse dynamics of 1,024 states on an RTX 5090, as GRiD 0.6.0 publishes it [us]: the kernel, and
#: the whole call with copies.
PUBLISHED = {"iiwa14": (13.0, 27.5), "go2": (35.1, 54.9), "g1_hands": (72.9, 106.0)}
BESIDE_GRID: dict[str, Any] = {
    "robots": list(PUBLISHED),
    "functions": ["inverse_dynamics"],
    "batches": [16, 256, 1024],
    "threads": [1],
    "peers": ["gridgen_cpu"],
}
#: A call that is expected to take longer than this is left out of a row [s].
MAX_CALL = 1.0
#: States on which the results of all are compared.
COMPARED = 16


def main() -> int:
    """Measure in one process for each number of threads, then print."""
    arguments = parsed(sys.argv[1:])
    if arguments.markdown:
        results = read_run(arguments.markdown)
        print(markdown(results))
        return 0
    if arguments.worker:
        result = measured(arguments, arguments.worker)
        arguments.output.write_text(json.dumps(result), encoding="utf-8")
        return 0
    results: dict[str, Any] = {"machine": description(), "threads": {}, "rows": []}
    for threads in sorted(set(arguments.threads)):
        part = worker(threads)
        results["threads"][str(threads)] = part["limits"]
        results["unavailable"] = part["unavailable"]
        results["rows"] += part["rows"]
    results["machine"]["load_at_the_end"] = os.getloadavg()[0]
    print_tables(results, arguments.least, brief=arguments.quick)
    if arguments.output:
        text = json.dumps(results, indent=1)
        arguments.output.write_text(text + "\n", encoding="utf-8")
    if arguments.grid:
        write_beside_grid(results["rows"], arguments.grid)
    return 0


def write_beside_grid(rows: list[dict[str, Any]], path: Path) -> None:
    """Write least times of calls on a core beside the published ones of a GPU [us]."""
    least = {(row["robot"], row["batch"], row["contestant"]): row["least"] for row in rows}
    velocities = {row["robot"]: row["nv"] for row in rows}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["robot", "batch", "float32", "float64", "GRiD: kernel", "GRiD: whole call"]
        )
        for robot, batch in dict.fromkeys(key[:2] for key in least):
            own = (least[robot, batch, f"gridgen {dtype}"] for dtype in ("float32", "float64"))
            others = PUBLISHED[robot] if batch == 1024 else ("", "")
            times = [f"{1e-3 * batch * ns:.1f}" for ns in own]
            writer.writerow([f"{robot}, nv {velocities[robot]}", batch, *times, *others])


def parsed(words: list[str]) -> argparse.Namespace:
    """Return the command line's choices."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--functions", nargs="+", choices=INPUTS, default=list(INPUTS))
    parser.add_argument("--batches", nargs="+", type=int, default=list(BATCHES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, cores])
    parser.add_argument("--peers", nargs="+", choices=MODULES, default=list(MODULES))
    parser.add_argument("--seconds", type=float, default=0.6, help="for each row")
    parser.add_argument("--quick", action="store_true", help="three robots, Pinocchio alone")
    parser.add_argument(
        "--compile", action="store_true", help="with --quick: also what takes minutes to compile"
    )
    parser.add_argument("--output", type=Path, help="JSON file to write")
    parser.add_argument("--markdown", type=Path, metavar="JSON", help="print tables of a run")
    parser.add_argument(
        "--least", action="store_true", help="show least times, for a machine that is busy"
    )
    parser.add_argument(
        "--grid", type=Path, metavar="CSV", help="write GRiD's robots beside its published times"
    )
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.quick or arguments.grid:
        for name, value in (BESIDE_GRID if arguments.grid else QUICK).items():
            if getattr(arguments, name) == parser.get_default(name):
                setattr(arguments, name, value)
    native.patient = arguments.compile or not arguments.quick
    return arguments


def worker(threads: int) -> dict[str, Any]:
    """Measure in a process of its own: most libraries fix their threads when they start."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "rows.json")
        variables = ("GRIDGEN_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        command = (sys.executable, *sys.argv, "--worker", str(threads), "--output", str(output))
        environment = os.environ | dict.fromkeys(variables, str(threads))
        subprocess.run(command, check=True, env=environment)
        return json.loads(output.read_bytes())


def measured(arguments: argparse.Namespace, threads: int) -> dict[str, Any]:
    """Return limits and rows for one number of threads."""
    if hasattr(os, "sched_setaffinity"):  # XLA takes every core it may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    rows: list[dict[str, Any]] = []
    unavailable: dict[str, str] = {}
    limits = []
    for case in load_cases(arguments.robots, unavailable):
        limits.append(measured_limits(threads))
        found = peers(case, threads, arguments.peers)
        unavailable |= {peer: why for peer, why in found.items() if isinstance(why, str)}
        for function in filter(case.has, arguments.functions):
            begin = perf_counter()
            rows += rows_of(case, function, found, arguments, threads, unavailable)
            seconds = perf_counter() - begin
            print(f"{threads} threads, {case.name}, {function}: {seconds:.0f} s", file=sys.stderr)
    best = {key: max(limit[key] for limit in limits) for key in limits[0]}
    return {"limits": best, "unavailable": unavailable, "rows": rows}


def rows_of(
    case: Case,
    function: str,
    found: dict[str, Any],
    arguments: argparse.Namespace,
    threads: int,
    unavailable: dict[str, str],
) -> list[dict[str, Any]]:
    """Return the rows of one function: one for each batch and contestant."""
    count = operations(case, function)
    few = contestants(found, function, case.states(COMPARED), unavailable)
    errors = compared(case, function, few)
    rows = []
    expected: dict[str, float] = {}  # seconds of one call, from the batch before
    before = 0
    for batch in sorted(arguments.batches):
        states = case.states(batch)
        present = contestants(found, function, states, unavailable)
        expected = {name: seconds * batch / before for name, seconds in expected.items()}
        calls = {
            name: contestant.run
            for name, contestant in present.items()
            if expected.get(name, 0.0) <= MAX_CALL
        }
        for call in calls.values():
            call()
        for name, timing in interleaved(calls, arguments.seconds).items():
            computed = present[name].states or batch
            expected[name] = timing.median * batch / computed
            row = {
                "robot": case.name,
                "nv": case.tree.nv,
                "function": function,
                "batch": batch,
                "threads": threads,
                "contestant": name,
                "ns_per_state": 1e9 * timing.median / computed,
                "quartiles": [1e9 * timing.lower / computed, 1e9 * timing.upper / computed],
                "least": 1e9 * timing.least / computed,
                "samples": timing.samples,
                "error": errors.get(name),
            }
            rows.append(row | ({"operations": count} if name.startswith("gridgen") else {}))
        before = batch
    return rows


def contestants(
    found: dict[str, Any], function: str, states: States, unavailable: dict[str, str]
) -> dict[str, Contestant]:
    """Return every way to compute a function; what is missing is noted with the reason."""
    ways: dict[str, Contestant] = {}
    for name, peer in found.items():
        if isinstance(peer, str):
            continue
        try:
            ways |= peer.contestants(function, states)
        except Unavailable as error:
            unavailable[f"{name}, {function}"] = str(error)
    return ways


def compared(case: Case, function: str, ways: dict[str, Contestant]) -> dict[str, float]:
    """Return the worst relative error of every contestant's results: do they compute the same?"""
    references = evaluate_reference(case.tree, case.entry(function), case.states(COMPARED))
    errors = {}
    for name, contestant in ways.items():
        contestant.run()
        pairs = zip(contestant.results(), references, strict=True)
        errors[name] = max(float(relative_errors(np.asarray(x, float), y).max()) for x, y in pairs)
    return errors


if __name__ == "__main__":
    sys.exit(main())
