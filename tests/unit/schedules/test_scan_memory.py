"""What teams keep in memory: which bodies are pairs, which arrays."""

from __future__ import annotations

import pytest

from gridgen.schedules.scan.kernels import SCAN_KERNELS
from gridgen.schedules.team.plan import (
    array_numbers,
    array_starts,
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


@pytest.mark.parametrize(("name", "floating_base"), ROBOTS)
def test_every_pair_is_there_once_and_the_longest_ways_come_first(name, floating_base):
    tree = tree_of(name, floating_base=floating_base)
    found = pairs(tree)
    expected = {(i, j) for i in range(len(tree.bodies)) for j in (i, *tree.ancestors(i))}
    assert len(found) == len(expected) == pair_starts(tree)[-1]
    assert set(found) == expected
    lengths = [tree.bodies[middle].level for _, middle in found]
    assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize("function", [name for name, f in SCAN_KERNELS.items() if f.memory])
@pytest.mark.parametrize("name", ["arm7", "gripper"])
def test_arrays_lie_side_by_side(name, function):
    tree, names = tree_of(name), SCAN_KERNELS[function].memory
    starts = array_starts(tree, names)
    ends = [starts[array] + array_numbers(tree, array) for array in names]
    assert [*list(starts.values())[1:], memory_numbers(tree, names)] == ends
    assert (array_numbers(tree, "cubes") > 0) == tree.has_mimic
