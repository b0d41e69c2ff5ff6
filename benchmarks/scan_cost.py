"""What kernels of teams cost, without running anything: work and span.

    python benchmarks/scan_cost.py

Prints the table of docs/scan_forward_dynamics.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from gridgen.papers.schedules import paper_work
from gridgen.schedules.cfa.plan import cfa_work, plan_cfa
from gridgen.schedules.team.plan import ScanPlan, plan_scan
from helpers.cfa import CFA_KERNELS
from helpers.scan import SCANS, tree_of


def report(plans: Iterable[tuple[str, ScanPlan]], functions: Iterable[str]) -> str:
    """Return a table of work and span: one line for each robot and kernel.

    Args:
        plans:     robots by name.
        functions: names in ``SCANS`` or ``CFA_KERNELS``.
    """
    lines = [f"{'robot':<16}{'bodies':>7}{'levels':>7}  {'kernel':<36}{'work':>12}{'span':>7}"]
    functions = tuple(functions)
    for name, plan in plans:
        for function in functions:
            if function in CFA_KERNELS:
                work = cfa_work(plan_cfa(plan))
            else:
                work = paper_work(plan, SCANS[function])
            lines.append(
                f"{name:<16}{plan.bodies:>7}{len(plan.tree.levels):>7}  {function:<36}"
                f"{work.operations:>12}{work.steps:>7}"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table."""
    chains = {f"chain {size}": tree_of(f"chain {size}") for size in (8, 32, 128, 512, 1024)}
    robots = {
        "arm7": tree_of("arm7"),
        "humanoid": tree_of("humanoid"),
        "humanoid, free": tree_of("humanoid", floating_base=True),
    }
    plain = {n: k for n, k in (SCANS | CFA_KERNELS).items() if not k.key.inputs}
    print(report([(name, plan_scan(tree)) for name, tree in (chains | robots).items()], plain))


if __name__ == "__main__":
    main()
