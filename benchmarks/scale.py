"""Millions of states by Dask: one and two processes, a worker that is killed, 64 nodes on paper.

    python benchmarks/scale.py [--states 10000000] [--chunk 250000] [--steps 16]

Forward dynamics of arm7 in float32, or the end of rollouts of so many steps, from .npy files, one
for each chunk, to such files. "one process" is a loop over the same files without Dask. Every
process computes with one thread.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import threading
from pathlib import Path
from time import perf_counter, process_time, sleep

os.environ["GRIDGEN_NUM_THREADS"] = "1"

import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster, wait
from machine import description
from tables import Grid, markdown_grid

import gridgen
from gridgen.dask import map_states, rollout

NAMES = ("q", "qd", "tau")
WIDTH = 7
#: Steps of a rollout, if it is one that is computed, and their length [s].
STEPS, DT = 0, 1e-3
ROBOT = Path(__file__).parents[1] / "robots" / "arm7.urdf"
#: Nodes and workers of each, on paper.
NODES, CORES = (1, 4, 16, 64), 32
#: States of a chunk that takes no time to compute.
SMALL = 64
Seconds = float


def computed(robot: gridgen.Robot, q: np.ndarray, qd: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Return what is computed of each state; the same efforts in all steps of a rollout."""
    if not STEPS:
        return robot.forward_dynamics(q, qd, tau)
    efforts = np.zeros((STEPS, WIDTH), np.float32)
    return robot.rollout(q, qd, efforts, DT, store_every="last")[0]


def map_computed(robot: gridgen.Robot, q: da.Array, qd: da.Array, tau: da.Array) -> da.Array:
    """Return the same by Dask."""
    if not STEPS:
        return map_states(robot, "forward_dynamics", q, qd, tau)
    efforts = np.zeros((STEPS, WIDTH), np.float32)
    return rollout(robot, q, qd, efforts, DT, store_every="last")[0]


def chunk_files(folder: Path, name: str, count: int) -> list[Path]:
    """Return the files of an array, one for each chunk, as Dask names them."""
    return [folder / name / f"{place}.npy" for place in range(count)]


def write_states(folder: Path, states: int, chunk: int) -> None:
    """Write random states, a chunk at a time."""
    for seed, name in enumerate(NAMES):
        chunks = da.random.default_rng(seed).normal(size=(states, WIDTH), chunks=(chunk, WIDTH))
        da.to_npy_stack(str(folder / name), chunks.astype(np.float32))


