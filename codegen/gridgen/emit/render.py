"""The files of a module, as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gridgen.dynamics.arrays import array_shape
from gridgen.emit.views.module import fused_view, method_views, signature_views
from gridgen.functions.arrays import ARRAYS
from gridgen.kernel import Kernel
from gridgen.model.tree import KinematicTree
from gridgen.rendering import render
from gridgen.schedules import Schedules
from gridgen.schedules.interface import is_rollout, is_search
from gridgen.schedules.rollout.view import rollout_view
from gridgen.schedules.search.view import search_view
from gridgen.schedules.team.bodies import BODIES_FILE, bodies_text
from gridgen.schedules.team.schedule import TeamSchedule
from gridgen.schedules.thread.plan import Programs
from gridgen.schedules.thread.view import constant_views, cpu_view, gpu_view
from gridgen.schedules.views import RobotView, robot_view
from gridgen.template_root import static_text

#: Headers that the rendered files include: the same in every module.
STATIC_FILES = (
    "gridgen_math.cuh",
    "gridgen_angles.cuh",
    "gridgen.h",
    "gridgen_simd.h",
    "gridgen_share.h",
    "gridgen_call.h",
    "gridgen_states.cuh",
    "gridgen_pairs.cuh",
    "gridgen_shared.cuh",
)
#: Additional header of modules with searches of nearest pairs.
QUERY_FILE = "gridgen_distance.cuh"
#: Additional headers of modules with rollouts.
ROLLOUT_FILES = ("gridgen_rollout.cuh", "gridgen_rollout_simd.h")
#: Additional headers of modules with searches.
SEARCH_FILES = ("gridgen_search.cuh", "gridgen_search_simd.h")
#: Additional header of modules with kernels of the warp schedule.
WARP_FILE = "gridgen_warp.cuh"
_SCAN_STATIC_FILES = (
    "gridgen_scan.cuh",
    "gridgen_articulated.cuh",
    "gridgen_columns.cuh",
    "gridgen_branches.cuh",
    "gridgen_blocks.cuh",
    "gridgen_pipeline.cuh",
)


def render_sources(
    schedules: Schedules,
    ident: str,
    version: str,
    kernels: Sequence[Kernel],
    programs: Mapping[str, Programs],
) -> dict[str, str]:
    """Return the C++ and CUDA files of a module.

    Returns:
        text by file name.
    """
    tree = schedules.tree
    robot = robot_view(tree, ident, version)
    own = with_called(schedules, kernels)
    rollouts = [kernel for kernel in kernels if is_rollout(kernel.key)]
    searches = [kernel for kernel in kernels if is_search(kernel.key)]
    with_team = [kernel for kernel in kernels if kernel.team is not None]
    headers = _team_files(schedules, robot, with_team)
    has_queries = any(programs[kernel.name].gpu.has_queries for kernel in own)
    on_gpu = [gpu_view(tree, kernel, programs[kernel.name]) for kernel in own]
    on_cpu = [
        cpu_view(tree, kernel, programs[kernel.name], found)
        for kernel, found in zip(own, on_gpu, strict=True)
    ]
    view = {
        "robot": robot,
        "headers": list(headers),
        "tables": constant_views(programs[kernel.name].gpu for kernel in own),
        "has_queries": has_queries,
        "functions": on_gpu,
        "rollouts": [rollout_view(tree, kernel, programs) for kernel in rollouts],
        "searches": [search_view(tree, kernel) for kernel in searches],
    }
    view_of_cpu = view | {
        "functions": on_cpu,
        "rollouts": [rollout_view(tree, kernel, programs, ident) for kernel in rollouts],
    }
    files = {
        f"{ident}.cuh": render("thread/robot.cuh.jinja", view),
        f"{ident}.cu": render("thread/robot.cu.jinja", view),
        f"{ident}_simd.h": render("thread/robot_simd.h.jinja", view_of_cpu),
    }
    static = STATIC_FILES + ROLLOUT_FILES * bool(rollouts) + SEARCH_FILES * bool(searches)
    static += (QUERY_FILE,) * has_queries
    files |= headers | {name: static_text(name) for name in static}
    by_warp = [kernel.key.schedule == "warp" for kernel in with_team]
    if any(by_warp):
        files[WARP_FILE] = static_text(WARP_FILE)
    return files | ({} if all(by_warp) else team_headers())


def with_called(schedules: Schedules, kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the kernels with programs: those of the arguments, and those that they call."""
    own = [kernel for kernel in kernels if kernel.team is None and not kernel.calls]
    called = (schedules.kernel(key) for kernel in kernels for key in kernel.calls)
    return list({kernel.name: kernel for kernel in (*own, *called)}.values())


