"""Programs of the warp schedule for one robot, and their launches."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from functools import lru_cache

from gridgen.dynamics.base_frame import parents_of
from gridgen.dynamics.functions import computation_of
from gridgen.dynamics.state import State
from gridgen.kernel import WARP, TeamLaunch
from gridgen.model.tree import KinematicTree
from gridgen.schedules.team.plan import AVAILABLE, WARP_BLOCK
from gridgen.schedules.warp.kernels import WarpKernel
from gridgen.symbolic.lanes import LaneProgram, LaneScalars

#: Lanes of the smallest team: a floating base has six velocities.
_LEAST = 8
#: Lanes of the largest team: a block of threads, which leaves 255 registers for each.
MOST_LANES = 256


@dataclass(frozen=True)
class WarpPlan:
    """A kernel's program and its launch."""

    width: int  #: lanes of a team.
    lanes: LaneProgram  #: the program of a lane.

    @property
    def launch(self) -> TeamLaunch:
        """How the kernel is launched."""
        states = 1
        if self.width <= WARP:
            of_warp = WARP // self.width
            warps = AVAILABLE // max(1, of_warp * self.lanes.shared)
            states = of_warp * max(1, min(WARP_BLOCK // WARP, warps))
        return TeamLaunch(self.width * states, states, self.lanes.shared * states)

    @property
    def fits(self) -> bool:
        """Whether the shared memory that every GPU grants a block is enough."""
        return self.launch.shared_numbers <= AVAILABLE


def width_of(tree: KinematicTree) -> int:
    """Return the lanes of a robot's teams: a power of two, or whole warps."""
    items = len(parents_of(tree))
    return max(_LEAST, 1 << (items - 1).bit_length()) if items <= WARP else -(-items // WARP) * WARP


@lru_cache(maxsize=64)
def plan_warp(tree: KinematicTree, row: WarpKernel) -> WarpPlan:
    """Trace a kernel of a robot."""
    width, algorithm = width_of(tree), row.algorithm
    parameters = inspect.signature(algorithm).parameters
    spec = computation_of(tree, row.same)
    plan: WarpPlan | None = None
    for is_shared in (True, False) if "is_shared" in parameters else (True,):
        scalars = LaneScalars(parents_of(tree), width, is_valid_always=width >= WARP)
        x = {name: scalars.inputs(name, math.prod(spec.shape(name, tree))) for name in spec.inputs}
        given = {"is_shared": is_shared, **x}
        named = tuple(name for name in tree.parameters if name in x)
        state = State.of(tree, scalars, x, named)
        algorithm(state, **{name: given[name] for name in parameters if name in given})
        plan = WarpPlan(width, scalars.finish([*spec.inputs, *spec.outputs]))
        if plan.fits:
            break
    assert plan is not None
    return plan
