"""The scan schedule: one team of lanes per state, one body per lane, log-many rounds.

The plan contains all data of a kernel that depends on the tree's shape: the bodies that combine in
each round, the mapping of bodies to lanes, the shared memory of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol

from gridgen.errors import ModelError, OptionError
from gridgen.kernel import WARP
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


Lists = tuple[tuple[int, ...], ...]

#: Threads of a block whose states each use a part of a warp: one warp for every scheduler of a
#: multiprocessor.
WARP_BLOCK = 128
#: Most threads of a block that computes one state: leaves 128 registers for each.
MAX_LANES = 512
#: Shared memory that every GPU provides without opting in.
SHARED_BYTES = 48 * 1024
#: The same as a number of float64 values.
AVAILABLE = SHARED_BYTES // 8
#: Numbers of the longest record that lanes exchange: an element of Yang, Wu, Pan (prefix sums)
#: eq. 13.
MAX_PIECE = 24
#: Inverse dynamics of one state that a lane computes at once, limited by its registers.
AT_ONCE = {"float32": 4, "float64": 2}


class Needs(Protocol):
    """The memory requirements of a kernel; see ``ScanKernel``."""

    @property
    def memory(self) -> tuple[str, ...]:
        """Arrays in the memory of a team."""

    @property
    def parks(self) -> int:
        """Numbers that each lane of a warp saves in shared memory."""

    @property
    def parks_if_free(self) -> int:
        """Additional numbers, for a robot with a free joint."""


@dataclass(frozen=True)
class ScanPlan:
    """The scan schedule of one robot."""

    tree: KinematicTree  #: the robot.
    width: int  #: lanes per state if a state uses a part of a warp; 0 if it uses a block.
    threads: int  #: threads of a block.

    @property
    def bodies(self) -> int:
        """Number of bodies."""
        return len(self.tree.bodies)

    @property
    def on_warp(self) -> bool:
        """Whether lanes exchange data by shuffles instead of shared memory."""
        return self.width > 0

    @property
    def share(self) -> int:
        """Bodies of one lane."""
        return 1 if self.on_warp else -(-self.bodies // self.threads)

    @property
    def rounds(self) -> int:
        """Rounds of a scan over the deepest path: ceil(log2(levels))."""
        return (len(self.tree.levels) - 1).bit_length()

    @cached_property
    def above(self) -> Lists:
        """Each round's partner of each body: its ancestor 2^k above, -1 if there is none.

        The first table, the parents, exists even if a scan has no rounds.
        """
        tables = [self.tree.parents]
        for _ in range(1, self.rounds):
            last = tables[-1]
            tables.append(tuple(-1 if at < 0 else last[at] for at in last))
        return tuple(tables)

    @cached_property
    def below(self) -> tuple[Lists, ...]:
        """For each round and body, its descendants exactly 2^k below, in ascending order."""
        return tuple(inverted(table, self.bodies) for table in self.above)

    @cached_property
    def followers(self) -> Lists:
        """For each body, the bodies whose joints mimic its joint."""
        leaders = {body.v_index: i for i, body in enumerate(self.tree.bodies) if not body.mimics}
        table = tuple(leaders[body.v_index] if body.mimics else -1 for body in self.tree.bodies)
        return inverted(table, self.bodies)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The column of the mass matrix in which each body's first velocity is computed.

        Velocities that are not on a common path to the base share a column. With mimic joints
        branches couple, and every velocity has a column of its own.
        """
        if self.tree.has_mimic:
            return tuple(body.v_index for body in self.tree.bodies)
        widths = [max(self.tree.bodies[i].nv for i in level) for level in self.tree.levels]
        starts = tuple(accumulate(widths, initial=0))
        return tuple(starts[body.level] for body in self.tree.bodies)

    @property
    def columns_in_all(self) -> int:
        """Number of inverse dynamics that compute the mass matrix."""
        bodies = zip(self.columns, self.tree.bodies, strict=True)
        return max(column + body.nv for column, body in bodies)

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """Rows of the mass matrix that each body's lane stores."""
        return tuple(0 if body.mimics else body.nv for body in self.tree.bodies)

    @cached_property
    def row_ends(self) -> tuple[int, ...]:
        """One past the last body whose rows have an entry for each body's velocities."""
        if self.tree.has_mimic:
            return (self.bodies,) * self.bodies
        return tuple(self.tree.subtree(index).stop for index in range(self.bodies))

    @cached_property
    def owners(self) -> tuple[int, ...]:
        """The body whose lane stores the row of each velocity."""
        return tuple(i for i, count in enumerate(self.rows) for _ in range(count))

    @property
    def row_capacity(self) -> int:
        """Largest number of entries in the rows of one body."""
        return max(rows * (at + rows) for at, rows in zip(self.columns, self.rows, strict=True))

    @property
    def piece(self) -> int:
        """Numbers of each body that a block's lanes exchange at a time."""
        return min(MAX_PIECE, _shared_numbers(self.bodies))

    @property
    def states_per_block(self) -> int:
        """States that a block computes."""
        return self.threads // self.width if self.on_warp else 1

    def memory_numbers(self, kernel: Needs) -> int:
        """Return how many numbers of memory the team of a state has."""
        return memory_numbers(self.tree, kernel.memory)

    def threads_of(self, kernel: Needs) -> int:
        """Return the threads of a block of a kernel, limited by the memory of its warps."""
        numbers = self.memory_numbers(kernel)
        if not self.on_warp or not numbers:
            return self.threads
        one_warp = WARP // self.width * numbers
        return WARP * max(1, min(self.threads // WARP, AVAILABLE // one_warp))

    def states_of(self, kernel: Needs) -> int:
        """Return the states that a block of a kernel computes."""
        return self.threads_of(kernel) // self.width if self.on_warp else 1

    def exchanged_numbers(self, kernel: Needs) -> int:
        """Return the numbers of shared memory that a block needs besides its teams' memory."""
        if not self.on_warp:
            return 2 * self.piece * self.bodies
        has_free = any(body.joint_type.is_free for body in self.tree.bodies)
        return self.threads * (kernel.parks + (kernel.parks_if_free if has_free else 0))

    def fits_shared_memory(self, kernel: Needs) -> bool:
        """Return whether the memory of a block's teams fits in shared memory; else a workspace."""
        needed = self.states_of(kernel) * self.memory_numbers(kernel)
        return self.exchanged_numbers(kernel) + needed <= AVAILABLE

    def shared_numbers(self, kernel: Needs) -> int:
        """Return how many numbers of dynamic shared memory a block of a kernel has."""
        exchanged = self.exchanged_numbers(kernel)
        if not self.fits_shared_memory(kernel):
            return exchanged
        return exchanged + self.states_of(kernel) * self.memory_numbers(kernel)

    def workspace_numbers(self, kernel: Needs) -> int | None:
        """Return the numbers of scratch memory per state; ``None`` if the kernel has none."""
        if self.fits_shared_memory(kernel):
            return None
        return self.memory_numbers(kernel)


def plan_scan(tree: KinematicTree, *, threads: int | None = None) -> ScanPlan:
    """Map the bodies of a robot to lanes.

    Args:
        tree:    the robot.
        threads: threads of a block; by default chosen from the number of bodies. The results do
                 not depend on it.

    Raises:
        OptionError: ``threads`` is not a valid number of threads of a block.
        ModelError:  the robot has too many bodies for the shared memory of a block.
    """
    bodies = len(tree.bodies)
    if threads is not None and (threads % WARP or not WARP <= threads <= 1024):
        raise OptionError(f"threads is {threads}; use a multiple of {WARP} up to 1024")
    if bodies <= WARP:
        return ScanPlan(tree, 1 << (bodies - 1).bit_length(), threads or WARP_BLOCK)
    if _shared_numbers(bodies) == 0:
        most = SHARED_BYTES // (2 * 8)
        raise ModelError(
            f"{tree.source}: the robot has {bodies} bodies; the scan schedule supports at most "
            f'{most}: use schedule="thread"'
        )
    return ScanPlan(tree, 0, threads or min(MAX_LANES, -(-bodies // WARP) * WARP))


def inverted(table: tuple[int, ...], count: int) -> Lists:
    """Return, for each of ``count`` targets, the indices of the entries that name it."""
    lists: list[list[int]] = [[] for _ in range(count)]
    for index, target in enumerate(table):
        if target >= 0:
            lists[target].append(index)
    return tuple(tuple(members) for members in lists)


def _shared_numbers(bodies: int) -> int:
    """Return how many numbers per body fit twice into shared memory, in float64."""
    return SHARED_BYTES // (2 * 8 * bodies)
