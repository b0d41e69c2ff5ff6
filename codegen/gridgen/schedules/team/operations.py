"""Rounds of kernels of teams, and operation counts of one body from the generated operators."""

from __future__ import annotations

from collections.abc import Iterable

from gridgen.kernel import Work
from gridgen.schedules.team.bodies import operator_view
from gridgen.schedules.team.operators import OPERATORS
from gridgen.schedules.team.plan import ScanPlan

_COUNTS = {
    (operator.name, *operator.operands.values()): operator_view(operator).instructions
    for operator in OPERATORS
}


def operations(name: str, *operands: str) -> int:
    """Return the operation count of a body operator; a fused multiply-add is one."""
    return _COUNTS[(name, *operands)]


# Not operators: sine and cosine of gridgen_math.cuh, and work in the kernels themselves.
SINE_COSINE = 23
JOINT_MOTION = 1
SUM = 6
MASS_SUM, MOVING_MASS_SUM, INERTIA_SUM = 10, 22, 21
JOINT_ANSWER = 8
TRANSMIT = 6 * 6
DOUBLE_TRANSMISSION = 6 * TRANSMIT

# Operations on one body, including the following sum if there is one.
PLACEMENT = SINE_COSINE + operations("spun", "Placement", "T", "T")
COMPOSE = operations("compose", "Placement", "Placement")
TO_BODY = operations("to_body", "Placement", "Spatial") + SUM
TO_ANCESTOR = operations("to_ancestor", "Placement", "Spatial")
CARRIED = operations("ad_add", "Spatial", "Spatial", "Spatial")
MOMENTUM = operations("wrench", "Mass", "Spatial")
MOTION_WRENCH = operations("motion_wrench", "Mass", "Spatial", "Spatial")
EXTERNAL_WRENCH = operations("rotated_back", "Matrix", "Spatial") + SUM
INERTIA_TO_PARENT = (
    JOINT_ANSWER
    + operations("across_joint", "Articulated", "Spatial", "Spatial")
    + operations("to_ancestor", "Placement", "Articulated")
)
TRANSMISSION = operations("lever", "Placement") + TO_ANCESTOR + 1
ACCELERATE = operations("accelerate", "Mobility", "Spatial")
CHANGES = (
    operations("origin_drift", "Placement", "Vector", "Vector")
    + operations("change_by_velocity", "Spatial", "Spatial")
    + operations("change_by_position", "Spatial", "Spatial", "Spatial")
    + operations("moving", "Mass", "Vector")
)
MASS_TO_PARENT = operations("to_ancestor", "Placement", "Mass") + MASS_SUM
MOVING_MASS_TO_PARENT = (
    operations("to_ancestor", "Placement", "Vector", "MovingMass") + MOVING_MASS_SUM
)
ANSWER = operations("answer", "EffortRow", "MotionChange")
FROM_ABOVE = operations("to_body", "Placement", "Vector", "FromAbove")
FROM_BELOW = operations("from_below", "FromAbove", "MovingMass", "Spatial", "Vector")
FROM_BELOW_TO_PARENT = operations("to_ancestor", "Placement", "Vector", "FromBelow")
# Work that a pair of joints shares with all its ancestors, and with each.
PAIR = (
    operations("turned_row", "Spatial", "Vector", "FromBelow")
    + operations("quadratic_row", "Spatial", "FromBelow")
    + operations("by_position", "TurnedMass")
    + operations("effort_row", "MovingMass", "Spatial")
    + 2 * operations("wrench_by_velocity", "TurnedMass", "Vector")
    + 2 * (operations("rotated_wrench", "Spatial", "Spatial") + SUM)
    + 2 * operations("wrench", "MovingMass", "MotionChange")
)
TRIPLE = (
    4 * ANSWER
    + 4 * operations("dot", "Vector", "Vector")
    + 6 * operations("dot", "Spatial", "Spatial")
)


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
