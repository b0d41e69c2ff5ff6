"""Warnings about a robot file, one for each kind of problem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from gridgen.errors import UrdfError, warn

MAX_PLACES = 3
"""Maximum number of locations in a warning, in addition to the first."""


@dataclass(frozen=True)
class Diagnostic:
    """Problem at one location of a file, printed as ``subject: problem; advice``.

    Attributes:
        kind:    category; the diagnostics of a category share a warning.
        subject: the element, such as ``joint "elbow"``.
        problem: the problem, with the value.
        advice:  remedy.
        line:    line in the file, if known.
    """

    kind: str
    subject: str
    problem: str
    advice: str
    line: int | None = None


_noted: ContextVar[list[str] | None] = ContextVar("_noted", default=None)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Collect the messages of warnings, which are still issued."""
    messages: list[str] = []
    token = _noted.set(messages)
    try:
        yield messages
    finally:
        _noted.reset(token)


def warn_of(diagnostics: Iterable[Diagnostic], source: str) -> None:
    """Issue one warning for each kind of diagnostic in a file, at its first location."""
    kinds: dict[str, list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        kinds.setdefault(diagnostic.kind, []).append(diagnostic)
    for first, *others in kinds.values():
        message = f"{first.subject}: {first.problem}; {first.advice}{_elsewhere(others)}"
        if (messages := _noted.get()) is not None:
            messages.append(message)
        warn(str(UrdfError(message, source, first.line)))


def _elsewhere(others: list[Diagnostic]) -> str:
    """Return the number of other locations, and the first few of them."""
    if not others:
        return ""
    places = [f"{other.subject}{at_line(other.line)}" for other in others[:MAX_PLACES]]
    more = len(others) - len(places)
    return (
        f"; likewise in {len(others)} other place{'s' if len(others) > 1 else ''}: "
        f"{', '.join(places)}{f' and {more} more' if more else ''}"
    )


def at_line(line: int | None) -> str:
    """Return " (line 7)" for use inside a message, empty if the line is unknown."""
    return "" if line is None else f" (line {line})"
