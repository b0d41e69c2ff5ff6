"""One at a time: threads of this process, and all processes that share a folder.

A lock is a file that the system forgets with the process that holds it, so nothing outlives a kill.
It only saves work: where there are no locks, or nobody ends in time, all go on.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

#: Seconds after which one that is stopped, or on a machine that no longer answers, is overtaken.
PATIENCE = 600.0
_LEAST_PAUSE, _LONGEST_PAUSE = 0.01, 0.2

# Locks of files do not hold off threads of the same process. A fork copies a lock that some thread
# holds and not the thread, so locks are a process's own.
_threads: dict[tuple[int, str], threading.Lock] = {}


@contextlib.contextmanager
def exclusively(path: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Enter when nobody else is inside with this path, or when patience has run out.

    Args:
        path:     file that stands for the lock, in a folder that exists; removed at the end.
        patience: seconds to wait at most.
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
    """Return the locked file, or ``None`` where it cannot be had."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return None
    pause = 0.0
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:  # a folder that may only be read; whoever must write there will say so
            return None
        try:
            # This lock, unlike that of flock, is not inherited by a fork, and known to NFS.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), os.stat(path)):
                return file
        except (BlockingIOError, PermissionError):
            pause = min(2 * pause + _LEAST_PAUSE, _LONGEST_PAUSE)
        except FileNotFoundError:  # its former holder has removed it, as above if another is there
            pass
        except OSError:  # a file system without locks
            os.close(file)
            return None
        os.close(file)
        if monotonic() > deadline:
            return None
        sleep(pause)
