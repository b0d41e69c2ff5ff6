"""C++ of the benchmarks, compiled by the compiler that gridgen itself would use, and kept."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gridgen.backends.cpu.compiler import host_compiler

#: Where what is compiled is kept.
BUILT = Path(__file__).resolve().parents[1] / "build" / "benchmarks"
#: The flags that peers are compiled with.
OPTIMIZED = ("-O3", "-march=native", "-DNDEBUG")
# What did not compile, and why: no second attempt.
_REFUSED: dict[Path, str] = {}
#: Whether to compile what takes minutes.
patient = True


class Unavailable(Exception):
    """A peer cannot be measured here, for the reason given."""


def compiled(
    source: Path,
    flags: Sequence[str] = (),
    headers: Sequence[Path] = (),
    *,
    takes_minutes: bool = False,
    optimized: Sequence[str] = OPTIMIZED,
) -> ctypes.CDLL:
    """Return the shared library made of one source file.

    Args:
        source:  the file.
        flags:   compiler flags beside ``optimized``.
        headers: those of this folder that the file includes.
        takes_minutes: whether the user is to be asked first.
        optimized: the flags that make code fast.

    Raises:
        Unavailable: the compiler refused it, or has not been asked yet.
    """
    compiler = host_compiler()
    options = (*optimized, "-std=c++17", "-shared", "-fPIC", "-w", *compiler.flags, *flags)
    texts = [path.read_text(encoding="utf-8") for path in (source, *headers)]
    parts = (*texts, *options, compiler.label, compiler.identity)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    library = BUILT / f"{source.stem}-{key}.so"
    if library in _REFUSED:
        raise Unavailable(_REFUSED[library])
    if not library.exists():
        if takes_minutes and not patient:
            raise Unavailable(
                "not compiled yet: `python benchmarks/cpu.py --quick --compile` takes a minute and "
                "3 GB of memory for each function, once"
            )
        print(f"compiling {source.name} ...", file=sys.stderr, flush=True)
        BUILT.mkdir(parents=True, exist_ok=True)
        unfinished = library.with_suffix(f".{os.getpid()}")
        command = (*compiler.command, *options, str(source), "-o", str(unfinished))
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            _REFUSED[library] = f"{source.name} does not compile: {result.stderr[:2000]}"
            raise Unavailable(_REFUSED[library])
        unfinished.rename(library)
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:  # a compiler with another library of C++ than that it is linked with
        _REFUSED[library] = f"{source.name} cannot be loaded: {error}"
        raise Unavailable(_REFUSED[library]) from None


def installed(path: str) -> Path | None:
    """Return a file or folder that lies somewhere below the folders of ``sys.path``."""
    found = (Path(folder) / path for folder in sys.path)
    return next((place for place in found if place.exists()), None)


def pointers(arrays: Sequence[np.ndarray]) -> ctypes.Array[ctypes.c_void_p]:
    """Return the addresses of arrays, which must outlive them."""
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
