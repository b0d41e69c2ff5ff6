"""The tables of the scan schedule, what it refuses, and its text."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from gridgen.errors import ModelError, OptionError
from gridgen.schedules.scan.kernels import SCAN_KERNELS
from gridgen.schedules.scan.schedule import ScanSchedule
from gridgen.schedules.team.plan import plan_scan
from gridgen.schedules.team.schedule import Teams
from helpers.robots import joint_text, link_text, robot_text
from helpers.scan import module_of, tree_of, tree_of_text

NAMES = ("pendulum", "arm7", "gripper", "humanoid", "chain 33", "tree 50")


@pytest.mark.parametrize("name", NAMES)
def test_rounds_cover_the_deepest_path(name):
    plan = plan_scan(tree_of(name))
    assert plan.rounds == math.ceil(math.log2(len(plan.tree.levels)))


@pytest.mark.parametrize("name", NAMES)
def test_partners_are_powers_of_two_apart(name):
    plan = plan_scan(tree_of(name))
    for k, table in enumerate(plan.above):
        for body, partner in enumerate(table):
            path = plan.tree.ancestors(body)
            assert partner == (path[2**k - 1] if len(path) >= 2**k else -1)
        assert plan.below[k] == tuple(
            tuple(i for i in range(plan.bodies) if table[i] == body) for body in range(plan.bodies)
        )


@pytest.mark.parametrize("name", NAMES)
def test_each_sum_towards_the_root_takes_every_descendant_once(name):
    plan = plan_scan(tree_of(name))
    sums = [[body] for body in range(plan.bodies)]
    for lists in plan.below[: plan.rounds]:
        sums = [
            sums[body] + [i for member in lists[body] for i in sums[member]]
            for body in range(plan.bodies)
        ]
    for body, collected in enumerate(sums):
        assert sorted(collected) == list(plan.tree.subtree(body))


@pytest.mark.parametrize("name", [*NAMES, "quadruped"])
@pytest.mark.parametrize("floating_base", [False, True])
def test_velocities_of_one_column_have_no_path_in_common(name, floating_base):
    plan = plan_scan(tree_of(name, floating_base=floating_base))
    tree = plan.tree
    columns = {}
    for owner, rows in enumerate(plan.rows):
        for r in range(rows):
            columns.setdefault(plan.columns[owner] + r, []).append(owner)
    assert sorted(columns) == list(range(plan.columns_in_all))
    for bodies in columns.values():
        if tree.has_mimic:
            assert len(bodies) == 1
        for first, second in pairwise(sorted(bodies)):
            assert second not in tree.subtree(first)
    assert [tree.bodies[owner].v_index for owner in plan.owners] == sorted(
        tree.bodies[owner].v_index for owner in plan.owners
    )
    assert len(plan.owners) == tree.nv


@pytest.mark.parametrize(
    ("bodies", "width", "states"), [(1, 1, 128), (2, 2, 64), (5, 8, 16), (31, 32, 4), (32, 32, 4)]
)
def test_small_robots_take_part_of_a_warp(bodies, width, states):
    plan = plan_scan(tree_of(f"chain {bodies}"))
    assert (plan.width, plan.states_per_block, plan.share) == (width, states, 1)
    assert plan.shared_numbers(SCAN_KERNELS["inverse_dynamics_scan"]) == 0


@pytest.mark.parametrize(("bodies", "threads"), [(33, 64), (200, 224), (1000, 512)])
def test_large_robots_take_a_block_within_48_kib(bodies, threads):
    plan = plan_scan(tree_of(f"chain {bodies}"))
    assert (plan.on_warp, plan.threads, plan.states_per_block) == (False, threads, 1)
    assert plan.share * threads >= bodies
    assert 8 * plan.shared_numbers(SCAN_KERNELS["inverse_dynamics_scan"]) <= 48 * 1024


@pytest.mark.parametrize("threads", [0, 31, 48, 2048])
def test_a_block_has_whole_warps(threads):
    with pytest.raises(OptionError, match=f"threads is {threads}; use a multiple of 32 up to 1024"):
        plan_scan(tree_of("arm7"), threads=threads)


def test_articulated_bodies_refuse_mimic_joints():
    schedule = ScanSchedule(Teams(tree_of("gripper")))
    assert "mimic joints" in schedule.refusal(SCAN_KERNELS["forward_dynamics_aba_scan"].key)
    assert schedule.refusal(SCAN_KERNELS["forward_dynamics_jsiia_scan"].key) is None
    assert schedule.refusal(SCAN_KERNELS["inverse_dynamics_scan"].key) is None


def test_a_robot_of_too_many_bodies_is_refused():
    links = [link_text(f"link_{i}") for i in range(3074)]
    joints = [joint_text(f"joint_{i}", "link_0", f"link_{i + 1}") for i in range(3073)]
    tree = tree_of_text(robot_text(*links, *joints))
    with pytest.raises(
        ModelError, match=r'has 3073 bodies; .* at most 3072: use schedule="thread"'
    ):
        plan_scan(tree)


@pytest.mark.parametrize("name", NAMES)
def test_the_text_is_the_same_every_time_and_plain(name):
    function = "inverse_dynamics_scan"
    first, second = (module_of(tree_of(name), function).sources.files for _ in range(2))
    assert first == second
    text = first["robot_scan.cuh"]
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 120
    assert "\n\n\n" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
