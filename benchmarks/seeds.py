"""The experiments of the papers, on the hardware of this machine.

    python benchmarks/seeds.py --output results
    python benchmarks/seeds.py --draw results/seeds.csv

One state of robots with 10 to 1000 links; 1 to 1000 states of robots with 10, 100 and 200 links;
inverse dynamics, and every method of forward dynamics. Writes a CSV and four figures. Robots
are random chains. GPU kernels are timed on a GPU; without one there are no such times. With
``--emulated`` the CSV, but no figure, also has the seconds that the emulated backend takes.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from interleave import interleaved
from machine import description

import gridgen
from gridgen.backends import available_backends
from gridgen.papers import Hybrid

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "robots"))

from chain import serial_chain

LINKS = (10, 20, 50, 100, 200, 500, 1000)
GROUPS = (1, 3, 10, 30, 100, 300, 1000)
GROUP_LINKS = (10, 100, 200)
#: Kernels with a team of threads for each state: what the legend says, and how they are called.
TEAMS: dict[str, dict[str, dict[str, str]]] = {
    "inverse_dynamics": {"scans": {"schedule": "scan"}},
    "forward_dynamics": {
        "ABA, scans": {"method": "aba", "schedule": "scan"},
        "ABA, hybrid": {"schedule": "hybrid"},
        "JSIIA": {"method": "jsiia"},
        "CFA": {"method": "cfa"},
    },
}
#: The kernel that computes a state in one thread.
THREAD: dict[str, dict[str, dict[str, str]]] = {
    "inverse_dynamics": {"a state in each thread": {"schedule": "thread"}},
    "forward_dynamics": {"ABA, a state in each thread": {"method": "aba", "schedule": "thread"}},
}
TITLES = {"inverse_dynamics": "Inverse dynamics", "forward_dynamics": "Forward dynamics"}

Call = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the CSV: seconds of one call, and what it was."""

    experiment: str
    function: str
    algorithm: str
    program: str
    backend: str
    device: str
    threads: int
    links: int
    groups: int
    median: float
    lower_quartile: float
    upper_quartile: float
    samples: int


@dataclass(frozen=True)
class Method:
    """One way to compute a function; fields as in ``Row``."""

    algorithm: str
    program: str
    backend: str
    threads: int


def main() -> int:
    """Measure, write the CSV, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder")
    parser.add_argument("--draw", type=Path, metavar="CSV", help="only draw a CSV's figures")
    parser.add_argument("--links", nargs="+", type=int, default=LINKS)
    parser.add_argument("--groups", nargs="+", type=int, default=GROUPS)
    parser.add_argument("--group-links", nargs="+", type=int, default=GROUP_LINKS)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each point of all curves")
    parser.add_argument(
        "--compiled", type=int, default=200, help="links of the longest straight-line program"
    )
    parser.add_argument("--emulated", action="store_true", help="time the emulated backend too")
    options = parser.parse_args()
    if options.draw:
        draw(read(options.draw), options.draw.parent)
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    rows = []
    with (options.output / "seeds.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        for row in measured(options):
            writer.writerow(asdict(row))
            file.flush()
            rows.append(row)
    draw(rows, options.output)
    return 0


# -- measuring --------------------------------------------------------------------------------


def measured(options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of both experiments."""
    for links in options.links:
        yield from rows_of("links", links, [1], options)
    for links in options.group_links:
        yield from rows_of("groups", links, options.groups, options)


def rows_of(
    experiment: str, links: int, groups: Iterable[int], options: argparse.Namespace
) -> Iterator[Row]:
    """Yield the rows of one robot."""
    robot = Robot(links, options)
    for function in TITLES:
        for count in groups:
            ways = dict(robot.ways(function, count))
            for call in ways.values():
                call()
            for way, timing in interleaved(ways, options.seconds).items():
                yield Row(
                    experiment,
                    function,
                    **asdict(way),
                    device=device(way.backend),
                    links=links,
                    groups=count,
                    median=timing.median,
                    lower_quartile=timing.lower,
                    upper_quartile=timing.upper,
                    samples=timing.samples,
                )
            print(f"{function}, {links} links, {count} states", file=sys.stderr)


