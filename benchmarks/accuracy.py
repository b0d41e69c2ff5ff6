"""Rounding errors of the ``cpu`` backend: every function on the robots that the tests compile.

    python benchmarks/accuracy.py --dtype float32

Prints a table. The error of a state is its largest deviation from the reference in float64,
relative to the largest entry of the result. The last column is the largest share that a case takes
of its tolerance. That is what ``grid-gen --check`` allows, which grows with the conditioning of the
state where linear equations are solved (``gridgen/check.py``).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from gridgen.check import Comparison, compare_function, random_states
from gridgen.dynamics.functions import COMPUTATIONS, frame_computations
from gridgen.errors import GridGenError
from helpers.robots import MAIN_ROBOTS, OWN_ROBOTS
from numerics.robots import load_robot, load_tree, urdf_path

STATES = 71


def comparisons(name: str, floating: bool, dtype: str, longest: int) -> list[Comparison]:
    """Return a comparison for every function of a robot that is not too long to be compiled."""
    from gridgen.schedules.thread.plan import plan_programs

    tree = load_tree(urdf_path(name), floating)
    robot = load_robot(urdf_path(name), floating_base=floating)
    x = random_states(tree, STATES, np.random.default_rng(len(name)))
    rounded = {key: value.astype(dtype) for key, value in x.items()}
    exact = {key: value.astype(np.float64) for key, value in rounded.items()}
    rows = []
    of_frame = frame_computations(tree, [tree.bodies[-1].name])
    for function, computation in (COMPUTATIONS | of_frame).items():
        if computation.refusal(tree) or computation.key.inputs:
            continue
        if plan_programs(tree, function).cpu.operations > longest:
            continue
        row = compare_function(tree, function, dtype, exact, robot.evaluate(function, rounded))
        label = computation.key.function if computation.frame else function
        rows.append(replace(row, function=label))
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--robots", nargs="+", default=[*OWN_ROBOTS, *MAIN_ROBOTS])
    parser.add_argument("--longest", type=int, default=40_000, help="operations of a program")
    options = parser.parse_args()
    found: dict[str, list[Comparison]] = {}
    for name in options.robots:
        for floating in (False, True):
            try:
                rows = comparisons(name, floating, options.dtype, options.longest)
            except GridGenError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            for row in rows:
                found.setdefault(row.function, []).append(row)
            print(name, "floating" if floating else "fixed", file=sys.stderr)
    print(f"{'function':<32}{'cases':>7}{'median':>10}{'largest':>10}{'of tolerance':>14}")
    for function, rows in found.items():
        errors = [row.error for row in rows]
        share = max(row.error / row.tolerance for row in rows)
        print(
            f"{function:<32}{len(rows):>7}{np.median(errors):>10.1e}{max(errors):>10.1e}"
            f"{share:>14.0%}"
        )


if __name__ == "__main__":
    main()
