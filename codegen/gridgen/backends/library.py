"""Ahead-of-time compilation of a module to shared libraries and GPU kernels."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from gridgen.backends.built import MANIFEST, RECORDS, BuiltFile, image_name, manifest_text
from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.compiler import compiler_for, link, object_file
from gridgen.backends.cpu.processor import MACHINES, NATIVE, Machine, processor, this_machine
from gridgen.backends.cpu.stack import Stack, stack_header, stack_of
from gridgen.backends.cpu.units import FLAGS, library_unit, symbol
from gridgen.backends.interface import Sources
from gridgen.backends.process import side_by_side
from gridgen.errors import OptionError
from gridgen.functions.types import Dtype
from gridgen.kernel import Kernel
from gridgen.naming import show

# A constant modification time makes archives reproducible.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class CompileTarget:
    """Target of ahead-of-time compilation."""

    kind: str  #: processor or GPU architecture, such as ``x86-64-v3`` or ``sm_90``.
    machine: Machine | None = None  #: kind of computer; None for a GPU.


def parse_targets(words: Iterable[str]) -> tuple[CompileTarget, ...]:
    """Parse targets without duplicates: ``cpu=x86-64-v3,native``, ``aarch64-linux``, ``sm_90``.

    Raises:
        OptionError:  a target is unknown.
        CompileError: the compiler is missing.
    """
    found: dict[CompileTarget, None] = {}
    for word in words:
        name, _, kinds = word.partition("=")
        if name == "cpu" or name in MACHINES:
            machine = this_machine() if name == "cpu" else MACHINES[name]
            known = (*machine.processors, *([NATIVE] if name == "cpu" else ()))
            for kind in (kinds or (NATIVE if name == "cpu" else known[0])).split(","):
                if kind not in known:
                    raise OptionError(
                        f"{name}={kind}: no such processor; this compiler has {', '.join(known)}"
                    )
                found[CompileTarget(kind, machine)] = None
        elif word.startswith(("sm_", "compute_")):
            found[CompileTarget(word)] = None
        else:
            raise OptionError(
                f"no target {show(word)}; give cpu, cpu={NATIVE}, sm_90, or a machine: "
                f"{', '.join(MACHINES)}"
            )
    for target in found:
        if target.machine is not None:
            compiler_for(target.machine, BuildCache())
        else:
            from gridgen.backends.cuda.compiler import check_arch

            check_arch(target.kind)
    return tuple(found)


def compile_ahead(
    sources: Sources,
    kernels: Sequence[Kernel],
    dtypes: Sequence[Dtype],
    targets: Sequence[CompileTarget],
    progress: Callable[[str], None],
) -> dict[str, bytes]:
    """Compile a module and return its files with their manifest.

    Raises:
        CompileError: a compiler is missing, or rejects the source.
    """
    stacks: dict[str, list[Stack]] = {}
    gcc: dict[str, str] = {}  # its version by library
    made = [
        _library(sources, kernels, dtypes, machine, kind, progress, stacks, gcc)
        for machine in dict.fromkeys(target.machine for target in targets)
        if machine is not None
        for kind in (*machine.processors, NATIVE)  # the least capable first
        if CompileTarget(kind, machine) in targets
    ]
    made += [
        _archive(sources, kernels, dtypes, target.kind, progress)
        for target in targets
        if target.machine is None
    ]
    files = {file.file: data for file, data in made}
    if stacks:
        files[f"{sources.robot}_stack.h"] = stack_header(sources.robot, gcc, stacks).encode()
    files[MANIFEST] = manifest_text(tuple(file for file, _ in made)).encode()
    return files


def _library(
    sources: Sources,
    kernels: Sequence[Kernel],
    dtypes: Sequence[Dtype],
    machine: Machine,
    variant: str,
    progress: Callable[[str], None],
    stacks: dict[str, list[Stack]],
    gcc: dict[str, str],
) -> tuple[BuiltFile, bytes]:
    """Return the shared library for a processor architecture of a machine.

    GCC adds the stacks of its C functions to ``stacks``, and its version to ``gcc``.
    """
    others = () if machine.is_this else (machine.name,)
    own = [kernel for kernel in kernels if kernel.team is None]
    cache = BuildCache()
    tasks = {
        f"{kernel.name} ({dtype}) for {variant}": partial(
            object_file,
            sources,
            f"{kernel.name} ({dtype})",
            library_unit(sources.robot, kernel.name, dtype, is_over_time=kernel.is_over_time),
            FLAGS,
            machine,
            variant,
            cache,
        )
        for kernel in own
        for dtype in dtypes
    }
    for_casadi = f"{sources.robot}_casadi.cpp"
    if for_casadi in sources.files and "float64" in dtypes:
        unit = f'#include "{for_casadi}"\n'
        tasks[f"functions for CasADi for {variant}"] = partial(
            object_file, sources, "functions for CasADi", unit, FLAGS, machine, variant, cache
        )
    objects = list(side_by_side(tasks, progress))
    name = f"lib{'-'.join((sources.robot, *others, variant))}{machine.suffix}"
    if version := compiler_for(machine, cache).gcc:
        gcc[name] = version
        called = [(kernel, dtype) for kernel in own for dtype in dtypes]
        for (kernel, dtype), code in zip(called, objects, strict=False):
            if not kernel.is_over_time:
                function = symbol(sources.robot, kernel.name, dtype)
                graph = code.with_suffix(".ci").read_text(encoding="utf-8")
                stacks.setdefault(function, []).append(stack_of(graph, function))
    with tempfile.TemporaryDirectory(prefix="grid-gen-") as folder:
        link(objects, Path(folder) / name, machine, cache)
        data = (Path(folder) / name).read_bytes()
    file = BuiltFile(
        name,
        variant,
        hashlib.sha256(data).hexdigest(),
        tuple(kernel.name for kernel in own),
        tuple(dtypes),
        machine.system,
        machine.machine,
        processor() if variant == NATIVE else None,
    )
    return file, data


def _archive(
    sources: Sources,
    kernels: Sequence[Kernel],
    dtypes: Sequence[Dtype],
    arch: str,
    progress: Callable[[str], None],
) -> tuple[BuiltFile, bytes]:
    """Return the archive of kernels for a GPU architecture, with their row forms."""
    from gridgen.backends.cuda.compiler import compile_kernel

    selected = [
        (kernel.name, dtype, rows)
        for kernel in kernels
        for dtype in dtypes
        for rows in sources.forms(kernel.name)
    ]
    tasks = {
        f"{name}{' in rows' if rows else ''} ({dtype}) for {arch}": partial(
            compile_kernel, sources, name, dtype, arch, rows=rows
        )
        for name, dtype, rows in selected
    }
    records, buffer = {}, io.BytesIO()
    with ZipFile(buffer, "w", ZIP_DEFLATED) as archive:
        for (name, dtype, rows), kernel in zip(
            selected, side_by_side(tasks, progress), strict=True
        ):
            file = image_name(name, dtype, rows=rows)
            resources = kernel.resources and asdict(kernel.resources)
            records[file] = {"entry": kernel.entry, "resources": resources}
            _add(archive, file, kernel.image)
        _add(archive, RECORDS, json.dumps(records).encode())
    data = buffer.getvalue()
    names = tuple(kernel.name for kernel in kernels)
    digest = hashlib.sha256(data).hexdigest()
    return BuiltFile(f"{sources.robot}-{arch}.zip", arch, digest, names, tuple(dtypes)), data


def _add(archive: ZipFile, name: str, data: bytes) -> None:
    archive.writestr(ZipInfo(name, _NO_TIME), data, ZIP_DEFLATED)
