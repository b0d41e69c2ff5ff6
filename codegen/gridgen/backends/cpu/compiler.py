"""Find, identify and run C++ compilers: the host's, and those for other machines.

Generated code uses no C++ library, so any compiler works, including the ``ziglang`` wheel. If all
code is in the cache, no process is started, and modules for processes are imported lazily.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gridgen.backends import eviction
from gridgen.backends.cache import BuildCache, Part, cache_key
from gridgen.backends.cpu.processor import BROWSER, Machine, flags_of, processor, runs_code_of
from gridgen.backends.interface import Sources
from gridgen.errors import CompileError
from gridgen.user_cache import private_folder

if TYPE_CHECKING:
    import subprocess

COMPILER_VARIABLE = "CXX"
_ON_PATH = ("c++", "g++", "clang++")
# Wrappers that can run under a compiler's name and search for the compiler themselves.
_DISPATCHERS = ("ccache", "sccache", "distcc", "icecc", "colorgcc")
# Zig would build its own C++ library from source (a minute) and add checks of undefined behavior.
_ZIG_FLAGS = ("-nostdlib++", "-fno-sanitize=undefined")
_NATIVE = "-march=native"
_LIBRARY = "kernel.so"
_WASM = "kernel.wasm"
# No symbols but exported ones; callers place arrays at the address of the heap.
_WASM_FLAGS = ("-s", "-Wl,--no-entry", "-Wl,--export-dynamic", "-Wl,--export=__heap_base")
_OBJECT = "kernel.o"
_PROCESSOR = "processor.json"
# Call graphs with the size of each frame, next to the object file. GCC 10 writes them elsewhere.
_GRAPHS = "-fcallgraph-info=su"
_GCC_WITH_GRAPHS = 11
_INSTALL = "install g++ or clang++, or the compiler wheel: pip install ziglang"


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler that works on this machine."""

    command: tuple[str, ...]  #: command line.
    flags: tuple[str, ...]  #: flags that this compiler always requires.
    native: tuple[str, ...]  #: flags for this processor: none where GCC does not know it (RISC-V).
    identity: str  #: digest of its predefined macros (version, processor's features), other fields.
    gcc: str = ""  #: version of GCC, if it writes call graphs.

    @property
    def label(self) -> str:
        """Name of the compiler in messages."""
        return shlex.join(self.command)


def host_compiler(cache: BuildCache | None = None) -> Compiler:
    """Return the compiler: ``$CXX``, one on the path, else the ``ziglang`` wheel.

    Raises:
        CompileError: no compiler is available, or ``$CXX`` does not work.
    """
    folder = (cache or BuildCache()).folder
    return _find_compiler(os.environ.get(COMPILER_VARIABLE, ""), os.environ.get("PATH", ""), folder)


@functools.lru_cache(maxsize=4)
def _find_compiler(named: str, path: str, folder: Path) -> Compiler:
    """Identify the candidates, cached by the environment variables that affect the choice."""
    cache = BuildCache(folder)
    if words := _words(named):
        # The command may be a wrapper and its compiler: ccache g++.
        is_alone = all(word.startswith("-") for word in words[1:])
        program = _which(words[0], path) if is_alone else None
        if compiler := _identify(words, program, cache):
            return compiler
        raise CompileError(
            f'${COMPILER_VARIABLE} is "{named}", which does not run as a C++ compiler: correct or '
            f"unset it, or {_INSTALL}"
        )
    if compiler := _found(_ON_PATH, (), path, cache):
        return compiler
    raise CompileError(
        f"no C++ compiler: ${COMPILER_VARIABLE} is not set, none of {', '.join(_ON_PATH)} is on "
        f"the path, and the ziglang wheel is not installed; {_INSTALL}"
    )


def _found(
    names: Sequence[str], of_zig: tuple[str, ...], path: str, cache: BuildCache
) -> Compiler | None:
    """Return the first compiler of some names on the path, else the wheel's with some flags."""
    for name in names:
        if (found := _which(name, path)) and (compiler := _identify((found,), found, cache)):
            return compiler
    if (wheel := importlib.util.find_spec("ziglang")) is not None:
        program = str(Path(wheel.origin).with_name("zig")) if wheel.origin else None
        return _identify((sys.executable, "-m", "ziglang", "c++", *of_zig), program, cache)
    return None


