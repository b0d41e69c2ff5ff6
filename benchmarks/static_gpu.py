"""What kernels take of a GPU, and the time that is predicted from it: no GPU is needed.

    python benchmarks/static_gpu.py --robots arm7
    python benchmarks/static_gpu.py --arch sm_80 --batch 4096 --teams --json build/static.json
    python benchmarks/static_gpu.py --teams --batch 1024 8192 1048576 --tables
    python benchmarks/static_gpu.py --peer grid.cubin

Times are predictions, of the model in ``gridgen.cost``. See ``benchmarks/README.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any, get_args

from cases import CASES, INPUTS, OWN, Case, load_cases
from native import Unavailable
from report import print_grids
from sass import Code, kernel_of, kernels_of
from tables import Grid, Results, Row, markdown_grid, number, read_run, write_table

from gridgen import __version__
from gridgen.backends.cuda.compiler import KernelResources, check_machine, compile_kernel
from gridgen.backends.interface import ITEM_BYTES, launch_of
from gridgen.cost.devices import INSTRUCTION_BYTES, Device, device_of
from gridgen.cost.gpu import Demand, Layout, demand_of, predicted, roofline_bound
from gridgen.errors import GridGenError
from gridgen.functions.types import Dtype
from gridgen.kernel import Kernel
from gridgen.options import DTYPE_CHOICES

#: The functions of the results; NVRTC takes many minutes for all others.
MAIN = (
    *("inverse_dynamics", "forward_dynamics_aba", "forward_dynamics_crba", "mass_matrix"),
    *("mass_matrix_inverse", "inverse_dynamics_gradient", "forward_dynamics_gradient"),
    *("forward_kinematics", "step_semi_implicit", "step_gradient_semi_implicit"),
)
#: Columns of what a kernel takes: names of figures, and what tables call them.
TAKEN = {
    "registers": "registers",
    "spills": "spilled\nbytes",
    "stack": "stack\nbytes",
    "shared": "shared\nbytes",
    "instructions": "instructions",
    "fp32": "fp32",
    "fp64": "fp64",
    "int": "int",
    "xu": "xu",
    "memory": "load,\nstore",
    "control": "control",
    "rare": "rarely\nexecuted",
    "whole": "of a\nwhole warp",
}
#: Columns of what becomes of a batch.
BATCH = {
    "bytes": "bytes\na state",
    "sectors": "sectors\na state",
    "warps": "warps\nat once",
    "waves": "waves",
    "microseconds": "predicted\nus",
    "bound": "bound",
    "share": "share of the\nroofline bound",
}
#: Columns of the table of docs/warp.md, and the schedules that it compares.
CODE = {name: TAKEN[name] for name in ("registers", "spills", "stack", "shared", "instructions")}
CODE |= {"code_bytes": "bytes\nof code"}
COMPARED = ("thread", "warp")
#: What tells rows apart.
KEY = ("robot", "function", "dtype")
_WIDTH = 200


def main() -> int:
    """Compile, disassemble, predict; then print."""
    parser = _parser()
    arguments = parser.parse_args()
    try:
        results = read_runs(arguments.read) if arguments.read else counted(arguments)
    except GridGenError as error:
        parser.error(str(error))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if arguments.tables:
        write_tables(results)
    grids = tables(results)
    if arguments.markdown:
        print("\n\n".join((heading(results), *map(markdown_grid, grids))))
    else:
        print_grids(heading(results), grids, results["unavailable"], _WIDTH)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", choices=CASES, default=list(OWN))
    parser.add_argument("--functions", nargs="+", choices=INPUTS, default=MAIN)
    parser.add_argument("--dtype", nargs="+", choices=DTYPE_CHOICES, default=["float32"])
    parser.add_argument("--arch", default="sm_90", help="the GPU to compile for (%(default)s)")
    parser.add_argument(
        "--batch", type=int, nargs="+", default=[1 << 20], help="numbers of states (1048576)"
    )
    parser.add_argument("--layout", choices=get_args(Layout), default="rows", help="of all arrays")
    parser.add_argument("--teams", action="store_true", help="kernels of teams of threads, too")
    parser.add_argument(
        "--peer", nargs="+", type=Path, default=[], metavar="CUBIN", help="count these kernels too"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to keep the figures")
    parser.add_argument(
        "--read", type=Path, nargs="+", metavar="JSON", help="figures, instead of counting"
    )
    parser.add_argument(
        "--tables", action="store_true", help="write the tables of docs/warp.md and docs/plans.md"
    )
    parser.add_argument("--markdown", action="store_true", help="print tables as Markdown")
    return parser


def read_runs(paths: Sequence[Path]) -> Results:
    """Return the figures of several runs together; the first one describes them."""
    first, *others = (read_run(path) for path in paths)
    first["rows"] += [row for other in others for row in other["rows"]]
    return first


def write_tables(results: Results) -> None:
    """Write what kernels take and the times that are predicted, for the manual."""
    rows = [row for row in results["rows"] if row["schedule"] in COMPARED]
    kernels = [row["kernel"] for row in rows]
    of_teams = {row["kernel"] for row in rows if row["schedule"] != "thread"}
    headings = ["kernel", "schedule", *(words.replace("\n", " ") for words in CODE.values())]
    taken = [
        [row["kernel"], row["schedule"], *(f"{row[name]:,}" for name in CODE)]
        for row in sorted(rows, key=lambda row: kernels.index(row["kernel"]))
        if row["robot"] == "humanoid" and row["kernel"] in of_teams
    ]
    write_table("warp", [headings, *taken])
    batches = results["batch"]
    titles = [f"{schedule}, {batch:,}" for batch in batches for schedule in COMPARED]
    times: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        cells = times.setdefault((row["robot"], row["kernel"]), {})
        for batch, microseconds in zip(batches, row["times"], strict=True):
            cells[f"{row['schedule']}, {batch:,}"] = number(microseconds)
    predicted_rows = [
        [*key, *(cells.get(title, "") for title in titles)]
        for key, cells in times.items()
        if len(cells) == len(titles)
    ]
    write_table("gpu_schedules", [["robot", "function", *titles], *predicted_rows])


def counted(arguments: argparse.Namespace) -> Results:
    """Return a row for every robot, element type and kernel, and for every kernel of a peer.

    Raises:
        OptionError:  there is no such architecture.
        CompileError: NVRTC is missing.
    """
    check_machine(arguments.arch)
    device, unavailable = device_of(arguments.arch), dict[str, str]()
    rows: list[Row] = []
    try:
        peers = [_peer_row(path, code) for path in arguments.peer for code in kernels_of(path)]
        for case in load_cases(arguments.robots, unavailable):
            for kernel in _kernels(case, arguments.functions, arguments.teams):
                for dtype in arguments.dtype:
                    print(f"{case.name}, {kernel.name}, {dtype}", file=sys.stderr)
                    rows.append(_row(case, kernel, dtype, device, arguments))
    except Unavailable as error:
        raise GridGenError(str(error)) from error
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "versions": {"gridgen": __version__, **_versions()},
        "device": asdict(device),
        "arch": arguments.arch,
        "batch": arguments.batch,
        "layout": arguments.layout,
        "unavailable": unavailable,
        "rows": rows,
        "peers": peers,
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc", "nvidia-cuda-nvdisasm"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _kernels(case: Case, functions: Sequence[str], teams: bool) -> Iterator[Kernel]:
    """Yield the kernels of functions: those of threads, then those of teams."""
    chosen = [name for name in functions if case.has(name)]
    for name in chosen:
        yield case.module.kernels.named(case.entry(name))
    if teams:
        for kernel in case.module.kernels.by_name.values():
            key = kernel.key
            is_called = not (key.variant or key.step or key.inputs)
            if kernel.team is not None and is_called and kernel.same.name in chosen:
                yield kernel


def _row(
    case: Case, kernel: Kernel, dtype: Dtype, device: Device, arguments: argparse.Namespace
) -> Row:
    """Return what a kernel takes, and what is predicted of it."""
    sources = case.module.sources(kernel)
    has_rows = arguments.layout == "rows" and True in sources.forms(kernel.name)
    compiled = compile_kernel(sources, kernel.name, dtype, arguments.arch, rows=has_rows)
    assert compiled.resources is not None  # it is machine code
    code = kernel_of(compiled.image)
    work, size = case.module.work(kernel), ITEM_BYTES[dtype]
    launch = launch_of(sources, kernel.name, dtype, rows=has_rows, arch=arguments.arch)
    has_loops = kernel.team is not None or kernel.name in sources.scratch
    times = []
    for batch in arguments.batch:
        demand = demand_of(kernel, work, size, layout=arguments.layout, batch=batch)
        if kernel.team is None:
            demand = replace(demand, **asdict(launch.of(batch)))
        demand = known_demand(demand, compiled.resources, code, has_loops=has_loops)
        found = predicted(demand, device, batch)
        times.append(1e6 * found.seconds)
    row: Row = dict(zip(KEY, (case.name, kernel.name, dtype), strict=True))
    row |= {"kernel": kernel.same.name, "schedule": kernel.key.schedule, "times": times}
    row |= _code_figures(code) | {
        "registers": compiled.resources.registers,
        "spills": compiled.resources.spill_stores + compiled.resources.spill_loads,
        "stack": compiled.resources.stack,
        "shared": demand.shared_bytes,
    }
    return row | {
        "bytes": demand.bytes,
        "sectors": demand.sectors,
        "executed": demand.instructions,
        "warps": found.at_once,
        "waves": found.waves,
        "microseconds": 1e6 * found.seconds,
        "bound": found.bound,
        "terms": found.terms,
        "share": roofline_bound(demand, device, batch) / found.seconds,
    }


def known_demand(demand: Demand, taken: KernelResources, code: Code, *, has_loops: bool) -> Demand:
    """Return what a kernel takes, with what the assembler and the machine code tell of it.

    Args:
        demand:    what is estimated of it.
        taken:     what the assembler reports.
        code:      its machine code.
        has_loops: whether parts of it are executed more than once: how often, it does not tell.
    """
    demand = replace(
        demand,
        registers=taken.registers,
        shared_bytes=max(demand.shared_bytes, taken.shared_memory),
        # Nothing fetches what is never executed.
        code_bytes=code.code_bytes - INSTRUCTION_BYTES * code.rare,
        # The stack is not all: what loops keep of a state is in memory that the kernel is given.
        local_bytes=max(demand.local_bytes, taken.stack) if has_loops else taken.stack,
    )
    if has_loops:
        return demand
    executed = max(code.instructions, code.whole)  # functions that are called count each time
    return replace(demand, instructions=executed, pipes=code.pipes, local_moves=code.local)


def _code_figures(code: Code) -> Row:
    return {
        "instructions": code.instructions,
        **code.pipes,
        "rare": code.rare,
        "whole": code.whole,
        "code_bytes": code.code_bytes,
    }


def _peer_row(path: Path, code: Code) -> Row:
    """Return what is known of a peer's kernel."""
    figures = {"registers": code.registers, **_code_figures(code)}
    return {"robot": path.name, "function": code.name, "dtype": ""} | figures


