"""The kernels of the warp schedule."""

from __future__ import annotations

from gridgen.dynamics.base_frame import ALGORITHMS
from gridgen.kernel import KernelKey
from gridgen.schedules.team.schedule import TeamKernel, by_name

_SOURCES = {
    "inverse_dynamics": "Newton-Euler in the frame of the base, docs/warp.md",
    "bias_forces": "Newton-Euler in the frame of the base, docs/warp.md",
    "mass_matrix": "composite rigid bodies in the frame of the base, docs/warp.md",
    "inverse_dynamics_gradient": "Singh, Russell and Wensing 2022",
}

#: The kernels, without optional inputs.
WARP_ROWS = tuple(
    TeamKernel(KernelKey(name, schedule="warp"), KernelKey(name), _SOURCES[name], ())
    for name in ALGORITHMS
)
#: Every kernel of the schedule by name, without optional inputs and with all.
WARP_KERNELS = by_name(WARP_ROWS)
