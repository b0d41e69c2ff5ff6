"""Programs of the warp schedule for one robot, and their launches."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from gridgen.dynamics.base_bodies import parents_of
from gridgen.dynamics.functions import computation_of
from gridgen.dynamics.state import State
from gridgen.kernel import WARP, TeamLaunch
from gridgen.model.tree import KinematicTree
from gridgen.schedules.team.plan import AVAILABLE, WARP_BLOCK
from gridgen.schedules.warp.kernels import WarpKernel
from gridgen.symbolic.lanes import LaneLayout, LaneProgram, LaneScalars

#: Lanes of the smallest team: a floating base has six velocities.
_MIN_LANES = 8
#: Lanes of the largest team: a block of threads, which leaves 255 registers for each.
MAX_LANES = 256


@dataclass(frozen=True)
class WarpPlan:
    """A kernel of a robot: its memory and operations, and its program on request."""

    tree: KinematicTree  #: the robot.
    row: WarpKernel  #: the kernel.
    layout: LaneLayout  #: counts.
    shared: int  #: numbers of shared memory of a team.
    is_shared: bool  #: whether matrices are in shared memory.

    @property
    def width(self) -> int:
        """Lanes of a team."""
        return self.layout.width

    @property
    def launch(self) -> TeamLaunch:
        """How the kernel is launched."""
        states = 1
        if self.width <= WARP:
            of_warp = WARP // self.width
            warps = AVAILABLE // max(1, of_warp * self.shared)
            states = of_warp * max(1, min(WARP_BLOCK // WARP, warps))
        return TeamLaunch(self.width * states, states, self.shared * states)

    @property
    def fits(self) -> bool:
        """Whether the shared memory that every GPU grants a block is enough."""
        return self.launch.shared_numbers <= AVAILABLE

    @cached_property
    def program(self) -> LaneProgram:
        """The program of a lane."""
        scalars = LaneScalars(self.layout.parents, self.width)
        program = scalars.finish(_run(self.tree, self.row, scalars, self.is_shared))
        assert program.shared == self.shared
        return program


def width_of(tree: KinematicTree) -> int:
    """Return the lanes of a robot's teams: a power of two, or whole warps."""
    items = len(parents_of(tree))
    return (
        max(_MIN_LANES, 1 << (items - 1).bit_length())
        if items <= WARP
        else -(-items // WARP) * WARP
    )


@lru_cache(maxsize=64)
def plan_warp(tree: KinematicTree, row: WarpKernel) -> WarpPlan:
    """Plan a kernel of a robot: its matrices are in shared memory if they fit there."""
    # Outputs have no rows for mimic joints.
    has_choice = "is_shared" in inspect.signature(row.algorithm).parameters and not tree.has_mimic
    plans = []
    for is_shared in (True, False) if has_choice else (True,):
        layout = LaneLayout(parents_of(tree), width_of(tree))
        _run(tree, row, layout, is_shared)
        plans.append(WarpPlan(tree, row, layout, layout.allocate(), is_shared))
        if plans[-1].fits:
            break
    return plans[-1]


def _run(
    tree: KinematicTree, row: WarpKernel, scalars: LaneScalars | LaneLayout, is_shared: bool
) -> list[str]:
    """Run the algorithm; return the names of its arrays."""
    spec = computation_of(tree, row.same)
    sizes = {name: math.prod(spec.shape(name, tree)) for name in spec.inputs}
    x: dict[str, Any] = {}
    for name, size in sizes.items():
        if isinstance(scalars, LaneScalars):
            x[name] = scalars.inputs(name, size)
        else:
            x[name] = scalars.inputs(size)
    state = State.of(tree, scalars, x, [name for name in tree.parameters if name in x])
    parameters = inspect.signature(row.algorithm).parameters
    given = {"is_shared": is_shared, **x}
    row.algorithm(state, **{name: given[name] for name in parameters if name in given})
    return [*spec.inputs, *spec.outputs]