def heading(results: Results) -> str:
    """Return the lines that say what the figures are."""
    device, versions = results["device"], results["versions"]
    tools = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"Compiled for {results['arch']} and disassembled, {results['date']}: {tools}. Predicted, "
        f"not measured: {device['title']}, {device['sms']} multiprocessors at "
        f"{device['clock'] / 1e9:.2f} GHz, {device['bandwidth'] / 1e12:.2f} TB/s; "
        f"{results['batch'][-1]:,} states, arrays in {results['layout']}."
    )


def tables(results: Results) -> list[Grid]:
    """Return two tables for each robot and element type, and one of a peer's kernels."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in results["rows"]:
        groups.setdefault((row["robot"], row["dtype"]), []).append(row)
    grids = []
    for (robot, dtype), rows in groups.items():
        grids.append(_grid(f"{robot}, {dtype}: what a kernel takes", TAKEN, rows))
        grids.append(_grid(f"{robot}, {dtype}: what is predicted", BATCH, rows))
    if results["peers"]:
        grids.append(_grid("What the kernels of others take", TAKEN, results["peers"]))
    return grids


def _grid(title: str, figures: dict[str, str], rows: Sequence[Row]) -> Grid:
    """Return a table of the columns that have figures."""
    lines = [(row["function"], *(_spelt(name, row.get(name)) for name in figures)) for row in rows]
    columns = zip(("", *figures.values()), *lines, strict=True)
    headings, *texts = zip(*(column for column in columns if any(column[1:])), strict=True)
    return Grid(title, headings, tuple(texts))


def _spelt(name: str, value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if name == "share":
        return f"{100 * value:.0f} %"
    return f"{value:,}" if isinstance(value, int) else number(value)


if __name__ == "__main__":
    sys.exit(main())