def compiler_for(machine: Machine, cache: BuildCache) -> Compiler:
    """Return the compiler for a kind of machine; for this machine's kind, ``host_compiler``.

    It is ``$CXX`` if that compiles for the machine, GCC's cross compiler, or the ``ziglang`` wheel.

    Raises:
        CompileError: no compiler is available.
    """
    if machine.is_this:
        return host_compiler(cache)
    path, named = os.environ.get("PATH", ""), _words(os.environ.get(COMPILER_VARIABLE, ""))
    store = str(cache.folder / eviction.ZIG)
    if named and (target := _run((*named, "-dumpmachine"), store)) is not None:
        first = machine.gnu.partition("-")[0]
        if first and target.stdout.startswith(first):
            if compiler := _identify(named, None, cache):
                return compiler
    names = (f"{machine.gnu}-g++",) if machine.gnu else ()
    if compiler := _found(names, (f"--target={machine.zig}",), path, cache):
        return compiler
    raise CompileError(
        f"no compiler for {machine.name}: "
        + (f"{names[0]} is not on the path, and " if names else "")
        + "the ziglang wheel is not installed: pip install ziglang"
    )


def _words(named: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(named))
    except ValueError as error:
        raise CompileError(
            f"${COMPILER_VARIABLE} is {shlex.quote(named)}, which is not a command ({error}): "
            f"correct or unset it, or {_INSTALL}"
        ) from None


def _which(name: str, path: str) -> str | None:
    import shutil

    return shutil.which(name, path=path)


def _identify(command: tuple[str, ...], program: str | None, cache: BuildCache) -> Compiler | None:
    """Return the compiler of a command, or ``None`` if the command is not a compiler.

    The query needs a process, so its result is cached while compiler and processor are unchanged.
    If a change of compiler goes undetected, a library's key refers to the previous compiler, but
    the library still matches this processor.
    """
    file, kind = _file_state(program), processor()
    if file is None or kind is None:
        identity = _probe(command)
    else:
        # The kind names the words, so that texts with other words have other keys.
        known = "digest, version of GCC, flags"
        key = cache_key(kind=known, command=command, file=file, processor=kind)
        identity = cache.text(key, functools.partial(_probe, command))
    if identity is None:
        return None
    is_zig = any(Path(word).name in ("zig", "ziglang") for word in command)
    _, gcc, *native = identity.split()
    return Compiler(command, _ZIG_FLAGS if is_zig else (), tuple(native), identity, gcc.strip("-"))


def _probe(command: tuple[str, ...]) -> str | None:
    """Return what identifies a compiler.

    Returns:
        Digest of its predefined macros, version of GCC or ``-``, flags for this processor, with
        spaces between them; ``None`` if the command is not a compiler.
    """
    import tempfile

    # With -march=native the macros include the processor's features, so machines that share a home
    # folder share an entry only if they can run the same code.
    with tempfile.TemporaryDirectory(prefix="grid-gen-") as store:
        for native in ((_NATIVE,), ()):
            words = (*command, *native, "-E", "-dM", "-x", "c++", os.devnull)
            macros = _run(words, store)
            if macros is None:
                return None
            if macros.returncode == 0 and "__cplusplus" in macros.stdout:
                text = "\n".join(sorted(macros.stdout.splitlines()))
                gcc = re.search(r'__VERSION__ "(\d+)\.\S*', text)
                has_graphs = gcc and int(gcc[1]) >= _GCC_WITH_GRAPHS and "__clang__" not in text
                version = gcc[0].split('"')[1] if gcc and has_graphs else "-"
                return " ".join((hashlib.sha256(text.encode()).hexdigest(), version, *native))
    return None


