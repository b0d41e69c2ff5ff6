"""The cache: a private folder for files that can be recreated.

Compiled code runs from the cache, so no other user may write to it. This module creates and
validates every cache folder.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
from contextlib import suppress
from pathlib import Path

from gridgen.errors import warn

FOLDER_VARIABLE = "GRIDGEN_CACHE_DIR"
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(*names: str) -> Path:
    """Return the user's cache folder, or a folder in it; it may not exist yet.

    It is ``$GRIDGEN_CACHE_DIR``, else the platform's cache folder. If that is unknown or not
    private, it is a temporary folder of this process.
    """
    folder = trusted_folder(named_folder() or _without_home())
    for name in names:
        folder = trusted_folder(folder / name)
    return folder


def named_folder() -> Path | None:
    """Return the cache folder that environment and platform specify; ``None`` without a home."""
    try:
        if named := os.environ.get(FOLDER_VARIABLE):
            return Path(named).expanduser().absolute()
        try:
            import platformdirs  # only needed without an explicit folder
        except ImportError:  # not a dependency of gridgen-runtime
            home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            folder = Path(home) / "grid-gen"
        else:
            folder = Path(platformdirs.user_cache_dir("grid-gen"))
    except RuntimeError:  # neither $HOME nor an entry in the system's user list
        return None
    return folder if folder.is_absolute() else None


def trusted_folder(folder: Path) -> Path:
    """Return a folder, or a temporary one if other users could have written to it."""
    try:
        check_private(folder)
    except PermissionError as error:
        return instead_of(folder, error)
    except OSError:  # absent, or not a folder: writing to it raises an error
        pass
    return folder


def private_folder(folder: Path) -> Path:
    """Create a folder and its parents for this user alone; return it.

    Raises:
        OSError: it cannot be created, or it exists and is not private.
    """
    for part in (*reversed(folder.parents), folder):
        if not os.path.lexists(part):
            with suppress(FileExistsError):  # another process was faster
                part.mkdir(mode=0o700)
    check_private(folder)
    return folder


def check_private(folder: Path) -> None:
    """Raise unless a folder exists and only this user and the system can write to it.

    Raises:
        OSError: it is absent or not a folder; a ``PermissionError`` if others can write to it.
    """
    status = os.lstat(folder)
    if stat.S_ISLNK(status.st_mode):
        raise PermissionError(errno.EPERM, "it is a link; name the folder that it leads to")
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if os.name != "posix":
        return
    if status.st_uid not in (os.geteuid(), 0):
        raise PermissionError(errno.EPERM, f"it belongs to another user, number {status.st_uid}")
    if status.st_mode & _WRITABLE_BY_OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        raise PermissionError(
            errno.EPERM, f"others may write into it, its mode is {mode:o}: remove it"
        )


def instead_of(refused: Path, error: OSError) -> Path:
    """Return this process's own folder, to replace an unusable one; warn once."""
    _warn_once(refused, reason(error))
    return _process_folder(os.getpid())


@functools.cache
def warn_of(place: Path, why: str) -> None:
    """Warn once that a file in the cache is not loaded."""
    warn(f"{place}: not loaded, will be recreated ({why})")


def reason(error: OSError) -> str:
    """Return the system's message about a folder."""
    return error.strerror or str(error)


@functools.cache
def _warn_once(folder: Path, why: str) -> None:
    warn(
        f"{folder}: the cache cannot be used ({why}); compiled code goes to a temporary "
        f"folder of this process. Set ${FOLDER_VARIABLE} to a folder that is yours alone."
    )


def _without_home() -> Path:
    return instead_of(Path("~"), FileNotFoundError(errno.ENOENT, "there is no home folder"))


@functools.cache
def _process_folder(process: int) -> Path:
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="grid-gen-")

    def remove() -> None:
        if os.getpid() == process:  # a fork inherits the parent's exit handlers
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)
