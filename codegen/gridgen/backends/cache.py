"""The build cache: compiled code found again by the content it was made from.

An entry is a folder named by its key. It is filled under a temporary name and then renamed, so it
is either absent or whole, however many processes build it at once; usually one does, and the others
wait. Its manifest holds the digest of every file, so an entry that a full disk or a crash has
damaged is noticed; it is left, and a new one is built beside it. An entry once returned stays in
its place for an hour at least; ``eviction`` keeps the cache within its limit.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from gridgen.backends import eviction
from gridgen.errors import CompileError
from gridgen.user_cache import (
    FOLDER_VARIABLE,
    cache_folder,
    check_private,
    instead_of,
    private_folder,
    reason,
    trusted_folder,
    warn_of,
)

# Part of every key: raised when the layout of an entry changes.
_LAYOUT = 1
_MANIFEST = "manifest.json"
_TEXT = "text"
_LOCK = ".lock"
# Seconds after which what a build leaves when it is killed is taken for that.
_ABANDONED = 24 * 3600.0
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
    """Entries below one folder, or below a temporary one where that cannot be used.

    Args:
        folder: the place; by default the user's cache folder, asked for anew at every build.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        """The folder in which entries are looked up first."""
        return trusted_folder(self._folder) if self._folder else cache_folder()

    def entry(self, key: str, build: Callable[[Path], None]) -> Path:
        """Return the folder of an entry, built if it is absent or damaged.

        Args:
            key:   what :func:`cache_key` returned; more may follow after a full stop.
            build: fills an empty folder with the entry's files. What it raises passes through, and
                   leaves no entry; but after an ``OSError`` it is asked once more, to fill a folder
                   elsewhere.

        Raises:
            CompileError: there is no folder that could be written.
        """
        folder = self.folder
        if found := _find(folder, key):
            return found  # also in a cache that this process may only read
        try:
            return _built(folder, key, build)
        except OSError as error:
            refusal = error
        try:
            return _built(instead_of(folder, refusal), key, build)
        except OSError as error:
            raise CompileError(
                f"{folder}: compiled code cannot be written here ({reason(refusal)}), nor for the "
                f"time being to a temporary folder ({reason(error)}): make room, or set "
                f"${FOLDER_VARIABLE} and $TMPDIR to folders that can be written"
            ) from error

    def variants(self, key: str) -> Iterator[Path]:
        """Yield the whole entries of a key and of those in which more follows after a full stop."""
        folder = self.folder
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            return
        for name in names:
            if name.startswith(key) and _is_there(folder / name):
                yield folder / name

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
        with contextlib.suppress(OSError), _staging_folder(folder) as staging:
            (staging / _TEXT).write_text(text, encoding="utf-8")
            _publish(staging, folder, key)
        return text  # what needs the folder more will say if it cannot be written

    def save_failure(self, key: str, files: Mapping[str, str]) -> Path | None:
        """Write the files of a failed build to a lasting folder, for a bug report.

        Returns:
            the folder; ``None`` if nothing can be written.
        """
        folder = self.folder
        try:
            return _keep(folder, key, files)
        except OSError as error:
            refusal = error
        try:
            return _keep(instead_of(folder, refusal), key, files)
        except OSError:
            return None


def is_whole(entry: Path) -> bool:
    """Return whether an entry is there, this user's alone, with every file as it was written."""
    try:
        check_private(entry)
        digests = json.loads((entry / _MANIFEST).read_bytes())
        return (
            isinstance(digests, dict)
            and len(digests) > 0
            and digests.keys() == _content(entry)
            and all(_digest(entry / name) == digest for name, digest in digests.items())
        )
    except PermissionError as error:
        warn_of(entry, reason(error))
        return False
    except (OSError, ValueError):
        return False


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _content(folder: Path) -> set[str]:
    """Return the names of an entry's files; systems put hidden ones of their own beside them."""
    return {name for name in os.listdir(folder) if name != _MANIFEST and not name.startswith(".")}


def _write_manifest(folder: Path) -> None:
    digests = {name: _digest(folder / name) for name in sorted(_content(folder))}
    (folder / _MANIFEST).write_text(json.dumps(digests), encoding="utf-8")


@contextlib.contextmanager
def _staging_folder(folder: Path) -> Iterator[Path]:
    """Make a folder whose content is to be renamed to its place; remove it if it is not."""
    import shutil
    import tempfile

    _remove_abandoned(private_folder(folder))
    staging = Path(tempfile.mkdtemp(prefix=eviction.BUILDING, dir=folder))
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    """Remove what builds have left behind that were killed."""
    import shutil

    with os.scandir(folder) as items:
        for item in items:
            is_lock = item.name.endswith(_LOCK) and eviction.is_key(item.name[: -len(_LOCK)])
            if not is_lock and not item.name.startswith(eviction.BUILDING):
                continue
            with contextlib.suppress(OSError):  # its builder, or another process, was faster
                if time.time() - item.stat(follow_symlinks=False).st_mtime < _ABANDONED:
                    continue
                if is_lock:
                    os.unlink(item.path)
                else:
                    shutil.rmtree(item.path, ignore_errors=True)


def _names(folder: Path, key: str) -> Iterator[Path]:
    """Yield the names an entry may have: its key, and those that follow after a damaged one."""
    yield folder / key
    for number in itertools.count(1):
        yield folder / f"{key}-{number}"


def _find(folder: Path, key: str) -> Path | None:
    for entry in itertools.takewhile(os.path.exists, _names(folder, key)):
        if _is_there(entry):
            return entry
    return None


def _is_there(entry: Path) -> bool:
    """Return whether an entry is whole, and stays so for now."""
    return is_whole(entry) and eviction.mark_used(entry)


def _built(folder: Path, key: str, build: Callable[[Path], None]) -> Path:
    """Return an entry, built by this or by another thread or process."""
    from gridgen.backends.exclusion import exclusively

    private_folder(folder)
    with exclusively(folder / f"{key}{_LOCK}"):
        if found := _find(folder, key):
            return found
        with _staging_folder(folder) as staging:
            build(staging)
            return _publish(staging, folder, key)


def _publish(staging: Path, folder: Path, key: str) -> Path:
    """Rename a finished folder to the first name that is free or holds the same, whole."""
    _write_manifest(staging)
    for entry in _names(folder, key):
        try:
            staging.rename(entry)
            eviction.trim_occasionally(folder, key)
            return entry
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        if is_whole(entry):
            return entry  # another process was faster
    raise AssertionError("names never end")


def _keep(folder: Path, key: str, files: Mapping[str, str]) -> Path:
    kept = folder / eviction.FAILED / key
    with _staging_folder(folder) as staging:
        for name, text in files.items():
            (staging / name).write_text(text, encoding="utf-8")
        private_folder(kept.parent)
        try:
            staging.rename(kept)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
    return kept  # also if the same text has failed before
