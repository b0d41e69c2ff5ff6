"""A module written by hand, small enough to be compiled in every test."""

from __future__ import annotations

import ctypes
import shlex
from pathlib import Path

import numpy as np
import pytest

from gridgen.backends.cache import FOLDER_VARIABLE, BuildCache
from gridgen.backends.cpu.compiler import COMPILER_VARIABLE, host_compiler
from gridgen.backends.interface import Sources
from gridgen.emit.render import shared_headers

TOY = Path(__file__).parent / "toy"


@pytest.fixture
def toy():
    files = {path.name: path.read_text(encoding="utf-8") for path in sorted(TOY.iterdir())}
    return Sources("toy", files | shared_headers(files))


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    """Every test has a build cache of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> BuildCache:
    """A build cache that the tests of a file share."""
    return BuildCache(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def pack():
    """Pack arrays of shape (batch, components) into the integers that a kernel takes."""

    def pack_arrays(*arrays: np.ndarray) -> ctypes.Array[ctypes.c_int64]:
        numbers = [
            number
            for array in arrays
            for number in (array.ctypes.data, *(s // array.itemsize for s in array.strides))
        ]
        return (ctypes.c_int64 * len(numbers))(*numbers)

    return pack_arrays


class Counter:
    """A compiler that keeps count of the libraries it is asked for."""

    def __init__(self, folder: Path, command: str) -> None:
        self.log = folder / "compilations"
        self.script = folder / "counting-compiler"
        self.script.write_text(
            "#!/bin/sh\n"
            f'case "$*" in *-shared*) echo x >> {shlex.quote(str(self.log))};; esac\n'
            f'exec {command} "$@"\n'
        )
        self.script.chmod(0o755)

    @property
    def compilations(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


@pytest.fixture
def counter(tmp_path, monkeypatch):
    counter = Counter(tmp_path, shlex.join(host_compiler().command))
    monkeypatch.setenv(COMPILER_VARIABLE, str(counter.script))
    return counter
