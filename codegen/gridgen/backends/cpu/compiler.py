"""The host's C++ compiler: found, identified, and run on generated text.

Generated code uses no C++ library, so any compiler will do, the one in the ``ziglang`` wheel too.

Where all code is in the cache, no program is started: what that takes is imported when used.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gridgen.backends import eviction
from gridgen.backends.cache import BuildCache, Part, cache_key
from gridgen.backends.cpu.processor import processor, runs_code_of
from gridgen.backends.interface import Sources
from gridgen.errors import CompileError
from gridgen.user_cache import private_folder

if TYPE_CHECKING:
    import subprocess

COMPILER_VARIABLE = "CXX"
_ON_PATH = ("c++", "g++", "clang++")
# Names of programs that are started under a compiler's name and look for the compiler themselves.
_DISPATCHERS = ("ccache", "sccache", "distcc", "icecc", "colorgcc")
# Zig would build its own C++ library from source (a minute) and add checks of undefined behavior.
_ZIG_FLAGS = ("-nostdlib++", "-fno-sanitize=undefined")
_NATIVE = "-march=native"
_LIBRARY = "kernel.so"
_OBJECT = "kernel.o"
_PROCESSOR = "processor.json"
_INSTALL = "install g++ or clang++, or the compiler wheel: pip install ziglang"


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


def host_compiler(cache: BuildCache | None = None) -> Compiler:
    """Return the compiler to use: ``$CXX``, one on the path, else the ``ziglang`` wheel.

    Args:
        cache: where its identity is kept; by default the user's cache folder.

    Raises:
        CompileError: there is none, or ``$CXX`` does not work.
    """
    folder = (cache or BuildCache()).folder
    return _find_compiler(os.environ.get(COMPILER_VARIABLE, ""), os.environ.get("PATH", ""), folder)


@functools.lru_cache(maxsize=4)
def _find_compiler(named: str, path: str, folder: Path) -> Compiler:
    """Identify the candidates once for each state of the environment that decides the choice."""
    cache = BuildCache(folder)
    if words := _words(named):
        # Further words may name a program that the first one starts: ccache g++.
        is_alone = all(word.startswith("-") for word in words[1:])
        program = _which(words[0], path) if is_alone else None
        if compiler := _identify(words, program, cache):
            return compiler
        raise CompileError(
            f'${COMPILER_VARIABLE} is "{named}", which does not run as a C++ compiler: correct or '
            f"unset it, or {_INSTALL}"
        )
    for name in _ON_PATH:
        if (found := _which(name, path)) and (compiler := _identify((found,), found, cache)):
            return compiler
    if (wheel := importlib.util.find_spec("ziglang")) is not None:
        program = str(Path(wheel.origin).with_name("zig")) if wheel.origin else None
        if compiler := _identify((sys.executable, "-m", "ziglang", "c++"), program, cache):
            return compiler
    raise CompileError(
        f"no C++ compiler: ${COMPILER_VARIABLE} is not set, none of {', '.join(_ON_PATH)} is on "
        f"the path, and the ziglang wheel is not installed; {_INSTALL}"
    )


def _words(named: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(named))
    except ValueError as error:
        raise CompileError(
            f"${COMPILER_VARIABLE} is {shlex.quote(named)}, which is no command ({error}): correct "
            f"or unset it, or {_INSTALL}"
        ) from None


def _which(name: str, path: str) -> str | None:
    import shutil

    return shutil.which(name, path=path)


def _identify(command: tuple[str, ...], program: str | None, cache: BuildCache) -> Compiler | None:
    """Return the compiler that ``command`` starts, or ``None`` if it starts none.

    Asking it takes a process, so the answer is kept for as long as neither compiler nor processor
    change. Should another compiler escape notice, a library's key names the former one; the library
    has been made for this kind of processor all the same.

    Args:
        command: the words that start it.
        program: the file that compiles, if that is known.
        cache:   where the answer is kept.
    """
    file, kind = _file_state(program), processor()
    if file is None or kind is None:
        identity = _probe(command)
    else:
        key = cache_key(kind="compiler", command=command, file=file, processor=kind)
        identity = cache.text(key, functools.partial(_probe, command))
    if identity is None:
        return None
    is_zig = any(Path(word).name in ("zig", "ziglang") for word in command)
    return Compiler(command, _ZIG_FLAGS if is_zig else (), identity)


def _probe(command: tuple[str, ...]) -> str | None:
    """Return the digest of a compiler's predefined macros, or ``None`` if it is no compiler."""
    import tempfile

    # With -march=native the macros name the processor's features as the compiler sees them: two
    # machines that share a home folder share an entry exactly when they may run the same code.
    with tempfile.TemporaryDirectory(prefix="grid-gen-") as store:
        macros = _run((*command, _NATIVE, "-E", "-dM", "-x", "c++", os.devnull), store)
    if macros is None or macros.returncode != 0 or "__cplusplus" not in macros.stdout:
        return None
    text = "\n".join(sorted(macros.stdout.splitlines()))
    return hashlib.sha256(text.encode()).hexdigest()


