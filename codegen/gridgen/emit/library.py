"""The files of a module's C and C++ library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gridgen.emit.views.casadi import casadi_view
from gridgen.emit.views.library import (
    STATUSES,
    TYPES,
    LibraryFunctionView,
    default_views,
    facts_view,
    library_view,
)
from gridgen.functions.arrays import STANDARD_GRAVITY
from gridgen.kernel import Kernel
from gridgen.model.tree import KinematicTree
from gridgen.rendering import render
from gridgen.schedules.interface import is_search
from gridgen.schedules.search.view import search_view
from gridgen.schedules.thread.plan import Programs, jacobian_key
from gridgen.schedules.thread.view import ThreadFunctionView
from gridgen.schedules.views import robot_view
from gridgen.template_root import SHARED_FOLDER

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
            functions[kernel.name] = library_view(kernel, ident, (kernel.name,), found, work)
        if kernel.key.function == "inverse_kinematics":  # also its iteration and its correction
            continue
        both = programs[kernel.name]
        on_cpu = views[kernel.name]
        # The first available method of a function is its default.
        plain = replace(kernel.key, method="").name
        called = (kernel.name,) if plain in taken else (kernel.name, plain)
        taken.update(called)
        functions[kernel.name] = library_view(kernel, ident, called, on_cpu, both.cpu.instructions)
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
        view["gravity"] = ", ".join(map(repr, STANDARD_GRAVITY))
        files[f"{ident}_casadi.cpp"] = "library/robot_casadi.cpp.jinja"
    return {name: render(template, view) for name, template in files.items()}
