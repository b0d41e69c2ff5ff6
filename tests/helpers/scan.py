"""Kernels of teams for tests, on the emulated backend, and their reference results."""

from __future__ import annotations

import ctypes
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.backends.emulated.backend import EmulatedBackend
from gridgen.backends.interface import Launch, Sources
from gridgen.dynamics.computation import Computation, array_shape
from gridgen.dynamics.functions import computation_of
from gridgen.dynamics.reference import evaluate_reference
from gridgen.emit.render import render_team, shared_headers
from gridgen.errors import GridGenWarning
from gridgen.functions.types import Dtype
from gridgen.kernel import TeamLaunch
from gridgen.model.tree import KinematicTree, build_tree
from gridgen.options import RobotOptions
from gridgen.papers.halves import INERTIAS
from gridgen.papers.schedules import PAPER_ROWS, PaperSchedule
from gridgen.schedules.scan.kernels import SCAN_KERNELS
from gridgen.schedules.scan.schedule import ScanSchedule
from gridgen.schedules.team.schedule import TeamKernel, Teams, by_name, with_inputs
from gridgen.schedules.views import robot_view
from gridgen.schedules.warp.kernels import WARP_KERNELS
from gridgen.schedules.warp.schedule import WarpSchedule
from helpers.robots import SCREWS, described
from helpers.standalone import Sanitizer, StandaloneRun, run_standalone

ROBOTS = Path(__file__).parents[2] / "robots"
sys.path.insert(0, str(ROBOTS))

from chain import random_tree, serial_chain  # noqa: E402

Array = NDArray[Any]
#: Headers that do not depend on the robot.
HEADERS = shared_headers(
    {
        "": "\n".join(
            f'#include "gridgen_{name}.cuh"' for name in ("columns", "papers", "blocks", "warp")
        )
    }
)
OBSERVED = "_observed"
#: All kernels with the teams of the scan schedule, and those of the warp schedule.
SCANS = SCAN_KERNELS | by_name(PAPER_ROWS)
KERNELS = SCANS | WARP_KERNELS


def _with_all_inputs(kernels: Mapping[str, TeamKernel]) -> tuple[str, ...]:
    """Return one variant of every kernel: with all optional inputs, if it has any."""
    every = ((name, with_inputs(row, row.optional_inputs).name) for name, row in kernels.items())
    return tuple(name for name, most in every if name == most)


EACH_KERNEL = _with_all_inputs(SCANS)
EACH_WARP_KERNEL = _with_all_inputs(WARP_KERNELS)


@cache
def tree_of(name: str, **options: Any) -> KinematicTree:
    """Return a robot: ``arm7``, ``screws``, ``chain 33`` or ``tree 50`` (at most six children)."""
    if name == "screws":
        return tree_of_text(SCREWS, **options)
    kind, _, size = name.partition(" ")
    if size:
        if kind == "chain":
            return chain_of(int(size), **options)
        text = random_tree(int(size), 7, 6)
    else:
        text = (ROBOTS / f"{name}.urdf").read_text(encoding="utf-8")
    return tree_of_text(text, **options)


def chain_of(bodies: int, seed: int = 7, **options: Any) -> KinematicTree:
    return tree_of_text(serial_chain(bodies, seed), **options)


def tree_of_text(text: str | Path, **options: Any) -> KinematicTree:
    """Return the robot of a URDF; ignore warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridGenWarning)
        return build_tree(described(text), RobotOptions(**options))


@dataclass(frozen=True)
class ScanModule:
    """The kernels of teams of one robot."""

    tree: KinematicTree
    sources: Sources
    teams: Mapping[str, TeamLaunch]

    def launch(self, function: str, dtype: Dtype) -> Launch:
        team = self.teams[function]
        shared = team.shared_numbers * np.dtype(dtype).itemsize
        return Launch(team.threads_per_block, team.states_per_block, shared)


def render_scan(teams: Teams, functions: Sequence[str], *, observed: bool = True) -> ScanModule:
    """Return a module with only these kernels."""
    robot = robot_view(teams.tree, "robot", "0.0.0")
    files, launches = dict(HEADERS), {}
    includes = []
    for schedule in (ScanSchedule(teams), PaperSchedule(teams), WarpSchedule(teams)):
        keys = [KERNELS[name].key for name in functions]
        kernels = [schedule.kernel(key) for key in keys if schedule.has(key)]
        if not kernels and schedule.name == "warp":
            continue
        file = f"robot_{schedule.name}.cuh"
        files[file] = render_team(schedule, robot, kernels, observed=observed)
        includes.append(f'#include "{file}"\n')
        launches |= {kernel.name: kernel.team for kernel in kernels}
    return ScanModule(
        teams.tree, Sources("robot", files | {"robot.cu": "".join(includes)}), launches
    )


def module_of(
    tree: KinematicTree, function: str, threads: int | None = None, *, observed: bool = True
) -> ScanModule:
    return render_scan(Teams(tree, threads), [function], observed=observed)


def computed_by(function: str) -> Computation:
    """Return the computation of a kernel, of a robot without parameters."""
    return computation_of(tree_of("pendulum"), KERNELS[function].same)


def random_inputs(
    tree: KinematicTree, function: str, batch: int, dtype: Dtype = "float64", seed: int = 0
) -> dict[str, Array]:
    """Return random arguments; gravity is one vector for all states."""
    rng = np.random.default_rng(seed)
    inputs: dict[str, Array] = {}
    names = computed_by(function).inputs
    for name in names:
        inputs[name] = rng.uniform(-1.0, 1.0, (batch, *array_shape(name, tree)))
    for body in tree.bodies:
        if body.kind == "free":
            turn = inputs["q"][:, body.q_index + 3 : body.q_index + 7]
            turn /= np.linalg.norm(turn, axis=1, keepdims=True)
    gravity = np.array([0.3, -0.2, -9.81])
    if "gravity" in inputs:
        inputs["gravity"] = np.broadcast_to(gravity, (batch, 3))
    if "articulated" in names:  # random numbers are not valid inertias
        (inputs["articulated"],) = evaluate_reference(tree, INERTIAS, inputs)
    return {name: broadcast_as(array, dtype) for name, array in inputs.items()}


def broadcast_as(array: Array, dtype: Dtype) -> Array:
    if array.strides[0] == 0:
        return np.broadcast_to(array[0].astype(dtype), array.shape)
    return array.astype(dtype)


def arguments(
    module: ScanModule, function: str, inputs: Mapping[str, Array], dtype: Dtype, observed: bool
) -> list[Array]:
    """Return inputs and outputs, one row per state, and the workspace if there is one."""
    tree = module.tree
    batch = len(inputs["q"])
    spec = computed_by(function)
    arrays = []
    for name in spec.inputs:
        array = inputs[name]
        if array.strides[0] == 0:
            arrays.append(np.broadcast_to(array[0].reshape(-1), (batch, array[0].size)))
        else:
            arrays.append(array.reshape(batch, -1))
    for name in spec.outputs:
        size = int(np.prod(array_shape(name, tree)))
        arrays.append(np.full((batch, size), np.nan, dtype))
    if observed:
        size = sum(size for _, size in KERNELS[function].observed)
        arrays.append(np.full((batch, size * len(tree.bodies)), np.nan, dtype))
    numbers = module.teams[function].workspace_numbers
    if numbers is not None:
        states = module.teams[function].states_per_block
        arrays.append(np.full((-(-batch // states) * states, numbers), np.nan, dtype))
    return arrays


def outputs_of(function: str, arrays: Sequence[Array]) -> list[Array]:
    """Return the outputs among a kernel's arguments."""
    spec = computed_by(function)
    return list(arrays[len(spec.inputs) :][: len(spec.outputs)])


