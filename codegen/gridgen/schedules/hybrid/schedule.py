"""The hybrid schedule: articulated inertias on the CPU, bias forces and the rest on the GPU.

The inertias are a program of the thread schedule and the bias forces a kernel of the scan
schedule. This schedule adds the kernel that combines both.
"""

from __future__ import annotations

from gridgen.functions.steps import ACCELERATIONS
from gridgen.kernel import KernelKey
from gridgen.schedules.scan.kernels import ScanKernel
from gridgen.schedules.scan.schedule import ScanSchedule
from gridgen.schedules.team.schedule import Teams

#: The second half of Algorithm 3, which uses the articulated inertias.
HYBRID_ROW = ScanKernel(
    ACCELERATIONS,
    KernelKey("forward_dynamics", method="aba", step="articulated_accelerations"),
    "Yang, Wu, Pan (prefix sums) Algorithm 3, eq. 18 and 19",
    (("J", 21), ("p", 6), ("a", 6)),
    "articulated_accelerations",
    parks=18,
    parks_if_free=21,
    parks_effort=True,
)


class HybridSchedule(ScanSchedule):
    """The hybrid schedule of one robot."""

    name = "hybrid"

    def __init__(self, teams: Teams) -> None:
        super().__init__(teams, (HYBRID_ROW,))
