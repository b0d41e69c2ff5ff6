"""Progress, warnings and output streams of ``grid-gen``."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from gridgen.errors import GridGenError, GridGenWarning
from gridgen.progress import Progress, announced


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


def progress_shown(silent: bool) -> AbstractContextManager[Progress]:
    """Show the current step of a run, if it takes long."""
    return announced("starting", progress=(lambda step: None) if silent else None, names_steps=True)


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
