"""The work of operations of a whole team: phases, scans, levels."""

from __future__ import annotations

from collections.abc import Iterable

from gridgen.kernel import Work
from gridgen.schedules.team.plan import ScanPlan


def lanes_of(plan: ScanPlan) -> int:
    """Return the lanes of a team."""
    return plan.width or plan.threads


def divided(plan: ScanPlan, operations: int, steps: int) -> Work:
    """Return the work of operations that lanes divide evenly."""
    return Work(operations, -(-operations // lanes_of(plan)), steps)


def each(plan: ScanPlan, operations: int) -> Work:
    """Return the work of a phase that processes every body independently."""
    return Work(plan.bodies * operations, plan.share * operations, 1)


def outward(plan: ScanPlan, operations: int) -> Work:
    """Return the work of a scan toward the leaves."""
    total = sum(map(_meeting, plan.above[: plan.rounds])) * operations
    return Work(total, plan.rounds * plan.share * operations, plan.rounds)


def inward(plan: ScanPlan, sends: int, adds: int) -> Work:
    """Return the work of a scan toward the root, in which every body prepares its message."""
    total = plan.rounds * plan.bodies * sends
    total += sum(map(_meeting, plan.above[: plan.rounds])) * adds
    most = sum(max(map(len, lists)) for lists in plan.below[: plan.rounds])
    return Work(total, plan.share * (plan.rounds * sends + most * adds), plan.rounds)


def doublings(plan: ScanPlan, operations: int, steps: int) -> Work:
    """Return the work of all doublings of a scan: every round except the last; ``steps`` each."""
    rounds = plan.above[: max(plan.rounds - 1, 0)]
    total = sum(map(_meeting, rounds)) * operations
    return Work(total, len(rounds) * plan.share * operations, len(rounds) * steps)


def levels(plan: ScanPlan, operations: int) -> Work:
    """Return the work of passing data from bodies to their parents level by level."""
    carried = sum(parent >= 0 for parent in plan.tree.parents)
    steps = len(plan.tree.levels) - 1
    return Work(carried * operations, steps * operations, steps)


def _meeting(table: Iterable[int]) -> int:
    return sum(partner >= 0 for partner in table)
