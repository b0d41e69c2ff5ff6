"""The benchmark of a GPU on a pretended one: what is measured and told, all but the time."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import gpu
import gpu_report
from gpu_timing import Clock

from fake_gpu.installation import installed

pytest.importorskip("cupy", reason="NVRTC comes with CuPy")

LIMITS = {"copied_bytes": 4e12, "multiply_adds_float32": 3e13, "multiply_adds_float64": 1.5e13}
DEVICE = {"name": "none", "multiprocessors": 1, "memory_gib": 1, "driver": 1, "runtime": 1}


class Stopped(Clock):
    """A clock for which every call takes as long as its number says [us]."""

    def __init__(self, cupy, free):
        self.cupy, self._free, self._calls = cupy, free, 0

    def figures(self, call):
        call()
        self._calls += 1
        figures = {"us": float(self._calls), "host_us": 5.0, "graph_us": None}
        return figures | {"quartiles_us": [1.0, 2.0], "samples": 5}

    def free_bytes(self):
        return self._free


@pytest.fixture
def results():
    """A run of arm7's mass matrix in both layouts, under both schedules where there is room."""
    chosen = Namespace(schedules=None, dtypes=["float32"], layouts=["rows", "components"])
    results = {"limits": LIMITS, "rows": [], "unavailable": {}}
    with installed():
        import cupy

        clock = Stopped(cupy, free=100_000)
        case = gpu.load("arm7")
        for way in gpu.variants(case, "mass_matrix", chosen):
            results["rows"] += gpu.measured(clock, case, way, [32, 4096], results)
    versions = {"date": "2026-01-01", "versions": {"gridgen": "0"}}
    results["device"] = DEVICE | versions
    results["limits"] = LIMITS | {"written_bytes": 2e12}
    return results


def test_every_way_is_compared_and_measured(results):
    ways = [(row["schedule"], row["layout"], row["batch"]) for row in results["rows"]]
    assert ways == [
        (schedule, layout, 32)
        for schedule in ("thread", "warp")
        for layout in ("rows", "components")
    ]
    for row in results["rows"]:
        assert 0 < row["error"] < 1
        assert row["bytes"] == 4 * (7 + 49)
        assert (row.get("whole_us", 0) > 0) == (row["layout"] == "rows")


def test_what_does_not_fit_is_named(results):
    assert len(results["unavailable"]) == 4
    for words, why in results["unavailable"].items():
        assert words.startswith("arm7, mass_matrix")
        assert words.endswith("batch 4096")
        assert why == "its arrays take 0.0 GB, and 0.0 GB are free"


def test_tables_tell_the_run(results):
    text = gpu_report.markdown(results)
    first = "| arm7 mass_matrix, float32, batch 32 | 1.0 | 2.0 | 0.50 |"
    assert first in text
    assert "| mass_matrix gridgen warp float32 |" in text
    assert "| kernel | resident call | whole call |" in text
    row = results["rows"][0]
    needed = max(row["bytes"] / 4e12, row["instructions"] / 3e13)
    assert gpu_report.share(results, row) == pytest.approx(32 * needed / 1e-6)


def test_straight_line_code_is_measured_beside_loops():
    with installed():
        import cupy

        clock = Stopped(cupy, free=100_000)
        rows = list(gpu.code_rows(clock, "sm_90", {"inverse_dynamics": (2,)}, 32))
    lines, loops = rows
    assert [row["has_loops"] for row in rows] == [False, True]
    assert lines["instructions"] > 20
    assert lines["code_bytes"] > 16 * lines["instructions"]
    (grid,) = gpu_report._code(rows)
    name, _, ns, *_ = grid.lines[0]
    assert (name, ns) == ("chain2 inverse_dynamics", gpu_report.number(1e3 / 32))
    assert loops["us"] == 2.0
