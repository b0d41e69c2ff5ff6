"""The benchmark of what calls cost runs without a GPU, and measures what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_both_backends_have_a_row_with_two_times():
    pytest.importorskip("cupy")
    options = ("--robot", str(ROOT / "robots" / "pendulum.urdf"), "--seconds", "0.01")
    command = [sys.executable, str(ROOT / "benchmarks" / "calls.py"), *options]
    result = subprocess.run(
        [*command, "--functions", "mass_matrix"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    title, *rows = result.stdout.splitlines()
    rows = [row for row in rows if "torch" not in row]  # where that is installed
    assert title.split() == ["least", "time", "of", "a", "call", "[us]", "plain,", "out=", "bound"]
    assert [row.split()[:2] for row in rows] == [["cpu", "mass_matrix"], ["cuda", "mass_matrix"]]
    for row in rows:
        plain, bound = map(float, row.split()[2:])
        assert plain > 0
        assert bound > 0