def _team_files(
    schedules: Schedules, robot: RobotView, kernels: Sequence[Kernel]
) -> dict[str, str]:
    """Return the files of the schedules with one team of threads per state.

    All but that of the warp schedule include the tables and the joints in the file of the scan
    schedule.
    """
    files = {}
    by_schedule = {
        schedule: [kernel for kernel in kernels if schedule.has(kernel.key)]
        for schedule in schedules.teams
    }
    has_scans = any(mine for schedule, mine in by_schedule.items() if schedule.name != "warp")
    for schedule, mine in by_schedule.items():
        if mine or (has_scans and schedule.name == "scan"):
            file = f"{robot.ident}_{schedule.name}.cuh"
            files[file] = render_team(schedule, robot, mine)
    return files


def team_headers() -> dict[str, str]:
    """Return the headers of files that include that of the scan schedule, for every robot."""
    return {BODIES_FILE: bodies_text()} | {name: static_text(name) for name in _SCAN_STATIC_FILES}


def render_team(
    schedule: TeamSchedule[Any], robot: RobotView, kernels: Sequence[Kernel], **options: bool
) -> str:
    """Render the file with a schedule's kernels."""
    view = schedule.view(robot, kernels, **options)
    return render(f"{schedule.name}/robot_{schedule.name}.cuh.jinja", view)


def render_module(
    tree: KinematicTree,
    ident: str,
    version: str,
    kernels: Sequence[Kernel],
    fused: Sequence[tuple[Kernel, Sequence[str]]],
) -> str:
    """Return the Python file of a module."""
    functions, methods = signature_views(tree, kernels), method_views(kernels)
    called = [kernel.name for kernel, _ in fused]
    there = [signature.name for signature in functions] + [method.name for method in methods]
    view = {
        "robot": robot_view(tree, ident, version),
        "names": sorted(["robot", *called, *there]),
        "functions": functions,
        "methods": methods,
        "fused": [fused_view(kernel, names) for kernel, names in fused],
    }
    return render("module/__init__.py.jinja", view)


def array_data(tree: KinematicTree, kernels: Sequence[Kernel]) -> dict[str, Any]:
    """Describe the arrays of kernels."""
    used = {kernel.kind(name) for kernel in kernels for name in (*kernel.inputs, *kernel.outputs)}
    return {
        name: {
            "shape": array_shape(name, tree),
            "symbolic": kind.shape,
            "unit": kind.unit,
            "text": kind.text,
        }
        for name, kind in ARRAYS.items()
        if name in used
    }


def model_text(model: Mapping[str, Any]) -> str:
    """Return the description as JSON, one line for each short field."""
    lines = [f"  {json.dumps(key)}: {_value_text(value)}" for key, value in model.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _value_text(value: Any) -> str:
    """Return a value on one line, with one line for each record."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n    " + ",\n    ".join(map(json.dumps, value)) + "\n  ]"
    if isinstance(value, dict) and any(isinstance(entry, dict) for entry in value.values()):
        lines = (f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in value.items())
        return "{\n    " + ",\n    ".join(lines) + "\n  }"
    return json.dumps(value)
