"""A module's files: where a robot's description and source text come from."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path

from gridgen.backends import Rows, Sources
from gridgen.backends.built import Built
from gridgen.errors import ModelError
from gridgen.kernel import Kernel, Work
from gridgen.runtime.module.description import (
    Description,
    read_description,
    read_kernels,
    read_rows,
    read_work,
)
from gridgen.runtime.module.kernels import Kernels
from gridgen.version import __version__


def is_source(name: str) -> bool:
    """Tell whether a file of a module is text for a compiler."""
    return name.endswith((".cuh", ".cu", ".h", ".cpp"))


class FolderModule:
    """A module that ``grid-gen`` wrote.

    Args:
        folder: the folder with ``model.json``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def description(self) -> Description:
        """What is known of the robot."""
        return self._read[0]

    @cached_property
    def kernels(self) -> Kernels:
        """The kernels that there are."""
        return self._read[1]

    @cached_property
    def _read(
        self,
    ) -> tuple[Description, Kernels, dict[str, int], dict[str, Rows], dict[str, Work]]:
        path = self._folder / "model.json"
        try:
            text = path.read_bytes()
        except OSError as error:
            raise ModelError(
                f"{path}: cannot be read ({error.strerror}); the module's folder was moved or "
                "removed: run grid-gen again"
            ) from error
        try:
            model = json.loads(text)
            if model["versions"]["grid-gen"] != __version__:
                raise ValueError(f"version {model['versions']['grid-gen']}")
            return (
                read_description(model),
                read_kernels(model),
                model["room"],
                read_rows(model),
                read_work(model),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"{path}: {error} is missing or damaged; the module was written by another version "
                f"of grid-gen than {__version__}, or changed since: run grid-gen again"
            ) from error

    @cached_property
    def _sources(self) -> Sources:
        paths = sorted(path for path in self._folder.iterdir() if is_source(path.name))
        files = {path.name: path.read_text(encoding="utf-8") for path in paths}
        return Sources(self.description.ident, files, *self._read[2:4], Built(self._folder))

    def sources(self, kernel: Kernel) -> Sources:
        """Return the files of the folder: they define every kernel."""
        return self._sources

    def work(self, kernel: Kernel) -> Work:
        """Return what a state costs a kernel."""
        return self._read[4][kernel.name]