def _file_state(program: str | None) -> tuple[str, ...] | None:
    """Return path, size and time of a compiler's file, or ``None`` for a script or wrapper.

    A script, or a wrapper like ``ccache``, does not change when its compiler is replaced.
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

    environment = dict(os.environ, LC_ALL="C")  # messages are parsed
    # Zig has its own cache, by default in the home folder, which may be read-only.
    environment.setdefault("ZIG_GLOBAL_CACHE_DIR", store)
    try:
        return run(command, environment)
    except OSError:
        return None


def host_entry(
    build: Callable[[Compiler, str, Path], None],
    cache: BuildCache,
    find: Callable[[BuildCache], Compiler] = host_compiler,
    **parts: Part,
) -> Path:
    """Return a cache entry of code from the host's compiler; build it if it is absent.

    Without a compiler, use an entry from another compiler for a compatible processor.

    Args:
        build: writes the entry; arguments are the compiler, the entry's key and an empty folder.
        cache: cache of the entries.
        find:  finds the compiler.
        parts: inputs of the build except the compiler.

    Raises:
        CompileError: neither a compiler nor an entry is available, or the build fails.
    """
    made = cache_key(**parts)
    try:
        compiler = find(cache)
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
    """Return the shared library of a translation unit from the cache; compile it if absent."""
    flags = ("-shared", "-fPIC", *flags)
    return _compiled(sources, function, unit, flags, cache, _LIBRARY)


def webassembly(
    sources: Sources, function: str, unit: str, flags: tuple[str, ...], cache: BuildCache
) -> Path:
    """Return the WebAssembly module of a translation unit, like ``shared_library``."""
    flags = (*flags_of(BROWSER.processors[0], is_zig=True), *_WASM_FLAGS, *flags)
    find = functools.partial(compiler_for, BROWSER)
    return _compiled(sources, function, unit, flags, cache, _WASM, find)


def object_file(
    sources: Sources,
    function: str,
    unit: str,
    flags: tuple[str, ...],
    machine: Machine,
    variant: str,
    cache: BuildCache,
) -> Path:
    """Return the object file of a translation unit, like ``shared_library``.

    ``variant`` is the processor architecture, as in ``-march``. GCC writes a call graph next to it,
    with the ending ``.ci``.
    """
    find = functools.partial(compiler_for, machine)
    compiler = find(cache)
    graphs = (_GRAPHS,) if compiler.gcc else ()
    flags = ("-c", "-fPIC", *graphs, *flags_of(variant, is_zig=bool(compiler.flags)), *flags)
    return _compiled(sources, function, unit, flags, cache, _OBJECT, find)


def link(objects: Sequence[Path], library: Path, machine: Machine, cache: BuildCache) -> None:
    """Link object files to a shared library without C++ libraries.

    Raises:
        CompileError: the linker fails.
    """
    compiler = compiler_for(machine, cache)
    of_linux = ("-Wl,--as-needed", "-Wl,-s") if machine.system.startswith("linux") else ()
    words = (*compiler.command, *compiler.flags, "-shared", *of_linux, *map(str, objects))
    result = _run((*words, "-o", str(library)), f"{library.parent}/zig")
    if result is None or result.returncode != 0:
        log = result.stderr if result else "the compiler no longer runs"
        raise CompileError(f"{library.name}: {compiler.label} cannot link it: {log[:2000]}")


def _compiled(
    sources: Sources,
    function: str,
    unit: str,
    flags: tuple[str, ...],
    cache: BuildCache,
    name: str,
    find: Callable[[BuildCache], Compiler] = host_compiler,
) -> Path:
    """Return the output file ``name`` of a translation unit in the cache."""
    used = sources.included_by(unit)
    files = {**used.files, "unit.cpp": unit}

    def build(compiler: Compiler, key: str, entry: Path) -> None:
        import tempfile

        with tempfile.TemporaryDirectory(prefix="grid-gen-") as folder:
            _write(files, Path(folder))
            is_native = not any(flag.startswith(("-march=", "-mcpu=")) for flag in flags)
            own = (*compiler.flags, *(compiler.native if is_native else ()))
            words = (*compiler.command, *own, *flags, f"{folder}/unit.cpp")
            store = _zig_store(entry.parent, is_zig=bool(compiler.flags))
            result = _run((*words, "-o", f"{entry}/{name}"), store)
        if result is None or result.returncode != 0:
            from gridgen.backends.process import compile_error

            raise compile_error(
                robot=sources.robot,
                function=function,
                compiler=compiler.label,
                log=result.stderr if result else "the compiler no longer runs",
                files=files,
                keep=functools.partial(cache.save_failure, key),
                status=result.returncode if result else 1,
            )

    parts: dict[str, Part] = {"files": used.digest, "unit": unit, "flags": flags}
    return host_entry(build, cache, find, kind="host", **parts) / name


def _zig_store(folder: Path, *, is_zig: bool) -> str:
    """Return the folder of Zig's cache, and set its time of use."""
    store = folder / eviction.ZIG
    if is_zig or store.exists():  # a script can start Zig too
        eviction.mark_used(private_folder(store))
    return str(store)


def _write(files: Mapping[str, str], folder: Path) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
