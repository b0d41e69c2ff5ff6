"""The kernels of the scan schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gridgen.dynamics.functions import LOADED


@dataclass(frozen=True)
class ScanFunction:
    """One kernel of the scan schedule.

    Attributes:
        name:     its name in C++.
        computes: the function of ``gridgen.dynamics.functions`` with the same arrays.
        part:     the template of its device function.
        source:   where the algorithm is described.
        observed: what a watcher is told of each body, in this order: symbol and number of numbers.
        merged:   whether the two scans towards the root are one (S0 eq. 20).
        parks:    numbers that each lane of a warp puts away in shared memory, to save registers.
        parks_if_free: numbers in addition, for a robot with a free joint.
        memory:   arrays that a team keeps, see ``gridgen.schedules.scan_memory``.
    """

    name: str
    computes: str
    part: str
    source: str
    observed: tuple[tuple[str, int], ...]
    merged: bool = False
    parks: int = 0
    parks_if_free: int = 0
    memory: tuple[str, ...] = ()


_MOTION = (("V", 6), ("A", 6), ("F", 6))

_ARTICULATED = (*_MOTION, ("J", 21), ("p", 6), ("a", 6))

_WITH_LOADS = (
    ScanFunction(
        "inverse_dynamics_scan",
        "inverse_dynamics",
        "scan_inverse_dynamics",
        "Yang, Wu, Pan (prefix sums) Algorithm 1",
        _MOTION,
    ),
    ScanFunction(
        "inverse_dynamics_scan_synchronous",
        "inverse_dynamics",
        "scan_inverse_dynamics_synchronous",
        "Yang, Wu, Pan (prefix sums) eq. 12 and 13",
        _MOTION,
    ),
    ScanFunction(
        "bias_forces_scan",
        "bias_forces",
        "scan_inverse_dynamics",
        "Yang, Wu, Pan (prefix sums) Algorithm 1 and eq. 5",
        _MOTION,
    ),
    ScanFunction(
        "forward_dynamics_aba_scan",
        "forward_dynamics_aba",
        "scan_aba",
        "Yang, Wu, Pan (prefix sums) eq. 7, 19 and 20",
        _ARTICULATED,
        merged=True,
        parks=12,
        parks_if_free=21,
    ),
    ScanFunction(
        "forward_dynamics_aba_scan_unmerged",
        "forward_dynamics_aba",
        "scan_aba",
        "Yang, Wu, Pan (prefix sums) eq. 7, 16, 18 and 19",
        _ARTICULATED,
        parks=12,
        parks_if_free=21,
    ),
    ScanFunction(
        "forward_dynamics_jsiia_scan",
        "forward_dynamics_crba",
        "scan_jsiia",
        "Yang, Wu, Pan (prefix sums) Algorithm 2",
        _MOTION,
        parks=12,
    ),
)

_CHANGES = ("placements", "drifts", "by_position", "by_velocity", "positions", "velocities")
_FACTORS = ("rows", "inverse", "masses")

_GRADIENTS = (
    ScanFunction(
        "inverse_dynamics_gradient_scan",
        "inverse_dynamics_gradient",
        "scan_inverse_dynamics_gradient",
        "docs/gradients.md",
        _MOTION,
        memory=_CHANGES,
    ),
    ScanFunction(
        "forward_dynamics_gradient_scan",
        "forward_dynamics_gradient",
        "scan_forward_dynamics_gradient",
        "docs/gradients.md",
        _MOTION,
        memory=(*_CHANGES, *_FACTORS, "solution"),
    ),
    ScanFunction(
        "inverse_dynamics_second_order_scan",
        "inverse_dynamics_second_order",
        "scan_second_order",
        "docs/gradients.md",
        _MOTION,
        memory=("placements", "drifts", "moving", "wrenches", "spins", "above", "cubes"),
    ),
)

_OF_POSITIONS = (
    ScanFunction(
        "mass_matrix_scan",
        "mass_matrix",
        "scan_mass_matrix",
        "Yang, Wu, Pan (prefix sums) eq. 17",
        (),
    ),
    ScanFunction(
        "mass_matrix_inverse_scan",
        "mass_matrix_inverse",
        "scan_mass_matrix_inverse",
        "docs/gradients.md",
        (),
        memory=("placements", *_FACTORS),
    ),
)

#: The half of S0 Algorithm 3 that follows when the articulated inertias are known.
_HYBRID = ScanFunction(
    "forward_dynamics_aba_hybrid",
    "articulated_accelerations",
    "scan_hybrid",
    "Yang, Wu, Pan (prefix sums) Algorithm 3, eq. 18 and 19",
    (("J", 21), ("p", 6), ("a", 6)),
    parks=12,
    parks_if_free=21,
)


def _loaded(function: ScanFunction) -> ScanFunction:
    return replace(function, name=function.name + LOADED, computes=function.computes + LOADED)


#: Every kernel of the schedule by name.
SCAN_FUNCTIONS: dict[str, ScanFunction] = {
    **{f.name: f for function in _WITH_LOADS for f in (function, _loaded(function))},
    _HYBRID.name: _HYBRID,
    **{f.name: f for f in _OF_POSITIONS},
    **{f.name: f for function in _GRADIENTS for f in (function, _loaded(function))},
}
