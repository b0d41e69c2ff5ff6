"""``grid-gen``: the command line."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from gridgen.backends import BackendName, backend, target_for
from gridgen.commands.options import (
    BAD_INPUT,
    Parser,
    accept_any_alphabet,
    add_dtypes,
    add_options,
    add_urdf,
    one_of,
    options_of,
    printing,
    progress_shown,
    robot_text,
    say,
    warnings_as_lines,
)
from gridgen.commands.summary import Summary
from gridgen.errors import GridGenError, OptionError
from gridgen.naming import show
from gridgen.options import DTYPE_CHOICES, GenerateOptions, RobotOptions
from gridgen.version import __version__

if TYPE_CHECKING:
    from gridgen.backends.cuda.compiler import KernelResources
    from gridgen.backends.library import CompileTarget
    from gridgen.check import Comparison
    from gridgen.modules import GeneratedModule

_EXAMPLE = """\
example:
  grid-gen panda.urdf
  grid-gen go2.urdf --floating-base --check

  then, in Python, from the same folder:
    from generated import panda
    tau = panda.inverse_dynamics(q, qd, qdd)

  to measure the kernels on the current GPU (grid-gen tune --help):
    grid-gen tune panda.urdf

  to cover its links by spheres (grid-gen spheres --help):
    grid-gen spheres panda.urdf

  to show the size of the cache of compiled code, or clear it (grid-gen cache --help):
    grid-gen cache

