"""The compiler: parse, tree, trace, plan, render, write; calls compile and run the code.

* parse:  read_robot,    a file, text or object -> RobotDescription,   gridgen.model.readers
* tree:   build_tree,    RobotDescription       -> KinematicTree,      gridgen.model.tree
* select: Schedules,     KinematicTree, options -> Kernels,            gridgen.schedules
* trace:  plan_programs, Kernel                 -> Programs,           gridgen.schedules.thread
* count:  Schedules,     Kernel                 -> Work,               gridgen.schedules
* render: render_...,    Kernels, Programs      -> files of a module,  gridgen.emit
* write:  write_folder,  files                  -> a folder,           gridgen.emit.writer
* run:    Robot,         a module               -> compiled functions, gridgen.robot
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gridgen.backends.cpu.units import LIBRARY_FLAGS
from gridgen.dynamics.functions import frame_idents, fused_keys, search_keys
from gridgen.errors import ModelError, OptionError
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import OPEN
from gridgen.functions.types import BackendChoice
from gridgen.kernel import Kernel, KernelKey
from gridgen.model.diagnostics import noted
from gridgen.model.readers import read_robot
from gridgen.model.tree import KinematicTree, build_tree
from gridgen.model.validation import check_body_count
from gridgen.model.walk import count_bodies
from gridgen.modules import GeneratedModule, TracedModule, collected_rarely, record_of
from gridgen.naming import robot_ident, show_value
from gridgen.option_values import anything
from gridgen.options import (
    DEFAULT_INTEGRATORS,
    DEFAULT_ROBOT,
    GenerateOptions,
    RobotOptions,
    keywords_of,
    limit_of_programs,
    option,
)
from gridgen.progress import Progress, Step, announced
from gridgen.robot import Robot
from gridgen.runtime.module.description import ModuleRecord
from gridgen.runtime.module.files import MODEL_FILE, is_shared, placed
from gridgen.runtime.module.kernels import Kernels
from gridgen.schedules import KernelSelection, Schedules
from gridgen.version import __version__

#: Moving bodies of the largest robot; text and tracing time grow with them.
MAX_BODIES = 2048


@dataclass(frozen=True, kw_only=True)
class LoadOptions(RobotOptions):
    """How to load a robot; ``RobotOptions`` describes the robot's own options."""

    backend: BackendChoice = option(
        "auto", anything, "``auto``, ``cpu``, ``cuda`` or ``emulated``."
    )
    longest_program: int = limit_of_programs()


@keywords_of(LoadOptions)
def load(robot: Any, options: LoadOptions) -> Robot:
    """Return a robot whose functions are generated and compiled at their first call.

        robot = gridgen.load("go2.urdf", floating_base=True, backend="cpu")

    Args:
        robot:   path of a URDF, xacro or MJCF file; the text of a URDF or MJCF (``str`` or
                 ``bytes``); a name of the package robot_descriptions
                 (``"panda_description"``). Also objects: a ``URDF`` of urdfpy, urchin or yourdfpy,
                 a ``pinocchio.Model`` or a ``mujoco.MjModel`` (docs/formats.md).
        options: keyword arguments: the fields of ``RobotOptions``, ``backend``: ``auto``, ``cpu``,
                 ``cuda`` or ``emulated``, and ``longest_program``: instructions of the longest
                 straight-line program. Longer programs loop over the bodies (docs/sizes.md).

    Raises:
        GridGenError: the file does not describe one valid robot, or an option is invalid.
    """
    with announced("loading a robot"):
        return Robot(
            TracedModule(read_tree(robot, options), options.longest_program), options.backend
        )


def generate(
    urdf: str | bytes | os.PathLike[Any],
    options: GenerateOptions | None = None,
    progress: Progress | None = None,
) -> GeneratedModule:
    """Write the module of one robot.

    Args:
        urdf:     path of the URDF file, or its text (``str`` or ``bytes``).
        options:  see ``GenerateOptions``.
        progress: called with a text before each step; by default the standard error shows the
                  steps if they take long.

    Raises:
        GridGenError: the file or an option is invalid; nothing was written.
    """
    if not isinstance(options, (GenerateOptions, type(None))):
        raise OptionError(f"options is {show_value(options)}; give a gridgen.GenerateOptions")
    chosen = options or GenerateOptions()
    with announced("generating a module", progress=progress, names_steps=True) as shown:
        module = make_module(urdf, chosen, shown)
        module.write(force=chosen.force)
    return module


def read_tree(robot: Any, options: RobotOptions = DEFAULT_ROBOT) -> KinematicTree:
    """Return the kinematic tree of a robot; ``read_robot`` lists the accepted types.

    Raises:
        UrdfError:   it does not describe one valid robot.
        ModelError:  it has more bodies than ``MAX_BODIES``.
        OptionError: an option has an invalid value.
    """
    with noted() as remarks:
        description = read_robot(robot, MAX_BODIES, options.mappings)
        check_body_count(description.source, count_bodies(description, options), MAX_BODIES)
        tree = build_tree(description, options)
    return replace(tree, remarks=tuple(remarks))


