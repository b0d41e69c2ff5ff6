"""What teams keep in memory: which velocities are coupled, which bodies are pairs, which arrays."""

from __future__ import annotations

import pytest

from gridgen.schedules.scan.kernels import SCAN_KERNELS
from gridgen.schedules.team.memory import (
    Branches,
    array_numbers,
    array_starts,
    axis_starts,
    memory_numbers,
    pair_starts,
    pairs,
)
from helpers.scan import tree_of

ROBOTS = [
    ("pendulum", False),
    ("arm7", True),
    ("gripper", False),
    ("humanoid", True),
    ("tree 50", False),
]


def way(tree, velocity):
    """Return a velocity and those on its way to the base."""
    found, parents = [], tree.velocities.parents
    while velocity >= 0:
        found.append(velocity)
        velocity = parents[velocity]
    return found


@pytest.mark.parametrize(("name", "floating_base"), ROBOTS)
def test_a_row_has_an_entry_for_each_velocity_on_the_way_to_the_base(name, floating_base):
    tree = tree_of(name, floating_base=floating_base)
    branches = Branches(tree)
    for velocity in range(tree.nv):
        start, end = branches.starts[velocity : velocity + 2]
        assert end - start == len(way(tree, velocity)) == branches.depths[velocity] + 1
        for above in range(tree.nv):
            leads = above <= velocity < branches.ends[above]
            assert leads == (above in way(tree, velocity))


@pytest.mark.parametrize(("name", "floating_base"), ROBOTS)
def test_levels_share_out_the_velocities(name, floating_base):
    branches = Branches(tree_of(name, floating_base=floating_base))
    assert sorted(branches.ordered) == list(range(len(branches.depths)))
    for depth, start in enumerate(branches.levels[:-1]):
        listed = branches.ordered[start : branches.levels[depth + 1]]
        assert [branches.depths[velocity] for velocity in listed] == [depth] * len(listed)
        assert list(listed) == sorted(listed)


@pytest.mark.parametrize(("name", "floating_base"), ROBOTS)
def test_every_pair_is_there_once_and_the_longest_ways_come_first(name, floating_base):
    tree = tree_of(name, floating_base=floating_base)
    found = pairs(tree)
    wanted = {(i, j) for i in range(len(tree.bodies)) for j in (i, *tree.ancestors(i))}
    assert len(found) == len(wanted) == pair_starts(tree)[-1]
    assert set(found) == wanted
    lengths = [tree.bodies[middle].level for _, middle in found]
    assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize("function", [name for name, f in SCAN_KERNELS.items() if f.memory])
@pytest.mark.parametrize("name", ["arm7", "gripper"])
def test_arrays_lie_side_by_side(name, function):
    tree, names = tree_of(name), SCAN_KERNELS[function].memory
    starts = array_starts(tree, names)
    ends = [starts[array] + array_numbers(tree, array) for array in names]
    assert [*list(starts.values())[1:], memory_numbers(tree, names)] == ends
    coupled = {"positions", "velocities", "masses", "cubes"} & set(names)
    for array in coupled:
        assert (array_numbers(tree, array) > 0) == tree.has_mimic
    assert axis_starts(tree)[-1] == len(tree.bodies)