exit status: 0 success, 1 --check found an error above its tolerance, 2 invalid input or option
"""
BACKEND_CHOICES = get_args(BackendName)
#: Default backend of --check.
BACKEND = target_for("host").name
FAILED_CHECK = 1
#: Names of the subcommands.
TUNE = "tune"
CACHE = "cache"
SPHERES = "spheres"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    accept_any_alphabet()
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = None
    try:
        if words[:1] == [TUNE]:
            from gridgen.commands import tune

            return tune.run(words[1:])
        if words[:1] == [CACHE]:
            from gridgen.commands import cache

            return cache.run(words[1:])
        if words[:1] == [SPHERES]:
            from gridgen.commands import spheres

            return spheres.run(words[1:])
        with printing():
            options = _parser().parse_args(words)
        return 0 if options is None else _run(options)
    except GridGenError as error:
        say(str(error))
        return BAD_INPUT
    except KeyboardInterrupt:
        say("interrupted")
        return 130


def _parser() -> Parser:
    parser = Parser(
        prog="grid-gen",
        description="Generate a Python module of rigid-body dynamics from a robot's URDF file.",
        epilog=_EXAMPLE,
    )
    add_urdf(parser)
    add_options(parser, RobotOptions)
    add_options(parser, GenerateOptions)
    add_dtypes(parser, "element type for --check, --arch and --compile: ")
    parser.add_list(
        "--arch",
        metavar="SM",
        help="compile every kernel for this architecture (such as sm_90) and show its registers "
        "and memory; repeatable; requires CuPy and NVRTC, but no GPU",
    )
    parser.add_list(
        "--compile",
        dest="targets",
        metavar="TARGET",
        help="include compiled code in the module: cpu for this processor, "
        "cpu=x86-64-v3,x86-64-v4 for processor levels, aarch64-linux for another kind of machine, "
        "sm_90 for a GPU architecture; repeatable",
    )
    parser.add_argument(
        "--wheel",
        action="store_true",
        help="also write wheels: one of the module with its compiled code, one of its runtime",
    )
    parser.add_argument(
        "--wheel-version",
        metavar="VERSION",
        default=__version__,
        help=f"version of the module's wheel (default: version of grid-gen, {__version__})",
    )
    parser.add_argument(
        "--ros2",
        metavar="PACKAGE",
        help="also write a ROS 2 package of this name: the functions for C++, and a controller of "
        "computed torque for ros2_control",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare the functions with the reference on random states",
    )
    parser.add_argument(
        "--backend",
        type=one_of("backend", BACKEND_CHOICES),
        metavar="NAME",
        help=f"backend of --check: {', '.join(BACKEND_CHOICES)} (default: {BACKEND})",
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="write an HTML report of the robot: kinematic tree, operation counts, accuracy, speed "
        "on this machine, and predictions for the GPUs of --arch (default: sm_90)",
    )
    parser.add_argument(
        "--wasm",
        metavar="FOLDER",
        help="also write a page that simulates the robot in a browser, with the WebAssembly in it",
    )
    parser.add_output("the summary")
    parser.add_argument("--version", action="version", version=f"grid-gen {__version__}")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    start = time.perf_counter()
    options = options_of(arguments, GenerateOptions)
    dtypes = tuple(dict.fromkeys(arguments.dtype or DTYPE_CHOICES))
    silent = arguments.quiet or arguments.json
    with progress_shown(silent) as progress, warnings_as_lines():
        targets = _check_tools(arguments, options)
        from gridgen.compiler import make_module
        from gridgen.wheel import make_wheels, write_wheels

        module = make_module(robot_text(arguments.urdf), options, progress)
        if options.name not in (None, module.folder.name):
            say(
                f"warning: {show(options.name)} is not a valid module name; the module is named "
                f"{module.folder.name}"
            )
        resources = _compile_kernels(module, dtypes, arguments.arch, progress)
        comparisons = _check(module, dtypes, arguments, progress) if arguments.check else ()
        report = None
        if arguments.report:
            archs = tuple(dict.fromkeys(arguments.arch)) or ("sm_90",)
            report = module.drawings.report(archs, progress=progress)
        page = _simulation(module, options, progress) if arguments.wasm else {}
        compiled = _compile_ahead(module, dtypes, targets, progress)
        files: dict[str, str | bytes] = {**module.files, **compiled}
        version, force = arguments.wheel_version, options.force
        wheels = make_wheels(module.folder, files, version, force) if arguments.wheel else {}
        folders: dict[Path, Mapping[str, str | bytes]] = {}
        if arguments.ros2:
            from gridgen.emit.ros2 import ros2_package

            package = ros2_package(arguments.ros2, module.folder.name, module.tree, module.files)
            folders[module.folder.with_name(arguments.ros2)] = package
        if page:
            folders[Path(arguments.wasm)] = page
        if module.folder.resolve() in map(Path.resolve, folders):
            raise OptionError(f"--wasm {arguments.wasm} is the module's folder; choose another")
        _write_folders(module, folders, force)
        module.write(compiled, force=force)
        write_wheels(wheels, force)
        if report is not None:
            report.save(arguments.report, force=force)
    summary = Summary(module, time.perf_counter() - start, resources, comparisons)
    with printing():
        if arguments.json:
            print(json.dumps(summary.as_data(), indent=2))
        elif not arguments.quiet:
            summary.print_tables()
    passed = all(comparison.passed for comparison in comparisons)
    if not passed and silent:
        say("--check: an error exceeds its tolerance")
    return 0 if passed else FAILED_CHECK


def _check_tools(
    arguments: argparse.Namespace, options: GenerateOptions
) -> tuple[CompileTarget, ...]:
    """Return the targets of --compile.

    Raises:
        GridGenError: an option has no effect, or this machine does not support it.
    """
    if arguments.backend and not arguments.check:
        raise OptionError("--backend is the backend of --check; add --check")
    if arguments.dtype and not (arguments.check or arguments.arch or arguments.targets):
        raise OptionError("--dtype applies to --check, --arch and --compile; add one of them")
    if options.casadi and arguments.targets and "float64" not in (arguments.dtype or "float64"):
        raise OptionError("--casadi is compiled for float64; add --dtype float64")
    if arguments.report and not Path(arguments.report).absolute().parent.is_dir():
        raise OptionError(f"--report is {show(arguments.report)}; its folder does not exist")
    if arguments.report:
        from gridgen.emit.writer import check_file

        check_file(Path(arguments.report), options.force)
    for arch in arguments.arch:
        from gridgen.backends.cuda.compiler import check_machine

        check_machine(arch)
    if arguments.check:
        backend(arguments.backend or BACKEND)
    if arguments.wheel:
        from gridgen.wheel import check_version

        check_version(arguments.wheel_version)
    if arguments.ros2:
        from gridgen.emit.ros2 import check_package

        check_package(arguments.ros2)
    if not arguments.targets:
        return ()
    from gridgen.backends.library import parse_targets

    return parse_targets(arguments.targets)


def _simulation(
    module: GeneratedModule, options: GenerateOptions, progress: Any
) -> dict[str, str | bytes]:
    """Return the files of a page that simulates the robot."""
    from gridgen.modules import TracedModule
    from gridgen.report.animation import simulation

    progress("compiling the page that simulates")
    traced = TracedModule(module.tree, options.longest_program)
    html, code = simulation(module.tree, traced)
    return {f"{module.folder.name}.html": html, f"{module.folder.name}.wasm": code}


def _write_folders(
    module: GeneratedModule, folders: Mapping[Path, Mapping[str, str | bytes]], force: bool
) -> None:
    """Write folders that are not the module's, or none of them."""
    from gridgen.emit.writer import check_folder, write_folder

    tree = module.tree
    for folder, files in folders.items():
        check_folder(folder, tree.source, tree.digest, force, files)
    for folder, files in folders.items():
        write_folder(folder, files, tree.source, tree.digest, force)


def _compile_ahead(
    module: GeneratedModule,
    dtypes: Sequence[Any],
    targets: Sequence[CompileTarget],
    progress: Any,
) -> dict[str, bytes]:
    """Return the files with compiled code for the module."""
    if not targets:
        return {}
    from gridgen.backends.library import compile_ahead

    kernels = tuple(module.kernels.by_name.values())
    return compile_ahead(module.sources(kernels[0]), kernels, dtypes, targets, progress)


def _compile_kernels(
    module: GeneratedModule, dtypes: Sequence[Any], archs: Sequence[str], progress: Any
) -> tuple[KernelResources, ...]:
    if not archs:
        return ()
    from gridgen.backends.cuda.compiler import resource_report

    resources: list[KernelResources] = []
    for arch in dict.fromkeys(archs):
        for name, kernel in module.kernels.by_name.items():
            progress(f"compiling {name} for {arch}")
            resources += resource_report(module.sources(kernel), (name,), dtypes, arch)
    return tuple(resources)


def _check(
    module: GeneratedModule, dtypes: Sequence[str], arguments: argparse.Namespace, progress: Any
) -> tuple[Comparison, ...]:
    from gridgen.check import compare
    from gridgen.robot import Robot

    name = arguments.backend or BACKEND
    return tuple(compare(module.tree, Robot(module, name), dtypes, name, progress=progress))
