"""The table of what kernels of teams cost."""

from __future__ import annotations

import sys
from pathlib import Path

from gridgen.schedules.team.plan import plan_scan
from helpers.scan import tree_of

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from scan_cost import report


def test_the_report_has_a_line_for_each_robot_and_kernel():
    names = ("pendulum", "arm7")
    plans = [(name, plan_scan(tree_of(name))) for name in names]
    kernels = ["inverse_dynamics_scan", "forward_dynamics_jsiia_scan"]
    lines = report(plans, kernels).splitlines()
    assert len(lines) == 1 + 2 * len(names)
    assert lines[0].split() == ["robot", "bodies", "levels", "kernel", "work", "span"]
    assert lines[3].split() == ["arm7", "7", "7", "inverse_dynamics_scan", "2678", "13"]
