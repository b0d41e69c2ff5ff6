"""Eviction of the least recently used entries from the cache.

A lookup updates an entry's time of use. A lock on the folder excludes lookups during removal, and
entries used within the last hour remain, so a process can load an entry after its lookup.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Maximum size of the cache [bytes].
LIMIT = 2_000_000_000
#: Prefix of temporary folders, which are being written or removed.
BUILDING = "grid-gen-building-"
#: Folder with the sources of failed builds.
FAILED = "failed"
#: Zig's own cache.
ZIG = "grid-gen-zig"
#: Seconds after its last use during which an entry is not removed.
_GRACE = 3600.0
# One in 128 new entries, chosen by its key, triggers a measurement of the cache: 50 us per entry.
_SELDOM = 128
_KEY = re.compile(r"[0-9a-f]{64}(\.[0-9a-z.]+)?(-[0-9]+)?")
_PATIENCE, _PAUSE = 1.0, 0.001


@dataclass(frozen=True)
class Item:
    """A folder that may be removed."""

    path: Path  #: path of the folder.
    used: float  #: time of last use, as ``time.time`` [s].
    bytes: int  #: size of its files [bytes].


def is_key(name: str) -> bool:
    """Return whether a name is that of an entry."""
    return _KEY.fullmatch(name) is not None


def mark_used(entry: Path) -> bool:
    """Set an entry's time of use; return whether it still exists."""
    with _locked(entry.parent, alone=False):
        try:
            os.utime(entry)
        except FileNotFoundError:
            return False
        except OSError:  # a read-only cache
            return True
    return True


def items(folder: Path) -> list[Item]:
    """Return the folders of a cache, least recently used first."""
    found = []
    for place, is_item in ((folder, _is_item), (folder / FAILED, is_key)):
        with contextlib.suppress(OSError), os.scandir(place) as inside:
            for item in inside:
                if is_item(item.name) and item.is_dir(follow_symlinks=False):
                    with contextlib.suppress(OSError):  # another process has removed it
                        used = item.stat(follow_symlinks=False).st_mtime
                        found.append(Item(Path(item.path), used, _size(item.path)))
    return sorted(found, key=lambda item: item.used)


def trim_occasionally(folder: Path, key: str) -> None:
    """Trim a cache to its limit after a fraction of new entries, selected by key."""
    if is_key(key) and int(key[:8], 16) % _SELDOM == 0:
        with contextlib.suppress(OSError):
            trim(folder, LIMIT, _GRACE)


def trim(folder: Path, limit: int, grace: float) -> int:
    """Remove least recently used entries until a cache is within a limit; return its size [bytes].

    Args:
        folder: folder of the cache.
        limit:  maximum size [bytes].
        grace:  time after its last use during which an entry is not removed [s].
    """
    found = items(folder)
    total = sum(item.bytes for item in found)
    until = time.time() - grace
    for item in found:
        if total <= limit or item.used > until:
            break
        if _remove(folder, item.path, until):
            total -= item.bytes
    return total


def _is_item(name: str) -> bool:
    return is_key(name) or name == ZIG


def _size(folder: str) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def _remove(folder: Path, entry: Path, until: float) -> bool:
    """Remove an entry unless it was used after ``until``; return whether it was removed."""
    import shutil
    import tempfile

    try:
        scratch = tempfile.mkdtemp(prefix=BUILDING, dir=folder)
    except OSError:
        return False
    try:
        with _locked(folder, alone=True):
            if entry.lstat().st_mtime > until:
                return False
            entry.rename(Path(scratch) / "entry")
        return True
    except OSError:  # another process has removed it, or holds the lock
        return False
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path, *, alone: bool) -> Iterator[None]:
    """Hold an exclusive (``alone``) or shared lock of a folder.

    Raises:
        BlockingIOError: another process holds the lock, and ``alone`` is set.
    """
    try:
        import fcntl

        file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except (ImportError, OSError):  # a system without locks
        yield
        return
    try:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if alone:
                    raise
                if time.monotonic() > deadline:  # its holder is stopped
                    break
                time.sleep(_PAUSE)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)  # also for a fork, which has a copy of the file
        os.close(file)