def run(
    module: ScanModule,
    function: str,
    inputs: Mapping[str, Array],
    dtype: Dtype = "float64",
    *,
    observed: bool = False,
) -> tuple[Array, dict[str, Array]]:
    """Run a kernel on the emulated backend; return its output and observed values by symbol."""
    outputs, seen = run_all(module, function, inputs, dtype, observed=observed)
    (output,) = outputs
    return output, seen


def run_all(
    module: ScanModule,
    function: str,
    inputs: Mapping[str, Array],
    dtype: Dtype = "float64",
    *,
    observed: bool = False,
) -> tuple[list[Array], dict[str, Array]]:
    """Run a kernel with several outputs; see ``run``."""
    arrays = arguments(module, function, inputs, dtype, observed)
    name = function + OBSERVED if observed else function
    kernel = EmulatedBackend().kernel(module.sources, name, dtype, module.launch(function, dtype))
    triples = [
        number
        for array in arrays
        for number in (array.ctypes.data, *(stride // array.itemsize for stride in array.strides))
    ]
    batch = len(inputs["q"])
    kernel((ctypes.c_int64 * len(triples))(*triples), batch)
    outputs = outputs_of(function, arrays)
    seen, start = {}, 0
    if observed:
        trace = arrays[len(inputs) + len(outputs)]
        for symbol, size in KERNELS[function].observed:
            end = start + size * len(module.tree.bodies)
            seen[symbol] = trace[:, start:end].reshape(batch, len(module.tree.bodies), size)
            start = end
    return outputs, seen


def run_alone(
    module: ScanModule,
    function: str,
    inputs: Mapping[str, Array],
    dtype: Dtype = "float64",
    sanitize: Sanitizer | None = None,
    leave_out: tuple[str, int] | None = None,
) -> StandaloneRun:
    """Run a kernel as a standalone program, optionally without one barrier (file, line)."""
    arrays = arguments(module, function, inputs, dtype, False)
    return run_standalone(
        module.sources,
        function,
        dtype,
        arrays,
        module.launch(function, dtype),
        batch=len(inputs["q"]),
        sanitize=sanitize,
        leave_out=leave_out,
    )


def barriers(sources: Sources, file: str, pattern: str, end: str = "") -> list[tuple[str, int]]:
    """Return file and line of every barrier that matches, before ``end``."""
    text = sources.files[file]
    stop = text.index(end) if end else len(text)
    positions = [match.start() for match in re.finditer(pattern, text[:stop])]
    return [(file, 1 + text.count("\n", 0, position)) for position in positions]


def assert_race(run: StandaloneRun) -> None:
    assert run.status == 66
    assert "WARNING: ThreadSanitizer: data race" in run.report


def reference(tree: KinematicTree, function: str, inputs: Mapping[str, Array]) -> Array:
    """Return the expected result of a kernel, (batch, size)."""
    (result,) = references(tree, function, inputs)
    return result


def references(tree: KinematicTree, function: str, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the expected results of a kernel with several outputs."""
    spec = KERNELS[function].same
    exact = {name: array.astype(np.float64) for name, array in inputs.items()}
    results = evaluate_reference(tree, spec, exact)
    return [result.reshape(len(result), -1) for result in results]


def relative_error(computed: Array, expected: Array) -> float:
    """Return the largest deviation, relative to the largest entry of the state."""
    axes = tuple(range(1, expected.ndim))
    scale = np.maximum(np.abs(expected).max(axis=axes), 1e-300)
    deviation = np.abs(computed.astype(np.float64) - expected).max(axis=axes)
    return float((deviation / scale).max())
