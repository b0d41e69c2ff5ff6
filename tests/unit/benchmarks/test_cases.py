"""The benchmarks' cases follow the registry."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from cases import INPUTS, load_case


@pytest.mark.parametrize("name", ["arm7", "quadruped"])
def test_every_function_has_a_case(name: str) -> None:
    case = load_case(name)
    there = {function for function in INPUTS if case.has(function)}
    assert set(INPUTS) - there <= {"inverse_dynamics_second_order"}
    assert all(case.result_shapes(function) for function in there)
