"""The host's C++ compiler: found, identified, and run on generated text.

Generated code uses no C++ library, so any compiler will do, the one in the ``ziglang`` wheel too.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridgen.backends.cache import BuildCache, cache_key
from gridgen.backends.diagnostics import compile_error
from gridgen.backends.interface import Sources
from gridgen.errors import CompileError

COMPILER_VARIABLE = "CXX"
_ON_PATH = ("c++", "g++", "clang++")
# Zig would build its own C++ library from source (a minute) and add checks of undefined behaviour.
_ZIG_FLAGS = ("-nostdlib++", "-fno-sanitize=undefined")
_NATIVE = "-march=native"
_LIBRARY = "kernel.so"
_INSTALL = "install g++ or clang++, or the compiler wheel: pip install 'grid-gen[zig]'"


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler that works on this machine.

    Attributes:
        command:  the words that start it.
        flags:    flags that this compiler always needs.
        identity: digest of its predefined macros: version, and features of this very processor.
    """

    command: tuple[str, ...]
    flags: tuple[str, ...]
    identity: str

    @property
    def label(self) -> str:
        """The compiler's name for messages."""
        return shlex.join(self.command)


def host_compiler() -> Compiler:
    """Return the compiler to use: ``$CXX``, one on the path, else the ``ziglang`` wheel.

    Raises:
        CompileError: there is none, or ``$CXX`` does not work.
    """
    return _find_compiler(os.environ.get(COMPILER_VARIABLE, ""), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=4)
def _find_compiler(named: str, path: str) -> Compiler:
    """Probe the candidates once for each state of the environment that decides the choice."""
    if words := tuple(shlex.split(named)):
        if compiler := _probe(words):
            return compiler
        raise CompileError(
            f'${COMPILER_VARIABLE} is "{named}", which does not run as a C++ compiler: correct or '
            f"unset it, or {_INSTALL}"
        )
    for name in _ON_PATH:
        if (found := shutil.which(name, path=path)) and (compiler := _probe((found,))):
            return compiler
    if importlib.util.find_spec("ziglang") is not None:
        if compiler := _probe((sys.executable, "-m", "ziglang", "c++")):
            return compiler
    raise CompileError(
        f"no C++ compiler: ${COMPILER_VARIABLE} is not set, none of {', '.join(_ON_PATH)} is on "
        f"the path, and the ziglang wheel is not installed; {_INSTALL}"
    )


def _probe(command: tuple[str, ...]) -> Compiler | None:
    """Return the compiler that ``command`` starts, or ``None`` if it starts none."""
    # With -march=native the macros name the processor's features as the compiler sees them: two
    # machines that share a home folder share an entry exactly when they may run the same code.
    with tempfile.TemporaryDirectory(prefix="grid-gen-") as store:
        macros = _run((*command, _NATIVE, "-E", "-dM", "-x", "c++", os.devnull), store)
    if macros is None or macros.returncode != 0 or "__cplusplus" not in macros.stdout:
        return None
    text = "\n".join(sorted(macros.stdout.splitlines()))
    is_zig = any(Path(word).name in ("zig", "ziglang") for word in command)
    return Compiler(
        command, _ZIG_FLAGS if is_zig else (), hashlib.sha256(text.encode()).hexdigest()
    )


def _run(command: Sequence[str], store: str) -> subprocess.CompletedProcess[str] | None:
    environment = dict(os.environ, LC_ALL="C")  # messages are read by the program first
    # Zig keeps a store of its own, by default below the home folder, which may be read-only.
    environment.setdefault("ZIG_GLOBAL_CACHE_DIR", store)
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            check=False,
        )
    except OSError:
        return None


def shared_library(
    sources: Sources, function: str, unit: str, flags: tuple[str, ...], cache: BuildCache
) -> Path:
    """Return a shared library made of one translation unit, compiled now or found in the cache.

    Args:
        sources:  the headers that the unit includes.
        function: the function asked for, with its element type, for messages.
        unit:     text of the translation unit.
        flags:    compiler flags beside those every shared library needs.
        cache:    where libraries are kept.
    """
    compiler = host_compiler()
    flags = ("-shared", "-fPIC", _NATIVE, *compiler.flags, *flags)
    files = {**sources.files, "unit.cpp": unit}
    key = cache_key(
        kind="host",
        files=sources.digest,
        unit=unit,
        compiler=compiler.label,
        identity=compiler.identity,
        flags=flags,
    )

    def build(entry: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="grid-gen-") as folder:
            _write(files, Path(folder))
            command = (*compiler.command, *flags, f"{folder}/unit.cpp", "-o", f"{entry}/{_LIBRARY}")
            result = _run(command, f"{entry.parent}/zig")
        if result is None or result.returncode != 0:
            raise compile_error(
                robot=sources.robot,
                function=function,
                compiler=compiler.label,
                log=result.stderr if result else "it no longer runs",
                files=files,
                kept=cache.keep_failure(key, files),
            )

    return cache.entry(key, build) / _LIBRARY


def _write(files: Mapping[str, str], folder: Path) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
