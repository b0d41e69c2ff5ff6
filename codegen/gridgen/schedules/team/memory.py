"""Memory layout of a scan team that computes second derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from gridgen.model.tree import KinematicTree


def pairs(tree: KinematicTree) -> list[tuple[int, int]]:
    """Return all pairs of a body and itself or an ancestor.

    Pairs with the longest path come first, which balances lanes that take pairs alternately.
    """
    found = [
        (tip, middle) for tip in range(len(tree.bodies)) for middle in (tip, *tree.ancestors(tip))
    ]
    return sorted(found, key=lambda pair: -tree.bodies[pair[1]].level)


def pair_starts(tree: KinematicTree) -> tuple[int, ...]:
    """Return where each body's pairs with its ancestors start."""
    return tuple(accumulate((body.level + 1 for body in tree.bodies), initial=0))


def array_numbers(tree: KinematicTree, name: str) -> int:
    """Return how many numbers a team's array has."""
    bodies = len(tree.bodies)
    sizes = {
        "placements": 12 * bodies,
        "drifts": 3 * bodies,
        "moving": 22 * bodies,
        "wrenches": 6 * bodies,
        "spins": 3 * bodies,
        "above": 24 * pair_starts(tree)[-1],
        # Of joints, before those of mimic joints are added to those of their leaders.
        "cubes": 4 * bodies**3 if tree.has_mimic else 0,
    }
    return sizes[name]


def array_starts(tree: KinematicTree, names: Sequence[str]) -> dict[str, int]:
    """Return where each of several arrays starts in a team's memory."""
    sizes = [array_numbers(tree, name) for name in names]
    return dict(zip(names, accumulate(sizes, initial=0), strict=False))


def memory_numbers(tree: KinematicTree, names: Sequence[str]) -> int:
    """Return how many numbers several arrays have in total."""
    return sum(array_numbers(tree, name) for name in names)
