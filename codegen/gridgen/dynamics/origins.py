"""Groups of bodies with an origin each, for algorithms in the axes of the base.

About a distant origin, the inertia of a light body is a small difference of large numbers: an entry
of the mass matrix would lose as many digits as m d^2 exceeds it. Limbs whose entries would lose
more than a few bits therefore have an origin of their own: the origin of one of their bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from gridgen.dynamics.crba import composite_masses
from gridgen.dynamics.frames import body_poses
from gridgen.dynamics.motion_derivatives import along
from gridgen.dynamics.state import State
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import FloatScalars
from gridgen.symbolic.spatial import add, apply, scale

#: Largest ratio of m d^2 to an entry of the mass matrix that an origin may give.
CLOSE = 6.0
#: The same for a limb that could do without an origin of its own, as those of a quadruped.
FAR = 24.0
# Joint positions of the ratios: no joint is straight.
_POSITION = 0.5


@dataclass(frozen=True)
class Groups:
    """Groups of items that share an origin. Group 0 has that of item 0.

    Attributes:
        parents: parent of each item; -1 for item 0.
        of:      group of each item.
        origins: item of each group's origin.
    """

    parents: tuple[int, ...]
    of: tuple[int, ...]
    origins: tuple[int, ...]

    @cached_property
    def leaders(self) -> tuple[int, ...]:
        """The first item of each group; its parent has another group."""
        return tuple(self.of.index(group) for group in range(len(self.origins)))

    @cached_property
    def paths(self) -> list[list[int]]:
        """For each group, itself and the groups around it, up to group 0."""
        found: list[list[int]] = [[0]]
        for leader in self.leaders[1:]:
            found.append([len(found), *found[self.of[self.parents[leader]]]])
        return found

    @property
    def are_single(self) -> bool:
        """Whether each body has its own origin."""
        return 1 < len(self.origins) == len(self.of)

    @property
    def hops(self) -> int:
        """Most groups on the path of an item."""
        return max(map(len, self.paths))

    @cached_property
    def stages(self) -> list[list[int]]:
        """The items of the groups of each depth, the deepest first."""
        depths = [len(self.paths[group]) for group in self.of]
        return [
            [item for item, depth in enumerate(depths) if depth == k]
            for k in range(self.hops, 0, -1)
        ]

    def ancestors(self, hop: int) -> list[list[int]]:
        """Return each item's ancestors, without item 0, in the hop-th group of its path."""
        rows: list[list[int]] = []
        for item, group in enumerate(self.of):
            path, found = self.paths[group], list[int]()
            above = self.parents[item]
            while above > 0:
                if hop < len(path) and self.of[above] == path[hop]:
                    found.append(above)
                above = self.parents[above]
            rows.append(found)
        return rows

    def origins_at(self, hop: int) -> list[int]:
        """Return the origin of each item's hop-th group; beyond the last, that of the last."""
        paths = (self.paths[group] for group in self.of)
        return [self.origins[path[min(hop, len(path) - 1)]] for path in paths]


def one_group(parents: Sequence[int]) -> Groups:
    """Return a single group."""
    return Groups(tuple(parents), (0,) * len(parents), (0,))


def single_groups(parents: Sequence[int]) -> Groups:
    """Return a group for each item."""
    return Groups(tuple(parents), *[tuple(range(len(parents)))] * 2)


@lru_cache(maxsize=16)
def groups_of(tree: KinematicTree, parents: tuple[int, ...]) -> Groups:
    """Return the groups of a robot: parts of its limbs, from the tips.

    Args:
        tree:    the robot.
        parents: parent of each item; the last items are the last bodies.
    """
    losses, of, origins = _losses(tree, parents), [0] * len(parents), [0]
    for limb in _limbs(parents):
        group, start = of[parents[limb[0]]], 0
        lost = losses[limb, origins[group]]
        limit = CLOSE if lost.max() > FAR else FAR
        while start < len(limb) and lost[start] <= limit:
            of[limb[start]] = group
            start += 1
        for part in _parts(losses, limb[start:]):
            worst = losses[np.ix_(part, part)].max(axis=0)
            origins.append(part[int(worst.argmin())])
            for item in part:
                of[item] = len(origins) - 1
    return Groups(parents, tuple(of), tuple(origins))


def _parts(losses: NDArray[np.float64], limb: list[int]) -> list[list[int]]:
    """Divide the end of a limb into parts for which an origin is enough, as long as possible."""
    parts: list[list[int]] = []
    while limb:
        first = len(limb) - 1
        while first and losses[np.ix_(limb[first - 1 :], limb[first - 1 :])].max(0).min() <= CLOSE:
            first -= 1
        parts.insert(0, limb[first:])
        limb = limb[:first]
    return parts


def _limbs(parents: Sequence[int]) -> list[list[int]]:
    """Return the longest paths without a fork, the nearest to the root first."""
    children = [
        [i for i, above in enumerate(parents) if above == item] for item in range(len(parents))
    ]
    limbs = []
    for item in range(1, len(parents)):
        if parents[item] == 0 or len(children[parents[item]]) > 1:
            limb = [item]
            while len(children[limb[-1]]) == 1:
                limb += children[limb[-1]]
            limbs.append(limb)
    return limbs


def _losses(tree: KinematicTree, parents: Sequence[int]) -> NDArray[np.float64]:
    """Return m d^2 over the entry of the mass matrix, of each item about each item's origin."""
    scalars, q = FloatScalars(), np.full(tree.nq, _POSITION)
    for start in tree.quaternions:
        q[start : start + 4] = (0.0, 0.0, 0.0, 1.0)
    state, shift = State(tree, scalars, list(q)), len(parents) - len(tree.bodies)
    poses, masses = body_poses(state), composite_masses(state)
    points = np.zeros((len(parents), 3))  # of a fixed base, too
    points[shift:] = [pose.p for pose in poses]
    losses = np.zeros((len(parents), len(parents)))
    for item, (pose, mass, body) in enumerate(zip(poses, masses, tree.bodies, strict=True), shift):
        if body.joint_type.nv > 1 or not mass.m:
            continue
        (axis,) = body.joint_type.subspace(scalars)
        entry = along(axis, mass.wrench(*axis)) + max(body.armature)
        center = add(pose.p, apply(pose.R, scale(1.0 / mass.m, mass.h)))
        distances = ((np.array(center) - points) ** 2).sum(axis=1)
        losses[item] = mass.m * distances / entry if entry > 0.0 else 0.0
    return losses
