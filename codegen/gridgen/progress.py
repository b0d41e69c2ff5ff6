"""A line on the terminal during long tasks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: Seconds after which a task prints a line.
PATIENCE = 2.0


@contextmanager
def announced(task: str, everywhere: bool = False) -> Iterator[None]:
    """Print the task on a terminal, or ``everywhere``, if it takes longer than ``PATIENCE``."""
    if sys.stderr is None or not (everywhere or sys.stderr.isatty()):
        yield
        return
    timer = threading.Timer(PATIENCE, print, (f"{task} ...",), {"file": sys.stderr})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
