"""The files of a module and of its library, as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gridgen.backends import Rows, Sources
from gridgen.dynamics.computation import array_shape
from gridgen.emit.views.casadi import casadi_view
from gridgen.emit.views.library import (
    STATUSES,
    TYPES,
    LibraryFunctionView,
    default_views,
    facts_view,
    library_view,
)
from gridgen.emit.views.module import fused_view, method_views, signature_views
from gridgen.functions.arrays import ARRAYS
from gridgen.kernel import Kernel
from gridgen.model.tree import KinematicTree
from gridgen.rendering import render
from gridgen.schedules import Schedules
from gridgen.schedules.interface import is_rollout, is_search
from gridgen.schedules.rollout.view import plan_paths, rollout_view
from gridgen.schedules.search.view import search_view
from gridgen.schedules.team.bodies import BODIES_FILE, bodies_text
from gridgen.schedules.team.schedule import TeamSchedule
from gridgen.schedules.thread.constants import with_named_constants
from gridgen.schedules.thread.plan import Programs, has_pairs, jacobian_key, plan_rows
from gridgen.schedules.thread.view import (
    ThreadFunctionView,
    constant_views,
    cpu_view,
    gpu_view,
    with_shared_parts,
)
from gridgen.schedules.views import RobotView, robot_view
from gridgen.symbolic.iterations import worst_case
from gridgen.template_root import SHARED_FOLDER, static_text

# Headers that are the same in every module.
_SHARED = re.compile(r'^ *#include "(gridgen\w*\.\w+)"', re.MULTILINE)


def render_sources(
    schedules: Schedules,
    ident: str,
    version: str,
    kernels: Sequence[Kernel],
    programs: Mapping[str, Programs],
) -> tuple[dict[str, str], dict[str, ThreadFunctionView]]:
    """Return the C++ and CUDA files of a module, and the views of its functions on a CPU.

    Returns:
        text by file name, views by kernel.
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
    for_cpu = [
        cpu_view(tree, kernel, programs[kernel.name])
        for kernel in own
        if not programs[kernel.name].are_one
    ]
    constants, named = with_named_constants(tree, [*on_gpu, *for_cpu])
    on_gpu = with_shared_parts(named[: len(own)])
    on_cpu = {view.name: view for view in (*on_gpu, *named[len(own) :])}
    view = {
        "robot": robot,
        "constants": constants,
        "headers": list(headers),
        "tables": constant_views(programs[kernel.name].gpu for kernel in own),
        "has_queries": has_queries,
        "functions": on_gpu,
        "rollouts": [rollout_view(tree, kernel, programs) for kernel in rollouts],
        "searches": [search_view(tree, kernel) for kernel in searches],
    }
    view_of_cpu = view | {
        "functions": list(on_cpu.values()),
        "rollouts": [rollout_view(tree, kernel, programs, ident) for kernel in rollouts],
    }
    files = {
        f"{ident}.cuh": render("thread/robot.cuh.jinja", view),
        f"{ident}.cu": render("thread/robot.cu.jinja", view),
        f"{ident}_simd.h": render("thread/robot_simd.h.jinja", view_of_cpu),
    }
    files |= headers
    return files | shared_headers(files), on_cpu


