"""Reports on long tasks on the standard error: the task, its progress, and how to shorten it.

A terminal shows a row for each task, with a bar where the number of steps is known. Other streams,
those of notebooks among them, get one line for each step.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from gridgen.errors import printable

#: Seconds after which a task is reported.
PATIENCE = 2.0
#: Environment variable that turns all reports off.
QUIET_VARIABLE = "GRIDGEN_QUIET"

Progress = Callable[[str], None]


class Step(str):
    """The text of a step whose number is known.

    Attributes:
        number: its number, from one.
        total:  the number of steps.
    """

    number: int
    total: int

    @classmethod
    def of(cls, doing: str, name: str, number: int, total: int) -> Step:
        """Return the text of a step: ``compiling 2 of 7: name``."""
        step = cls(f"{doing} {number} of {total}: {name}")
        step.number, step.total = number, total
        return step


class _Task:
    """A task under way. Late means that it has taken longer than ``PATIENCE``."""

    def __init__(self, task: str, remedy: str, outer: _Task | None) -> None:
        self._step, self._remedy, self._outer = task, remedy, outer
        self._inner = 0  # tasks inside, which are reported instead
        self._is_late = self._is_over = False
        self._row: Any = None
        self._timer = threading.Timer(PATIENCE, self._fall_late)
        self._timer.daemon = True
        if outer is not None:
            with _screen.lock:
                outer._inner += 1
                outer._remedy = outer._remedy or remedy
        with suppress(RuntimeError):  # the interpreter exits, and starts no more threads
            self._timer.start()

    def __call__(self, step: str) -> None:
        """Report a step."""
        with _screen.lock:
            self._step = step
            self._show()

    def _fall_late(self) -> None:
        with _screen.lock:
            self._is_late = True
            self._show()

    def _show(self) -> None:
        if self._is_late and not self._is_over and not self._inner:
            self._row = _screen.show(self._step, self._remedy, self._row)

    def end(self) -> None:
        """Stop the reports, and let the outer task continue its own."""
        self._timer.cancel()
        with _screen.lock:
            self._is_over = True
            if self._row is not None:
                _screen.remove(self._row)
            if self._outer is not None:
                self._outer._inner -= 1
                self._outer._show()


class _Screen:
    """The standard error: rows of a terminal, lines of any other stream.

    Attributes:
        lock: held while something is written.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._rows: Any = None

    def show(self, step: str, remedy: str, row: Any) -> Any:
        """Show a step, and return its row on a terminal."""
        if sys.stderr is None:
            return None
        text = printable(f"{step} ...{f' ({remedy})' if remedy else ''}")
        with suppress(OSError, ValueError):  # a closed stream
            if not sys.stderr.isatty() or not self._has_rows():
                print(f"grid-gen: {text}", file=sys.stderr, flush=True)
                return None
            total, done = (step.total, step.number - 1) if isinstance(step, Step) else (None, 0)
            if row is None:
                row = self._rows.add_task(text, total=total)
            self._rows.update(row, description=text, total=total, completed=done, visible=True)
        return row

    def _has_rows(self) -> bool:
        """Return whether a terminal shows rows; start them if possible."""
        if self._rows is None:
            try:
                from rich.console import Console
                from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
                from rich.progress import Progress as Rows
            except ImportError:  # a module's run time alone
                return False
            columns = (
                SpinnerColumn(),
                TimeElapsedColumn(),
                BarColumn(bar_width=20),
                TextColumn("{task.description}", markup=False),
            )
            console = Console(stderr=True)
            if not console.is_interactive:
                return False
            # The output of the program itself stays where it is.
            self._rows = Rows(
                *columns,
                console=console,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._rows.start()
        return True

    def remove(self, row: Any) -> None:
        """Remove a row, and with the last one all that a terminal shows."""
        self._rows.remove_task(row)
        if not self._rows.tasks:
            self._rows.stop()
            self._rows = None


_screen = _Screen()
_outer: ContextVar[_Task | None] = ContextVar("outer task", default=None)
_is_silent: ContextVar[bool] = ContextVar("reports are off", default=False)


def _start_anew() -> None:
    """In a forked process, forget what threads of the first one show."""
    global _screen
    _screen = _Screen()
    _outer.set(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


@contextmanager
def announced(
    task: str, remedy: str = "", *, progress: Progress | None = None, names_steps: bool = False
) -> Iterator[Progress]:
    """Report a task that takes longer than ``PATIENCE``; inside another one, in its place.

    Args:
        task:        what is done: ``compiling a kernel``.
        remedy:      what would shorten it.
        progress:    called with each step instead of this report.
        names_steps: whether the task names its steps, so that tasks inside are not reported.

    Yields:
        a function that reports a step.
    """
    is_quiet = os.environ.get(QUIET_VARIABLE, "0") not in ("", "0")
    if progress is not None or is_quiet or _is_silent.get():
        yield from _entered(_is_silent, True, progress or _say_nothing)
        return
    shown = _Task(task, remedy, _outer.get())
    try:
        if names_steps:
            yield from _entered(_is_silent, True, shown)
        else:
            yield from _entered(_outer, shown, shown)
    finally:
        shown.end()


def _entered(variable: ContextVar[Any], value: object, yielded: Progress) -> Iterator[Progress]:
    """Yield with a value of a context variable."""
    token = variable.set(value)
    try:
        yield yielded
    finally:
        variable.reset(token)


def _say_nothing(step: str) -> None:
    pass
