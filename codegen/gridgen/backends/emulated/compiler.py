"""Kernels to libraries and programs of the host, with its C++ compiler."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gridgen.backends.cache import BuildCache, cache_key
from gridgen.backends.cpu.compiler import Compiler, host_entry
from gridgen.backends.diagnostics import compile_error
from gridgen.backends.interface import SCALARS, Sources, kernel_name, only
from gridgen.backends.process import run
from gridgen.functions.types import Dtype
from gridgen.template_root import static_text

#: What stands for CUDA; a module's own files do not need it.
HEADERS = (
    "emulated_cuda.h",
    "emulated_kernel.h",
    "emulated_team.h",
    "emulated_fiber.h",
    "emulated_memory.h",
)
#: What every kernel is linked with.
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
_RUNTIME_FLAGS = ("-std=c++20", "-O1", "-fvisibility=hidden", "-fPIC", "-c")
# The emulation needs a C++ standard library, which other generated code does without.
_UNWANTED = "-nostdlib++"


def translation_unit(robot: str, function: str, dtype: Dtype, *, rows: bool = False) -> str:
    """Return the text that instantiates one kernel of a module and makes it a program too."""
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
    """A translation unit.

    Attributes:
        name:    what it is, for messages.
        text:    its text.
        sources: files that it may include.
        flags:   compiler flags.
        output:  name of the file that the compiler makes of it.
        linked:  another one that is linked with it.
    """

    name: str
    text: str
    sources: Sources
    flags: tuple[str, ...]
    output: str
    linked: Unit | None = None

    def digest(self) -> str:
        """Return the digest of all that decides what becomes of it, the compiler apart."""
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
    """Return a library or program, compiled now or found in the cache with its sources.

    Args:
        sources:  files that the text includes, except ``HEADERS``.
        name:     what it is, for messages.
        text:     the translation unit.
        flags:    of the compiler.
        cache:    where libraries and programs are stored.
        runtime_flags: those of the emulation's own code, beside the usual ones.

    Raises:
        CompileError: there is no compiler, or it refused the text.
    """
    headers = {name: static_text(name) for name in HEADERS}
    all_files = Sources(sources.robot, {**sources.files, **headers})
    own = (*_RUNTIME_FLAGS, *runtime_flags)
    runtime = Unit(RUNTIME, static_text(RUNTIME), all_files, own, "runtime.o")
    flags = ("-march=native", *flags)
    unit = Unit(name, text, all_files, flags, "kernel", runtime)
    return _compiled(unit, cache)


def _compiled(unit: Unit, cache: BuildCache) -> Path:
    files = {**unit.sources.included_by(unit.text).files, "unit.cpp": unit.text}

    def compile_unit(compiler: Compiler, key: str, entry: Path) -> None:
        linked = (str(_compiled(unit.linked, cache)),) if unit.linked else ()
        for name, text in files.items():
            (entry / name).write_text(text, encoding="utf-8")
        # The folder is renamed when it is complete; debuggers shall look under the lasting name.
        renamed = f"-ffile-prefix-map={entry}={entry.parent / key}"
        own = (flag for flag in compiler.flags if flag != _UNWANTED)
        command = (*compiler.command, *own, *unit.flags, renamed, str(entry / "unit.cpp"))
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
            )

    return host_entry(compile_unit, cache, kind="emulated", unit=unit.digest()) / unit.output