def shared_headers(files: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that files include, directly or not: the same in every module."""
    found: dict[str, str] = {}
    waiting = [*files.values()]
    while waiting:
        for name in _SHARED.findall(waiting.pop()):
            if name not in files and name not in found:
                found[name] = bodies_text() if name == BODIES_FILE else static_text(name)
                waiting.append(found[name])
    return found


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


def render_team(
    schedule: TeamSchedule[Any], robot: RobotView, kernels: Sequence[Kernel], **options: bool
) -> str:
    """Render the file with a schedule's kernels."""
    view = schedule.view(robot, kernels, **options)
    return render(f"{schedule.folder or schedule.name}/robot_{schedule.name}.cuh.jinja", view)


def sources_of(
    ident: str,
    files: Mapping[str, str],
    programs: Mapping[str, Programs],
    kernels: Iterable[Kernel],
) -> Sources:
    """Return text to compile, with the memory requirements of its kernels."""
    kernels = tuple(kernels)
    rows = _rows_of(programs) | {
        kernel.name: Rows((), 0, over_time=plan_paths(kernel).numbers)
        for kernel in kernels
        if kernel.calls and kernel.is_over_time
    }
    return Sources(ident, files, _scratch_of(programs, kernels), rows)


def _scratch_of(programs: Mapping[str, Programs], kernels: Iterable[Kernel]) -> dict[str, int]:
    """Return the scratch numbers per state of kernels with loops."""
    rollouts = {
        kernel.name: max(programs[key.name].gpu.scratch for key in kernel.calls)
        for kernel in kernels
        if kernel.calls
    }
    numbers = {name: both.gpu.scratch for name, both in programs.items()} | rollouts
    return {name: scratch for name, scratch in numbers.items() if scratch}


def _rows_of(programs: Mapping[str, Programs]) -> dict[str, Rows]:
    """Return the row layout of kernels that stage rows in shared memory."""
    rows: dict[str, Rows] = {}
    for name, both in programs.items():
        program, split = both.gpu, both.gpu_parts
        if (staging := plan_rows(program)) is not None:
            in_place = {array.name for array in program.inputs} - set(staging.inputs)
            arrays = (*program.inputs, *program.outputs)
            lengths = tuple(0 if array.name in in_place else array.size for array in arrays)
            parked = 0 if split is None else split.parked
            rows[name] = Rows(lengths, staging.numbers, parked, pairs=has_pairs(program))
    return rows


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
    return json.dumps(value, allow_nan=False)


#: Iterations of a search, on average.
_ITERATIONS = 9
_GNU_ALONE = ("-fpeel-loops",)


def render_library(
    tree: KinematicTree,
    ident: str,
    version: str,
    kernels: Sequence[Kernel],
    programs: Mapping[str, Programs],
    views: Mapping[str, ThreadFunctionView],
    flags: Sequence[str],
    sources: Sequence[str],
    *,
    casadi: bool,
) -> dict[str, str]:
    """Return the files of a robot's library.

    Returns:
        text by file name.
    """
    functions: dict[str, LibraryFunctionView] = {}
    taken = {kernel.name for kernel in kernels}
    for kernel in kernels:
        if is_search(kernel.key):
            work = programs[kernel.calls[0].name].cpu.instructions * _ITERATIONS
            found = search_view(tree, kernel)
            functions[kernel.name] = library_view(kernel, ident, (kernel.name,), found, work, "")
        if kernel.key.function == "inverse_kinematics":  # also its iteration and its correction
            continue
        both = programs[kernel.name]
        on_cpu = views[kernel.name]
        # The first available method of a function is its default.
        plain = replace(kernel.key, method="").name
        called = (kernel.name,) if plain in taken else (kernel.name, plain)
        taken.update(called)
        work, worst = both.cpu.instructions, worst_case(both.cpu)
        functions[kernel.name] = library_view(kernel, ident, called, on_cpu, work, worst)
    view = {
        "robot": robot_view(tree, ident, version),
        "facts": facts_view(tree),
        "functions": list(functions.values()),
        "defaults": default_views(tree, functions.values()),
        "types": TYPES,
        "statuses": STATUSES,
        "guard": f"GRIDGEN_ROBOT_{ident}_H",
        "flags": [flag for flag in flags if flag not in _GNU_ALONE],
        "gnu_flags": [flag for flag in flags if flag in _GNU_ALONE],
        "headers": [f"{ident}.h", f"{ident}.hpp"],
        "casadi": [],
        "cuda": [name for name in sources if name.endswith((".cu", ".cuh"))],
        "shared": SHARED_FOLDER,
    }
    files = {f"{ident}{end}": f"library/robot{end}.jinja" for end in (".h", ".hpp", ".cpp", ".rs")}
    files["CMakeLists.txt"] = "library/CMakeLists.txt.jinja"
    if casadi:
        by_name = {kernel.name: kernel for kernel in kernels}
        view["casadi"] = [
            casadi_view(
                kernel,
                functions[kernel.name],
                programs[kernel.name].cpu,
                (by_name[name], functions[name], programs[name].cpu)
                if (name := jacobian_key(kernel).name) in by_name
                else None,
            )
            for kernel in kernels
            if kernel.name in functions and not (kernel.key.products or is_search(kernel.key))
        ]
        view["gravity"] = ", ".join(map(repr, tree.gravity))
        files[f"{ident}_casadi.cpp"] = "library/robot_casadi.cpp.jinja"
    return {name: render(template, view) for name, template in files.items()}
