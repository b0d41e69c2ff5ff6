"""The kernels of the warp schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gridgen.dynamics import base_articulated, base_factors, base_frame
from gridgen.kernel import KernelKey
from gridgen.schedules.team.schedule import TeamKernel, by_name

_PAGE = "docs/warp.md"


@dataclass(frozen=True)
class WarpKernel(TeamKernel):
    """One kernel of the warp schedule."""

    #: traces it; keyword ``is_shared``: whether its matrices fit in shared memory.
    algorithm: Callable[..., None]


def _warp(algorithm: Callable[..., None], source: str, method: str = "") -> WarpKernel:
    name = algorithm.__name__
    key = KernelKey(name, method, "warp")
    return WarpKernel(key, KernelKey(name, method), source, (), algorithm)


#: The kernels, without optional inputs.
WARP_ROWS = (
    _warp(base_frame.inverse_dynamics, f"Newton-Euler in the frame of the base, {_PAGE}"),
    _warp(base_frame.bias_forces, f"Newton-Euler in the frame of the base, {_PAGE}"),
    _warp(base_frame.mass_matrix, f"composite rigid bodies in the frame of the base, {_PAGE}"),
    _warp(base_frame.inverse_dynamics_gradient, "Singh, Russell and Wensing 2022"),
    _warp(
        base_articulated.forward_dynamics,
        f"articulated bodies in the frame of the base, {_PAGE}",
        "aba",
    ),
    _warp(
        base_factors.forward_dynamics,
        f"mass matrix and its factorization in the frame of the base, {_PAGE}",
        "crba",
    ),
    _warp(base_factors.mass_matrix_inverse, f"factorization of the mass matrix, {_PAGE}"),
    _warp(
        base_factors.forward_dynamics_gradient,
        "-M^-1 times the gradient of Singh, Russell and Wensing 2022",
    ),
)
#: Every kernel of the schedule by name, without optional inputs and with all.
WARP_KERNELS = by_name(WARP_ROWS)
