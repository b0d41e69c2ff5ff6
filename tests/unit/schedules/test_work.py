"""What kernels of teams cost, by the operations of the text that they call."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from gridgen.papers.schedules import paper_work
from gridgen.schedules.cfa.plan import cfa_work, plan_cfa
from gridgen.schedules.team.operations import lanes_of
from gridgen.schedules.team.plan import plan_scan
from helpers.scan import KERNELS, SCANS, tree_of

NAMES = ("pendulum", "arm7", "gripper", "humanoid", "chain 33", "tree 50")


def work_of(plan, name):
    return paper_work(plan, KERNELS[name])


def test_the_steps_of_inverse_dynamics_grow_like_the_logarithm():
    """Doubling a chain adds one round to each scan; that of articulated bodies grows like depth."""
    sizes = [8, 16, 32, 64, 128, 256, 512, 1024]
    plans = [plan_scan(tree_of(f"chain {size}")) for size in sizes]
    steps = [work_of(plan, "inverse_dynamics_scan").steps for plan in plans]
    assert [after - before for before, after in pairwise(steps)] == [3] * 7
    steps = [work_of(plan, "inverse_dynamics_scan_synchronous").steps for plan in plans]
    assert [after - before for before, after in pairwise(steps)] == [2] * 7
    for size, plan in zip(sizes, plans, strict=True):
        logarithmic = work_of(plan, "forward_dynamics_aba_scan").steps - (size - 1)
        assert logarithmic <= 4 * math.log2(size) + 8


def test_the_steps_of_the_constraint_force_algorithm_grow_like_the_logarithm():
    """Doubling a chain: a round more in three scans, in the elimination, in both solutions."""
    sizes = (8, 16, 32, 64, 128, 256, 512, 1024)
    works = [cfa_work(plan_cfa(plan_scan(tree_of(f"chain {size}")))) for size in sizes]
    assert [after.steps - before.steps for before, after in pairwise(works)] == [3 + 2 + 2 * 2] * 7
    assert all(2 <= b.operations / a.operations < 2.5 for a, b in pairwise(works))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("function", SCANS)
def test_a_lane_does_its_share_at_least(name, function):
    """No less than the mean; all of it where there is one lane, but for writing one entry."""
    plan = plan_scan(tree_of(name))
    work = work_of(plan, function)
    assert work.steps > 0
    assert work.operations / lanes_of(plan) <= work.lane
    if len(plan.tree.bodies) == 1:
        assert 0 <= work.lane - work.operations < 50
