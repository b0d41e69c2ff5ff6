"""The summary of a run of ``grid-gen``, as data and as tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gridgen.functions.arrays import OPTIONAL_INPUTS
from gridgen.kernel import WITH_EFFORTS, KernelKey
from gridgen.symbolic.iterations import work_per_state

if TYPE_CHECKING:
    from gridgen.backends.cuda.compiler import KernelResources
    from gridgen.check import Comparison
    from gridgen.modules import GeneratedModule

#: Width of tables in a file or a pipe [characters].
_LOG_WIDTH = 120


@dataclass(frozen=True)
class Summary:
    """The summary of a run: the module, its compiled kernels and comparisons."""

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
                    "instructions": instructions,
                    "operations": operations,
                    "dense_operations": both.cpu.dense_operations,
                    "has_loops": both.cpu.loops is not None,
                    "has_loops_on_gpu": both.gpu.loops is not None,
                }
                for name, both in self.module.programs.items()
                for operations, instructions in [work_per_state(both.cpu)]
            },
            "kernels": [asdict(kernel) for kernel in self.resources],
            "check": [
                asdict(comparison) | {"passed": comparison.passed}
                for comparison in self.comparisons
            ],
        }

    def print_tables(self) -> None:
        """Print the summary as tables."""
        from rich.console import Console

        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        console = Console(width=None if is_terminal else _LOG_WIDTH)
        # Captured, because rich exits the program when a pipe is closed.
        with console.capture() as capture:
            _print_summary(console, self)
        print(capture.get(), end="")


def _print_summary(console: Any, summary: Summary) -> None:
    from rich.markup import escape

    data, tree = summary.as_data(), summary.module.tree
    size = sum(data["files"].values()) / 1024
    console.print(
        f"[bold]{escape(tree.name)}[/bold]: {data['bodies']} bodies, {data['joints']} joints, "
        f"{data['levels']} levels, nq = {tree.nq}, nv = {tree.nv}"
    )
    _print_functions(console, data)
    if summary.resources:
        _print_kernels(console, summary.resources)
    if summary.comparisons:
        _print_check(console, summary.comparisons)
    _print_legend(console, summary, data)
    console.print(
        f"wrote {len(data['files'])} files ({size:.0f} kB) to "
        f"[bold]{escape(data['folder'])}[/bold] in {summary.seconds:.2f} s"
    )


def _print_functions(console: Any, data: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table("function", box=None, header_style="bold")
    headings = ["operations", "dense", "removed", "instructions"]
    if has_loops := any(map(_loops, data["functions"].values())):
        headings.append("loops")
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, counts in data["functions"].items():
        operations, dense = counts["operations"], counts["dense_operations"]
        compared = (f"{dense}", f"{1 - operations / max(dense, 1):.0%}")
        cells = [f"{operations}", *(("", "") if counts["has_loops"] else compared)]
        loops = [_loops(counts)] if has_loops else []
        table.add_row(name, *cells, f"{counts['instructions']}", *loops)
    console.print(table)


def _loops(counts: dict[str, Any]) -> str:
    """Return on which devices a function's program has loops over bodies."""
    if counts["has_loops"]:
        return "yes"
    return "on a GPU" if counts["has_loops_on_gpu"] else ""


def _print_legend(console: Any, summary: Summary, data: dict[str, Any]) -> None:
    """Explain the columns and the names of kernels."""
    words = [
        '"operations": floating-point operations per evaluation',
        '"dense": operations without specialization to the robot',
        '"instructions": operations with fused multiply-adds',
    ]
    if any(map(_loops, data["functions"].values())):
        words.append('"loops": over bodies; the counts include all iterations')
    console.print("; ".join(words))
    kernels = summary.module.kernels.by_name
    printed = {*data["functions"], *(row.function for row in summary.comparisons)}
    shown = [k.key for name, k in kernels.items() if summary.resources or name in printed]
    for name, meaning in dict(part for key in shown for part in _parts(key)).items():
        console.print(f'"{name}": {meaning}')


def _parts(key: KernelKey) -> Iterator[tuple[str, str]]:
    """Yield the parts of a kernel's name after function and method, and their meaning."""
    if key.is_fused:
        yield key.plain.name, "fused: " + ", ".join(part.name for part in key.parts)
    for name in key.inputs:
        yield f"..._{name}", f"with {OPTIONAL_INPUTS[name].text}"
    if key.step:
        yield key.step, f"a step of {key.function} by {key.method}"
    if key.schedule != "thread":
        yield f"..._{key.schedule}", f'for schedule="{key.schedule}"'
    if key.variant == WITH_EFFORTS:
        yield f"..._{key.variant}", "also returns the joint torques"
    elif key.variant == "correction":
        yield f"..._{key.variant}", "the derivative of solutions"
    elif key.variant:
        yield f"..._{key.variant}", "sums in another order, for comparisons"


def _print_kernels(console: Any, kernels: Sequence[KernelResources]) -> None:
    from rich.table import Table

    table = Table("kernel", "arch", box=None, header_style="bold")
    for heading in ("registers", "spilled bytes", "stack", "shared"):
        table.add_column(heading, justify="right")
    for kernel in kernels:
        spilled = kernel.spill_stores + kernel.spill_loads
        numbers = (kernel.registers, spilled, kernel.stack, kernel.shared_memory)
        table.add_row(kernel.kernel, kernel.arch, *map(str, numbers))
    console.print(table)


def _print_check(console: Any, comparisons: Sequence[Comparison]) -> None:
    from rich.table import Table

    table = Table("check", "type", box=None, header_style="bold")
    for heading in ("worst relative error", "tolerance", "conditioning", ""):
        table.add_column(heading, justify="right")
    for row in comparisons:
        condition = "" if row.condition is None else f"{row.condition:.0e}"
        verdict = "[green]ok[/green]" if row.passed else "[red]FAILED[/red]"
        numbers = (f"{row.error:.1e}", f"{row.tolerance:.0e}", condition, verdict)
        table.add_row(row.function, row.dtype, *numbers)
    console.print(table)