def alone(robot: gridgen.Robot, folder: Path, states: int, chunk: int) -> tuple[Seconds, Seconds]:
    """Compute all chunks in this process; return the time that took, and that of the processor."""
    count = -(-states // chunk)
    (folder / "alone").mkdir(exist_ok=True)
    start, before = perf_counter(), process_time()
    for *sources, target in zip(
        *(chunk_files(folder, name, count) for name in (*NAMES, "alone")), strict=True
    ):
        np.save(target, computed(robot, *map(np.load, sources)))
    return perf_counter() - start, process_time() - before


def by_dask(robot: gridgen.Robot, folder: Path, name: str, states: int, kill=None) -> Seconds:
    """Compute all chunks by the workers of the current cluster; return how long that took.

    Args:
        robot:  the robot.
        folder: of the arrays.
        name:   of the result.
        states: how many of them.
        kill:   called when it is under way.
    """
    arrays = (da.from_npy_stack(str(folder / n), mmap_mode=None)[:states] for n in NAMES)
    found = map_computed(robot, *arrays)
    start = perf_counter()
    if kill is not None:
        threading.Thread(target=kill, daemon=True).start()
    da.to_npy_stack(str(folder / name), found)
    return perf_counter() - start


def chunk_seconds(client: Client, robot: gridgen.Robot, count: int = 1000) -> Seconds:
    """Return what a chunk takes of the scheduler, which is in this process, and of the client."""
    few = da.zeros((count * SMALL, WIDTH), chunks=(SMALL, WIDTH), dtype=np.float32)
    found = map_states(robot, "forward_dynamics", few, few, few)
    start = process_time()
    wait(client.persist(found))
    return (process_time() - start) / count


def peak() -> int:
    """Return the most memory that this process has had [bytes]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def same(folder: Path, count: int, *names: str) -> bool:
    """Tell whether results have the same bits."""
    files = zip(*(chunk_files(folder, name, count) for name in names), strict=True)
    return all(len({path.read_bytes() for path in those}) == 1 for those in files)


def run(folder: Path, states: int, chunk: int, kills: bool) -> list[Grid]:
    """Measure, and return what was found; kill a worker where one is to be lost."""
    robot = gridgen.load(ROBOT, backend="cpu")
    computed(robot, *np.zeros((3, chunk, WIDTH), np.float32))  # compiled
    write_states(folder, states, chunk)
    seconds, busy = alone(robot, folder, states, chunk)
    took, busiest, peaks, overhead = {"one process": seconds}, {"one process": busy}, {}, 0.0
    for workers in (1, 2):
        options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            by_dask(robot, folder, "warm", 2 * workers * chunk)
            name = f"workers {workers}"
            before = client.run(process_time)
            took[name] = by_dask(robot, folder, name, states)
            busiest[name] = max(t - before[at] for at, t in client.run(process_time).items())
            peaks[name] = max(client.run(peak).values())
            if workers == 2:
                overhead = chunk_seconds(client, robot)
            if workers == 2 and kills:
                worker, *_ = client.run(os.getpid).values()

                def kill(worker: int = worker, delay: Seconds = took[name] / 2) -> None:
                    sleep(delay)
                    os.kill(worker, signal.SIGKILL)

                took["one of two killed"] = by_dask(robot, folder, "killed", states, kill)
    names = ("alone", "workers 1", "workers 2", *(["killed"] if kills else []))
    complete = same(folder, -(-states // chunk), *names)
    return [
        measured(took, busiest, peaks, states, chunk, complete),
        on_paper(busy / states, overhead, states, chunk),
    ]


def measured(
    took: dict[str, Seconds],
    busiest: dict[str, Seconds],
    peaks: dict[str, int],
    states: int,
    chunk: int,
    complete: bool,
) -> Grid:
    """Return the table of what was measured.

    What else the machine does makes times longer, those of a processor hardly: by these two workers
    on cores of their own would be as fast as the last but one column says.
    """
    lines = [
        (
            name,
            f"{seconds:.2f}",
            f"{states / seconds / 1e6:.2f}",
            f"{took['one process'] / seconds:.2f}",
            f"{busiest[name]:.2f}" if name in busiest else "",
            f"{busiest['one process'] / busiest[name]:.2f}" if name in busiest else "",
            f"{peaks[name] / 1e6:.0f}" if name in peaks else "",
        )
        for name, seconds in took.items()
    ]
    bits = "all results have the same bits" if complete else "RESULTS DIFFER"
    what = f"ends of {STEPS} steps" if STEPS else "forward dynamics"
    title = f"{what}, {states:,} states in chunks of {chunk:,}; {bits}"
    heads = (
        "",
        "s",
        "million states/s",
        "of one process",
        "processor s of the busiest",
        "of one process",
        "peak MB",
    )
    return Grid(title, heads, tuple(lines))


def on_paper(state: Seconds, overhead: Seconds, states: int, chunk: int) -> Grid:
    """Return what follows for clusters from the time of a state and that of a chunk for Dask.

    The scheduler handles one chunk after the other; nodes read and write as fast as this one.
    """
    lines = []
    for nodes in NODES:
        workers = nodes * CORES
        rate = min(workers / state, chunk / overhead)
        bound = "the processors" if workers / state < chunk / overhead else "the scheduler"
        enough = workers * overhead / state
        lines.append((str(nodes), f"{workers}", f"{rate / 1e6:,.0f}", bound, f"{enough:,.0f}"))
    title = (
        f"On paper: {1e9 * state:.0f} ns a state, {1e3 * overhead:.2f} ms a chunk for the "
        f"scheduler, {CORES} workers a node, chunks of {chunk:,}"
    )
    heads = (
        "nodes",
        "workers",
        "million states/s",
        "bound by",
        "states of a chunk that keep all busy",
    )
    return Grid(title, heads, tuple(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=10_000_000)
    parser.add_argument("--chunk", type=int, default=250_000)
    parser.add_argument("--steps", type=int, default=0, help="of a rollout")
    parser.add_argument("--kill", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--folder", type=Path, default=Path("build/scale"))
    options = parser.parse_args()
    global STEPS
    STEPS = options.steps
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        for grid in run(options.folder, options.states, options.chunk, options.kill):
            print(markdown_grid(grid), end="\n\n")
    finally:
        shutil.rmtree(options.folder)
    print(", ".join(f"{name} {value}" for name, value in description().items()))


if __name__ == "__main__":
    main()
