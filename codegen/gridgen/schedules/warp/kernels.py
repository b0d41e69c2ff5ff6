"""The kernels of the warp schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from gridgen.dynamics import base_factors, base_frame, base_steps
from gridgen.functions import FUNCTIONS
from gridgen.kernel import KernelKey
from gridgen.schedules.team.schedule import TeamKernel, by_name

_PAGE = "docs/warp.md"


@dataclass(frozen=True)
class WarpKernel(TeamKernel):
    """One kernel of the warp schedule."""

    #: traces it; keyword ``is_shared``: whether its matrices fit in shared memory.
    algorithm: Callable[..., None]


def _row(name: str, algorithm: Callable[..., None], source: str, method: str = "") -> WarpKernel:
    return WarpKernel(
        KernelKey(name, method, "warp"), KernelKey(name, method), source, (), algorithm
    )


def _of(algorithm: Callable[..., None], source: str, method: str = "") -> WarpKernel:
    return _row(algorithm.__name__, algorithm, source, method)


def _steps() -> Iterator[WarpKernel]:
    for name, options in base_steps.INTEGRATORS.items():
        for algorithm in (base_steps.step, base_steps.step_gradient):
            source = FUNCTIONS[algorithm.__name__].methods[name].source
            yield _row(algorithm.__name__, partial(algorithm, **options), source, name)


#: The kernels, without optional inputs.
WARP_ROWS = (
    _of(base_frame.inverse_dynamics, f"Newton-Euler in the frame of the base, {_PAGE}"),
    _of(base_frame.bias_forces, f"Newton-Euler in the frame of the base, {_PAGE}"),
    _of(base_frame.mass_matrix, f"composite rigid bodies in the frame of the base, {_PAGE}"),
    _of(base_frame.inverse_dynamics_gradient, "Singh, Russell and Wensing 2022"),
    _of(
        base_frame.forward_dynamics,
        f"articulated bodies in the frame of the base, {_PAGE}",
        "aba",
    ),
    _of(
        base_factors.forward_dynamics,
        f"mass matrix and its factorization in the frame of the base, {_PAGE}",
        "crba",
    ),
    _of(base_factors.mass_matrix_inverse, f"factorization of the mass matrix, {_PAGE}"),
    _of(
        base_factors.forward_dynamics_gradient,
        "-M^-1 times the gradient of Singh, Russell and Wensing 2022",
    ),
    *_steps(),
)
#: Every kernel of the schedule by name, without optional inputs and with all.
WARP_KERNELS = by_name(WARP_ROWS)
