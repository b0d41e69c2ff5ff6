"""What ``grid-gen`` prints while it works, and how it copes with streams that take nothing."""

from __future__ import annotations

import io
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gridgen.errors import GridGenError, GridGenWarning

#: Seconds after which a run that no terminal shows says what it is doing.
PATIENCE = 5.0


def accept_any_alphabet() -> None:
    """Let every name of a robot be printed, escaped where a stream lacks its letters."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(line: str) -> None:
    """Print a line for a person, where there is a place for it."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"grid-gen: {line}", file=sys.stderr, flush=True)


@contextmanager
def printing() -> Iterator[None]:
    """Print to the standard output, whose reader may leave at any time.

    Raises:
        GridGenError: it cannot be written.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        _stop_printing()
    except OSError as error:
        _stop_printing()
        raise GridGenError(f"cannot write to the standard output: {error.strerror}") from error


def _stop_printing() -> None:
    """Send what is still to be printed nowhere, that of the interpreter's end too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@contextmanager
def progress_shown(silent: bool) -> Iterator[Any]:
    """Show the current step on a terminal; elsewhere name the steps of a run that takes long."""
    if silent or sys.stderr is None:
        yield lambda step: None
        return
    if not sys.stderr.isatty():
        log = _StepLog()
        try:
            yield log
        finally:
            log.end()
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda step: status.update(step)


class _StepLog:
    """Says what a run is doing, a line for each step, once it has taken a while."""

    def __init__(self) -> None:
        self._step = "starting"
        self._is_late = False
        self._timer = threading.Timer(PATIENCE, self._begin)
        self._timer.daemon = True
        self._timer.start()

    def __call__(self, step: str) -> None:
        self._step = step
        if self._is_late:
            say(f"{step} ...")

    def _begin(self) -> None:
        self._is_late = True
        say(f"{self._step} ...")

    def end(self) -> None:
        """Say no more."""
        self._timer.cancel()


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print warnings about the robot as one line each, without Python's decoration."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GridGenWarning)
        try:
            yield
        finally:
            for warning in caught:
                say(f"warning: {warning.message}")
