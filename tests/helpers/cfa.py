"""Kernels of the constraint-force algorithm for tests, on the emulated backend."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.backends.emulated.backend import EmulatedBackend
from gridgen.backends.interface import Launch, Sources
from gridgen.dynamics.reference import evaluate_reference
from gridgen.emit.render import render_team
from gridgen.functions.types import Dtype
from gridgen.model.tree import KinematicTree
from gridgen.schedules.cfa.plan import AVAILABLE, CfaPlan
from gridgen.schedules.cfa.schedule import CFA_ROWS, CfaSchedule
from gridgen.schedules.scan.schedule import ScanSchedule
from gridgen.schedules.team.schedule import Teams, by_name
from gridgen.schedules.views import robot_view
from helpers.scan import HEADERS
from helpers.standalone import Sanitizer, StandaloneRun, run_standalone

Array = NDArray[Any]
(OBSERVED,) = (row.observed for row in CFA_ROWS)
#: All kernels by name, without and with all optional inputs.
CFA_KERNELS = by_name(CFA_ROWS)
KERNEL = "forward_dynamics_cfa_scan"
LOADED = "forward_dynamics_cfa_scan_f_ext_base_motion"


@dataclass(frozen=True)
class CfaModule:
    """The kernels of one robot.

    Attributes:
        plan:      plan of the algorithm.
        sources:   source text.
        available: numbers that fit into the shared memory of a block.
        blocks:    blocks of a grid; 0 for one team per state.
    """

    plan: CfaPlan
    sources: Sources
    available: int = AVAILABLE
    blocks: int = 0

    def launch(self, dtype: Dtype, batch: int) -> Launch:
        shared = self.plan.shared_numbers(self.available) * np.dtype(dtype).itemsize
        states = self.plan.states_per_block
        if self.blocks:
            states = -(-batch // self.blocks)
        return Launch(self.plan.threads, states, shared)

    def arrays(self, function: str, inputs: Mapping[str, Array], dtype: Dtype) -> list[Array]:
        """Return inputs, output, trace (of observed kernels) and workspace."""
        batch, tree = len(inputs["q"]), self.plan.tree
        arrays = [
            np.broadcast_to(array[0], array.shape)
            if array.strides[0] == 0
            else array.reshape(batch, -1)
            for array in inputs.values()
        ]
        arrays.append(np.full((batch, tree.nv), np.nan, dtype))
        if function.endswith("_observed"):
            numbers = sum(size for _, size in OBSERVED) * len(tree.bodies)
            arrays.append(np.full((batch, numbers), np.nan, dtype))
        blocks = self.launch(dtype, batch).blocks(batch)
        rows, numbers = self.plan.workspace(blocks, self.available)
        # No rows: a batch stride of 0 means that the system is in shared memory.
        scratch = np.full((max(rows, 1), numbers), np.nan, dtype)
        arrays.append(scratch if rows else np.broadcast_to(scratch[0], (batch, numbers)))
        return arrays


def module_of(
    tree: KinematicTree,
    *,
    threads: int | None = None,
    available: int = AVAILABLE,
    blocks: int = 0,
    observed: bool = False,
) -> CfaModule:
    teams = Teams(tree, threads)
    schedule = CfaSchedule(teams)
    kernels = [schedule.kernel(kernel.key) for kernel in CFA_KERNELS.values()]
    robot = robot_view(tree, "robot", "0.0.0")
    files = {
        "robot.cu": '#include "robot_cfa.cuh"\n',
        "robot_scan.cuh": render_team(ScanSchedule(teams), robot, []),
        "robot_cfa.cuh": render_team(schedule, robot, kernels, observed=observed),
        **HEADERS,
    }
    return CfaModule(schedule.plan, Sources("robot", files), available, blocks)


def run(
    module: CfaModule, function: str, inputs: Mapping[str, Array], dtype: Dtype = "float64"
) -> tuple[Array, dict[str, Array]]:
    """Run a kernel on the emulated backend; return its output and observed values by symbol."""
    arrays = module.arrays(function, inputs, dtype)
    batch, bodies = len(inputs["q"]), len(module.plan.tree.bodies)
    launch = module.launch(dtype, batch)
    kernel = EmulatedBackend().kernel(module.sources, function, dtype, launch)
    triples = [
        number
        for array in arrays
        for number in (array.ctypes.data, *(stride // array.itemsize for stride in array.strides))
    ]
    kernel((ctypes.c_int64 * len(triples))(*triples), batch)
    output = arrays[len(inputs)]
    if not function.endswith("_observed"):
        return output, {}
    seen, start = {}, 0
    for symbol, size in OBSERVED:
        end = start + size * bodies
        seen[symbol] = arrays[-2][:, start:end].reshape(batch, bodies, size)
        start = end
    return output, seen


def run_alone(
    module: CfaModule,
    function: str,
    inputs: Mapping[str, Array],
    sanitize: Sanitizer,
    leave_out: tuple[str, int] | None = None,
) -> StandaloneRun:
    """Run a kernel as a program of its own; the output is the last array but one."""
    batch = len(inputs["q"])
    return run_standalone(
        module.sources,
        function,
        "float64",
        module.arrays(function, inputs, "float64"),
        module.launch("float64", batch),
        batch=batch,
        sanitize=sanitize,
        leave_out=leave_out,
    )


def reference(tree: KinematicTree, function: str, inputs: Mapping[str, Array]) -> Array:
    """Return what a kernel must find."""
    exact = {name: array.astype(np.float64) for name, array in inputs.items()}
    (result,) = evaluate_reference(tree, CFA_KERNELS[function].same.name, exact)
    return result
