"""What kernels of teams cost, without running anything: work and span.

    python benchmarks/scan_cost.py

Prints the tables of docs/scan.md and docs/gradients.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from gridgen.emit.bodies import operator_view
from gridgen.emit.operators import OPERATORS
from gridgen.schedules.cfa import CFA_KERNELS
from gridgen.schedules.cfa.elimination import Update
from gridgen.schedules.cfa.plan import CfaPlan, plan_cfa
from gridgen.schedules.team.memory import Branches, pairs
from gridgen.schedules.team.plan import AT_ONCE, ScanPlan, plan_scan
from scan_for_tests import KERNELS, tree_of

_COUNTS = {
    (operator.name, *operator.operands.values()): operator_view(operator).instructions
    for operator in OPERATORS
}


def of(name: str, *operands: str) -> int:
    """Return the operations of one body's operator; a fused multiply-add is one."""
    return _COUNTS[(name, *operands)]


# What is no operator: sine and cosine of gridgen_math.cuh, and what the kernels do by themselves.
SINE_COSINE = 23
JOINT_MOTION = 1
SUM = 6
MASS_SUM, MOVING_MASS_SUM, INERTIA_SUM = 10, 22, 21
JOINT_ANSWER = 8
TRANSMIT = 6 * 6
DOUBLE_TRANSMISSION = 6 * TRANSMIT

# Operations on one body, with the sum that follows where there is one.
PLACEMENT = SINE_COSINE + of("spun", "Placement", "T", "T")
COMPOSE = of("compose", "Placement", "Placement")
TO_BODY = of("to_body", "Placement", "Spatial") + SUM
TO_ANCESTOR = of("to_ancestor", "Placement", "Spatial")
CARRIED = of("carried_add", "Spatial", "Spatial", "Spatial")
APPEND = TO_BODY - SUM + TO_BODY + CARRIED + SUM
MOMENTUM = of("wrench", "Mass", "Spatial")
MOTION_WRENCH = of("motion_wrench", "Mass", "Spatial", "Spatial")
EXTERNAL_WRENCH = of("turned_back", "Matrix", "Spatial") + SUM
INERTIA_TO_PARENT = (
    JOINT_ANSWER
    + of("given_way", "Articulated", "Spatial", "Spatial")
    + of("to_ancestor", "Placement", "Articulated")
)
TRANSMISSION = of("lever", "Placement") + TO_ANCESTOR + 1
ACCELERATE = of("accelerate", "Mobility", "Spatial")
CHANGES = (
    of("origin_drift", "Placement", "Vector", "Vector")
    + of("change_by_velocity", "Spatial", "Spatial")
    + of("change_by_position", "Spatial", "Spatial", "Spatial")
    + of("moving", "Mass", "Vector")
)
MASS_TO_PARENT = of("to_ancestor", "Placement", "Mass") + MASS_SUM
MOVING_MASS_TO_PARENT = of("to_ancestor", "Placement", "Vector", "MovingMass") + MOVING_MASS_SUM
ROW = (
    of("effort_row", "MovingMass", "Spatial")
    + 2 * of("wrench", "MovingMass", "MotionChange")
    + of("turned_wrench", "Spatial", "Spatial")
    + SUM
)
ROW_TO_PARENT = of("to_ancestor", "Placement", "Vector", "EffortRow")
ANSWER = of("answer", "EffortRow", "MotionChange")
FROM_ABOVE = of("to_body", "Placement", "Vector", "FromAbove")
FROM_BELOW = of("from_below", "FromAbove", "MovingMass", "Spatial", "Vector")
FROM_BELOW_TO_PARENT = of("to_ancestor", "Placement", "Vector", "FromBelow")
# What a pair of joints has in common with all on its way to the base, and with each.
PAIR = (
    of("turned_row", "Spatial", "Vector", "FromBelow")
    + of("quadratic_row", "Spatial", "FromBelow")
    + of("by_position", "TurnedMass")
    + of("effort_row", "MovingMass", "Spatial")
    + 2 * of("wrench_by_velocity", "TurnedMass", "Vector")
    + 2 * (of("turned_wrench", "Spatial", "Spatial") + SUM)
    + 2 * of("wrench", "MovingMass", "MotionChange")
)
TRIPLE = 4 * ANSWER + 4 * of("dot", "Vector", "Vector") + 6 * of("dot", "Spatial", "Spatial")


