"""The build cache: compiled code found again by the content it was made from.

An entry is a folder named by its key. It is filled under a temporary name and then renamed, so it
is either absent or whole, however many processes build it at once. Its manifest holds the digest of
every file, so an entry that a full disk or a crash has damaged is noticed; it is left, and a new
one is built beside it. As nothing is moved away, an entry once returned stays in its place.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from gridgen.errors import warn
from gridgen.user_cache import FOLDER_VARIABLE, cache_folder

# Part of every key: raised when the layout of an entry changes.
_LAYOUT = 1
_MANIFEST = "manifest.json"
_TEXT = "text"
# What a system may answer when a folder is renamed to a name that is taken.
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)

# A part of a key: anything JSON can spell in one way only.
Part = str | int | tuple[str, ...] | Mapping[str, str]


def cache_key(**parts: Part) -> str:
    """Return the digest of everything that decides the outcome of a build.

    The parts are named and spelt as JSON, so no two sets of parts run together into one text.
    """
    text = json.dumps({"layout": _LAYOUT, **parts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class BuildCache:
    """Entries below one folder, or below a temporary one where that cannot be written.

    Args:
        folder: the place; by default the user's cache folder, asked for anew at every build.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        """The folder in which entries are looked up first."""
        return self._folder or cache_folder()

    def entry(self, key: str, build: Callable[[Path], None]) -> Path:
        """Return the folder of an entry, built if it is absent or damaged.

        Args:
            key:   what :func:`cache_key` returned.
            build: fills an empty folder with the entry's files. What it raises passes through, and
                   leaves no entry.
        """
        folder = self.folder
        if found := _find(folder, key):
            return found  # also in a cache that this process may only read
        try:
            staging = _staging_folder(folder)
        except OSError as error:
            folder = _temporary_folder(folder, error)
            if found := _find(folder, key):
                return found
            staging = _staging_folder(folder)
        try:
            build(staging)
            _write_manifest(staging)
            return _publish(staging, folder, key)
        finally:
            _remove(staging)

    def text(self, key: str, make: Callable[[], str | None]) -> str | None:
        """Return a short text, made if it is not there; kept only where that is possible.

        Args:
            key:  what :func:`cache_key` returned.
            make: returns the text, or ``None`` for one that is not to be kept.
        """
        folder = self.folder
        if found := _find(folder, key):
            with contextlib.suppress(OSError):
                return (found / _TEXT).read_text(encoding="utf-8")
        text = make()
        if text is None:
            return None
        try:
            staging = _staging_folder(folder)
        except OSError:  # what needs the folder more will say so
            return text
        with contextlib.suppress(OSError):
            (staging / _TEXT).write_text(text, encoding="utf-8")
            _write_manifest(staging)
            _publish(staging, folder, key)
        _remove(staging)
        return text

    def keep_failure(self, key: str, files: Mapping[str, str]) -> Path:
        """Write the files of a failed build to a lasting folder, for a bug report; return it."""
        root = self.folder
        try:
            staging = _staging_folder(root)
        except OSError as error:
            root = _temporary_folder(root, error)
            staging = _staging_folder(root)
        for name, text in files.items():
            (staging / name).write_text(text, encoding="utf-8")
        kept = root / "failed" / key
        kept.parent.mkdir(exist_ok=True)
        try:
            staging.rename(kept)
        except OSError:  # the same text has failed before
            _remove(staging)
        return kept


def is_whole(entry: Path) -> bool:
    """Return whether an entry is there, with every file as it was written."""
    try:
        digests = json.loads((entry / _MANIFEST).read_bytes())
        return isinstance(digests, dict) and all(
            _digest(entry / name) == digest for name, digest in digests.items()
        )
    except (OSError, ValueError):
        return False


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_manifest(folder: Path) -> None:
    digests = {path.name: _digest(path) for path in sorted(folder.iterdir())}
    (folder / _MANIFEST).write_text(json.dumps(digests), encoding="utf-8")


def _staging_folder(folder: Path) -> Path:
    import tempfile

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="building-", dir=folder))


def _names(folder: Path, key: str) -> Iterator[Path]:
    """Yield the names an entry may have: its key, and those that follow after a damaged one."""
    yield folder / key
    for number in itertools.count(1):
        yield folder / f"{key}-{number}"


def _find(folder: Path, key: str) -> Path | None:
    for entry in itertools.takewhile(Path.exists, _names(folder, key)):
        if is_whole(entry):
            return entry
    return None


def _publish(staging: Path, folder: Path, key: str) -> Path:
    """Rename a finished folder to the first name that is free or holds the same, whole."""
    for entry in _names(folder, key):
        try:
            staging.rename(entry)
            return entry
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        if is_whole(entry):
            return entry  # another process was faster
    raise AssertionError("names never end")


def _remove(folder: Path) -> None:
    import shutil

    if os.path.lexists(folder):
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _process_folder() -> Path:
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="grid-gen-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.cache
def _warn_once(folder: Path, reason: str) -> None:
    warn(
        f"{folder}: the build cache cannot be written ({reason}); code is compiled anew in every "
        f"process. Set ${FOLDER_VARIABLE} to a folder that can be written."
    )


def _temporary_folder(refused: Path, error: OSError) -> Path:
    """Return this process's own folder, in place of one that cannot be written."""
    _warn_once(refused, error.strerror or str(error))
    return _process_folder()