class Robot:
    """A random chain, and everything that can compute its dynamics."""

    def __init__(self, links: int, options: argparse.Namespace) -> None:
        urdf = serial_chain(links, 1, continuous=0.0)
        self._links, self._options = links, options
        self._robot = gridgen.load(urdf)
        self._on_cpu = gridgen.load(urdf, backend="cpu")
        self._cores = len(os.sched_getaffinity(0))
        self._pinocchio = pinocchio_model(urdf)
        # Pinocchio takes a minute to make room for 1000 joints.
        self._data = self._pinocchio and self._pinocchio.createData()

    @cached_property
    def _pool(self) -> Any:
        import pinocchio

        return pinocchio.ModelPool(self._pinocchio, self._cores)

    def ways(self, function: str, count: int) -> Iterator[tuple[Method, Call]]:
        """Yield every way to compute a function of ``count`` states."""
        rng = np.random.default_rng(count)
        states = [rng.uniform(-1.0, 1.0, (count, self._links)) for _ in range(3)]
        yield from self._recursions(function, states)
        states = [state.astype(self._options.dtype) for state in states]
        if self._links <= self._options.compiled:
            for label, chosen in THREAD[function].items():
                way = Method(label.replace("thread", "SIMD lane"), "gridgen", "cpu", self._cores)
                yield way, bound(getattr(self._on_cpu, function), states, chosen)
        if "cuda" in available_backends():
            yield from self._on_gpu(function, states)
        if self._options.emulated and self._links * count <= self._options.compiled:
            for label, chosen in TEAMS[function].items():
                way = Method(label, "gridgen", "emulated", 0)
                yield way, self._bound(function, states, chosen, "emulated")

    def _bound(
        self, function: str, states: list[Any], keywords: dict[str, str], backend: str
    ) -> Call:
        """Return a call without arguments; the hybrid schedule is that of the papers' package."""
        if keywords.get("schedule") == "hybrid":
            return bound(Hybrid(self._robot).forward_dynamics, states, {})
        return bound(getattr(self._robot, function), states, keywords | {"backend": backend})

    def _on_gpu(self, function: str, states: list[Any]) -> Iterator[tuple[Method, Call]]:
        import cupy

        moved = [cupy.asarray(state) for state in states]
        chosen = dict(TEAMS[function])
        if self._links <= self._options.compiled:
            chosen |= THREAD[function]
        wait = cupy.cuda.get_current_stream().synchronize
        for label, keywords in chosen.items():
            compute = self._bound(function, moved, keywords, "cuda")
            yield Method(label, "gridgen", "cuda", 0), lambda c=compute: (c(), wait())

    def _recursions(self, function: str, states: list[Any]) -> Iterator[tuple[Method, Call]]:
        """Yield the textbook's recursions on the CPU: serial, and all cores sharing the states."""
        if self._pinocchio is None:
            return
        import pinocchio as pin

        model, data = self._pinocchio, self._data
        inverse = function == "inverse_dynamics"
        label = "recursion" if inverse else "ABA, recursion"
        if len(states[0]) == 1:
            q, v, last = (state[0].copy() for state in states)
            one = pin.rnea if inverse else pin.aba
            yield Method(label, "Pinocchio", "cpu", 1), lambda: one(model, data, q, v, last)
        else:
            columns = [np.asfortranarray(state.T) for state in states]
            run = pin.rneaInParallel if inverse else pin.abaInParallel
            for threads in sorted({1, self._cores}):
                way = Method(label, "Pinocchio", "cpu", threads)
                yield way, lambda n=threads: run(n, self._pool, *columns)
        if not inverse:
            rows = list(zip(*(list(state.copy()) for state in states), strict=True))

            def by_mass_matrix() -> None:
                for q, qd, tau in rows:
                    pin.crba(model, data, q)
                    pin.nonLinearEffects(model, data, q, qd)
                    pin.cholesky.decompose(model, data)
                    pin.cholesky.solve(model, data, tau - data.nle)

            yield Method("mass matrix, factorized", "Pinocchio", "cpu", 1), by_mass_matrix


