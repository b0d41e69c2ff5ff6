"""Figures of kernels beside their limits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

from gpu_limits import spelt


@pytest.mark.parametrize(
    ("figure", "value", "text"),
    [
        ("code\nkB", 2000.4, "2,000"),
        ("stack\nbytes", 1024, "1,024"),
        ("stack\nbytes", 1032, "1,032 *"),
        ("spilled\nbytes", 0, "0"),
        ("spilled\nbytes", 8, "8 *"),
        ("image\nkB", 5000.0, "5,000"),
        ("compiling\ns", 10.04, "10.0 *"),
    ],
)
def test_what_is_over_a_limit_is_marked(figure: str, value: float, text: str) -> None:
    assert spelt(figure, value) == text
