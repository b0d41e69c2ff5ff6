"""Progress, warnings and output streams of ``grid-gen``."""

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

#: Seconds after which a run without a terminal prints its current step.
PATIENCE = 5.0


def accept_any_alphabet() -> None:
    """Escape characters of names that an output stream cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(line: str) -> None:
    """Print a line to the standard error if it is open."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"grid-gen: {line}", file=sys.stderr, flush=True)


@contextmanager
def printing() -> Iterator[None]:
    """Flush the standard output at the end; a closed pipe is not an error.

    Raises:
        GridGenError: the output cannot be written.
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
    """Discard further output, including that of the interpreter at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@contextmanager
def progress_shown(silent: bool) -> Iterator[Any]:
    """Show the current step on a terminal; without one, print the steps of a long run."""
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
    """Prints a line per step, once a run takes longer than ``PATIENCE``."""

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
        """Stop printing."""
        self._timer.cancel()


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print each warning as one line, without file name and source line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GridGenWarning)
        try:
            yield
        finally:
            for warning in caught:
                say(f"warning: {warning.message}")
