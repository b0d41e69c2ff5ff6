"""What kernels of teams cost, by the operations of the text that they call."""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from gridgen.schedules.cfa.plan import plan_cfa
from gridgen.schedules.team.plan import plan_scan
from scan_for_tests import KERNELS, tree_of

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from scan_cost import cfa_cost, report, scan_cost

NAMES = ("pendulum", "arm7", "gripper", "humanoid", "chain 33", "tree 50")


def test_the_span_of_inverse_dynamics_grows_like_the_logarithm():
    """Doubling a chain adds one round to each scan; that of articulated bodies grows like depth."""
    sizes = [8, 16, 32, 64, 128, 256, 512, 1024]
    plans = [plan_scan(tree_of(f"chain {size}")) for size in sizes]
    spans = [scan_cost(plan, "inverse_dynamics_scan").span for plan in plans]
    assert [after - before for before, after in pairwise(spans)] == [3] * 7
    spans = [scan_cost(plan, "inverse_dynamics_scan_synchronous").span for plan in plans]
    assert [after - before for before, after in pairwise(spans)] == [2] * 7
    for size, plan in zip(sizes, plans, strict=True):
        logarithmic = scan_cost(plan, "forward_dynamics_aba_scan").span - (size - 1)
        assert logarithmic <= 4 * math.log2(size) + 8


def test_the_span_of_the_constraint_force_algorithm_grows_like_the_logarithm():
    """Doubling a chain: a round more in three scans, in the elimination, in both solutions."""
    sizes = (8, 16, 32, 64, 128, 256, 512, 1024)
    plans = [plan_cfa(plan_scan(tree_of(f"chain {size}"))) for size in sizes]
    spans = [cfa_cost(plan).span for plan in plans]
    assert [after - before for before, after in pairwise(spans)] == [3 + 2 + 2 * 2] * 7
    works = [cfa_cost(plan).work for plan in plans]
    assert all(2 <= after / before < 2.5 for before, after in pairwise(works))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("function", KERNELS)
def test_every_kernel_has_a_cost(name, function):
    cost = scan_cost(plan_scan(tree_of(name)), function)
    assert cost.work > 0
    assert cost.span > 0


def test_the_report_has_a_line_for_each_robot_and_kernel():
    plans = [(name, plan_scan(tree_of(name))) for name in NAMES]
    kernels = ["inverse_dynamics_scan", "forward_dynamics_jsiia_scan"]
    lines = report(plans, kernels).splitlines()
    assert len(lines) == 1 + 2 * len(NAMES)
    assert lines[0].split() == ["robot", "bodies", "levels", "kernel", "work", "span"]
