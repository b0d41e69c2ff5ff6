"""Tables of a run: for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tables import COLUMNS, Grid, Results, Row, markdown_grid, number

OWN = ("gridgen float32", "gridgen float64")
PEER = "Pinocchio C++ loop"
#: Ways to run Pinocchio, the fastest first.
PINOCCHIO = (PEER, "Pinocchio's library", "Pinocchio's batch function", "Pinocchio from Python")
BATCH = 4096
#: Columns of tables that go to a file.
WIDTH = 120


class Rows:
    """The rows of a run by what they measure.

    Args:
        results: the run.
        figure:  the figure that tables show, ``ns_per_state`` (medians) or ``least``.
    """

    def __init__(self, results: Results, figure: str) -> None:
        self.figure = figure
        self._rows = {
            (row["robot"], row["function"], row["batch"], row["threads"], row["contestant"]): row
            for row in results["rows"]
        }
        self.pairs = list(dict.fromkeys(key[:2] for key in self._rows))
        self.robots = list(dict.fromkeys(key[0] for key in self._rows))
        self.batches = sorted({key[2] for key in self._rows})
        self.threads = sorted({key[3] for key in self._rows})
        self.contestants = list(dict.fromkeys(key[4] for key in self._rows))

    def ns(self, robot: str, function: str, batch: int, threads: int, name: str) -> float | None:
        """Return the time for one state [ns], if it was measured."""
        row = self._rows.get((robot, function, batch, threads, name))
        return None if row is None else row[self.figure]

    def row(self, *key: Any) -> Row | None:
        """Return one row."""
        return self._rows.get(key)


def print_tables(results: Results, least: bool, brief: bool = False) -> None:
    """Print all tables on the terminal: medians, or least times; or only the first, in brief."""
    print_grids(
        heading(results, least),
        grids(results, least)[: 1 if brief else None],
        results["unavailable"],
    )


def print_grids(
    head: str, grids: Iterable[Grid], unavailable: Mapping[str, str], width: int = WIDTH
) -> None:
    """Print tables on the terminal, between what was measured on and what could not be.

    Args:
        head:        the lines above.
        grids:       the tables.
        unavailable: what was not measured, with the reason.
        width:       columns where there is no terminal.
    """
    console = Console()
    if not console.is_terminal:
        console.width = width
    console.print(head, markup=False)
    for grid in grids:
        table = Table(grid.headings[0], title=escape(grid.title), title_justify="left", box=None)
        for text in grid.headings[1:]:
            table.add_column(text, justify="right")
        for line in grid.lines:
            table.add_row(*line)
        console.print(table, "")
    reasons: dict[str, list[str]] = {}
    for name, why in unavailable.items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        console.print(f"not measured: {'; '.join(names)}: {why}", markup=False)


def markdown(results: Results) -> str:
    """Return all tables as Markdown: of medians, then of least times."""
    parts = []
    for title, least in (("Medians", False), ("Least times", True)):
        parts += [f"## {title}", heading(results, least)]
        parts += map(markdown_grid, grids(results, least))
    return "\n\n".join(parts)


def heading(results: Results, least: bool) -> str:
    """Return the lines that name the machine and what the figures are."""
    machine = results["machine"]
    versions = machine["versions"]
    peers = ", ".join(f"{name} {versions[name]}" for name in versions if name != "gridgen")
    virtual = ", virtual" if machine["virtual"] else ""
    peak = results["threads"].get("1", {})
    most = (
        f" One core multiplies and adds {peak['peak_float32'] / 1e9:.0f} (float32) and "
        f"{peak['peak_float64'] / 1e9:.0f} (float64) billion times a second at most."
        if peak
        else ""
    )
    return (
        f"{machine['processor']}, {machine['cores']} cores{virtual}; {machine['compiler']}; "
        f"{peers}; {machine['date']}.{most} "
        f"{'Least times' if least else 'Medians'}; load {machine['load_at_the_start']:.1f} at the "
        "start."
    )


def grids(results: Results, least: bool) -> list[Grid]:
    """Return the tables that the run has figures for."""
    rows = Rows(results, "least" if least else "ns_per_state")
    batch = BATCH if BATCH in rows.batches else rows.batches[-1]
    found = [
        *(beside_pinocchio(rows, batch, threads) for threads in rows.threads),
        ratios(rows, batch),
        _by_function(
            f"Time for one state [ns], float32 / float64, batch {batch}, one thread",
            rows,
            lambda robot, function: _pair(
                [rows.ns(robot, function, batch, 1, name) for name in OWN], number
            ),
        ),
        _by_function(
            f"Operations for one state over measured time, share of the core's peak, "
            f"float32 / float64, batch {batch}, one thread",
            rows,
            lambda robot, function: _pair(
                [_share(results, rows, (robot, function, batch, 1, name)) for name in OWN],
                lambda share: f"{100 * share:.0f} %",
            ),
        ),
        *contestants(rows, batch),
        _batches(rows),
        _scaling(rows),
        _errors(results),
    ]
    return [grid for grid in found if any(any(line[1:]) for line in grid.lines)]


def beside_pinocchio(rows: Rows, batch: int, threads: int) -> Grid:
    """Return every function of every robot beside the fastest Pinocchio that was measured."""
    lines = []
    for robot, function in rows.pairs:
        key = (robot, function, batch, threads)
        own = [rows.ns(*key, name) for name in OWN]
        name = next((name for name in PINOCCHIO if rows.ns(*key, name)), None)
        peer = rows.ns(*key, name) if name else None
        gains = [f"{peer / ns:.1f}" if peer and ns else "" for ns in own]
        errors = [row["error"] for row in (rows.row(*key, OWN[1]), rows.row(*key, name)) if row]
        lines.append(
            (
                f"{robot} {function}",
                *map(number, (*own, peer)),
                *gains,
                _error(max((error for error in errors if error is not None), default=None)),
                name or "",
            )
        )
    title = (
        f"Time for one state [ns], and Pinocchio's (float64) over it, batch {batch}, "
        f"{threads} {'thread' if threads == 1 else 'threads'}. Error: the worse of float64 and "
        "Pinocchio; from Python, much of its time is the binding's"
    )
    headings = ("", "float32", "float64", "Pinocchio", "ratio f32", "ratio f64", "error", "which")
    return Grid(title, headings, tuple(lines))


def ratios(rows: Rows, batch: int) -> Grid:
    """Return throughput over Pinocchio's C++ loop."""

    def cell(robot: str, function: str) -> str:
        peer = rows.ns(robot, function, batch, 1, PEER)
        own = [rows.ns(robot, function, batch, 1, name) for name in OWN]
        return _pair([peer / ns if peer and ns else None for ns in own], lambda x: f"{x:.1f}")

    title = (
        f"Throughput over Pinocchio's C++ loop in float64, float32 / float64, batch {batch}, "
        "one thread"
    )
    return _by_function(title, rows, cell)


