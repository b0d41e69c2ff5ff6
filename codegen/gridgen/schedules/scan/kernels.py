"""The kernels of the scan schedule."""

from __future__ import annotations

from dataclasses import dataclass

from gridgen.kernel import KernelKey
from gridgen.schedules.team.schedule import TeamKernel, by_name


@dataclass(frozen=True)
class ScanKernel(TeamKernel):
    """One kernel of the scan schedule."""

    part: str  #: the template of its device function, in the folder of its schedule.
    merged: bool = False  #: whether the two scans toward the root are one (prefix sums eq. 20).
    parks: int = 0  #: numbers that each lane of a warp saves in shared memory, to free registers.
    parks_if_free: int = 0  #: additional numbers, for a robot with a free joint.
    parks_effort: bool = False  #: whether the joint torque is among these numbers.
    #: arrays in a team's memory, see ``gridgen.schedules.team.plan``.
    memory: tuple[str, ...] = ()
    #: whether it broadcasts rows of the mass matrix to the whole team.
    broadcasts_rows: bool = False


def _scan(function: str, method: str = "") -> KernelKey:
    return KernelKey(function, method, "scan")


_MOTION = (("V", 6), ("A", 6), ("F", 6))

_ARTICULATED = (*_MOTION, ("J", 21), ("p", 6), ("a", 6))

_OF_MOTION = (
    ScanKernel(
        _scan("inverse_dynamics"),
        KernelKey("inverse_dynamics"),
        "Yang, Wu, Pan (prefix sums) Algorithm 1",
        _MOTION,
        "inverse_dynamics",
    ),
    ScanKernel(
        _scan("bias_forces"),
        KernelKey("bias_forces"),
        "Yang, Wu, Pan (prefix sums) Algorithm 1 and eq. 5",
        _MOTION,
        "inverse_dynamics",
    ),
    ScanKernel(
        _scan("forward_dynamics", method="aba"),
        KernelKey("forward_dynamics", method="aba"),
        "Yang, Wu, Pan (prefix sums) eq. 7, 19 and 20",
        _ARTICULATED,
        "aba",
        merged=True,
        parks=12,
        parks_if_free=21,
    ),
    ScanKernel(
        _scan("forward_dynamics", method="jsiia"),
        KernelKey("forward_dynamics", method="crba"),
        "Yang, Wu, Pan (prefix sums) Algorithm 2",
        _MOTION,
        "jsiia",
        parks=12,
        broadcasts_rows=True,
    ),
)

#: Effects of joints on each other are in the memory of a team.
_SECOND_ORDER = ScanKernel(
    _scan("inverse_dynamics_second_order"),
    KernelKey("inverse_dynamics_second_order"),
    "docs/gradients.md",
    _MOTION,
    "second_order",
    memory=("placements", "drifts", "moving", "wrenches", "spins", "above", "cubes"),
)

#: The kernels, without optional inputs.
SCAN_ROWS = (*_OF_MOTION, _SECOND_ORDER)
#: Every kernel of the schedule by name, without optional inputs and with all.
SCAN_KERNELS = by_name(SCAN_ROWS)
