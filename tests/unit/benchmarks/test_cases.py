"""The benchmarks' cases follow the registry."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

from gridgen import Robot
from helpers.robots import TESTED_APART

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from cases import INPUTS, KEYS, load_case


@pytest.mark.parametrize("name", ["arm7", "quadruped"])
def test_every_function_has_a_case(name: str) -> None:
    case = load_case(name)
    there = {function for function in INPUTS if case.has(function)}
    needs_more = {*TESTED_APART, "delassus", "constrained_forward_dynamics"}
    needs_more |= {"constrained_forward_dynamics_gradient", "impulse_dynamics"}
    needs_more |= {"constrained_inverse_dynamics", "constraint_residual", "constraint_jacobian"}
    assert set(INPUTS) - there <= needs_more
    assert all(case.result_shapes(function) for function in there)


@pytest.mark.parametrize("function", INPUTS)
def test_robots_understand_how_they_are_asked(function: str) -> None:
    """The registry's word for a method is not the same for all functions."""
    declared = inspect.signature(getattr(Robot, KEYS[function].function))
    keywords = load_case("quadruped").keywords(function)
    declared.bind(None, *INPUTS[function], **keywords)
    assert set(keywords.values()) >= {KEYS[function].method} - {""}
