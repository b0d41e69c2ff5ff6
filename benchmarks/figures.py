"""Draws the manual's figures, docs/figures/*.svg, from the tables that it has, and from programs.

    python benchmarks/figures.py                   # all of them
    python benchmarks/figures.py span accuracy

Speeds, sizes and rates of the pipeline are those of benchmarks/results/, steps and errors those of
its tables. Operations are counted in traced programs.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib
import pipeline
import sizes

from gridgen.compiler import make_module
from gridgen.options import GenerateOptions

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "figures"
TABLES = ROOT / "benchmarks" / "results" / "tables"
# Colors that can be read on white and on black.
INK = "#808891"
COLORS = ("#2f81d6", "#58a8e8", "#e07b26", "#3f9d55", "#b864c4", "#c94f4f", "#9a8a2e")
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text: small, and found by a search
    "svg.hashsalt": "grid-gen",  # the same figure is the same file
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.prop_cycle": matplotlib.cycler(color=COLORS),
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
}

Curve = tuple[list[float], list[float]]

#: What a row of the table of speeds is called in the figure, in the order of colors.
PROGRAMS = {
    "gridgen float32": "grid-gen, float32",
    "gridgen float64": "grid-gen, float64",
    "Pinocchio C++ loop": "Pinocchio, C++ loop",
    "MuJoCo C loop": "MuJoCo, C loop",
    "frax (JAX)": "frax (JAX)",
}
MEASURED = {"panda": "Panda arm, 7 joints", "go2": "Go2 quadruped, 12", "g1": "G1 humanoid, 29"}
#: Rows of the table of rollouts, and their names in the figure.
ROLLOUTS = {
    "rollout": "grid-gen, float32",
    "MuJoCo's `rollout`, constraints off": "MuJoCo",
    "Pinocchio's `aba` and `integrate`, C++ loop": "Pinocchio, C++ loop",
}
#: Robots whose programs are counted, by file, and whether on a free joint.
COUNTED = {"arm7": False, "quadruped": True, "humanoid": True}
FUNCTIONS = {
    "inverse_dynamics": "inverse dynamics",
    "forward_dynamics_aba": "forward dynamics",
    "mass_matrix": "mass matrix",
    "mass_matrix_inverse": "its inverse",
    "inverse_dynamics_gradient": "gradient of ID",
}


def data(name: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return headings and rows of a table of benchmarks/results/tables, as ``table``."""
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        headings, *rows = csv.reader(file)
    return headings[1:], {row[0].strip("`"): row[1:] for row in rows}


def table(page: str, corner: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the first table of a page that has ``corner`` in its first line: headings and rows."""
    return table_in((ROOT / page).read_text(encoding="utf-8"), corner)


def table_in(text: str, corner: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the first table of a text that has ``corner`` in its first line, as ``table``."""
    lines = iter(text.splitlines())
    heading = next(line for line in lines if line.startswith("|") and corner in line)
    next(lines)  # the rule
    rows: dict[str, list[str]] = {}
    for line in lines:
        if not line.startswith("|"):
            break
        name, *row = cells(line)
        rows[name] = row
    return cells(heading)[1:], rows


def cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]


def curve(xs: Iterable[str], ys: Iterable[str]) -> Curve:
    """Return two columns of numbers, without the places where the second has none."""
    points = [(x.split()[-1], y.replace(",", "")) for x, y in zip(xs, ys, strict=True)]
    numbers = [(float(x), float(y)) for x, y in points if y and y[0].isdigit()]
    return [x for x, _ in numbers], [y for _, y in numbers]


