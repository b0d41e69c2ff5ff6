"""What is made of measured sizes: exponents, expectations, tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from sizes import (
    FIGURES,
    batch_of,
    expected,
    exponent,
    growth,
    points,
    robot_text,
    spelt,
    tables,
    upper_half,
)

from gridgen.compiler import read_tree


def row(bodies, us, has_loops=True, **more):
    key = {"family": "chain", "robot": f"chain {bodies}", "bodies": bodies, "function": "f"}
    return {**key, "has_loops": has_loops, "us": us, **more}


def test_the_exponent_is_the_slope_of_logarithms():
    assert exponent([(n, 3.0 * n**2.5) for n in (2, 5, 70)]) == pytest.approx(2.5)
    assert exponent([(8, 1.0), (16, 4.0), (32, 4.0)]) == pytest.approx(1.0)
    assert exponent([(5, 1.0)]) is None
    assert exponent([]) is None


@pytest.mark.parametrize(
    ("sizes", "half"),
    [([], []), ([1], [1]), ([1, 2], [1, 2]), ([1, 2, 3], [2, 3]), ([1, 2, 3, 4], [3, 4])],
)
def test_the_upper_half_has_two_sizes_at_least(sizes, half):
    assert upper_half(sizes) == half


def test_what_is_expected_grows_as_it_did_last():
    assert expected([], 100) == 0.0
    assert expected([(10, 1.0)], 20) == pytest.approx(8.0)
    assert expected([(1, 50.0), (10, 1.0), (20, 4.0)], 40) == pytest.approx(16.0)
    assert expected([(10, 1.0), (20, 1000.0)], 40) == pytest.approx(16_000.0)


def test_batches_are_whole_packs():
    assert batch_of(7) == 256
    assert batch_of(1000**2) == 64
    assert batch_of(600_000) == 96
    assert batch_of(3 * 2000**2) == 16


def test_figures_have_three_digits():
    assert [spelt(x) for x in (None, 0, 12345, 0.012345, 1.0, 99.96, 12345.6)] == [
        "", "0", "12,345", "0.0123", "1", "100", "12,346"
    ]  # fmt: skip


@pytest.mark.parametrize("family", ["chain", "tree"])
def test_random_robots_are_of_the_size_asked_for(family):
    text = robot_text(family, 9)
    tree = read_tree(text)
    assert len(tree.bodies) == 9
    assert (len(tree.levels) == 9) == (family == "chain")
    children = [tree.parents.count(body) for body in range(-1, 9)]
    assert max(children) == (1 if family == "chain" else 2)


def test_exponents_are_those_of_one_kind_of_program():
    rows = [row(n, 5.0 * n, has_loops=False) for n in (2, 4)]
    rows += [row(n, 1.0 * n * n, text_kb=7.0) for n in (8, 16, 32, 64)]
    straight, loops = growth(rows).lines
    assert straight[0] == "chain, f, straight, 2 to 4"
    assert loops[0] == "chain, f, loops, 8 to 64"
    assert [cell for cell in straight[1:] if cell] == ["1.00"]
    assert [cell for cell in loops[1:] if cell] == ["0.00", "2.00"]
    assert points(rows[:2], "us") == [(2, 10.0), (4, 20.0)]


def test_tables_tell_loops_and_what_was_skipped():
    rows = [row(2, 0.5, has_loops=False, instructions=120), row(2000, 1.0, instructions=7)]
    del rows[1]["us"]
    rows[1]["skipped"] = "> 60 s"
    whole = {"bodies": 100, "wall_s": 9.0, "processor_s": 8.5, "text_mb": 6.9, "peak_mb": 150.4}
    figures, modules = tables({"rows": rows, "whole": [whole, {"bodies": 500, "failed": 1}]})
    assert figures.title == "f of serial chains"
    assert figures.headings == ("bodies", *FIGURES.values())
    assert figures.lines[0] == ("2", "120", "", "", "", "0.5", "", "", "")
    assert figures.lines[1] == ("2,000", "7*", "", "", "", "> 60 s", "", "", "")
    assert modules.lines == (
        ("100", "9", "8.5", "6.9", "150"),
        ("500", "failed", "failed", "failed", "failed"),
    )
