"""Compile CUDA kernels to libraries and programs of the host, with its C++ compiler."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gridgen.backends.cache import BuildCache, cache_key
from gridgen.backends.cpu.compiler import Compiler, host_entry
from gridgen.backends.interface import SCALARS, Sources, kernel_name, only
from gridgen.backends.process import compile_error, run
from gridgen.functions.types import Dtype
from gridgen.template_root import static_text

#: Headers that emulate CUDA, in addition to a module's files.
HEADERS = (
    "emulated_cuda.h",
    "emulated_kernel.h",
    "emulated_team.h",
    "emulated_fiber.h",
    "emulated_memory.h",
)
#: Runtime that every kernel is linked with.
RUNTIME = "emulated_runtime.cpp"

FLAGS = (
    "-std=c++17",
    "-g",
    "-O1",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fvisibility=hidden",  # static shared variables of two libraries must not become one
    "-fPIC",
)
_RUNTIME_FLAGS = ("-std=c++20", "-O1", "-fno-exceptions", "-fvisibility=hidden", "-fPIC", "-c")
# Zig removes its headers of C++ along with the library.
_NO_LIBRARY = "-nostdlib++"


def translation_unit(robot: str, function: str, dtype: Dtype, *, rows: bool = False) -> str:
    """Return the translation unit of one kernel, for a library or a program."""
    name = kernel_name(robot, function, rows=rows)
    kernel = f"gridgen::emulated::Called<::{name}<{SCALARS[dtype]}>>"
    return (
        "".join(f"#define {macro}\n" for macro in only(function)) + '#include "emulated_cuda.h"\n'
        "\n"
        f'#include "{robot}.cu"\n'
        "\n"
        f"const gridgen::emulated::Entry gridgen::emulated::kernel = {{\n"
        f"    {kernel}::arrays,\n"
        f"    {kernel}::run,\n"
        "};\n"
    )


@dataclass(frozen=True)
class Unit:
    """A translation unit."""

    name: str  #: name in messages.
    text: str  #: source text.
    sources: Sources  #: files that it may include.
    flags: tuple[str, ...]  #: compiler flags.
    output: str  #: name of the output file.
    linked: Unit | None = None  #: another unit that is linked with it.

    def digest(self) -> str:
        """Return the digest of all inputs of the compilation except the compiler."""
        return cache_key(
            text=self.text,
            files=self.sources.included_by(self.text).digest,
            flags=self.flags,
            linked=self.linked.digest() if self.linked else "",
        )


def build(
    sources: Sources,
    name: str,
    text: str,
    flags: tuple[str, ...],
    cache: BuildCache,
    runtime_flags: tuple[str, ...] = (),
) -> Path:
    """Return a library or program from the cache, with its sources; compile it if absent.

    Raises:
        CompileError: no compiler is available, or it rejects the source.
    """
    headers = {name: static_text(name) for name in HEADERS}
    all_files = Sources(sources.robot, {**sources.files, **headers})
    own = (*_RUNTIME_FLAGS, *runtime_flags)
    runtime = Unit(RUNTIME, static_text(RUNTIME), all_files, own, "runtime.o")
    unit = Unit(name, text, all_files, flags, "kernel", runtime)
    return _compiled(unit, cache)


def _compiled(unit: Unit, cache: BuildCache) -> Path:
    files = {**unit.sources.included_by(unit.text).files, "unit.cpp": unit.text}

    def compile_unit(compiler: Compiler, key: str, entry: Path) -> None:
        linked = (str(_compiled(unit.linked, cache)),) if unit.linked else ()
        for name, text in files.items():
            (entry / name).write_text(text, encoding="utf-8")
        # The folder is renamed when it is complete; debug information uses the final path.
        renamed = f"-ffile-prefix-map={entry}={entry.parent / key}"
        own = (flag for flag in compiler.flags if unit.linked or flag != _NO_LIBRARY)
        command = (
            *compiler.command,
            *own,
            *compiler.native,
            *unit.flags,
            renamed,
            str(entry / "unit.cpp"),
        )
        words = (*command, *linked, "-o", str(entry / unit.output))
        result = run(words, dict(os.environ, LC_ALL="C"))
        if result.returncode != 0:
            raise compile_error(
                robot=unit.sources.robot,
                function=unit.name,
                compiler=compiler.label,
                log=result.stderr,
                files=files,
                keep=partial(cache.save_failure, key),
                status=result.returncode,
            )

    return host_entry(compile_unit, cache, kind="emulated", unit=unit.digest()) / unit.output
