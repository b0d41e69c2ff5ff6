"""The time of calls with inertial parameters as inputs, over that of the folded robot.

    python benchmarks/parameters.py --write

arm7, 4,096 states, a row of parameters for each, one thread; least times of calls in turn. Bound
calls do not validate the rows, plain calls do. ``--write`` replaces a table of the manual.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from interleave import interleaved
from tables import Grid, markdown_grid, write_table

import gridgen
from gridgen.backends.cpu.backend import THREADS_VARIABLE

ROBOT = Path(__file__).parents[1] / "robots" / "arm7.urdf"
BATCH = 4096
FUNCTIONS = {"inverse dynamics": "inverse_dynamics", "forward dynamics": "forward_dynamics"}
#: Columns: rows of parameters, and whether a call is bound.
COLUMNS = {
    "`hand`, bound": (("hand",), True),
    "`hand`, called": (("hand",), False),
    '`"all"`, bound': (("all",), True),
}

Call = Callable[[], object]


def call_of(name: str, links: tuple[str, ...], dtype: str, *, is_bound: bool) -> Call:
    """Return a call; without links, of the folded robot."""
    robot = gridgen.load(ROBOT, parameters=links, check_parameters=not (links and is_bound))
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(BATCH, n)).astype(dtype) for n in (robot.nq, robot.nv, robot.nv)]
    options = {"out": np.empty((BATCH, robot.nv), dtype), "method": "aba"}
    if name != "forward_dynamics":
        del options["method"]
    if links:
        options["params"] = np.tile(robot.parameters().astype(dtype), (BATCH, 1, 1))
    if is_bound:
        return robot.bind(name, *arrays, **options)
    return lambda: getattr(robot, name)(*arrays, **options)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="replace the table of the manual")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each pair of cells")
    arguments = parser.parse_args()
    os.environ[THREADS_VARIABLE] = "1"
    rows = []
    for title, name in FUNCTIONS.items():
        cells: dict[str, list[str]] = {column: [] for column in COLUMNS}
        for dtype in ("float32", "float64"):
            calls = {key: call_of(name, x, dtype, is_bound=y) for key, (x, y) in COLUMNS.items()}
            for is_bound in (True, False):
                calls[str(is_bound)] = call_of(name, (), dtype, is_bound=is_bound)
            for call in calls.values():
                call()
            times = interleaved(calls, arguments.seconds)
            for column, (_, is_bound) in COLUMNS.items():
                cells[column].append(f"{times[column].least / times[str(is_bound)].least:.2f}")
        rows.append((title, *(", ".join(cell) for cell in cells.values())))
    headings = ("", *COLUMNS)
    print(markdown_grid(Grid("parameters_times", headings, tuple(rows))))
    if arguments.write:
        write_table("parameters_times", [headings, *rows])


if __name__ == "__main__":
    main()
