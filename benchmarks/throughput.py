"""Throughput of the CPU backend beside Pinocchio's own batch functions, in one run.

Each repetition times every contestant once, in turn, so that whatever else the machine is doing
falls on all alike; the figures are medians. Arrays are row-major (B, n) for gridgen; Pinocchio gets
the column-major layout it prefers.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pinocchio as pin
from rich.console import Console
from rich.table import Table

import gridgen
from gridgen.check import random_states
from gridgen.pipeline import read_tree

ROBOTS = Path(__file__).resolve().parents[1] / "robots"


def median_times(
    contestants: dict[str, Callable[[], object]], repetitions: int
) -> dict[str, float]:
    """Return the median time of each contestant [s], measured in turn."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    for _ in range(repetitions):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def pinocchio_positions(model: pin.Model, tree, q: np.ndarray) -> np.ndarray:
    """Return positions as Pinocchio's: cosine and sine for a continuous joint."""
    positions = np.tile(pin.neutral(model), (len(q), 1))
    for body in tree.bodies:
        joint = model.joints[model.getJointId(body.joint)]
        own = q[:, body.q_index : body.q_index + body.nq]
        if joint.nq == 2:
            own = np.concatenate([np.cos(own), np.sin(own)], axis=1)
        positions[:, joint.idx_q : joint.idx_q + joint.nq] = own
    return positions


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("urdf", nargs="?", type=Path, default=ROBOTS / "arm7.urdf")
    parser.add_argument("--floating-base", action="store_true")
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repetitions", type=int, default=41)
    arguments = parser.parse_args()
    os.environ["GRIDGEN_NUM_THREADS"] = str(arguments.threads)

    tree = read_tree(
        arguments.urdf, floating_base=arguments.floating_base, joint_dynamics=False, armature=0.0
    )
    robot = gridgen.load(arguments.urdf, floating_base=arguments.floating_base)
    base = [pin.JointModelFreeFlyer()] if arguments.floating_base else []
    model = pin.buildModelFromUrdf(str(arguments.urdf), *base)
    pool = pin.ModelPool(model, arguments.threads)
    states = random_states(tree, arguments.batch, np.random.default_rng(0))
    q, qd, qdd, tau = (states[name] for name in ("q", "qd", "qdd", "tau"))
    columns = [np.asfortranarray(x.T) for x in (pinocchio_positions(model, tree, q), qd, qdd, tau)]
    result = np.empty((model.nv, arguments.batch), order="F")

    def peer(function, last) -> Callable[[], object]:
        return lambda: function(arguments.threads, pool, columns[0], columns[1], last, result)

    rows = {
        "inverse dynamics": ("inverse_dynamics", qdd, peer(pin.rneaInParallel, columns[2])),
        "forward dynamics": ("forward_dynamics", tau, peer(pin.abaInParallel, columns[3])),
    }
    table = Table("function", "type", box=None, header_style="bold")
    for heading in ("gridgen ns/state", "Pinocchio ns/state", "ratio"):
        table.add_column(heading, justify="right")
    for title, (name, last, run_peer) in rows.items():
        contestants: dict[str, Callable[[], object]] = {"pinocchio": run_peer}
        for dtype in ("float32", "float64"):
            args = [np.ascontiguousarray(x, dtype=dtype) for x in (q, qd, last)]
            out = np.empty_like(args[1])
            function = getattr(robot, name)
            contestants[dtype] = lambda f=function, a=args, o=out: f(*a, out=o)
        seconds = median_times(contestants, arguments.repetitions)
        peer_time = seconds.pop("pinocchio")
        for dtype, own in seconds.items():
            per_state = 1e9 / arguments.batch
            cells = (own * per_state, peer_time * per_state, peer_time / own)
            table.add_row(title, dtype, f"{cells[0]:.1f}", f"{cells[1]:.1f}", f"{cells[2]:.1f}")
    console = Console()
    console.print(
        f"{tree.name}, batch {arguments.batch}, {arguments.threads} threads, "
        f"Pinocchio {pin.__version__} in float64"
    )
    console.print(table)


if __name__ == "__main__":
    main()