@dataclass(frozen=True)
class Cost:
    """What one state costs.

    Attributes:
        work: operations of all lanes.
        span: longest chain of dependent steps: rounds of scans, levels, eliminated velocities, and
              phases in which every body works by itself.
    """

    work: int
    span: int

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of one after the other."""
        return Cost(self.work + other.work, self.span + other.span)


def scan_cost(plan: ScanPlan, function: str) -> Cost:
    """Return the cost of a kernel.

    Args:
        plan:     the schedule of the robot.
        function: a name in ``KERNELS``.
    """
    kernel = KERNELS[function]
    loads = EXTERNAL_WRENCH if "f_ext" in kernel.key.inputs else 0
    start = _each(plan, PLACEMENT + 2 * JOINT_MOTION)
    velocities = _outward(plan, TO_BODY) + _doublings(plan, COMPOSE, 0)
    accelerations = _each(plan, CARRIED) + _outward(plan, TO_BODY)
    forces = _each(plan, MOTION_WRENCH + loads)
    collected = _inward(plan, TO_ANCESTOR, SUM) + _each(plan, 1)

    if kernel.part == "inverse_dynamics":
        return start + velocities + accelerations + forces + collected
    if kernel.part == "inverse_dynamics_synchronous":
        both = _outward(plan, APPEND) + _doublings(plan, COMPOSE, 0)
        return start + both + forces + collected
    if kernel.part == "aba":
        before = start + velocities + accelerations + forces
        before = before if kernel.merged else before + collected
        return before + _inertias(plan) + _articulated_scans(plan)
    if kernel.part == "articulated_accelerations":
        return start + _articulated_scans(plan)
    motion = start + velocities + accelerations + forces
    if kernel.part == "inverse_dynamics_gradient":
        return motion + _gradient(plan)
    if kernel.part == "mass_matrix_inverse":
        return _each(plan, PLACEMENT) + _factors(plan) + _solutions(plan, plan.tree.nv)
    if kernel.part == "forward_dynamics_gradient":
        again = _outward(plan, TO_BODY) + _doublings(plan, COMPOSE, 0) + forces
        found = _factors(plan) + _solutions(plan, 1) + again + _gradient(plan)
        return motion + found + _solutions(plan, 3 * plan.tree.nv)
    if kernel.part == "second_order":
        return motion + _second_order(plan)
    columns = _columns(plan, bias=kernel.part == "jsiia")
    if kernel.part == "mass_matrix":
        return start + _doublings(plan, COMPOSE, 1) + columns
    return (
        start + velocities + _each(plan, CARRIED + MOTION_WRENCH + loads) + columns + _solve(plan)
    )


def cfa_cost(plan: CfaPlan) -> Cost:
    """Return the cost of the constraint-force algorithm, once refined (docs/cfa.md)."""
    size, rounds = plan.size, plan.elimination.rounds
    scan, couplings = plan.scan, plan.elimination.couplings
    column = 2 * ACCELERATE + TO_ANCESTOR + TO_BODY
    formed = size * column * (len(plan.elimination.order) + len(couplings))
    factored = len(plan.elimination.order) * size**3 // 6 + len(couplings) * size**3 // 2
    changed = sum(
        _products(round_.diagonal) * size * size * (size + 1) // 2
        + _products(round_.coupled) * size**3
        for round_ in rounds
    )
    applied = size * size * (len(plan.elimination.order) + 2 * len(couplings))
    accelerated = _each(scan, TO_ANCESTOR + ACCELERATE + TO_BODY) + Cost(0, 1)
    solved = Cost(applied, 2 * len(rounds)) + accelerated
    return (
        scan_cost(scan, "bias_forces_scan")
        + Cost(formed, 1)
        + Cost(factored + changed, 2 * len(rounds))
        + solved
        + solved
        + accelerated
    )


def _products(updates: Iterable[Update]) -> int:
    return sum(len(update.products) for update in updates)


def _inertias(plan: ScanPlan) -> Cost:
    """Return the cost of the articulated inertias, level by level."""
    carried = sum(parent >= 0 for parent in plan.tree.parents)
    return Cost(carried * (INERTIA_TO_PARENT + INERTIA_SUM), len(plan.tree.levels) - 1)


def _articulated_scans(plan: ScanPlan) -> Cost:
    """Return the cost of the articulated bodies' scans in both directions."""
    carried = sum(parent >= 0 for parent in plan.tree.parents)
    pushes = _each(plan, JOINT_ANSWER + TRANSMISSION + TO_ANCESTOR) + Cost(carried * SUM, 1)
    inward = _inward(plan, TRANSMIT, SUM) + _doublings(plan, DOUBLE_TRANSMISSION, 0)
    rates = _each(plan, 2 + TRANSMISSION)
    outward = _outward(plan, TRANSMIT) + _doublings(plan, DOUBLE_TRANSMISSION, 0)
    return pushes + inward + rates + outward + Cost(carried * (TO_BODY + 6), 1)


