"""Tables of a run on a GPU, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tables import Grid, markdown_grid, number

Row = Mapping[str, Any]

_OWN = "gridgen"
# What a call takes: of the host, of the device after another call, alone, until the results are
# there, and with NumPy arrays, there and back. GRiD publishes the last three.
_OF_A_CALL = {
    "host_us": "host",
    "us": "call after call",
    "graph_us": "kernel",
    "resident_us": "resident call",
    "whole_us": "whole call",
}


def markdown(results: Mapping[str, Any]) -> str:
    """Return all tables of a run."""
    rows: list[Row] = results["rows"]
    parts = [_heading(results)]
    parts += map(markdown_grid, (*_layouts(rows), *_functions(results), *_calls(rows)))
    if results["unavailable"]:
        parts.append("Not measured:")
        parts.append("\n".join(f"* {k}: {why}" for k, why in results["unavailable"].items()))
    return "\n\n".join(parts)


def share(results: Mapping[str, Any], row: Row) -> float | None:
    """Return the part of its time that a kernel needs at least, or ``None`` if that is not known.

    That is the time in which the device can copy so many bytes, or issue so many multiply-adds,
    whichever is longer.
    """
    if row["contestant"] != _OWN or not row["instructions"]:
        return None
    limits = results["limits"]
    bytes_ = row["bytes"] / limits["copied_bytes"]
    arithmetic = row["instructions"] / limits[f"multiply_adds_{row['dtype']}"]
    return 1e6 * row["batch"] * max(bytes_, arithmetic) / _us(row)


def _heading(results: Mapping[str, Any]) -> str:
    device, limits = results["device"], results["limits"]
    versions = ", ".join(f"{name} {version}" for name, version in device["versions"].items())
    return (
        f"{device['name']} ({device['multiprocessors']} multiprocessors, {device['memory_gib']} "
        f"GiB, driver {device['driver']}, CUDA {device['runtime']}); {versions}; "
        f"{device['date']}. Copying moves {limits['copied_bytes'] / 1e12:.2f} TB/s, "
        f"filling {limits['written_bytes'] / 1e12:.2f}; "
        f"{limits['multiply_adds_float32'] / 1e12:.1f} (float32) and "
        f"{limits['multiply_adds_float64'] / 1e12:.1f} (float64) million million multiply-adds a "
        "second. Times are medians of the device's, from a CUDA graph where there is one."
    )


def _layouts(rows: Sequence[Row]) -> list[Grid]:
    """Return what layouts cost: rows against components."""
    lines = []
    for row in rows:
        if row["layout"] != "components":
            continue
        same = ("robot", "function", "schedule", "dtype", "batch")
        others = [
            one
            for one in rows
            if one["contestant"] == _OWN
            and one["layout"] == "rows"
            and all(one[name] == row[name] for name in same)
        ]
        if others:
            name = f"{row['robot']} {row['function']}, {row['dtype']}, batch {row['batch']:,}"
            rows_us, components_us = _us(others[0]), _us(row)
            cells = (f"{rows_us:.1f}", f"{components_us:.1f}", f"{rows_us / components_us:.2f}")
            lines.append((name, *cells))
    grid = Grid(
        "States in rows against components side by side, time of a batch [us]",
        ("", "rows", "components", "ratio"),
        tuple(lines),
    )
    return [grid] if lines else []


def _functions(results: Mapping[str, Any]) -> list[Grid]:
    """Return, for each robot and function, the time of one state over batches."""
    rows: list[Row] = [row for row in results["rows"] if row["layout"] == "rows"]
    grids = []
    for robot in dict.fromkeys(row["robot"] for row in rows):
        own = [row for row in rows if row["robot"] == robot]
        batches = sorted({row["batch"] for row in own})
        lines = []
        keys = dict.fromkeys(
            (row["function"], row["contestant"], row.get("schedule", ""), row["dtype"])
            for row in own
        )
        for key in keys:
            by_batch = {
                row["batch"]: row
                for row in own
                if (row["function"], row["contestant"], row.get("schedule", ""), row["dtype"])
                == key
            }
            of_last = share(results, by_batch[max(by_batch)])
            lines.append(
                (
                    " ".join(word for word in key if word),
                    *(_ns(by_batch.get(batch)) for batch in batches),
                    "" if of_last is None else f"{100 * of_last:.0f} %",
                )
            )
        headings = ("", *(f"batch {batch:,}" for batch in batches), "share of the roofline bound")
        grids.append(Grid(f"{robot}: time for one state [ns]", headings, tuple(lines)))
    return grids


def _calls(rows: Sequence[Row]) -> list[Grid]:
    """Return what a call costs: the smallest batch of each function of gridgen, in float32."""
    own = [row for row in rows if row["contestant"] == _OWN and row["dtype"] == "float32"]
    lines = []
    for robot in dict.fromkeys(row["robot"] for row in own):
        for function in dict.fromkeys(row["function"] for row in own if row["robot"] == robot):
            found = [r for r in own if (r["robot"], r["function"]) == (robot, function)]
            for schedule in dict.fromkeys(row["schedule"] for row in found):
                of_schedule = [row for row in found if row["schedule"] == schedule]
                row = min(of_schedule, key=lambda row: row["batch"])
                figures = (row.get(name) for name in _OF_A_CALL)
                cells = ("" if value is None else f"{value:.1f}" for value in figures)
                lines.append((f"{robot} {function}, {schedule}", str(row["batch"]), *cells))
    grid = Grid(
        "What a call takes [us], float32", ("", "batch", *_OF_A_CALL.values()), tuple(lines)
    )
    return [grid] if lines else []


def _us(row: Row) -> float:
    return float(row["us"] if row["graph_us"] is None else row["graph_us"])


def _ns(row: Row | None) -> str:
    return "" if row is None else number(1e3 * _us(row) / row["batch"])
