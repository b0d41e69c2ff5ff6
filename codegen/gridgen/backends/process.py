"""Run a program that starts child processes, such as a compiler, and report why it failed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from pathlib import Path, PurePath
from types import FrameType
from typing import Any, TypeVar

from gridgen.errors import CompileError
from gridgen.progress import Progress, Step

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


_Result = TypeVar("_Result")
# Longest wait for a task before signals are handled [s].
_INTERVAL = 0.5


def side_by_side(
    tasks: Mapping[str, Callable[[], _Result]],
    progress: Progress,
    jobs: int | None = None,
) -> Iterator[_Result]:
    """Run tasks in parallel and yield their results in order.

    The first exception cancels all tasks that have not started.

    Args:
        tasks:    tasks by name.
        progress: called with a message for each task.
        jobs:     number of parallel tasks; the default is the number of cores of this process.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    with ended_by_termination(), ThreadPoolExecutor(jobs or cores, "gridgen-compile") as pool:
        # Each task runs in this context: what it reports belongs to the task of the caller.
        futures: dict[str, Future[_Result]] = {
            name: pool.submit(copy_context().run, task) for name, task in tasks.items()
        }
        try:
            for count, (name, future) in enumerate(futures.items(), 1):
                progress(Step.of("compiling", name, count, len(tasks)))
                # With pauses: a signal just before a wait is handled only after it.
                while not wait((future,), timeout=_INTERVAL).done:
                    pass
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


# "file:12:5: error: text" of the host compilers, "file(12): error #20-D: text" of NVRTC.
_ERROR = re.compile(
    r"^(?P<file>[^\n]+?)(?::(?P<colon>\d+)(?::\d+)?|\((?P<parenthesis>\d+)\)):"
    r" (?:[a-z]+ )?error(?: #[\w-]+)?: (?P<text>.+)$",
    re.MULTILINE,
)

# Messages of compilers for a full disk.
_DISK_FULL = ("No space left on device", "Disk quota exceeded", "NoSpaceLeft")

# Exit statuses of a program that SIGKILL ended, its own and of a shell: the system sends it when
# memory runs out.
_KILLED = (-9, 128 + 9)
# Messages of compilers without memory, and of drivers whose compiler was killed.
_NO_MEMORY = re.compile(
    "out of memory|virtual memory exhausted|cannot allocate memory|bad_alloc|"
    r"[Kk]illed signal terminated|\(killed\)|^\s*killed\s*$",
    re.IGNORECASE | re.MULTILINE,
)


def compile_error(
    *,
    robot: str,
    function: str,
    compiler: str,
    log: str,
    files: Mapping[str, str],
    keep: Callable[[Mapping[str, str]], Path | None],
    status: int = 1,
) -> CompileError | OSError:
    """Return the error for a failed compilation, an ``OSError`` if the disk is full.

    Args:
        robot:    identifier of the robot.
        function: function and element type.
        compiler: name of the compiler.
        log:      output of the compiler.
        files:    source text: file name -> content.
        keep:     saves the files in a folder and returns it, or None if that fails.
        status:   exit status of the compiler; a negative one is the signal that ended it.
    """
    where = f'robot "{robot}", function {function}: {compiler}'
    if any(reason in log for reason in _DISK_FULL):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if status in _KILLED or _NO_MEMORY.search(log):
        size = sum(map(len, files.values()))
        return CompileError(
            f"{where} ended because memory ran out ({_memory()}): the source has {size >> 10} kB. "
            "Compile fewer functions at a time (by default as many as there are cores), or "
            "load the robot, or generate a module, with a smaller longest_program: longer programs "
            "loop over bodies"
        )
    if status < 0:
        return CompileError(
            f"{where} ended by signal {signal.Signals(-status).name}: it does not say why; try "
            "again, or another compiler ($CXX)"
        )
    found = _ERROR.search(log)
    if found is None:
        lines = [line.strip() for line in log.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        message, excerpt = (errors or lines or ["no reason given"])[0], ""
    else:
        name = PurePath(found["file"]).name
        number = int(found["colon"] or found["parenthesis"])
        message = f"{name}:{number}: {found['text'].strip()}"
        excerpt = numbered_lines(files.get(name, ""), number)
    folder = keep(files)
    source = f"saved in {folder}" if folder else "lost, because the disk is full"
    return CompileError(
        f"{where} rejected the generated code: {message}\n"
        f"{excerpt}"
        f"The source is {source}. This is a bug in gridgen, please report it."
    )


def _memory() -> str:
    """Return the memory of this machine, and of the largest program that this process has run."""
    try:
        import resource

        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ImportError, AttributeError, OSError, ValueError):  # the system does not report it
        return "the system does not report how much"
    largest = peak * (1 if sys.platform == "darwin" else 1024)
    return f"the largest compilation so far used {largest / 1e9:.1f} of {there / 1e9:.1f} GB"


def numbered_lines(text: str, number: int) -> str:
    """Return line ``number`` (from 1), marked, with its neighbors."""
    lines = text.splitlines()
    if not 1 <= number <= len(lines):
        return ""
    first = max(1, number - 1)
    return "".join(
        f"{'>' if i == number else ' '} {i:5d} | {line}\n"
        for i, line in enumerate(lines[first - 1 : number + 1], first)
    )
