"""The work of the constraint-force algorithm."""

from __future__ import annotations

from collections.abc import Iterable

from gridgen.kernel import Work
from gridgen.schedules.cfa.plan import CfaPlan, Update
from gridgen.schedules.scan.kernels import SCAN_KERNELS
from gridgen.schedules.scan.work import scan_work
from gridgen.schedules.team import operations as of
from gridgen.schedules.team.operations import divided, each


def cfa_work(plan: CfaPlan) -> Work:
    """Return the work of the constraint-force algorithm, once refined (docs/cfa.md)."""
    size, rounds = plan.size, plan.elimination.rounds
    scan, couplings = plan.scan, plan.elimination.couplings
    column = 2 * of.ACCELERATE + of.TO_ANCESTOR + of.TO_BODY
    formed = size * column * (len(plan.elimination.order) + len(couplings))
    factored = len(plan.elimination.order) * size**3 // 6 + len(couplings) * size**3 // 2
    changed = sum(
        _products(round_.diagonal) * size * size * (size + 1) // 2
        + _products(round_.coupled) * size**3
        for round_ in rounds
    )
    applied = size * size * (len(plan.elimination.order) + 2 * len(couplings))
    accelerated = each(scan, of.TO_ANCESTOR + of.ACCELERATE + of.TO_BODY) + Work(0, 0, 1)
    solved = divided(scan, applied, 2 * len(rounds)) + accelerated
    return (
        scan_work(scan, SCAN_KERNELS["bias_forces_scan"])
        + divided(scan, formed, 1)
        + divided(scan, factored + changed, 2 * len(rounds))
        + solved
        + solved
        + accelerated
    )


def _products(updates: Iterable[Update]) -> int:
    return sum(len(update.products) for update in updates)
