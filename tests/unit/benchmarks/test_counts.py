"""The tables of counts in the manual are those of the present programs."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from helpers.robots import exhaustive_cases

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import tables
from counts import TABLES, table

#: A table and robots of it; the humanoid takes half a minute.
CASES = [
    ("operations_left", ("gripper", "arm6")),
    ("regressors", ("arm7",)),
    *exhaustive_cases(
        ("operations_left", ("arm7", "quadruped")),
        *((name, ("arm7",)) for name in TABLES if name not in ("operations_left", "regressors")),
    ),
]


@pytest.mark.parametrize(("name", "robots"), CASES)
def test_counts_are_those_of_the_manual(name: str, robots: tuple[str, ...]) -> None:
    with (tables.TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        written = [tuple(row) for row in csv.reader(file)]
    assert written[0] == TABLES[name][0]
    found = table(name, robots)
    assert found
    assert set(found) <= set(written), "python benchmarks/counts.py --write, then make golden"


def test_predictions_of_one_kernel_are_the_same_in_two_tables() -> None:
    """Nanoseconds a state, and microseconds of 1,048,576 states."""

    def rows(name: str) -> list[list[str]]:
        return list(csv.reader((tables.TABLES / f"{name}.csv").read_text("utf-8").splitlines()))

    times = {(row[0], row[1]): float(row[6].replace(",", "")) for row in rows("gpu_schedules")[1:]}
    for name, _, _, to_gpu, kernel, back, whole, _ in rows("numpy_on_gpu")[1:]:
        ns = times["arm7", name.strip("`")] * 1e3 / (1 << 20)
        assert kernel == f"{ns:.2f} ns"
        parts = [float(one.split()[0]) for one in (to_gpu, kernel, back, whole)]
        assert sum(parts[:3]) == pytest.approx(parts[3], abs=0.02)
