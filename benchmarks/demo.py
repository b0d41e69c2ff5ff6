"""Runs grid-gen on a robot, evaluates the module it wrote, and prints speed and error.

    python benchmarks/demo.py [robot.urdf]

The robot is the Franka Panda of the package example-robot-data, unless a file is named.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from gridgen import Robot, cli
from gridgen.backends import TARGETS, available_backends, target_for
from gridgen.check import compare_function, random_states
from gridgen.compiler import read_tree
from gridgen.naming import ident

BATCH = 8192
COMPARED = 512  # states that the reference, plain NumPy, is asked for as well
SECONDS = 0.3  # of measurement, for each function and type
OUTPUT = Path("build") / "demo"
PANDA = "cmeel.prefix/share/example-robot-data/robots/panda_description/urdf/panda.urdf"


def main(arguments: list[str]) -> int:
    """Generate, evaluate, print."""
    urdf = Path(arguments[0]) if arguments else installed(PANDA)
    print(f"$ grid-gen {urdf.name} --output {OUTPUT}")
    if status := cli.main([str(urdf), "--output", str(OUTPUT), "--name", urdf.stem, "--force"]):
        return status
    sys.path.insert(0, str(OUTPUT))
    module = importlib.import_module(ident(urdf.stem))
    for backend in available_backends():
        if TARGETS[backend] is target_for(TARGETS[backend].arrays):  # none that stands in for it
            Console().print(measurements(urdf, module.robot, backend))
    return 0


def installed(path: str) -> Path:
    """Return a file that lies somewhere below the folders of ``sys.path``."""
    for folder in sys.path:
        if (Path(folder) / path).is_file():
            return Path(folder) / path
    raise SystemExit(f"{path} is not installed: pip install example-robot-data")


def measurements(urdf: Path, robot: Robot, backend: str) -> Table:
    """Return a table with the speed and the error of every function."""
    tree = read_tree(urdf)
    states = random_states(tree, BATCH, np.random.default_rng(0))
    table = Table("function", title=f"\n{robot.name}: {backend}, {BATCH} random states", box=None)
    for heading in ("type", "states/s", "worst relative error"):
        table.add_column(heading, justify="right")
    for function, computes in robot.functions.items():
        if function != computes and not TARGETS[backend].teams:
            continue  # a kernel of the scan schedule
        for dtype in ("float32", "float64"):
            rounded = {name: value.astype(dtype) for name, value in states.items()}
            arrays = {name: on_device(value, backend) for name, value in rounded.items()}

            def evaluate(states: dict[str, Any] = arrays, function: str = function) -> Any:
                return finished(robot.evaluate(function, states, backend=backend))

            few = {name: value[:COMPARED] for name, value in arrays.items()}
            exact = {name: value[:COMPARED].astype(np.float64) for name, value in rounded.items()}
            error = compare_function(tree, computes, dtype, exact, on_host(evaluate(few))).error
            table.add_row(function, dtype, f"{BATCH / least_time(evaluate):,.0f}", f"{error:.1e}")
    return table


def least_time(call: Callable[[], Any]) -> float:
    """Return the least time that a call takes [s]."""
    times = []
    while sum(times) < SECONDS:
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times)


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
