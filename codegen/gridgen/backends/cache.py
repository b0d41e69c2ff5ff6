"""Build cache: compiled code, addressed by the content of its sources.

An entry is a folder named by its key. It is written under a temporary name and then renamed, so it
is either absent or complete, even if multiple processes build it. Usually one process builds and
the others wait. A manifest contains the digest of every file. An entry that a full disk or a crash
has damaged is ignored, and a new one gets a suffix. An entry remains for at least one hour after
its last use; ``eviction`` limits the size of the cache.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import monotonic, sleep

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

#: Timeout for a holder that is stopped or on an unreachable machine [s].
PATIENCE = 600.0
_MIN_PAUSE, _MAX_PAUSE = 0.01, 0.2

# File locks do not exclude threads of the same process. A fork copies a locked lock but not its
# thread, so the key contains the process.
_threads: dict[tuple[int, str], threading.Lock] = {}


@contextlib.contextmanager
def exclusively(path: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Acquire the lock of a path, or proceed without it after a timeout.

    Args:
        path:     lock file, in an existing folder; removed at the end.
        patience: maximum waiting time [s].
    """
    deadline = monotonic() + patience
    lock = _threads.setdefault((os.getpid(), str(path)), threading.Lock())
    alone = lock.acquire(timeout=patience)
    try:
        file = _locked(path, deadline) if alone else None
        try:
            yield
        finally:
            if file is not None:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                os.close(file)
    finally:
        if alone:
            lock.release()


def _locked(path: Path, deadline: float) -> int | None:
    """Return the locked file, or ``None`` if it cannot be locked."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return None
    pause = 0.0
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:  # a read-only folder: a later write reports the error
            return None
        try:
            # Unlike flock, a fork does not inherit this lock, and NFS supports it.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), os.stat(path)):
                return file
        except (BlockingIOError, PermissionError):
            pause = min(2 * pause + _MIN_PAUSE, _MAX_PAUSE)
        except FileNotFoundError:  # its former holder has removed it; samestat detects a new file
            pass
        except OSError:  # a file system without locks
            os.close(file)
            return None
        os.close(file)
        if monotonic() > deadline:
            return None
        sleep(pause)


# Part of every key: increment when the layout of an entry changes.
_LAYOUT = 1
_MANIFEST = "manifest.json"
_TEXT = "text"
_LOCK = ".lock"
# Seconds after which temporary files count as left by a killed build.
_ABANDONED = 24 * 3600.0
# Error numbers of a rename to an existing folder.
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)

# A part of a key: a value with a unique JSON representation.
Part = str | int | tuple[str, ...] | Mapping[str, str]


def cache_key(**parts: Part) -> str:
    """Return the digest of all inputs of a build.

    The parts are encoded as JSON, so that different parts give different texts.
    """
    text = json.dumps({"layout": _LAYOUT, **parts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class BuildCache:
    """Entries in a folder, or in a temporary folder if that is not usable.

    Args:
        folder: folder of the cache; by default the user's cache folder, resolved for every build.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        """Folder that is searched first."""
        return trusted_folder(self._folder) if self._folder else cache_folder()

    def entry(self, key: str, build: Callable[[Path], None]) -> Path:
        """Return the folder of an entry; build the entry if it is absent or damaged.

        Args:
            key:   result of :func:`cache_key`, with an optional suffix after a full stop.
            build: writes the entry's files to an empty folder. Its exceptions propagate and leave
                   no entry. After an ``OSError``, it is called again with a temporary folder.

        Raises:
            CompileError: no folder is writable.
        """
        folder = self.folder
        if found := _find(folder, key):
            return found  # also in a read-only cache
        try:
            return _built(folder, key, build)
        except OSError as error:
            refusal = error
        try:
            return _built(instead_of(folder, refusal), key, build)
        except OSError as error:
            raise CompileError(
                f"{folder}: cannot write compiled code to this folder ({reason(refusal)}) or to a "
                f"temporary folder ({reason(error)}): free disk space, or set "
                f"${FOLDER_VARIABLE} and $TMPDIR to writable folders"
            ) from error

    def variants(self, key: str) -> Iterator[Path]:
        """Yield the complete entries of a key, with any suffix."""
        folder = self.folder
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            return
        for name in names:
            if name.startswith(key) and _is_there(folder / name):
                yield folder / name

    def text(self, key: str, make: Callable[[], str | None]) -> str | None:
        """Return a short text from the cache; make and store it if it is absent.

        Args:
            key:  result of :func:`cache_key`.
            make: returns the text, or ``None`` for a result that is not cached.
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
        return text  # a failed write is reported by entry()

    def save_failure(self, key: str, files: Mapping[str, str]) -> Path | None:
        """Save the files of a failed build for a bug report.

        Returns:
            The folder, or ``None`` if it is not writable.
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
    """Return whether an entry exists, is private to this user, and has intact files."""
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
    """Return the names of an entry's files, without hidden files of the system."""
    return {name for name in os.listdir(folder) if name != _MANIFEST and not name.startswith(".")}


def _write_manifest(folder: Path) -> None:
    digests = {name: _digest(folder / name) for name in sorted(_content(folder))}
    (folder / _MANIFEST).write_text(json.dumps(digests), encoding="utf-8")


@contextlib.contextmanager
def _staging_folder(folder: Path) -> Iterator[Path]:
    """Create a temporary folder for an entry; remove it unless it was renamed."""
    import shutil
    import tempfile

    _remove_abandoned(private_folder(folder))
    staging = Path(tempfile.mkdtemp(prefix=eviction.BUILDING, dir=folder))
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files of killed builds."""
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
    """Yield the possible names of an entry: its key, then with suffixes after damaged entries."""
    yield folder / key
    for number in itertools.count(1):
        yield folder / f"{key}-{number}"


def _find(folder: Path, key: str) -> Path | None:
    for entry in itertools.takewhile(os.path.exists, _names(folder, key)):
        if _is_there(entry):
            return entry
    return None


def _is_there(entry: Path) -> bool:
    """Return whether an entry is intact, and protect it from eviction."""
    return is_whole(entry) and eviction.mark_used(entry)


def _built(folder: Path, key: str, build: Callable[[Path], None]) -> Path:
    """Return an entry, built by this or by another thread or process."""
    private_folder(folder)
    with exclusively(folder / f"{key}{_LOCK}"):
        if found := _find(folder, key):
            return found
        with _staging_folder(folder) as staging:
            build(staging)
            return _publish(staging, folder, key)


def _publish(staging: Path, folder: Path, key: str) -> Path:
    """Rename a finished folder to the first free name, or return an intact existing entry."""
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
    saved = folder / eviction.FAILED / key
    with _staging_folder(folder) as staging:
        for name, text in files.items():
            (staging / name).write_text(text, encoding="utf-8")
        private_folder(saved.parent)
        try:
            staging.rename(saved)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
    return saved  # also if the same text has failed before
