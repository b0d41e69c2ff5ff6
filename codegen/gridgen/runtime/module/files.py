"""A module's files: the robot's description and source text."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from gridgen.backends import Sources
from gridgen.backends.built import Built
from gridgen.errors import ModelError
from gridgen.kernel import Kernel, Work
from gridgen.runtime.module.description import ModuleRecord, RobotRecord
from gridgen.runtime.module.kernels import Kernels
from gridgen.template_root import SHARED_FOLDER
from gridgen.version import MODULE_FORM, __version__

#: The file that holds a ``ModuleRecord``.
MODEL_FILE = "model.json"
# A line that includes a shared header: in memory, and in a module's folder.
_FLAT, _PLACED = '#include "gridgen', f'#include "{SHARED_FOLDER}gridgen'


def placed(files: Mapping[str, str]) -> dict[str, str]:
    """Return files as they are in a module's folder: shared headers in a folder of their own."""
    shared = {SHARED_FOLDER + name: text for name, text in files.items() if is_shared(name)}
    own = {name: text for name, text in files.items() if not is_shared(name)}
    return {name: text.replace(_FLAT, _PLACED) for name, text in own.items()} | shared


def _flat(files: Mapping[str, str]) -> dict[str, str]:
    """Return the source text of a module's folder as it is compiled: all in one folder."""
    return {
        name.removeprefix(SHARED_FOLDER): text.replace(_PLACED, _FLAT)
        for name, text in files.items()
        if is_source(name)
    }


def is_shared(name: str) -> bool:
    """Return whether a file is a header of every robot; no robot's name begins so."""
    return name.startswith("gridgen") and is_source(name)


def is_source(name: str) -> bool:
    """Return whether a file of a module is source text."""
    return name.endswith((".cuh", ".cu", ".h", ".hpp", ".cpp"))


class WholeModule(ABC):
    """A module whose files define every kernel."""

    @property
    @abstractmethod
    def _record(self) -> ModuleRecord:
        """Content of ``model.json``."""

    @abstractmethod
    def _texts(self) -> Mapping[str, str]:
        """Return text by file name."""

    @property
    def _built(self) -> Built | None:
        return None

    @property
    def description(self) -> RobotRecord:
        """Description of the robot."""
        return self._record.robot

    @property
    def kernels(self) -> Kernels:
        """The kernels."""
        return self._record.kernels

    def work(self, kernel: Kernel) -> Work:
        """Return the work of a kernel per state."""
        return self._record.work[kernel.name]

    def sources(self, kernel: Kernel) -> Sources:
        """Return the files to compile: they define every kernel."""
        return self._sources

    @cached_property
    def _sources(self) -> Sources:
        record, files = self._record, _flat(self._texts())
        return Sources(record.robot.ident, files, record.scratch, record.rows, self._built)


class FolderModule(WholeModule):
    """A module that ``grid-gen`` wrote."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def _record(self) -> ModuleRecord:
        """Content of ``model.json``."""
        path = self._folder / MODEL_FILE
        try:
            text = path.read_bytes()
        except OSError as error:
            raise ModelError(
                f"{path}: cannot be read ({error.strerror}); the module's folder was moved or "
                "removed: run grid-gen again"
            ) from error
        try:
            model = json.loads(text)
            form, version = (model["versions"].get(name) for name in ("module", "grid-gen"))
            if form != MODULE_FORM:
                raise ModelError(
                    f"{path}: version {version} of grid-gen wrote it in form {form}, and version "
                    f"{__version__} runs form {MODULE_FORM}: run grid-gen again, or install "
                    "the other version"
                )
            return ModuleRecord.from_data(model)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"{path}: {error} is missing or damaged; the module was written by another version "
                f"of grid-gen than {__version__}, or changed since: run grid-gen again"
            ) from error

    def _texts(self) -> Mapping[str, str]:
        paths = sorted((*self._folder.glob("*"), *self._folder.glob(f"{SHARED_FOLDER}*")))
        return {
            path.relative_to(self._folder).as_posix(): path.read_text(encoding="utf-8")
            for path in paths
            if is_source(path.name)
        }

    @property
    def _built(self) -> Built:
        return Built(self._folder)
