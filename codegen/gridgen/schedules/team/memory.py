"""What a team of the scan schedule keeps in memory while it computes gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from gridgen.model.tree import KinematicTree


@dataclass(frozen=True)
class Branches:
    """Which velocities the mass matrix couples: each with those on its way to the base.

    Where joints mimic others branches couple, and every velocity follows the one before.

    Attributes:
        tree: the robot.
    """

    tree: KinematicTree

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """The velocity before each on the way to the base, -1 where there is none."""
        return self.tree.velocities.parents

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Number of velocities before each on the way to the base."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        return tuple(depths)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the packed row of each velocity starts, and where the last one ends."""
        return tuple(accumulate((depth + 1 for depth in self.depths), initial=0))

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """One past the last velocity that each is on the way of; those between all are."""
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
        """Where the velocities of each depth start in ``ordered``, and where the last end."""
        counts = [self.depths.count(depth) for depth in range(max(self.depths) + 1)]
        return tuple(accumulate(counts, initial=0))


def axis_starts(tree: KinematicTree) -> tuple[int, ...]:
    """Return the number of each body's first axis, and that of all axes.

    Joints that mimic have axes of their own; without them an axis has the number of its velocity.
    """
    return tuple(accumulate((body.nv for body in tree.bodies), initial=0))


def pairs(tree: KinematicTree) -> list[tuple[int, int]]:
    """Return all pairs of a body and one on its way to the base, or itself.

    Those with the longest way on come first, so that lanes that take pairs in turn finish together.
    """
    found = [
        (tip, middle) for tip in range(len(tree.bodies)) for middle in (tip, *tree.ancestors(tip))
    ]
    return sorted(found, key=lambda pair: -tree.bodies[pair[1]].level)


def pair_starts(tree: KinematicTree) -> tuple[int, ...]:
    """Return where each body's pairs with the bodies on its way to the base start."""
    return tuple(accumulate((body.level + 1 for body in tree.bodies), initial=0))


def array_numbers(tree: KinematicTree, name: str) -> int:
    """Return how many numbers an array takes that a team keeps."""
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
        # Between axes, before those of joints that mimic are added to those of their leaders.
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
    """Return how many numbers several arrays take."""
    return sum(array_numbers(tree, name) for name in names)