def draw_speed() -> Any:
    """Draw time for a state over the batch, beside peers: inverse dynamics of three robots."""
    batches, rows = table("benchmarks/results/cpu.md", "batch 65536")
    figure, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True)
    for axis, (robot, title) in zip(axes, MEASURED.items(), strict=True):
        for program, label in PROGRAMS.items():
            axis.loglog(*curve(batches, rows[f"{robot}, {program}"]), "o-", label=label)
        axis.set(title=title, xlabel="states in a call")
        places = [batch.split()[-1] for batch in batches]
        axis.set_xticks([float(place) for place in places], places)
        axis.minorticks_off()
    axes[0].set_ylabel("inverse dynamics, ns for a state")
    axes[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_operations() -> Any:
    """Draw the share of operations that is left of those of a robot of which nothing is known."""
    expected = tuple(name.removesuffix("_aba") for name in FUNCTIONS)
    figure, axis = plt.subplots(figsize=(8, 2.8))
    for place, (robot, free) in enumerate(COUNTED.items()):
        options = GenerateOptions(functions=expected, floating_base=free)
        programs = make_module(
            ROOT / "robots" / f"{robot}.urdf", options, lambda step: None
        ).programs
        counts = [programs[name].cpu for name in FUNCTIONS]
        shares = [100 * count.operations / count.dense_operations for count in counts]
        places = [column + 0.27 * (place - 1) for column in range(len(FUNCTIONS))]
        label = robot + (", free base" if free else "")
        bars = axis.bar(places, shares, 0.25, label=label, color=COLORS[(0, 2, 3)[place]])
        axis.bar_label(bars, [f"{share:.0f}" for share in shares], fontsize=7, color=INK)
    axis.set_xticks(range(len(FUNCTIONS)), list(FUNCTIONS.values()))
    axis.set_ylabel("operations left, %")
    axis.grid(visible=False, axis="x")
    axis.set_axisbelow(True)
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_span() -> Any:
    """Draw the dependent steps of the kernels of teams over the bodies of a chain."""
    kernels, rows = data("span")
    figure, axis = plt.subplots(figsize=(7, 3.2))
    chains = [bodies for bodies in rows if bodies.isdigit()]
    for column, kernel in enumerate(kernels):
        spans = [rows[bodies][column].split("/")[1].strip() for bodies in chains]
        axis.loglog(*curve(chains, spans), "o-", label=kernel)
    axis.set(xlabel="bodies of a chain", ylabel="dependent steps")
    axis.set_xticks([float(bodies) for bodies in chains], chains)
    axis.minorticks_off()
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_accuracy() -> Any:
    """Draw the errors of scans and recursions over the bodies of a chain, in both types."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4))
    for axis, dtype in zip(axes, ("float32", "float64"), strict=True):
        bodies, rows = data(f"scan_accuracy_{dtype}")
        for name, row in rows.items():
            line = "s--" if "recursion" in name else "o-"
            color = COLORS[(0, 2, 3)[kind(name)]]
            faint = 0.45 if "synchronous" in name or "unmerged" in name else 1.0
            axis.loglog(*curve(bodies, row), line, label=name, color=color, alpha=faint)
        axis.set(title=dtype, xlabel="bodies of a chain")
        axis.set_xticks([float(number) for number in bodies], bodies)
        axis.minorticks_off()
    axes[0].set_ylabel("relative error")
    axes[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_sizes() -> Any:
    """Draw time, text and compiling over the number of bodies."""
    rows: list[sizes.Row] = []
    names = {heading.replace("\n", " "): name for name, heading in sizes.FIGURES.items()}
    page = (ROOT / "benchmarks/results/sizes.md").read_text(encoding="utf-8")
    for family, title in sizes.FAMILIES.items():
        for function in re.findall(rf"^(\w+) of {re.escape(title)}:$", page, re.MULTILINE):
            begin = page.index(f"{function} of {title}:")
            headings, lines = table_in(page[begin:], "bodies")
            for bodies, cells_of_row in lines.items():
                found = dict(zip((names[one] for one in headings), cells_of_row, strict=True))
                numbers = {name: number(text) for name, text in found.items()}
                has_loops = found["instructions"].endswith("*")
                key = {"family": family, "function": function, "bodies": int(number(bodies) or 0)}
                rows.append({**key, **numbers, "has_loops": has_loops})
    return sizes.drawn(rows)


def draw_pipeline() -> Any:
    """Draw predicted and measured rates of the pipeline of processes."""
    page = (ROOT / "benchmarks/results/pipeline.md").read_text(encoding="utf-8")
    found = {}
    for line in page[page.index("| joints | processes |") :].splitlines()[2:]:
        if not line.startswith("|"):
            break
        joints, split, predicted, measured, *_ = cells(line)
        rates = {"predicted": [1e6 * float(predicted)], "measured": [1e6 * float(measured)]}
        found[int(joints), sum(map(int, split.split("+")))] = rates
    return pipeline.drawn(found)


def draw_rollouts() -> Any:
    """Draw the time of a step in a rollout, grid-gen and its peers."""
    page = "benchmarks/results/motion.md"
    figure, axis = plt.subplots(figsize=(8, 2.4))
    for place, robot in enumerate(("arm7", "quadruped, floating")):
        _, rows = table(page, f"| {robot} |")
        times = [float(rows[name][0]) for name in ROLLOUTS]
        places = [column + 0.4 * place - 0.2 for column in range(len(times))]
        bars = axis.barh(places, times, 0.36, label=robot, color=COLORS[2 * place])
        axis.bar_label(bars, fontsize=7, color=INK, padding=2)
    axis.set(xscale="log", xlabel="one step of one state, ns", yticks=range(len(ROLLOUTS)))
    axis.set_yticklabels(ROLLOUTS.values())
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.set_axisbelow(True)
    axis.margins(x=0.15)
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def draw_products() -> Any:
    """Draw the times of products with derivatives over that of the function."""
    headings, *rows = csv.reader((TABLES / "products.csv").read_text().splitlines())
    figure, axis = plt.subplots(figsize=(8, 2.8))
    labels, robot = [], ""
    for place, row in enumerate(rows):
        robot = row[0] or robot
        labels.append(f"{robot.partition(',')[0]},\n{row[1]}")
        for column, (kind_of, cell) in enumerate(zip(headings[3:], row[3:], strict=True)):
            if cell:
                bars = axis.bar(
                    place + 0.27 * (column - 1),
                    float(cell.split(":")[1]),
                    0.25,
                    color=COLORS[(0, 2, 3)[column]],
                    label="" if place else kind_of.replace("`", ""),
                )
                axis.bar_label(bars, fontsize=7, color=INK)
    axis.set_xticks(range(len(labels)), labels, fontsize=7)
    axis.set_ylabel("time over the function's")
    axis.grid(visible=False, axis="x")
    axis.set_axisbelow(True)
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def number(text: str) -> float | None:
    """Return the number in a cell, without the star of a program with loops."""
    text = text.replace(",", "").rstrip("*")
    return float(text) if text and text[0].isdigit() else None


def kind(name: str) -> int:
    """Return what an algorithm is about: efforts 0, accelerations 1, or those by way of M 2."""
    if "jsiia" in name or "mass matrix" in name:
        return 2
    return 0 if "inverse" in name else 1


FIGURES: dict[str, Callable[[], Any]] = {
    "speed": draw_speed,
    "operations": draw_operations,
    "span": draw_span,
    "accuracy": draw_accuracy,
    "sizes": draw_sizes,
    "pipeline": draw_pipeline,
    "rollouts": draw_rollouts,
    "products": draw_products,
}


def main() -> None:
    """Draw the figures that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    names = parser.parse_args().figures or list(FIGURES)
    if unknown := set(names) - set(FIGURES):
        parser.error(
            f"there is no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}"
        )
    write(names)


def write(names: Iterable[str]) -> None:
    """Draw figures into the manual's folder."""
    FOLDER.mkdir(exist_ok=True)
    with plt.rc_context(STYLE):
        for name in names:
            figure = FIGURES[name]()
            place = FOLDER / f"{name}.svg"
            figure.savefig(place, transparent=True, bbox_inches="tight", metadata={"Date": None})
            # matplotlib leaves blanks at the ends of lines.
            lines = place.read_text(encoding="utf-8").splitlines()
            place.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")
            plt.close(figure)
            print(place.relative_to(ROOT))


if __name__ == "__main__":
    main()
