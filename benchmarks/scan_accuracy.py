"""Rounding errors of the scan kernels and of the recursions over the length of a chain.

    python benchmarks/scan_accuracy.py --bodies 10 32 100 200 --dtype float32

Prints a table: the largest deviation of a state's result from that of long doubles, relative to the
result's largest entry, the median over states of random chains. Kernels run on the emulated
backend; recursions are those of gridgen.dynamics on NumPy numbers of the same type.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from gridgen.dynamics.functions import COMPUTATIONS
from gridgen.symbolic.scalars import FloatScalars
from helpers.scan import chain_of, module_of, random_inputs, run

ALGORITHMS = {
    "inverse dynamics": ("inverse_dynamics_scan", "inverse_dynamics_scan_synchronous"),
    "articulated bodies": ("forward_dynamics_aba_scan", "forward_dynamics_aba_scan_unmerged"),
    "mass matrix": ("forward_dynamics_jsiia_scan",),
}
RECURSIONS = {
    "inverse dynamics": "inverse_dynamics",
    "articulated bodies": "forward_dynamics_aba",
    "mass matrix": "forward_dynamics_crba",
}
# What the others are compared with. It does not form the mass matrix of a long chain, whose
# condition costs more digits than long doubles have to spare.
EXACT = {
    "inverse dynamics": "inverse_dynamics",
    "articulated bodies": "forward_dynamics_aba",
    "mass matrix": "forward_dynamics_aba",
}
# Beyond so many bodies the recursion over the mass matrix takes minutes in Python.
LARGEST_MATRIX = 300


def errors(computed: np.ndarray, expected: np.ndarray) -> list[float]:
    """Return one number for each state."""
    scale = np.abs(expected).max(axis=1)
    return [float(error) for error in np.abs(computed - expected).max(axis=1) / scale]


def recursion(tree: Any, function: str, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Run the textbook's recursion in the type of the inputs."""
    columns = {name: list(array.T) for name, array in inputs.items()}
    (result,) = COMPUTATIONS[function].algorithm(tree, columns, FloatScalars())
    return np.stack(result, axis=1)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bodies", type=int, nargs="+", default=[10, 32, 100, 200])
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--chains", type=int, default=3)
    parser.add_argument("--states", type=int, default=5)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()

    print(f"{'algorithm':<46}" + "".join(f"{n:>10}" for n in options.bodies))
    for algorithm, kernels in ALGORITHMS.items():
        for function in (RECURSIONS[algorithm], *kernels):
            cells = []
            for bodies in options.bodies:
                found: list[float] = []
                if function == "forward_dynamics_crba" and bodies > LARGEST_MATRIX:
                    cells.append(f"{'-':>10}")
                    continue
                for seed in range(options.chains):
                    tree = chain_of(bodies, seed)
                    inputs = random_inputs(tree, kernels[0], options.states, options.dtype, seed)
                    longer = {name: array.astype(np.longdouble) for name, array in inputs.items()}
                    expected = recursion(tree, EXACT[algorithm], longer)
                    if function in kernels:
                        threads = options.threads if bodies > 32 else None
                        module = module_of(tree, function, threads, observed=False)
                        computed, _ = run(module, function, inputs, options.dtype)
                    else:
                        computed = recursion(tree, function, inputs)
                    found += errors(computed, expected)
                cells.append(f"{np.median(found):>10.1e}")
            label = function if function in kernels else f"{algorithm}, recursion"
            print(f"{label:<46}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
