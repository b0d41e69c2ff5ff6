"""Where things are kept that can always be made again: a folder that the user alone writes into.

Compiled code is run from there, so what others may have put there is not used: this module makes
every folder in which something is cached, and checks it.
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
    """Return the user's cache folder, or a folder in it; it need not exist.

    It is ``$GRIDGEN_CACHE_DIR``, else the platform's own place, else, where that is not known or is
    not the user's alone, a temporary folder of this process.

    Args:
        names: of folders, each in the one before.
    """
    folder = trusted_folder(named_folder() or _without_home())
    for name in names:
        folder = trusted_folder(folder / name)
    return folder


def named_folder() -> Path | None:
    """Return the cache folder that environment and platform name; ``None`` without a home."""
    try:
        if named := os.environ.get(FOLDER_VARIABLE):
            return Path(named).expanduser().absolute()
        try:
            import platformdirs  # only here: where the folder is named, nobody needs to look for it
        except ImportError:  # of what runs modules no part
            home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            folder = Path(home) / "grid-gen"
        else:
            folder = Path(platformdirs.user_cache_dir("grid-gen"))
    except RuntimeError:  # neither $HOME nor an entry in the system's list of users
        return None
    return folder if folder.is_absolute() else None


def trusted_folder(folder: Path) -> Path:
    """Return a folder, or a temporary one in place of one that others could have filled."""
    try:
        check_private(folder)
    except PermissionError as error:
        return instead_of(folder, error)
    except OSError:  # absent, or no folder: whoever writes into it will say so
        pass
    return folder


def private_folder(folder: Path) -> Path:
    """Make a folder, and those above it, for this user alone; return it.

    Raises:
        OSError: it cannot be made, or is there and not this user's alone.
    """
    for part in (*reversed(folder.parents), folder):
        if not os.path.lexists(part):
            with suppress(FileExistsError):  # another process was faster
                part.mkdir(mode=0o700)
    check_private(folder)
    return folder


def check_private(folder: Path) -> None:
    """Raise unless a folder is there that none but this user and the system's own writes into.

    Raises:
        OSError: it is absent or no folder; a ``PermissionError`` if others may have filled it.
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
    """Return this process's own folder, in place of one that cannot be used; warn once."""
    _warn_once(refused, reason(error))
    return _process_folder(os.getpid())


@functools.cache
def warn_of(place: Path, why: str) -> None:
    """Say once that something in the cache is not loaded."""
    warn(f"{place}: not loaded, it is made anew ({why})")


def reason(error: OSError) -> str:
    """Return what a system says about a folder."""
    return error.strerror or str(error)


@functools.cache
def _warn_once(folder: Path, why: str) -> None:
    warn(
        f"{folder}: the cache cannot be used ({why}); what is compiled is kept in a temporary "
        f"folder until this process ends. Set ${FOLDER_VARIABLE} to a folder that is yours alone."
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
        if os.getpid() == process:  # a fork inherits what its parent does at the end
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)
