"""Memory layout of a scan team that computes gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from gridgen.model.tree import KinematicTree


@dataclass(frozen=True)
class Branches:
    """Velocities that the mass matrix couples: each with those on its path to the base.

    With mimic joints branches couple, and every velocity follows the previous one.
    """

    tree: KinematicTree  #: the robot.

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """The previous velocity of each on the path to the base, -1 if there is none."""
        return self.tree.velocities.parents

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Number of velocities before each on the path to the base."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        return tuple(depths)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Start offset of the packed row of each velocity, and the end of the last one."""
        return tuple(accumulate((depth + 1 for depth in self.depths), initial=0))

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """One past the last descendant of each velocity; the descendants are consecutive."""
        ends = list(range(1, len(self.parents) + 1))
        for velocity in reversed(range(len(ends))):
            if self.parents[velocity] >= 0:
                above = self.parents[velocity]
                ends[above] = max(ends[above], ends[velocity])
        return tuple(ends)

    @cached_property
    def ordered(self) -> tuple[int, ...]:
        """The velocities by depth."""
        return tuple(sorted(range(len(self.depths)), key=self.depths.__getitem__))

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Start of the velocities of each depth in ``ordered``, and the end of the last."""
        counts = [self.depths.count(depth) for depth in range(max(self.depths) + 1)]
        return tuple(accumulate(counts, initial=0))


def axis_starts(tree: KinematicTree) -> tuple[int, ...]:
    """Return the number of each body's first axis, and that of all axes.

    Mimic joints have axes of their own; without them an axis has the number of its velocity.
    """
    return tuple(accumulate((body.nv for body in tree.bodies), initial=0))


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
    bodies, axes = len(tree.bodies), axis_starts(tree)[-1]
    couplings = axes * axes if tree.has_mimic else 0
    sizes = {
        "placements": 12 * bodies,
        "drifts": 3 * bodies,
        "by_position": 9 * axes,
        "by_velocity": 9 * axes,
        "rows": Branches(tree).starts[-1],
        "inverse": tree.nv,
        "solution": tree.nv,
        # Between axes, before those of mimic joints are added to those of their leaders.
        "masses": couplings,
        "positions": couplings,
        "velocities": couplings,
        "moving": 22 * bodies,
        "wrenches": 6 * bodies,
        "spins": 3 * bodies,
        "above": 24 * pair_starts(tree)[-1],
        "cubes": 4 * axes**3 if tree.has_mimic else 0,
    }
    return sizes[name]


def array_starts(tree: KinematicTree, names: Sequence[str]) -> dict[str, int]:
    """Return where each of several arrays starts in a team's memory."""
    sizes = [array_numbers(tree, name) for name in names]
    return dict(zip(names, accumulate(sizes, initial=0), strict=False))


def memory_numbers(tree: KinematicTree, names: Sequence[str]) -> int:
    """Return how many numbers several arrays have in total."""
    return sum(array_numbers(tree, name) for name in names)
