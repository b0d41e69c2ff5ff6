"""``grid-gen``: the command line."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gridgen
from gridgen.errors import GridGenError, GridGenWarning
from gridgen.options import (
    DTYPE_CHOICES,
    FUNCTION_CHOICES,
    GenerateOptions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gridgen.backends.nvrtc import KernelResources
    from gridgen.check import Comparison
    from gridgen.pipeline import GeneratedModule

_EXAMPLE = """\
example:
  grid-gen panda.urdf
  grid-gen go2.urdf --floating-base --check --arch sm_90

  then, in Python, from the same folder:
    from generated import panda
    tau = panda.inverse_dynamics(q, qd, qdd)

exit status: 0 done, 1 --check found an error out of tolerance, 2 bad input or option
"""
#: Columns of tables that go to a file or a pipe.
_LOG_WIDTH = 120
FAILED_CHECK = 1
BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except GridGenError as error:
        print(f"grid-gen: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("grid-gen: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="grid-gen",
        description="Turn a robot's URDF file into a Python module of rigid-body dynamics.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("urdf", type=Path, help="the URDF file (expand xacro first)")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("generated"),
        metavar="FOLDER",
        help="folder that the module's folder is put in (default: generated)",
    )
    parser.add_argument("--name", help="name of the module (default: the robot's)")
    parser.add_argument(
        "--floating-base", action="store_true", help="put a free joint under the root link"
    )
    parser.add_argument(
        "--joint-dynamics",
        action="store_true",
        help="count the damping and friction of the URDF in",
    )
    parser.add_argument(
        "--armature",
        type=float,
        default=0.0,
        metavar="INERTIA",
        help="add this to the diagonal of the mass matrix",
    )
    parser.add_argument(
        "--dtype",
        action="append",
        choices=DTYPE_CHOICES,
        help="element type that --check and --arch look at; repeatable (default: both)",
    )
    parser.add_argument(
        "--functions",
        action="append",
        default=[],
        metavar="NAME,...",
        help=f"only these functions, of {', '.join(FUNCTION_CHOICES)}; repeatable "
        "(default: all but the second order, and programs that would be very long)",
    )
    parser.add_argument(
        "--frame",
        dest="frames",
        action="append",
        default=[],
        metavar="LINK",
        help="generate the Jacobians of this link; repeatable",
    )
    parser.add_argument(
        "--arch",
        action="append",
        default=[],
        metavar="SM",
        help="compile every kernel for this GPU (sm_90) and show what it takes; repeatable",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare the functions with the reference on random states",
    )
    parser.add_argument(
        "--backend",
        choices=("cpu", "cuda", "emulated"),
        default="cpu",
        help="backend that --check runs on (default: cpu)",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the summary as JSON")
    output.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--version", action="version", version=f"grid-gen {gridgen.__version__}")
    return parser


@dataclass(frozen=True)
class Summary:
    """What a run did."""

    module: GeneratedModule
    seconds: float
    resources: tuple[KernelResources, ...]
    comparisons: tuple[Comparison, ...]

    def as_data(self) -> dict[str, Any]:
        """Return the summary as JSON data."""
        tree = self.module.tree
        return {
            "robot": tree.name,
            "folder": str(self.module.folder),
            "files": {name: len(text.encode()) for name, text in self.module.files.items()},
            "bodies": len(tree.bodies),
            "joints": len(tree.joint_names),
            "levels": len(tree.levels),
            "nq": tree.nq,
            "nv": tree.nv,
            "seconds": round(self.seconds, 3),
            "functions": {
                name: {
                    "operations": program.operations,
                    "dense_operations": program.dense_operations,
                }
                for name, program in self.module.programs.items()
            },
            "left_out": dict(self.module.left_out),
            "kernels": [asdict(kernel) for kernel in self.resources],
            "check": [
                asdict(comparison) | {"passed": comparison.passed}
                for comparison in self.comparisons
            ],
        }


def _run(arguments: argparse.Namespace) -> int:
    functions = [name.strip() for names in arguments.functions for name in names.split(",")]
    options = GenerateOptions(
        output=arguments.output,
        name=arguments.name,
        floating_base=arguments.floating_base,
        joint_dynamics=arguments.joint_dynamics,
        armature=arguments.armature,
        functions=tuple(dict.fromkeys(functions)),
        frames=tuple(dict.fromkeys(arguments.frames)),
    )
    dtypes = tuple(dict.fromkeys(arguments.dtype or DTYPE_CHOICES))
    silent = arguments.quiet or arguments.json
    with _progress(silent) as progress, _warnings_as_lines():
        start = time.perf_counter()
        from gridgen.pipeline import generate

        if not arguments.urdf.is_file():
            raise GridGenError(f"{arguments.urdf}: no such file; give the path of a URDF file")
        module = generate(arguments.urdf, options, progress)
        seconds = time.perf_counter() - start
        resources = _compile_kernels(module, dtypes, arguments.arch, progress)
        comparisons = _check(module, dtypes, arguments.backend, progress) if arguments.check else ()
    summary = Summary(module, seconds, resources, comparisons)
    if arguments.json:
        print(json.dumps(summary.as_data(), indent=2))
    elif not arguments.quiet:
        _print_tables(summary)
    passed = all(comparison.passed for comparison in comparisons)
    if not passed and silent:
        print("grid-gen: --check: an error is out of tolerance", file=sys.stderr)
    return 0 if passed else FAILED_CHECK


def _compile_kernels(
    module: GeneratedModule, dtypes: Sequence[Any], archs: Sequence[str], progress: Any
) -> tuple[KernelResources, ...]:
    if not archs:
        return ()
    from gridgen.backends.interface import Sources
    from gridgen.backends.nvrtc import resource_report

    sources = Sources(module.folder.name, module.files)
    resources: list[KernelResources] = []
    for arch in dict.fromkeys(archs):
        for function in (*module.programs, *module.scans):
            progress(f"compiling {function} for {arch}")
            resources += resource_report(sources, (function,), dtypes, arch)
    return tuple(resources)


def _check(
    module: GeneratedModule, dtypes: Sequence[str], backend: str, progress: Any
) -> tuple[Comparison, ...]:
    from gridgen.check import compare
    from gridgen.runtime.module import FolderModule
    from gridgen.runtime.robot import Robot

    progress(f"checking on the {backend} backend")
    robot = Robot(FolderModule(module.folder), backend)
    return tuple(compare(module.tree, robot, dtypes, backend))


@contextmanager
def _progress(silent: bool) -> Iterator[Any]:
    """Show the current step on a terminal; elsewhere say nothing until the end."""
    if silent or not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda step: status.update(step)


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print warnings about the robot as one line each, without Python's decoration."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GridGenWarning)
        try:
            yield
        finally:
            for warning in caught:
                print(f"grid-gen: warning: {warning.message}", file=sys.stderr)


def _print_tables(summary: Summary) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else _LOG_WIDTH)
    data, tree = summary.as_data(), summary.module.tree
    size = sum(data["files"].values()) / 1024
    console.print(
        f"[bold]{escape(tree.name)}[/bold]: {data['bodies']} bodies, {data['joints']} joints, "
        f"{data['levels']} levels, nq = {tree.nq}, nv = {tree.nv}"
    )
    table = Table("function", box=None, header_style="bold")
    for heading in ("operations", "dense", "removed"):
        table.add_column(heading, justify="right")
    for name, counts in data["functions"].items():
        operations, dense = counts["operations"], counts["dense_operations"]
        table.add_row(name, f"{operations}", f"{dense}", f"{1 - operations / max(dense, 1):.0%}")
    console.print(table)
    for name, why in data["left_out"].items():
        console.print(f"[yellow]left out[/yellow] {name}: {why}")
    if summary.resources:
        _print_kernels(console, summary)
    if summary.comparisons:
        _print_check(console, summary)
    console.print(
        f"wrote {len(data['files'])} files ({size:.0f} kB) to "
        f"[bold]{escape(data['folder'])}[/bold] in {summary.seconds:.2f} s"
    )


def _print_kernels(console: Any, summary: Summary) -> None:
    from rich.table import Table

    table = Table("kernel", "arch", box=None, header_style="bold")
    for heading in ("registers", "spilled bytes", "stack", "shared"):
        table.add_column(heading, justify="right")
    for kernel in summary.resources:
        spilled = kernel.spill_stores + kernel.spill_loads
        numbers = (kernel.registers, spilled, kernel.stack, kernel.shared_memory)
        name = kernel.kernel.partition("::")[2].replace("_kernel", "")
        table.add_row(name, kernel.arch, *map(str, numbers))
    console.print(table)


def _print_check(console: Any, summary: Summary) -> None:
    from rich.table import Table

    table = Table("check", "type", box=None, header_style="bold")
    for heading in ("worst relative error", "tolerance", "conditioning", ""):
        table.add_column(heading, justify="right")
    for row in summary.comparisons:
        condition = "" if row.condition is None else f"{row.condition:.0e}"
        verdict = "[green]ok[/green]" if row.passed else "[red]FAILED[/red]"
        numbers = (f"{row.error:.1e}", f"{row.tolerance:.0e}", condition, verdict)
        table.add_row(row.function, row.dtype, *numbers)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
