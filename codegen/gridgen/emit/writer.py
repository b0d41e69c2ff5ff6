"""Putting a module's folder in its place, whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gridgen.emit.render import MODEL_FILE
from gridgen.errors import OptionError


def write_folder(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files beside ``folder``, then rename them into place.

    A module that is already there is replaced; a run that fails leaves it as it was.

    Raises:
        OptionError: the folder exists and is not a module, or it cannot be written.
    """
    if folder.exists() and not (folder / MODEL_FILE).is_file():
        raise OptionError(
            f"{folder} exists and is not a module of grid-gen (it has no {MODEL_FILE}): "
            "choose another --output or --name"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            fresh, old = Path(scratch) / "new", Path(scratch) / "old"
            fresh.mkdir()
            for name, content in files.items():
                data = content.encode("utf-8") if isinstance(content, str) else content
                (fresh / name).write_bytes(data)
            if folder.exists():
                folder.rename(old)
            try:
                fresh.rename(folder)
            except OSError:
                if old.exists():
                    old.rename(folder)
                raise
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise OptionError(f"cannot write {folder}: {error}") from error
