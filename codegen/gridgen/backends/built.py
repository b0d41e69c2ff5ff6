"""Code compiled ahead of time: find the best file for this machine in a module's folder.

``gridgen.backends.library`` creates the files. A manifest lists shared libraries for processors
and archives of GPU kernels, each with its contents and digest.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from gridgen.backends.cpu.processor import NATIVE, lacks, runs_code_of, system
from gridgen.errors import ModelError
from gridgen.functions.types import Dtype

#: File name of the manifest.
MANIFEST = "compiled.json"
#: File with the records of an archive's kernels, by file name.
RECORDS = "records.json"


@dataclass(frozen=True)
class BuiltFile:
    """One file with compiled code."""

    file: str  #: file name.
    target: str  #: processor (``x86-64-v3``, ``native``) or GPU architecture (``sm_90``).
    digest: str  #: SHA-256 of the file.
    functions: tuple[str, ...]  #: names of its functions.
    dtypes: tuple[str, ...]  #: their element types.
    system: str = ""  #: system of a library, such as ``linux``; empty for GPU kernels.
    machine: str = ""  #: machine type of a library, such as ``x86_64``.
    #: identification of the processor of a ``native`` library.
    processor: tuple[str, ...] | None = None

    def has(self, function: str, dtype: str) -> bool:
        """Return whether the file contains a function."""
        return function in self.functions and dtype in self.dtypes

    def obstacle(self) -> str:
        """Return the reason why a library does not run on this machine, empty if it does."""
        if (self.system, self.machine) != (system(), platform.machine()):
            return f"for {self.system} on {self.machine}"
        if self.target == NATIVE:
            runs = runs_code_of(self.processor)
            return "" if runs else f"for another processor than this one ({NATIVE})"
        missing = lacks(self.target)
        if missing is None:
            return f"for {self.target}, and the system does not identify this processor"
        return f"for {self.target}: this processor lacks {' '.join(missing)}" if missing else ""


def manifest_text(files: tuple[BuiltFile, ...]) -> str:
    """Return the manifest of files, one per line."""
    records = ",\n  ".join(json.dumps(asdict(file)) for file in files)
    return f"[\n  {records}\n]\n"


class Built:
    """The compiled code in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def library(self, function: str, dtype: Dtype) -> Path | None:
        """Return the library of a function for the most capable supported processor, if any."""
        found = [file for file in self._libraries(function, dtype) if not _obstacle(file)]
        return self._checked(found[-1]) if found else None

    def lack(self, function: str, dtype: Dtype) -> str:
        """Return the reason why no library provides a function, empty without libraries."""
        those = self._libraries(function, dtype)
        if not those:
            had = any(file.system for file in self._files)
            return f"the module has no compiled {function} for {dtype}" if had else ""
        obstacles = "; ".join(dict.fromkeys(map(_obstacle, those)))
        return f"the module's compiled {function} does not run on this machine: it is {obstacles}"

    def image(
        self, function: str, dtype: Dtype, arch: str, *, rows: bool
    ) -> tuple[bytes, Mapping[str, Any]] | None:
        """Return the image and record of a kernel for a GPU architecture, if available."""
        for file in self._files:
            if not file.system and file.target == arch and file.has(function, dtype):
                with ZipFile(self._checked(file)) as archive:
                    records = json.loads(archive.read(RECORDS))
                    name = image_name(function, dtype, rows=rows)
                    return (archive.read(name), records[name]) if name in records else None
        return None

    @property
    def archs(self) -> tuple[str, ...]:
        """GPU architectures of the compiled kernels."""
        return tuple(file.target for file in self._files if not file.system)

    def _libraries(self, function: str, dtype: Dtype) -> list[BuiltFile]:
        """Return the libraries with a function, least capable processor first."""
        return [file for file in self._files if file.system and file.has(function, dtype)]

    @property
    def _files(self) -> tuple[BuiltFile, ...]:
        return _read_manifest(self._folder)

    def _checked(self, file: BuiltFile) -> Path:
        """Return the path of a file after a check of its digest.

        Raises:
            ModelError: the file is missing or damaged.
        """
        return _checked(self._folder / file.file, file.digest)


def image_name(function: str, dtype: str, *, rows: bool) -> str:
    """Return the name of a kernel's file in an archive."""
    return f"{function}{'_rows' if rows else ''}.{dtype}"


# Cached for the process: a module's folder is replaced atomically, and loaded code stays loaded.
@cache
def _read_manifest(folder: Path) -> tuple[BuiltFile, ...]:
    path = folder / MANIFEST
    if not path.exists():
        return ()
    try:
        return files_of(path.read_bytes())
    except (OSError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            f"{path}: damaged ({error}): run grid-gen again, or remove the file to compile code "
            "at run time"
        ) from error


def files_of(manifest: str | bytes) -> tuple[BuiltFile, ...]:
    """Return the files of a manifest's text."""
    return tuple(map(_file_of, json.loads(manifest)))


def _file_of(record: Mapping[str, Any]) -> BuiltFile:
    def value(of: Any) -> Any:
        return tuple(of) if isinstance(of, list) else of

    return BuiltFile(**{name: value(of) for name, of in record.items()})


@cache
def _obstacle(file: BuiltFile) -> str:
    return file.obstacle()


@cache
def _checked(path: Path, digest: str) -> Path:
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ModelError(
            f"{path}: listed in {MANIFEST}, but cannot be read ({error.strerror}): run grid-gen "
            "again"
        ) from error
    if found != digest:
        raise ModelError(f"{path}: damaged, its digest is not in {MANIFEST}: run grid-gen again")
    return path
