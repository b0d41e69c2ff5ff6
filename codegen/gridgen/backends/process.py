"""Run a program that starts child processes, such as a compiler."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence


def run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program; an exception while waiting kills it and its child processes.

    Raises:
        OSError: the program cannot be started.
    """
    with _interrupts_deferred() as late:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=environment,
            start_new_session=True,  # its own process group, to kill all its processes
        )
    with process:
        try:
            if late:
                raise KeyboardInterrupt
            output, errors = process.communicate()
        except BaseException:
            _end(process)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


@contextlib.contextmanager
def _interrupts_deferred() -> Iterator[list[int]]:
    """Record interrupts instead of raising them, until the program can be killed."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted  # interrupts are raised in the main thread
        return
    usual = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, usual)


def _end(process: subprocess.Popen[str]) -> None:
    if not hasattr(os, "killpg"):
        process.kill()
        return
    with contextlib.suppress(OSError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)
