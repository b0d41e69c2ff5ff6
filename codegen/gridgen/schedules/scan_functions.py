"""The kernels of the scan schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gridgen.kernel import KernelKey


@dataclass(frozen=True)
class TeamKernel:
    """One kernel that computes a state with a team of threads.

    Attributes:
        key:  which one it is.
        same: the function of ``gridgen.dynamics.functions`` with the same arrays.
    """

    key: KernelKey
    same: KernelKey

    @property
    def name(self) -> str:
        """Its name in C++."""
        return self.key.name

    @property
    def computes(self) -> str:
        """The name of the function with the same arrays."""
        return self.same.name


@dataclass(frozen=True)
class ScanFunction(TeamKernel):
    """One kernel of the scan schedule.

    Attributes:
        part:     the template of its device function, in the folder of its schedule.
        source:   where the algorithm is described.
        observed: what a watcher is told of each body, in this order: symbol and number of numbers.
        merged:   whether the two scans towards the root are one (prefix sums eq. 20).
        parks:    numbers that each lane of a warp puts away in shared memory, to save registers.
        parks_if_free: numbers in addition, for a robot with a free joint.
        memory:   arrays that a team keeps, see ``gridgen.schedules.scan_memory``.
    """

    part: str
    source: str
    observed: tuple[tuple[str, int], ...]
    merged: bool = False
    parks: int = 0
    parks_if_free: int = 0
    memory: tuple[str, ...] = ()


def _scan(function: str, method: str = "", variant: str = "") -> KernelKey:
    return KernelKey(function, method, "scan", variant)


_MOTION = (("V", 6), ("A", 6), ("F", 6))

_ARTICULATED = (*_MOTION, ("J", 21), ("p", 6), ("a", 6))

_WITH_LOADS = (
    ScanFunction(
        _scan("inverse_dynamics"),
        KernelKey("inverse_dynamics"),
        "inverse_dynamics",
        "Yang, Wu, Pan (prefix sums) Algorithm 1",
        _MOTION,
    ),
    ScanFunction(
        _scan("inverse_dynamics", variant="synchronous"),
        KernelKey("inverse_dynamics"),
        "inverse_dynamics_synchronous",
        "Yang, Wu, Pan (prefix sums) eq. 12 and 13",
        _MOTION,
    ),
    ScanFunction(
        _scan("bias_forces"),
        KernelKey("bias_forces"),
        "inverse_dynamics",
        "Yang, Wu, Pan (prefix sums) Algorithm 1 and eq. 5",
        _MOTION,
    ),
    ScanFunction(
        _scan("forward_dynamics", method="aba"),
        KernelKey("forward_dynamics", method="aba"),
        "aba",
        "Yang, Wu, Pan (prefix sums) eq. 7, 19 and 20",
        _ARTICULATED,
        merged=True,
        parks=12,
        parks_if_free=21,
    ),
    ScanFunction(
        _scan("forward_dynamics", method="aba", variant="unmerged"),
        KernelKey("forward_dynamics", method="aba"),
        "aba",
        "Yang, Wu, Pan (prefix sums) eq. 7, 16, 18 and 19",
        _ARTICULATED,
        parks=12,
        parks_if_free=21,
    ),
    ScanFunction(
        _scan("forward_dynamics", method="jsiia"),
        KernelKey("forward_dynamics", method="crba"),
        "jsiia",
        "Yang, Wu, Pan (prefix sums) Algorithm 2",
        _MOTION,
        parks=12,
    ),
)

_CHANGES = ("placements", "drifts", "by_position", "by_velocity", "positions", "velocities")
_FACTORS = ("rows", "inverse", "masses")

_GRADIENTS = (
    ScanFunction(
        _scan("inverse_dynamics_gradient"),
        KernelKey("inverse_dynamics_gradient"),
        "inverse_dynamics_gradient",
        "docs/gradients.md",
        _MOTION,
        memory=_CHANGES,
    ),
    ScanFunction(
        _scan("forward_dynamics_gradient"),
        KernelKey("forward_dynamics_gradient"),
        "forward_dynamics_gradient",
        "docs/gradients.md",
        _MOTION,
        memory=(*_CHANGES, *_FACTORS, "solution"),
    ),
    ScanFunction(
        _scan("inverse_dynamics_second_order"),
        KernelKey("inverse_dynamics_second_order"),
        "second_order",
        "docs/gradients.md",
        _MOTION,
        memory=("placements", "drifts", "moving", "wrenches", "spins", "above", "cubes"),
    ),
)

_OF_POSITIONS = (
    ScanFunction(
        _scan("mass_matrix"),
        KernelKey("mass_matrix"),
        "mass_matrix",
        "Yang, Wu, Pan (prefix sums) eq. 17",
        (),
    ),
    ScanFunction(
        _scan("mass_matrix_inverse"),
        KernelKey("mass_matrix_inverse"),
        "mass_matrix_inverse",
        "docs/gradients.md",
        (),
        memory=("placements", *_FACTORS),
    ),
)

#: The half of prefix sums Algorithm 3 that follows when the articulated inertias are known.
_HYBRID = ScanFunction(
    KernelKey("forward_dynamics", method="aba", schedule="hybrid"),
    KernelKey("forward_dynamics", method="aba", step="articulated_accelerations"),
    "articulated_accelerations",
    "Yang, Wu, Pan (prefix sums) Algorithm 3, eq. 18 and 19",
    (("J", 21), ("p", 6), ("a", 6)),
    parks=12,
    parks_if_free=21,
)


def _loaded(function: ScanFunction) -> ScanFunction:
    key, same = (replace(key, loaded=True) for key in (function.key, function.same))
    return replace(function, key=key, same=same)


#: Every kernel of the schedule by name.
SCAN_FUNCTIONS: dict[str, ScanFunction] = {
    **{f.name: f for function in _WITH_LOADS for f in (function, _loaded(function))},
    _HYBRID.name: _HYBRID,
    **{f.name: f for f in _OF_POSITIONS},
    **{f.name: f for function in _GRADIENTS for f in (function, _loaded(function))},
}