def contestants(rows: Rows, batch: int) -> list[Grid]:
    """Return, for each function, the time for one state of everyone."""
    found = []
    for title, function in COLUMNS.items():
        names = [
            name
            for name in rows.contestants
            if any(rows.ns(robot, function, batch, 1, name) for robot in rows.robots)
        ]
        lines = tuple(
            (name, *(number(rows.ns(robot, function, batch, 1, name)) for robot in rows.robots))
            for name in names
        )
        text = f"{title.capitalize()}: time for one state [ns], batch {batch}, one thread"
        found.append(Grid(text, ("", *rows.robots), lines))
    return found


def _batches(rows: Rows) -> Grid:
    """Return inverse dynamics for every batch."""
    lines = []
    for robot in rows.robots:
        for name in rows.contestants:
            cells = [rows.ns(robot, "inverse_dynamics", b, 1, name) for b in rows.batches]
            if any(cells):
                lines.append((f"{robot}, {name}", *(number(ns) for ns in cells)))
    headings = ("", *(f"batch {batch}" for batch in rows.batches))
    return Grid("Inverse dynamics: time for one state [ns], one thread", headings, tuple(lines))


def _scaling(rows: Rows) -> Grid:
    """Return what all threads gain over one in the largest batch."""
    most, batch = rows.threads[-1], rows.batches[-1]

    def gain(robot: str, function: str, name: str) -> float | None:
        one = rows.ns(robot, function, batch, 1, name)
        all_ = rows.ns(robot, function, batch, most, name)
        return one / all_ if one and all_ and most > 1 else None

    title = f"Gain of {most} threads over one, float32 / float64, batch {batch}"
    return _by_function(
        title,
        rows,
        lambda robot, function: _pair(
            [gain(robot, function, name) for name in OWN], lambda x: f"{x:.2f}"
        ),
    )


def _errors(results: Results) -> Grid:
    """Return whether all compute the same: the worst error over robots."""
    worst: dict[tuple[str, str], float] = {}
    for row in results["rows"]:
        if row["error"] is not None:
            key = (row["contestant"], row["function"])
            worst[key] = max(worst.get(key, 0.0), row["error"])
    lines = tuple(
        (name, *(_error(worst.get((name, function))) for function in COLUMNS.values()))
        for name in dict.fromkeys(name for name, _ in worst)
    )
    return Grid("Worst relative error of the results, of all robots", ("", *COLUMNS), lines)


def _by_function(title: str, rows: Rows, cell: Callable[[str, str], str]) -> Grid:
    lines = tuple(
        (robot, *(cell(robot, name) for name in COLUMNS.values())) for robot in rows.robots
    )
    return Grid(title, ("robot", *COLUMNS), lines)


def _share(results: Results, rows: Rows, key: tuple[Any, ...]) -> float | None:
    row = rows.row(*key)
    if row is None or not row.get("operations"):
        return None
    dtype = row["contestant"].split()[-1]
    peak: float = results["threads"][str(row["threads"])][f"peak_{dtype}"]
    return row["operations"] / (row[rows.figure] * 1e-9) / peak


def _pair(values: Sequence[float | None], spelt: Callable[[float], str]) -> str:
    if not any(values):
        return ""
    return " / ".join("-" if value is None else spelt(value) for value in values)


def _error(error: float | None) -> str:
    return "" if error is None else f"{error:.0e}"