def _file_state(program: str | None) -> tuple[str, ...] | None:
    """Return place, size and time of a compiler's file, or ``None`` where that says too little.

    A script, or a program like ``ccache``, stays the same when the compiler behind it is replaced.
    """
    if program is None:
        return None
    path = os.path.realpath(program)
    if Path(path).name in _DISPATCHERS:
        return None
    try:
        with open(path, "rb") as file:
            if file.read(2) == b"#!":
                return None
            status = os.fstat(file.fileno())
    except OSError:
        return None
    return path, str(status.st_size), str(status.st_mtime_ns)


def _run(command: Sequence[str], store: str) -> subprocess.CompletedProcess[str] | None:
    from gridgen.backends.process import run

    environment = dict(os.environ, LC_ALL="C")  # messages are read by the program first
    # Zig keeps a store of its own, by default below the home folder, which may be read-only.
    environment.setdefault("ZIG_GLOBAL_CACHE_DIR", store)
    try:
        return run(command, environment)
    except OSError:
        return None


def host_entry(
    build: Callable[[Compiler, str, Path], None], cache: BuildCache, **parts: Part
) -> Path:
    """Return the entry of code from the host's compiler, made now or found in the cache.

    Where there is no compiler, what another one has made for such a processor serves as well.

    Args:
        build: fills an empty folder: takes the compiler, the entry's key and that folder.
        cache: where entries are kept.
        parts: what decides the outcome, the compiler apart.

    Raises:
        CompileError: there is no compiler and no such entry, or the build failed.
    """
    made = cache_key(**parts)
    try:
        compiler = host_compiler(cache)
    except CompileError:
        for entry in cache.variants(made):
            if runs_code_of(json.loads((entry / _PROCESSOR).read_bytes())):
                return entry
        raise
    by = cache_key(compiler=compiler.label, identity=compiler.identity, flags=compiler.flags)
    key = f"{made}.{by[:16]}"

    def build_and_note(entry: Path) -> None:
        build(compiler, key, entry)
        (entry / _PROCESSOR).write_text(json.dumps(processor()), encoding="utf-8")

    return cache.entry(key, build_and_note)


def shared_library(
    sources: Sources, function: str, unit: str, flags: tuple[str, ...], cache: BuildCache
) -> Path:
    """Return a shared library made of one translation unit, compiled now or found in the cache.

    Args:
        sources:  the module, with the headers that the unit includes.
        function: the function asked for, with its element type, for messages.
        unit:     text of the translation unit.
        flags:    compiler flags beside those every shared library needs.
        cache:    where libraries are kept.
    """
    flags = ("-shared", "-fPIC", _NATIVE, *flags)
    return _compiled(sources, function, unit, flags, cache, _LIBRARY)


def object_file(
    sources: Sources,
    function: str,
    unit: str,
    flags: tuple[str, ...],
    variant: str,
    cache: BuildCache,
) -> Path:
    """Return an object file made of one translation unit, as ``shared_library``.

    ``variant`` is the kind of processor to compile for, as ``-march`` takes it.
    """
    is_zig = bool(host_compiler(cache).flags)
    kind = variant.replace("-", "_") if is_zig else variant  # as Zig spells them
    flags = ("-c", "-fPIC", f"-march={kind}", *flags)
    return _compiled(sources, function, unit, flags, cache, _OBJECT)


def link(objects: Sequence[Path], library: Path, cache: BuildCache) -> None:
    """Link object files to a shared library that needs no library of C++.

    Raises:
        CompileError: the compiler cannot link them.
    """
    compiler = host_compiler(cache)
    of_linux = ("-Wl,--as-needed", "-Wl,-s") if sys.platform == "linux" else ()
    words = (*compiler.command, *compiler.flags, "-shared", *of_linux, *map(str, objects))
    result = _run((*words, "-o", str(library)), f"{library.parent}/zig")
    if result is None or result.returncode != 0:
        log = result.stderr if result else "it no longer runs"
        raise CompileError(f"{library.name}: {compiler.label} cannot link it: {log[:2000]}")


def _compiled(
    sources: Sources,
    function: str,
    unit: str,
    flags: tuple[str, ...],
    cache: BuildCache,
    name: str,
) -> Path:
    """Return what a translation unit is compiled to, a file of that name in the cache."""
    used = sources.included_by(unit)
    files = {**used.files, "unit.cpp": unit}

    def build(compiler: Compiler, key: str, entry: Path) -> None:
        import tempfile

        with tempfile.TemporaryDirectory(prefix="grid-gen-") as folder:
            _write(files, Path(folder))
            words = (*compiler.command, *compiler.flags, *flags, f"{folder}/unit.cpp")
            store = _zig_store(entry.parent, is_zig=bool(compiler.flags))
            result = _run((*words, "-o", f"{entry}/{name}"), store)
        if result is None or result.returncode != 0:
            from gridgen.backends.diagnostics import compile_error

            raise compile_error(
                robot=sources.robot,
                function=function,
                compiler=compiler.label,
                log=result.stderr if result else "it no longer runs",
                files=files,
                keep=functools.partial(cache.save_failure, key),
            )

    return host_entry(build, cache, kind="host", files=used.digest, unit=unit, flags=flags) / name


def _zig_store(folder: Path, *, is_zig: bool) -> str:
    """Return the place of Zig's own cache, in this user's; note that it is used now."""
    store = folder / eviction.ZIG
    if is_zig or store.exists():  # a script that starts Zig has it made by Zig
        eviction.mark_used(private_folder(store))
    return str(store)


def _write(files: Mapping[str, str], folder: Path) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