def _columns(plan: ScanPlan, *, bias: bool) -> Cost:
    """Return the cost of all columns of the mass matrix; a lane computes several at once."""
    count = plan.columns_in_all + bias
    one = (
        _outward(plan, TO_BODY)
        + _each(plan, MOMENTUM)
        + _inward(plan, TO_ANCESTOR, SUM)
        + _each(plan, 1)
    )
    return Cost(count * one.work, -(-count // AT_ONCE["float32"]) * one.span)


def _solve(plan: ScanPlan) -> Cost:
    """Return the cost of factorisation and solution, one velocity after the other."""
    work = 0
    for owner, rows in enumerate(plan.rows):
        for r in range(rows):
            path = _path(plan, owner) + r
            work += path * (path + 1) // 2 + 5 * path + 2
    return Cost(work, 2 * len(plan.owners) + 1)


def _levels(plan: ScanPlan, operations: int) -> Cost:
    """Return the cost of what the bodies hand to their parents level by level."""
    carried = sum(parent >= 0 for parent in plan.tree.parents)
    return Cost(carried * operations, len(plan.tree.levels) - 1)


def _gradient(plan: ScanPlan) -> Cost:
    """Return the cost of the derivatives of the efforts at a motion."""
    sums = _each(plan, CHANGES) + _levels(plan, MOVING_MASS_TO_PARENT + TO_ANCESTOR + SUM)
    step = ROW_TO_PARENT + 2 * TO_ANCESTOR + 2 * ANSWER
    entries = Branches(plan.tree).starts[-1]
    walks = Cost(entries * step, len(plan.tree.levels))
    return sums + _each(plan, ROW) + walks


def _factors(plan: ScanPlan) -> Cost:
    """Return the cost of the mass matrix and its elimination, a depth at a time."""
    branches = Branches(plan.tree)
    formed = _levels(plan, MASS_TO_PARENT) + Cost(
        branches.starts[-1] * TO_ANCESTOR, len(plan.tree.levels)
    )
    work = sum(
        2 * (depth + 1) * (end - velocity)
        for velocity, (depth, end) in enumerate(zip(branches.depths, branches.ends, strict=True))
    )
    return formed + Cost(work, max(branches.depths) + 1)


def _solutions(plan: ScanPlan, count: int) -> Cost:
    """Return the cost of solving: one system by the whole team, several by a lane each."""
    branches = Branches(plan.tree)
    steps = max(branches.depths) + 1 if count == 1 else plan.tree.nv
    lanes = plan.width or plan.threads
    return Cost(count * 2 * branches.starts[-1], -(-count // lanes) * 2 * steps)


def _second_order(plan: ScanPlan) -> Cost:
    """Return the cost of the second derivatives at a motion."""
    bodies, found = plan.tree.bodies, pairs(plan.tree)
    sums = _each(plan, CHANGES) + _levels(plan, MOVING_MASS_TO_PARENT + TO_ANCESTOR + SUM)
    outward = Cost(len(found) * (COMPOSE + FROM_ABOVE), len(plan.tree.levels))
    longest = bodies[found[0][1]].level + 1
    inward = sum(bodies[tip].level - bodies[middle].level for tip, middle in found) * COMPOSE
    triples = sum(bodies[middle].level + 1 for _, middle in found) * TRIPLE
    work = len(found) * (FROM_BELOW + FROM_BELOW_TO_PARENT + PAIR) + inward + triples
    lanes = plan.width or plan.threads
    return sums + outward + Cost(work, -(-len(found) // lanes) * 2 * longest)


def _path(plan: ScanPlan, body: int) -> int:
    """Return the number of velocities whose rows the elimination of a body's first one updates."""
    if plan.tree.has_mimic:
        return plan.tree.bodies[body].v_index
    return sum(plan.rows[above] for above in plan.tree.ancestors(body))


def _each(plan: ScanPlan, operations: int) -> Cost:
    return Cost(plan.bodies * operations, 1)


def _meeting(table: Iterable[int]) -> int:
    return sum(partner >= 0 for partner in table)


def _outward(plan: ScanPlan, operations: int) -> Cost:
    """Return the cost of a scan towards the leaves."""
    rounds = plan.above[: plan.rounds]
    return Cost(sum(map(_meeting, rounds)) * operations, plan.rounds)


def _inward(plan: ScanPlan, sends: int, adds: int) -> Cost:
    """Return the cost of a scan towards the root, in which every body prepares what it sends."""
    rounds = plan.above[: plan.rounds]
    return Cost(plan.rounds * plan.bodies * sends + sum(map(_meeting, rounds)) * adds, plan.rounds)


def _doublings(plan: ScanPlan, operations: int, span: int) -> Cost:
    """Return the cost of what a scan's rounds but the last double; ``span`` steps in each."""
    rounds = plan.above[: max(plan.rounds - 1, 0)]
    return Cost(sum(map(_meeting, rounds)) * operations, len(rounds) * span)


def report(plans: Iterable[tuple[str, ScanPlan]], functions: Iterable[str]) -> str:
    """Return a table of work and span: one line for each robot and kernel.

    Args:
        plans:     robots by name.
        functions: names in ``KERNELS`` or ``CFA_KERNELS``.
    """
    lines = [f"{'robot':<16}{'bodies':>7}{'levels':>7}  {'kernel':<36}{'work':>12}{'span':>7}"]
    functions = tuple(functions)
    for name, plan in plans:
        for function in functions:
            if function in CFA_KERNELS:
                cost = cfa_cost(plan_cfa(plan))
            else:
                cost = scan_cost(plan, function)
            lines.append(
                f"{name:<16}{plan.bodies:>7}{len(plan.tree.levels):>7}  {function:<36}"
                f"{cost.work:>12}{cost.span:>7}"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print both tables."""
    chains = {f"chain {size}": tree_of(f"chain {size}") for size in (8, 32, 128, 512, 1024)}
    robots = {
        "arm7": tree_of("arm7"),
        "humanoid": tree_of("humanoid"),
        "humanoid, free": tree_of("humanoid", floating_base=True),
    }
    plain = {n: k for n, k in (KERNELS | CFA_KERNELS).items() if not k.key.inputs}
    gradients = [name for name, kernel in plain.items() if getattr(kernel, "memory", ())]
    dynamics = [name for name in plain if name not in gradients]
    for trees, functions in (
        (chains | robots, dynamics),
        ({"chain 32": chains["chain 32"]} | robots, gradients),
    ):
        print(report([(name, plan_scan(tree)) for name, tree in trees.items()], functions))


if __name__ == "__main__":
    main()
