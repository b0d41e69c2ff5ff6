"""Runs grid-gen on a robot, evaluates the module it wrote, and prints speed and error.

    python benchmarks/demo.py [robot.urdf]

The robot is the Franka Panda of the package example-robot-data, its fingers fixed as in all tables,
unless a file is named. Beside it Pinocchio in a C++ loop, where it is installed.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import exp, log
from pathlib import Path
from typing import Any

os.environ.setdefault("GRIDGEN_NUM_THREADS", "1")  # as many as Pinocchio has

import numpy as np
from cases import INPUTS, KEYS, Case, load_case
from interleave import interleaved
from peers import peers
from rich.console import Console
from rich.table import Table

from gridgen import Robot
from gridgen.backends import TARGETS, available_backends, target_for
from gridgen.check import compare_function
from gridgen.commands.main import main as grid_gen
from gridgen.dynamics.functions import COMPUTATIONS
from gridgen.naming import ident

BATCH = 8192
COMPARED = 512  # states that the reference, plain NumPy, is asked for as well
SECONDS = 0.2  # of measurement, for each function
OUTPUT = Path("build") / "demo"
FUNCTIONS = (
    "inverse_dynamics",
    "bias_forces",
    "forward_dynamics_aba",
    "mass_matrix",
    "inverse_dynamics_gradient",
    "forward_dynamics_gradient",
    "forward_kinematics",
    "center_of_mass_jacobian",
    "centroidal_momentum_matrix",
)
PEER = "Pinocchio's library"


def main(arguments: list[str]) -> int:
    """Generate, evaluate, print."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    case = named(Path(arguments[0])) if arguments else load_case("panda")
    urdf = Path(arguments[0]) if arguments else OUTPUT / f"{case.name}.urdf"
    if not arguments:
        urdf.write_text(case.urdf, encoding="utf-8")
    start = time.perf_counter()
    print(f"$ grid-gen {urdf} --output {OUTPUT}", flush=True)
    words = [str(urdf), "--output", str(OUTPUT), "--name", case.name, "--quiet", "--force"]
    if status := grid_gen(words):
        return status
    sys.path.insert(0, str(OUTPUT))
    robot = importlib.import_module(ident(case.name)).robot
    for backend in available_backends():
        if TARGETS[backend] is target_for(TARGETS[backend].arrays):  # none that stands in for it
            show(case, robot, backend)
    print(f"Generated, compiled and measured in {time.perf_counter() - start:.0f} s.")
    return 0


def named(urdf: Path) -> Case:
    """Return the robot of a file, on a fixed base."""
    return Case(urdf.stem, urdf.read_text(encoding="utf-8"), floating_base=False)


def show(case: Case, robot: Robot, backend: str) -> None:
    """Print a table with the speed and the error of functions, and what it comes to."""
    functions = [*filter(case.has, FUNCTIONS)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # compilers are processes
        peer = pool.submit(peers, case, 1, ["pinocchio_library"])
        ready = {
            (function, dtype): pool.submit(prepared, case, robot, backend, function, dtype)
            for function in functions
            for dtype in ("float32", "float64")
        }
    found = peer.result()["pinocchio_library"]
    lacking = found if isinstance(found, str) else ""
    headings = ["float32", "float64", *([] if lacking else ["Pinocchio", "times"]), "errors"]
    place = "one core" if TARGETS[backend].arrays == "host" else backend
    title = f"\n{robot.name}, {place}: millions of states a second"
    table = Table("", title=title, title_justify="left", box=None)
    for heading in headings:
        table.add_column(heading, justify="right")
    gains = []
    for function in functions:
        calls, errors = {}, []
        for dtype in ("float32", "float64"):
            calls[dtype], error = ready[function, dtype].result()
            errors.append(f"{error:.0e}")
        theirs = {} if lacking else found.contestants(function, case.states(BATCH))
        calls |= {name: contestant.run for name, contestant in theirs.items()}
        times = {name: timing.least for name, timing in interleaved(calls, SECONDS).items()}
        row = [f"{BATCH / time / 1e6:,.2f}" for time in times.values()]
        if PEER in times:
            gains.append(times[PEER] / times["float64"])
            row.append(f"{gains[-1]:.0f}")
        row += [""] * (len(headings) - 1 - len(row))
        table.add_row(function.removesuffix("_aba"), *row, " ".join(errors))
    Console().print(table)
    if gains:
        mean = exp(sum(map(log, gains)) / len(gains))
        print(
            f"Is that fast? In float64 it is {min(gains):.0f} to {max(gains):.0f} times as fast as "
            f"Pinocchio's library in a C++ loop on one core, {mean:.0f} times on average."
        )
    else:
        lines = lacking.splitlines() or ["it has none of these"]
        why = next((line for line in lines if "error:" in line), lines[0])
        print(f"Is that fast? There is no Pinocchio here to compare it with: {why}")


def prepared(case: Case, robot: Robot, backend: str, function: str, dtype: str) -> tuple[Any, Any]:
    """Return a call of a function with room for its results, and its worst relative error."""
    rounded = {name: value.astype(dtype) for name, value in case.states(BATCH).items()}
    arrays = [on_device(rounded[name], backend) for name in INPUTS[function]]
    name = KEYS[function].function
    call = partial(getattr(robot, name), backend=backend)  # by the method that suits the robot
    entry = next(one for one in robot.functions if COMPUTATIONS[one].key.function == name)
    few = call(*(array[:COMPARED] for array in arrays))
    exact = {name: value[:COMPARED].astype(np.float64) for name, value in rounded.items()}
    error = compare_function(case.tree, entry, dtype, exact, on_host(few)).error
    out = call(*arrays)
    return lambda: finished(call(*arrays, out=out)), error


def on_device(array: Any, backend: str) -> Any:
    """Return an array where the backend wants it."""
    is_host = TARGETS[backend].arrays == "host"
    return array if is_host else importlib.import_module("cupy").asarray(array)


def finished(results: Any) -> Any:
    """Return results once they have been computed: a GPU is still at work when a call returns."""
    last = results[-1] if isinstance(results, tuple) else results
    if not isinstance(last, np.ndarray):
        last.device.synchronize()
    return results


def on_host(results: Any) -> Any:
    """Return one array or a tuple of them as NumPy's."""
    if isinstance(results, tuple):
        return tuple(map(on_host, results))
    return results if isinstance(results, np.ndarray) else results.get()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
