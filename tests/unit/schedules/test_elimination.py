"""The rounds of elimination: their number, their width, and that they solve the system."""

from __future__ import annotations

import random
from math import ceil, log2

import numpy as np
import pytest

from gridgen.schedules.cfa.plan import Elimination, plan_elimination
from helpers.scan import tree_of


def chain(n: int) -> list[int]:
    return list(range(-1, n - 1))


def binary_tree(n: int) -> list[int]:
    return [(i - 1) // 2 if i else -1 for i in range(n)]


def random_parents(n: int, seed: int, most: int) -> list[int]:
    rng = random.Random(seed)
    parents = [-1]
    while len(parents) < n:
        parent = rng.randrange(-1, len(parents))
        if parents.count(parent) < most:
            parents.append(parent)
    return parents


def solve(plan: Elimination, matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve a system with one row for each body, with nothing but the plan's blocks."""
    order = list(plan.order)
    A = matrix[np.ix_(order, order)]
    D, r = A.diagonal().copy(), right[order].copy()
    U = np.array([A[a, b] for a, b in plan.couplings])
    for chosen in plan.rounds:
        for k in chosen.positions:
            D[k] = np.sqrt(D[k])
            r[k] /= D[k]
            U[plan.first[k] : plan.first[k + 1]] /= D[k]
        for update in chosen.diagonal:
            for product in update.products:
                D[update.target] -= U[product.left] * U[product.right]
                r[update.target] -= U[product.left] * r[plan.couplings[product.left][0]]
        for update in chosen.coupled:
            for product in update.products:
                U[update.target] -= U[product.left] * U[product.right]
    for k in reversed(range(len(order))):
        for c in range(plan.first[k], plan.first[k + 1]):
            r[k] -= U[c] * r[plan.couplings[c][1]]
        r[k] /= D[k]
    x = np.zeros(len(right))
    x[order] = r
    return x


SHAPES = {
    "chain 1": chain(1),
    "chain 9": chain(9),
    "binary 31": binary_tree(31),
    "star 12": [-1] + [0] * 11,
    "forest": [-1, -1, 0, 1, 1, -1],
    **{f"random {seed}": random_parents(40, seed, 6) for seed in range(6)},
}


@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_plan_solves_the_system_of_its_graph(shape, floating):
    parents = SHAPES[shape]
    joined = [not (floating and parent < 0) for parent in parents]
    plan = plan_elimination(parents, joined)
    assert sorted(plan.order) == [body for body, has_block in enumerate(joined) if has_block]

    n = len(parents)
    rng = np.random.default_rng(0)
    matrix = np.zeros((n, n))
    for link in range(n):  # what two joints of one link feel of each other
        family = [i for i in (link, *(c for c in range(n) if parents[c] == link)) if joined[i]]
        column = rng.normal(size=len(family))
        matrix[np.ix_(family, family)] += np.outer(column, column) + np.eye(len(family))
    matrix += np.eye(n)
    right = np.where(joined, rng.normal(size=n), 0.0)
    expected = np.zeros(n)
    kept = np.flatnonzero(joined)
    expected[kept] = np.linalg.solve(matrix[np.ix_(kept, kept)], right[kept])
    np.testing.assert_allclose(solve(plan, matrix, right), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_of_one_round_are_not_coupled(shape):
    plan = plan_elimination(SHAPES[shape], [True] * len(SHAPES[shape]))
    for chosen in plan.rounds:
        assert not any(a in chosen.positions and b in chosen.positions for a, b in plan.couplings)
        # What one lane writes in a round, no other reads or writes.
        targets = [update.target for update in chosen.coupled]
        used = {p.left for u in chosen.coupled for p in u.products}
        assert len(set(targets)) == len(targets)
        assert not used & set(targets)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 31, 32, 33, 100, 200, 1000])
def test_a_chain_takes_logarithmically_many_rounds(n):
    plan = plan_elimination(chain(n), [True] * n)
    assert len(plan.rounds) == 1 + int(log2(n)) <= ceil(log2(n)) + 1
    assert plan.widest <= 2
    assert len(plan.couplings) < 2 * n


@pytest.mark.parametrize("depth", [2, 3, 4, 5, 7, 10])
def test_a_balanced_binary_tree_takes_two_rounds_a_level(depth):
    n = 2**depth - 1
    plan = plan_elimination(binary_tree(n), [True] * n)
    assert len(plan.rounds) <= 2 * ceil(log2(n))
    assert plan.widest <= 3


@pytest.mark.parametrize("floating_base", [False, True])
def test_a_humanoid_takes_few_rounds_and_little_fill(floating_base):
    tree = tree_of("humanoid", floating_base=floating_base)
    assert len(tree.bodies) == 31 + floating_base
    plan = plan_elimination(tree.parents, [body.kind != "free" for body in tree.bodies])
    assert len(plan.rounds) <= 8
    assert plan.widest <= 3


@pytest.mark.parametrize(("n", "rounds"), [(50, 8), (300, 12)])
def test_a_random_tree_takes_few_rounds(n, rounds):
    plan = plan_elimination(random_parents(n, 1, 6), [True] * n)
    assert len(plan.rounds) <= rounds
    assert plan.widest <= 7


def test_couplings_name_the_link_they_go_through():
    # 0 carries 1 and 2, 1 carries 3: joints 0, 1, 2 meet at link 0, joints 1, 3 at link 1.
    plan = plan_elimination([-1, 0, 0, 1], [True] * 4)
    found = {
        tuple(sorted((plan.order[a], plan.order[b]))): link
        for (a, b), link in zip(plan.couplings, plan.original, strict=True)
        if link >= 0
    }
    assert found == {(0, 1): 0, (0, 2): 0, (1, 2): 0, (1, 3): 1}


def test_a_robot_of_free_joints_has_nothing_to_eliminate():
    plan = plan_elimination([-1], [False])
    assert (plan.order, plan.couplings, plan.rounds, plan.widest) == ((), (), (), 0)
