"""Run a program that starts child processes, such as a compiler."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

# The programs that run, by any thread; the lock is held until a started one is among them.
_running: set[subprocess.Popen[str]] = set()
_starting = threading.RLock()
# Time that a termination waits for a program to start [s].
_PATIENCE = 1.0


def run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program; an exception while waiting kills it and its child processes.

    In the main thread, the signal SIGTERM does too; see ``ended_by_termination``.

    Raises:
        OSError: the program cannot be started.
    """
    process: subprocess.Popen[str] | None = None
    try:
        with ended_by_termination():
            with _starting, _signals_deferred():
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
                _running.add(process)
            output, errors = process.communicate()
    except BaseException:
        if process is not None:
            _end(process)
            with process:  # closes its pipes
                pass
        raise
    finally:
        if process is not None:
            _running.discard(process)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


@contextlib.contextmanager
def ended_by_termination() -> Iterator[None]:
    """Kill the programs of all threads if SIGTERM ends this process in the context.

    Without effect in other threads than the main one, and if SIGTERM has a handler.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminated(number: int, frame: FrameType | None) -> None:
    _starting.acquire(timeout=_PATIENCE)  # a thread that starts a program may need this one
    for process in tuple(_running):
        _end(process)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Handle interrupts and terminations at the end of the context: a new program is known then."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled in the main thread
        return
    noted: list[tuple[int, FrameType | None]] = []
    usual: dict[int, Any] = {}
    for one in (signal.SIGINT, signal.SIGTERM):
        if callable(handler := signal.getsignal(one)):
            usual[one] = handler
            signal.signal(one, lambda *signaled: noted.append(signaled))
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
    for number, frame in noted:
        usual[number](number, frame)


def _end(process: subprocess.Popen[str]) -> None:
    if not hasattr(os, "killpg"):
        process.kill()
        return
    with contextlib.suppress(OSError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)
