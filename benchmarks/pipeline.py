"""The pipeline of processes: predicted and measured rates, as tables.

    python benchmarks/pipeline.py [--samples 200000] [--block 256]

Inverse dynamics of the arm with 6 joints and of chains with 12 and 18, the sizes of the paper's
Table 3, by 2 to 5 processes (``python -m gridgen.papers``); and the paper's own numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from machine import description
from tables import Grid, markdown_grid

import gridgen
from gridgen.papers.model import Machine, Operations, Split, pipeline

ROBOTS = Path(__file__).parents[1] / "robots"
SIZES = (6, 12, 18)
PROCESSES = (2, 3, 4, 5)
# As root, and with more processes than cores.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
}
# Table 1 and Table 3 of the paper; docs/papers.md says how operations were counted.
TRANSPUTER = Machine(operation=1.81e-6, start=54e-6, message=72 / 1.72e6)
OPERATIONS = Operations(forward=125, backward=68)
PRINTED = {
    (2, 1): (1111, 544, 352),
    (3, 1): (1111, 555, 370),
    (3, 2): (1428, 704, 456),
    (4, 2): (1428, 721, 481),
}
Found = dict[tuple[int, int], dict[str, Any]]


def measure(samples: int, block: int, sizes: Sequence[int], counts: Sequence[int]) -> Found:
    """Return what each run tells, by joints and processes."""
    found: Found = {}
    with tempfile.TemporaryDirectory() as folder:
        for joints in sizes:
            urdf, file = Path(folder, f"{joints}.urdf"), Path(folder, "trajectory.npz")
            urdf.write_text(_robot(joints), encoding="utf-8")
            q, qd, qdd = np.random.default_rng(0).normal(size=(3, samples, joints))
            np.savez(file, q=q, qd=qd, qdd=qdd)
            for processes in counts:
                words = [urdf, file, "-o", Path(folder, "tau.npz"), "--block", block, "--json"]
                command = ["mpirun", "-n", processes, sys.executable, "-m", "gridgen.papers"]
                result = subprocess.run(
                    [*map(str, (*command, *words))],
                    capture_output=True,
                    text=True,
                    check=True,
                    env={**os.environ, **ENVIRONMENT},
                )
                found[joints, processes] = json.loads(result.stdout)
            tau = np.load(Path(folder, "tau.npz"))["tau"]
            expected = gridgen.load(urdf).inverse_dynamics(q, qd, qdd)
            assert np.allclose(tau, expected, atol=1e-12 * np.abs(expected).max())
    return found


def _robot(joints: int) -> str:
    if joints == 6:
        return (ROBOTS / "arm6.urdf").read_text(encoding="utf-8")
    command = (sys.executable, ROBOTS / "chain.py", "--bodies", joints, "--seed", 7)
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout


def measured_grid(found: Found, block: int) -> Grid:
    """Return the table of runs."""
    lines = []
    for (joints, _), run in found.items():
        rates = run["predicted"][0], run["measured"][0], run["alone"]
        times = run["predicted"][1], run["measured"][1]
        machine = f"{1e9 * run['operation']:.2f}", f"{1e6 * run['start']:.1f}"
        lines.append(
            (
                str(joints),
                "+".join(map(str, run["split"])),
                *(f"{rate / 1e6:.2f}" for rate in rates),
                *(f"{1e6 * time:.0f}" for time in times),
                *machine,
                f"{1e6 * run['message']:.1f}",
            )
        )
    heads = (
        "joints",
        "processes",
        "predicted million/s",
        "measured",
        "one process",
        "predicted latency us",
        "measured",
        "t_e ns",
        "T_c us",
        "k l us",
    )
    return Grid(f"Processes, blocks of {block} samples", heads, tuple(lines))


def paper_grid() -> Grid:
    """Return the table of the paper's rates and the model's."""
    lines = []
    for split, printed in PRINTED.items():
        rates = (modeled(joints, split) for joints in SIZES)
        cells = (f"{one} / {rate:.0f}" for one, rate in zip(printed, rates, strict=True))
        lines.append(("+".join(map(str, split)), *cells))
    heads = ("processors", *(f"n = {joints}" for joints in SIZES))
    return Grid("The paper's Table 3: printed / by the model [Hz]", heads, tuple(lines))


def modeled(joints: int, split: tuple[int, int]) -> float:
    """Return the samples in a second of the paper's processors."""
    return pipeline(joints, Split(*split), OPERATIONS).rate(TRANSPUTER)


def drawn(found: Found) -> Any:
    """Return a figure of predicted and measured rates, of the paper and of the processes here."""
    import matplotlib.pyplot as plt

    figure, (paper, here) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for place, joints in enumerate(SIZES):
        color = f"C{place}"
        splits = [*PRINTED]
        words = ["+".join(map(str, split)) for split in splits]
        paper.plot(words, [modeled(joints, s) for s in splits], color=color, label=f"n = {joints}")
        paper.plot(words, [PRINTED[s][place] for s in splits], "o", color=color)
        runs = [found[joints, processes] for processes in PROCESSES]
        here.plot(PROCESSES, [run["predicted"][0] for run in runs], color=color)
        here.plot(PROCESSES, [run["measured"][0] for run in runs], "o", color=color)
    paper.set(title="the paper's processors", xlabel="processors, forward + backward", ylabel="Hz")
    here.set(title="processes here", xlabel="processes", ylabel="samples a second", yscale="log")
    here.set_xticks(PROCESSES)
    paper.legend(title="line: model, dots: measured")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--joints", nargs="+", type=int, default=SIZES)
    parser.add_argument("--processes", nargs="+", type=int, default=PROCESSES)
    parser.add_argument("--block", type=int, default=256)
    options = parser.parse_args()
    found = measure(options.samples, options.block, options.joints, options.processes)
    for grid in (measured_grid(found, options.block), paper_grid()):
        print(markdown_grid(grid), end="\n\n")
    print(", ".join(f"{name} {value}" for name, value in description().items()))


if __name__ == "__main__":
    main()
