"""The work of the kernels of the scan schedule."""

from __future__ import annotations

from gridgen.kernel import Work
from gridgen.schedules.scan.kernels import ScanKernel
from gridgen.schedules.team import operations as of
from gridgen.schedules.team.operations import (
    divided,
    doublings,
    each,
    inward,
    lanes_of,
    levels,
    outward,
)
from gridgen.schedules.team.plan import AT_ONCE, ScanPlan, pairs


def scan_work(plan: ScanPlan, kernel: ScanKernel) -> Work:
    """Return the work of a kernel."""
    return masses(plan) + _known_work(plan, kernel)


def masses(plan: ScanPlan) -> Work:
    """Return the work of adding the masses of fixed links to those of their bodies."""
    parts = [len(body.parts) for body in plan.tree.bodies]
    lane = plan.share * max(parts) * of.MASS_TO_PARENT
    return Work(sum(parts) * of.MASS_TO_PARENT, lane, 0)


def _known_work(plan: ScanPlan, kernel: ScanKernel) -> Work:
    """Return the work for constant masses."""
    loads = of.EXTERNAL_WRENCH if "f_ext" in kernel.key.inputs else 0
    start = each(plan, of.PLACEMENT + 2 * of.JOINT_MOTION)
    velocities = outward(plan, of.TO_BODY) + doublings(plan, of.COMPOSE, 0)
    accelerations = each(plan, of.CARRIED) + outward(plan, of.TO_BODY)
    forces = each(plan, of.MOTION_WRENCH + loads)
    collected = inward(plan, of.TO_ANCESTOR, of.SUM) + each(plan, 1)

    if kernel.part == "inverse_dynamics":
        return start + velocities + accelerations + forces + collected
    if kernel.part == "aba":
        before = start + velocities + accelerations + forces
        before = before if kernel.merged else before + collected
        return before + _inertias(plan) + articulated_scans(plan)
    motion = start + velocities + accelerations + forces
    if kernel.part == "second_order":
        return motion + _second_order(plan)
    bias = each(plan, of.CARRIED + of.MOTION_WRENCH + loads)
    return start + velocities + bias + _columns(plan) + _solve(plan)


def _inertias(plan: ScanPlan) -> Work:
    """Return the work of the articulated inertias, level by level."""
    return levels(plan, of.INERTIA_TO_PARENT + of.INERTIA_SUM)


def articulated_scans(plan: ScanPlan) -> Work:
    """Return the work of the articulated-body scans in both directions."""
    carried = sum(parent >= 0 for parent in plan.tree.parents)
    children = max(map(len, plan.below[0]))
    pushes = each(plan, of.JOINT_ANSWER + of.TRANSMISSION + of.TO_ANCESTOR) + Work(
        carried * of.SUM, plan.share * children * of.SUM, 1
    )
    towards_root = inward(plan, of.TRANSMIT, of.SUM) + doublings(plan, of.DOUBLE_TRANSMISSION, 0)
    rates = each(plan, 2 + of.TRANSMISSION)
    towards_leaves = outward(plan, of.TRANSMIT) + doublings(plan, of.DOUBLE_TRANSMISSION, 0)
    last = of.TO_BODY + 6
    received = Work(carried * last, plan.share * last if carried else 0, 1)
    return pushes + towards_root + rates + towards_leaves + received


def _columns(plan: ScanPlan) -> Work:
    """Return the work of the bias motion and all columns of the mass matrix, several at once."""
    count = plan.columns_in_all + 1
    one = (
        outward(plan, of.TO_BODY)
        + each(plan, of.MOMENTUM)
        + inward(plan, of.TO_ANCESTOR, of.SUM)
        + each(plan, 1)
    )
    groups = -(-count // AT_ONCE["float32"])
    return Work(count * one.operations, count * one.lane, groups * one.steps)


def _solve(plan: ScanPlan) -> Work:
    """Return the work of factorization and solution, one velocity at a time."""
    work = lane = 0
    for owner, rows in enumerate(plan.rows):
        for r in range(rows):
            path = _path(plan, owner) + r
            work += path * (path + 1) // 2 + 5 * path + 2
            lane += 2 * path + 2
    return Work(work, plan.share * lane, 2 * len(plan.owners) + 1)


def _second_order(plan: ScanPlan) -> Work:
    """Return the work of the second derivatives."""
    bodies, found = plan.tree.bodies, pairs(plan.tree)
    sums = each(plan, of.CHANGES) + levels(plan, of.MOVING_MASS_TO_PARENT + of.TO_ANCESTOR + of.SUM)
    depth = len(plan.tree.levels)
    towards_leaves = divided(plan, len(found) * (of.COMPOSE + of.FROM_ABOVE), depth)
    longest = bodies[found[0][1]].level + 1
    carried = sum(bodies[tip].level - bodies[middle].level for tip, middle in found) * of.COMPOSE
    triples = sum(bodies[middle].level + 1 for _, middle in found) * of.TRIPLE
    own = len(found) * (of.FROM_BELOW + of.FROM_BELOW_TO_PARENT + of.PAIR)
    steps = -(-len(found) // lanes_of(plan)) * 2 * longest
    return sums + towards_leaves + divided(plan, own + carried + triples, steps)


def _path(plan: ScanPlan, body: int) -> int:
    """Return the number of velocities that the elimination of a body's first one updates."""
    if plan.tree.has_mimic:
        return plan.tree.bodies[body].v_index
    return sum(plan.rows[above] for above in plan.tree.ancestors(body))
