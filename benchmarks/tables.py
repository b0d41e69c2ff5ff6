"""Tables of text, whatever they tell, and the runs that they are made from."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Where the tables of the manual are.
TABLES = Path(__file__).parent / "results" / "tables"
#: Columns: what a table calls a function, and its name.
COLUMNS = {
    "inverse dynamics": "inverse_dynamics",
    "forward dynamics": "forward_dynamics_aba",
    "mass matrix": "mass_matrix",
    "gradient of ID": "inverse_dynamics_gradient",
    "gradient of FD": "forward_dynamics_gradient",
    "inverse mass matrix": "mass_matrix_inverse",
}


Results = dict[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Grid:
    """A table of text: the first heading and the first cell of each line are to the left.

    Headings may have line breaks.
    """

    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


def markdown_grid(grid: Grid) -> str:
    """Return a table as Markdown, under its title."""
    rule = ("---", *("---:" for _ in grid.headings[1:]))
    headings = tuple(heading.replace("\n", " ") for heading in grid.headings)
    lines = (f"| {' | '.join(line)} |" for line in (headings, rule, *grid.lines))
    return grid.title + ":\n\n" + "\n".join(lines)


def number(ns: float | None) -> str:
    """Return a figure as text, with one decimal below a hundred; nothing for none."""
    if ns is None:
        return ""
    return f"{ns:,.0f}" if ns >= 100 else f"{ns:.1f}"


def read_run(path: Path) -> Results:
    """Return a run that was kept as JSON."""
    results: Results = json.loads(path.read_text(encoding="utf-8"))
    return results


def write_table(name: str, rows: Iterable[Sequence[str]]) -> None:
    """Write a table of the manual, the headings first; ``docs/derived.py`` puts it into a page."""
    with (TABLES / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
