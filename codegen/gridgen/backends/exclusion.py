"""Mutual exclusion of threads and of processes that share a folder.

The system releases a file lock when its process ends. The lock only avoids duplicate work: without
lock support, or after a timeout, all callers proceed.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

#: Timeout for a holder that is stopped or on an unreachable machine [s].
PATIENCE = 600.0
_MIN_PAUSE, _LONGEST_PAUSE = 0.01, 0.2

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
            pause = min(2 * pause + _MIN_PAUSE, _LONGEST_PAUSE)
        except FileNotFoundError:  # its former holder has removed it; samestat detects a new file
            pass
        except OSError:  # a file system without locks
            os.close(file)
            return None
        os.close(file)
        if monotonic() > deadline:
            return None
        sleep(pause)