@collected_rarely()
def make_module(
    urdf: str | bytes | os.PathLike[Any], options: GenerateOptions, progress: Progress
) -> GeneratedModule:
    """Return the module of one robot without writing it; arguments as in ``generate``."""
    # `load` needs none of these, and starts faster without them.
    from gridgen.emit.render import (
        array_data,
        model_text,
        render_library,
        render_module,
        render_sources,
        shared_headers,
        sources_of,
        with_called,
    )
    from gridgen.emit.writer import check_folder
    from gridgen.schedules.thread.plan import Programs, plan_programs

    progress("reading the URDF")
    tree = read_tree(urdf, options)
    name = robot_ident(tree.name if options.name is None else options.name)
    check_folder(options.output / name, tree.source, tree.digest, options.force)
    schedules = Schedules(tree)
    fused = fused_keys(tree, options.fuse)
    searches = search_keys(tree, options.inverse_kinematics)
    selection = KernelSelection(
        options.choices,
        options.frames,
        options.inputs,
        options.variants,
        fused,
        options.products,
        options.casadi,
        options.integrators or DEFAULT_INTEGRATORS,
        searches,
    )
    kernels, refused = schedules.select(selection)
    _check_requests(schedules, options, selection, kernels)
    _check_names(kernels, refused, fused)
    if reasons := [refused[key.name] for key in searches if key.name in refused]:
        raise ModelError(f"inverse_kinematics: no {reasons[0]}")
    if options.casadi and (
        open_ones := [k.name for k in kernels if any(OPEN in shape for shape in k.inputs.values())]
    ):
        raise OptionError(
            f"casadi: {open_ones[0]} reads an array of any length, and CasADi's arrays have fixed "
            "shapes: omit it from functions, or omit casadi"
        )

    own = with_called(schedules, kernels)
    limits = options.longest_program, options.longest_gpu_program
    programs: dict[str, Programs] = {}
    for number, kernel in enumerate(own, 1):
        progress(Step.of("tracing", kernel.name, number, len(own)))
        programs[kernel.name] = plan_programs(tree, kernel.key, *limits)

    progress("writing the text")
    files, views = render_sources(schedules, name, __version__, kernels, programs)
    sources = sources_of(name, files, programs, kernels)
    with_searches = [*own, *map(schedules.kernel, searches)]
    files |= render_library(
        tree,
        name,
        __version__,
        with_searches,
        programs,
        views,
        LIBRARY_FLAGS,
        [name for name in files if not is_shared(name)],
        casadi=options.casadi,
    )
    files = placed(files | shared_headers(files))
    record = ModuleRecord(
        record_of(tree, name, limits),
        array_data(tree, kernels),
        Kernels(tree.name, kernels, refused),
        sources.scratch,
        sources.rows,
        {kernel.name: schedules.work(kernel) for kernel in kernels},
    )
    called = [(schedules.kernel(key), options.fuse[key.label]) for key in fused]
    files["__init__.py"] = render_module(tree, name, __version__, kernels, called)
    files[MODEL_FILE] = model_text(record.as_data())
    return GeneratedModule(options.output / name, tree, programs, files, record)


def _check_requests(
    schedules: Schedules,
    options: GenerateOptions,
    selection: KernelSelection,
    kernels: Sequence[Kernel],
) -> None:
    """Raise unless each function, integrator and input that the options name has a kernel."""
    keys, idents = [kernel.key for kernel in kernels], frame_idents(schedules.tree)
    alone = replace(selection, fused=(), searches=())
    # A request, whether it has a kernel, and the selection whose refusals explain why not.
    requests: list[tuple[str, bool, KernelSelection]] = []
    for function in options.functions:
        own = replace(alone, functions=(function,))
        is_there = any(key.function == function for key in keys)
        if not FUNCTIONS[function].of_frame:
            requests.append((function, is_there, own))
            continue
        for frame in options.frames:
            is_there = any((key.function, key.frame) == (function, idents[frame]) for key in keys)
            requests.append((f"{function} of {frame}", is_there, replace(own, frames=(frame,))))
    for method in options.integrators:
        own = replace(alone, integrators=(method,))
        requests.append((f"integrator {method}", any(key.method == method for key in keys), own))
    for name in options.inputs:
        requests.append((f"input {name}", any(name in key.inputs for key in keys), alone))
    for kind in options.products:
        own = replace(alone, products=(kind,))
        requests.append((kind, any(key.products for key in keys), own))
    reasons = []
    for what, is_there, explained in requests:
        if not is_there:
            _, refused = schedules.select(explained)
            reason = next(iter(refused.values()), "no function of the module has it: omit it")
            reasons.append(f"no {what}: {reason}")
    if reasons:
        raise ModelError(f"{schedules.tree.source}: {'; '.join(reasons)}")


def _check_names(
    kernels: Sequence[Kernel], refused: Mapping[str, str], fused: Sequence[KernelKey]
) -> None:
    """Raise unless the robot supports the fused functions and their names are unique."""
    names = [kernel.name for kernel in kernels]
    for key in fused:
        if key.name in refused:
            raise ModelError(f"fuse: no {key.name}: {refused[key.name]}")
        if names.count(key.name) > 1:
            raise OptionError(f"fuse: {key.name} is the name of another kernel; give a free one")
