"""The constraint-force algorithm on the teams of the scan schedule: requirements of a launch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gridgen.dynamics.cfa import Unknown, refusal, unknowns
from gridgen.errors import ModelError
from gridgen.kernel import WARP
from gridgen.model.tree import KinematicTree
from gridgen.schedules.cfa.elimination import Elimination, plan_elimination
from gridgen.schedules.team.plan import SHARED_BYTES, ScanPlan

#: Numbers in the shared memory that every GPU provides without opting in, in float64.
AVAILABLE = SHARED_BYTES // 8


@dataclass(frozen=True)
class CfaPlan:
    """The constraint-force algorithm for one robot."""

    scan: ScanPlan  #: the teams, and the scans that compute the bias motion.
    elimination: Elimination  #: the rounds.

    @property
    def tree(self) -> KinematicTree:
        """The robot."""
        return self.scan.tree

    @cached_property
    def unknowns(self) -> tuple[tuple[Unknown, ...], ...]:
        """The unknown components of every body's joint."""
        return tuple(unknowns(body) for body in self.tree.bodies)

    @property
    def size(self) -> int:
        """Rows of a block: five constraints, and the joint's axis if a joint has armature."""
        return 6 if any(self.tree.armature) else 5

    @property
    def body_numbers(self) -> int:
        """Numbers per body in a team's memory: placement, wrench, motion, a mobility of its own."""
        return 34 if "params" in self.tree.parameters else 24

    @property
    def numbers(self) -> int:
        """Numbers that a team shares, in shared memory or in its row of the workspace."""
        size, joints = self.size, len(self.elimination.order)
        vectors = self.body_numbers * len(self.tree.bodies) + self.tree.nv + 2 * size * joints
        triangle = size * (size + 1) // 2
        return vectors + triangle * joints + size * size * len(self.elimination.couplings)

    @property
    def threads(self) -> int:
        """Threads of a block, limited by the float64 systems of its warps in shared memory."""
        if not self.scan.on_warp:
            return self.scan.threads
        one_warp = WARP // self.scan.width * self.numbers
        return WARP * max(1, min(self.scan.threads // WARP, AVAILABLE // one_warp))

    @property
    def states_per_block(self) -> int:
        """States, or teams, that a block computes at a time.

        A kernel on warps has a team for every state. A kernel on blocks has a grid of any size,
        whose blocks divide the states.
        """
        return self.threads // self.scan.width if self.scan.on_warp else 1

    def in_shared_memory(self, available: int = AVAILABLE) -> bool:
        """Return whether a block's systems fit in shared memory; else they use the workspace."""
        return self.states_per_block * self.numbers <= available

    def shared_numbers(self, available: int = AVAILABLE) -> int:
        """Return the numbers in the dynamic shared memory of a block.

        Args:
            available: numbers of the element type that a block may have; by default the limit
                without opting in, in float64.
        """
        exchanged = 0 if self.scan.on_warp else 2 * self.scan.piece * self.scan.bodies
        system = self.states_per_block * self.numbers if self.in_shared_memory(available) else 0
        return max(exchanged, system)

    def workspace(self, blocks: int, available: int = AVAILABLE) -> tuple[int, int]:
        """Return the rows and columns of the workspace of a grid: a row for each team.

        There are no rows if the systems are in shared memory; the kernel then gets a batch stride
        of 0.
        """
        rows = 0 if self.in_shared_memory(available) else blocks * self.states_per_block
        return rows, self.numbers


def plan_cfa(scan: ScanPlan) -> CfaPlan:
    """Plan the algorithm for one robot.

    Raises:
        ModelError: the robot has mimic joints, or a link with a singular inertia.
    """
    tree = scan.tree
    if (reason := refusal(tree)) is not None:
        raise ModelError(f"{tree.source}: {reason}")
    joined = [bool(unknowns(body)) for body in tree.bodies]
    return CfaPlan(scan, plan_elimination(tree.parents, joined))