def bound(call: Callable[..., object], states: list[Any], keywords: dict[str, str]) -> Call:
    """Return a call without arguments."""
    return lambda: call(*states, **keywords)


def pinocchio_model(urdf: str) -> Any:
    """Return Pinocchio's model, or ``None`` where it is not installed."""
    try:
        import pinocchio
    except ImportError:
        return None
    return pinocchio.buildModelFromXML(urdf)


def device(backend: str) -> str:
    """Return the name of the device that a backend runs on."""
    if backend == "cuda":
        import cupy

        return str(cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode())
    return str(description()["processor"])


# -- drawing ----------------------------------------------------------------------------------


def read(path: Path) -> list[Row]:
    """Return the rows of a CSV."""
    kinds = {field.name: {"int": int, "float": float}.get(field.type, str) for field in fields(Row)}
    with path.open(newline="", encoding="utf-8") as file:
        return [Row(**{k: kinds[k](v) for k, v in line.items()}) for line in csv.DictReader(file)]


def draw(rows: list[Row], folder: Path) -> None:
    """Draw the four figures: each function over links, and over groups."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in rows if row.backend != "emulated"]  # no time of a GPU, nor of a CPU's
    for experiment in ("links", "groups"):
        for function, title in TITLES.items():
            chosen = [r for r in rows if (r.experiment, r.function) == (experiment, function)]
            panels = sorted({row.links for row in chosen}) if experiment == "groups" else [0]
            figure, axes = plt.subplots(
                1, len(panels), figsize=(1.5 + 5.5 * len(panels), 5.2), squeeze=False, sharey=True
            )
            for axis, links in zip(axes[0], panels, strict=True):
                panel = [row for row in chosen if links in (0, row.links)]
                curves(axis, panel, experiment)
                axis.set_xlabel("links" if experiment == "links" else f"states ({links} links)")
            axes[0][0].set_ylabel("time of one call [s]")
            most = max(axes[0], key=lambda axis: len(axis.lines))
            handles, labels = most.get_legend_handles_labels()
            place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
            axes[0][-1].legend(handles, labels, fontsize="small", **place)
            over = "number of links, one state" if experiment == "links" else "number of states"
            figure.suptitle(f"{title} over the {over}\n{hardware(chosen)}", fontsize="medium")
            figure.savefig(
                folder / f"{function}_over_{experiment}.png", dpi=110, bbox_inches="tight"
            )
            plt.close(figure)


def curves(axis: Any, rows: list[Row], experiment: str) -> None:
    """Draw a curve with its quartiles for each way."""
    ways: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        threads = "1 thread" if row.threads == 1 else f"{row.threads} threads"
        place = "GPU" if row.backend == "cuda" else f"CPU, {threads}"
        ways.setdefault((row.program, row.algorithm, place), []).append(row)
    for words, found in sorted(ways.items()):
        found.sort(key=lambda row: getattr(row, experiment))
        x = [getattr(row, experiment) for row in found]
        style = "-" if words[0] == "gridgen" else "--"
        (line,) = axis.loglog(x, [r.median for r in found], style, marker=".", label=": ".join(
            (words[0], ", ".join(words[1:]))))  # fmt: skip
        low, high = [r.lower_quartile for r in found], [r.upper_quartile for r in found]
        axis.fill_between(x, low, high, color=line.get_color(), alpha=0.2)
    axis.grid(True, which="both", alpha=0.2)


def hardware(rows: list[Row]) -> str:
    """Return the devices that rows were measured on."""
    names = {"cpu": "CPU", "cuda": "GPU"}
    devices = {row.backend: row.device for row in rows}
    words = [
        f"backend {backend} on {names[backend]} {name}" for backend, name in sorted(devices.items())
    ]
    if "cuda" not in devices:
        words.append("no GPU: its kernels were not timed")
    return "; ".join(words)


if __name__ == "__main__":
    sys.exit(main())
