"""The scan schedule: one team of lanes per state, one body per lane, log-many rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gridgen.dynamics.refusals import of_free_joints
from gridgen.kernel import Kernel, KernelKey, TeamLaunch, Work
from gridgen.schedules.scan.kernels import SCAN_ROWS, ScanKernel
from gridgen.schedules.scan.view import ScanFunctionView, scan_function_view, scan_view
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
from gridgen.schedules.team.schedule import Teams, TeamSchedule


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


#: Most entries of the largest array of one state: kernels use 32-bit indices.
MAX_ENTRIES = 2**31 - 1


class ScanSchedule(TeamSchedule[ScanKernel]):
    """The scan schedule of one robot."""

    name = "scan"

    def __init__(self, teams: Teams, rows: Iterable[ScanKernel] = SCAN_ROWS) -> None:
        super().__init__(teams, rows)

    def _tables(self, rows: Sequence[ScanKernel]) -> dict[str, Any]:
        return {"scan": scan_view(self.teams.plan, rows)}

    def _function(self, kernel: Kernel, row: ScanKernel, observed: bool) -> ScanFunctionView:
        return scan_function_view(self.teams.plan, kernel, row)

    def work(self, key: KernelKey) -> Work:
        """Return the work of a kernel per state; see ``Schedule``."""
        from gridgen.schedules.scan.schedule import scan_work  # traces the operators of a body

        return scan_work(self.teams.plan, self.row(key))

    def _refusal(self, row: ScanKernel) -> str | None:
        return super()._refusal(row) or scan_refusal(self.teams.plan, row)

    def _launch(self, row: ScanKernel) -> TeamLaunch:
        plan = self.teams.plan
        return TeamLaunch(
            threads_per_block=plan.threads_of(row),
            states_per_block=plan.states_of(row),
            shared_numbers=plan.shared_numbers(row),
            workspace_numbers=plan.workspace_numbers(row),
        )


def scan_refusal(plan: ScanPlan, kernel: ScanKernel) -> str | None:
    """Return why the teams of a robot do not support a kernel, with the remedy, or ``None``."""
    tree = plan.tree
    if kernel.broadcasts_rows and not plan.on_warp:
        # A row of the mass matrix, and its torque, are broadcast to the block at once.
        if plan.columns_in_all + 1 > plan.piece * plan.bodies:
            return (
                f"a row of the mass matrix has {plan.columns_in_all} numbers, and a block of the "
                f'GPU can share {plan.piece * plan.bodies - 1}: use method="aba"'
            )
    if kernel.memory:
        if reason := of_free_joints(tree):
            return reason
        entries = 4 * len(tree.bodies) ** 3 if tree.has_mimic else tree.nv**3
        if entries > MAX_ENTRIES:
            return (
                f"{tree.nv} velocities have {tree.nv**3} second derivatives, more than a kernel "
                "can index: use finite differences of inverse_dynamics_gradient"
            )
    return None
