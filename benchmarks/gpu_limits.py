"""What NVRTC makes of every kernel of the thread schedule, in both layouts, against limits.

    python benchmarks/gpu_limits.py --robots humanoid
    python benchmarks/gpu_limits.py --robots arm7 --functions mass_matrix --dtype float64

No GPU is needed, and no disassembler. A kernel that is over a limit has a mark beside the figure.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from cases import CASES, INPUTS, OWN, Case, load_cases
from disassembly import executable_bytes
from report import print_grids
from tables import Grid, Row, markdown_grid

from gridgen.backends.cache import BuildCache
from gridgen.backends.cuda.compiler import check_machine, compile_kernel
from gridgen.backends.cuda.compiler import version as nvrtc_version
from gridgen.errors import GridGenError
from gridgen.functions.types import Dtype
from gridgen.options import DTYPE_CHOICES

#: The most that a kernel should take: no registers in memory, little else there, and a compiler
#: that keeps nobody waiting. gridgen.cost says what code beyond the instruction caches costs.
LIMITS: dict[str, float] = {
    "image\nkB": float("inf"),
    "code\nkB": float("inf"),
    "registers": 255,
    "stack\nbytes": 1024,
    "spilled\nbytes": 0,
    "compiling\ns": 10,
}
_WIDTH = 120


def main() -> int:
    """Compile everything anew, then print."""
    parser = _parser()
    arguments = parser.parse_args()
    unavailable: dict[str, str] = {}
    try:
        check_machine(arguments.arch)
        grids = [
            _grid(f"{case.name}, {dtype}", list(_rows(case, dtype, arguments)))
            for case in load_cases(arguments.robots, unavailable)
            for dtype in arguments.dtype
        ]
        heading = f"NVRTC {nvrtc_version()} for {arguments.arch}; * is over the limit"
    except GridGenError as error:
        parser.error(str(error))
    if arguments.markdown:
        print("\n\n".join((heading, *map(markdown_grid, grids))))
    else:
        print_grids(heading, grids, unavailable, _WIDTH)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", choices=CASES, default=list(OWN))
    parser.add_argument("--functions", nargs="+", choices=INPUTS, default=list(INPUTS))
    parser.add_argument("--dtype", nargs="+", choices=DTYPE_CHOICES, default=["float32"])
    parser.add_argument("--arch", default="sm_90", help="the GPU to compile for (%(default)s)")
    parser.add_argument("--markdown", action="store_true", help="print tables as Markdown")
    return parser


def _rows(case: Case, dtype: Dtype, arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield what each kernel takes, for any strides and for rows."""
    for function in filter(case.has, arguments.functions):
        kernel = case.module.kernels.named(case.entry(function))
        sources = case.module.sources(kernel)
        for rows in sources.forms(kernel.name):
            print(f"{case.name}, {kernel.name}, {dtype}", file=sys.stderr)
            with tempfile.TemporaryDirectory(prefix="grid-gen-") as folder:
                begin, cache = process_time(), BuildCache(Path(folder))
                made = compile_kernel(sources, kernel.name, dtype, arguments.arch, cache, rows=rows)
                seconds = process_time() - begin
            taken = made.resources
            assert taken is not None  # it is machine code
            figures = (
                len(made.image) / 1024,
                executable_bytes(made.image) / 1024,
                taken.registers,
                taken.stack,
                taken.spill_stores + taken.spill_loads,
                seconds,
            )
            yield {"kernel": f"{kernel.name}{', rows' if rows else ''}"} | dict(
                zip(LIMITS, figures, strict=True)
            )


def _grid(title: str, rows: list[Row]) -> Grid:
    lines = [(row["kernel"], *(spelt(name, row[name]) for name in LIMITS)) for row in rows]
    return Grid(title, ("", *LIMITS), tuple(lines))


def spelt(name: str, value: float) -> str:
    """Return a figure, with a mark where it is over its limit."""
    text = f"{value:.1f}" if name.startswith("compiling") else f"{value:,.0f}"
    return f"{text} *" if value > LIMITS[name] else text


if __name__ == "__main__":
    sys.exit(main())
